"""MNIST, and datasets that have its format: images of 28 x 28 bytes in idx files."""

from __future__ import annotations

import gzip
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import functorch_port as torch
from functorch_port._tensor.tensor import Tensor
from functorch_port.utils.data._arrays import host_view
from functorch_port.vision._pillow import Image

from .utils import check_integrity, download_from, extract_archive
from .vision import VisionDataset

__all__ = ["FashionMNIST", "KMNIST", "MNIST"]


class MNIST(VisionDataset):
    """The handwritten digits of MNIST.

    The files lie in ``root/MNIST/raw``: four idx files, such as ``train-images-idx3-ubyte``, as they are or compressed
    (``.gz``; then their MD5 sums are checked).

    Args:
        root: the folder of the folder ``MNIST``.
        train: whether to read the 60,000 images to train with, or the 10,000 to test with.
        transform: a function of the image; it gets a Pillow image in shades of gray.
        target_transform: a function of the target, an int.
        download: whether to download the files that are not there.

    Attributes:
        data: all images, a tensor of bytes (N, 28, 28).
        targets: their classes, a tensor of 64-bit integers.
        classes, class_to_idx: the names of the classes, and the number of each.

    Raises:
        RuntimeError: the files are not there, are corrupted, or cannot be downloaded.

    Example:
        >>> from functorch_port.vision import datasets, transforms
        >>> to_tensor = transforms.ToTensor()
        >>> train = datasets.MNIST("data", download=True, transform=to_tensor)  # doctest: +SKIP

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.MNIST.html
    """

    mirrors = ["https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"]
    resources = [
        ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    ]
    classes = [
        "0 - zero", "1 - one", "2 - two", "3 - three", "4 - four", "5 - five", "6 - six", "7 - seven", "8 - eight",
        "9 - nine",
    ]  # fmt: skip

    def __init__(
        self,
        root: str | Path,
        train: bool = True,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        if download:
            self.download()
        elif not self._check_exists():
            raise RuntimeError(self._not_found())
        self.data, self.targets = self._load_data()

    @property
    def raw_folder(self) -> str:
        """The folder of the files."""
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The number of each class."""
        return {name: number for number, name in enumerate(self.classes)}

    def _renamed(self, old: str, new: str) -> Any:
        warnings.warn(f"{old} has been renamed {new}", stacklevel=3)
        return getattr(self, new)

    train_labels = property(lambda self: self._renamed("train_labels", "targets"))
    test_labels = property(lambda self: self._renamed("test_labels", "targets"))
    train_data = property(lambda self: self._renamed("train_data", "data"))
    test_data = property(lambda self: self._renamed("test_data", "data"))

    def _path(self, resource: str) -> str | None:
        """Where a file is, unpacked or not; None if it is not there."""
        packed = os.path.join(self.raw_folder, resource)
        paths = (packed.removesuffix(".gz"), packed)
        return next((path for path in paths if os.path.isfile(path)), None)

    def _check_exists(self) -> bool:
        return all(self._path(name) is not None for name, _ in self.resources)

    def _not_found(self) -> str:
        missing = [name for name, _ in self.resources if self._path(name) is None]
        return (
            "Dataset not found. You can use download=True to download it, or without a network copy "
            f"{', '.join(missing)} into {os.path.abspath(self.raw_folder)}; they are at {' and '.join(self.mirrors)}"
        )

    def download(self) -> None:
        """Download the files that are not there, and unpack them."""
        for name, md5 in self.resources:
            packed = os.path.join(self.raw_folder, name)
            if os.path.isfile(packed.removesuffix(".gz")):
                continue
            download_from([mirror + name for mirror in self.mirrors], self.raw_folder, name, md5)
            extract_archive(packed)

    def _load_data(self) -> tuple[Tensor, Tensor]:
        images, labels = self.resources[:2] if self.train else self.resources[2:]
        data, targets = self._read(*images), self._read(*labels)
        if data.dtype != np.uint8 or data.ndim != 3 or targets.dtype != np.uint8 or targets.ndim != 1:
            raise RuntimeError(
                f"{self.raw_folder}: expected images of bytes in 3 dimensions and labels in one, but got "
                f"{data.dtype} {data.shape} and {targets.dtype} {targets.shape}"
            )
        if len(data) != len(targets):
            raise RuntimeError(f"{self.raw_folder} has {len(data)} images, but {len(targets)} labels")
        return torch.from_numpy(data), torch.from_numpy(targets.astype(np.int64))

    def _read(self, resource: str, md5: str) -> np.ndarray:
        path = self._path(resource)
        assert path is not None  # of `_check_exists` or `download`
        if path.endswith(".gz") and not check_integrity(path, md5):
            raise RuntimeError(
                f"{path} is corrupted: its MD5 sum is not {md5}. Delete it and use download=True, or copy it again "
                f"from {' or '.join(self.mirrors)}"
            )
        return read_idx(path)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._sample(Image.fromarray(_row(self.data, index)), int(_row(self.targets, index)))

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        """The line about the split."""
        return f"Split: {'Train' if self.train else 'Test'}"


class FashionMNIST(MNIST):
    """The articles of clothing of Fashion-MNIST, in ``root/FashionMNIST/raw``; else as `MNIST`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.FashionMNIST.html
    """

    mirrors = ["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"]
    resources = [
        ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
        ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
        ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
    ]
    classes = [
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ]  # fmt: skip


class KMNIST(MNIST):
    """The Japanese characters of Kuzushiji-MNIST, in ``root/KMNIST/raw``; else as `MNIST`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.KMNIST.html
    """

    mirrors = ["http://codh.rois.ac.jp/kmnist/dataset/kmnist/"]
    resources = [
        ("train-images-idx3-ubyte.gz", "bdb82020997e1d708af4cf47b453dcf7"),
        ("train-labels-idx1-ubyte.gz", "e144d726b3acfaa3e44228e80efcd344"),
        ("t10k-images-idx3-ubyte.gz", "5c965bf0a639b31b8f53240b1b52f4d7"),
        ("t10k-labels-idx1-ubyte.gz", "7320c461ea6c1c855c0b718fb2a4b134"),
    ]
    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]


#: the dtypes of idx files by the number in their head, as they are stored
_DTYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: str) -> np.ndarray:
    """The array of an idx file, which may be compressed with gzip.

    Raises:
        RuntimeError: it is no such file, or not complete.
    """
    opened: Any = gzip.open if path.endswith(".gz") else open
    with opened(path, "rb") as file:
        data = file.read()
    start = 4 + 4 * data[3] if len(data) > 3 else 0
    if not start or data[:2] != b"\0\0" or data[2] not in _DTYPES or len(data) < start:
        raise RuntimeError(f"{path} is no idx file: delete it and use download=True, or copy it again")
    shape = np.frombuffer(data, ">u4", data[3], offset=4).astype(np.int64)
    dtype = np.dtype(_DTYPES[data[2]])
    size = int(shape.prod()) * dtype.itemsize
    if len(data) != start + size:
        raise RuntimeError(
            f"{path} is not complete: its head tells of {size} bytes, but there are {len(data) - start}. Delete it and "
            "use download=True, or copy it again"
        )
    return np.frombuffer(data, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def _row(tensor: Any, index: Any) -> np.ndarray:
    """A row as a numpy array: no operation for it if the values are on the host."""
    values = host_view(tensor)
    if values is None:
        return np.asarray(tensor[index])
    at = int(index)
    if not -len(values) <= at < len(values):
        raise IndexError(f"index {at} is out of bounds for dimension 0 with size {len(values)}")
    return values[at]
