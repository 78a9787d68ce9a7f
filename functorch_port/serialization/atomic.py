"""Files that are either the old one or the whole new one."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import socket
import uuid
import zlib
from collections.abc import Iterator
from typing import IO, Any

__all__ = ["atomic"]

#: bytes after which what was written is sent to the disk
HURRY = 32 << 20
try:
    _fcntl: Any = importlib.import_module("fcntl")
except ImportError:  # Windows
    _fcntl = None


class _Hurried(io.FileIO):
    """A file whose bytes are on their way to the disk soon after they were written, not only with `fsync`."""

    _sent = _written = 0

    def write(self, data: Any) -> int:
        """Write a part of the data; a `BufferedWriter` asks again for the rest."""
        count = super().write(memoryview(data)[:HURRY]) or 0
        self._written += count
        if self._written - self._sent >= HURRY and hasattr(os, "posix_fadvise"):
            size = self._written - self._sent
            os.posix_fadvise(self.fileno(), self._sent, size, os.POSIX_FADV_DONTNEED)
            self._sent = self._written
        return count


@contextlib.contextmanager
def atomic(path: str) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of ``path`` at the end, or leaves it alone after an error.

    It is on the disk before it takes that place, and so is its name afterwards. It is locked as long as its writer
    lives, so that the next writer can tell what a killed one has left, and deletes it.
    """
    folder, name = os.path.split(path)
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    if os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe cannot be replaced
        with open(path, "wb") as file:
            yield file
        return
    host = zlib.crc32(socket.gethostname().encode())  # a lock may be known on one machine only
    prefix = f".{name[:200]}.{host:08x}"
    _clear(folder, prefix)
    temporary, new = _begun(os.path.join(folder, prefix))
    try:
        with new:
            yield new
            new.flush()
            os.fsync(new.fileno())
            if os.path.exists(path):
                os.chmod(temporary, os.stat(path).st_mode & 0o777)
            if _fcntl is not None:
                os.replace(temporary, path)  # while it is locked
        if _fcntl is None:
            os.replace(temporary, path)
        _sync(folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _begun(prefix: str) -> tuple[str, IO[bytes]]:
    """A new file that nobody else deletes, and its path."""
    while True:
        path = f"{prefix}{uuid.uuid4().hex}"
        file = io.BufferedWriter(_Hurried(path, "xb"))
        if _is_ours(file) and os.fstat(file.fileno()).st_nlink:  # else it was deleted before it was locked
            return path, file
        file.close()


def _is_ours(file: IO[bytes], without: bool = True) -> bool:
    """Lock a file; ``without`` is the answer where there are no locks."""
    if _fcntl is None:
        return without
    try:
        _fcntl.flock(file, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return without
    return True


def _clear(folder: str, prefix: str) -> None:
    """Delete what writers of the same file have left that were killed."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if re.fullmatch(re.escape(prefix) + "[0-9a-f]{32}", name):
                with contextlib.suppress(OSError), open(os.path.join(folder, name), "rb") as file:
                    if _is_ours(file, without=False):
                        os.unlink(file.name)


def _sync(folder: str) -> None:
    """Have the names in a folder on the disk, where the system can do that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
