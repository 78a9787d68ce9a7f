"""Numbers that stay inputs of a traced program: an optimizer's `lr` during `compile`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from . import storage

__all__ = ["SymNumber"]

#: computes the number from the values of the program's number inputs
Rule = Callable[[dict[Any, Any]], Any]


class SymNumber:
    """A Python number whose value at the time of the trace is known, and which the traced program takes as an input.

    Arithmetic builds up the traced value. A comparison, or asking for the plain number with `float()`, gives the plain
    answer and tells the trace that the compiled program only holds while that answer stays the same.

    Attributes:
        value: the Python number at the time of the trace.
        array: the weakly typed 0-dim tracer.
        sources: keys of the inputs it was computed from.
        rule: recomputes the Python number from the inputs, so that a step count needs no trip to the device.
    """

    __slots__ = ("array", "rule", "sources", "value")

    def __init__(self, value: Any, array: Any, sources: frozenset[Any], rule: Rule) -> None:
        self.value = value
        self.array = array
        self.sources = sources
        self.rule = rule

    def concrete(self) -> Any:
        """The plain number; the trace will be redone when it changes."""
        if storage.overlay is not None:
            storage.overlay.guard_numbers(self.sources)
        return self.value

    def __jax_array__(self) -> Any:
        return self.array

    def item(self) -> Any:
        return self.concrete()

    def __repr__(self) -> str:
        return repr(self.concrete())

    def __format__(self, spec: str) -> str:
        return format(self.concrete(), spec)

    def __reduce__(self) -> Any:
        return (type(self.value), (self.concrete(),))

    def __deepcopy__(self, memo: Any) -> Any:
        return self


def _binary(fn: Callable[[Any, Any], Any], swap: bool = False) -> Callable[[SymNumber, Any], Any]:
    def method(self: SymNumber, other: Any) -> Any:
        if isinstance(other, SymNumber):
            value, array, sources, rule = other.value, other.array, self.sources | other.sources, other.rule
        elif isinstance(other, int | float | complex):
            value, array, sources = other, other, self.sources
            rule = lambda env: other
        else:
            return NotImplemented
        mine = self.rule
        if swap:
            return SymNumber(
                fn(value, self.value), fn(array, self.array), sources, lambda env: fn(rule(env), mine(env))
            )
        return SymNumber(
            fn(self.value, value), fn(self.array, array), sources, lambda env: fn(mine(env), rule(env))
        )

    return method


def _unary(fn: Callable[[Any], Any]) -> Callable[[SymNumber], Any]:
    return lambda self: SymNumber(
        fn(self.value), fn(self.array), self.sources, lambda env: fn(self.rule(env))
    )


def _compare(fn: Callable[[Any, Any], Any]) -> Callable[[SymNumber, Any], Any]:
    def method(self: SymNumber, other: Any) -> Any:
        mine = self.rule
        if isinstance(other, SymNumber):
            theirs = other.rule
            return _decide(fn(self.value, other.value), lambda env: fn(mine(env), theirs(env)))
        if not isinstance(other, int | float | complex):
            return NotImplemented
        return _decide(fn(self.value, other), lambda env: fn(mine(env), other))

    return method


def _truth(self: SymNumber) -> bool:
    mine = self.rule
    return _decide(bool(self.value), lambda env: bool(mine(env)))


def _decide(outcome: bool, predicate: Rule) -> bool:
    """The outcome of a test; the program holds as long as it stays the same."""
    if storage.overlay is not None:
        storage.overlay.guard_predicate(predicate, outcome)
    return outcome


def _plain(fn: Callable[[Any], Any]) -> Callable[[SymNumber], Any]:
    return lambda self: fn(self.concrete())


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(SymNumber, f"__{_name}__", _binary(getattr(operator, _name)))
    setattr(SymNumber, f"__r{_name}__", _binary(getattr(operator, _name), swap=True))
for _name in ("neg", "pos", "abs"):
    setattr(SymNumber, f"__{_name}__", _unary(getattr(operator, _name)))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(SymNumber, f"__{_name}__", _compare(getattr(operator, _name)))
_PLAIN: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "int": int,
    "complex": complex,
    "index": operator.index,
    "hash": hash,
}
for _name, _fn in _PLAIN.items():
    setattr(SymNumber, f"__{_name}__", _plain(_fn))
SymNumber.__bool__ = _truth  # type: ignore[method-assign]
