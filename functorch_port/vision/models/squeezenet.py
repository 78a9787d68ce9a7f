"""SqueezeNet."""

from __future__ import annotations

from functools import partial

from ..._run.bind import function
from ..._tensor.tensor import Tensor
from ...nn import AdaptiveAvgPool2d, Conv2d, Dropout, MaxPool2d, Module, ReLU, Sequential, init
from ._api import weights_of
from ._utils import builder

__all__ = ["SqueezeNet", "SqueezeNet1_0_Weights", "SqueezeNet1_1_Weights", "squeezenet1_0", "squeezenet1_1"]


class Fire(Module):
    """A 1 by 1 convolution to few channels, and a 1 by 1 and a 3 by 3 one of its result, side by side.

    Args:
        inplanes: channels of the input.
        squeeze_planes: channels of the first convolution.
        expand1x1_planes, expand3x3_planes: channels of the other two.
    """

    def __init__(
        self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int
    ) -> None:
        super().__init__()
        self.inplanes = inplanes
        self.squeeze = Conv2d(inplanes, squeeze_planes, kernel_size=1)
        self.squeeze_activation = ReLU(inplace=True)
        self.expand1x1 = Conv2d(squeeze_planes, expand1x1_planes, kernel_size=1)
        self.expand1x1_activation = ReLU(inplace=True)
        self.expand3x3 = Conv2d(squeeze_planes, expand3x3_planes, kernel_size=3, padding=1)
        self.expand3x3_activation = ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        one, three = (
            self.expand1x1_activation(self.expand1x1(x)),
            self.expand3x3_activation(self.expand3x3(x)),
        )
        return function("cat")([one, three], 1)


#: the first convolution's channels and kernel, and after how many of the Fire modules there is pooling
_VERSIONS = {"1_0": (96, 7, (3, 7)), "1_1": (64, 3, (2, 4))}
_SQUEEZED = (16, 16, 32, 32, 48, 48, 64, 64)


class SqueezeNet(Module):
    """Eight `Fire` modules, and a convolution as the classifier.

    Args:
        version: ``"1_0"`` or ``"1_1"``, which computes less. Default: ``"1_0"``.
        num_classes: default 1000.
        dropout: default 0.5.

    Raises:
        ValueError: for another version.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.models import SqueezeNet
        >>> SqueezeNet("1_1", num_classes=10)(torch.rand(1, 3, 64, 64)).shape
        torch.Size([1, 10])

    Reference: https://docs.pytorch.org/vision/stable/models/squeezenet.html
    """

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.num_classes = num_classes
        if version not in _VERSIONS:
            raise ValueError(f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected")
        channels, kernel, pooled = _VERSIONS[version]
        pool = partial(MaxPool2d, kernel_size=3, stride=2, ceil_mode=True)
        layers: list[Module] = [Conv2d(3, channels, kernel, stride=2), ReLU(inplace=True), pool()]
        for i, squeezed in enumerate(_SQUEEZED, 1):
            layers.append(Fire(channels, squeezed, 4 * squeezed, 4 * squeezed))
            channels = 8 * squeezed
            if i in pooled:
                layers.append(pool())
        self.features = Sequential(*layers)
        final = Conv2d(channels, num_classes, kernel_size=1)
        self.classifier = Sequential(Dropout(p=dropout), final, ReLU(inplace=True), AdaptiveAvgPool2d((1, 1)))
        for module in self.modules():
            if isinstance(module, Conv2d):
                if module is final:
                    init.normal_(module.weight, mean=0.0, std=0.01)
                else:
                    init.kaiming_uniform_(module.weight)
                init.constant_(module.bias, 0)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x)).flatten(1)


SqueezeNet1_0_Weights = weights_of("SqueezeNet1_0_Weights", __name__)
SqueezeNet1_1_Weights = weights_of("SqueezeNet1_1_Weights", __name__)
squeezenet1_0 = builder("squeezenet1_0", SqueezeNet1_0_Weights, partial(SqueezeNet, "1_0"), "SqueezeNet 1.0.")
squeezenet1_1 = builder("squeezenet1_1", SqueezeNet1_1_Weights, partial(SqueezeNet, "1_1"), "SqueezeNet 1.1.")
