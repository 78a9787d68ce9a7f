"""A picture in the kinds that transforms take, and how results of both libraries are compared."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image

import functorch_port as ft

_Y, _X = np.mgrid[0:41, 0:53]
#: smooth, with edges, and sizes that are odd
PIXELS = np.stack([(_Y * 5 + _X) % 256, (_X * 4) % 256, (_Y * _X // 9) % 256], -1).astype(np.uint8)
PICTURE = Image.fromarray(PIXELS)
PLANES = np.ascontiguousarray(PIXELS.transpose(2, 0, 1))

KINDS = ("pil", "bytes", "floats")


def given(kind: str) -> tuple[Any, Any]:
    """The picture for torchvision and for this library."""
    if kind == "pil":
        return PICTURE, PICTURE
    array = PLANES if kind == "bytes" else PLANES.astype(np.float32) / np.float32(255)
    return torch.from_numpy(array.copy()), ft.from_numpy(array.copy())


def seed(number: int) -> None:
    """Seed both libraries and Python."""
    torch.manual_seed(number)
    ft.manual_seed(number)
    random.seed(number)


def both(theirs: Any, ours: Any, kind: str, number: int) -> tuple[Any, Any]:
    """The results of both under the same seed, after which the streams must be at the same place."""
    for_theirs, for_ours = given(kind)
    seed(number)
    expected = theirs(for_theirs)
    random.seed(number)
    found = ours(for_ours)
    assert torch.rand(1).item() == ft.rand(1).item(), "it draws other numbers, or in another order"
    return expected, found


def check_same(
    theirs: Any, ours: Any, kind: str, check: Callable[[Any, Any], None], tensor: str = "torch.Tensor"
) -> None:
    """Both have the same representation and, under each of three seeds, give the same images or the same error.

    Args:
        theirs, ours: the transforms.
        kind: of image.
        check: compares what is found with what is expected.
        tensor: what our errors call a tensor.
    """
    assert repr(ours) == repr(theirs)
    x, y = given(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(3):
            seed(number)
            error = raised(lambda: theirs(x))
            if error is None:
                expected, found = both(theirs, ours, kind, number)
                check(found, expected)
            else:
                seed(number)
                name, text = raised(lambda: ours(y)) or ("", "")
                assert (name, text.replace(tensor, "torch.Tensor")) == error


def check_augmix(theirs: Any, ours: Any, kind: str) -> None:
    """A sum that is cut off to bytes: where it is a whole number, rounding decides."""
    for number in range(3):
        expected, found = both(theirs, ours, kind, number)
        a, b = np.asarray(array(found), np.float64), np.asarray(array(expected), np.float64)
        assert np.abs(a - b).max() <= 1
        assert (a != b).mean() < 0.01


def array(x: Any) -> np.ndarray:
    return np.asarray(x.detach() if hasattr(x, "detach") else x)


def compare(found: Any, expected: Any, exact: bool = False, level: float = 0.02) -> None:
    """Pillow images are equal; bytes of tensors differ by 1 at most, where a sum of floats ends at a half, and in
    ``level`` of the pixels; floats differ by rounding.
    """
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for part, wanted in zip(found, expected, strict=True):
            compare(part, wanted, exact, level)
        return
    if isinstance(expected, Image.Image):
        assert found.mode == expected.mode
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
        return
    a, b = array(found), array(expected)
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    if exact:
        np.testing.assert_array_equal(a, b)
    elif a.dtype == np.uint8:
        apart = np.abs(a.astype(int) - b.astype(int))
        assert apart.max(initial=0) <= 1
        assert (apart > 0).mean() <= level
    else:
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-5)


def raised(call: Any) -> tuple[str, str] | None:
    """The name and the text of the error of a call."""
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return None
