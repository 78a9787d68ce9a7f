"""Numbers that stay inputs of a traced program: an optimizer's `lr` during `compile`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax.numpy as jnp
import numpy as np

from . import tracing

__all__ = ["SymNumber", "plain_math", "symbolic_math"]

#: computes the number from the values of the program's number inputs
Rule = Callable[[dict[Any, Any]], Any]


class SymNumber:
    """A Python number whose value at the time of the trace is known, and which the traced program takes as an input.

    Arithmetic builds up the traced value, and so do numpy's functions of numbers and, inside `symbolic_math`, those of
    `math` (which then give nan or inf where they would raise). A comparison, or asking for the plain number with
    `float()`, gives the plain answer and tells the trace that the compiled program only holds while that answer stays
    the same.

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

    @property
    def __class__(
        self,
    ) -> Any:  # what `isinstance` asks: the function's Python takes it for the number that it is
        return type(self.value)

    def concrete(self) -> Any:
        """The plain number; the trace will be redone when it changes."""
        if tracing.overlay:
            tracing.overlay.guard_numbers(self.sources)
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
        return self if tracing.overlay else self.value


def _apply(fn: Callable[..., Any], traced: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """``fn`` of numbers, some of them symbolic; ``traced`` is the same function of tracers.

    A thread that is not traced gets a plain number.
    """
    if not tracing.overlay:
        return fn(*(a.value if isinstance(a, SymNumber) else a for a in args))
    symbols = [a for a in args if isinstance(a, SymNumber)]
    rules = [a.rule if isinstance(a, SymNumber) else lambda env, a=a: a for a in args]
    return SymNumber(
        fn(*(a.value if isinstance(a, SymNumber) else a for a in args)),
        traced(*(a.array if isinstance(a, SymNumber) else a for a in args)),
        frozenset().union(*(s.sources for s in symbols)),
        lambda env: fn(*[rule(env) for rule in rules]),
    )


def _binary(fn: Callable[[Any, Any], Any], swap: bool = False) -> Callable[[SymNumber, Any], Any]:
    def method(self: SymNumber, other: Any) -> Any:
        if not isinstance(other, int | float | complex | SymNumber):
            return NotImplemented
        return _apply(fn, fn, (other, self) if swap else (self, other))

    return method


def _unary(fn: Callable[[Any], Any]) -> Callable[[SymNumber], Any]:
    return lambda self: _apply(fn, fn, (self,))


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
    if tracing.overlay:
        tracing.overlay.guard_predicate(predicate, outcome)
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
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
}
for _name, _fn in _PLAIN.items():
    setattr(SymNumber, f"__{_name}__", _plain(_fn))
SymNumber.__bool__ = _truth  # type: ignore[method-assign]
SymNumber.__round__ = lambda self, digits=None: round(self.concrete(), digits)  # type: ignore[attr-defined]

_TESTS = {
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge,
}  # fmt: skip


def _array_ufunc(self: SymNumber, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """numpy's functions: symbolic for numbers, as `math`'s are; else of the plain number."""
    numbers = [a.item() if isinstance(a, np.generic) else a for a in inputs]
    if (
        method == "__call__"
        and not kwargs
        and all(isinstance(a, int | float | complex | SymNumber) for a in numbers)
    ):
        if ufunc.__name__ in _TESTS:
            return _TESTS[ufunc.__name__](*numbers)
        if ufunc.nout == 1 and (traced := getattr(jnp, ufunc.__name__, None)) is not None:
            return _apply(lambda *values: ufunc(*values).item(), traced, tuple(numbers))
    plain = [a.concrete() if isinstance(a, SymNumber) else a for a in inputs]
    return getattr(ufunc, method)(*plain, **kwargs)


SymNumber.__array_ufunc__ = _array_ufunc  # type: ignore[attr-defined]


def _log(x: Any, *base: Any) -> Any:
    return jnp.log(x) / jnp.log(base[0]) if base else jnp.log(x)


_TRACED: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(jnp, name) for name in ("cos", "cosh", "exp", "exp2", "expm1", "log10", "log1p", "log2")
    },
    **{name: getattr(jnp, name) for name in ("cbrt", "sin", "sinh", "sqrt", "tan", "tanh")},
    "fabs": jnp.abs,
    "log": _log,
    "pow": jnp.power,
}
_ORIGINALS = {name: getattr(math, name) for name in (*_TRACED, "isfinite", "isinf", "isnan")}


def _accepting(name: str) -> Callable[..., Any]:
    """A function of `math` that takes a SymNumber too."""
    original, traced = _ORIGINALS[name], _TRACED.get(name)

    def function(*args: Any) -> Any:
        if not any(isinstance(a, SymNumber) for a in args):
            return original(*args)
        if traced is not None:
            return _apply(original, traced, args)
        (number,) = args
        return _decide(original(number.value), lambda env: original(number.rule(env)))

    return function


_ACCEPTING = {name: _accepting(name) for name in _ORIGINALS}


@contextmanager
def symbolic_math() -> Iterator[None]:
    """Inside, the functions of `math` take a SymNumber: optimizers correct their bias with `math.sqrt`."""
    vars(math).update(_ACCEPTING)
    try:
        yield
    finally:
        plain_math()


def plain_math() -> None:
    """The functions of `math` are their own again."""
    vars(math).update(_ORIGINALS)
