"""Transforms that change the shape of an image, or where its pixels are."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

import functorch_port as torch
from functorch_port._tensor.tensor import Tensor
from functorch_port.nn import Module

from . import functional as F
from ._draws import chance, integer, uniform
from ._modes import InterpolationMode, mode_of

__all__ = [
    "CenterCrop", "ElasticTransform", "FiveCrop", "Pad", "RandomAffine", "RandomCrop", "RandomHorizontalFlip",
    "RandomPerspective", "RandomResizedCrop", "RandomRotation", "RandomVerticalFlip", "Resize", "TenCrop",
]  # fmt: skip


def pair_of_sizes(size: Any, error: str) -> tuple[int, int]:
    """Height and width, given as one number or two."""
    if isinstance(size, numbers.Number):
        return int(size), int(size)  # type: ignore[call-overload]
    if isinstance(size, Sequence) and len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise ValueError(error)
    return size  # type: ignore[return-value]


def range_of_angles(x: Any, name: str, lengths: tuple[int, ...] = (2,)) -> list[float]:
    """From one angle ``x`` the range from ``-x`` to ``x``; a range stays."""
    if isinstance(x, numbers.Number):
        if x < 0:
            raise ValueError(f"If {name} is a single number, it must be positive.")
        return [-float(x), float(x)]  # type: ignore[arg-type]
    _check_sequence(x, name, lengths)
    return [float(d) for d in x]


def _check_sequence(x: Any, name: str, lengths: tuple[int, ...]) -> None:
    allowed = " or ".join(str(length) for length in lengths)
    if not isinstance(x, Sequence):
        raise TypeError(f"{name} should be a sequence of length {allowed}.")
    if len(x) not in lengths:
        raise ValueError(f"{name} should be a sequence of length {allowed}.")


def fill_of(fill: Any, img: Any) -> Any:
    """The color of new pixels, of a tensor one float for each channel."""
    if not isinstance(img, Tensor) or fill is None:
        return fill
    if isinstance(fill, int | float):
        return [float(fill)] * F.get_image_num_channels(img)
    return [float(f) for f in fill]


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
        self.size = pair_of_sizes(size, "Please provide only two dimensions (h, w) for size.")

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
        self.size: Any = tuple(pair_of_sizes(size, "Please provide only two dimensions (h, w) for size."))
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


class _Flip(Module):
    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class RandomHorizontalFlip(_Flip):
    """Mirror left and right with a probability of ``p``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomHorizontalFlip.html
    """

    def forward(self, img: Any) -> Any:
        return F.hflip(img) if chance(self.p) else img


class RandomVerticalFlip(_Flip):
    """Mirror above and below with a probability of ``p``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomVerticalFlip.html
    """

    def forward(self, img: Any) -> Any:
        return F.vflip(img) if chance(self.p) else img


class RandomPerspective(Module):
    """Look at an image from a random side, with a probability.

    Args:
        distortion_scale: how far corners may move, from 0 to 1.
        p: the probability.
        interpolation: an `InterpolationMode`; tensors allow nearest and bilinear.
        fill: the color of what was outside.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomPerspective.html
    """

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Any = InterpolationMode.BILINEAR,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.p = p
        self.interpolation = mode_of(interpolation)
        self.distortion_scale = distortion_scale
        self.fill = _checked_fill(fill)

    def forward(self, img: Any) -> Any:
        fill = fill_of(self.fill, img)
        if not chance(self.p):
            return img
        _, height, width = F.get_dimensions(img)
        points = self.get_params(width, height, self.distortion_scale)
        return F.perspective(img, *points, self.interpolation, fill)

    @staticmethod
    def get_params(
        width: int, height: int, distortion_scale: float
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Draw where the corners come from, and where they go to."""
        across, down = int(distortion_scale * (width // 2)), int(distortion_scale * (height // 2))

        def corner(right: bool, below: bool) -> list[int]:
            x = (width - across - 1, width) if right else (0, across + 1)
            y = (height - down - 1, height) if below else (0, down + 1)
            return [integer(*x), integer(*y)]

        sides = ((False, False), (True, False), (True, True), (False, True))
        ends = [corner(*side) for side in sides]
        starts = [[(width - 1) * right, (height - 1) * below] for right, below in sides]
        return starts, ends

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


def _checked_fill(fill: Any) -> Any:
    if fill is None:
        return 0
    if not isinstance(fill, Sequence | numbers.Number):
        raise TypeError("Fill should be either a sequence or a number.")
    return fill


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
        self.size = pair_of_sizes(size, "Please provide only two dimensions (h, w) for size.")
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
        self.size = pair_of_sizes(size, "Please provide only two dimensions (h, w) for size.")

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
        self.size = pair_of_sizes(size, "Please provide only two dimensions (h, w) for size.")
        self.vertical_flip = vertical_flip

    def forward(self, img: Any) -> Any:
        return F.ten_crop(img, self.size, self.vertical_flip)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, vertical_flip={self.vertical_flip})"


class RandomRotation(Module):
    """Turn an image by a random angle.

    Args:
        degrees: the range, or one number for the range from ``-degrees`` to ``degrees``.
        interpolation, expand, center, fill: as in `functional.rotate`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomRotation.html
    """

    def __init__(
        self,
        degrees: Any,
        interpolation: Any = InterpolationMode.NEAREST,
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.degrees = range_of_angles(degrees, "degrees")
        if center is not None:
            _check_sequence(center, "center", (2,))
        self.center = center
        self.interpolation = mode_of(interpolation)
        self.expand = expand
        self.fill = _checked_fill(fill)

    @staticmethod
    def get_params(degrees: Sequence[float]) -> float:
        """Draw the angle."""
        return uniform(float(degrees[0]), float(degrees[1]))

    def forward(self, img: Any) -> Any:
        fill = fill_of(self.fill, img)
        angle = self.get_params(self.degrees)
        return F.rotate(img, angle, self.interpolation, self.expand, self.center, fill)

    def __repr__(self) -> str:
        parts = [
            f"degrees={self.degrees}", f"interpolation={self.interpolation.value}", f"expand={self.expand}",
        ]  # fmt: skip
        if self.center is not None:
            parts.append(f"center={self.center}")
        if self.fill is not None:
            parts.append(f"fill={self.fill}")
        return f"{type(self).__name__}({', '.join(parts)})"


class RandomAffine(Module):
    """Rotate, move, scale and shear an image by random amounts.

    Args:
        degrees: the range of the angle, or one number for the range from ``-degrees`` to ``degrees``.
        translate: the most that it moves along x and y, as parts of the width and the height.
        scale: the range of the factor.
        shear: the range of the angle along x (one number or two), or along x and y (four).
        interpolation, fill, center: as in `functional.affine`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomAffine.html
    """

    def __init__(
        self,
        degrees: Any,
        translate: Any = None,
        scale: Any = None,
        shear: Any = None,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = 0,
        center: Any = None,
    ) -> None:
        super().__init__()
        self.degrees = range_of_angles(degrees, "degrees")
        if translate is not None:
            _check_sequence(translate, "translate", (2,))
            if not all(0.0 <= t <= 1.0 for t in translate):
                raise ValueError("translation values should be between 0 and 1")
        if scale is not None:
            _check_sequence(scale, "scale", (2,))
            if not all(s > 0 for s in scale):
                raise ValueError("scale values should be positive")
        if center is not None:
            _check_sequence(center, "center", (2,))
        self.translate = translate
        self.scale = scale
        self.shear = None if shear is None else range_of_angles(shear, "shear", (2, 4))
        self.interpolation = mode_of(interpolation)
        self.fill = _checked_fill(fill)
        self.center = center

    @staticmethod
    def get_params(
        degrees: Any, translate: Any, scale_ranges: Any, shears: Any, img_size: Any
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        """Draw the angle, the pixels along x and y, the factor, and the angles of the shears."""
        angle = uniform(float(degrees[0]), float(degrees[1]))
        move_x = move_y = 0
        if translate is not None:
            most_x, most_y = (float(t * size) for t, size in zip(translate, img_size))
            move_x, move_y = (round(uniform(-most, most)) for most in (most_x, most_y))
        scale = 1.0 if scale_ranges is None else uniform(scale_ranges[0], scale_ranges[1])
        shear_x = shear_y = 0.0
        if shears is not None:
            shear_x = uniform(shears[0], shears[1])
            if len(shears) == 4:
                shear_y = uniform(shears[2], shears[3])
        return angle, (move_x, move_y), scale, (shear_x, shear_y)

    def forward(self, img: Any) -> Any:
        fill = fill_of(self.fill, img)
        _, height, width = F.get_dimensions(img)
        drawn = self.get_params(self.degrees, self.translate, self.scale, self.shear, [width, height])
        return F.affine(img, *drawn, interpolation=self.interpolation, fill=fill, center=self.center)

    def __repr__(self) -> str:
        parts = [f"degrees={self.degrees}"]
        for name in ("translate", "scale", "shear"):
            if getattr(self, name) is not None:
                parts.append(f"{name}={getattr(self, name)}")
        if self.interpolation != InterpolationMode.NEAREST:
            parts.append(f"interpolation={self.interpolation.value}")
        if self.fill != 0:
            parts.append(f"fill={self.fill}")
        if self.center is not None:
            parts.append(f"center={self.center}")
        return f"{type(self).__name__}({', '.join(parts)})"


class ElasticTransform(Module):
    """Move pixels by random displacements that are blurred, so that neighbours move together.

    Args:
        alpha: how far, along x and y or one number for both.
        sigma: how smooth, likewise.
        interpolation: an `InterpolationMode`: nearest or bilinear.
        fill: the color of what was outside.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.ElasticTransform.html
    """

    def __init__(
        self,
        alpha: Any = 50.0,
        sigma: Any = 5.0,
        interpolation: Any = InterpolationMode.BILINEAR,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.alpha = _two_floats(alpha, "alpha")
        self.sigma = _two_floats(sigma, "sigma")
        self.interpolation = mode_of(interpolation)
        self.fill = [float(fill)] if isinstance(fill, int | float) else [float(f) for f in fill]

    @staticmethod
    def get_params(alpha: Sequence[float], sigma: Sequence[float], size: Sequence[int]) -> Tensor:
        """Draw the displacements (1, H, W, 2)."""
        moves = []
        for most, smooth, length in zip(alpha, sigma, reversed(size)):
            move = torch.rand(1, 1, *size) * 2 - 1
            if smooth > 0.0:
                width = int(8 * smooth + 1) | 1  # odd
                move = F.gaussian_blur(move, [width, width], list(sigma))
            moves.append(move * most / length)
        return torch.cat(moves, 1).permute(0, 2, 3, 1)

    def forward(self, tensor: Any) -> Any:
        _, height, width = F.get_dimensions(tensor)
        displacement = self.get_params(self.alpha, self.sigma, [height, width])
        return F.elastic_transform(tensor, displacement, self.interpolation, self.fill)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(alpha={self.alpha}, sigma={self.sigma}, interpolation={self.interpolation}, "
            f"fill={self.fill})"
        )


def _two_floats(value: Any, name: str) -> list[float]:
    if isinstance(value, Sequence):
        if len(value) not in (1, 2):
            raise ValueError(f"{name} is a sequence its length should be 1 or 2. Got {len(value)}")
        value = [value[0], value[-1]]
    elif isinstance(value, int | float):
        value = [value, value]
    else:
        raise TypeError(f"{name} should be float or a sequence of floats. Got {type(value)}")
    return [float(v) for v in value]
