"""The operations that automatic augmentation chooses from, and their magnitudes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import functorch_port as torch

from . import functional as F

__all__ = ["SIGNED", "AUTO", "MIX", "RAND", "WIDE", "apply", "magnitudes"]

#: what may be done in the other direction, too
SIGNED = frozenset({
    "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness",
})  # fmt: skip
_MOVES = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
_COLORS = ("Brightness", "Color", "Contrast", "Sharpness")
_REST = ("Posterize", "Solarize", "AutoContrast", "Equalize")

#: a space: the names of its operations in order, and for each the largest magnitude
Space = dict[str, Any]


def _space(names: Sequence[str], most: dict[str, Any]) -> Space:
    groups = {**dict.fromkeys(("ShearX", "ShearY"), "Shear"), **dict.fromkeys(_COLORS, "Color")}
    return {name: most.get(groups.get(name, name)) for name in names}


#: a translation is a part of the width or the height; of AutoAugment and RandAugment it is 150 of 331 pixels
_USUAL = {
    "Shear": 0.3, "TranslateX": ("part", 150.0 / 331.0), "TranslateY": ("part", 150.0 / 331.0), "Rotate": 30.0,
    "Color": 0.9, "Posterize": (8, 4),
}  # fmt: skip
AUTO = _space([*_MOVES, *_COLORS, *_REST, "Invert"], _USUAL)
RAND = _space(["Identity", *_MOVES, *_COLORS, *_REST], _USUAL)
WIDE = _space(
    ["Identity", *_MOVES, *_COLORS, *_REST],
    {
        "Shear": 0.99,
        "TranslateX": 32.0,
        "TranslateY": 32.0,
        "Rotate": 135.0,
        "Color": 0.99,
        "Posterize": (8, 6),
    },
)
MIX = _space(
    [*_MOVES, *_REST, *_COLORS],
    {**_USUAL, "TranslateX": ("part", 1.0 / 3.0), "TranslateY": ("part", 1.0 / 3.0), "Posterize": (4, 4)},
)


@functools.lru_cache(1024)
def _steps(name: str, most: Any, bins: int, height: int, width: int) -> list[float] | None:
    if name == "Solarize":
        return torch.linspace(255.0, 0.0, bins).tolist()
    if name == "Posterize":
        first, range_ = most
        return (first - (torch.arange(bins) / ((bins - 1) / range_)).round().int()).tolist()
    if most is None:
        return None
    if isinstance(most, tuple):
        most = most[1] * (width if name == "TranslateX" else height)
    return torch.linspace(0.0, most, bins).tolist()


def magnitudes(space: Space, name: str, bins: int, size: tuple[int, int]) -> list[float] | None:
    """The magnitudes of an operation, from the least to the largest; None if it has none.

    Args:
        space: one of those above.
        name: of the operation.
        bins: how many.
        size: height and width of the image.
    """
    return _steps(name, space[name], bins, *size)


def _affine(**changed: Any) -> Callable[..., Any]:
    def apply_to(img: Any, magnitude: float, mode: Any, fill: Any) -> Any:
        given = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0]}
        given |= {name: of(magnitude) for name, of in changed.items()}
        # around the corner at the top left, for tensors around the middle of the image as Pillow's (0, 0)
        return F.affine(img, **given, interpolation=mode, fill=fill, center=[0, 0])

    return apply_to


def _degrees(x: float) -> float:
    return math.degrees(math.atan(x))


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "ShearX": _affine(shear=lambda m: [_degrees(m), 0.0]),
    "ShearY": _affine(shear=lambda m: [0.0, _degrees(m)]),
    "TranslateX": _affine(translate=lambda m: [int(m), 0]),
    "TranslateY": _affine(translate=lambda m: [0, int(m)]),
    "Rotate": lambda img, m, mode, fill: F.rotate(img, m, interpolation=mode, fill=fill),
    "Brightness": lambda img, m, *_: F.adjust_brightness(img, 1.0 + m),
    "Color": lambda img, m, *_: F.adjust_saturation(img, 1.0 + m),
    "Contrast": lambda img, m, *_: F.adjust_contrast(img, 1.0 + m),
    "Sharpness": lambda img, m, *_: F.adjust_sharpness(img, 1.0 + m),
    "Posterize": lambda img, m, *_: F.posterize(img, int(m)),
    "Solarize": lambda img, m, *_: F.solarize(img, m),
    "AutoContrast": lambda img, *_: F.autocontrast(img),
    "Equalize": lambda img, *_: F.equalize(img),
    "Invert": lambda img, *_: F.invert(img),
    "Identity": lambda img, *_: img,
}


def apply(img: Any, name: str, magnitude: float, mode: Any, fill: Any) -> Any:
    """An image after an operation."""
    return _OPERATIONS[name](img, magnitude, mode, fill)
