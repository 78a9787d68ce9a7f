"""CIFAR-10 and CIFAR-100: color images of 32 x 32 in pickled batches."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from functorch_port.vision._pillow import Image

from .utils import check_integrity, download_from, extract_archive
from .vision import VisionDataset

__all__ = ["CIFAR10", "CIFAR100"]


class CIFAR10(VisionDataset):
    """The 10 classes of CIFAR-10.

    The files lie in ``root/cifar-10-batches-py``, unpacked; their MD5 sums are checked.

    Args:
        root: the folder of that folder.
        train: whether to read the 50,000 images to train with, or the 10,000 to test with.
        transform: a function of the image; it gets a Pillow image in RGB.
        target_transform: a function of the target, an int.
        download: whether to download and unpack the files if they are not there.

    Attributes:
        data: all images, a numpy array of bytes (N, 32, 32, 3).
        targets: their classes, a list of ints.
        classes, class_to_idx: the names of the classes, and the number of each.

    Raises:
        RuntimeError: the files are not there, are corrupted, or cannot be downloaded.

    Example:
        >>> from functorch_port.vision import datasets
        >>> train = datasets.CIFAR10("data", download=True)  # doctest: +SKIP

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.CIFAR10.html
    """

    base_folder = "cifar-10-batches-py"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    filename = "cifar-10-python.tar.gz"
    tgz_md5 = "c58f30108f718f92721af3b95e74349a"
    train_list = [
        ["data_batch_1", "c99cafc152244af753f735de768cd75f"],
        ["data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"],
        ["data_batch_3", "54ebc095f3ab1f0389bbae665268c751"],
        ["data_batch_4", "634d18415352ddfa80567beed471001a"],
        ["data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"],
    ]
    test_list = [["test_batch", "40351d587109b95175f43aff81a1287e"]]
    meta = {"filename": "batches.meta", "key": "label_names", "md5": "5ff9c542aee3614f3951f8cda6e48888"}

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
        broken = self._broken()
        if broken and download:
            self.download()
            broken = self._broken()
        if broken:
            raise RuntimeError(
                "Dataset not found or corrupted. You can use download=True to download it, or without a network copy "
                f"{self.filename} from {self.url} and unpack it in {os.path.abspath(self.root)}; it is wrong or not "
                f"there: {', '.join(broken)}"
            )
        batches = [self._read(name) for name, _ in (self.train_list if train else self.test_list)]
        rows = np.concatenate([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32)
        self.data = np.ascontiguousarray(rows.transpose(0, 2, 3, 1))
        self.targets: list[int] = []
        for batch in batches:
            self.targets += batch["labels"] if "labels" in batch else batch["fine_labels"]
        self.classes: list[str] = self._read(self.meta["filename"])[self.meta["key"]]
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}

    def _path(self, name: str) -> str:
        return os.path.join(self.root, self.base_folder, name)

    def _read(self, name: str) -> Any:
        """What is in a file. Its MD5 sum was checked: a pickle can run code."""
        with open(self._path(name), "rb") as file:
            return pickle.load(file, encoding="latin1")

    def _broken(self) -> list[str]:
        """The files that are not there or have another MD5 sum."""
        files = [*self.train_list, *self.test_list, [self.meta["filename"], self.meta["md5"]]]
        return [name for name, md5 in files if not check_integrity(self._path(name), md5)]

    def download(self) -> None:
        """Download the archive and unpack it, unless the files are there."""
        if self._broken():
            download_from([self.url], self.root, self.filename, self.tgz_md5)
            extract_archive(os.path.join(self.root, self.filename))

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._sample(Image.fromarray(self.data[index]), self.targets[index])

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        """The line about the split."""
        return f"Split: {'Train' if self.train else 'Test'}"


class CIFAR100(CIFAR10):
    """The 100 classes of CIFAR-100, in ``root/cifar-100-python``; else as `CIFAR10`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.CIFAR100.html
    """

    base_folder = "cifar-100-python"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    filename = "cifar-100-python.tar.gz"
    tgz_md5 = "eb9058c3a382ffc7106e4002c42a8d85"
    train_list = [["train", "16019d7e3df5f24257cddd939b257f8d"]]
    test_list = [["test", "f0ef6b0ae62326f3e7ffdfab6717acfc"]]
    meta = {"filename": "meta", "key": "fine_label_names", "md5": "7973b15100ade9c7d40fb424638fde48"}
