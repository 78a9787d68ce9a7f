"""Atomic writing of folders: a path holds the old folder or the complete new one, whenever the writer is killed.

A writer works in a folder beside the path (`Replacement`), which it locks. In it ``new`` exists when the new folder is
complete, and ``old`` is the former one for the moment in which the two change places. So whoever comes next sees how
far a killed writer came (`cleared`), and a reader finds the complete folder in that moment, too (`standing`).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import uuid
import zlib
from collections.abc import Callable
from typing import Any

from .._base.atomic import lock, sync

__all__ = ["Replacement", "cleared", "removed", "standing"]

_NAME = re.compile(r"\.(?P<name>.+)\.(?P<host>[0-9a-f]{8})[0-9a-f]{32}\.folder", re.DOTALL)

#: whether an entry of a folder belongs to what is replaced, else it stays
Ours = Callable[[str], bool]


class Replacement:
    """A folder that is to replace the one at a path.

    Args:
        path: what lies there and is not ``ours`` is kept beside the new entries.
        ours: whether an entry of the folder belongs to what is replaced.
        of: the name that all processes which write the folder together know it by; only one of them is to commit.

    Attributes:
        new: where to make the new folder; it must appear there complete.
    """

    def __init__(self, path: str, ours: Ours, of: str | None = None) -> None:
        self.path, self._ours = os.path.realpath(path), ours
        folder, name = os.path.split(self.path)
        self.aside = os.path.join(folder, f".{name}.{_host()}{of or uuid.uuid4().hex}.folder")
        self.new = os.path.join(self.aside, "new")
        self._lock: int | None = None

    def begin(self) -> None:
        """Clear what killed writers left behind, and make the folder to work in.

        Raises:
            OSError: the path is a mount point.
        """
        folder = os.path.dirname(self.path)
        if os.path.ismount(self.path):
            raise OSError(
                f"{self.path} is a mount point, which nothing can take the place of: use a folder in it"
            )
        os.makedirs(folder, exist_ok=True)
        cleared(folder, self._ours)
        self._make()

    def _make(self) -> None:
        for _ in range(8):  # somebody may take it for a leftover until it is locked
            os.makedirs(self.aside, exist_ok=True)
            self._lock = lock(self.aside)
            if self._lock is not None and os.path.isdir(self.aside):
                break

    def commit(self) -> None:
        """Put the new folder in its place."""
        _change(self.aside, self.path, self._ours)
        self.end()

    def end(self) -> None:
        """Remove the folder to work in; without `commit` that leaves the path as it was."""
        shutil.rmtree(self.aside, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Replacement:
        self.begin()
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.end()


def _host() -> str:
    """Locks may be known on one machine only."""
    return f"{zlib.crc32(socket.gethostname().encode()):08x}"


def _change(aside: str, path: str, ours: Ours) -> None:
    """Let the new folder take the place of the old one, or go on where a killed process stopped."""
    old, new = os.path.join(aside, "old"), os.path.join(aside, "new")
    if os.path.lexists(path) and not os.path.lexists(old):
        os.rename(path, old)
    for name in os.listdir(old) if os.path.isdir(old) else ():
        if not ours(name) and not os.path.lexists(os.path.join(new, name)):
            os.rename(os.path.join(old, name), os.path.join(new, name))
    os.rename(new, path)
    sync(os.path.dirname(path))


def cleared(folder: str, ours: Ours) -> None:
    """Remove what killed writers left in a folder; an exchange that one had begun is completed."""
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder):
            found = _NAME.fullmatch(entry)
            if found is None or found["host"] != _host():
                continue
            aside, path = os.path.join(folder, entry), os.path.join(folder, found["name"])
            held = lock(aside)
            if held is None:
                continue
            try:
                if not os.path.lexists(path) and os.path.lexists(os.path.join(aside, "old")):
                    _change(aside, path, ours)
                shutil.rmtree(aside, ignore_errors=True)
            finally:
                os.close(held)


def removed(path: str) -> None:
    """Remove a folder; it is gone at once, though its files go one by one. Of a link only the link is removed."""
    if os.path.islink(path):
        os.unlink(path)
        return
    made = Replacement(path, lambda name: True)
    made._make()
    with contextlib.suppress(FileNotFoundError):
        os.rename(made.path, os.path.join(made.aside, "gone"))
    made.end()


def standing(path: str) -> str:
    """The path; or where its folder is while a writer, who may have been killed, exchanges it."""
    folder, name = os.path.split(path)
    if not os.path.lexists(path) and os.path.isdir(folder):
        for entry in os.listdir(folder):
            found = _NAME.fullmatch(entry)
            if found is not None and found["name"] == name:
                for which in ("old", "new") if os.path.lexists(os.path.join(folder, entry, "old")) else ():
                    if os.path.lexists(os.path.join(folder, entry, which)):
                        return os.path.join(folder, entry, which)
    return path
