"""JAX's persistent compilation cache, on by default: what one process compiled, the next one loads.

An eager program is dozens of small XLA programs of 10 to 50 ms each. Loading one takes about 1 ms, so JAX is
told to keep the small ones too. JAX's key for an entry holds the program, the versions, the flags and the
processor's features, so a folder may be shared between machines, and deleting it costs nothing but time.
What is compiled without JAX, and what is known of traces (`_tensor/kept.py`), is kept beside its entries.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax

from . import settings

__all__ = [
    "CacheStats", "count", "default_directory", "directory", "enable", "kept", "look", "put", "stats",
]  # fmt: skip

#: JAX leaves out what compiled faster than this many seconds.
_THRESHOLD = "jax_persistent_cache_min_compile_time_secs"


def default_directory() -> Path:
    """The platform's place for a user's caches; ``XDG_CACHE_HOME`` counts everywhere."""
    base = os.environ.get("XDG_CACHE_HOME")
    if not base and sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    if base:
        return Path(base) / "functorch_port" / "xla"
    home = Path.home()
    caches = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    return caches / "functorch_port" / "xla"


def directory() -> str | None:
    """The folder that JAX keeps compiled programs in now, or None."""
    return jax.config.jax_compilation_cache_dir if jax.config.jax_enable_compilation_cache else None


def enable() -> str | None:
    """Switch the cache on, unless the user decided otherwise.

    JAX's own setting (``JAX_COMPILATION_CACHE_DIR`` or `jax.config`) is left alone where there is one. The
    environment variable ``FUNCTORCH_PORT_CACHE`` is ``0`` for no cache, or the path of another folder. One
    that cannot be written means no cache.

    Returns:
        The folder in use, or None.
    """
    choice = settings.get("CACHE")
    if directory() or choice is False or not jax.config.jax_enable_compilation_cache:
        return directory()
    try:
        path = default_directory() if choice is True else Path(choice).expanduser()
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # read-only, a file in the way; no home directory
        return None
    if not os.access(path, os.W_OK):
        return None
    jax.config.update("jax_compilation_cache_dir", str(path))
    if _THRESHOLD.upper() not in os.environ and getattr(jax.config, _THRESHOLD) == 1.0:
        jax.config.update(_THRESHOLD, 0.0)
    # An entry that another process is just writing, or a full disk: JAX compiles instead, no news to a user.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache entry")
    return directory()


class CacheStats(NamedTuple):
    """What the persistent cache has given to this process.

    Attributes:
        hits: programs, loops of machine code and traces of operations that were read from the folder.
        misses: those that were made, as they were not there.
        directory: the folder; None if there is no cache.
        files: in the folder.
        bytes: of all files.
    """

    hits: int
    misses: int
    directory: str | None
    files: int
    bytes: int


class _Counts:
    asked = hits = 0


def _listen(event: str, **_: str | int) -> None:
    _Counts.asked += event == "/jax/compilation_cache/compile_requests_use_cache"
    _Counts.hits += event == "/jax/compilation_cache/cache_hits"


jax.monitoring.register_event_listener(_listen)


def stats() -> CacheStats:
    """The hits and misses of this process, and the size of the folder."""
    folder, sizes = directory(), []
    if folder is not None and "://" not in folder and os.path.isdir(folder):
        with os.scandir(folder) as files:
            for file in files:
                with contextlib.suppress(OSError):  # another process has just removed it
                    sizes.append(file.stat().st_size)
    return CacheStats(_Counts.hits, _Counts.asked - _Counts.hits, folder, len(sizes), sum(sizes))


def count(hit: bool) -> None:
    """Count something that was there, or was made as it was not."""
    _Counts.asked += 1
    _Counts.hits += hit


_DIGEST = hashlib.sha256().digest_size


def kept(kind: str, key: str, make: Callable[[], bytes]) -> bytes:
    """What ``make`` gives, from the cache's folder if it is there.

    Args:
        kind, key: as for `look`.
    """
    if _path(kind, key) is None:
        return make()
    found = look(kind, key)
    count(found is not None)
    if found is None:
        put(kind, key, found := make())
    return found


def look(kind: str, key: str) -> bytes | None:
    """What is in the cache's folder. None if there is nothing, or the file is not whole.

    Args:
        kind: a word for the file's name.
        key: all that the bytes depend on.
    """
    path = _path(kind, key)
    if path is None:
        return None
    try:
        with open(path, "rb", 0) as file:
            whole = file.read()
    except OSError:
        return None
    digest, found = whole[:_DIGEST], whole[_DIGEST:]
    return found if digest == hashlib.sha256(found).digest() else None


def put(kind: str, key: str, content: bytes) -> None:
    """Put bytes into the cache's folder, for `look`."""
    path = _path(kind, key)
    if path is not None:
        _write(path, hashlib.sha256(content).digest() + content)


def _path(kind: str, key: str) -> str | None:
    folder = directory()
    if folder is None or "://" in folder:  # JAX can have it in a bucket, too
        return None
    return os.path.join(folder, f"{kind}-{hashlib.sha256(key.encode()).hexdigest()}")


def _write(path: str, content: bytes) -> None:
    """Write a file so that no other process, or thread, sees a part of it. Where it cannot be written there is none.

    Not by `atomic`: there are thousands of these, and to lose one costs nothing, so none waits for the disk.
    """
    part = Path(f"{path}.{os.getpid()}.{threading.get_ident()}")
    try:
        part.write_bytes(content)
        part.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if not isinstance(error, OSError):
            raise
