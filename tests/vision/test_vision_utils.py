"""``vision.utils`` beside torchvision's."""

from __future__ import annotations

import doctest
import importlib
import io
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pictures import compare, raised
from PIL import Image
from real_torchvision import torchvision

import functorch_port as ft
from functorch_port.vision import utils as ours

theirs = torchvision.utils
RNG = np.random.default_rng(0)
BATCH = RNG.standard_normal((5, 1, 6, 7)).astype(np.float32)
IMAGE = RNG.integers(0, 256, (3, 40, 50)).astype(np.uint8)
MASKS = RNG.random((3, 40, 50)) > 0.7
BOXES = np.array([[2, 3, 20, 30], [10.7, 5, 45, 20]], np.float32)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"nrow": 3, "padding": 1, "pad_value": 0.5},
        {"normalize": True},
        {"normalize": True, "scale_each": True},
        {"normalize": True, "value_range": (-1, 1)},
    ],
    ids=str,
)
@pytest.mark.parametrize("what", ["batch", "list", "one", "flat"])
def test_make_grid(options: dict[str, Any], what: str) -> None:
    def make(library: Any, utils: Any) -> Any:
        batch = library.from_numpy(BATCH)
        images = {"batch": batch, "list": [batch[0], batch[1]], "one": batch[0], "flat": batch[0, 0]}[what]
        return utils.make_grid(images, **options)

    compare(make(ft, ours), make(torch, theirs), exact=True)


def test_save_image_writes_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.png", "b.bmp"):
        theirs.save_image(torch.from_numpy(BATCH), f"their_{name}", nrow=2)
        ours.save_image(ft.from_numpy(BATCH), f"our_{name}", nrow=2)
        assert Path(f"our_{name}").read_bytes() == Path(f"their_{name}").read_bytes()
    into = io.BytesIO()
    ours.save_image(ft.from_numpy(BATCH[0]), into, format="png")
    assert Image.open(into).size == (7, 6)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    ours.save_image(ft.zeros(3, 4, 4), path)
    before = path.read_bytes()

    def fail(self: Any, file: Any, format: str) -> None:
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(Image.Image, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        ours.save_image(ft.ones(3, 4, 4), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.png"]


@pytest.mark.parametrize("floats", [False, True])
def test_boxes_and_masks(floats: bool) -> None:
    image = IMAGE.astype(np.float32) / np.float32(255) if floats else IMAGE
    calls = [
        lambda u, i, boxes, masks: u.draw_bounding_boxes(i, boxes),
        lambda u, i, boxes, masks: u.draw_bounding_boxes(i[:1], boxes, colors=["red", (1, 2, 3)]),
        lambda u, i, boxes, masks: u.draw_bounding_boxes(
            i, boxes, labels=["a", None], colors="blue", fill=True, width=2, label_colors=["red", "green"]
        ),
        lambda u, i, boxes, masks: u.draw_segmentation_masks(i, masks),
        lambda u, i, boxes, masks: u.draw_segmentation_masks(i, masks[0], alpha=0.5, colors="#00ff00"),
    ]
    for call in calls:
        expected = call(theirs, *map(torch.from_numpy, (image, BOXES, MASKS)))
        compare(call(ours, *map(ft.from_numpy, (image, BOXES, MASKS))), expected)


def test_integers_are_not_normalized() -> None:
    for lib, utils in ((torch, theirs), (ft, ours)):
        with pytest.raises(RuntimeError):
            utils.make_grid(lib.ones(2, 3, 4, 4, dtype=lib.uint8), normalize=True)


def test_errors_are_those_of_torchvision() -> None:
    for call in (
        lambda u, t: u.save_image(t.zeros(1, 3, 3), "/tmp/x.nope"),
        lambda u, t: u.save_image(t.zeros(1, 3, 3), "/no such folder/x.png"),
        lambda u, t: u.make_grid(3),
        lambda u, t: u.make_grid([3]),
        lambda u, t: u.draw_bounding_boxes(t.zeros(3, 4, 4, dtype=t.uint8), t.tensor([[3, 0, 2, 2]])),
        lambda u, t: u.draw_bounding_boxes(
            t.zeros(3, 4, 4, dtype=t.uint8), t.tensor([[1, 0, 2, 2]]), labels=[]
        ),
        lambda u, t: u.draw_segmentation_masks(t.zeros(3, 4, 4, dtype=t.uint8), t.zeros(4, 4)),
    ):
        error = raised(lambda: call(theirs, torch))
        assert error is not None and raised(lambda: call(ours, ft)) == error


def test_examples_of_the_page_and_of_docstrings() -> None:
    page = Path(__file__).parents[2] / "docs" / "vision.md"
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(block, {})
    names = (
        "datasets.mnist",
        "datasets.folder",
        "datasets.fakedata",
        "datasets.cifar",
        "tv_tensors",
        "utils",
    )
    parts = ("transforms._containers", "transforms._convert", "transforms.v2._container")
    for name in (*names, *parts):
        module = importlib.import_module(f"functorch_port.vision.{name}")
        tested = doctest.testmod(module)
        assert tested.attempted and not tested.failed, name


def test_what_is_missing_is_named() -> None:
    with pytest.raises(NotImplementedError, match="torchvision.utils.flow_to_image"):
        from functorch_port.vision.utils import flow_to_image  # noqa: F401
