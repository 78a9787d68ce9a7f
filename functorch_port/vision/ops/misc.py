"""Modules that many models share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..._tensor.creation import ones, zeros
from ..._tensor.tensor import Tensor
from ...nn import (
    AdaptiveAvgPool2d,
    BatchNorm2d,
    BatchNorm3d,
    Conv2d,
    Conv3d,
    Dropout,
    Linear,
    Module,
    ReLU,
    Sequential,
    Sigmoid,
)

__all__ = [
    "MLP", "Conv2dNormActivation", "Conv3dNormActivation", "ConvNormActivation", "FrozenBatchNorm2d", "Permute",
    "SqueezeExcitation",
]  # fmt: skip

_Make = Callable[..., Module]
_Sizes = int | tuple[int, ...]


class FrozenBatchNorm2d(Module):
    """Batch normalization by numbers that training leaves as they are: all four are buffers.

    Args:
        num_features: channels of the input.
        eps: added to the variance. Default: 1e-5.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.ops import FrozenBatchNorm2d
        >>> FrozenBatchNorm2d(3)
        FrozenBatchNorm2d(3, eps=1e-05)

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.FrozenBatchNorm2d.html
    """

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", ones(num_features))
        self.register_buffer("bias", zeros(num_features))
        self.register_buffer("running_mean", zeros(num_features))
        self.register_buffer("running_var", ones(num_features))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        state_dict.pop(f"{prefix}num_batches_tracked", None)  # of a `BatchNorm2d`
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(self, x: Tensor) -> Tensor:
        weight, bias, mean, var = (
            t.reshape(1, -1, 1, 1) for t in (self.weight, self.bias, self.running_mean, self.running_var)
        )
        scale = weight * (var + self.eps).rsqrt()
        return x * scale + (bias - mean * scale)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.weight.shape[0]}, eps={self.eps})"


class ConvNormActivation(Sequential):
    """A convolution, a normalization and an activation; the base of two classes for two and three dimensions.

    Args:
        in_channels, out_channels, stride, groups, dilation: of the convolution.
        kernel_size: default 3.
        padding: default: as much as keeps the size at stride 1.
        norm_layer: makes a normalization of so many channels, or None. Default: `BatchNorm2d`.
        activation_layer: makes the activation, or None. Default: `ReLU`.
        inplace: of the activation, or None to leave it to the class. Default: True.
        bias: of the convolution. Default: it has one if nothing is normalized.
        conv_layer: makes the convolution. Default: `Conv2d`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Sizes = 3,
        stride: _Sizes = 1,
        padding: _Sizes | str | None = None,
        groups: int = 1,
        norm_layer: _Make | None = BatchNorm2d,
        activation_layer: _Make | None = ReLU,
        dilation: _Sizes = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
        conv_layer: Callable[..., Module] = Conv2d,
    ) -> None:
        if padding is None:
            padding = _same(kernel_size, dilation)
        bias = norm_layer is None if bias is None else bias
        layers = [
            conv_layer(
                in_channels,
                out_channels,
                kernel_size,
                stride,
                padding,
                dilation=dilation,
                groups=groups,
                bias=bias,
            )
        ]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer(**_inplace(inplace)))
        super().__init__(*layers)
        self.out_channels = out_channels
        if type(self) is ConvNormActivation:
            warnings.warn(
                "Don't use ConvNormActivation directly, please use Conv2dNormActivation and Conv3dNormActivation"
                " instead."
            )


