"""`PyTorchFileReader`: the records of a file of `save`, by their names."""

from __future__ import annotations

import os
import weakref
from typing import IO, Any

from ._container import Archive, Source

__all__ = ["PyTorchFileReader"]


class PyTorchFileReader:
    """Reads the entries of a checkpoint in PyTorch's zip format.

    Args:
        name_or_buffer: a path, or a file that is open for reading.

    Raises:
        RuntimeError: it is no such file, or damaged.
    """

    def __init__(self, name_or_buffer: str | os.PathLike[str] | IO[bytes]) -> None:
        is_path = isinstance(name_or_buffer, str | os.PathLike)
        file: Any = open(name_or_buffer, "rb") if is_path else name_or_buffer  # type: ignore[arg-type]  # noqa: SIM115
        if is_path:
            weakref.finalize(self, file.close)
        self._archive = Archive(Source(file, getattr(file, "name", "the file")))
        if is_path:
            weakref.finalize(self, file.close)

    def archive_name(self) -> str:
        """The folder in the archive that all names begin with."""
        return self._archive.root.removesuffix("/")

    def has_record(self, name: str) -> bool:
        """Whether there is such an entry."""
        return self._archive.has(name)

    def get_all_records(self) -> list[str]:
        """The names of all entries."""
        return [name.removeprefix(self._archive.root) for name in self._archive.entries]

    def get_record(self, name: str) -> bytes:
        """The bytes of an entry."""
        return self._archive.read(name)

    def get_record_size(self, name: str) -> int:
        """How many bytes an entry has."""
        return self._archive.length(name)
