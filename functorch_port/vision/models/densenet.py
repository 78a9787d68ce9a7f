"""DenseNet: each layer gets the results of all before it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..._run.bind import function
from ..._tensor.tensor import Tensor
from ...nn import (
    AvgPool2d,
    BatchNorm2d,
    Conv2d,
    Linear,
    MaxPool2d,
    Module,
    ModuleDict,
    ReLU,
    Sequential,
    init,
)
from ...nn import functional as F
from ._api import weights_of
from ._utils import builder

__all__ = [
    "DenseNet", "DenseNet121_Weights", "DenseNet161_Weights", "DenseNet169_Weights", "DenseNet201_Weights",
    "densenet121", "densenet161", "densenet169", "densenet201",
]  # fmt: skip


class _DenseLayer(Module):
    """A 1 by 1 and a 3 by 3 convolution, each after a normalization."""

    def __init__(self, num_input_features: int, growth_rate: int, bn_size: int, drop_rate: float) -> None:
        super().__init__()
        width = bn_size * growth_rate
        self.norm1 = BatchNorm2d(num_input_features)
        self.relu1 = ReLU(inplace=True)
        self.conv1 = Conv2d(num_input_features, width, kernel_size=1, stride=1, bias=False)
        self.norm2 = BatchNorm2d(width)
        self.relu2 = ReLU(inplace=True)
        self.conv2 = Conv2d(width, growth_rate, kernel_size=3, stride=1, padding=1, bias=False)
        self.drop_rate = float(drop_rate)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        for key in [k for k in state_dict if k.startswith(prefix)]:
            kind, _, tail = key.removeprefix(prefix).partition(".")
            if kind in ("norm", "relu", "conv"):  # published weights have "norm.1" where it is "norm1" now
                state_dict[f"{prefix}{kind}{tail}"] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(self, input: Tensor | list[Tensor]) -> Tensor:
        x = function("cat")([input] if isinstance(input, Tensor) else input, 1)
        x = self.conv1(self.relu1(self.norm1(x)))
        x = self.conv2(self.relu2(self.norm2(x)))
        if self.drop_rate > 0:
            x = F.dropout(x, p=self.drop_rate, training=self.training)
        return x


class _DenseBlock(ModuleDict):
    """Layers whose inputs are the block's input and the results of all layers before."""

    _version = 2

    def __init__(
        self, num_layers: int, num_input_features: int, bn_size: int, growth_rate: int, drop_rate: float
    ) -> None:
        super().__init__()
        for i in range(num_layers):
            inputs = num_input_features + i * growth_rate
            self.add_module(f"denselayer{i + 1}", _DenseLayer(inputs, growth_rate, bn_size, drop_rate))

    def forward(self, init_features: Tensor) -> Tensor:
        features = [init_features]
        for layer in self.values():
            features.append(layer(features))
        return function("cat")(features, 1)


class _Transition(Sequential):
    """Half the size, and other channels."""

    def __init__(self, num_input_features: int, num_output_features: int) -> None:
        super().__init__()
        self.norm = BatchNorm2d(num_input_features)
        self.relu = ReLU(inplace=True)
        self.conv = Conv2d(num_input_features, num_output_features, kernel_size=1, stride=1, bias=False)
        self.pool = AvgPool2d(kernel_size=2, stride=2)


class DenseNet(Module):
    """Four blocks of densely connected layers.

    Args:
        growth_rate: channels that each layer adds. Default: 32.
        block_config: the number of layers of each block. Default: (6, 12, 24, 16).
        num_init_features: channels of the first convolution. Default: 64.
        bn_size: by which a layer's first convolution is wider than its second. Default: 4.
        drop_rate: dropout after each layer. Default: 0.
        num_classes: default 1000.
        memory_efficient: must be False.

    Raises:
        NotImplementedError: ``memory_efficient`` is True.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.models import DenseNet
        >>> DenseNet(8, (1, 1, 1, 1), 16, num_classes=10)(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])

    Reference: https://docs.pytorch.org/vision/stable/models/densenet.html
    """

    def __init__(
        self,
        growth_rate: int = 32,
        block_config: tuple[int, int, int, int] = (6, 12, 24, 16),
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0,
        num_classes: int = 1000,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        if memory_efficient:
            raise NotImplementedError(
                "DenseNet(memory_efficient=True) is not supported: call parts of the model through"
                " torch.utils.checkpoint.checkpoint, which computes them again in the backward pass"
            )
        first = OrderedDict(
            conv0=Conv2d(3, num_init_features, kernel_size=7, stride=2, padding=3, bias=False),
            norm0=BatchNorm2d(num_init_features),
            relu0=ReLU(inplace=True),
            pool0=MaxPool2d(kernel_size=3, stride=2, padding=1),
        )
        self.features = Sequential(first)
        channels = num_init_features
        for i, layers in enumerate(block_config, 1):
            block = _DenseBlock(layers, channels, bn_size, growth_rate, drop_rate)
            self.features.add_module(f"denseblock{i}", block)
            channels += layers * growth_rate
            if i < len(block_config):
                self.features.add_module(f"transition{i}", _Transition(channels, channels // 2))
                channels //= 2
        self.features.add_module("norm5", BatchNorm2d(channels))
        self.classifier = Linear(channels, num_classes)
        for module in self.modules():
            if isinstance(module, Conv2d):
                init.kaiming_normal_(module.weight)
            elif isinstance(module, BatchNorm2d):
                init.constant_(module.weight, 1)
                init.constant_(module.bias, 0)
            elif isinstance(module, Linear):
                init.constant_(module.bias, 0)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.features(x), inplace=True)
        return self.classifier(F.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


def _of(
    growth_rate: int, block_config: tuple[int, int, int, int], num_init_features: int
) -> Callable[..., DenseNet]:
    def make(**kwargs: Any) -> DenseNet:
        return DenseNet(growth_rate, block_config, num_init_features, **kwargs)

    return make


DenseNet121_Weights = weights_of("DenseNet121_Weights", __name__)
DenseNet161_Weights = weights_of("DenseNet161_Weights", __name__)
DenseNet169_Weights = weights_of("DenseNet169_Weights", __name__)
DenseNet201_Weights = weights_of("DenseNet201_Weights", __name__)

densenet121 = builder(
    "densenet121", DenseNet121_Weights, _of(32, (6, 12, 24, 16), 64), "DenseNet with 121 layers."
)
densenet161 = builder(
    "densenet161", DenseNet161_Weights, _of(48, (6, 12, 36, 24), 96), "DenseNet with 161 layers."
)
densenet169 = builder(
    "densenet169", DenseNet169_Weights, _of(32, (6, 12, 32, 32), 64), "DenseNet with 169 layers."
)
densenet201 = builder(
    "densenet201", DenseNet201_Weights, _of(32, (6, 12, 48, 32), 64), "DenseNet with 201 layers."
)
