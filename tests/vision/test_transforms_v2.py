"""``vision.transforms.v2`` beside torchvision's: the same seed gives the same numbers, for masks and boxes too."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from pictures import KINDS, PICTURE, array, check_augmix, check_same, compare, given, raised, seed
from real_torchvision import torchvision
from vision.test_transforms import CASES as FIRST_CASES

import functorch_port as ft
from functorch_port.vision import transforms as our_v1
from functorch_port.vision import tv_tensors as our_tensors
from functorch_port.vision.transforms import v2 as ours

torchvision.disable_beta_transforms_warning()
from torchvision import transforms as their_v1
from torchvision import tv_tensors as their_tensors
from torchvision.transforms import v2 as theirs


def library(t: Any) -> Any:
    return torch if t is theirs else ft


def floats(t: Any) -> Any:
    return t.ToDtype(library(t).float32, scale=True)


CASES: dict[str, Callable[[Any], Any]] = {
    **{name: make for name, make in FIRST_CASES.items() if name != "ToTensor"},
    "RandomCrop one side": lambda t: t.RandomCrop((41, 30)),
    "RandomCrop padding": lambda t: t.RandomCrop((50, 30), padding=[1, 2, 3, 4], pad_if_needed=True),
    "Resize None": lambda t: t.Resize(None, max_size=30),
    "Resize by name": lambda t: t.Resize((9, 8), interpolation="nearest-exact"),
    "Pad fill": lambda t: t.Pad(2, fill=(1, 2, 3)),
    "ToDtype": lambda t: t.ToDtype(library(t).float32),
    "ToDtype scale": floats,
    "ToDtype bytes": lambda t: t.ToDtype(library(t).uint8, scale=True),
    "ConvertImageDtype": lambda t: t.ConvertImageDtype(),
    "ToImage": lambda t: t.ToImage(),
    "ToPureTensor": lambda t: t.Compose([t.ToImage(), t.ToPureTensor()]),
    "Identity": lambda t: t.Identity(),
    "Lambda": lambda t: t.Lambda(id, int),
    "RGB": lambda t: t.RGB(),
    "RandomChannelPermutation": lambda t: t.RandomChannelPermutation(),
    "RandomResize": lambda t: t.RandomResize(20, 40),
    "RandomErasing values": lambda t: t.RandomErasing(p=0.8, value=(1, 2, 3)),
    "ConvertBoundingBoxFormat": lambda t: t.ConvertBoundingBoxFormat("CXCYWH"),
    "RandomChoice p": lambda t: t.RandomChoice([t.CenterCrop(20), t.Identity()], p=[1, 3]),
    "classification": lambda t: t.Compose(
        [t.ToImage(), t.RandomResizedCrop(24), t.RandomHorizontalFlip(), t.TrivialAugmentWide(), floats(t),
         t.Normalize([0.4] * 3, [0.2] * 3), t.RandomErasing(0.3)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_the_same_seed_gives_the_same_images(name: str, kind: str) -> None:
    def check(found: Any, expected: Any) -> None:
        assert type(found).__name__ == type(expected).__name__
        compare(found, expected, level=0.001)

    check_same(CASES[name](theirs), CASES[name](ours), kind, check)


@pytest.mark.parametrize("all_ops", [True, False])
@pytest.mark.parametrize("kind", ["pil", "bytes"])
def test_augmix(kind: str, all_ops: bool) -> None:
    check_augmix(theirs.AugMix(all_ops=all_ops), ours.AugMix(all_ops=all_ops), kind)


RNG = np.random.default_rng(0)
MASK = RNG.integers(0, 5, (41, 53)).astype(np.uint8)
MASKS = RNG.random((4, 41, 53)) > 0.5
BOXES = np.array([[2, 3, 20, 30], [10.5, 5, 45, 20], [0, 0, 53, 41], [-4, -4, 60, 70]], np.float32)


def sample(tensors: Any, kind: str = "bytes", format: str | None = "XYXY", boxes: np.ndarray = BOXES) -> Any:
    """An image with its masks and boxes."""
    is_ours = tensors is our_tensors
    from_numpy = ft.from_numpy if is_ours else torch.from_numpy
    found = {
        "image": tensors.Image(given(kind)[is_ours]),
        "masks": [tensors.Mask(from_numpy(MASK)), tensors.Mask(from_numpy(MASKS))],
        "label": 3,
        "weights": from_numpy(np.arange(3.0)),
    }
    if format is not None:
        found["boxes"] = tensors.BoundingBoxes(from_numpy(boxes), format=format, canvas_size=(41, 53))
    return found


def check_samples(found: Any, expected: Any) -> None:
    assert found.keys() == expected.keys()
    for key, wanted in expected.items():
        parts = zip(found[key], wanted) if key == "masks" else [(found[key], wanted)]
        for part, other in parts:
            assert type(part).__name__ == type(other).__name__
            if key == "label":
                assert part == other
                continue
            compare(part, other)
            if type(other).__name__ == "BoundingBoxes":
                assert part.format.value == other.format.value
                assert (part.canvas_size, part.clamping_mode) == (other.canvas_size, other.clamping_mode)


TOGETHER: dict[str, Callable[..., Any]] = {
    "flip": lambda t, v: t.RandomHorizontalFlip(),
    "turn": lambda t, v: t.RandomVerticalFlip(1.0),
    "crop": lambda t, v: t.RandomCrop((20, 30)),
    "padded crop": lambda t, v: t.RandomCrop((60, 70), pad_if_needed=True, fill={v.Image: 3, "others": 1}),
    "resized crop": lambda t, v: t.RandomResizedCrop(24),
    "resize": lambda t, v: t.Resize((33, 21)),
    "random resize": lambda t, v: t.RandomResize(20, 40),
    "center": lambda t, v: t.CenterCrop((20, 60)),
    "pad": lambda t, v: t.Pad([1, 2, 3, 4]),
    "pad images": lambda t, v: t.Pad(2, fill={v.Image: 3}),
    "rotation": lambda t, v: t.RandomRotation(20, "bilinear", expand=True),
    "affine": lambda t, v: t.RandomAffine(20, (0.1, 0.1), (0.5, 2.0), 10),
    "perspective": lambda t, v: t.RandomPerspective(0.5, 1.0),
    "elastic": lambda t, v: t.ElasticTransform(200.0),
    "colors": lambda t, v: t.ColorJitter(0.4, 0.4),
    "gray": lambda t, v: t.RandomGrayscale(0.5),
    "boxes": lambda t, v: t.Compose([t.ConvertBoundingBoxFormat("XYXY"), t.ClampBoundingBoxes()]),
    "dtypes": lambda t, v: t.ToDtype(
        {v.Image: library(t).float32, v.Mask: library(t).int64, "others": None}, scale=True
    ),
    "one dtype": lambda t, v: t.ConvertImageDtype(library(t).float64),
    "values": lambda t, v: t.Compose([floats(t), t.Normalize([0.5] * 3, [0.5] * 3), t.ToPureTensor()]),
}


@pytest.mark.parametrize("format", ["XYXY", "XYWH", "CXCYWH"])
@pytest.mark.parametrize("name", TOGETHER)
def test_masks_and_boxes_go_with_their_image(name: str, format: str) -> None:
    for number in range(2):
        seed(number)
        expected = TOGETHER[name](theirs, their_tensors)(sample(their_tensors, format=format))
        found = TOGETHER[name](ours, our_tensors)(sample(our_tensors, format=format))
        check_samples(found, expected)


@pytest.mark.parametrize("name", ["MixUp", "CutMix"])
@pytest.mark.parametrize("size", [8, 40])
def test_mixtures_of_a_batch(name: str, size: int) -> None:
    images = RNG.random((6, 3, size, size + 3)).astype(np.float32)
    labels = RNG.integers(0, 5, 6)
    for number in range(4):
        seed(number)
        expected = getattr(theirs, name)(num_classes=5, alpha=0.7)(
            torch.from_numpy(images), torch.from_numpy(labels)
        )
        compare(
            getattr(ours, name)(num_classes=5, alpha=0.7)(ft.from_numpy(images), ft.from_numpy(labels)),
            expected,
        )
        assert torch.rand(1).item() == ft.rand(1).item()
    batch = {"images": ft.from_numpy(images), "labels": ft.eye(6)}
    mixed = getattr(ours, name)(num_classes=6)(batch)
    assert mixed["labels"].sum().item() == pytest.approx(6) and mixed["images"].shape == images.shape


@pytest.mark.parametrize(
    "call",
    [
        lambda t, lib, v: t.Compose([]),
        lambda t, lib, v: t.Compose(3),
        lambda t, lib, v: t.RandomHorizontalFlip(3),
        lambda t, lib, v: t.Resize(None),
        lambda t, lib, v: t.RandomCrop(60)(PICTURE),
        lambda t, lib, v: t.Normalize([0.5], [0.5])(PICTURE),
        lambda t, lib, v: t.RandAugment()(PICTURE, v.Mask(lib.zeros(1, 4, 4))),
        lambda t, lib, v: t.RandAugment()(PICTURE, PICTURE),
        lambda t, lib, v: t.MixUp(num_classes=3)(PICTURE, 3),
        lambda t, lib, v: t.MixUp()(lib.zeros(2, 3, 4, 4), lib.tensor([1, 2])),
        lambda t, lib, v: t.MixUp(num_classes=3)(lib.zeros(2, 3, 4, 4), lib.tensor([1])),
        lambda t, lib, v: t.CutMix(num_classes=3)(v.Image(lib.zeros(3, 4, 4)), lib.tensor([1])),
        lambda t, lib, v: v.Image(lib.zeros(3)),
        lambda t, lib, v: t.functional.convert_bounding_box_format(lib.zeros(1, 4), new_format="XYWH"),
    ],
)
def test_errors_are_those_of_torchvision(call: Callable[..., Any]) -> None:
    error = raised(lambda: call(theirs, torch, their_tensors))
    assert error is not None and raised(lambda: call(ours, ft, our_tensors)) == error


def test_only_the_first_plain_tensor_is_an_image() -> None:
    for t, lib in ((theirs, torch), (ours, ft)):
        image, labels = t.RandomHorizontalFlip(1.0)(lib.arange(8.0).view(1, 2, 4), lib.arange(6).view(2, 3))
        assert image[0, 0].tolist() == [3, 2, 1, 0] and labels[0].tolist() == [0, 1, 2]
        picture, tensor = t.RandomHorizontalFlip(1.0)([PICTURE, lib.arange(3)])
        assert picture.size == PICTURE.size and tensor.tolist() == [0, 1, 2]


def test_kinds_of_tensors() -> None:
    for tensors, lib in ((their_tensors, torch), (our_tensors, ft)):
        image = tensors.Image(lib.zeros(2, 4, 4))
        kept = [image.clone(), image.detach(), image.to(lib.float64)]
        plain = [image + 1, image[0], lib.stack([image, image]), image.sum()]
        assert [type(x) for x in kept] == [tensors.Image] * 3
        assert [type(x) for x in plain] == [lib.Tensor] * 4
        assert tensors.Image(PICTURE).shape == (3, 41, 53)
        assert type(tensors.wrap(lib.ones(1, 2, 2), like=image)) is tensors.Image
        assert repr(tensors.Image(lib.zeros(1, 1, 2))) == "Image([[[0., 0.]]], )"
    boxes = sample(our_tensors)["boxes"]
    again = pickle.loads(pickle.dumps(boxes))
    assert type(again) is type(boxes) and (again.format, again.canvas_size) == (
        boxes.format,
        boxes.canvas_size,
    )
    np.testing.assert_array_equal(array(again), array(boxes))


def test_what_tensors_say_of_themselves() -> None:
    found = []
    for tensors, lib in ((their_tensors, torch), (our_tensors, ft)):
        boxes = tensors.BoundingBoxes(lib.ones(2, 4), format="XYWH", canvas_size=(5, 6))
        again = tensors.wrap(lib.zeros(1, 4), like=boxes, format="XYXY")
        assert again.format is tensors.BoundingBoxFormat.XYXY
        assert type(tensors.wrap(lib.zeros(1), like=lib.zeros(1))) is lib.Tensor
        found.append(
            [repr(x) for x in (boxes, again, tensors.Mask(lib.ones(2, 3)), tensors.Image(lib.ones(1, 2, 3)))]
        )
    assert found[0] == found[1]


def test_a_subclass_of_the_user() -> None:
    class Halve(ours.Transform):
        def make_params(self, flat_inputs):
            return {"factor": 0.5}

        def transform(self, inpt, params):
            return inpt * params["factor"]

    image, rest = Halve()({"x": ft.ones(1, 2, 2)}, "text")
    assert image["x"].sum() == 2 and rest == "text"


def test_a_kernel_of_the_user() -> None:
    class Depth(our_tensors.TVTensor):
        pass

    with pytest.raises(NotImplementedError, match="but got Depth instead"):
        ours.functional.horizontal_flip(ft.zeros(1, 2, 2).as_subclass(Depth))

    @ours.functional.register_kernel(ours.functional.horizontal_flip, Depth)
    def flip(inpt, *args):
        return "flipped"

    assert ours.RandomHorizontalFlip(1.0)(ft.zeros(1, 2, 2).as_subclass(Depth)) == "flipped"


def test_what_is_missing_is_named() -> None:
    with pytest.raises(NotImplementedError, match="torchvision.transforms.v2.RandomIoUCrop"):
        ours.RandomIoUCrop  # noqa: B018
    for their_module, our_module in ((theirs, ours), (theirs.functional, ours.functional)):
        for name in dir(their_module):
            value = getattr(their_module, name)
            if name[0].isalpha() and getattr(value, "__module__", "").startswith("torchvision"):
                error = raised(lambda name=name: getattr(our_module, name))
                assert error is None or (error[0] == "NotImplementedError" and name in error[1])
    with pytest.raises(NotImplementedError, match="gaussian_noise of torch.uint8"):
        ours.GaussianNoise()(given("bytes")[1])


REFUSED = {
    "no classes": lambda t, v2, v1: v2.MixUp(num_classes=0)(t.ones(4, 3, 8, 8), t.tensor([0, 1, 2, 1])),
    "few classes": lambda t, v2, v1: v2.CutMix(num_classes=2)(t.ones(4, 3, 8, 8), t.tensor([0, 1, 2, 1])),
    "one channel of three": lambda t, v2, v1: v2.functional.permute_channels(t.ones(3, 8, 8), [0]),
    "four means": lambda t, v2, v1: v1.functional.normalize(t.ones(1, 8, 8), [0.1] * 4, [0.2] * 4),
    "four means, one deviation": lambda t, v2, v1: v1.functional.normalize(t.ones(1, 8, 8), [0.1] * 4, [0.2]),
    "four deviations": lambda t, v2, v1: v1.functional.normalize(t.ones(1, 8, 8), [0.1], [0.2] * 4),
    "too many bits": lambda t, v2, v1: v2.functional.posterize(t.ones(3, 8, 8), 9),
    "colors of a reflection": lambda t, v2, v1: v2.functional.pad(
        t.ones(3, 8, 8), 1, fill=[1, 2, 3], padding_mode="reflect"
    ),
    "no size": lambda t, v2, v1: v2.functional.resize(t.ones(3, 8, 8), None),
    "in place": lambda t, v2, v1: v2.functional.normalize(
        t.ones(1, 8, 8), [0.1] * 4, [0.2] * 4, inplace=True
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_torchvision_refuses_is_refused_in_its_words(name) -> None:
    expected = raised(lambda: REFUSED[name](torch, theirs, their_v1))
    assert expected and raised(lambda: REFUSED[name](ft, ours, our_v1)) == expected


def test_v2_makes_channels_of_means() -> None:
    x = np.random.default_rng(0).random((1, 4, 5), np.float32)
    out, expected = (
        f.normalize(t.from_numpy(x), [0.1, 0.2, 0.3], [0.5, 0.6, 0.7]).numpy()
        for f, t in ((ours.functional, ft), (theirs.functional, torch))
    )
    np.testing.assert_allclose(out, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
@pytest.mark.parametrize("shape", [(4, 7, 8), (2, 2, 7, 8), (5, 6), (0, 3, 7, 8)])
def test_colors_of_any_number_of_channels(shape: tuple[int, ...], dtype: Any) -> None:
    x = np.random.default_rng(0).random(shape)
    x = x.astype(dtype) if dtype is np.float32 else (x * np.iinfo(dtype).max).astype(dtype)
    for change in (
        lambda f, t: f.invert(t),
        lambda f, t: f.solarize(t, 0.5),
        lambda f, t: f.posterize(t, 3),
        lambda f, t: f.adjust_gamma(t, 0.7, 1.1),
        lambda f, t: f.equalize(t),
    ):
        found, expected = (
            change(t.functional, lib.from_numpy(x.copy())) for t, lib in ((ours, ft), (theirs, torch))
        )
        compare(found, expected, exact=dtype is not np.float32)


def test_a_threshold_is_compared_in_the_default_dtype() -> None:
    x = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)
    for dtype in ("float32", "float64"):
        for lib in (torch, ft):
            lib.set_default_dtype(getattr(lib, dtype))
        try:
            for f, g in ((ours.functional, theirs.functional), (our_v1.functional, their_v1.functional)):
                found, expected = (
                    f.solarize(ft.from_numpy(x), 170.000005),
                    g.solarize(torch.from_numpy(x), 170.000005),
                )
                np.testing.assert_array_equal(array(found), array(expected))
        finally:
            for lib in (torch, ft):
                lib.set_default_dtype(lib.float32)


def test_masks_without_objects_and_positional_interpolation() -> None:
    for mask in (our_tensors.Mask(ft.zeros(0, 8, 9)), our_tensors.Mask(ft.ones(2, 8, 9))):
        count = mask.shape[0]
        assert ours.RandomRotation(30)(mask).shape == (count, 8, 9)
        assert ours.functional.resize(mask, [4, 6]).shape == (count, 4, 6)
        assert ours.functional.rotate(mask, 30.0, ours.InterpolationMode.BILINEAR).unique().numel() <= 2


def test_a_choice_in_a_compiled_function_is_refused() -> None:
    for transform in (our_v1.RandomChoice, our_v1.RandomOrder):
        chosen = ft.compile(transform([lambda x: x, lambda x: x + 1]))
        with pytest.raises(NotImplementedError, match="would be the same at every call"):
            chosen(ft.zeros(1, 2, 2))
