"""AlexNet."""

from __future__ import annotations

from ..._tensor.tensor import Tensor
from ...nn import AdaptiveAvgPool2d, Conv2d, Dropout, Linear, MaxPool2d, Module, ReLU, Sequential
from ._api import weights_of
from ._utils import builder

__all__ = ["AlexNet", "AlexNet_Weights", "alexnet"]


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 1) -> tuple[Module, Module]:
    return Conv2d(inputs, outputs, kernel, stride, padding), ReLU(inplace=True)


class AlexNet(Module):
    """Five convolutions and three linear layers; the network of "One weird trick", without its second half.

    Args:
        num_classes: default 1000.
        dropout: default 0.5.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.models import AlexNet
        >>> AlexNet(num_classes=10)(torch.rand(1, 3, 64, 64)).shape
        torch.Size([1, 10])

    Reference: https://docs.pytorch.org/vision/stable/models/alexnet.html
    """

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.features = Sequential(
            *_conv(3, 64, 11, 4, 2),
            MaxPool2d(3, 2),
            *_conv(64, 192, 5, 1, 2),
            MaxPool2d(3, 2),
            *_conv(192, 384, 3),
            *_conv(384, 256, 3),
            *_conv(256, 256, 3),
            MaxPool2d(3, 2),
        )
        self.avgpool = AdaptiveAvgPool2d((6, 6))
        self.classifier = Sequential(
            Dropout(dropout),
            Linear(256 * 6 * 6, 4096),
            ReLU(inplace=True),
            Dropout(dropout),
            Linear(4096, 4096),
            ReLU(inplace=True),
            Linear(4096, num_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


AlexNet_Weights = weights_of("AlexNet_Weights", __name__)
alexnet = builder("alexnet", AlexNet_Weights, AlexNet, "AlexNet, with eight layers.")
