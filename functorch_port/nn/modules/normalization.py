"""Layer, group and root-mean-square normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._run.bind import function
from ..._tensor.creation import arange, empty
from ..._tensor.tensor import Tensor
from .. import functional as F
from .. import init
from .._module import Module
from ..parameter import Parameter

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(Module):
    """Normalize over the last dimensions to mean 0 and variance 1, then scale and shift elementwise.

    Args:
        normalized_shape: sizes of the dimensions to normalize over; a number means the last one.
        eps: added to the variance.
        elementwise_affine: whether to scale and shift.
        bias: whether to shift, with `elementwise_affine`.
        device, dtype: of the parameters.

    Shape:
        (N, *) to (N, *).

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.LayerNorm(2, elementwise_affine=False)(torch.tensor([[1., 3.]])).round(decimals=2)
        tensor([[-1.,  1.]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LayerNorm.html
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            value = Parameter(empty(self.normalized_shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}"


class RMSNorm(Module):
    """Divide by the root mean square over the last dimensions, then scale elementwise.

    Args:
        normalized_shape: sizes of the dimensions to normalize over; a number means the last one.
        eps: added to the mean square; default: the machine epsilon of the input's type.
        elementwise_affine: whether to scale.
        device, dtype: of the parameter.

    Shape:
        (N, *) to (N, *).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.RMSNorm.html
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = (
            Parameter(empty(self.normalized_shape, device=device, dtype=dtype))
            if elementwise_affine
            else None
        )
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalize each group of channels of each example, then scale and shift each channel.

    Args:
        num_groups: number of groups.
        num_channels: number of channels, a multiple of `num_groups`.
        eps: added to the variance.
        affine: whether to scale and shift.
        bias: whether to shift, with `affine`.
        device, dtype: of the parameters.

    Shape:
        (N, C, *) to (N, C, *).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.GroupNorm.html
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            value = Parameter(empty(num_channels, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        sizes = f"{self.num_groups}, {self.num_channels}, eps={self.eps}"
        return f"{sizes}, affine={self.affine}, bias={self.bias is not None}"


class LocalResponseNorm(Module):
    """Divide by ``(k + alpha * m) ** beta``, where m is the mean square over neighbouring channels.

    Args:
        size: number of neighbouring channels in the mean.
        alpha: factor of the mean square.
        beta: exponent.
        k: added to the mean square.

    Shape:
        (N, C, ...), with at least three dimensions.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LocalResponseNorm.html
    """

    __constants__ = ["size", "alpha", "beta", "k"]

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """`LocalResponseNorm` of Lua Torch, for old networks: the window is cropped at the first and last channel.

    As in PyTorch, the first channel stays in the window of every later channel. Here the gradient includes that
    term; PyTorch's does not.

    Args:
        size: number of neighbouring channels in the mean.
        alpha: factor of the mean square.
        beta: exponent.
        k: added to the mean square.

    Shape:
        (N, C, H, W).

    Reference: https://github.com/pytorch/pytorch/blob/main/torch/nn/modules/normalization.py
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        reach = int((self.size - 1) / 2)
        place = arange(input.size(1), device=input.device)
        near = (place[:, None] - place).abs() <= reach
        near = (near | ((place == 0) & (place[:, None] > reach))).to(input.dtype)
        total = function("einsum")("dc,nchw->ndhw", near, input**2)
        return input * (total * (self.alpha / self.size) + self.k) ** -self.beta

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