def _same(kernel_size: _Sizes, dilation: _Sizes) -> _Sizes:
    """The padding that keeps the size."""
    if isinstance(kernel_size, int) and isinstance(dilation, int):
        return (kernel_size - 1) // 2 * dilation
    dims = len(kernel_size) if not isinstance(kernel_size, int) else len(dilation)  # type: ignore[arg-type]
    kernels = (kernel_size,) * dims if isinstance(kernel_size, int) else kernel_size
    steps = (dilation,) * dims if isinstance(dilation, int) else dilation
    return tuple((k - 1) // 2 * d for k, d in zip(kernels, steps))


def _inplace(inplace: bool | None) -> dict[str, bool]:
    return {} if inplace is None else {"inplace": inplace}


class Conv2dNormActivation(ConvNormActivation):
    """A two-dimensional convolution, a normalization and an activation.

    Args:
        in_channels, out_channels, stride, groups, dilation: of the convolution.
        kernel_size: default 3.
        padding: default: as much as keeps the size at stride 1.
        norm_layer: makes a normalization of so many channels, or None. Default: `BatchNorm2d`.
        activation_layer: makes the activation, or None. Default: `ReLU`.
        inplace: of the activation, or None to leave it to the class. Default: True.
        bias: of the convolution. Default: it has one if nothing is normalized.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.ops import Conv2dNormActivation
        >>> Conv2dNormActivation(3, 8, stride=2)(torch.rand(1, 3, 10, 10)).shape
        torch.Size([1, 8, 5, 5])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.Conv2dNormActivation.html
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Sizes = 3,
        stride: _Sizes = 1,
        padding: _Sizes | str | None = None,
        groups: int = 1,
        norm_layer: _Make | None = BatchNorm2d,
        activation_layer: _Make | None = ReLU,
        dilation: _Sizes = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, groups, norm_layer, activation_layer,
            dilation, inplace, bias, Conv2d,
        )  # fmt: skip


class Conv3dNormActivation(ConvNormActivation):
    """A three-dimensional convolution, a normalization and an activation.

    Args:
        in_channels, out_channels, stride, groups, dilation: of the convolution.
        kernel_size: default 3.
        padding: default: as much as keeps the size at stride 1.
        norm_layer: makes a normalization of so many channels, or None. Default: `BatchNorm3d`.
        activation_layer: makes the activation, or None. Default: `ReLU`.
        inplace: of the activation, or None to leave it to the class. Default: True.
        bias: of the convolution. Default: it has one if nothing is normalized.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.Conv3dNormActivation.html
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Sizes = 3,
        stride: _Sizes = 1,
        padding: _Sizes | str | None = None,
        groups: int = 1,
        norm_layer: _Make | None = BatchNorm3d,
        activation_layer: _Make | None = ReLU,
        dilation: _Sizes = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, groups, norm_layer, activation_layer,
            dilation, inplace, bias, Conv3d,
        )  # fmt: skip


class SqueezeExcitation(Module):
    """Scale each channel by a number that two layers find in the means of all channels.

    Args:
        input_channels: of the input.
        squeeze_channels: between the two layers.
        activation: makes that of the first layer. Default: `ReLU`.
        scale_activation: makes that of the second one. Default: `Sigmoid`.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.ops import SqueezeExcitation
        >>> SqueezeExcitation(8, 2)(torch.rand(1, 8, 4, 4)).shape
        torch.Size([1, 8, 4, 4])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.SqueezeExcitation.html
    """

    def __init__(
        self,
        input_channels: int,
        squeeze_channels: int,
        activation: _Make = ReLU,
        scale_activation: _Make = Sigmoid,
    ) -> None:
        super().__init__()
        self.avgpool = AdaptiveAvgPool2d(1)
        self.fc1 = Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = Conv2d(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def _scale(self, input: Tensor) -> Tensor:
        x = self.activation(self.fc1(self.avgpool(input)))
        return self.scale_activation(self.fc2(x))

    def forward(self, input: Tensor) -> Tensor:
        return self._scale(input) * input


class MLP(Sequential):
    """Linear layers, with an activation and dropout after each but the last, which has dropout alone.

    Args:
        in_channels: size of the input.
        hidden_channels: size of each layer's result.
        norm_layer: makes a normalization after each layer but the last. Default: None.
        activation_layer: makes the activation. Default: `ReLU`.
        inplace: of activations and dropout, or None to leave it to the classes. Default: None.
        bias: of the linear layers. Default: True.
        dropout: default 0.0.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.ops import MLP
        >>> MLP(4, [8, 2])(torch.rand(3, 4)).shape
        torch.Size([3, 2])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.MLP.html
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: list[int],
        norm_layer: _Make | None = None,
        activation_layer: _Make | None = ReLU,
        inplace: bool | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        assert activation_layer is not None
        layers: list[Module] = []
        for i, width in enumerate(hidden_channels, 1):
            layers.append(Linear(in_channels, width, bias=bias))
            if i < len(hidden_channels):
                layers += [] if norm_layer is None else [norm_layer(width)]
                layers.append(activation_layer(**_inplace(inplace)))
            layers.append(Dropout(dropout, **_inplace(inplace)))
            in_channels = width
        super().__init__(*layers)


class Permute(Module):
    """Reorder the dimensions, as `torch.permute` does.

    Args:
        dims: the new order.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.Permute.html
    """

    def __init__(self, dims: list[int]) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(self.dims)
