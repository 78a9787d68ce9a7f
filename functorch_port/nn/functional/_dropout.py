"""Dropout: set random elements or channels to zero and scale up the rest."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

from ..._base.layout import memory_order
from ..._run.bind import function
from ..._tensor.creation import zeros
from ..._tensor.tensor import Tensor, wrap
from ...ops.random import dropout_mask
from ._common import require_tensor, write

_dropped, _alpha_dropped = function("_dropped"), function("_alpha_dropped")


def _check_probability(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _mask(input: Tensor, p: float, shape: Sequence[int] | None = None) -> Tensor:
    """A mask that is zero with probability `p` and one otherwise; with ``p == 1`` nothing is drawn."""
    if p == 1:
        return zeros((), dtype=input.dtype)
    order = memory_order(input) if shape is None else None
    return wrap(dropout_mask(input.shape if shape is None else shape, p, input.dtype, order))


def _drop(
    input: Tensor, p: float, training: bool, inplace: bool, shape: Sequence[int] | None = None
) -> Tensor:
    """Apply dropout with a mask of `shape`, which broadcasts against the input."""
    if not training or p == 0 or input.numel() == 0:
        return input
    mask = _mask(input, p, shape)
    out = _dropped(input, mask, float(p))
    return write(input, out) if inplace else out


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, set elements to zero with probability ``p`` and divide the rest by ``1 - p``.

    Args:
        input: any shape.
        p: probability that an element is dropped.
        training: False returns the input unchanged.
        inplace: change the input itself.

    Raises:
        ValueError: if ``p`` is outside [0, 1].

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout.html
    """
    _check_probability(p)
    require_tensor("dropout", "input", 1, input)
    return _drop(input, p, training, inplace)


def _channels(input: Tensor) -> tuple[int, ...]:
    """The shape of a mask with one element per example and channel."""
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return (*input.shape[:2], *(1,) * (input.ndim - 2))


def drop_channels(input: Tensor, p: float, training: bool, inplace: bool, batched: bool = True) -> Tensor:
    """Set whole channels of (N, C, ...), or of (C, ...) if not ``batched``, to zero."""
    if not training or p == 0 or input.numel() == 0:
        return input
    shape = _channels(input) if batched else (input.shape[0], *(1,) * (input.ndim - 1))
    return _drop(input, p, training, inplace, shape)


def _expects(name: str, ranks: str, n: int, got: str) -> str:
    spatial = "1 spatial dimension" if n == 1 else f"{n} spatial dimensions"
    return (
        f"{name}: {got} Note that {name} exists to provide channel-wise dropout on inputs with {spatial}, "
        + (f"a channel dimension, and an optional batch dimension (i.e. {ranks} inputs).")
    )


def _warn_rank(name: str, ranks: str, n: int, rank: int) -> None:
    got = (
        f"Received a {rank}-D input to {name}, which is deprecated and will result in an error in a future release. "
        f"To retain the behavior and silence this warning, please use dropout instead."
    )
    warnings.warn(_expects(name, ranks, n, got), stacklevel=3)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drop whole channels of (N, C, L) or (C, L).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout1d.html
    """
    _check_probability(p)
    if input.ndim not in (2, 3):
        got = f"Expected 2D or 3D input, but received a {input.ndim}D input."
        raise RuntimeError(_expects("dropout1d", "2D or 3D", 1, got))
    return drop_channels(input, p, training, inplace, batched=input.ndim == 3)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drop whole channels of (N, C, H, W); (N, C, L) is treated as in `dropout1d`, with a warning.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout2d.html
    """
    _check_probability(p)
    if input.ndim not in (3, 4):
        _warn_rank("dropout2d", "3D or 4D", 2, input.ndim)
    if input.ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D "
            "dropout behavior is desired - "
            "input is interpreted as shape (N, C, L), where C is the channel dim. This behavior "
            "will change in a future "
            "release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D "
            "channel-wise dropout behavior, please switch to using dropout1d instead.",
            stacklevel=2,
        )
    return drop_channels(input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drop whole channels of (N, C, D, H, W) or (C, D, H, W).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout3d.html
    """
    _check_probability(p)
    if input.ndim not in (4, 5):
        _warn_rank("dropout3d", "4D or 5D", 3, input.ndim)
    return drop_channels(input, p, training, inplace, batched=input.ndim == 5)


def _alpha_drop(input: Tensor, p: float, training: bool, inplace: bool, by_channel: bool) -> Tensor:
    _check_probability(p)
    if not training or p == 0 or input.numel() == 0:
        return input
    mask = _mask(input, p, _channels(input) if by_channel else None)
    if p == 1:
        out = _dropped(input, mask, 1.0)
    else:
        alpha = 1.7580993408473766  # the limit of selu at minus infinity, with the sign turned
        scale = 1.0 / math.sqrt((alpha * alpha * p + 1) * (1 - p))
        out = _alpha_dropped(input, mask, scale, -alpha * scale, alpha * scale * p)
    return write(input, out) if inplace else out


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps the mean and variance of `selu` activations: dropped elements get selu's lowest value.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.alpha_dropout.html
    """
    return _alpha_drop(input, p, training, inplace, by_channel=False)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.feature_alpha_dropout.html
    """
    return _alpha_drop(input, p, training, inplace, by_channel=True)
