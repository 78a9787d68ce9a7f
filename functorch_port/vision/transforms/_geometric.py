"""Transforms that change the shape of an image: crops, frames, flips and sizes."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from functorch_port.nn import Module

from . import functional as F
from ._draws import chance, integer, uniform
from ._modes import InterpolationMode, mode_of

__all__ = [
    "CenterCrop", "FiveCrop", "Pad", "Perhaps", "RandomCrop", "RandomHorizontalFlip", "RandomResizedCrop",
    "RandomVerticalFlip", "Resize", "TenCrop", "drawn_box", "drawn_sides", "pair_of_sizes",
]  # fmt: skip


def pair_of_sizes(
    size: Any, error: str = "Please provide only two dimensions (h, w) for size."
) -> tuple[int, int]:
    """Height and width, given as one number or two."""
    if isinstance(size, numbers.Number):
        return int(size), int(size)  # type: ignore[call-overload]
    if isinstance(size, Sequence) and len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise ValueError(error)
    return size  # type: ignore[return-value]


class Resize(Module):
    """Resize an image.

    Args:
        size: (height, width), or a number for the shorter side; the longer one keeps the proportions.
        interpolation: an `InterpolationMode`; tensors allow nearest, bilinear and bicubic.
        max_size: the most that the longer side may get.
        antialias: whether to average a tensor's pixels where it gets smaller. Pillow always does.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.Resize.html
    """

    def __init__(
        self,
        size: Any,
        interpolation: Any = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        if not isinstance(size, int | Sequence):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        if isinstance(size, Sequence) and len(size) not in (1, 2):
            raise ValueError("If size is a sequence, it should have 1 or 2 values")
        self.size = size
        self.max_size = max_size
        self.interpolation = mode_of(interpolation)
        self.antialias = antialias

    def forward(self, img: Any) -> Any:
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(size={self.size}, interpolation={self.interpolation.value}, "
            f"max_size={self.max_size}, antialias={self.antialias})"
        )


class CenterCrop(Module):
    """Cut the middle out; an image that is smaller gets a black frame.

    Args:
        size: the height and the width, or one number for both.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.CenterCrop.html
    """

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = pair_of_sizes(size)

    def forward(self, img: Any) -> Any:
        return F.center_crop(img, self.size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size})"


class Pad(Module):
    """Put a frame around an image.

    Args:
        padding: one number, two (left and right, above and below), or four (left, above, right, below).
        fill: the color, for the mode "constant".
        padding_mode: "constant", "edge", "reflect" or "symmetric".

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.Pad.html
    """

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        if not isinstance(padding, numbers.Number | tuple | list):
            raise TypeError("Got inappropriate padding arg")
        if not isinstance(fill, numbers.Number | str | tuple | list):
            raise TypeError("Got inappropriate fill arg")
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
        if isinstance(padding, Sequence) and len(padding) not in (1, 2, 4):
            raise ValueError(
                f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element tuple"
            )
        self.padding = padding
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, img: Any) -> Any:
        return F.pad(img, self.padding, self.fill, self.padding_mode)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(padding={self.padding}, fill={self.fill}, padding_mode={self.padding_mode})"


class RandomCrop(Module):
    """Cut a rectangle out at a random place.

    Args:
        size: the height and the width, or one number for both.
        padding: a frame that the image gets before, as in `Pad`.
        pad_if_needed: whether an image that is too small gets a frame.
        fill, padding_mode: as in `Pad`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomCrop.html
    """

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size: Any = tuple(pair_of_sizes(size))
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Draw the top, the left, the height and the width."""
        _, h, w = F.get_dimensions(img)
        height, width = output_size
        if h < height or w < width:
            raise ValueError(f"Required crop size {(height, width)} is larger than input image size {(h, w)}")
        if (w, h) == (width, height):
            return 0, 0, h, w
        return integer(0, h - height + 1), integer(0, w - width + 1), height, width

    def forward(self, img: Any) -> Any:
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        _, height, width = F.get_dimensions(img)
        if self.pad_if_needed and width < self.size[1]:
            img = F.pad(img, [self.size[1] - width, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and height < self.size[0]:
            img = F.pad(img, [0, self.size[0] - height], self.fill, self.padding_mode)
        return F.crop(img, *self.get_params(img, self.size))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, padding={self.padding})"


class Perhaps(Module):
    """The base of functions of an image that are applied with a probability."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def changed(self, img: Any) -> Any:
        """The image after the function."""
        raise NotImplementedError

    def forward(self, img: Any) -> Any:
        return self.changed(img) if chance(self.p) else img

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class RandomHorizontalFlip(Perhaps):
    """Mirror left and right with a probability of ``p``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomHorizontalFlip.html
    """

    def changed(self, img: Any) -> Any:
        """The image after the function."""
        return F.hflip(img)


class RandomVerticalFlip(Perhaps):
    """Mirror above and below with a probability of ``p``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomVerticalFlip.html
    """

    def changed(self, img: Any) -> Any:
        """The image after the function."""
        return F.vflip(img)


class RandomResizedCrop(Module):
    """Cut out a rectangle of random area, proportions and place, and resize it.

    Args:
        size: the height and the width, or one number for both.
        scale: the least and the largest part of the area.
        ratio: the least and the largest width, in heights.
        interpolation: an `InterpolationMode`; tensors allow nearest, bilinear and bicubic.
        antialias: whether to average a tensor's pixels where it gets smaller. Pillow always does.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomResizedCrop.html
    """

    def __init__(
        self,
        size: Any,
        scale: Any = (0.08, 1.0),
        ratio: Any = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size = pair_of_sizes(size)
        if not isinstance(scale, Sequence):
            raise TypeError("Scale should be a sequence")
        if not isinstance(ratio, Sequence):
            raise TypeError("Ratio should be a sequence")
        if scale[0] > scale[1] or ratio[0] > ratio[1]:
            raise ValueError(f"scale and ratio should be of kind (min, max), but are {scale} and {ratio}")
        self.interpolation = mode_of(interpolation)
        self.antialias = antialias
        self.scale = scale
        self.ratio = ratio

    @staticmethod
    def get_params(img: Any, scale: Any, ratio: Any) -> tuple[int, int, int, int]:
        """Draw the top, the left, the height and the width."""
        _, height, width = F.get_dimensions(img)
        return drawn_box(height, width, scale, ratio)

    def forward(self, img: Any) -> Any:
        box = self.get_params(img, self.scale, self.ratio)
        return F.resized_crop(img, *box, self.size, self.interpolation, antialias=self.antialias)

    def __repr__(self) -> str:
        scale, ratio = (tuple(round(x, 4) for x in pair) for pair in (self.scale, self.ratio))
        return (
            f"{type(self).__name__}(size={self.size}, scale={scale}, ratio={ratio}, "
            f"interpolation={self.interpolation.value}, antialias={self.antialias})"
        )


def drawn_box(height: int, width: int, scale: Any, ratio: Any) -> tuple[int, int, int, int]:
    """Draw the top, the left, the height and the width of a rectangle in an image, for `RandomResizedCrop`."""
    for _ in range(10):
        w, h = drawn_sides(height * width, scale, ratio)
        if 0 < w <= width and 0 < h <= height:
            return integer(0, height - h + 1), integer(0, width - w + 1), h, w
    w, h = width, height  # the middle, as large as the proportions allow
    if width / height < min(ratio):
        h = round(w / min(ratio))
    elif width / height > max(ratio):
        w = round(h * max(ratio))
    return (height - h) // 2, (width - w) // 2, h, w


def drawn_sides(area: float, scale: Sequence[float], ratio: Sequence[float]) -> tuple[int, int]:
    """Draw a part of an area, and the ratio of its two sides; returns these, the larger one at large ratios first."""
    part = area * uniform(scale[0], scale[1])
    low, high = (float(np.log(np.float32(r))) for r in ratio)  # torchvision computes it in float32
    aspect = float(np.exp(np.float32(uniform(low, high))))
    return round(math.sqrt(part * aspect)), round(math.sqrt(part / aspect))


class FiveCrop(Module):
    """Cut out the four corners and the middle: a tuple of five images.

    Args:
        size: the height and the width, or one number for both.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.FiveCrop.html
    """

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = pair_of_sizes(size)

    def forward(self, img: Any) -> Any:
        return F.five_crop(img, self.size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size})"


class TenCrop(Module):
    """`FiveCrop` of an image and of its mirror image: a tuple of ten images.

    Args:
        size: the height and the width, or one number for both.
        vertical_flip: whether to mirror above and below.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.TenCrop.html
    """

    def __init__(self, size: Any, vertical_flip: bool = False) -> None:
        super().__init__()
        self.size = pair_of_sizes(size)
        self.vertical_flip = vertical_flip

    def forward(self, img: Any) -> Any:
        return F.ten_crop(img, self.size, self.vertical_flip)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, vertical_flip={self.vertical_flip})"
