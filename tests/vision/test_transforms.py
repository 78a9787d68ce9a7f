"""``vision.transforms`` beside torchvision's: the same seed gives the same numbers."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import torch
from counting import xla_compilations
from pictures import KINDS, PICTURE, PLANES, array, both, check_augmix, check_same, compare, raised, seed
from PIL import Image
from real_torchvision import torchvision
from torchvision.transforms import v2 as _their_v2  # noqa: F401 - makes `theirs.v2`

import functorch_port as ft
import functorch_port.vision.transforms.v2  # makes `ours.v2`
from functorch_port.vision import transforms as ours
from functorch_port.vision.transforms import functional as our_functional

theirs = torchvision.transforms
their_functional = theirs.functional

CASES: dict[str, Callable[[Any], Any]] = {
    "CenterCrop": lambda t: t.CenterCrop(20),
    "CenterCrop larger": lambda t: t.CenterCrop((60, 30)),
    "Resize": lambda t: t.Resize(20),
    "Resize up": lambda t: t.Resize((80, 70)),
    "Resize max_size": lambda t: t.Resize(30, max_size=33),
    "Resize bicubic": lambda t: t.Resize((30, 21), t.InterpolationMode.BICUBIC),
    "Resize nearest": lambda t: t.Resize((30, 21), t.InterpolationMode.NEAREST),
    "Resize nearest exact": lambda t: t.Resize((30, 21), t.InterpolationMode.NEAREST_EXACT),
    "RandomCrop": lambda t: t.RandomCrop(32, padding=4),
    "RandomCrop reflect": lambda t: t.RandomCrop(32, padding=(3, 4), padding_mode="reflect"),
    "RandomCrop pad_if_needed": lambda t: t.RandomCrop(60, pad_if_needed=True, fill=3),
    "RandomResizedCrop": lambda t: t.RandomResizedCrop(24),
    "RandomResizedCrop bicubic": lambda t: t.RandomResizedCrop(24, interpolation=t.InterpolationMode.BICUBIC),
    "RandomResizedCrop none fits": lambda t: t.RandomResizedCrop(24, scale=(3, 4)),
    "RandomHorizontalFlip": lambda t: t.RandomHorizontalFlip(),
    "RandomVerticalFlip": lambda t: t.RandomVerticalFlip(0.4),
    "RandomRotation": lambda t: t.RandomRotation(30),
    "RandomRotation expand": lambda t: t.RandomRotation(
        (10, 40), expand=True, interpolation=t.InterpolationMode.BILINEAR, fill=7
    ),
    "RandomRotation center": lambda t: t.RandomRotation(30, center=(3, 4)),
    "RandomAffine": lambda t: t.RandomAffine(20, (0.1, 0.2), (0.8, 1.2), 10),
    "RandomAffine fill": lambda t: t.RandomAffine(
        20, shear=(1, 2, 3, 4), interpolation=t.InterpolationMode.BILINEAR, fill=(1, 2, 3), center=(9, 9)
    ),
    "RandomPerspective": lambda t: t.RandomPerspective(p=0.8),
    "RandomPerspective nearest": lambda t: t.RandomPerspective(
        p=0.8, interpolation=t.InterpolationMode.NEAREST, fill=9
    ),
    "ElasticTransform": lambda t: t.ElasticTransform(alpha=[10.0, 90.0], sigma=[2.0, 4.0]),
    "ColorJitter": lambda t: t.ColorJitter(0.4, 0.4, 0.4, 0.1),
    "ColorJitter hue": lambda t: t.ColorJitter(hue=(-0.4, 0.3)),
    "Grayscale": lambda t: t.Grayscale(),
    "Grayscale 3": lambda t: t.Grayscale(3),
    "RandomGrayscale": lambda t: t.RandomGrayscale(0.5),
    "GaussianBlur": lambda t: t.GaussianBlur((5, 9), (0.1, 5)),
    "Pad": lambda t: t.Pad((1, 2, 3, 4), fill=5),
    "Pad edge": lambda t: t.Pad(3, padding_mode="edge"),
    "Pad symmetric": lambda t: t.Pad((2, 3), padding_mode="symmetric"),
    "Pad negative": lambda t: t.Pad((-1, 2, -3, 4)),
    "FiveCrop": lambda t: t.FiveCrop(20),
    "TenCrop": lambda t: t.TenCrop((20, 30), vertical_flip=True),
    "RandomApply": lambda t: t.RandomApply([t.CenterCrop(20), t.ColorJitter(0.4)], 0.5),
    "RandomChoice": lambda t: t.RandomChoice([t.CenterCrop(20), t.ColorJitter(0.4)]),
    "RandomOrder": lambda t: t.RandomOrder([t.CenterCrop(20), t.RandomCrop(30, pad_if_needed=True)]),
    "RandomInvert": lambda t: t.RandomInvert(),
    "RandomPosterize": lambda t: t.RandomPosterize(3, 0.9),
    "RandomSolarize": lambda t: t.RandomSolarize(0.5),
    "RandomAdjustSharpness": lambda t: t.RandomAdjustSharpness(2),
    "RandomAutocontrast": lambda t: t.RandomAutocontrast(),
    "RandomEqualize": lambda t: t.RandomEqualize(),
    "AutoAugment": lambda t: t.AutoAugment(),
    "AutoAugment CIFAR": lambda t: t.AutoAugment(t.AutoAugmentPolicy.CIFAR10, fill=[1, 2, 3]),
    "AutoAugment SVHN": lambda t: t.AutoAugment(t.AutoAugmentPolicy.SVHN),
    "RandAugment": lambda t: t.RandAugment(),
    "TrivialAugmentWide": lambda t: t.TrivialAugmentWide(),
    "RandomErasing": lambda t: t.RandomErasing(p=0.8),
    "RandomErasing random": lambda t: t.RandomErasing(p=0.8, value="random"),
    "Normalize": lambda t: t.Normalize((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)),
    "ToPILImage": lambda t: t.ToPILImage(),
    "ToTensor": lambda t: t.ToTensor(),
    "PILToTensor": lambda t: t.PILToTensor(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_the_same_seed_gives_the_same_images(name: str, kind: str) -> None:
    check_same(CASES[name](theirs), CASES[name](ours), kind, compare, tensor="functorch_port.Tensor")


#: one for each way to draw; the others draw in one of these
DRAWS = [
    "RandomResizedCrop", "RandomVerticalFlip", "RandomRotation", "RandomAffine", "ElasticTransform", "ColorJitter",
    "GaussianBlur", "RandomApply", "AutoAugment", "RandAugment", "TrivialAugmentWide", "RandomErasing",
    "RandomErasing random", "ToTensor",
]  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_seed_gives_the_same_images_with_a_default_of_float64(name: str) -> None:
    kind = "floats" if "Erasing" in name else "pil"
    wanted, made = CASES[name](theirs), CASES[name](ours)
    for library in (torch, ft):
        library.set_default_dtype(library.float64)
    try:
        for number in range(4):
            expected, found = both(wanted, made, kind, number)
            compare(found, expected)
    finally:
        for library in (torch, ft):
            library.set_default_dtype(library.float32)


def test_a_range_from_zero_is_written_as_in_torchvision() -> None:
    assert repr(ours.RandomAffine(0, shear=0)) == repr(theirs.RandomAffine(0, shear=0))


@pytest.mark.parametrize("all_ops", [True, False])
@pytest.mark.parametrize("kind", ["pil", "bytes"])
def test_augmix(kind: str, all_ops: bool) -> None:
    check_augmix(theirs.AugMix(all_ops=all_ops), ours.AugMix(all_ops=all_ops), kind)


@pytest.mark.parametrize("old", ["uint8", "int16", "int32", "float32", "float64"])
@pytest.mark.parametrize("new", ["uint8", "int16", "int32", "float32", "float64"])
def test_convert_image_dtype(old: str, new: str) -> None:
    x = PLANES.astype(np.float64) / 255
    scale = 1 if "float" in old else np.iinfo(old).max
    x = (x * scale).astype(old)
    error = raised(lambda: their_functional.convert_image_dtype(torch.from_numpy(x), getattr(torch, new)))
    if error is not None:
        assert raised(lambda: our_functional.convert_image_dtype(ft.from_numpy(x), getattr(ft, new))) == error
        return
    expected = their_functional.convert_image_dtype(torch.from_numpy(x), getattr(torch, new))
    compare(our_functional.convert_image_dtype(ft.from_numpy(x), getattr(ft, new)), expected, exact=True)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_values_of_half_precision_are_scaled_in_single_precision(kind: str) -> None:
    """A largest value such as 255.999 or 65535 has no equal in half precision, nor has 1 / 255."""
    small, large = np.arange(256).reshape(1, 16, 16), np.arange(16, 65536, 4096).reshape(1, 4, 4)
    for bits, x in (("uint8", small), ("int16", small), ("uint16", large)):
        for convert in (
            lambda lib, f, v2, t: f.convert_image_dtype(t, getattr(lib, kind)),
            lambda lib, f, v2, t: v2.functional.to_dtype(t, getattr(lib, kind), scale=True),
            lambda lib, f, v2, t: f.convert_image_dtype(t.to(getattr(lib, kind)) / 66000, getattr(lib, bits)),
        ):
            out = [
                convert(lib, t.functional, t.v2, lib.tensor(x).to(getattr(lib, bits))).float().numpy()
                for lib, t in ((ft, ours), (torch, theirs))
            ]
            np.testing.assert_array_equal(*out, err_msg=bits)


def test_tensors_that_are_no_bytes_or_colors() -> None:
    flags = np.random.default_rng(0).random((1, 9, 8)) > 0.5
    for x in (flags, flags.astype(np.uint16) * 1001):
        for mode in ("bilinear", "bicubic"):
            for v2 in (False, True):
                f, g = (
                    (t.v2 if v2 else t).functional.resize(
                        lib.from_numpy(x), [5, 11], t.InterpolationMode(mode), antialias=False
                    )
                    for t, lib in ((ours, ft), (theirs, torch))
                )
                compare(f, g, exact=True)
    gray = np.random.default_rng(0).random((1, 5, 6), np.float32)
    for transforms in (lambda t: t, lambda t: t.v2):
        f, g = (
            transforms(t).functional.rgb_to_grayscale(lib.from_numpy(gray), 3)
            for t, lib in ((ours, ft), (theirs, torch))
        )
        compare(f, g, exact=True)


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "CMYK", "1", "I", "F", "P", "I;16"])
def test_pillow_modes(mode: str) -> None:
    rng = np.random.default_rng(0)
    if mode == "I;16":
        picture = Image.fromarray(rng.integers(0, 30000, (5, 6)).astype(np.uint16))
    else:
        picture = PICTURE.convert("L" if mode in "IF" else "RGBA").convert(mode)
    for name in ("to_tensor", "pil_to_tensor"):
        error = raised(lambda: getattr(their_functional, name)(picture))
        if error is None:
            compare(
                getattr(our_functional, name)(picture), getattr(their_functional, name)(picture), exact=True
            )
    compare(ours.Pad(2)(picture), theirs.Pad(2)(picture))
    compare(ours.RandomHorizontalFlip(1.0)(picture), theirs.RandomHorizontalFlip(1.0)(picture))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "float32"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
def test_to_pil_image(dtype: str, channels: int) -> None:
    rng = np.random.default_rng(0)
    x = (rng.random((channels, 6, 7)) * (1 if dtype == "float32" else 200)).astype(dtype)
    for make in (
        lambda f, t: f.to_pil_image(t.from_numpy(x)),
        lambda f, _: f.to_pil_image(x.transpose(1, 2, 0)),
    ):
        error = raised(lambda: make(their_functional, torch))
        if error is not None:
            name, text = raised(lambda: make(our_functional, ft)) or ("", "")
            assert name == error[0], text
            continue
        compare(make(our_functional, ft), make(their_functional, torch))


def test_errors_are_those_of_torchvision() -> None:
    calls = [
        lambda t, lib: t.Resize("large"),
        lambda t, lib: t.Resize((1, 2, 3)),
        lambda t, lib: t.Resize(5, max_size=4)(PICTURE),
        lambda t, lib: t.RandomCrop(60)(PICTURE),
        lambda t, lib: t.Normalize((0.5,), (0.0,))(lib.zeros(1, 4, 4)),
        lambda t, lib: t.Normalize((0.5,), (0.5,))(lib.zeros(1, 4, 4, dtype=lib.uint8)),
        lambda t, lib: t.Normalize((0.5,), (0.5,))(lib.zeros(4, 4)),
        lambda t, lib: t.ColorJitter(-1),
        lambda t, lib: t.ColorJitter(hue=0.6),
        lambda t, lib: t.ColorJitter("much"),
        lambda t, lib: t.RandomRotation(-1),
        lambda t, lib: t.RandomAffine(1, translate=(2, 0)),
        lambda t, lib: t.RandomAffine(1, scale=(-1, 1)),
        lambda t, lib: t.Pad((1, 2, 3)),
        lambda t, lib: t.Pad(1, padding_mode="wrap"),
        lambda t, lib: t.GaussianBlur(4),
        lambda t, lib: t.Lambda(3),
        lambda t, lib: t.RandomErasing(value="black"),
        lambda t, lib: t.FiveCrop(60)(PICTURE),
        lambda t, lib: t.AugMix(severity=11),
        lambda t, lib: t.functional.adjust_hue(PICTURE, 0.7),
        lambda t, lib: t.functional.rotate(lib.zeros(1, 4, 4), 30, t.InterpolationMode.BICUBIC),
        lambda t, lib: t.functional.equalize(lib.zeros(3, 4, 4)),
        lambda t, lib: t.functional.adjust_brightness(lib.zeros(2, 4, 4), 0.5),
        *(
            lambda t, lib, name=name: getattr(t.functional, f"adjust_{name}")(lib.zeros(3, 4, 4), -1.0)
            for name in ("brightness", "contrast", "saturation", "sharpness")
        ),
    ]
    for call in calls:
        error = raised(lambda: call(theirs, torch))
        assert error is not None
        found = raised(lambda: call(ours, ft))
        assert found is not None and found[0] == error[0], (found, error)
        assert found[1] == error[1] or call is calls[5], (found, error)


GRADIENTS = {
    "normalize": lambda f, x: f.normalize(x, [0.1, 0.2, 0.3], [0.4, 0.5, 0.6]),
    "resize": lambda f, x: f.resize(x, [9, 8], antialias=True),
    "resized_crop": lambda f, x: f.resized_crop(x, 1, 2, 9, 8, [5, 6], antialias=True),
    "crop": lambda f, x: f.crop(x, -1, 2, 9, 80),
    "pad": lambda f, x: f.pad(x, [1, 2], padding_mode="reflect"),
    "hflip": lambda f, x: f.hflip(x),
    "rotate": lambda f, x: f.rotate(x, 20.0, f.InterpolationMode.BILINEAR, fill=[0.5]),
    "adjust_contrast": lambda f, x: f.adjust_contrast(x, 0.7),
    "adjust_saturation": lambda f, x: f.adjust_saturation(x, 1.3),
    "gaussian_blur": lambda f, x: f.gaussian_blur(x, [5, 3], [1.0, 2.0]),
    "rgb_to_grayscale": lambda f, x: f.rgb_to_grayscale(x, 3),
    "adjust_hue": lambda f, x: f.adjust_hue(x, 0.2),
    "adjust_gamma": lambda f, x: f.adjust_gamma(x, 0.7, 1.1),
    "adjust_sharpness": lambda f, x: f.adjust_sharpness(x, 1.4),
    "solarize": lambda f, x: f.solarize(x, 0.5),
    "perspective": lambda f, x: f.perspective(
        x, [[0, 0], [15, 0], [15, 15], [0, 15]], [[1, 2], [14, 0], [13, 15], [0, 13]]
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    start = PLANES[:, :16, :17].astype(np.float32) / 512 + 0.25
    x, y = torch.from_numpy(start).requires_grad_(), ft.from_numpy(start).requires_grad_()
    wanted, found = GRADIENTS[name](their_functional, x), GRADIENTS[name](our_functional, y)
    compare(found, wanted)
    wanted.square().sum().backward()
    found.square().sum().backward()
    np.testing.assert_allclose(array(y.grad), array(x.grad), rtol=1e-5, atol=2e-5)


def test_a_displacement_has_a_gradient_and_may_be_traced() -> None:
    start = PLANES[:, :16, :17].astype(np.float32) / 255
    shift = np.random.default_rng(0).random((1, 16, 17, 2), np.float32) * 0.2
    for by_compile in (False, True):
        found = []
        for lib, f in ((torch, their_functional), (ft, our_functional)):
            x, by = lib.from_numpy(start), lib.from_numpy(shift).requires_grad_()
            move = ft.compile(f.elastic_transform) if by_compile and lib is ft else f.elastic_transform
            out = move(x, by)
            out.square().sum().backward()
            found.append((array(out), array(by.grad)))
        for wanted, got in zip(*found):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_a_compiled_function_may_normalize_and_crop() -> None:
    def prepare(x):
        x = our_functional.normalize(x, [0.5] * 3, [0.2] * 3)
        return our_functional.resize(our_functional.hflip(our_functional.crop(x, 1, 2, 20, 20)), [7, 9]) * 2

    x = ft.from_numpy(PLANES.astype(np.float32) / 255)
    np.testing.assert_allclose(array(ft.compile(prepare)(x)), array(prepare(x)), atol=1e-5)
    with pytest.raises(NotImplementedError, match="would be the same at every call"):
        ft.compile(ours.RandomCrop(20))(x)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_no_size_is_compiled(dtype: Any) -> None:
    steps = ours.Compose(
        [ours.RandomRotation(20, expand=True), ours.RandomCrop(60), ours.RandomHorizontalFlip(0.5), ours.Resize(47),
         ours.ColorJitter(0.3, 0.3, 0.3, 0.1), ours.GaussianBlur(3), ours.RandomErasing(1.0)]
    )  # fmt: skip
    images = [(np.random.default_rng(0).random((3, 81 + k, 90 - k)) * 255).astype(dtype) for k in range(4)]
    tensors = [*map(ft.from_numpy, images), *(ft.from_jax(jax.device_put(image)) for image in images)]
    steps(tensors[0]), steps(tensors[4])  # on the plain backend, draws of one number are compiled once
    with xla_compilations() as count:
        sizes = {steps(tensor).shape for tensor in tensors}
    assert count == [0] and sizes == {(3, 47, 47)}


def test_in_place() -> None:
    for transform in (ours.Normalize([0.5], [0.5], inplace=True), ours.RandomErasing(p=1.0, inplace=True)):
        for size in (8, 80):  # in numpy, and in an array of JAX
            x = ft.ones(1, size, size)
            seed(1)
            out = transform(x)
            assert out is x
            assert (x != 1).any() or isinstance(transform, ours.Normalize)
    x = ft.ones(1, 80, 80)
    ours.functional.crop(x, 0, 0, 80, 80).zero_()
    assert x.sum() == 6400, "a crop has memory of its own"


def test_transforms_can_be_pickled_and_draw_the_same_then() -> None:
    made = ours.Compose(
        [ours.RandomResizedCrop(24), ours.RandAugment(), ours.ToTensor(), ours.Normalize([0.5] * 3, [0.5] * 3),
         ours.RandomErasing()]
    )  # fmt: skip
    again = pickle.loads(pickle.dumps(made))
    assert repr(again) == repr(made)
    seed(3)
    first = made(PICTURE)
    seed(3)
    compare(again(PICTURE), first, exact=True)


def test_linear_transformation() -> None:
    rng = np.random.default_rng(0)
    matrix, mean, x = (rng.standard_normal(s).astype(np.float32) for s in ((12, 12), (12,), (5, 3, 2, 2)))
    expected = theirs.LinearTransformation(torch.from_numpy(matrix), torch.from_numpy(mean))(
        torch.from_numpy(x)
    )
    compare(ours.LinearTransformation(ft.from_numpy(matrix), ft.from_numpy(mean))(ft.from_numpy(x)), expected)


def test_batches_and_single_channels() -> None:
    x = np.random.default_rng(0).random((4, 1, 20, 22)).astype(np.float32)
    for make in (
        lambda f, t: f.resize(t, [9, 30]),
        lambda f, t: f.affine(t, 10.0, [1, 2], 1.1, [3.0]),
        lambda f, t: f.autocontrast(t),
        lambda f, t: f.adjust_gamma(t, 0.7, 1.1),
        lambda f, t: f.adjust_hue(t, 0.2),
        lambda f, t: f.perspective(t, [[0, 0], [9, 0], [9, 9], [0, 9]], [[1, 1], [8, 0], [9, 8], [1, 9]]),
    ):
        compare(make(our_functional, ft.from_numpy(x)), make(their_functional, torch.from_numpy(x)))


def test_names() -> None:
    missing = {n for n in dir(theirs) if n[0].isupper() and not hasattr(ours, n)}
    assert missing == set()
    functions = {
        n for n in dir(their_functional) if callable(getattr(their_functional, n)) and n[0].islower()
    }
    assert {n for n in functions if not hasattr(our_functional, n)} == set()
    random.seed()
