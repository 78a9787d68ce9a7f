"""Normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..._base import contexts
from ..._run.bind import function
from ..._tensor.grad_mode import no_grad
from ..._tensor.tensor import Tensor
from ._common import require_tensor

_train, _train_and_track, _evaluate = (
    function("_batch_norm"),
    function("_batch_norm_tracked"),
    function("_batch_norm_eval"),
)
_instance_norm, _instance_norm_tracked = function("_instance_norm"), function("_instance_norm_tracked")
_local_response_norm = function("_local_response_norm")
_layer_norm, _group_norm, _rms_norm = function("layer_norm"), function("group_norm"), function("rms_norm")


def _verify_batch_size(size: Sequence[int]) -> None:
    values = size[0]
    for n in size[2:]:
        values *= n
    if values == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Batch normalization: normalize each channel (dimension 1) over the batch, then scale and shift it.

    Args:
        input: (N, C, ...).
        running_mean, running_var: the statistics used in evaluation; updated in place in training.
        weight, bias: (C) or None.
        training: use the statistics of the batch.
        momentum: weight of the batch in the running statistics.
        eps: added to the variance.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.batch_norm.html
    """
    require_tensor("batch_norm", "input", 1, input)
    if (
        training
        and contexts.state.parts > 1
        and input.ndim > 1
        and input.shape[0] % contexts.state.parts == 0
    ):
        return _norm_by_parts(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if training and (input.ndim >= 2 or input.numel()):
        _verify_batch_size(input.size())
    return batch_norm_values(input, running_mean, running_var, weight, bias, training, momentum, eps)


def _norm_by_parts(
    input: Tensor,
    mean: Tensor | None,
    var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    *rest: Any,
) -> Tensor:
    """`batch_norm` of each part of a batch; the running statistics are those of the first."""
    parts, (rows, channels, *size) = contexts.state.parts, input.shape
    side_by_side = input.reshape(parts, rows // parts, channels, *size).transpose(0, 1)
    mine, theirs, scale, shift = (None if t is None else t.repeat(parts) for t in (mean, var, weight, bias))
    with contexts.state.having(parts=1):
        out = batch_norm(
            side_by_side.reshape(rows // parts, parts * channels, *size), mine, theirs, scale, shift, *rest
        )
    with no_grad():
        for own, made in ((mean, mine), (var, theirs)):
            if own is not None and made is not None:
                own.copy_(made[:channels])
    out = out.reshape(rows // parts, parts, channels, *size)
    return out.transpose(0, 1).reshape(rows, channels, *size)


def batch_norm_values(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: Any,
    eps: float,
) -> Tensor:
    """`batch_norm` that also accepts one value per channel."""
    if training and eps <= 0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    if not training:
        for name, running in (("running_mean", running_mean), ("running_var", running_var)):
            if running is None:
                raise RuntimeError(f"{name} must be defined in evaluation mode")
        return _evaluate(input, running_mean, running_var, weight, bias, eps)
    if input.ndim < 2 and input.numel() == 0:
        return input.clone()  # no channels
    if running_mean is None or running_var is None:
        return _train(input, weight, bias, eps)
    out, mean, var = _train_and_track(input, weight, bias, running_mean, running_var, momentum, eps)
    with no_grad():  # they have no history, inside a transform either
        running_mean._set_value(mean._peek())
        running_var._set_value(var._peek())
    return out


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Instance normalization: normalize each channel of each example, then scale and shift it.

    Args:
        input: (N, C, ...).
        running_mean, running_var: used with ``use_input_stats=False``; else updated in place, with the batch average.
        weight, bias: (C) or None.
        use_input_stats: use the statistics of each example.
        momentum: weight of the batch in the running statistics.
        eps: added to the variance.

    Raises:
        ValueError: if there is only one spatial element.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.instance_norm.html
    """
    require_tensor("instance_norm", "input", 1, input)
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    if use_input_stats and math.prod(input.size()[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    return instance_norm_values(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def _statistics(running: Any, input: Tensor, weight: Tensor | None) -> Any:
    """Running statistics in the dtype of the input; beside a weight, they must be of one that fits."""
    return running if weight is not None else running.to(input.dtype)


def instance_norm_values(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    """`instance_norm` that also accepts a single spatial element."""
    if not use_input_stats:
        if running_mean is None:
            raise RuntimeError(
                "Expected running_mean and running_var to be defined when use_input_stats is false"
            )
        mean, var = _statistics(running_mean, input, weight), _statistics(running_var, input, weight)
        return _evaluate(input, mean, var, weight, bias, eps)
    if running_mean is None or running_var is None:
        return _instance_norm(input, weight, bias, eps)
    mean, var = _statistics(running_mean, input, weight), _statistics(running_var, input, weight)
    out, mean, var = _instance_norm_tracked(input, weight, bias, mean, var, momentum, eps)
    with no_grad():  # they have no history, inside a transform either
        running_mean._set_value(mean.to(running_mean.dtype)._peek())
        running_var._set_value(var.to(running_var.dtype)._peek())
    return out


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divide by ``(k + alpha * m) ** beta``, where m is the mean square over ``size`` neighbouring channels.

    Args:
        input: (N, C, ...), with at least three dimensions.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.local_response_norm.html
    """
    if input.dim() < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality                          input (got {input.dim()} dimensions)"
        )
    if input.numel() == 0:
        return input
    return _local_response_norm(input, size, float(alpha), float(beta), float(k))


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize over the last dimensions to mean 0 and variance 1, then scale and shift elementwise.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.layer_norm.html
    """
    return _layer_norm(input, _shape("layer_norm", normalized_shape), weight, bias, eps)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divide by the root mean square over the last dimensions, then scale elementwise.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.rms_norm.html
    """
    return _rms_norm(input, _shape("rms_norm", normalized_shape), weight, eps)


def _shape(name: str, normalized_shape: Any) -> tuple[int, ...]:
    if isinstance(normalized_shape, int):
        raise TypeError(f"{name}(): argument 'normalized_shape' (position 2) must be tuple of ints, not int")
    return tuple(normalized_shape)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize each group of channels of each example, then scale and shift each channel.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.group_norm.html
    """
    require_tensor("group_norm", "input", 1, input)
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    size = input.shape
    _verify_batch_size([size[0] * size[1] // num_groups, num_groups, *size[2:]])
    return _group_norm(input, num_groups, weight, bias, eps)
