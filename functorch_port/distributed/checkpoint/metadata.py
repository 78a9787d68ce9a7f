"""What a checkpoint holds: `Metadata`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._base import dtypes
from ..._base import layout as layouts
from ..._base.size import Size

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]


@dataclass
class ChunkStorageMetadata:
    """A part of a tensor that is stored together: where it begins, and its size."""

    offsets: Size
    sizes: Size


@dataclass
class TensorProperties:
    """The dtype of a tensor; the other properties are PyTorch's, and not in use."""

    dtype: dtypes.dtype = field(default_factory=lambda: dtypes.float32)
    layout: layouts.layout = layouts.strided
    requires_grad: bool = False
    memory_format: layouts.memory_format = layouts.contiguous_format
    pin_memory: bool = False


@dataclass
class TensorStorageMetadata:
    """A tensor of a checkpoint: dtype, size, and the parts that it is stored in."""

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """An entry of a checkpoint that is no tensor."""


@dataclass
class StorageMeta:
    """Where a checkpoint is."""

    checkpoint_id: str | os.PathLike[str] | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """The entries of a checkpoint by name.

    Attributes:
        state_dict_metadata: the dotted name of an entry -> what it is.
        planner_data: the dotted name -> the keys on the way to it.
        storage_data: not in use.
        storage_meta: where the checkpoint is.
        version: not in use.

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """The name of an entry, and of which part of it."""

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)


def of_tensor(shape: Sequence[int], dtype: dtypes.dtype, part: Sequence[int]) -> TensorStorageMetadata:
    """The entry of a tensor that is stored in parts of this shape."""

    def chunks() -> Iterator[ChunkStorageMetadata]:
        for at in np.ndindex(*[-(-n // size) if size else 1 for n, size in zip(shape, part)]):
            yield ChunkStorageMetadata(Size(i * size for i, size in zip(at, part)), Size(part))

    return TensorStorageMetadata(TensorProperties(dtype), Size(shape), [*chunks()])
