"""JAX's persistent compilation cache, on by default: what one process compiled, the next one loads.

An eager program is dozens of small XLA programs of 10 to 50 ms each. Loading one takes about 1 ms, so JAX is
told to keep the small ones too. JAX's key for an entry holds the program, the versions, the flags and the
processor's features, so a folder may be shared between machines, and deleting it costs nothing but time.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import jax

from . import settings

__all__ = ["default_directory", "directory", "enable"]

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
