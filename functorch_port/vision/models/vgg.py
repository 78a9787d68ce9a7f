"""VGG: stacks of 3 by 3 convolutions, with and without batch normalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._tensor.tensor import Tensor
from ...nn import (
    AdaptiveAvgPool2d,
    BatchNorm2d,
    Conv2d,
    Dropout,
    Linear,
    MaxPool2d,
    Module,
    ReLU,
    Sequential,
    init,
)
from ._api import weights_of
from ._utils import builder

__all__ = [
    "VGG", "VGG11_BN_Weights", "VGG11_Weights", "VGG13_BN_Weights", "VGG13_Weights", "VGG16_BN_Weights",
    "VGG16_Weights", "VGG19_BN_Weights", "VGG19_Weights", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16",
    "vgg16_bn", "vgg19", "vgg19_bn",
]  # fmt: skip

#: convolutions in each of the five stages, by the number of layers
_DEPTHS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_WIDTHS = (64, 128, 256, 512, 512)


class VGG(Module):
    """Convolutions and three linear layers.

    Args:
        features: the convolutions, which give 512 channels.
        num_classes: default 1000.
        init_weights: whether weights are drawn by the rules of VGG. Default: True.
        dropout: default 0.5.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.models.vgg import VGG, make_layers
        >>> VGG(make_layers([8, "M", 512]), num_classes=10)(torch.rand(1, 3, 32, 32)).shape
        torch.Size([1, 10])

    Reference: https://docs.pytorch.org/vision/stable/models/vgg.html
    """

    def __init__(
        self, features: Module, num_classes: int = 1000, init_weights: bool = True, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.features = features
        self.avgpool = AdaptiveAvgPool2d((7, 7))
        self.classifier = Sequential(
            Linear(512 * 7 * 7, 4096),
            ReLU(True),
            Dropout(p=dropout),
            Linear(4096, 4096),
            ReLU(True),
            Dropout(p=dropout),
            Linear(4096, num_classes),
        )
        if init_weights:
            for module in self.modules():
                _draw(module)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def _draw(module: Module) -> None:
    if isinstance(module, Conv2d):
        init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if module.bias is not None:
            init.constant_(module.bias, 0)
    elif isinstance(module, BatchNorm2d):
        init.constant_(module.weight, 1)
        init.constant_(module.bias, 0)
    elif isinstance(module, Linear):
        init.normal_(module.weight, 0, 0.01)
        init.constant_(module.bias, 0)


def make_layers(cfg: Sequence[int | str], batch_norm: bool = False) -> Sequential:
    """The convolutions.

    Args:
        cfg: channels of each convolution, and "M" for each pooling.
        batch_norm: whether each convolution is normalized. Default: False.
    """
    layers: list[Module] = []
    channels = 3
    for item in cfg:
        if item == "M":
            layers.append(MaxPool2d(kernel_size=2, stride=2))
            continue
        width = int(item)
        norms = [BatchNorm2d(width)] if batch_norm else []
        layers += [Conv2d(channels, width, kernel_size=3, padding=1), *norms, ReLU(inplace=True)]
        channels = width
    return Sequential(*layers)


def _of(layers: int, batch_norm: bool = False) -> Callable[..., VGG]:
    cfg: list[int | str] = []
    for depth, width in zip(_DEPTHS[layers], _WIDTHS, strict=True):
        cfg += [*[width] * depth, "M"]
    return lambda **kwargs: VGG(make_layers(cfg, batch_norm), **kwargs)


def _keep(weights: Any, kwargs: dict[str, Any]) -> None:
    kwargs["init_weights"] = False


VGG11_Weights = weights_of("VGG11_Weights", __name__)
VGG11_BN_Weights = weights_of("VGG11_BN_Weights", __name__)
VGG13_Weights = weights_of("VGG13_Weights", __name__)
VGG13_BN_Weights = weights_of("VGG13_BN_Weights", __name__)
VGG16_Weights = weights_of("VGG16_Weights", __name__)
VGG16_BN_Weights = weights_of("VGG16_BN_Weights", __name__)
VGG19_Weights = weights_of("VGG19_Weights", __name__)
VGG19_BN_Weights = weights_of("VGG19_BN_Weights", __name__)

_BN = "with batch normalization."
vgg11 = builder("vgg11", VGG11_Weights, _of(11), "VGG with 11 layers.", given=_keep)
vgg11_bn = builder("vgg11_bn", VGG11_BN_Weights, _of(11, True), f"VGG with 11 layers, {_BN}", given=_keep)
vgg13 = builder("vgg13", VGG13_Weights, _of(13), "VGG with 13 layers.", given=_keep)
vgg13_bn = builder("vgg13_bn", VGG13_BN_Weights, _of(13, True), f"VGG with 13 layers, {_BN}", given=_keep)
vgg16 = builder("vgg16", VGG16_Weights, _of(16), "VGG with 16 layers.", given=_keep)
vgg16_bn = builder("vgg16_bn", VGG16_BN_Weights, _of(16, True), f"VGG with 16 layers, {_BN}", given=_keep)
vgg19 = builder("vgg19", VGG19_Weights, _of(19), "VGG with 19 layers.", given=_keep)
vgg19_bn = builder("vgg19_bn", VGG19_BN_Weights, _of(19, True), f"VGG with 19 layers, {_BN}", given=_keep)
