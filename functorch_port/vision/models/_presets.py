"""What images need before a model with pretrained weights sees them."""

from __future__ import annotations

import importlib
from typing import Any

from ..._tensor.tensor import Tensor
from ...nn import Module

__all__ = ["ImageClassification"]


class ImageClassification(Module):
    """Resize, cut out the center, scale to [0, 1] and normalize.

    Args:
        crop_size: of the square that is cut out.
        resize_size: of the shorter side before. Default: 256.
        mean, std: of the channels. Default: ImageNet's.
        interpolation: an `InterpolationMode` or its value. Default: bilinear.
        antialias: whether downsampling tensors smooths first. Default: True.

    Reference: https://docs.pytorch.org/vision/stable/models.html#using-the-pre-trained-models
    """

    def __init__(
        self,
        *,
        crop_size: int,
        resize_size: int = 256,
        mean: tuple[float, ...] = (0.485, 0.456, 0.406),
        std: tuple[float, ...] = (0.229, 0.224, 0.225),
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.crop_size, self.resize_size = [crop_size], [resize_size]
        self.mean, self.std = list(mean), list(std)
        self.interpolation = _functional().InterpolationMode(interpolation)
        self.antialias = antialias

    def forward(self, img: Any) -> Tensor:
        F = _functional()
        img = F.resize(img, self.resize_size, interpolation=self.interpolation, antialias=self.antialias)
        img = F.center_crop(img, self.crop_size)
        if not isinstance(img, Tensor):
            img = F.pil_to_tensor(img)
        return F.normalize(F.convert_image_dtype(img), mean=self.mean, std=self.std)

    def __repr__(self) -> str:
        names = ("crop_size", "resize_size", "mean", "std", "interpolation")
        lines = [f"\n    {name}={getattr(self, name)}" for name in names]
        return f"{type(self).__name__}({''.join(lines)}\n)"

    def describe(self) -> str:
        """The steps as a sentence."""
        return (
            f"Images are resized to {self.resize_size} ({self.interpolation}), the center of {self.crop_size} is cut"
            f" out, values are scaled to [0, 1] and normalized by mean {self.mean} and std {self.std}."
        )


def _functional() -> Any:
    """`transforms.functional`, which imports Pillow: models without weights do without."""
    return importlib.import_module(f"{__name__.rpartition('.models')[0]}.transforms.functional")
