"""Sizes that a traced program does not know: dimensions of `compile`'s arguments that change from call to call.

In such a trace a dimension is a symbol of JAX (`jax.export.symbolic_shape`), or an expression of symbols, and so are
those that follow from it. Python code gets a `SymSize` in their place: a number whose value at this call is known.
Arithmetic gives further ones. A comparison that the range of the symbols decides has one answer; another has the answer
for this call, and the program holds where it stays the same. What needs the plain number raises `NeedsSize`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import jax.numpy as jnp
from jax.errors import InconclusiveDimensionOperation
from jax.export import SymbolicScope, symbolic_shape

from .._base.sizes import evaluated, is_symbolic_dim, limits, names_in
from . import tracing
from .symbolic import SymNumber

__all__ = [
    "NeedsSize",
    "SmallSize",
    "SymSize",
    "Symbols",
    "as_index",
    "is_one",
    "is_same_size",
    "plain_dim",
    "size_key",
    "sized",
]


class NeedsSize(RuntimeError):
    """The plain number of a dimension was asked for whose size the program does not know."""


class SmallSize(NeedsSize):
    """A size that the program takes for more than 1 is not at this call."""


class Symbols:
    """The symbols of one trace.

    Args:
        largest: by name of a symbol the most that it may be.
        now: by name its value at this call.
        least: by name the least that it may be; 2 unless given.
        guarded: whether the program may hold for some of these values alone, which guards compare at each call. If
            not, a test with another answer for others raises `NeedsSize`.

    Attributes:
        dims: by name the symbol.
        tracers: by name the number in the traced program.
    """

    def __init__(
        self,
        largest: dict[str, int],
        now: dict[str, int],
        least: dict[str, int] | None = None,
        guarded: bool = True,
    ) -> None:
        self.scope = SymbolicScope(limits(largest, least))
        self.dims: dict[str, Any] = {}
        for name in largest:
            (self.dims[name],) = symbolic_shape(name, scope=self.scope)
        self.largest, self.now, self.guarded = largest, now, guarded
        self.tracers: dict[str, Any] = {}
        _of_scope[self.scope] = self

    def shape(self, shape: Sequence[int], names: dict[int, str]) -> tuple[Any, ...]:
        """A shape with symbols at some positions."""
        return tuple(self.dims[names[d]] if d in names else n for d, n in enumerate(shape))


_of_scope: WeakKeyDictionary[Any, Symbols] = WeakKeyDictionary()


def size_key(name: str) -> tuple[str, str]:
    """What a symbol is called among the numbers that are inputs of a program."""
    return ("size", name)


class SymSize(SymNumber):
    """A dimension, or what integer arithmetic makes of several.

    Attributes:
        dim: the expression of JAX.
        symbols: of the trace.
    """

    __slots__ = ("dim", "symbols")

    def __init__(self, dim: Any, symbols: Symbols) -> None:
        self.dim, self.symbols = dim, symbols

    @property
    def value(self) -> int:  # type: ignore[override]
        return evaluated(self.dim, self.symbols.now)

    @property
    def array(self) -> Any:  # type: ignore[override]
        return evaluated(self.dim, self.symbols.tracers, _TRACED)

    @property
    def sources(self) -> frozenset[Any]:  # type: ignore[override]
        return frozenset(size_key(name) for name in names_in(self.dim))

    @property
    def rule(self) -> Any:  # type: ignore[override]
        dim, names = self.dim, names_in(self.dim)
        return lambda env: evaluated(dim, {name: env[size_key(name)] for name in names})

    def concrete(self) -> Any:
        if tracing.overlay:
            tracing.overlay.guard_numbers(self.sources)
            raise NeedsSize(f"the size {self.dim} is asked for as a plain number")
        return self.value


_TRACED = {"max": jnp.maximum, "min": jnp.minimum}


def sized(shape: Sequence[Any]) -> Sequence[Any]:
    """A shape as Python code gets it in a trace."""
    for n in shape:
        if n.__class__ is not int:
            return [_wrapped(n) for n in shape]
    return shape


def _wrapped(dim: Any) -> Any:
    if dim.__class__ is int or not is_symbolic_dim(dim):
        return dim
    symbols = _of_scope.get(dim.scope)
    return dim if symbols is None else SymSize(dim, symbols)


def as_index(number: Any) -> Any:
    """A number as JAX takes it for a size: an int, or an expression."""
    dim = plain_dim(number)
    return dim if is_symbolic_dim(dim) else operator.index(dim)


def plain_dim(number: Any) -> Any:
    """What JAX takes for a `SymSize`; any other number as it is."""
    return number.dim if type(number) is SymSize else number


def is_same_size(a: Any, b: Any) -> bool:
    """Whether two numbers are equal for all values of the symbols. Unlike ``==`` it makes no program depend on them."""
    return bool(plain_dim(a) == plain_dim(b))


def is_one(size: Any) -> bool:
    """Whether a size is 1. One that is not known counts as larger, which a guard compares at each call.

    Raises:
        InconclusiveDimensionOperation: JAX's, where the program has no guards.
    """
    symbols = None if size.__class__ is int or not is_symbolic_dim(size) else _of_scope.get(size.scope)
    return bool(size == 1) if symbols is None or symbols.guarded else bool(0 < size < 2)


def _arithmetic(name: str, swap: bool = False) -> Callable[[SymSize, Any], Any]:
    fn = getattr(operator, name)
    general = getattr(SymNumber, f"__r{name}__" if swap else f"__{name}__")

    def method(self: SymSize, other: Any) -> Any:
        dim = plain_dim(other)
        if type(dim) is not int and not is_symbolic_dim(dim):
            return general(self, other)
        if name == "pow" and (swap or type(dim) is not int or dim < 0):
            return general(self, other)
        return _wrapped(fn(dim, self.dim) if swap else fn(self.dim, dim))

    return method


for _name in ("add", "sub", "mul", "floordiv", "mod", "pow"):
    setattr(SymSize, f"__{_name}__", _arithmetic(_name))
    setattr(SymSize, f"__r{_name}__", _arithmetic(_name, swap=True))
SymSize.__neg__ = lambda self: _wrapped(-self.dim)  # type: ignore[attr-defined]
SymSize.__pos__ = lambda self: self  # type: ignore[attr-defined]


def _decided(fn: Callable[[Any, Any], bool], a: Any, b: Any) -> bool | None:
    """What a comparison gives for all values of the symbols; None if that depends on them."""
    try:
        return fn(a, b)
    except InconclusiveDimensionOperation:
        return None


def _comparison(name: str) -> Callable[[SymSize, Any], Any]:
    general, fn = getattr(SymNumber, f"__{name}__"), getattr(operator, name)

    def method(self: SymSize, other: Any) -> Any:
        other = _wrapped(other)
        dim = plain_dim(other)
        if type(dim) is not int and not is_symbolic_dim(dim):
            return general(self, other)
        if name not in ("eq", "ne"):
            known = _decided(fn, self.dim, dim)
        elif not is_symbolic_dim(self.dim - dim):
            known = fn(self.dim - dim, 0)
        else:  # JAX says False where it does not know
            apart = _decided(operator.gt, self.dim, dim) or _decided(operator.lt, self.dim, dim)
            known = name == "ne" if apart else None
        if known is None and not self.symbols.guarded:
            raise NeedsSize(f"the test {self.dim} {_SIGNS[name]} {dim} has another answer for other sizes")
        return general(self, other) if known is None else known

    return method


_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
for _name in _SIGNS:
    setattr(SymSize, f"__{_name}__", _comparison(_name))
SymSize.__bool__ = lambda self: self != 0  # type: ignore[method-assign]
SymSize.__hash__ = lambda self: hash(self.concrete())  # type: ignore[method-assign]
