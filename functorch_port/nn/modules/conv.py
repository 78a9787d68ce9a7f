"""Convolution layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..._tensor.creation import empty
from ..._tensor.tensor import Tensor
from .. import functional as F
from .. import init
from .._conversion import ntuple
from .._module import Module
from ..parameter import Parameter
from .lazy import LazyModuleMixin, _wait_for_shapes
from .utils import _pair as _pair
from .utils import _reverse_repeat_tuple as _reverse_repeat_tuple
from .utils import _single as _single
from .utils import _triple as _triple

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d",
    "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]  # fmt: skip

_PADDING_WORDS = ("same", "valid")
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """The base of the convolutions."""

    __constants__ = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]
    _dimensions: int
    _is_transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._set_up(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _set_up(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        n = self._dimensions
        _check_channels(in_channels, out_channels, groups)
        stride, dilation = ntuple(stride, n), ntuple(dilation, n)
        _check_padding(padding, stride, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = ntuple(kernel_size, n)
        self.stride = stride
        self.padding = padding if isinstance(padding, str) else ntuple(padding, n)
        self.dilation = dilation
        self.transposed = self._is_transposed
        self.output_padding = ntuple(output_padding, n)
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._padding_for_pad()
        channels = (out_channels, in_channels // groups)
        if self.transposed:
            channels = (in_channels, out_channels // groups)
        self.weight = Parameter(empty((*channels, *self.kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _padding_for_pad(self) -> list[int]:
        """The padding in the format of `functional.pad`: (low, high), last dimension first."""
        if isinstance(self.padding, tuple):
            return [p for p in reversed(self.padding) for _ in range(2)]
        out: list[int] = []
        for d, k in zip(reversed(self.dilation), reversed(self.kernel_size), strict=False):
            total = d * (k - 1) if self.padding == "same" else 0
            out += [total // 2, total - total // 2]
        return out

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly from ``[-1/sqrt(n), 1/sqrt(n)]``, where n is the fan-in."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        conv = _CONVOLUTIONS[self._dimensions]
        if self.padding_mode == "zeros":
            return conv(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        return conv(input, weight, bias, self.stride, 0, self.dilation, self.groups)

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        if self.padding != (0,) * len(self.padding):
            text += f", padding={self.padding}"
        if self.dilation != (1,) * len(self.dilation):
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * len(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def _check_channels(in_channels: int, out_channels: int, groups: int) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")


def _check_padding(padding: Any, stride: tuple[int, ...], padding_mode: str) -> None:
    if isinstance(padding, str):
        if padding not in _PADDING_WORDS:
            raise ValueError(f"Invalid padding string {padding!r}, should be one of {set(_PADDING_WORDS)}")
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(
            f"padding_mode must be one of {set(_PADDING_MODES)}, but got padding_mode='{padding_mode}'"
        )


class Conv1d(_ConvNd):
    """Convolution over sequences; the arguments are those of `Conv2d`.

    Shape:
        (N, C, L) or (C, L); the weight is (out_channels, in_channels / groups, k).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv1d.html
    """

    _dimensions = 1


class Conv2d(_ConvNd):
    """Convolution over images.

    Args:
        in_channels, out_channels: channels of the input and the output.
        kernel_size: size of the kernel: a number or (height, width), as for the next three.
        stride: stride of the kernel.
        padding: number of elements added on both sides; "valid" for none, "same" to keep the size.
        dilation: distance between the elements of the kernel.
        groups: number of independent groups of channels.
        bias: whether to add a bias.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        device, dtype: of the parameters.

    Shape:
        (N, C, H, W) or (C, H, W); the weight is (out_channels, in_channels / groups, kh, kw).

    Example:
        >>> import functorch_port as torch
        >>> conv = torch.nn.Conv2d(16, 33, (3, 5), stride=(2, 1), padding=(4, 2))
        >>> conv(torch.ones(20, 16, 50, 100)).size()
        torch.Size([20, 33, 28, 100])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html
    """

    _dimensions = 2


class Conv3d(_ConvNd):
    """Convolution over volumes; the arguments are those of `Conv2d`.

    Shape:
        (N, C, D, H, W) or (C, D, H, W); the weight is (out_channels, in_channels / groups, kd, kh, kw).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv3d.html
    """

    _dimensions = 3


class _ConvTransposeNd(_ConvNd):
    """The base of the transposed convolutions."""

    _is_transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        Module.__init__(self)
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        n = self._dimensions
        padding, kernel_size = ntuple(padding, n), ntuple(kernel_size, n)
        self._set_up(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        if self.padding_mode != "zeros":
            raise ValueError(f"Only `zeros` padding mode is supported for {type(self).__name__}")
        conv = _TRANSPOSED[self._dimensions]
        return conv(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._output_padding(input, output_size),
            self.groups,
            self.dilation,
        )

    def _output_padding(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """The output padding that gives the requested size."""
        if output_size is None:
            return self.output_padding
        n, wanted = self._dimensions, tuple(output_size)
        lead = 2 if input.dim() == n + 2 else 1
        if len(wanted) == lead + n:
            wanted = wanted[lead:]
        if len(wanted) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or {lead + n} elements "
                f"(got {len(wanted)})"
            )
        least = [
            (input.size(lead + i) - 1) * self.stride[i]
            - 2 * self.padding[i]
            + self.dilation[i] * (self.kernel_size[i] - 1)
            + 1
            for i in range(n)
        ]
        most = [size + stride - 1 for size, stride in zip(least, self.stride, strict=True)]
        if any(not low <= size <= high for low, size, high in zip(least, wanted, most, strict=True)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {least} to {most} "
                f"(for an input of {input.size()[2:]})"
            )
        return tuple(size - low for size, low in zip(wanted, least, strict=True))


_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution over sequences; the arguments are those of `ConvTranspose2d`.

    Shape:
        (N, C, L) or (C, L); the weight is (in_channels, out_channels / groups, k).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose1d.html
    """

    _dimensions = 1


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution over images.

    A transposed convolution maps the output shape of a convolution back to its input shape. With a stride, several
    input sizes have the same output size; `output_padding` (or `output_size` in the call) chooses one.

    Args:
        in_channels, out_channels: channels of the input and the output.
        kernel_size: size of the kernel: a number or (height, width), as for the next three.
        stride: stride of the kernel in the output.
        padding: number of elements cropped on both sides of the output.
        output_padding: number of elements added at the end of the output, less than the stride or the dilation.
        groups: number of independent groups of channels.
        bias: whether to add a bias.
        dilation: distance between the elements of the kernel, a number or (height, width).
        padding_mode: "zeros".
        device, dtype: of the parameters.

    Shape:
        (N, C, H, W) or (C, H, W); the weight is (in_channels, out_channels / groups, kh, kw).

    Raises:
        ValueError: if no output padding gives the requested `output_size`.

    Example:
        >>> import functorch_port as torch
        >>> up = torch.nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1)
        >>> up(torch.ones(1, 16, 6, 6)).size()
        torch.Size([1, 8, 11, 11])
        >>> up(torch.ones(1, 16, 6, 6), output_size=(12, 12)).size()
        torch.Size([1, 8, 12, 12])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose2d.html
    """

    _dimensions = 2


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution over volumes; the arguments are those of `ConvTranspose2d`.

    Shape:
        (N, C, D, H, W) or (C, D, H, W); the weight is (in_channels, out_channels / groups, kd, kh, kw).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose3d.html
    """

    _dimensions = 3


