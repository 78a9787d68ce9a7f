"""Dense layers, convolutions and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._run.bind import function
from ..._tensor.tensor import Tensor
from ._common import require_tensor

_linear_2d, _linear_nd = function("_linear_2d"), function("_linear_nd")
_linear_2d_unbiased, _linear_nd_unbiased = function("_linear_2d_unbiased"), function("_linear_nd_unbiased")
_linear_vector = function("_linear_vector")
_constant_pad = function("constant_pad_nd")

bilinear = function("bilinear")
conv1d, conv2d, conv3d = function("conv1d"), function("conv2d"), function("conv3d")
conv_transpose1d, conv_transpose2d, conv_transpose3d = (function(f"conv_transpose{n}d") for n in (1, 2, 3))


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``.

    Args:
        input: (..., in_features).
        weight: (out_features, in_features).
        bias: (out_features), or None.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.functional.linear(torch.ones(1, 2), torch.tensor([[1., 2.]]), torch.tensor([3.]))
        tensor([[6.]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.linear.html
    """
    require_tensor("linear", "input", 1, input)
    require_tensor("linear", "weight", 2, weight)
    if bias is not None:
        if input.ndim == 2:
            return _linear_2d(input, weight, bias)
        if bias.dtype == input.dtype or input.ndim < 2 or input.is_contiguous():
            return _linear_nd(input, weight, bias)
        return _linear_nd_unbiased(input, weight).add_(bias)  # as PyTorch, so the bias may have its own dtype
    if weight.ndim == 1:
        return _linear_vector(input, weight)
    return (_linear_2d_unbiased if input.ndim == 2 else _linear_nd_unbiased)(input, weight)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """`conv1d` of sequences in the layout (time, batch, channels).

    Args:
        input: (T, B, in_channels).
        weight: (kernel_width, in_channels, out_channels).
        bias: (out_channels).
        pad: number of zeros added at both ends of the sequences.

    Raises:
        RuntimeError: if shapes do not match.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv_tbc.html
    """
    if input.ndim != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.ndim != 3:
        raise RuntimeError("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    if bias.ndim != 1:
        raise RuntimeError("Bias must be 1-D")
    if weight.shape[1] != input.shape[2]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if weight.shape[2] != bias.shape[0]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    return conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Pad the last dimensions of ``input``.

    Args:
        input: the tensor.
        pad: (low, high) of the last dimension, then of the one before it, and so on; negative numbers crop.
        mode: "constant", "reflect", "replicate" or "circular".
        value: fill value of "constant" mode; default 0.

    Raises:
        NotImplementedError: for an unknown mode, or a number of dimensions that the mode does not support.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.functional.pad(torch.tensor([[1., 2., 3.]]), (1, 1), "reflect")
        tensor([[2., 1., 2., 3., 2.]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pad.html
    """
    widths = tuple(int(p) for p in pad)
    if len(widths) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(widths) > 2 * input.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(widths)} and input of dimension {input.ndim}"
        )
    if mode == "constant":
        value = 0 if value is None else value
        return _constant_pad(input, widths, float(value) if float(value) == value else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    n = len(widths) // 2
    if n not in (1, 2, 3) or input.ndim not in (n + 1, n + 2):
        raise NotImplementedError(
            f"Padding size {len(widths)} is not supported for {input.ndim}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    padding: Any = function(f"_{mode}_pad{n}d")
    return padding(input, widths)
