"""MobileNet V2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._tensor.tensor import Tensor
from ...nn import BatchNorm2d, Conv2d, Dropout, Linear, Module, ReLU6, Sequential
from ...nn import functional as F
from ..ops.misc import Conv2dNormActivation
from ._api import weights_of
from ._utils import _make_divisible, builder, draw

__all__ = ["MobileNetV2", "MobileNet_V2_Weights", "mobilenet_v2"]

_Norm = Callable[..., Module]


class InvertedResidual(Module):
    """A wide depthwise convolution between two of 1 by 1, with a shortcut where the shapes allow it.

    Args:
        inp: channels of the input.
        oup: channels of the result.
        stride: 1 or 2.
        expand_ratio: how much wider the middle is.
        norm_layer: makes a normalization of so many channels. Default: `BatchNorm2d`.

    Raises:
        ValueError: for another stride.
    """

    def __init__(
        self, inp: int, oup: int, stride: int, expand_ratio: int, norm_layer: _Norm | None = None
    ) -> None:
        super().__init__()
        self.stride = stride
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        norm = norm_layer or BatchNorm2d
        hidden = round(inp * expand_ratio)
        self.use_res_connect = stride == 1 and inp == oup
        layers: list[Module] = []
        if expand_ratio != 1:
            layers.append(Conv2dNormActivation(inp, hidden, 1, norm_layer=norm, activation_layer=ReLU6))
        self.conv = Sequential(
            *layers,
            Conv2dNormActivation(
                hidden, hidden, stride=stride, groups=hidden, norm_layer=norm, activation_layer=ReLU6
            ),
            Conv2d(hidden, oup, 1, bias=False),
            norm(oup),
        )
        self.out_channels = oup
        self._is_cn = stride > 1

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


#: expansion, channels, blocks and first stride of each stage
_STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


class MobileNetV2(Module):
    """A network of inverted residual blocks for small devices.

    Args:
        num_classes: default 1000.
        width_mult: by which channels are multiplied. Default: 1.0.
        inverted_residual_setting: expansion, channels, blocks and first stride of each stage. Default: the paper's.
        round_nearest: of which the channels are multiples. Default: 8.
        block: default `InvertedResidual`.
        norm_layer: makes a normalization of so many channels. Default: `BatchNorm2d`.
        dropout: default 0.2.

    Raises:
        ValueError: ``inverted_residual_setting`` is no list of four numbers each.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.models import MobileNetV2
        >>> MobileNetV2(num_classes=10, width_mult=0.25)(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])

    Reference: https://docs.pytorch.org/vision/stable/models/mobilenetv2.html
    """

    def __init__(
        self,
        num_classes: int = 1000,
        width_mult: float = 1.0,
        inverted_residual_setting: list[list[int]] | None = None,
        round_nearest: int = 8,
        block: Callable[..., Module] | None = None,
        norm_layer: _Norm | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        norm, block = norm_layer or BatchNorm2d, block or InvertedResidual
        stages: Any = _STAGES if inverted_residual_setting is None else inverted_residual_setting
        if len(stages) == 0 or len(stages[0]) != 4:
            raise ValueError(
                f"inverted_residual_setting should be non-empty or a 4-element list, got {inverted_residual_setting}"
            )
        channels = _make_divisible(32 * width_mult, round_nearest)
        self.last_channel = _make_divisible(1280 * max(1.0, width_mult), round_nearest)
        features: list[Module] = [
            Conv2dNormActivation(3, channels, stride=2, norm_layer=norm, activation_layer=ReLU6)
        ]
        for expansion, width, blocks, stride in stages:
            outputs = _make_divisible(width * width_mult, round_nearest)
            for i in range(blocks):
                features.append(
                    block(channels, outputs, stride if i == 0 else 1, expand_ratio=expansion, norm_layer=norm)
                )
                channels = outputs
        features.append(
            Conv2dNormActivation(channels, self.last_channel, 1, norm_layer=norm, activation_layer=ReLU6)
        )
        self.features = Sequential(*features)
        self.classifier = Sequential(Dropout(p=dropout), Linear(self.last_channel, num_classes))
        draw(self)

    def forward(self, x: Tensor) -> Tensor:
        x = F.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(x.flatten(1))


MobileNet_V2_Weights = weights_of("MobileNet_V2_Weights", __name__)
mobilenet_v2 = builder("mobilenet_v2", MobileNet_V2_Weights, MobileNetV2, "MobileNet V2.")
