"""What the compiler of a pod has answered, kept on the disk: to ask it again takes minutes."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
from contextlib import suppress
from pathlib import Path

from .._base import cache
from ..version import __version__

__all__ = ["key_of", "look", "put", "versions"]

_KIND = "plan"
#: to be raised where `Plan` or what is told in it changes
_FORMAT = 9
#: so many answers are kept, the latest
_MOST = 200


def versions() -> dict[str, str]:
    """What an answer depends on besides the program."""
    found = {"functorch_port": __version__}
    for name in ("jax", "jaxlib", "libtpu"):
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def key_of(*parts: object) -> str:
    """What a question is known by."""
    text = "\0".join(
        map(str, (_FORMAT, *parts, sorted(versions().items()), os.environ.get("LIBTPU_INIT_ARGS", "")))
    )
    return hashlib.sha256(text.encode()).hexdigest()


def look(key: str) -> str | None:
    """The answer to a question; None if there is none."""
    found = cache.look(_KIND, key)
    return None if found is None else found.decode()


def put(key: str, text: str) -> None:
    """Keep an answer; the oldest go."""
    cache.put(_KIND, key, text.encode())
    folder = cache.directory()
    if folder is None or "://" in folder:
        return
    files = []
    for path in Path(folder).glob(f"{_KIND}-*"):
        with suppress(OSError):  # another process has just removed it
            files.append((path.stat().st_mtime, path))
    for _, path in sorted(files)[:-_MOST]:
        with suppress(OSError):
            path.unlink()
