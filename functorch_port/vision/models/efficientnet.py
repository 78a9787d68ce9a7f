"""EfficientNet, and its second version."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..._tensor.tensor import Tensor
from ...nn import (
    AdaptiveAvgPool2d,
    BatchNorm2d,
    Dropout,
    Linear,
    Module,
    Sequential,
    SiLU,
    init,
)
from ..ops.misc import Conv2dNormActivation, SqueezeExcitation
from ..ops.stochastic_depth import StochasticDepth
from ._api import weights_of
from ._utils import _make_divisible, builder, draw

__all__ = [
    "EfficientNet", "EfficientNet_B0_Weights", "EfficientNet_B1_Weights", "EfficientNet_B2_Weights",
    "EfficientNet_B3_Weights", "EfficientNet_B4_Weights", "EfficientNet_B5_Weights", "EfficientNet_B6_Weights",
    "EfficientNet_B7_Weights", "EfficientNet_V2_L_Weights", "EfficientNet_V2_M_Weights", "EfficientNet_V2_S_Weights",
    "efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3", "efficientnet_b4", "efficientnet_b5",
    "efficientnet_b6", "efficientnet_b7", "efficientnet_v2_l", "efficientnet_v2_m", "efficientnet_v2_s",
]  # fmt: skip

_Make = Callable[..., Module]


@dataclass
class _MBConvConfig:
    """A stage: blocks of which the first has the stride.

    Attributes:
        expand_ratio: how much wider a block is inside.
        kernel, stride: of the convolution that has them.
        input_channels, out_channels: of the stage.
        num_layers: the number of blocks.
        block: makes a block.
    """

    expand_ratio: float
    kernel: int
    stride: int
    input_channels: int
    out_channels: int
    num_layers: int
    block: _Make

    @staticmethod
    def adjust_channels(channels: int, width_mult: float, min_value: int | None = None) -> int:
        """The multiple of 8 next to the product."""
        return _make_divisible(channels * width_mult, 8, min_value)

    @property
    def expanded(self) -> int:
        """Channels inside of a block."""
        return self.adjust_channels(self.input_channels, self.expand_ratio)


class MBConvConfig(_MBConvConfig):
    """A stage of `MBConv`.

    Args:
        expand_ratio: how much wider a block is inside.
        kernel, stride: of the convolution that has them.
        input_channels, out_channels, num_layers: of the stage, before they are multiplied.
        width_mult: multiplies channels. Default: 1.0.
        depth_mult: multiplies the number of blocks. Default: 1.0.
        block: makes a block. Default: `MBConv`.
    """

    def __init__(
        self,
        expand_ratio: float,
        kernel: int,
        stride: int,
        input_channels: int,
        out_channels: int,
        num_layers: int,
        width_mult: float = 1.0,
        depth_mult: float = 1.0,
        block: _Make | None = None,
    ) -> None:
        inputs, outputs = (self.adjust_channels(n, width_mult) for n in (input_channels, out_channels))
        layers = math.ceil(num_layers * depth_mult)
        super().__init__(expand_ratio, kernel, stride, inputs, outputs, layers, block or MBConv)


class FusedMBConvConfig(_MBConvConfig):
    """A stage of `FusedMBConv`.

    Args:
        expand_ratio: how much wider a block is inside.
        kernel, stride: of the convolution that has them.
        input_channels, out_channels: of the stage.
        num_layers: the number of blocks.
        block: makes a block. Default: `FusedMBConv`.
    """

    def __init__(
        self,
        expand_ratio: float,
        kernel: int,
        stride: int,
        input_channels: int,
        out_channels: int,
        num_layers: int,
        block: _Make | None = None,
    ) -> None:
        super().__init__(
            expand_ratio, kernel, stride, input_channels, out_channels, num_layers, block or FusedMBConv
        )


class _Block(Module):
    """A residual block whose branch is left out at random."""

    def __init__(self, cnf: _MBConvConfig, layers: list[Module], stochastic_depth_prob: float) -> None:
        super().__init__()
        if cnf.stride not in (1, 2):
            raise ValueError("illegal stride value")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        self.block = Sequential(*layers)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.out_channels = cnf.out_channels

    def forward(self, input: Tensor) -> Tensor:
        result = self.block(input)
        if self.use_res_connect:
            result = self.stochastic_depth(result)
            result += input
        return result


class MBConv(_Block):
    """A wide depthwise convolution with a squeeze-and-excitation, between two of 1 by 1.

    Args:
        cnf: its sizes.
        stochastic_depth_prob: of leaving it out.
        norm_layer: makes a normalization of so many channels.
        se_layer: makes the squeeze-and-excitation.
    """

    def __init__(
        self,
        cnf: _MBConvConfig,
        stochastic_depth_prob: float,
        norm_layer: _Make,
        se_layer: _Make = SqueezeExcitation,
    ) -> None:
        width = cnf.expanded
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=SiLU)
        layers: list[Module] = [] if width == cnf.input_channels else [conv(cnf.input_channels, width, 1)]
        layers.append(conv(width, width, cnf.kernel, cnf.stride, groups=width))
        layers.append(
            se_layer(width, max(1, cnf.input_channels // 4), activation=partial(SiLU, inplace=True))
        )
        layers.append(conv(width, cnf.out_channels, 1, activation_layer=None))
        super().__init__(cnf, layers, stochastic_depth_prob)


class FusedMBConv(_Block):
    """A wide convolution, and one of 1 by 1.

    Args:
        cnf: its sizes.
        stochastic_depth_prob: of leaving it out.
        norm_layer: makes a normalization of so many channels.
    """

    def __init__(self, cnf: _MBConvConfig, stochastic_depth_prob: float, norm_layer: _Make) -> None:
        width = cnf.expanded
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=SiLU)
        if width == cnf.input_channels:
            layers: list[Module] = [conv(width, cnf.out_channels, cnf.kernel, cnf.stride)]
        else:
            layers = [
                conv(cnf.input_channels, width, cnf.kernel, cnf.stride),
                conv(width, cnf.out_channels, 1, activation_layer=None),
            ]
        super().__init__(cnf, layers, stochastic_depth_prob)


class EfficientNet(Module):
    """Stages of `MBConv` and `FusedMBConv` between two convolutions.

    Args:
        inverted_residual_setting: the stages.
        dropout: before the classifier.
        stochastic_depth_prob: of leaving out the last block; those before it have less. Default: 0.2.
        num_classes: default 1000.
        norm_layer: makes a normalization of so many channels. Default: `BatchNorm2d`.
        last_channel: channels of the last convolution. Default: four times its input's.

    Raises:
        ValueError: there are no stages.
        TypeError: ``inverted_residual_setting`` is no list of stages.

    Reference: https://docs.pytorch.org/vision/stable/models/efficientnet.html
    """

    def __init__(
        self,
        inverted_residual_setting: Sequence[_MBConvConfig],
        dropout: float,
        stochastic_depth_prob: float = 0.2,
        num_classes: int = 1000,
        norm_layer: _Make | None = None,
        last_channel: int | None = None,
    ) -> None:
        super().__init__()
        stages = inverted_residual_setting
        if not stages:
            raise ValueError("The inverted_residual_setting should not be empty")
        if not (isinstance(stages, Sequence) and all(isinstance(stage, _MBConvConfig) for stage in stages)):
            raise TypeError("The inverted_residual_setting should be List[MBConvConfig]")
        norm = norm_layer or BatchNorm2d
        conv = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=SiLU)
        features: list[Module] = [conv(3, stages[0].input_channels, 3, 2)]
        done, total = 0, sum(stage.num_layers for stage in stages)
        for stage in stages:
            blocks, cnf = [], copy.copy(stage)
            for _ in range(stage.num_layers):
                blocks.append(cnf.block(cnf, stochastic_depth_prob * float(done) / total, norm))
                cnf.input_channels, cnf.stride = cnf.out_channels, 1
                done += 1
            features.append(Sequential(*blocks))
        last = stages[-1].out_channels
        width = 4 * last if last_channel is None else last_channel
        self.features = Sequential(*features, conv(last, width, 1))
        self.avgpool = AdaptiveAvgPool2d(1)
        self.classifier = Sequential(Dropout(p=dropout, inplace=True), Linear(width, num_classes))
        draw(self, _uniform)

    def _forward_impl(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)


def _uniform(weight: Tensor) -> None:
    reach = 1.0 / math.sqrt(len(weight))
    init.uniform_(weight, -reach, reach)


_Row = tuple[int, int, int, int, int, int]
#: expansion, kernel, stride, input, output and number of blocks of each stage
_B0: tuple[_Row, ...] = (
    (1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3), (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1),
)  # fmt: skip
#: the same of the second version, whose first three stages are fused
_V2_S: tuple[_Row, ...] = (
    (1, 3, 1, 24, 24, 2), (4, 3, 2, 24, 48, 4), (4, 3, 2, 48, 64, 4), (4, 3, 2, 64, 128, 6), (6, 3, 1, 128, 160, 9),
    (6, 3, 2, 160, 256, 15),
)  # fmt: skip
_V2_M: tuple[_Row, ...] = (
    (1, 3, 1, 24, 24, 3), (4, 3, 2, 24, 48, 5), (4, 3, 2, 48, 80, 5), (4, 3, 2, 80, 160, 7), (6, 3, 1, 160, 176, 14),
    (6, 3, 2, 176, 304, 18), (6, 3, 1, 304, 512, 5),
)  # fmt: skip
_V2_L: tuple[_Row, ...] = (
    (1, 3, 1, 32, 32, 4), (4, 3, 2, 32, 64, 7), (4, 3, 2, 64, 96, 7), (4, 3, 2, 96, 192, 10), (6, 3, 1, 192, 224, 19),
    (6, 3, 2, 224, 384, 25), (6, 3, 1, 384, 640, 7),
)  # fmt: skip
_FUSED = 3
#: the normalization of the large ones
_SLOW = partial(BatchNorm2d, eps=0.001, momentum=0.01)


def _first(
    width: float, depth: float, dropout: float, norm: _Make | None = None
) -> Callable[..., EfficientNet]:
    def make(**kwargs: Any) -> EfficientNet:
        stages = [MBConvConfig(*row, width_mult=width, depth_mult=depth) for row in _B0]
        return _made(stages, kwargs, dropout=dropout, norm_layer=norm)

    return make


def _second(rows: tuple[_Row, ...], dropout: float) -> Callable[..., EfficientNet]:
    def make(**kwargs: Any) -> EfficientNet:
        stages = [(FusedMBConvConfig if i < _FUSED else MBConvConfig)(*row) for i, row in enumerate(rows)]
        norm = partial(BatchNorm2d, eps=1e-3)
        return _made(stages, kwargs, dropout=dropout, norm_layer=norm, last_channel=1280)

    return make


def _made(stages: Sequence[_MBConvConfig], kwargs: dict[str, Any], **defaults: Any) -> EfficientNet:
    return EfficientNet(stages, **{**defaults, **kwargs})


EfficientNet_B0_Weights = weights_of("EfficientNet_B0_Weights", __name__)
EfficientNet_B1_Weights = weights_of("EfficientNet_B1_Weights", __name__)
EfficientNet_B2_Weights = weights_of("EfficientNet_B2_Weights", __name__)
EfficientNet_B3_Weights = weights_of("EfficientNet_B3_Weights", __name__)
EfficientNet_B4_Weights = weights_of("EfficientNet_B4_Weights", __name__)
EfficientNet_B5_Weights = weights_of("EfficientNet_B5_Weights", __name__)
EfficientNet_B6_Weights = weights_of("EfficientNet_B6_Weights", __name__)
EfficientNet_B7_Weights = weights_of("EfficientNet_B7_Weights", __name__)
EfficientNet_V2_S_Weights = weights_of("EfficientNet_V2_S_Weights", __name__)
EfficientNet_V2_M_Weights = weights_of("EfficientNet_V2_M_Weights", __name__)
EfficientNet_V2_L_Weights = weights_of("EfficientNet_V2_L_Weights", __name__)

efficientnet_b0 = builder(
    "efficientnet_b0", EfficientNet_B0_Weights, _first(1.0, 1.0, 0.2), "EfficientNet B0."
)
efficientnet_b1 = builder(
    "efficientnet_b1", EfficientNet_B1_Weights, _first(1.0, 1.1, 0.2), "EfficientNet B1."
)
efficientnet_b2 = builder(
    "efficientnet_b2", EfficientNet_B2_Weights, _first(1.1, 1.2, 0.3), "EfficientNet B2."
)
efficientnet_b3 = builder(
    "efficientnet_b3", EfficientNet_B3_Weights, _first(1.2, 1.4, 0.3), "EfficientNet B3."
)
efficientnet_b4 = builder(
    "efficientnet_b4", EfficientNet_B4_Weights, _first(1.4, 1.8, 0.4), "EfficientNet B4."
)
efficientnet_b5 = builder(
    "efficientnet_b5", EfficientNet_B5_Weights, _first(1.6, 2.2, 0.4, _SLOW), "EfficientNet B5."
)
efficientnet_b6 = builder(
    "efficientnet_b6", EfficientNet_B6_Weights, _first(1.8, 2.6, 0.5, _SLOW), "EfficientNet B6."
)
efficientnet_b7 = builder(
    "efficientnet_b7", EfficientNet_B7_Weights, _first(2.0, 3.1, 0.5, _SLOW), "EfficientNet B7."
)
efficientnet_v2_s = builder(
    "efficientnet_v2_s", EfficientNet_V2_S_Weights, _second(_V2_S, 0.2), "EfficientNet V2, the small one."
)
efficientnet_v2_m = builder(
    "efficientnet_v2_m", EfficientNet_V2_M_Weights, _second(_V2_M, 0.3), "EfficientNet V2, the medium one."
)
efficientnet_v2_l = builder(
    "efficientnet_v2_l", EfficientNet_V2_L_Weights, _second(_V2_L, 0.4), "EfficientNet V2, the large one."
)
