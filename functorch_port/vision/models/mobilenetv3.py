"""MobileNet V3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..._tensor.tensor import Tensor
from ...nn import (
    AdaptiveAvgPool2d,
    BatchNorm2d,
    Dropout,
    Hardsigmoid,
    Hardswish,
    Linear,
    Module,
    ReLU,
    Sequential,
)
from ..ops.misc import Conv2dNormActivation, SqueezeExcitation
from ._api import weights_of
from ._utils import _make_divisible, builder, draw

__all__ = [
    "MobileNetV3", "MobileNet_V3_Large_Weights", "MobileNet_V3_Small_Weights", "mobilenet_v3_large",
    "mobilenet_v3_small",
]  # fmt: skip


class InvertedResidualConfig:
    """A row of the tables in the paper.

    Args:
        input_channels, expanded_channels, out_channels: at ``width_mult`` 1.
        kernel: size of the depthwise convolution.
        use_se: whether there is a squeeze-and-excitation.
        activation: "HS" for Hardswish, else ReLU.
        stride, dilation: of the depthwise convolution.
        width_mult: by which channels are multiplied.
    """

    def __init__(
        self,
        input_channels: int,
        kernel: int,
        expanded_channels: int,
        out_channels: int,
        use_se: bool,
        activation: str,
        stride: int,
        dilation: int,
        width_mult: float,
    ) -> None:
        self.input_channels = self.adjust_channels(input_channels, width_mult)
        self.kernel = kernel
        self.expanded_channels = self.adjust_channels(expanded_channels, width_mult)
        self.out_channels = self.adjust_channels(out_channels, width_mult)
        self.use_se = use_se
        self.use_hs = activation == "HS"
        self.stride = stride
        self.dilation = dilation

    @staticmethod
    def adjust_channels(channels: int, width_mult: float) -> int:
        """The multiple of 8 next to the product."""
        return _make_divisible(channels * width_mult, 8)


class InvertedResidual(Module):
    """MobileNet V2's block, with a squeeze-and-excitation.

    Args:
        cnf: its sizes.
        norm_layer: makes a normalization of so many channels.
        se_layer: makes the squeeze-and-excitation.

    Raises:
        ValueError: the stride is not 1 or 2.
    """

    def __init__(
        self,
        cnf: InvertedResidualConfig,
        norm_layer: Callable[..., Module],
        se_layer: Callable[..., Module] = partial(SqueezeExcitation, scale_activation=Hardsigmoid),
    ) -> None:
        super().__init__()
        if cnf.stride not in (1, 2):
            raise ValueError("illegal stride value")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        width = cnf.expanded_channels
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer)
        activation = Hardswish if cnf.use_hs else ReLU
        layers: list[Module] = []
        if width != cnf.input_channels:
            layers.append(conv(cnf.input_channels, width, 1, activation_layer=activation))
        layers.append(
            conv(
                width,
                width,
                cnf.kernel,
                1 if cnf.dilation > 1 else cnf.stride,
                dilation=cnf.dilation,
                groups=width,
                activation_layer=activation,
            )
        )
        if cnf.use_se:
            layers.append(se_layer(width, _make_divisible(width // 4, 8)))
        layers.append(conv(width, cnf.out_channels, 1, activation_layer=None))
        self.block = Sequential(*layers)
        self.out_channels = cnf.out_channels
        self._is_cn = cnf.stride > 1

    def forward(self, input: Tensor) -> Tensor:
        result = self.block(input)
        if self.use_res_connect:
            result += input
        return result


class MobileNetV3(Module):
    """A network of inverted residual blocks for small devices.

    Args:
        inverted_residual_setting: the blocks.
        last_channel: the width of the classifier's first layer.
        num_classes: default 1000.
        block: default `InvertedResidual`.
        norm_layer: makes a normalization of so many channels. Default: `BatchNorm2d` with eps 0.001, momentum 0.01.
        dropout: default 0.2.

    Raises:
        ValueError: there are no blocks.
        TypeError: ``inverted_residual_setting`` is no list of `InvertedResidualConfig`.

    Reference: https://docs.pytorch.org/vision/stable/models/mobilenetv3.html
    """

    def __init__(
        self,
        inverted_residual_setting: Sequence[InvertedResidualConfig],
        last_channel: int,
        num_classes: int = 1000,
        block: Callable[..., Module] | None = None,
        norm_layer: Callable[..., Module] | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        rows = inverted_residual_setting
        if not rows:
            raise ValueError("The inverted_residual_setting should not be empty")
        if not (isinstance(rows, Sequence) and all(isinstance(row, InvertedResidualConfig) for row in rows)):
            raise TypeError("The inverted_residual_setting should be List[InvertedResidualConfig]")
        block = block or InvertedResidual
        norm = norm_layer or partial(BatchNorm2d, eps=0.001, momentum=0.01)
        conv = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=Hardswish)
        first, last = rows[0].input_channels, rows[-1].out_channels
        self.features = Sequential(
            conv(3, first, 3, 2), *[block(row, norm) for row in rows], conv(last, 6 * last, 1)
        )
        self.avgpool = AdaptiveAvgPool2d(1)
        self.classifier = Sequential(
            Linear(6 * last, last_channel),
            Hardswish(inplace=True),
            Dropout(p=dropout, inplace=True),
            Linear(last_channel, num_classes),
        )
        draw(self)

    def _forward_impl(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)


_Row = tuple[int, int, int, int, bool, str, int]
#: input, kernel, expanded, output, squeeze-and-excitation, activation, stride; the last three are the tail
_LARGE: tuple[_Row, ...] = (
    (16, 3, 16, 16, False, "RE", 1), (16, 3, 64, 24, False, "RE", 2), (24, 3, 72, 24, False, "RE", 1),
    (24, 5, 72, 40, True, "RE", 2), (40, 5, 120, 40, True, "RE", 1), (40, 5, 120, 40, True, "RE", 1),
    (40, 3, 240, 80, False, "HS", 2), (80, 3, 200, 80, False, "HS", 1), (80, 3, 184, 80, False, "HS", 1),
    (80, 3, 184, 80, False, "HS", 1), (80, 3, 480, 112, True, "HS", 1), (112, 3, 672, 112, True, "HS", 1),
    (112, 5, 672, 160, True, "HS", 2), (160, 5, 960, 160, True, "HS", 1), (160, 5, 960, 160, True, "HS", 1),
)  # fmt: skip
_SMALL: tuple[_Row, ...] = (
    (16, 3, 16, 16, True, "RE", 2), (16, 3, 72, 24, False, "RE", 2), (24, 3, 88, 24, False, "RE", 1),
    (24, 5, 96, 40, True, "HS", 2), (40, 5, 240, 40, True, "HS", 1), (40, 5, 240, 40, True, "HS", 1),
    (40, 5, 120, 48, True, "HS", 1), (48, 5, 144, 48, True, "HS", 1), (48, 5, 288, 96, True, "HS", 2),
    (96, 5, 576, 96, True, "HS", 1), (96, 5, 576, 96, True, "HS", 1),
)  # fmt: skip


def _mobilenet_v3_conf(
    arch: str, width_mult: float = 1.0, reduced_tail: bool = False, dilated: bool = False
) -> tuple[list[InvertedResidualConfig], int]:
    """The blocks of a network, and its last channels.

    Args:
        arch: ``"mobilenet_v3_large"`` or ``"mobilenet_v3_small"``.
        width_mult: by which channels are multiplied. Default: 1.0.
        reduced_tail: whether the last blocks have half the channels. Default: False.
        dilated: whether they dilate in place of halving the size. Default: False.
    """
    if arch not in ("mobilenet_v3_large", "mobilenet_v3_small"):
        raise ValueError(f"Unsupported model type {arch}")
    rows, last = (_LARGE, 1280) if arch == "mobilenet_v3_large" else (_SMALL, 1024)
    part, dilation = 2 if reduced_tail else 1, 2 if dilated else 1
    made, tail = [], len(rows) - 3
    for i, (inputs, kernel, expanded, outputs, squeezed, activation, stride) in enumerate(rows):
        if i >= tail:
            outputs //= part
        if i > tail:
            inputs, expanded = inputs // part, expanded // part
        step = dilation if i >= tail else 1
        made.append(
            InvertedResidualConfig(
                inputs, kernel, expanded, outputs, squeezed, activation, stride, step, width_mult
            )
        )
    return made, InvertedResidualConfig.adjust_channels(last // part, width_mult)


def _make(
    arch: str, width_mult: float = 1.0, reduced_tail: bool = False, dilated: bool = False, **kwargs: Any
) -> MobileNetV3:
    return MobileNetV3(*_mobilenet_v3_conf(arch, width_mult, reduced_tail, dilated), **kwargs)


MobileNet_V3_Large_Weights = weights_of("MobileNet_V3_Large_Weights", __name__)
MobileNet_V3_Small_Weights = weights_of("MobileNet_V3_Small_Weights", __name__)
mobilenet_v3_large = builder(
    "mobilenet_v3_large",
    MobileNet_V3_Large_Weights,
    partial(_make, "mobilenet_v3_large"),
    "MobileNet V3, the large one.",
)
mobilenet_v3_small = builder(
    "mobilenet_v3_small",
    MobileNet_V3_Small_Weights,
    partial(_make, "mobilenet_v3_small"),
    "MobileNet V3, the small one.",
)
