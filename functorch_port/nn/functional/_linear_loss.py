"""Linear layer and cross entropy in one, without keeping the logits in memory."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

from ..._run.bind import function
from ..._tensor.tensor import Tensor
from ._conv import linear
from ._loss import cross_entropy

_chunked = function("_linear_cross_entropy")

_POLICIES = ("auto", "accurate", "balanced", "compact")


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How `linear_cross_entropy` splits the batch into chunks.

    Attributes:
        allow_retain_graph: accepted and ignored; a graph can always be retained here.
        batch_chunk_size: examples per chunk.
        chunking_method: "aspect_ratio:N" chooses the chunk from the shapes, so that its logits take about 1/N of the
            memory of the input ("aspect_ratio": N is 1). "auto" uses `batch_chunk_size`, or N = 2 if that is None.
            None uses `batch_chunk_size`.
        acc_policy: accepted and ignored; half precision is always computed in float32 here.
        acc_dtype: accepted and ignored, for the same reason.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto"):
            name, colon, factor = self.chunking_method.partition(":")
            if name != "aspect_ratio" or (colon and not (factor.isdigit() and int(factor) > 0)):
                raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")

    def chunk(self, count: int, features: int, classes: int) -> int:
        """Examples per chunk."""
        method, size = self.chunking_method, self.batch_chunk_size
        if method is None or (method == "auto" and size is not None):
            return max(1, count if size is None else min(size, count))
        factor = int(method.partition(":")[2] or 1) if method != "auto" else 2
        wanted = math.ceil(count / math.ceil(classes / features))
        found = min((1 << (wanted - 1).bit_length()) // factor, count)
        if size is not None and size != found:
            raise ValueError(
                f"batch_chunk_size (={size}) and chunking_method ('{method}') give different chunk sizes "
                f"({size} vs {found}); pass only one."
            )
        return max(1, found)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """`cross_entropy` of ``input @ linear_weight.T + linear_bias``.

    Args:
        input: (N, features) or (features).
        linear_weight: (classes, features), or (classes, d1, ..., features) for a loss of several dimensions.
        target: class indices or probabilities, as for `cross_entropy`.
        linear_bias: (classes), or (classes, d1, ...).
        weight: (classes), a factor per class.
        reduction: "none", "mean" or "sum".
        ignore_index: a class index that adds nothing to the loss and its gradient.
        label_smoothing: share of the target that is spread evenly over all classes.
        options: compute the loss in chunks, so that only one chunk's logits are in memory; for very many classes.

    Raises:
        RuntimeError: if shapes do not match.

    Example:
        >>> import functorch_port as torch
        >>> x, head = torch.tensor([[1., 2.]]), torch.eye(3, 2)
        >>> torch.nn.functional.linear_cross_entropy(x, head, torch.tensor([1]))
        tensor(0.4076)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.linear_cross_entropy.html
    """
    _check(input, linear_weight, linear_bias)
    batch, features = tuple(input.shape[:-1]), input.shape[-1]
    classes, inner = linear_weight.shape[0], tuple(linear_weight.shape[1:-1])
    if ignore_index is not None and tuple(target.shape) == (*batch, classes, *inner):
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignored = -100 if ignore_index is None else ignore_index
    if options is not None:
        if (
            inner
            or reduction not in ("mean", "sum", "none")
            or label_smoothing
            or target.dtype.name != "int64"
        ):
            _warn(reduction, label_smoothing, target, inner, linear_bias)
        else:
            rows, wanted = (input, target) if batch else (input.unsqueeze(0), target.unsqueeze(0))
            chunk = options.chunk(rows.shape[0], features, classes)
            out = _chunked(rows, linear_weight, wanted, linear_bias, weight, ignored, reduction, chunk)
            return out.squeeze(0) if not batch and reduction == "none" else out
    if inner:
        linear_weight = linear_weight.reshape(-1, features)
        linear_bias = None if linear_bias is None else linear_bias.reshape(-1)
    scores = linear(input, linear_weight, linear_bias).reshape(*batch, classes, *inner)
    return cross_entropy(
        scores,
        target,
        weight=weight,
        reduction=reduction,
        ignore_index=ignored,
        label_smoothing=label_smoothing,
    )


def _check(input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None) -> None:
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), "
            f"got {input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    wanted = tuple(linear_weight.shape[:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != wanted:
        raise RuntimeError(f"expected linear_bias shape {wanted}, got {tuple(linear_bias.shape)}")
    if linear_weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {input.shape[-1]}), got unbatched input with shape {tuple(input.shape)}"
        )


def _warn(reduction: str, label_smoothing: float, target: Tensor, inner: Any, bias: Tensor | None) -> None:
    warnings.warn(
        "linear_cross_entropy: ``options`` ignored; chunked path needs reduction in {'mean','sum','none'}, "
        "label_smoothing == 0, target.dtype == int64, out_features == (). Got "
        f"reduction={reduction!r}, label_smoothing={label_smoothing}, target.dtype={target.dtype}, "
        f"out_features={inner}, tracing=False, linear_bias.shape={tuple(bias.shape) if bias is not None else None}.",
        stacklevel=3,
    )
