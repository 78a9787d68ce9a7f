"""``torch.distributions.transforms``: maps of random variables, with their inverses and log-determinants.

Reference: https://docs.pytorch.org/docs/stable/distributions.html#module-torch.distributions.transforms
"""

from .base import Transform as Transform
from .base import _InverseTransform as _InverseTransform
from .composed import CatTransform as CatTransform
from .composed import ComposeTransform as ComposeTransform
from .composed import IndependentTransform as IndependentTransform
from .composed import ReshapeTransform as ReshapeTransform
from .composed import StackTransform as StackTransform
from .composed import identity_transform as identity_transform
from .elementwise import AbsTransform as AbsTransform
from .elementwise import AffineTransform as AffineTransform
from .elementwise import CumulativeDistributionTransform as CumulativeDistributionTransform
from .elementwise import ExpTransform as ExpTransform
from .elementwise import PowerTransform as PowerTransform
from .elementwise import SigmoidTransform as SigmoidTransform
from .elementwise import SoftplusTransform as SoftplusTransform
from .elementwise import TanhTransform as TanhTransform
from .vectors import CorrCholeskyTransform as CorrCholeskyTransform
from .vectors import LowerCholeskyTransform as LowerCholeskyTransform
from .vectors import PositiveDefiniteTransform as PositiveDefiniteTransform
from .vectors import SoftmaxTransform as SoftmaxTransform
from .vectors import StickBreakingTransform as StickBreakingTransform

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip

for _name in ("_InverseTransform", *__all__[:-1]):
    globals()[_name].__module__ = __name__  # as in PyTorch, for pickles (the last name is no class)
