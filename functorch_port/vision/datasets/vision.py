"""`VisionDataset`, the base of all datasets: where the files are, and the transforms of a sample."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from functorch_port.utils.data import Dataset

__all__ = ["StandardTransform", "VisionDataset"]


class VisionDataset(Dataset[Any]):
    """The base of datasets of images; subclasses define ``__getitem__`` and ``__len__``.

    Args:
        root: the folder of the files.
        transforms: a function of an image and its target, which returns both.
        transform: a function of the image.
        target_transform: a function of the target.

    Raises:
        ValueError: ``transforms`` is given, and also one of the other two.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.VisionDataset.html
    """

    _repr_indent = 4

    def __init__(
        self,
        root: str | Path | None = None,
        transforms: Callable[..., Any] | None = None,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
    ) -> None:
        self.root: Any = os.path.expanduser(root) if isinstance(root, str) else root
        of_parts = transform is not None or target_transform is not None
        if transforms is not None and of_parts:
            raise ValueError("Only transforms or transform/target_transform can be passed as argument")
        self.transform = transform
        self.target_transform = target_transform
        self.transforms = StandardTransform(transform, target_transform) if of_parts else transforms

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def _sample(self, image: Any, target: Any) -> tuple[Any, Any]:
        """A sample after its transforms."""
        return StandardTransform(self.transform, self.target_transform)(image, target)

    def __repr__(self) -> str:
        lines = [f"Number of datapoints: {len(self)}"]
        if self.root is not None:
            lines.append(f"Root location: {self.root}")
        lines += self.extra_repr().splitlines()
        if self.transforms is not None:
            lines.append(repr(self.transforms))
        indent = " " * self._repr_indent
        return "\n".join([f"Dataset {type(self).__name__}", *(indent + line for line in lines)])

    def extra_repr(self) -> str:
        """Further lines of the representation."""
        return ""


class StandardTransform:
    """The transform of an image and that of its target, as one function of both."""

    def __init__(
        self,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
    ) -> None:
        self.transform = transform
        self.target_transform = target_transform

    def __call__(self, input: Any, target: Any) -> tuple[Any, Any]:
        if self.transform is not None:
            input = self.transform(input)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return input, target

    def __repr__(self) -> str:
        lines = [type(self).__name__]
        for head, part in (("Transform: ", self.transform), ("Target transform: ", self.target_transform)):
            if part is not None:
                first, *rest = repr(part).splitlines()
                lines += [head + first, *(" " * len(head) + line for line in rest)]
        return "\n".join(lines)
