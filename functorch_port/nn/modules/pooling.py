"""Pooling layers."""

from __future__ import annotations

from typing import Any

from ..._tensor.tensor import Tensor
from .. import functional as F
from .._conversion import ntuple
from .._module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


class _MaxPoolNd(Module):
    """The base of the max-pooling layers."""

    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    return_indices: bool
    ceil_mode: bool

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def _arguments(self) -> tuple[Any, ...]:
        return self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """Max-pooling of sequences, (N, C, L) or (C, L); the arguments are those of `MaxPool2d`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool1d.html
    """

    def forward(self, input: Tensor) -> Any:
        return F.max_pool1d(input, *self._arguments())


class MaxPool2d(_MaxPoolNd):
    """Max-pooling of images, (N, C, H, W) or (C, H, W).

    Args:
        kernel_size: size of the window: a number, or one per spatial dimension, as for the next three.
        stride: stride of the window; default `kernel_size`.
        padding: padding by minus infinity on both sides, at most half the window.
        dilation: distance between the elements of a window.
        return_indices: also return the indices of the maxima.
        ceil_mode: round the output size up, so that the last window may extend past the end.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.MaxPool2d(2)(torch.arange(16.).view(1, 4, 4))
        tensor([[[ 5.,  7.],
                 [13., 15.]]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool2d.html
    """

    def forward(self, input: Tensor) -> Any:
        return F.max_pool2d(input, *self._arguments())


class MaxPool3d(_MaxPoolNd):
    """Max-pooling of volumes, (N, C, D, H, W) or (C, D, H, W); the arguments are those of `MaxPool2d`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool3d.html
    """

    def forward(self, input: Tensor) -> Any:
        return F.max_pool3d(input, *self._arguments())


class _AvgPoolNd(Module):
    """The base of the average-pooling layers."""

    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]
    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """Average-pooling of sequences, (N, C, L) or (C, L); the arguments are those of `AvgPool2d` but the last.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool1d.html
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(stride if stride is not None else kernel_size)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


def _single(value: Any) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


class _AvgPool2dOr3d(_AvgPoolNd):
    """The base of `AvgPool2d` and `AvgPool3d`."""

    __constants__ = [*_AvgPoolNd.__constants__, "divisor_override"]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def _arguments(self) -> tuple[Any, ...]:
        window = self.kernel_size, self.stride, self.padding
        return *window, self.ceil_mode, self.count_include_pad, self.divisor_override


class AvgPool2d(_AvgPool2dOr3d):
    """Average-pooling of images, (N, C, H, W) or (C, H, W).

    Args:
        kernel_size: size of the window: a number, or one per spatial dimension, as for the next two.
        stride: stride of the window; default `kernel_size`.
        padding: zero padding on both sides, at most half the window.
        ceil_mode: round the output size up, so that the last window may extend past the end.
        count_include_pad: include the padding in the average.
        divisor_override: divide by this instead of the window size.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.AvgPool2d(2)(torch.arange(16.).view(1, 4, 4))
        tensor([[[ 2.5000,  4.5000],
                 [10.5000, 12.5000]]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool2d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(input, *self._arguments())


class AvgPool3d(_AvgPool2dOr3d):
    """Average-pooling of volumes, (N, C, D, H, W) or (C, D, H, W); the arguments are those of `AvgPool2d`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool3d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool3d(input, *self._arguments())


class _AdaptiveAvgPoolNd(Module):
    """The base of the adaptive average-pooling layers."""

    __constants__ = ["output_size"]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Adaptive average-pooling of sequences, (N, C, L) or (C, L), to a number of elements; see `AdaptiveAvgPool2d`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool1d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Adaptive average-pooling of images, (N, C, H, W) or (C, H, W): the windows follow from the output size.

    Args:
        output_size: a number or one per spatial dimension; None keeps the input's size.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.AdaptiveAvgPool2d((5, 7))(torch.ones(1, 64, 8, 9)).size()
        torch.Size([1, 64, 5, 7])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool2d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Adaptive average-pooling of volumes, (N, C, D, H, W) or (C, D, H, W); see `AdaptiveAvgPool2d`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool3d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPoolNd(Module):
    """The base of the adaptive max-pooling layers."""

    __constants__ = ["output_size", "return_indices"]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Adaptive max-pooling of sequences, (N, C, L) or (C, L), to a number of elements; see `AdaptiveMaxPool2d`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool1d.html
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Adaptive max-pooling of images, (N, C, H, W) or (C, H, W): the windows follow from the output size.

    Args:
        output_size: a number or one per spatial dimension; None keeps the input's size.
        return_indices: also return the indices of the maxima.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool2d.html
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Adaptive max-pooling of volumes, (N, C, D, H, W) or (C, D, H, W); see `AdaptiveMaxPool2d`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool3d.html
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _LPPoolNd(Module):
    """The base of the power-average pooling layers."""

    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def _arguments(self) -> tuple[Any, ...]:
        return float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """Power-average pooling of sequences, (N, C, L) or (C, L); the arguments are those of `LPPool2d`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LPPool1d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, *self._arguments())


class LPPool2d(_LPPoolNd):
    """Power-average pooling of images, (N, C, H, W) or (C, H, W): ``(sum of x ** p) ** (1 / p)`` over windows.

    Args:
        norm_type: p; infinity gives the largest absolute value.
        kernel_size: size of the window.
        stride: stride of the window; default `kernel_size`.
        ceil_mode: round the output size up, so that the last window may extend past the end.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.LPPool2d(2, 2)(torch.tensor([[[3., 0.], [0., 4.]]]))
        tensor([[[5.]]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LPPool2d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, *self._arguments())


class LPPool3d(_LPPoolNd):
    """Power-average pooling of volumes, (N, C, D, H, W) or (C, D, H, W); the arguments are those of `LPPool2d`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LPPool3d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, *self._arguments())


