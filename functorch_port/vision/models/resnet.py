"""ResNet, ResNeXt and Wide ResNet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..._tensor.tensor import Tensor
from ...nn import (
    AdaptiveAvgPool2d,
    BatchNorm2d,
    Conv2d,
    GroupNorm,
    Linear,
    MaxPool2d,
    Module,
    ReLU,
    Sequential,
    init,
)
from ._api import weights_of
from ._utils import _ovewrite_named_param, builder

__all__ = [
    "ResNeXt101_32X8D_Weights", "ResNeXt101_64X4D_Weights", "ResNeXt50_32X4D_Weights", "ResNet", "ResNet101_Weights",
    "ResNet152_Weights", "ResNet18_Weights", "ResNet34_Weights", "ResNet50_Weights", "Wide_ResNet101_2_Weights",
    "Wide_ResNet50_2_Weights", "resnet101", "resnet152", "resnet18", "resnet34", "resnet50", "resnext101_32x8d",
    "resnext101_64x4d", "resnext50_32x4d", "wide_resnet101_2", "wide_resnet50_2",
]  # fmt: skip

_Norm = Callable[..., Module]


def conv3x3(in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> Conv2d:
    """A 3 by 3 convolution without bias, which keeps the size at stride 1."""
    return Conv2d(in_planes, out_planes, 3, stride, dilation, dilation, groups, bias=False)


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> Conv2d:
    """A 1 by 1 convolution without bias."""
    return Conv2d(in_planes, out_planes, 1, stride, bias=False)


class _Block(Module):
    """A residual block: the sum of the input, maybe resampled, and of its convolutions."""

    expansion = 1
    downsample: Module | None

    @property
    def last(self) -> Module:
        """The last normalization of the branch."""
        return self.bn2

    def _branch(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        out = self._branch(x)
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class BasicBlock(_Block):
    """Two 3 by 3 convolutions with a shortcut around them.

    Args:
        inplanes: channels of the input.
        planes: channels of the result.
        stride: of the first convolution. Default: 1.
        downsample: makes the input fit the sum. Default: nothing.
        groups, base_width, dilation: must be 1, 64 and 1.
        norm_layer: makes a normalization of so many channels. Default: `BatchNorm2d`.

    Raises:
        ValueError: ``groups`` or ``base_width`` is another number.
        NotImplementedError: ``dilation`` is.
    """

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: _Norm | None = None,
    ) -> None:
        super().__init__()
        if (groups, base_width) != (1, 64):
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        norm = norm_layer or BatchNorm2d
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm(planes)
        self.relu = ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm(planes)
        self.downsample = downsample
        self.stride = stride

    def _branch(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        return self.bn2(self.conv2(x))


class Bottleneck(_Block):
    """A 3 by 3 convolution between two of 1 by 1, with a shortcut around them. The 3 by 3 one has the stride.

    Args:
        inplanes: channels of the input.
        planes: a quarter of the channels of the result.
        stride: of the 3 by 3 convolution. Default: 1.
        downsample: makes the input fit the sum. Default: nothing.
        groups: of the 3 by 3 convolution. Default: 1.
        base_width: 64ths of ``planes`` that a group has as channels. Default: 64.
        dilation: of the 3 by 3 convolution. Default: 1.
        norm_layer: makes a normalization of so many channels. Default: `BatchNorm2d`.
    """

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: _Norm | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or BatchNorm2d
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = conv1x1(inplanes, width)
        self.bn1 = norm(width)
        self.conv2 = conv3x3(width, width, stride, groups, dilation)
        self.bn2 = norm(width)
        self.conv3 = conv1x1(width, planes * self.expansion)
        self.bn3 = norm(planes * self.expansion)
        self.relu = ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    @property
    def last(self) -> Module:
        """The last normalization of the branch."""
        return self.bn3

    def _branch(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.bn3(self.conv3(x))


class ResNet(Module):
    """Four stages of residual blocks, which halve the size and double the channels, and a linear classifier.

    Args:
        block: `BasicBlock` or `Bottleneck`.
        layers: the number of blocks of each stage.
        num_classes: default 1000.
        zero_init_residual: whether each block begins as the identity. Default: False.
        groups, width_per_group: of a `Bottleneck`'s 3 by 3 convolution. Default: 1 and 64.
        replace_stride_with_dilation: for each stage but the first, whether it dilates in place of halving the size.
            Default: none does.
        norm_layer: makes a normalization of so many channels. Default: `BatchNorm2d`.

    Raises:
        ValueError: ``replace_stride_with_dilation`` has not three elements.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.models.resnet import BasicBlock, ResNet
        >>> ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10)(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])

    Reference: https://docs.pytorch.org/vision/stable/models/resnet.html
    """

    def __init__(
        self,
        block: type[_Block],
        layers: list[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: list[bool] | None = None,
        norm_layer: _Norm | None = None,
    ) -> None:
        super().__init__()
        dilated = [False] * 3 if replace_stride_with_dilation is None else replace_stride_with_dilation
        if len(dilated) != 3:
            raise ValueError(
                "replace_stride_with_dilation should be None "
                f"or a 3-element tuple, got {replace_stride_with_dilation}"
            )
        self._norm_layer: _Norm = norm_layer or BatchNorm2d
        self.inplanes = 64
        self.dilation = 1
        self.groups = groups
        self.base_width = width_per_group
        self.conv1 = Conv2d(3, self.inplanes, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = ReLU(inplace=True)
        self.maxpool = MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], 2, dilated[0])
        self.layer3 = self._make_layer(block, 256, layers[2], 2, dilated[1])
        self.layer4 = self._make_layer(block, 512, layers[3], 2, dilated[2])
        self.avgpool = AdaptiveAvgPool2d((1, 1))
        self.fc = Linear(512 * block.expansion, num_classes)
        self._draw(zero_init_residual)

    def _draw(self, zero_init_residual: bool) -> None:
        for module in self.modules():
            if isinstance(module, Conv2d):
                init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, BatchNorm2d | GroupNorm):
                init.constant_(module.weight, 1)
                init.constant_(module.bias, 0)
        if zero_init_residual:
            for module in self.modules():
                if isinstance(module, _Block) and module.last.weight is not None:
                    init.constant_(module.last.weight, 0)

    def _make_layer(
        self, block: type[_Block], planes: int, blocks: int, stride: int = 1, dilate: bool = False
    ) -> Sequential:
        norm, first_dilation = self._norm_layer, self.dilation
        if dilate:
            self.dilation *= stride
            stride = 1
        channels = planes * block.expansion
        downsample = None
        if stride != 1 or self.inplanes != channels:
            downsample = Sequential(conv1x1(self.inplanes, channels, stride), norm(channels))
        make: Any = partial(block, groups=self.groups, base_width=self.base_width, norm_layer=norm)
        layers = [make(self.inplanes, planes, stride, downsample, dilation=first_dilation)]
        self.inplanes = channels
        layers += [make(channels, planes, dilation=self.dilation) for _ in range(blocks - 1)]
        return Sequential(*layers)

    def _forward_impl(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)


def _of(block: type[_Block], *layers: int, **fixed: int) -> Callable[..., ResNet]:
    def make(**kwargs: Any) -> ResNet:
        for name, value in fixed.items():
            _ovewrite_named_param(kwargs, name, value)
        return ResNet(block, [*layers], **kwargs)

    return make


ResNet18_Weights = weights_of("ResNet18_Weights", __name__)
ResNet34_Weights = weights_of("ResNet34_Weights", __name__)
ResNet50_Weights = weights_of("ResNet50_Weights", __name__)
ResNet101_Weights = weights_of("ResNet101_Weights", __name__)
ResNet152_Weights = weights_of("ResNet152_Weights", __name__)
ResNeXt50_32X4D_Weights = weights_of("ResNeXt50_32X4D_Weights", __name__)
ResNeXt101_32X8D_Weights = weights_of("ResNeXt101_32X8D_Weights", __name__)
ResNeXt101_64X4D_Weights = weights_of("ResNeXt101_64X4D_Weights", __name__)
Wide_ResNet50_2_Weights = weights_of("Wide_ResNet50_2_Weights", __name__)
Wide_ResNet101_2_Weights = weights_of("Wide_ResNet101_2_Weights", __name__)

_50, _101 = (3, 4, 6, 3), (3, 4, 23, 3)
resnet18 = builder("resnet18", ResNet18_Weights, _of(BasicBlock, 2, 2, 2, 2), "ResNet with 18 layers.")
resnet34 = builder("resnet34", ResNet34_Weights, _of(BasicBlock, *_50), "ResNet with 34 layers.")
resnet50 = builder("resnet50", ResNet50_Weights, _of(Bottleneck, *_50), "ResNet with 50 layers.")
resnet101 = builder("resnet101", ResNet101_Weights, _of(Bottleneck, *_101), "ResNet with 101 layers.")
resnet152 = builder("resnet152", ResNet152_Weights, _of(Bottleneck, 3, 8, 36, 3), "ResNet with 152 layers.")
resnext50_32x4d = builder(
    "resnext50_32x4d", ResNeXt50_32X4D_Weights, _of(Bottleneck, *_50, groups=32, width_per_group=4),
    "ResNeXt with 50 layers, and 32 groups of 4 channels.",
)  # fmt: skip
resnext101_32x8d = builder(
    "resnext101_32x8d", ResNeXt101_32X8D_Weights, _of(Bottleneck, *_101, groups=32, width_per_group=8),
    "ResNeXt with 101 layers, and 32 groups of 8 channels.",
)  # fmt: skip
resnext101_64x4d = builder(
    "resnext101_64x4d", ResNeXt101_64X4D_Weights, _of(Bottleneck, *_101, groups=64, width_per_group=4),
    "ResNeXt with 101 layers, and 64 groups of 4 channels.",
)  # fmt: skip
wide_resnet50_2 = builder(
    "wide_resnet50_2", Wide_ResNet50_2_Weights, _of(Bottleneck, *_50, width_per_group=128),
    "ResNet with 50 layers, whose blocks are twice as wide inside.",
)  # fmt: skip
wide_resnet101_2 = builder(
    "wide_resnet101_2", Wide_ResNet101_2_Weights, _of(Bottleneck, *_101, width_per_group=128),
    "ResNet with 101 layers, whose blocks are twice as wide inside.",
)  # fmt: skip
