"""Fractional max-pooling and max-unpooling."""

from __future__ import annotations

from typing import Any

from ..._tensor.tensor import Tensor
from .. import functional as F
from .._conversion import ntuple
from ..module import Module

__all__ = ["FractionalMaxPool2d", "FractionalMaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"]


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
