"""``vision.datasets`` beside torchvision's, on small files that the tests write."""

from __future__ import annotations

import gzip
import hashlib
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pictures import compare, raised
from PIL import Image
from real_torchvision import torchvision

import functorch_port as ft
from functorch_port.utils.data import DataLoader, Subset
from functorch_port.vision import datasets as ours
from functorch_port.vision import transforms

theirs = torchvision.datasets
RNG = np.random.default_rng(0)


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def idx(array: np.ndarray) -> bytes:
    return (
        struct.pack(">BBBB", 0, 0, 8, array.ndim)
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


def write_mnist(folder: Path, packed: bool = False) -> list[tuple[str, str]]:
    """The four files in a folder; returns the names of the packed ones and their MD5 sums."""
    folder.mkdir(parents=True)
    found = []
    for prefix, count in (("train", 7), ("t10k", 5)):
        parts = {
            "images-idx3": RNG.integers(0, 256, (count, 28, 28)).astype(np.uint8),
            "labels-idx1": (np.arange(count) % 10).astype(np.uint8),
        }
        for part, array in parts.items():
            path = folder / f"{prefix}-{part}-ubyte"
            if packed:
                path = path.with_name(path.name + ".gz")
                path.write_bytes(gzip.compress(idx(array)))
                found.append((path.name, md5(path)))
            else:
                path.write_bytes(idx(array))
    return found


def check_same(found: Any, expected: Any) -> None:
    assert repr(found) == repr(expected)
    assert len(found) == len(expected)
    assert (found.classes, found.class_to_idx) == (expected.classes, expected.class_to_idx)
    for i in range(len(found)):
        (image, target), (their_image, their_target) = found[i], expected[i]
        assert (target, type(target)) == (their_target, type(their_target))
        compare(image, their_image)


@pytest.mark.parametrize("name", ["MNIST", "FashionMNIST", "KMNIST"])
@pytest.mark.parametrize("train", [True, False])
def test_mnist(name: str, train: bool, tmp_path: Path) -> None:
    write_mnist(tmp_path / name / "raw")
    found, expected = (getattr(lib, name)(str(tmp_path), train=train) for lib in (ours, theirs))
    check_same(found, expected)
    np.testing.assert_array_equal(np.asarray(found.data), expected.data.numpy())
    assert (found.data.dtype, found.targets.dtype) == (ft.uint8, ft.int64)
    assert raised(lambda: found[99]) == raised(lambda: expected[99])
    with pytest.warns(UserWarning, match="train_labels has been renamed targets"):
        assert found.train_labels is found.targets
    compare(found[ft.tensor(1)][0], expected[torch.tensor(1)][0])


def test_packed_files_are_read_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resources = write_mnist(tmp_path / "MNIST" / "raw", packed=True)
    with pytest.raises(RuntimeError, match=r"train-images-idx3-ubyte\.gz is corrupted"):
        ours.MNIST(tmp_path)
    monkeypatch.setattr(ours.MNIST, "resources", resources)
    assert len(ours.MNIST(tmp_path)) == 7


def test_labels_and_images_may_be_replaced(tmp_path: Path) -> None:
    write_mnist(tmp_path / "MNIST" / "raw")
    dataset = ours.MNIST(tmp_path, transform=transforms.ToTensor(), target_transform=lambda t: -t)
    dataset.targets[2] = 9
    dataset.data = dataset.data * 0
    image, target = dataset[2]
    assert target == -9 and image.sum() == 0 and image.shape == (1, 28, 28)


@pytest.mark.parametrize("broken", [b"1234567", b"\0\0\x08\x01\0\0\0\x09abc"])
def test_broken_files(broken: bytes, tmp_path: Path) -> None:
    write_mnist(tmp_path / "MNIST" / "raw")
    (tmp_path / "MNIST" / "raw" / "train-labels-idx1-ubyte").write_bytes(broken)
    with pytest.raises(RuntimeError, match=r"train-labels-idx1-ubyte is (no idx file|not complete)"):
        ours.MNIST(tmp_path)


def test_mnist_is_downloaded_from_the_first_mirror_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resources = write_mnist(tmp_path / "mirror", packed=True)
    monkeypatch.setattr(ours.MNIST, "resources", resources)
    monkeypatch.setattr(ours.MNIST, "mirrors", ["file:///nowhere/", (tmp_path / "mirror").as_uri() + "/"])
    assert len(ours.MNIST(tmp_path / "data", download=True)) == 7
    (tmp_path / "mirror").rename(tmp_path / "gone")
    assert len(ours.MNIST(tmp_path / "data", train=False, download=True)) == 5, "it is downloaded once"


def test_without_a_network_the_error_says_what_to_copy_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = tmp_path / "MNIST" / "raw"
    with pytest.raises(
        RuntimeError, match="Dataset not found. You can use download=True to download it"
    ) as error:
        ours.MNIST(tmp_path)
    for part in ("t10k-labels-idx1-ubyte.gz", str(raw), "https://ossci-datasets.s3.amazonaws.com/mnist/"):
        assert part in str(error.value)
    monkeypatch.setattr(ours.MNIST, "mirrors", ["file:///nowhere/"])
    with pytest.raises(RuntimeError, match="Error downloading train-images-idx3-ubyte.gz") as error:
        ours.MNIST(tmp_path, download=True)
    for part in ("f68b3c2dcbeaaa9fbdd348bbdeb94873", str(raw), "file:///nowhere/train-images-idx3-ubyte.gz"):
        assert part in str(error.value)


def test_a_download_that_is_wrong_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mnist(tmp_path / "mirror", packed=True)
    monkeypatch.setattr(ours.MNIST, "mirrors", [(tmp_path / "mirror").as_uri() + "/"])
    with pytest.raises(RuntimeError, match="f68b3c2dcbeaaa9fbdd348bbdeb94873 is expected"):
        ours.MNIST(tmp_path / "data", download=True)
    assert list((tmp_path / "data" / "MNIST" / "raw").iterdir()) == []


def write_cifar(root: Path, cls: Any, patch: Callable[..., None]) -> None:
    """Small batches, and their MD5 sums in both libraries' classes."""
    folder = root / cls.base_folder
    folder.mkdir(parents=True)
    labels = "fine_labels" if cls.__name__ == "CIFAR100" else "labels"
    lists: dict[str, list[list[str]]] = {"train_list": [], "test_list": []}
    for kind in lists:
        for name, _ in getattr(cls, kind):
            data = RNG.integers(0, 256, (4, 3072)).astype(np.uint8)
            batch = {"data": data, labels: [0, 2, 1, 1], "filenames": ["a"] * 4}
            (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
            lists[kind].append([name, md5(folder / name)])
    meta = folder / cls.meta["filename"]
    meta.write_bytes(pickle.dumps({cls.meta["key"]: ["cat", "dog", "emu"]}, protocol=2))
    for library in (ours, theirs):
        twin = getattr(library, cls.__name__)
        for kind, files in lists.items():
            patch(twin, kind, files)
        patch(twin, "meta", {**cls.meta, "md5": md5(meta)})


@pytest.mark.parametrize("name", ["CIFAR10", "CIFAR100"])
@pytest.mark.parametrize("train", [True, False])
def test_cifar(name: str, train: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cifar(tmp_path, getattr(theirs, name), monkeypatch.setattr)
    found, expected = (getattr(lib, name)(tmp_path, train=train) for lib in (ours, theirs))
    check_same(found, expected)
    assert found.targets == expected.targets
    np.testing.assert_array_equal(found.data, expected.data)


def test_cifar_is_checked_and_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match=r"not found or corrupted.*cifar-10-python.tar.gz.*data_batch_1"):
        ours.CIFAR10(tmp_path)
    write_cifar(tmp_path / "made", theirs.CIFAR10, monkeypatch.setattr)
    archive = tmp_path / "cifar-10-python.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "made" / "cifar-10-batches-py", "cifar-10-batches-py")
    monkeypatch.setattr(ours.CIFAR10, "url", archive.as_uri())
    monkeypatch.setattr(ours.CIFAR10, "tgz_md5", md5(archive))
    assert len(ours.CIFAR10(tmp_path / "data", download=True)) == 20
    (tmp_path / "data" / "cifar-10-batches-py" / "test_batch").write_bytes(b"no pickle")
    with pytest.raises(RuntimeError, match="test_batch"):
        ours.CIFAR10(tmp_path / "data")


def test_fake_data() -> None:
    options = {"size": 4, "image_size": (3, 9, 8), "num_classes": 7, "random_offset": 5}
    found, expected = ours.FakeData(**options), theirs.FakeData(**options)
    ft.manual_seed(1)
    for i in range(4):
        assert found[i][1] == expected[i][1]
        compare(found[i][0], expected[i][0])
    state = ft.rand(1).item()
    assert state == ft.rand(1, generator=ft.Generator().manual_seed(1)).item(), "the default stream stays"
    assert repr(found) == repr(expected)
    assert raised(lambda: found[4]) == raised(lambda: expected[4])


@pytest.fixture
def folder(tmp_path: Path) -> str:
    for where, mode in (
        ("ant/1.png", "RGB"),
        ("ant/deep/2.JPG", "L"),
        ("bee/3.bmp", "RGB"),
        ("bee/x.txt", ""),
    ):
        path = tmp_path / where
        path.parent.mkdir(parents=True, exist_ok=True)
        if mode:
            Image.fromarray(RNG.integers(0, 256, (5, 6) + (3,) * (mode == "RGB")).astype(np.uint8)).save(path)
        else:
            path.write_text("no image")
    return str(tmp_path)


def test_image_folder(folder: str) -> None:
    found, expected = ours.ImageFolder(folder), theirs.ImageFolder(folder)
    check_same(found, expected)
    assert (found.samples, found.targets, found.imgs) == (expected.samples, expected.targets, expected.imgs)
    again = pickle.loads(pickle.dumps(found))
    compare(again[1][0], found[1][0])


def test_dataset_folder(folder: str) -> None:
    for options in (
        {"extensions": (".txt", ".png")},
        {"is_valid_file": lambda path: path.endswith("g")},
        {"is_valid_file": lambda path: path.endswith("txt"), "allow_empty": True},
        {"extensions": ".txt"},
        {},
        {"extensions": (".txt",), "is_valid_file": lambda path: True},
    ):
        error = raised(lambda: theirs.DatasetFolder(folder, str.upper, **options))
        if error is None:
            found, expected = (lib.DatasetFolder(folder, str.upper, **options) for lib in (ours, theirs))
            assert [*found] == [*expected] and found.samples == expected.samples
        else:
            assert raised(lambda: ours.DatasetFolder(folder, str.upper, **options)) == error


@pytest.mark.parametrize(
    "call",
    [
        lambda d, root: d.ImageFolder(root + "/nowhere"),
        lambda d, root: d.ImageFolder(root + "/bee"),
        lambda d, root: d.folder.make_dataset(root, {}, extensions=".png"),
        lambda d, root: d.VisionDataset(root, transforms=print, transform=print),
        lambda d, root: d.VisionDataset(root)[0],
        lambda d, root: d.utils.verify_str_arg("c", "split", ("a", "b")),
        lambda d, root: d.utils.verify_str_arg(3, "split"),
    ],
)
def test_errors_are_those_of_torchvision(call: Callable[..., Any], folder: str) -> None:
    error = raised(lambda: call(theirs, folder))
    assert error is not None and raised(lambda: call(ours, folder)) == error


def test_representation(folder: str) -> None:
    def make(library: Any, t: Any) -> Any:
        steps = t.Compose([t.Resize((4, 4)), t.ToTensor()])
        return library.ImageFolder(folder, transform=steps, target_transform=t.Lambda(int))

    assert repr(make(ours, transforms)) == repr(make(theirs, torchvision.transforms))


def test_batches(tmp_path: Path) -> None:
    write_mnist(tmp_path / "MNIST" / "raw")
    steps = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    dataset = ours.MNIST(tmp_path, transform=steps)
    dataset = pickle.loads(pickle.dumps(dataset))
    images, targets = next(iter(DataLoader(Subset(dataset, [4, 2, 0]), batch_size=3)))
    assert images.shape == (3, 1, 28, 28) and targets.tolist() == [4, 2, 0]
    pixels = (np.asarray(dataset.data)[[4, 2, 0]] / np.float32(255) - np.float32(0.1307)) / np.float32(0.3081)
    np.testing.assert_allclose(np.asarray(images)[:, 0], pixels, rtol=1e-6)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(NotImplementedError, match="torchvision.datasets.CocoDetection.*ImageFolder"):
        from functorch_port.vision.datasets import CocoDetection  # noqa: F401
    missing = {n for n in theirs.__all__ if n not in ours.__all__}
    for name in missing:
        with pytest.raises(NotImplementedError, match=name):
            getattr(ours, name)
    assert not hasattr(ours, "NoSuchDataset")
