"""`InterpolationMode`, and what Pillow calls each mode."""

from __future__ import annotations

from enum import Enum
from typing import Any

from functorch_port.vision._pillow import Image

__all__ = ["InterpolationMode", "mode_of", "pillow_mode"]


class InterpolationMode(Enum):
    """How new pixels are made of the old ones. Box, Hamming and Lanczos are for Pillow images only.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.InterpolationMode.html
    """

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


_PILLOW = {
    InterpolationMode.NEAREST: Image.Resampling.NEAREST,
    InterpolationMode.NEAREST_EXACT: Image.Resampling.NEAREST,
    InterpolationMode.BILINEAR: Image.Resampling.BILINEAR,
    InterpolationMode.BICUBIC: Image.Resampling.BICUBIC,
    InterpolationMode.BOX: Image.Resampling.BOX,
    InterpolationMode.HAMMING: Image.Resampling.HAMMING,
    InterpolationMode.LANCZOS: Image.Resampling.LANCZOS,
}
_BY_NAME = {mode.value: mode for mode in InterpolationMode}
_BY_NUMBER = {int(number): mode for mode, number in _PILLOW.items() if mode.value != "nearest-exact"}


def mode_of(interpolation: Any) -> InterpolationMode:
    """A mode that is given as itself, by its name or by Pillow's number.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(interpolation, InterpolationMode):
        return interpolation
    if isinstance(interpolation, str) and interpolation.lower() in _BY_NAME:
        return _BY_NAME[interpolation.lower()]
    if isinstance(interpolation, int) and interpolation in _BY_NUMBER:
        return _BY_NUMBER[interpolation]
    raise TypeError(
        "Argument interpolation should be a InterpolationMode or a corresponding Pillow integer constant"
    )


def pillow_mode(mode: InterpolationMode) -> Any:
    """What Pillow calls a mode."""
    return _PILLOW[mode]
