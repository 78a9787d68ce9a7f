"""The operations that automatic augmentation chooses from, and their magnitudes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functorch_port._base import dtypes

from . import functional as F
from ._draws import integer

__all__ = ["SIGNED", "AUTO", "COLORS", "MIX", "RAND", "WIDE", "apply", "drawn", "magnitudes"]

#: what may be done in the other direction, too
SIGNED = frozenset({
    "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness",
})  # fmt: skip
_MOVES = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
COLORS = ("Brightness", "Color", "Contrast", "Sharpness")
_REST = ("Posterize", "Solarize", "AutoContrast", "Equalize")

#: a space: the names of its operations in order, and for each the largest magnitude
Space = dict[str, Any]


def _space(names: Sequence[str], most: dict[str, Any]) -> Space:
    groups = {**dict.fromkeys(("ShearX", "ShearY"), "Shear"), **dict.fromkeys(COLORS, "Color")}
    return {name: most.get(groups.get(name, name)) for name in names}


#: a translation is a part of the width or the height; of AutoAugment and RandAugment it is 150 of 331 pixels
_USUAL = {
    "Shear": 0.3, "TranslateX": ("part", 150.0 / 331.0), "TranslateY": ("part", 150.0 / 331.0), "Rotate": 30.0,
    "Color": 0.9, "Posterize": (8, 4), "Solarize": 255.0,
}  # fmt: skip
AUTO = _space([*_MOVES, *COLORS, *_REST, "Invert"], _USUAL)
RAND = _space(["Identity", *_MOVES, *COLORS, *_REST], _USUAL)
WIDE = _space(
    ["Identity", *_MOVES, *COLORS, *_REST],
    {
        "Shear": 0.99,
        "TranslateX": 32.0,
        "TranslateY": 32.0,
        "Rotate": 135.0,
        "Color": 0.99,
        "Posterize": (8, 6),
        "Solarize": 255.0,
    },
)
MIX = _space(
    [*_MOVES, *_REST, *COLORS],
    {**_USUAL, "TranslateX": ("part", 1.0 / 3.0), "TranslateY": ("part", 1.0 / 3.0), "Posterize": (4, 4)},
)


def _line(first: float, last: float, bins: int, number: type[np.floating]) -> list[float]:
    """``torch.linspace`` with the rounding of PyTorch's kernel for a CPU, which multiplies and adds at once."""
    start, end = np.longdouble(number(first)), np.longdouble(number(last))
    step = np.longdouble((number(last) - number(first)) / number(bins - 1))
    i = np.arange(bins)
    values = np.where(i < bins // 2, start + step * i, end - step * (bins - 1 - i))
    return values.astype(number).tolist()


@functools.lru_cache(1024)
def _steps(
    name: str, most: Any, bins: int, height: int, width: int, number: type[np.floating]
) -> list[float] | None:
    if name == "Solarize":
        return _line(most, 0.0, bins, number)
    if name == "Posterize":
        first, fewer = most
        return (first - np.rint(np.arange(bins, dtype=number) / number((bins - 1) / fewer))).tolist()
    if most is None:
        return None
    if isinstance(most, tuple):
        most = most[1] * (width if name == "TranslateX" else height)
    return _line(0.0, most, bins, number)


def magnitudes(space: Space, name: str, bins: int, size: tuple[int, int]) -> list[float] | None:
    """The magnitudes of an operation, from the least to the largest; None if it has none.

    Args:
        space: one of those above.
        name: of the operation.
        bins: how many.
        size: height and width of the image.
    """
    number = np.float64 if dtypes.get_default_dtype() is dtypes.float64 else np.float32
    return _steps(name, space[name], bins, *size, number)


def drawn(
    space: Space,
    bins: int,
    size: tuple[int, int],
    index: int | None,
    below: int | None,
    is_negative: Callable[[], bool],
) -> tuple[str, float]:
    """Draw an operation, and its magnitude.

    Args:
        space: the operations.
        bins: the number of magnitudes.
        size: height and width of the image.
        index: that of the magnitude, or None to draw it.
        below: what it is drawn below. Default: all.
        is_negative: draws the sign.
    """
    name = [*space][integer(0, len(space))]
    steps = magnitudes(space, name, bins, size)
    if steps is None:
        return name, 0.0
    magnitude = steps[integer(0, below or bins) if index is None else index]
    return name, -magnitude if name in SIGNED and is_negative() else magnitude


def _affine(**changed: Any) -> Callable[..., Any]:
    def apply_to(to: Any, img: Any, magnitude: float, mode: Any, fill: Any) -> Any:
        given = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0]}
        given |= {name: of(magnitude) for name, of in changed.items()}
        # around the corner at the top left, for tensors around the middle of the image as Pillow's (0, 0)
        return to.affine(img, **given, interpolation=mode, fill=fill, center=[0, 0])

    return apply_to


def _degrees(x: float) -> float:
    return math.degrees(math.atan(x))


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "ShearX": _affine(shear=lambda m: [_degrees(m), 0.0]),
    "ShearY": _affine(shear=lambda m: [0.0, _degrees(m)]),
    "TranslateX": _affine(translate=lambda m: [int(m), 0]),
    "TranslateY": _affine(translate=lambda m: [0, int(m)]),
    "Rotate": lambda to, img, m, mode, fill: to.rotate(img, m, interpolation=mode, fill=fill),
    "Brightness": lambda to, img, m, *_: to.adjust_brightness(img, 1.0 + m),
    "Color": lambda to, img, m, *_: to.adjust_saturation(img, 1.0 + m),
    "Contrast": lambda to, img, m, *_: to.adjust_contrast(img, 1.0 + m),
    "Sharpness": lambda to, img, m, *_: to.adjust_sharpness(img, 1.0 + m),
    "Posterize": lambda to, img, m, *_: to.posterize(img, int(m)),
    "Solarize": lambda to, img, m, *_: to.solarize(img, m),
    "AutoContrast": lambda to, img, *_: to.autocontrast(img),
    "Equalize": lambda to, img, *_: to.equalize(img),
    "Invert": lambda to, img, *_: to.invert(img),
    "Identity": lambda to, img, *_: img,
}


def apply(img: Any, name: str, magnitude: float, mode: Any, fill: Any, functions: Any = F) -> Any:
    """An image after an operation, by the functions of `transforms` or `transforms.v2`."""
    return _OPERATIONS[name](functions, img, magnitude, mode, fill)