class _FractionalMaxPoolNd(Module):
    """The base of the fractional max-pooling layers."""

    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _dimensions: int

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        n = self._dimensions
        self.kernel_size = ntuple(kernel_size, n)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = ntuple(output_size, n) if output_size is not None else None
        self.output_ratio = ntuple(output_ratio, n) if output_ratio is not None else None
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{type(self).__name__} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def _arguments(self) -> tuple[Any, ...]:
        return (
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Fractional max-pooling of images, (N, C, H, W) or (C, H, W): max-pooling with random strides.

    Args:
        kernel_size: size of the window.
        output_size: a number or one per spatial dimension.
        output_ratio: ratio of the output size to the input size, between 0 and 1; in place of `output_size`.
        return_indices: also return the indices of the maxima.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.FractionalMaxPool2d(3, output_ratio=(0.5, 0.6))(torch.ones(2, 4, 50, 30)).size()
        torch.Size([2, 4, 25, 18])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.FractionalMaxPool2d.html
    """

    _dimensions = 2

    def forward(self, input: Tensor) -> Any:
        return F.fractional_max_pool2d(input, *self._arguments())


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Fractional max-pooling of volumes, (N, C, D, H, W) or (C, D, H, W); see `FractionalMaxPool2d`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.FractionalMaxPool3d.html
    """

    _dimensions = 3

    def forward(self, input: Tensor) -> Any:
        return F.fractional_max_pool3d(input, *self._arguments())


class _MaxUnpoolNd(Module):
    """The base of the max-unpooling layers."""

    _dimensions: int

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        n = self._dimensions
        self.kernel_size = ntuple(kernel_size, n)
        self.stride = ntuple(stride if stride is not None else kernel_size, n)
        self.padding = ntuple(padding, n)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """The partial inverse of `MaxPool1d`; see `MaxUnpool2d`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool1d.html
    """

    _dimensions = 1

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """The partial inverse of `MaxPool2d`: puts the maxima back at their indices, and zeros elsewhere.

    A call takes the maxima, their indices, and optionally the ``output_size``, where several are possible.

    Args:
        kernel_size: size of the pooling window.
        stride: stride of the pooling; default `kernel_size`.
        padding: padding of the pooling.

    Example:
        >>> import functorch_port as torch
        >>> pool = torch.nn.MaxPool2d(2, return_indices=True)
        >>> values, places = pool(torch.tensor([[[1., 5.], [2., 3.]]]))
        >>> torch.nn.MaxUnpool2d(2)(values, places)
        tensor([[[0., 5.],
                 [0., 0.]]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool2d.html
    """

    _dimensions = 2

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """The partial inverse of `MaxPool3d`; see `MaxUnpool2d`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool3d.html
    """

    _dimensions = 3

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)
