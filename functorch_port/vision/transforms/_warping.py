"""Transforms that move the pixels of an image: rotations, affine and projective maps, elastic ones."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import functorch_port as torch
from functorch_port._tensor.tensor import Tensor
from functorch_port.nn import Module

from . import functional as F
from ._draws import chance, integer, uniform
from ._modes import InterpolationMode, mode_of

__all__ = [
    "ElasticTransform", "RandomAffine", "RandomPerspective", "RandomRotation", "fill_of", "range_of_angles",
]  # fmt: skip


def range_of_angles(x: Any, name: str, lengths: tuple[int, ...] = (2,)) -> list[float]:
    """From one angle ``x`` the range from ``-x`` to ``x``; a range stays."""
    if isinstance(x, numbers.Number):
        if x < 0:
            raise ValueError(f"If {name} is a single number, it must be positive.")
        return [float(-x), float(x)]  # type: ignore[arg-type]
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


def _checked_fill(fill: Any) -> Any:
    if fill is None:
        return 0
    if not isinstance(fill, Sequence | numbers.Number):
        raise TypeError("Fill should be either a sequence or a number.")
    return fill


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
