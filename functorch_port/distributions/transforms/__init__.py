"""``torch.distributions.transforms``: maps of random variables, with their inverses and log-determinants.

Reference: https://docs.pytorch.org/docs/stable/distributions.html#module-torch.distributions.transforms
"""

from ._base import Transform as Transform
from ._base import _InverseTransform as _InverseTransform
from ._composed import CatTransform as CatTransform
from ._composed import ComposeTransform as ComposeTransform
from ._composed import IndependentTransform as IndependentTransform
from ._composed import ReshapeTransform as ReshapeTransform
from ._composed import StackTransform as StackTransform
from ._composed import identity_transform as identity_transform
from ._elementwise import AbsTransform as AbsTransform
from ._elementwise import AffineTransform as AffineTransform
from ._elementwise import CumulativeDistributionTransform as CumulativeDistributionTransform
from ._elementwise import ExpTransform as ExpTransform
from ._elementwise import PowerTransform as PowerTransform
from ._elementwise import SigmoidTransform as SigmoidTransform
from ._elementwise import SoftplusTransform as SoftplusTransform
from ._elementwise import TanhTransform as TanhTransform
from ._vectors import CorrCholeskyTransform as CorrCholeskyTransform
from ._vectors import LowerCholeskyTransform as LowerCholeskyTransform
from ._vectors import PositiveDefiniteTransform as PositiveDefiniteTransform
from ._vectors import SoftmaxTransform as SoftmaxTransform
from ._vectors import StickBreakingTransform as StickBreakingTransform

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip

for _name in ("_InverseTransform", *__all__[:-1]):
    globals()[_name].__module__ = __name__  # as in PyTorch, for pickles (the last name is no class)
