"""Sizes that a trace does not know: symbols of `jax.export`, and how they are written in Python.

Reference: https://docs.jax.dev/en/latest/export/shape_poly.html
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jax.export import is_symbolic_dim, symbolic_shape

__all__ = [
    "ARITHMETIC", "MOST", "apart", "broadcast", "evaluated", "is_known", "is_symbolic_dim", "limits", "names_in",
    "symbols", "text",
]  # fmt: skip


#: positions in larger dimensions have 64 bits
MOST = 2**31 - 1


@functools.cache
def symbols(count: int, constraints: tuple[str, ...] = ()) -> tuple[Any, ...]:
    """Sizes ``n0``, ``n1`` and so on, each from 2 to `MOST`, of which more may be known."""
    if not count:
        return ()
    largest = {f"n{k}": MOST for k in range(count)}
    return tuple(symbolic_shape(",".join(largest), constraints=[*limits(largest), *constraints]))


def limits(largest: Mapping[str, int], least: Mapping[str, int] | None = None) -> list[str]:
    """The constraints of symbols; given by name the most that each may be, and the least if that is not 2."""
    least = least or {}
    return [
        f"{name} {limit}"
        for name, most in largest.items()
        for limit in (f">= {least.get(name, 2)}", f"<= {most}")
    ]


def apart(fn: Callable[..., Any], *args: Any) -> Any:
    """``fn(*args)``, which deals with symbols.

    JAX catches errors there and keeps them, each with all frames of its moment, until the collector finds them. They
    are not to keep the values that the callers have: a generator that has ended has no caller.
    """

    def run() -> Iterator[Any]:
        yield fn(*args)

    return next(run())


def is_known(size: Any) -> bool:
    """Whether a size is a number, or each of some sizes is."""
    if isinstance(size, tuple | list):
        return all(map(is_known, size))
    return hasattr(size, "__index__")


def text(sizes: Any) -> str:
    """The Python expression of a size, or of a tuple of them, in terms of the symbols' names."""
    if isinstance(sizes, tuple | list):
        inner = ", ".join(map(text, sizes))
        return f"({inner},)" if len(sizes) == 1 else f"({inner})"
    return str(int(sizes)) if is_known(sizes) else f"({str(sizes).replace('^', '**')})"


#: what such an expression may call
ARITHMETIC: dict[str, Callable[..., Any]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
}


@functools.lru_cache(4096)
def _code(source: str) -> tuple[Any, tuple[str, ...]]:
    code = compile(source, "<size>", "eval")
    return code, tuple(name for name in code.co_names if name not in ARITHMETIC)


def names_in(size: Any) -> tuple[str, ...]:
    """The names of the symbols in a size."""
    return _code(text(size))[1]


def evaluated(size: Any, values: Mapping[str, Any], functions: Mapping[str, Any] | None = None) -> Any:
    """The value of a size, from those of its symbols by name.

    Args:
        functions: ``max`` and ``min`` for values that are no numbers.
    """
    if not is_symbolic_dim(size):
        return size
    space = {"__builtins__": {}, **ARITHMETIC, **(functions or {}), **values}
    return eval(_code(text(size))[0], space)


def broadcast(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    """The shape that arrays of these shapes have together. A size that is not known is never 1."""
    rank = max(map(len, shapes), default=0)
    found = [1] * rank
    for shape in shapes:
        for k, size in enumerate(shape, rank - len(shape)):
            if found[k] == 1:
                found[k] = size
            elif not (size == 1 or size == found[k]):
                raise ValueError(f"shapes {shapes} do not broadcast")
    return tuple(found)
