"""ConvNeXt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..._tensor.creation import full
from ..._tensor.tensor import Tensor
from ...nn import (
    GELU,
    AdaptiveAvgPool2d,
    Conv2d,
    Flatten,
    LayerNorm,
    Linear,
    Module,
    Parameter,
    Sequential,
    init,
)
from ...nn import functional as F
from ..ops.misc import Conv2dNormActivation, Permute
from ..ops.stochastic_depth import StochasticDepth
from ._api import weights_of
from ._utils import builder

__all__ = [
    "ConvNeXt", "ConvNeXt_Base_Weights", "ConvNeXt_Large_Weights", "ConvNeXt_Small_Weights", "ConvNeXt_Tiny_Weights",
    "convnext_base", "convnext_large", "convnext_small", "convnext_tiny",
]  # fmt: skip

_Make = Callable[..., Module]


class LayerNorm2d(LayerNorm):
    """Normalize the channels of each pixel of ``[N, C, H, W]``."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1)
        x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class CNBlock(Module):
    """A wide depthwise convolution and two linear layers, scaled and added to the input.

    Args:
        dim: channels.
        layer_scale: the first value of the scale.
        stochastic_depth_prob: of leaving the branch out.
        norm_layer: makes the normalization. Default: `LayerNorm` with eps 1e-6.
    """

    def __init__(
        self, dim: int, layer_scale: float, stochastic_depth_prob: float, norm_layer: _Make | None = None
    ) -> None:
        super().__init__()
        norm = norm_layer or partial(LayerNorm, eps=1e-6)
        self.block = Sequential(
            Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim, bias=True),
            Permute([0, 2, 3, 1]),
            norm(dim),
            Linear(dim, 4 * dim),
            GELU(),
            Linear(4 * dim, dim),
            Permute([0, 3, 1, 2]),
        )
        self.layer_scale = Parameter(full((dim, 1, 1), float(layer_scale)))
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input: Tensor) -> Tensor:
        result = self.stochastic_depth(self.layer_scale * self.block(input))
        result += input
        return result


@dataclass
class CNBlockConfig:
    """A stage.

    Attributes:
        input_channels: of its blocks.
        out_channels: of the convolution after them, which halves the size; None if there is none.
        num_layers: the number of blocks.
    """

    input_channels: int
    out_channels: int | None
    num_layers: int


class ConvNeXt(Module):
    """Stages of `CNBlock`, and a linear classifier.

    Args:
        block_setting: the stages.
        stochastic_depth_prob: of leaving out the last block; those before it have less. Default: 0.0.
        layer_scale: of each block. Default: 1e-6.
        num_classes: default 1000.
        block: makes a block. Default: `CNBlock`.
        norm_layer: makes a normalization of so many channels. Default: `LayerNorm2d` with eps 1e-6.

    Raises:
        ValueError: there are no stages.
        TypeError: ``block_setting`` is no list of `CNBlockConfig`.

    Reference: https://docs.pytorch.org/vision/stable/models/convnext.html
    """

    def __init__(
        self,
        block_setting: Sequence[CNBlockConfig],
        stochastic_depth_prob: float = 0.0,
        layer_scale: float = 1e-6,
        num_classes: int = 1000,
        block: _Make | None = None,
        norm_layer: _Make | None = None,
    ) -> None:
        super().__init__()
        stages = block_setting
        if not stages:
            raise ValueError("The block_setting should not be empty")
        if not (isinstance(stages, Sequence) and all(isinstance(stage, CNBlockConfig) for stage in stages)):
            raise TypeError("The block_setting should be List[CNBlockConfig]")
        make, norm = block or CNBlock, norm_layer or partial(LayerNorm2d, eps=1e-6)
        first = stages[0].input_channels
        features: list[Module] = [
            Conv2dNormActivation(3, first, 4, 4, 0, norm_layer=norm, activation_layer=None, bias=True)
        ]
        done, total = 0, sum(stage.num_layers for stage in stages)
        for stage in stages:
            blocks = []
            for _ in range(stage.num_layers):
                blocks.append(
                    make(stage.input_channels, layer_scale, stochastic_depth_prob * done / (total - 1.0))
                )
                done += 1
            features.append(Sequential(*blocks))
            if stage.out_channels is not None:
                half = Conv2d(stage.input_channels, stage.out_channels, kernel_size=2, stride=2)
                features.append(Sequential(norm(stage.input_channels), half))
        self.features = Sequential(*features)
        self.avgpool = AdaptiveAvgPool2d(1)
        last = stages[-1].out_channels or stages[-1].input_channels
        self.classifier = Sequential(norm(last), Flatten(1), Linear(last, num_classes))
        for module in self.modules():
            if isinstance(module, Conv2d | Linear):
                init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    init.zeros_(module.bias)

    def _forward_impl(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)))

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)


def _of(width: int, depth: int, probability: float) -> Callable[..., ConvNeXt]:
    """The network of four stages, of which the third has ``depth`` blocks, and the others three."""

    def make(stochastic_depth_prob: float = probability, **kwargs: Any) -> ConvNeXt:
        widths = [width, 2 * width, 4 * width, 8 * width]
        stages = [
            CNBlockConfig(inputs, outputs, layers)
            for inputs, outputs, layers in zip(widths, [*widths[1:], None], (3, 3, depth, 3), strict=True)
        ]
        return ConvNeXt(stages, stochastic_depth_prob, **kwargs)

    return make


ConvNeXt_Tiny_Weights = weights_of("ConvNeXt_Tiny_Weights", __name__)
ConvNeXt_Small_Weights = weights_of("ConvNeXt_Small_Weights", __name__)
ConvNeXt_Base_Weights = weights_of("ConvNeXt_Base_Weights", __name__)
ConvNeXt_Large_Weights = weights_of("ConvNeXt_Large_Weights", __name__)

convnext_tiny = builder("convnext_tiny", ConvNeXt_Tiny_Weights, _of(96, 9, 0.1), "ConvNeXt, tiny.")
convnext_small = builder("convnext_small", ConvNeXt_Small_Weights, _of(96, 27, 0.4), "ConvNeXt, small.")
convnext_base = builder("convnext_base", ConvNeXt_Base_Weights, _of(128, 27, 0.5), "ConvNeXt, the base.")
convnext_large = builder("convnext_large", ConvNeXt_Large_Weights, _of(192, 27, 0.5), "ConvNeXt, large.")
