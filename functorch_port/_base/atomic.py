"""Atomic writing: a path holds either the old file or the complete new one."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import shutil
import socket
import uuid
import zlib
from collections.abc import Iterator
from typing import IO, Any

__all__ = ["atomic", "link", "lock", "sync"]

#: after so many bytes they are sent to the disk
HURRY = 32 << 20
try:
    _fcntl: Any = importlib.import_module("fcntl")
except ImportError:  # Windows
    _fcntl = None


class _Hurried(io.FileIO):
    """A file that starts to write its bytes back to the disk at once, not only at `fsync`."""

    _sent = _written = 0

    def write(self, data: Any) -> int:
        """Write a part of the data; a `BufferedWriter` calls again for the rest."""
        count = super().write(memoryview(data)[:HURRY]) or 0
        self._written += count
        if self._written - self._sent >= HURRY and hasattr(os, "posix_fadvise"):
            size = self._written - self._sent
            os.posix_fadvise(self.fileno(), self._sent, size, os.POSIX_FADV_DONTNEED)
            self._sent = self._written
        return count


@contextlib.contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file for writing that replaces ``path`` at the end; an error leaves ``path`` unchanged.

    The file is flushed to disk before it replaces ``path``, and the folder afterwards. Of a link, the file that it
    leads to is replaced. A lock lasts as long as the writing process, so the next writer can recognise and delete what
    a killed one left behind.
    """
    if os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe cannot be replaced
        with open(path, "wb") as file:
            yield file
        return
    path = os.path.realpath(path)
    prefix = _prefix(path)
    temporary = prefix + uuid.uuid4().hex  # known before it is made, so that an interrupt leaves nothing
    try:
        while (new := _begun(temporary)) is None:
            temporary = prefix + uuid.uuid4().hex
        with new:
            yield new
            new.flush()
            os.fsync(new.fileno())
            if os.path.exists(path):
                os.chmod(temporary, os.stat(path).st_mode & 0o777)
            if _fcntl is not None:
                os.replace(temporary, path)  # while the file is locked
        if _fcntl is None:
            os.replace(temporary, path)
        sync(os.path.dirname(path))
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def link(source: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Let ``path`` become a hard link to a file, or a copy of it where there are no hard links."""
    if os.path.exists(path) and os.path.samefile(source, path):
        return  # else `os.replace` would leave both names
    temporary = _prefix(os.fspath(path)) + uuid.uuid4().hex
    try:
        os.link(source, temporary)
        os.replace(temporary, path)
    except OSError:
        with atomic(path) as new, open(source, "rb") as old:
            shutil.copyfileobj(old, new)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _prefix(path: str) -> str:
    """How the temporary files for a path begin. What killed writers of it left behind is deleted."""
    folder, name = os.path.split(path)
    if folder and not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    host = zlib.crc32(socket.gethostname().encode())  # a lock may be known on one machine only
    prefix = f".{name[:200]}.{host:08x}"
    _clear(folder or ".", prefix)
    return os.path.join(folder, prefix)


def _begun(path: str) -> IO[bytes] | None:
    """A new, locked file; None if another process deleted it before it was locked."""
    file = io.BufferedWriter(_Hurried(path, "xb"))
    if _is_ours(file) and os.fstat(file.fileno()).st_nlink:
        return file
    file.close()
    return None


def _is_ours(file: IO[bytes], without: bool = True) -> bool:
    """Try to lock a file; returns ``without`` where the system has no locks."""
    if _fcntl is None:
        return without
    try:
        _fcntl.flock(file, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return without
    return True


def lock(folder: str) -> int | None:
    """Lock a folder for as long as the process lives, or the returned handle is open; None if another one has it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        if _fcntl is not None:
            _fcntl.flock(handle, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _clear(folder: str, prefix: str) -> None:
    """Delete what killed writers of the same file left behind."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if re.fullmatch(re.escape(prefix) + "[0-9a-f]{32}", name):
                with contextlib.suppress(OSError), open(os.path.join(folder, name), "rb") as file:
                    if _is_ours(file, without=False):
                        os.unlink(file.name)


def sync(folder: str) -> None:
    """Flush a folder's names to disk, where the system supports that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
