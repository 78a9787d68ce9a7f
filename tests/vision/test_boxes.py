"""Boxes in ``vision.transforms.v2.functional``: torchvision's numbers, bit for bit, in many random cases."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from pictures import array, raised
from real_torchvision import torchvision as _  # noqa: F401
from torchvision import tv_tensors as their_tensors
from torchvision.transforms.v2 import functional as theirs

import functorch_port as ft
from functorch_port.vision import tv_tensors as our_tensors
from functorch_port.vision.transforms.v2 import functional as ours

FORMATS = ("XYXY", "XYWH", "CXCYWH")
SIZE = (31, 40)
CORNERS = [[0, 0], [39, 0], [39, 30], [0, 30]]


def boxes(tensors: Any, lib: Any, rng: np.random.Generator, format: str, dtype: str, mode: Any) -> Any:
    """Up to five boxes, some of which lie across the border."""
    count = rng.integers(0, 6)
    corner, sides = rng.random((count, 2)) * [44, 34] - 2, rng.random((count, 2)) * 20
    first = corner + sides / 2 if format == "CXCYWH" else corner
    numbers = np.concatenate([first, corner + sides if format == "XYXY" else sides], 1)
    return tensors.BoundingBoxes(
        lib.tensor(numbers).to(getattr(lib, dtype)), format=format, canvas_size=SIZE, clamping_mode=mode
    )


def _displacement(number: int, lib: Any) -> Any:
    return lib.tensor((np.random.default_rng(number).random((1, *SIZE, 2)) - 0.5).astype(np.float32))


def _rotate(r: Any) -> Any:
    angle, expand = r.choice([90, -90, 180, r.uniform(-200, 200)]), r.random() < 0.5
    center = r.choice([None, [3, 7], (1.5, 2.25)])
    return lambda f, lib, b: f.rotate(b, angle, expand=expand, center=center)


def _affine(r: Any) -> Any:
    shear = r.choice([0, [r.uniform(-30, 30)], [r.uniform(-30, 30), r.uniform(-30, 30)]])
    args = r.uniform(-200, 200), [r.randint(-5, 5), r.uniform(-5, 5)], r.uniform(0.3, 3), shear
    center = r.choice([None, [3, 7]])
    return lambda f, lib, b: f.affine(b, *args, center=center)


def _perspective(r: Any) -> Any:
    ends = [[x + r.randint(-6, 6), y + r.randint(-6, 6)] for x, y in CORNERS]
    return lambda f, lib, b: f.perspective(b, CORNERS, ends)


def _elastic(r: Any) -> Any:
    number = r.randrange(100)
    return lambda f, lib, b: f.elastic(b, _displacement(number, lib))


def _crop(r: Any) -> Any:
    args = r.randint(-5, 20), r.randint(-5, 20), r.randint(1, 40), r.randint(1, 40)
    return lambda f, lib, b: f.crop(b, *args)


def _resized_crop(r: Any) -> Any:
    args = r.randint(-5, 20), r.randint(-5, 20), r.randint(1, 40), r.randint(1, 40)
    size = r.choice([12, [9], [9, 14]])
    return lambda f, lib, b: f.resized_crop(b, *args, size=size)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "rotate": _rotate,
    "affine": _affine,
    "perspective": _perspective,
    "elastic": _elastic,
    "crop": _crop,
    "resized_crop": _resized_crop,
    "resize": lambda r: lambda f, lib, b, size=r.choice([7, [20], [9, 50]]): f.resize(b, size),
    "center_crop": lambda r: lambda f, lib, b, size=r.choice([7, [20, 60]]): f.center_crop(b, size),
    "pad": lambda r: lambda f, lib, b, by=r.choice([3, [1, 2], [4, 3, 2, 1]]): f.pad(b, by),
    "horizontal_flip": lambda r: lambda f, lib, b: f.horizontal_flip(b),
    "vertical_flip": lambda r: lambda f, lib, b: f.vertical_flip(b),
    "convert": lambda r: (
        lambda f, lib, b, new=r.choice(FORMATS): f.convert_bounding_box_format(b, new_format=new)
    ),
    "clamp": lambda r: (
        lambda f, lib, b, mode=r.choice(["auto", "soft", None]): f.clamp_bounding_boxes(b, clamping_mode=mode)
    ),
}


@pytest.mark.cpu  # elsewhere, sums of products may be rounded in another way
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize("name", CHANGES)
def test_boxes_are_torchvisions(name: str, dtype: str) -> None:
    for number in range(24):
        r = random.Random(number)
        mode, change = r.choice(["soft", "hard", None]), CHANGES[name](r)
        for format in FORMATS:
            expected, found = (
                change(f, lib, boxes(t, lib, np.random.default_rng(number), format, dtype, mode))
                for f, lib, t in ((theirs, torch, their_tensors), (ours, ft, our_tensors))
            )
            meta = [(b.format.value, b.canvas_size, b.clamping_mode) for b in (found, expected)]
            assert meta[0] == meta[1], (number, format)
            a, b = array(found), array(expected)
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            # PyTorch's products of matrices of float64 are fused; of all else it multiplies and adds
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-11 if dtype == "float64" else 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda f, lib, b: f.pad(b, 1, padding_mode="edge"),
        lambda f, lib, b: f.resize(b, None),
        lambda f, lib, b: f.affine(b, 1.0, [0, 0], 0.0, [0.0]),
        lambda f, lib, b: f.perspective(b, CORNERS, CORNERS, coefficients=[0.0] * 8),
        lambda f, lib, b: f.perspective(b, None, None, coefficients=[0.0] * 7),
        lambda f, lib, b: f.perspective(b, None, None, coefficients=[0.0] * 8),
        lambda f, lib, b: f.elastic(b, 3),
        lambda f, lib, b: f.elastic(b, lib.zeros(1, 3, 3, 2)),
        lambda f, lib, b: f.clamp_bounding_boxes(b, clamping_mode="firm"),
        lambda f, lib, b: f.clamp_bounding_boxes(lib.zeros(1, 4), format=b.format, canvas_size=SIZE),
    ],
)
def test_what_torchvision_refuses_is_refused_in_its_words(call: Callable[..., Any]) -> None:
    expected, found = (
        raised(
            lambda f=f, lib=lib, t=t: call(
                f, lib, t.BoundingBoxes(lib.ones(1, 4), format="XYXY", canvas_size=SIZE)
            )
        )
        for f, lib, t in ((theirs, torch, their_tensors), (ours, ft, our_tensors))
    )
    assert expected is not None and found == expected


def test_gradients_of_boxes() -> None:
    numbers = np.array([[3.0, 4.0, 15.0, 20.0], [10.0, 2.0, 30.0, 25.0]])
    found = []
    for f, lib, t in ((theirs, torch, their_tensors), (ours, ft, our_tensors)):
        x = lib.tensor(numbers, requires_grad=True)
        b = t.BoundingBoxes(x, format="CXCYWH", canvas_size=SIZE, clamping_mode=None)
        turned = f.perspective(f.rotate(b, 20.0, expand=True), CORNERS, [[1, 2], [37, 0], [39, 30], [2, 28]])
        (turned.as_subclass(lib.Tensor) ** 2).sum().backward()
        found.append(x.grad.numpy())
    np.testing.assert_allclose(*found, rtol=1e-12)
