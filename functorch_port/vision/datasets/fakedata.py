"""Random images, to try a program without files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import functorch_port as torch
from functorch_port.vision.transforms.functional import to_pil_image

from .vision import VisionDataset

__all__ = ["FakeData"]


class FakeData(VisionDataset):
    """Random images and classes; those of an index are always the same, and torchvision's.

    Args:
        size: the number of samples.
        image_size: channels, height and width.
        num_classes: the number of classes.
        transform: a function of the Pillow image.
        target_transform: a function of the number of the class.
        random_offset: is added to the index, to seed the generator of its sample.

    Example:
        >>> from functorch_port.vision.datasets import FakeData
        >>> image, target = FakeData(size=10, image_size=(3, 8, 8))[0]
        >>> image.size, target
        ((8, 8), 6)

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.FakeData.html
    """

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(transform=transform, target_transform=target_transform)
        self.size = size
        self.num_classes = num_classes
        self.image_size = image_size
        self.random_offset = random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if index >= len(self):
            raise IndexError(f"{type(self).__name__} index out of range")
        generator = torch.Generator().manual_seed(index + self.random_offset)
        image = torch.randn(*self.image_size, generator=generator)
        target = torch.randint(0, self.num_classes, (1,), generator=generator)
        return self._sample(to_pil_image(image), target.item())

    def __len__(self) -> int:
        return self.size
