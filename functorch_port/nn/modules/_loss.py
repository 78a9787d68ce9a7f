"""What the losses share."""

from __future__ import annotations

from ..._tensor.tensor import Tensor
from .._module import Module
from ..functional._loss import legacy_reduction

__all__ = ["_Loss", "_WeightedLoss"]


class _Loss(Module):
    """Base of the losses: holds the reduction.

    Args:
        size_average, reduce: deprecated; use `reduction`.
        reduction: "none", "mean" or "sum".
    """

    __constants__ = ["reduction"]
    reduction: str

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.reduction = legacy_reduction(size_average, reduce, reduction, stacklevel=4)


class _WeightedLoss(_Loss):
    """Base of the losses with a weight per class or element, kept as a buffer."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.weight: Tensor | None
