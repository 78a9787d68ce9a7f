"""Checkpoints in folders: `FileSystemWriter`, `FileSystemReader`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..._base import dtypes
from ...interchange._orbax import Opened
from ...serialization._folder import standing
from ._flat import flattened
from ._theirs import Theirs
from .metadata import BytesStorageMetadata, Metadata, StorageMeta, of_tensor

__all__ = ["FileSystemReader", "FileSystemWriter"]


def _local(path: str | os.PathLike[str]) -> Path:
    if "://" in os.fspath(path):
        raise NotImplementedError(
            f"{os.fspath(path)}: checkpoints are in folders of the file system; mount the storage, or copy the folder"
        )
    return Path(path)


class _Folder:
    """The folder of a checkpoint."""

    path: Path

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Take another folder."""
        if checkpoint_id:
            self.path = _local(checkpoint_id)

    @property
    def checkpoint_id(self) -> Path:
        """The folder."""
        return self.path


class FileSystemWriter(_Folder):
    """Writes a checkpoint to a folder, by orbax. A folder that was there is replaced when the new one is complete.

    Args:
        path: the folder.
        single_file_per_rank: must be True: orbax chooses the files.
        sync_files, thread_count, per_thread_copy_ahead: how PyTorch writes its files; orbax always syncs them, and has
            as many threads as it likes.
        cache_staged_state_dict: must be False.
        overwrite: whether to replace a checkpoint that is there.

    Raises:
        NotImplementedError: for other arguments.

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.FileSystemWriter
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
        _extensions: Any = None,
        serialization_format: Any = None,
    ) -> None:
        for name, wrong in {
            "single_file_per_rank": not single_file_per_rank,
            "cache_staged_state_dict": cache_staged_state_dict,
            "_extensions": _extensions is not None,
            "serialization_format": serialization_format is not None,
        }.items():
            if wrong:
                raise NotImplementedError(
                    f"FileSystemWriter({name}=) is not supported: orbax chooses the files and their format"
                )
        self.path, self.overwrite = _local(path), overwrite


class FileSystemReader(_Folder):
    """Reads a checkpoint in a folder: of `save`, or another one of orbax, or one that PyTorch wrote.

    Args:
        path: the folder.

    Raises:
        NotImplementedError: for other arguments.

    Example:
        >>> import tempfile
        >>> import functorch_port as torch
        >>> import functorch_port.distributed.checkpoint as dcp
        >>> path = tempfile.mkdtemp()
        >>> _ = dcp.save({"model": {"w": torch.ones(2)}, "epoch": 3}, checkpoint_id=path)
        >>> list(dcp.FileSystemReader(path).read_metadata().state_dict_metadata)
        ['model.w', 'epoch']

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.FileSystemReader
    """

    def __init__(self, path: str | os.PathLike[str], _extension_registry: Any = None) -> None:
        if _extension_registry is not None:
            raise NotImplementedError("FileSystemReader(_extension_registry=) is not supported")
        self.path = _local(path)

    def read_metadata(self) -> Metadata:
        """The entries of the checkpoint: no values are read."""
        return Contents(self.path).metadata()


class Saved:
    """A tensor of a checkpoint, whose values were not read."""

    def __init__(
        self, name: str, shape: tuple[int, ...], dtype: dtypes.dtype, part: tuple[int, ...] | None
    ) -> None:
        self.name, self.shape, self.dtype, self.part = name, shape, dtype, part


class Contents:
    """A checkpoint that was opened.

    Attributes:
        opened: its arrays.
        tree: what was saved, with a `Saved` for each tensor.
        entries: the entries of the tree by name.

    Raises:
        FileNotFoundError: the folder has no checkpoint.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.opened = _opened(os.fspath(path))
        leaves: dict[str, Any] = {}
        for name, kind in self.opened.kinds.items():
            shape, storage = tuple(kind.shape), getattr(kind, "storage", None)
            part = getattr(storage, "write_shape", None) or getattr(storage, "chunk_shape", None)
            leaves[name] = Saved(name, shape, dtypes.from_np(kind.dtype), part)
        for name, shape, dtype in self.opened.empty():
            leaves[name] = Saved(name, shape, dtype, None)
        tree = self.opened.tree(leaves)
        self.tree: Mapping[Any, Any] = tree if isinstance(tree, Mapping) else {"": tree}
        self.path = path
        self.entries = flattened(self.tree, lambda value: isinstance(value, Saved))

    def metadata(self) -> Metadata:
        """The entries as PyTorch describes them."""
        return metadata_of(self.entries, self.path)


def metadata_of(entries: Mapping[str, Any], path: str | os.PathLike[str]) -> Metadata:
    """The description of a checkpoint with entries that are `Saved` or no tensors."""
    return Metadata(
        {
            name: of_tensor(value.shape, value.dtype, value.part or value.shape)
            if isinstance(value := place.value, Saved)
            else BytesStorageMetadata()
            for name, place in entries.items()
        },
        planner_data={name: place.path for name, place in entries.items()},
        storage_meta=StorageMeta(Path(path)),
    )


def _opened(path: str) -> Opened | Theirs:
    """The checkpoint in a folder, or the only item of a step of orbax's `CheckpointManager`."""
    path = standing(os.path.realpath(path))
    for folder in (path, os.path.join(path, "default")):
        if os.path.exists(os.path.join(folder, "_METADATA")):
            return Opened(folder)
    if os.path.exists(os.path.join(path, ".metadata")):
        return Theirs(path)
    what = (
        "is no folder" if not os.path.isdir(path) else "has no checkpoint: there is no file _METADATA in it"
    )
    raise FileNotFoundError(f"{path} {what}")