class _LazyConv(LazyModuleMixin):
    """Convolutions that take ``in_channels`` from the first input."""

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    groups: int
    transposed: bool
    weight: Any
    bias: Any

    def _start(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.out_channels = out_channels
        _wait_for_shapes(self, {"weight": True, "bias": bias}, device, dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        channels = (self.out_channels, self.in_channels // self.groups)
        if self.transposed:
            channels = (self.in_channels, self.out_channels // self.groups)
        self.weight.materialize((*channels, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input: Tensor) -> int:
        unbatched = len(self.kernel_size) + 1
        if input.dim() not in (unbatched, unbatched + 1):
            raise RuntimeError(
                f"Expected {unbatched}D (unbatched) or {unbatched + 1}D (batched) input to {type(self).__name__}, but "
                f"got input of size: {input.shape}"
            )
        return input.shape[-unbatched]


class _LazyPlainConv(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._start(out_channels, bias, device, dtype)


class LazyConv1d(_LazyPlainConv, Conv1d):  # type: ignore[misc]
    """`Conv1d` that takes ``in_channels`` from the first input; its other arguments are the same.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConv1d.html
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyPlainConv, Conv2d):  # type: ignore[misc]
    """`Conv2d` that takes ``in_channels`` from the first input; its other arguments are the same.

    Example:
        >>> import functorch_port as torch
        >>> conv = torch.nn.LazyConv2d(8, 3)
        >>> conv(torch.ones(1, 4, 10, 10)).shape
        torch.Size([1, 8, 8, 8])
        >>> conv
        Conv2d(4, 8, kernel_size=(3, 3), stride=(1, 1))

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConv2d.html
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyPlainConv, Conv3d):  # type: ignore[misc]
    """`Conv3d` that takes ``in_channels`` from the first input; its other arguments are the same.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConv3d.html
    """

    cls_to_become = Conv3d


class _LazyTransposedConv(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        given = (kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        super().__init__(0, 0, *given, device, dtype)
        self._start(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyTransposedConv, ConvTranspose1d):  # type: ignore[misc]
    """`ConvTranspose1d` that takes ``in_channels`` from the first input; its other arguments are the same.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConvTranspose1d.html
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposedConv, ConvTranspose2d):  # type: ignore[misc]
    """`ConvTranspose2d` that takes ``in_channels`` from the first input; its other arguments are the same.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConvTranspose2d.html
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposedConv, ConvTranspose3d):  # type: ignore[misc]
    """`ConvTranspose3d` that takes ``in_channels`` from the first input; its other arguments are the same.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConvTranspose3d.html
    """

    cls_to_become = ConvTranspose3d
