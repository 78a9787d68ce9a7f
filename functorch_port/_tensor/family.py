"""One trace for all sizes: what is known of a pure function for arrays of any sizes.

A pure function is traced by JAX when it meets arguments of new dtypes and dimensions. When other sizes come, it is
traced once more with symbols in place of the sizes that have changed, and that trace serves all further ones
(https://docs.jax.dev/en/latest/export/shape_poly.html). A size stays a number as long as it is always the same. 0 and 1
are never symbols, as JAX broadcasts a size of 1, nor are those beyond `MOST`. Equal sizes are one symbol, and a trace
takes those for different that are different symbols, or a symbol and a number: it is used only where they are, since a
function may compare them.

Where a function asks which of two sizes is larger, it is traced for each order of the sizes; where it needs to know a
size, for each.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax

from .._array import tracing
from .._base import collector, config, lowering
from .._base.bounded import Bounded
from .._base.sizes import ARITHMETIC, MOST, apart, symbols, text
from .._base.tuning import tuning
from .pullback import pull

__all__ = ["Family", "Traced"]

Mask = tuple[bool, ...]


class Family:
    """Pure functions that differ only in whole numbers among their static arguments, such as sizes.

    Args:
        of: from these numbers to the pure function.
    """

    __slots__ = ("_backward", "_known", "of")

    def __init__(self, of: Callable[[Sequence[Any]], Callable[..., Any]]) -> None:
        self.of = of
        self._backward: dict[tuple[Mask, Mask], Family] = {}
        self._known: Bounded[Any, _Known] = Bounded(tuning.cached_kinds)

    def backward(self, mask: Mask, holes: Mask) -> Family:
        """That of the pullbacks (see `Plan.backward`)."""
        found = self._backward.get((mask, holes))
        if found is None:
            found = self._backward[mask, holes] = Family(
                lambda numbers: partial(pull, self.of(numbers), mask, holes)
            )
        return found

    def find(self, values: Sequence[Any], numbers: Sequence[int]) -> tuple[Traced, tuple[int, ...]]:
        """The trace for such values, and what its symbols are.

        Args:
            values: arrays of any kind, and Python numbers.
            numbers: of the function.

        Raises:
            whatever the function raises for such values.
        """
        kind: list[Any] = []
        sizes: dict[int, int] = {}
        for v in values:
            shape = getattr(v, "shape", None)
            if shape is None:
                kind.append(v.__class__)
                continue
            kind.append(v.dtype)
            for n in shape:
                kind.append(n if not 1 < n <= MOST else _SIZE + sizes.setdefault(n, len(sizes)))
        for n in numbers:
            kind.append(n if not 1 < n <= MOST else _SIZE + sizes.setdefault(n, len(sizes)))
        key = tuple(kind)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Known()
        given = [*sizes]
        for traced in known.traces:
            env = traced.sizes_of(given)
            if env is not None:
                return traced, env
        return known.trace(self.of, [_kind(v) for v in values], numbers, given)


def _kind(value: Any) -> Any:
    """What a trace needs of an argument: shape and dtype, or the number."""
    return jax.ShapeDtypeStruct(value.shape, value.dtype) if hasattr(value, "shape") else value


#: what the numbers of sizes begin with in a key: no size is that large
_SIZE = 1 << 62


class _Known:
    """The traces for arguments of some dtypes and dimensions, of which the same are equal; those with symbols first.

    Sizes are listed here in the order in which they come first, without 0 and 1.

    Attributes:
        samples: sizes that have come.
        failed: patterns with which the function cannot be traced.
    """

    __slots__ = ("failed", "samples", "traces")

    def __init__(self) -> None:
        self.failed: list[tuple[list[int], Order | None]] = []
        self.samples: list[list[int]] = []
        self.traces: list[Traced] = []

    @collector.stopped()
    def trace(
        self, of: Callable[..., Any], values: Sequence[Any], numbers: Sequence[int], sizes: list[int]
    ) -> tuple[Traced, tuple[int, ...]]:
        """A new trace for these sizes, with symbols if they are not the first."""
        pattern = sizes
        if self.samples:
            pattern = _pattern([*self.samples, sizes])
            for ordered in (False, True):
                tried = pattern, _order_of(sizes) if ordered else None
                if tried in self.failed or any(tried == (t.pattern, t.order) for t in self.traces):
                    continue
                new = apart(_traced, of, values, numbers, *tried)
                if new is None:
                    self.failed.append(tried)
                    continue
                self.traces.insert(0, new)
                if (env := new.sizes_of(sizes)) is not None:
                    self._note(sizes)
                    return new, env
                break
        new = Traced(of, values, numbers, sizes)
        symbolic = [traced for traced in self.traces if traced.symbols]
        concrete = [traced for traced in self.traces if not traced.symbols]
        self.traces = [*symbolic, *concrete[-_SAMPLES:], new]
        self._note(sizes)
        return new, ()

    def _note(self, sizes: list[int]) -> None:
        if len(self.samples) < _SAMPLES:
            self.samples.append(sizes)


def _traced(*args: Any) -> Traced | None:
    """The trace; None if the function asks for the value of a size: with numbers an error is told in its own words."""
    try:
        return Traced(*args)
    except Exception:
        return None


#: sizes of which one is remembered, and traces of single ones
_SAMPLES = 8


def _pattern(samples: Sequence[Sequence[int]]) -> list[int]:
    """For each size the number, if it is the same in all samples, else -1 - k for the symbol number k."""
    symbol = itertools.count(-1, -1)
    columns = zip(*samples, strict=True)
    return [column[0] if len(set(column)) == 1 else next(symbol) for column in columns]


#: the places of sizes, the smallest first
Order = tuple[int, ...]


def _order_of(sizes: Sequence[int]) -> Order:
    return tuple(sorted(range(len(sizes)), key=sizes.__getitem__))


class Traced:
    """The trace of a pure function.

    Attributes:
        pattern: the sizes it is for, as `_Known` lists them: numbers, or -1 - k for the symbol number k.
        order: that of the sizes it is for, if the function compares them.
        symbols: how many there are.
        closed: the jaxpr; None when a backend has made of it what it needs.
        results: shapes and dtypes of the results, with symbols.
        backend: what a backend has made of it.
        is_tried: whether that has run, and gave such results.
    """

    __slots__ = (
        "_results", "_warnings", "backend", "closed", "is_tried", "order", "pattern", "results", "symbols",
    )  # fmt: skip

    def __init__(
        self,
        of: Callable[..., Any],
        values: Sequence[Any],
        numbers: Sequence[int],
        pattern: Sequence[int],
        order: Order | None = None,
    ) -> None:
        self.pattern, self.order = list(pattern), order
        self.symbols = -min([0, *pattern])
        self.backend: Any = None
        self.is_tried = False
        names = symbols(self.symbols, self._known_orders())
        sizes: dict[int, Any] = {}
        given = iter([names[-1 - p] if p < 0 else p for p in pattern])

        def size(n: int) -> Any:
            if 1 < n <= MOST and n not in sizes:
                sizes[n] = next(given)
            return sizes.get(n, n)

        avals = [
            jax.ShapeDtypeStruct([*map(size, v.shape)], v.dtype) if hasattr(v, "shape") else v for v in values
        ]
        fn = config.by_our_rules(of([*map(size, numbers)]))
        with tracing.x64(), lowering.for_numpy(), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.closed, self.results = jax.make_jaxpr(fn, return_shape=True)(*avals)
        self._warnings = [] if self.symbols else told
        self._results: Callable[..., Any] | None = None

    def sizes_of(self, sizes: list[int]) -> tuple[int, ...] | None:
        """What the symbols are for these sizes; None if it is for others."""
        if not self.symbols:
            return () if self.pattern == sizes else None
        env = []
        for p, n in zip(self.pattern, sizes):
            if p < 0:
                env.append(n)
            elif p != n:
                return None
        if self.order is not None and _order_of(sizes) != self.order:
            return None
        return tuple(env)

    def _known_orders(self) -> tuple[str, ...]:
        """What is known of the order, as constraints."""
        names = [f"n{-1 - p}" if p < 0 else p for p in self.pattern]
        pairs = itertools.combinations([names[place] for place in self.order or ()], 2)
        return tuple([f"{b} >= {a} + 1" for a, b in pairs if str in (type(a), type(b))])

    def tell(self) -> None:
        """Give the warnings of the function, once. They are not given when it is traced: it may be traced again."""
        told, self._warnings = self._warnings, []
        for warning in told:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)

    def shapes(self, env: tuple[int, ...]) -> Any:
        """Shapes and dtypes of the results."""
        if not env:
            return self.results
        if self._results is None:
            leaves, tree = jax.tree.flatten(self.results)
            source = ", ".join(text(tuple(leaf.shape)) for leaf in leaves)
            names = ", ".join(f"n{k}" for k in range(self.symbols))
            shapes = eval(f"lambda {names}: ({source},)", dict(ARITHMETIC))
            dtypes = [leaf.dtype for leaf in leaves]
            self._results = lambda *env: jax.tree.unflatten(
                tree, [jax.ShapeDtypeStruct(s, d) for s, d in zip(shapes(*env), dtypes, strict=True)]
            )
        return self._results(*env)
