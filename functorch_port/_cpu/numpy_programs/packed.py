"""Programs as what `marshal` can write: their code, and what that names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum
from functools import partial
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np

from ..._tensor.kept import Unwritten
from .helpers import HELPERS
from .program import Program

__all__ = ["pack", "unpack"]

#: where a function or a class may be that is written as its name
_MODULES = (f"{__name__.partition('.')[0]}.", "numpy", "scipy.special")
#: bytes of the arrays that are kept with a program
_MOST = 1 << 20


def pack(program: Program) -> Any:
    """A program written down.

    Raises:
        Unwritten: if it names what cannot be.
    """
    return _function(program.run), _function(program.facts), program.is_kept


def unpack(packed: Any) -> Program:
    """The program again."""
    run, facts, is_kept = packed
    return Program(_read(run), _read(facts), is_kept)


def _function(fn: Any) -> Any:
    """A program's function, or one within it."""
    names = fn.__globals__
    given = [name for name in names if names[name] is HELPERS.get(name, _NOTHING)]
    rest = {name: _write(names[name]) for name in names if name not in given and name != "__builtins__"}
    return "function", fn.__code__, given, rest


_NOTHING = object()


def _write(value: Any) -> Any:
    cls = type(value)
    if value is None or value is Ellipsis or cls in (bool, int, float, complex, str, bytes):
        return value
    if cls in (tuple, list):
        return cls.__name__, [*map(_write, value)]
    if cls is dict:
        return "dict", [(_write(key), _write(v)) for key, v in value.items()]
    if cls is slice:
        return "slice", [*map(_write, (value.start, value.stop, value.step))]
    if isinstance(value, np.dtype) and np.dtype(value.name) == value:
        return "dtype", value.name
    if isinstance(value, np.generic):
        return "scalar", value.dtype.name, value.tobytes()
    if cls is np.ndarray and value.nbytes <= _MOST:
        order = sorted(range(value.ndim), key=lambda dim: -value.strides[dim])
        whole = value.transpose(order)
        if whole.flags.c_contiguous:  # a result may depend on how a constant lies in memory
            back = [order.index(dim) for dim in range(value.ndim)]
            return "array", value.dtype.name, whole.shape, back, whole.tobytes(), value.flags.writeable
    if cls is partial:
        return "partial", [*map(_write, (value.func, value.args, value.keywords))]
    if isinstance(value, Enum):
        return "member", _write(cls), value.name
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return "named", _write(cls), [*map(_write, value)]
    if isinstance(value, FunctionType) and value.__code__.co_filename == "<host program>":
        return _function(value)
    return "name", *_named(value)


def _named(value: Any) -> tuple[str, str]:
    """The module of a function or class, and its name there."""
    name = str(getattr(value, "__qualname__", None) or getattr(value, "__name__", ""))
    module = str(getattr(value, "__module__", None) or "")
    places = [module] if module.startswith(_MODULES) else ["jax.lax", "numpy", "scipy.special"]
    for place in places:
        if getattr(sys.modules.get(place), name, None) is value:
            return place, name
    raise Unwritten(repr(value))


def _read(packed: Any) -> Any:
    if type(packed) is not tuple:
        return packed
    return _READ[packed[0]](*packed[1:])


def _read_function(code: Any, given: list[str], rest: dict[str, Any]) -> FunctionType:
    names = {name: HELPERS[name] for name in given}
    return FunctionType(code, names | {name: _read(value) for name, value in rest.items()})


def _array(
    dtype: str, shape: tuple[int, ...], order: list[int], content: bytes, writeable: bool
) -> np.ndarray:
    array = np.frombuffer(content, np.dtype(dtype)).reshape(shape)
    return (array.copy() if writeable else array).transpose(order)


#: by the first word of what was written
_READ: dict[str, Callable[..., Any]] = {
    "array": _array,
    "dict": lambda items: {_read(key): _read(value) for key, value in items},
    "dtype": np.dtype,
    "function": _read_function,
    "list": lambda items: [*map(_read, items)],
    "member": lambda cls, name: _read(cls)[name],
    "name": lambda module, name: getattr(import_module(module), name),
    "named": lambda cls, fields: _read(cls)._make(map(_read, fields)),
    "partial": lambda parts: partial(_read(parts[0]), *_read(parts[1]), **_read(parts[2])),
    "scalar": lambda dtype, content: np.frombuffer(content, np.dtype(dtype))[0],
    "slice": lambda parts: slice(*map(_read, parts)),
    "tuple": lambda items: tuple(map(_read, items)),
}
