"""Learning-rate schedules: each call of `step` sets ``group["lr"]`` of an optimizer's parameter groups.

In these modules an epoch is one call of `step`, even where a schedule is stepped after every batch. Most schedules are
chainable: ``get_lr`` multiplies the current rate, so several schedules can act on one optimizer.
``_get_closed_form_lr`` computes the rate of any epoch from the initial rate.

Reference: https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate
"""

from .base import LRScheduler as LRScheduler
from .base import _LRScheduler as _LRScheduler
from .by_function import LambdaLR as LambdaLR
from .by_function import MultiplicativeLR as MultiplicativeLR
from .composed import ChainedScheduler as ChainedScheduler
from .composed import SequentialLR as SequentialLR
from .cosine import CosineAnnealingLR as CosineAnnealingLR
from .cosine import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from .cyclic import CyclicLR as CyclicLR
from .cyclic import OneCycleLR as OneCycleLR
from .plateau import ReduceLROnPlateau as ReduceLROnPlateau
from .ramps import ConstantLR as ConstantLR
from .ramps import ExponentialLR as ExponentialLR
from .ramps import LinearLR as LinearLR
from .ramps import MultiStepLR as MultiStepLR
from .ramps import PolynomialLR as PolynomialLR
from .ramps import StepLR as StepLR

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
    "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR",
    "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip

for _name in (*__all__, "_LRScheduler"):
    globals()[_name].__module__ = __name__  # as in PyTorch, for pickles
