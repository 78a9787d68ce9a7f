"""Learning-rate schedules: each call of `step` sets ``group["lr"]`` of an optimizer's parameter groups.

In these modules an epoch is one call of `step`, even where a schedule is stepped after every batch. Most schedules are
chainable: ``get_lr`` multiplies the current rate, so several schedules can act on one optimizer.
``_get_closed_form_lr`` computes the rate of any epoch from the initial rate.

Reference: https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate
"""

from ._base import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING
from ._base import LRScheduler as LRScheduler
from ._base import _LRScheduler as _LRScheduler
from ._by_function import LambdaLR as LambdaLR
from ._by_function import MultiplicativeLR as MultiplicativeLR
from ._composed import ChainedScheduler as ChainedScheduler
from ._composed import SequentialLR as SequentialLR
from ._cosine import CosineAnnealingLR as CosineAnnealingLR
from ._cosine import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from ._cyclic import CyclicLR as CyclicLR
from ._cyclic import OneCycleLR as OneCycleLR
from ._plateau import ReduceLROnPlateau as ReduceLROnPlateau
from ._ramps import ConstantLR as ConstantLR
from ._ramps import ExponentialLR as ExponentialLR
from ._ramps import LinearLR as LinearLR
from ._ramps import MultiStepLR as MultiStepLR
from ._ramps import PolynomialLR as PolynomialLR
from ._ramps import StepLR as StepLR

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
    "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR",
    "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip

for _name in (*__all__, "_LRScheduler"):
    globals()[_name].__module__ = __name__  # as in PyTorch, for pickles
