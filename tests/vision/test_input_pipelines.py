"""Input pipelines as training scripts have them, with both libraries: the batches of an epoch are the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from pictures import array, compare, seed
from PIL import Image
from real_torchvision import torchvision
from vision.test_datasets import write_cifar, write_mnist

import functorch_port as ft
from functorch_port.utils.data import DataLoader
from functorch_port.vision import datasets, transforms
from functorch_port.vision.transforms import v2

RNG = np.random.default_rng(0)
IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}


class Library(NamedTuple):
    torch: Any
    datasets: Any
    t: Any
    v2: Any
    loader: Any


def libraries() -> tuple[Library, Library]:
    from torchvision.transforms import v2 as their_v2

    theirs = Library(
        torch, torchvision.datasets, torchvision.transforms, their_v2, torch.utils.data.DataLoader
    )
    return theirs, Library(ft, datasets, transforms, v2, DataLoader)


def write_photos(root: Path) -> None:
    for k in range(12):
        folder = root / "train" / f"n{k % 3:08}"
        folder.mkdir(parents=True, exist_ok=True)
        coarse = RNG.integers(0, 256, (5, 7, 3)).astype(np.uint8)
        size = (int(RNG.integers(60, 120)), int(RNG.integers(60, 120)))
        Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(folder / f"{k}.jpg", quality=90)


def mnist_example(lib: Library, root: Path) -> Iterator[Any]:
    steps = lib.t.Compose([lib.t.ToTensor(), lib.t.Normalize((0.1307,), (0.3081,))])
    return lib.loader(lib.datasets.MNIST(root, train=True, transform=steps), batch_size=4, shuffle=True)


def imagenet_example(lib: Library, root: Path) -> Iterator[Any]:
    steps = lib.t.Compose(
        [
            lib.t.RandomResizedCrop(48),
            lib.t.RandomHorizontalFlip(),
            lib.t.ToTensor(),
            lib.t.Normalize(**IMAGENET),
        ]
    )
    return lib.loader(
        lib.datasets.ImageFolder(str(root / "train"), steps), batch_size=5, shuffle=True, drop_last=True
    )


def evaluation(lib: Library, root: Path) -> Iterator[Any]:
    steps = lib.t.Compose(
        [lib.t.Resize(56), lib.t.CenterCrop(48), lib.t.PILToTensor(), lib.t.ConvertImageDtype(lib.torch.float),
         lib.t.Normalize(**IMAGENET)]
    )  # fmt: skip
    return lib.loader(lib.datasets.ImageFolder(str(root / "train"), steps), batch_size=5)


def cifar_script(lib: Library, root: Path) -> Iterator[Any]:
    steps = lib.t.Compose(
        [lib.t.RandomCrop(32, padding=4, padding_mode="reflect"), lib.t.RandomHorizontalFlip(),
         lib.t.AutoAugment(lib.t.AutoAugmentPolicy.CIFAR10), lib.t.ToTensor(),
         lib.t.Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)), lib.t.RandomErasing(0.25)]
    )  # fmt: skip
    return lib.loader(lib.datasets.CIFAR10(root, train=True, transform=steps), batch_size=8, shuffle=True)


def modern_recipe(lib: Library, root: Path) -> Iterator[Any]:
    """As in torchvision's references: v2 on tensors, and mixtures of the batch."""
    v = lib.v2
    steps = v.Compose(
        [v.PILToTensor(), v.RandomResizedCrop(48, antialias=True), v.RandomHorizontalFlip(0.5), v.TrivialAugmentWide(),
         v.RandomErasing(0.1), v.ToDtype(lib.torch.float, scale=True), v.Normalize(**IMAGENET), v.ToPureTensor()]
    )  # fmt: skip
    mix = v.RandomChoice([v.MixUp(num_classes=3, alpha=0.2), v.CutMix(num_classes=3, alpha=1.0)])

    def collate(batch: Any) -> Any:
        return mix(*lib.torch.utils.data.default_collate(batch))

    dataset = lib.datasets.ImageFolder(str(root / "train"), steps)
    return lib.loader(dataset, batch_size=6, shuffle=True, collate_fn=collate)


def contrastive(lib: Library, root: Path) -> Iterator[Any]:
    """Two views of each image, as in SimCLR."""
    t = lib.t
    steps = t.Compose(
        [t.RandomResizedCrop(32, scale=(0.2, 1.0)), t.RandomApply([t.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
         t.RandomGrayscale(p=0.2), t.RandomApply([t.GaussianBlur(5, sigma=(0.1, 2.0))], p=0.5),
         t.RandomHorizontalFlip(), t.ToTensor(), t.Normalize(**IMAGENET)]
    )  # fmt: skip
    dataset = lib.datasets.ImageFolder(str(root / "train"), lambda picture: [steps(picture), steps(picture)])
    return lib.loader(dataset, batch_size=4, shuffle=True)


SCRIPTS: list[Callable[[Library, Path], Iterator[Any]]] = [
    mnist_example, imagenet_example, evaluation, cifar_script, modern_recipe, contrastive,
]  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_batches_are_the_same(
    script: Callable[[Library, Path], Iterator[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_mnist(tmp_path / "MNIST" / "raw")
    write_cifar(tmp_path, torchvision.datasets.CIFAR10, monkeypatch.setattr)
    write_photos(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = libraries()
        seed(5)
        expected = [*script(theirs, tmp_path), *script(theirs, tmp_path)]
        seed(5)
        found = [*script(ours, tmp_path), *script(ours, tmp_path)]
    assert len(found) == len(expected) >= 2
    for batch, wanted in zip(found, expected):
        if (
            script is contrastive
        ):  # a blurred byte is a sum of floats, rounded: one in thousands ends at a half
            for views, others in zip(batch[0], wanted[0]):
                apart = np.abs(array(views) - array(others))
                assert apart.max() < 1.01 / 255 / min(IMAGENET["std"]) and (apart > 2e-5).mean() < 1e-3
            batch, wanted = batch[1], wanted[1]
        compare(batch, wanted)
