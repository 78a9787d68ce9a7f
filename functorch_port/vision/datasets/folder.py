"""Datasets in folders, one for each class."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from functorch_port.vision._pillow import Image

from .vision import VisionDataset

__all__ = [
    "IMG_EXTENSIONS", "DatasetFolder", "ImageFolder", "default_loader", "find_classes", "has_file_allowed_extension",
    "is_image_file", "make_dataset", "pil_loader",
]  # fmt: skip

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def has_file_allowed_extension(filename: str, extensions: str | tuple[str, ...]) -> bool:
    """Whether a file's name ends with one of the extensions, in small letters or large ones."""
    return filename.lower().endswith(extensions if isinstance(extensions, str) else tuple(extensions))


def is_image_file(filename: str) -> bool:
    """Whether a file's name has an extension of `IMG_EXTENSIONS`."""
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def find_classes(directory: str | Path) -> tuple[list[str], dict[str, int]]:
    """The classes of a dataset: the names of the folders in ``directory``, sorted, and the number of each.

    Raises:
        FileNotFoundError: there are no folders.
    """
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
    return classes, {name: number for number, name in enumerate(classes)}


def make_dataset(
    directory: str | Path,
    class_to_idx: dict[str, int] | None = None,
    extensions: str | tuple[str, ...] | None = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> list[tuple[str, int]]:
    """The files of a dataset, with the numbers of their classes, sorted by class, folder and name.

    Args:
        directory: has a folder for each class; folders in these count as well, also those that are links.
        class_to_idx: the number of each class. Default: what `find_classes` finds.
        extensions: those of the files that count.
        is_valid_file: tells by a file's path whether it counts. Give this or ``extensions``.
        allow_empty: whether a class may have no file.

    Raises:
        ValueError: both or none of ``extensions`` and ``is_valid_file`` are given, or ``class_to_idx`` is empty.
        FileNotFoundError: a class has no file, and ``allow_empty`` is False.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.DatasetFolder.html
    """
    directory = os.path.expanduser(directory)
    if class_to_idx is None:
        class_to_idx = find_classes(directory)[1]
    elif not class_to_idx:
        raise ValueError("'class_to_index' must have at least one entry to collect any samples.")
    if (extensions is None) == (is_valid_file is None):
        raise ValueError("Both extensions and is_valid_file cannot be None or not None at the same time")
    allowed = extensions
    valid = is_valid_file or (lambda path: has_file_allowed_extension(path, allowed))  # type: ignore[arg-type]
    found = []
    empty = []
    for name in sorted(class_to_idx):
        files = _files(os.path.join(directory, name), valid)
        found += [(path, class_to_idx[name]) for path in files]
        if not files:
            empty.append(name)
    if empty and not allow_empty:
        text = f"Found no valid file for the classes {', '.join(empty)}. "
        if extensions is not None:
            listed = extensions if isinstance(extensions, str) else ", ".join(extensions)
            text += f"Supported extensions are: {listed}"
        raise FileNotFoundError(text)
    return found


def _files(folder: str, valid: Callable[[str], bool]) -> list[str]:
    """The files in a folder and the folders in it, in the order of their names."""
    paths = []
    for where, _, names in sorted(os.walk(folder, followlinks=True)):
        paths += [path for name in sorted(names) if valid(path := os.path.join(where, name))]
    return paths


class DatasetFolder(VisionDataset):
    """Files of any kind in folders, one folder for each class: ``root/class/any/folders/file.ext``.

    Args:
        root: the folder of the folders.
        loader: reads a sample, given the path of its file.
        extensions: those of the files that count.
        transform: a function of what the loader returns.
        target_transform: a function of the number of the class.
        is_valid_file: tells by a file's path whether it counts. Give this or ``extensions``.
        allow_empty: whether a class may have no file.

    Raises:
        FileNotFoundError: there is no class, or one without a file.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.DatasetFolder.html
    """

    def __init__(
        self,
        root: str | Path,
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        classes, class_to_idx = self.find_classes(self.root)
        samples = self.make_dataset(
            self.root,
            class_to_idx=class_to_idx,
            extensions=extensions,
            is_valid_file=is_valid_file,
            allow_empty=allow_empty,
        )
        self.loader = loader
        self.extensions = extensions
        self.classes = classes
        self.class_to_idx = class_to_idx
        self.samples = samples
        self.targets = [target for _, target in samples]

    @staticmethod
    def make_dataset(
        directory: str | Path,
        class_to_idx: dict[str, int],
        extensions: tuple[str, ...] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> list[tuple[str, int]]:
        """The files and the numbers of their classes. A subclass may have another way to find them."""
        if class_to_idx is None:
            raise ValueError("The class_to_idx parameter cannot be None.")
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory: str | Path) -> tuple[list[str], dict[str, int]]:
        """The classes and their numbers. A subclass may have another way to find them."""
        return find_classes(directory)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        return self._sample(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)


def pil_loader(path: str | Path) -> Any:
    """Read an image with Pillow, as RGB."""
    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


#: torchvision may use other libraries to read images; here it is always Pillow
default_loader = pil_loader


class ImageFolder(DatasetFolder):
    """Images in folders, one folder for each class: ``root/class/any/folders/image.png``.

    Args:
        root: the folder of the folders.
        transform: a function of the image; it gets a Pillow image in RGB from the default loader.
        target_transform: a function of the number of the class.
        loader: reads an image, given the path of its file.
        is_valid_file: tells by a file's path whether it counts. Default: by its extension (`IMG_EXTENSIONS`).
        allow_empty: whether a class may have no file.

    Raises:
        FileNotFoundError: there is no class, or one without a file.

    Example:
        >>> import tempfile, os
        >>> from PIL import Image
        >>> root = tempfile.mkdtemp()
        >>> for name in ("ant", "bee"):
        ...     os.mkdir(f"{root}/{name}")
        ...     Image.new("RGB", (8, 8)).save(f"{root}/{name}/1.png")
        >>> from functorch_port.vision.datasets import ImageFolder
        >>> dataset = ImageFolder(root)
        >>> dataset.class_to_idx, dataset[1][1]
        ({'ant': 0, 'bee': 1}, 1)

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.ImageFolder.html
    """

    def __init__(
        self,
        root: str | Path,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        extensions = IMG_EXTENSIONS if is_valid_file is None else None
        super().__init__(root, loader, extensions, transform, target_transform, is_valid_file, allow_empty)
        self.imgs = self.samples
