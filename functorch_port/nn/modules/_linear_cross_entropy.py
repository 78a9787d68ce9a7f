"""Linear layer and cross entropy in one."""

from __future__ import annotations

import math
from typing import Any

from ..._tensor.tensor import Tensor
from .. import functional as F
from ..functional._linear_loss import LinearCrossEntropyOptions
from ._loss import _WeightedLoss
from .linear import Linear

__all__ = ["LinearCrossEntropyLoss"]


class LinearCrossEntropyLoss(_WeightedLoss):
    """`Linear` and `CrossEntropyLoss` in one; with `options`, the logits are computed in chunks to save memory.

    Args:
        in_features: size of the input's last dimension.
        num_classes: number of classes.
        out_features: further dimensions of the loss.
        bias: whether the linear layer has a bias.
        device, dtype: of the parameters.
        reduction: "none", "mean" or "sum".
        weight: a factor per class.
        ignore_index: a class index that adds nothing to the loss and its gradient.
        label_smoothing: share of the target that is spread evenly over all classes.
        options: how the batch is split into chunks (`LinearCrossEntropyOptions`).

    Shape:
        input (N, in_features) or (in_features); target (N), () or (N, d1, ...).

    Raises:
        RuntimeError: if shapes do not match.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LinearCrossEntropyLoss.html
    """

    __module__ = "functorch_port.nn.modules.loss"  # PyTorch's, which pickles say

    __constants__ = ["num_classes", "out_features", "reduction", "ignore_index", "label_smoothing"]

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight=weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        rows = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape, layer = (self.num_classes, *self.out_features), self.linear
        return F.linear_cross_entropy(
            input,
            layer.weight.reshape(*shape, layer.in_features),
            target,
            linear_bias=None if layer.bias is None else layer.bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, reduction={self.reduction}, "
            f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options={self.options}"
        )
