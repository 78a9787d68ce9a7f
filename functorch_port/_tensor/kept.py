"""Traces on disk: what one process has learned of the library's own functions, the next one need not trace.

What is kept depends on a function, which has an exact name, on the kinds of its arguments, and on all else that a trace
may see: the library's own code, versions, settings. All that is in the key, and what cannot be written down exactly is
not kept. Functions that are not the library's own have no name.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import inspect
import marshal
import operator
import os
import platform
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jaxlib
import numpy as np

from .._array import tracing
from .._base import cache, config, determinism, dtypes, settings
from .._base.device import device
from .._base.layout import layout
from .._base.tuning import tuning

__all__ = ["NUMBER", "Unwritten", "flush", "holds", "home", "later", "load", "own", "save", "text"]


class Unwritten(Exception):
    """It cannot be written down exactly."""


# ------------------------------------------------------------------ what a trace depends on

_PACKAGE = Path(__file__).parents[1]
_BEGINNING = f"{__name__.partition('.')[0]}."
#: with code that may run in a trace: operations, the layers above them, what they are told by a backend, and rules of
#: optimizers
_FOLDERS = ("_array", "_base", "_cpu", "_random", "_run", "_tensor", "ops", "optim")
#: JAX's settings that a trace has of its own (`tracing.x64`, `config.by_our_rules`), and parts of names of those that
#: change none
_FIXED = "enable_x64", "numpy_rank_promotion", "numpy_dtype_promotion", "default_matmul_precision"
_OTHERS = ("cache", "log", "dump", *_FIXED)
_NAMES = [name for name in jax.config.values if not any(word in name for word in _OTHERS)]
_settings = operator.itemgetter(*_NAMES)
#: how the names of distributions begin that a trace may depend on
_DISTRIBUTIONS = ("jax", "numpy", "scipy", "ml_dtypes", "llvmlite", "onednn")
_numbers = operator.attrgetter(*tuning.__slots__)
_LOADED = time.time()


@functools.cache
def _sources() -> list[str]:
    found = [str(_PACKAGE / "_native.py")]
    for name in _FOLDERS:
        for folder, _, files in os.walk(_PACKAGE / name):
            found += [os.path.join(folder, file) for file in files if file.endswith((".py", ".ll"))]
    return sorted(found)


@functools.cache
def _library() -> str | None:
    """A digest of the library's code, versions and variables; None if the code cannot be read."""
    digest = hashlib.sha256()
    try:
        for path in _sources():
            with open(path, "rb", 0) as file:
                code = file.read()
            digest.update(f"{path[len(str(_PACKAGE)) :]} {len(code)} ".encode())
            digest.update(code)
        around = sorted({str(Path(str(module.__file__)).parents[1]) for module in (jax, jaxlib, np)})
        installed = [name for folder in around for name in os.listdir(folder) if name.endswith("-info")]
    except OSError:
        return None
    python = sys.version, sys.implementation, sys.flags.optimize, platform.machine()
    versions = jax.__version__, jaxlib.__version__, np.__version__
    variables = {name: settings.get(name) for name in settings.VARIABLES if name != "CACHE"}
    installed = sorted(name for name in installed if name.startswith(_DISTRIBUTIONS))
    digest.update(repr((python, versions, variables, tracing.X64, installed)).encode())
    return digest.hexdigest()


class _Seen:
    """What was looked at last.

    Attributes:
        at: when the files were, in seconds.
        unchanged: whether none was written since they were loaded.
        state: what may change while the process runs, and a digest of it.
    """

    at = float("-inf")
    unchanged = False
    state: tuple[Any, str] = None, ""


def _is_as_loaded() -> bool:
    """Whether the files still have the code that runs. It is looked at once a second."""
    now = time.monotonic()
    if now - _Seen.at > 1:
        try:
            stats = [os.stat(path) for path in _sources()]
            _Seen.unchanged = all(max(s.st_mtime, s.st_ctime) < _LOADED - 5 for s in stats)
        except OSError:
            _Seen.unchanged = False
        _Seen.at = now
    return _Seen.unchanged


def _surroundings() -> str:
    """A digest of what a trace may see of the process."""
    more = *determinism.state.values(), dtypes._default, config.key
    now = _settings(jax.config.values), _numbers(tuning), more
    state, digest = _Seen.state  # together: another thread may have settings of its own
    if now != state:
        digest = hashlib.sha256(repr((_NAMES, now, _library())).encode()).hexdigest()
        _Seen.state = now, digest
    return digest


def home(name: str) -> str | None:
    """The key for what is kept under a name now; None if nothing is."""
    if not tuning.kept_traces or tracing.overlay or cache.directory() is None:
        return None
    return f"{_surroundings()} {name}" if _is_as_loaded() and _library() else None


def holds(home: str) -> bool:
    """Whether a key of `home` is what that would give now."""
    return not tracing.overlay and _is_as_loaded() and home.startswith(_surroundings())


#: what stands for a whole number that is told apart
NUMBER = object()


def text(value: Any) -> str:
    """A static argument written down: different ones, and those of different types, never alike.

    Raises:
        Unwritten: for what is none of Python's own values, dtypes, layouts or devices.
    """
    cls = type(value)
    if value is NUMBER:
        return "#"
    if cls is tuple:
        return f"({' '.join(map(text, value))})"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"{cls.__module__}.{cls.__qualname__} {text(tuple(value))}"
    if value is None or value is Ellipsis or cls in (bool, int, str):
        return repr(value)
    if cls is float:
        return f"float {struct.pack('<d', value).hex()}"
    if cls is complex:
        return f"complex {struct.pack('<dd', value.real, value.imag).hex()}"
    if cls is slice:
        return f"slice {text((value.start, value.stop, value.step))}"
    if cls is dtypes.dtype or cls is device or isinstance(value, layout):
        return f"{cls.__name__} {value!r}"
    if isinstance(value, np.dtype) and value.isbuiltin:
        return f"numpy {value.str} {value.name}"
    raise Unwritten(repr(cls))


def own(fn: Any) -> str:
    """Where a function of the library is, which has its name at the top of a module.

    Raises:
        Unwritten: for any other function.
    """
    module, name = getattr(fn, "__module__", None) or "", getattr(fn, "__qualname__", "")
    code = getattr(inspect.unwrap(fn), "__code__", None)
    is_ours = module.startswith(_BEGINNING) and code and code.co_filename.startswith(str(_PACKAGE))
    if not is_ours or getattr(sys.modules.get(module), name, None) is not fn:
        raise Unwritten(repr(fn))
    return f"{module} {name}"


# ------------------------------------------------------------------ on disk


def load(home: str) -> Any:
    """What was saved there, or None."""
    found = cache.look("trace", home)
    with contextlib.suppress(EOFError, ValueError, TypeError):  # another's file
        return None if found is None else marshal.loads(found)


def save(home: str, made: Any) -> None:
    """Save what `marshal` can write."""
    with contextlib.suppress(ValueError):  # it cannot
        cache.put("trace", home, marshal.dumps(made))


#: what saves what has come to be known, each once
_waiting: dict[Callable[[], Any], None] = {}
#: so many together
_MANY = 64


def later(save: Callable[[], Any]) -> None:
    """Have something saved when the process ends, or there is a lot."""
    _waiting[save] = None
    if len(_waiting) > _MANY:
        flush()


@atexit.register
def flush() -> None:
    """Save what waits for it. What goes wrong there, as a process ends, is no news to a user."""
    while _waiting:
        with contextlib.suppress(Exception):
            _waiting.popitem()[0]()
