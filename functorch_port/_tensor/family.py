"""One trace for all sizes: what is known of a pure function for arrays of any sizes.

A pure function is traced by JAX when it meets arguments of new dtypes and dimensions. When other sizes come, it is
traced once more with symbols in place of the sizes that have changed, and that trace serves all further ones
(https://docs.jax.dev/en/latest/export/shape_poly.html). A size stays a number as long as it is always the same. 0 and 1
are never symbols, as JAX broadcasts a size of 1, nor are those beyond `MOST`. Equal sizes are one symbol, and a trace
takes those for different that are different symbols, or a symbol and a number: it is used only where they are, since a
function may compare them.

Where a function asks which of two sizes is larger, it is traced for each order of the sizes; where it needs to know a
size, for each.

What is known of the library's own functions is kept on disk (`kept`), with what a backend has made of it.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import Any

import jax
import numpy as np

from .._array import tracing
from .._base import cache, collector, config, lowering
from .._base.bounded import Bounded
from .._base.sizes import ARITHMETIC, MOST, apart, symbols, text
from .._base.tuning import tuning
from . import kept
from .avals import NUMBERS
from .pullback import pull

__all__ = ["Family", "Traced"]

Mask = tuple[bool, ...]


class Family:
    """Pure functions that differ only in whole numbers among their static arguments, such as sizes.

    Args:
        of: from these numbers to the pure function.
        name: what says exactly which functions these are, in any process; None if nothing does.
    """

    __slots__ = ("_backward", "_known", "name", "of")

    def __init__(self, of: Callable[[Sequence[Any]], Callable[..., Any]], name: str | None = None) -> None:
        self.of, self.name = of, name
        self._backward: dict[tuple[Mask, Mask], Family] = {}
        self._known: Bounded[Any, _Known] = Bounded(tuning.cached_kinds)

    def backward(self, mask: Mask, holes: Mask) -> Family:
        """That of the pullbacks (see `Plan.backward`)."""
        found = self._backward.get((mask, holes))
        if found is None:
            found = self._backward[mask, holes] = Family(
                lambda numbers: partial(pull, self.of(numbers), mask, holes),
                self.name and f"{self.name} backward {mask} {holes}",
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
            known = self._known[key] = _Known(self._home(kind))
        given = [*sizes]
        for traced in known.traces:
            env = traced.sizes_of(given)
            if env is not None:
                if not traced.is_used:
                    traced.is_used = True
                    cache.count(True)
                return traced, env
        return known.trace(self.of, [_kind(v) for v in values], numbers, given)

    def closed(self, traced: Traced, values: Sequence[Any], numbers: Sequence[int]) -> Any:
        """The jaxpr of a trace that `find` has given for these values, made now if it was kept without one."""
        if traced.closed is None:
            given = [_kind(v) for v in values]
            traced.closed = Traced.of(self.of, given, numbers, traced.pattern, traced.order).closed
        return traced.closed

    def _home(self, kind: Sequence[Any]) -> str | None:
        """The key for what is kept of functions of such arguments."""
        if self.name is None:
            return None
        try:
            return kept.home(f"{self.name} {' '.join(map(_word, kind))}")
        except kept.Unwritten:
            return None


def _word(part: Any) -> str:
    """A part of the kind of arguments, which `Family.find` makes."""
    if part.__class__ is int:
        return str(part)
    return part.__name__ if part in NUMBERS else kept.text(part)


def _kind(value: Any) -> Any:
    """What a trace needs of an argument: shape and dtype, or the number."""
    return jax.ShapeDtypeStruct(value.shape, value.dtype) if hasattr(value, "shape") else value


#: what the numbers of sizes begin with in a key: no size is that large
_SIZE = 1 << 62


class _Known:
    """The traces for arguments of some dtypes and dimensions, of which the same are equal; those with symbols last.

    Sizes are listed here in the order in which they come first, without 0 and 1.

    Args:
        home: the key for what is kept of them on disk.

    Attributes:
        samples: sizes that have come.
        failed: patterns with which the function cannot be traced.
    """

    __slots__ = ("failed", "home", "samples", "traces")

    def __init__(self, home: str | None) -> None:
        self.home = home
        self.failed: list[tuple[list[int], Order | None]] = []
        self.traces: list[Traced] = []
        self._load()
        self.samples = [traced.pattern for traced in self.traces if not traced.symbols]

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
                new = apart(_traced, of, values, numbers, *tried, self)
                if new is None:
                    self.failed.append(tried)
                    continue
                self.traces.append(new)
                if (env := new.sizes_of(sizes)) is not None:
                    self._note(sizes)
                    return new, env
                break
        new = Traced.of(of, values, numbers, sizes, None, self)
        symbolic = [traced for traced in self.traces if traced.symbols]
        concrete = [traced for traced in self.traces if not traced.symbols]
        self.traces = [*concrete[-_SAMPLES:], new, *symbolic]
        self._note(sizes)
        return new, ()

    def _note(self, sizes: list[int]) -> None:
        if self.changes():
            cache.count(False)
        if len(self.samples) < _SAMPLES:
            self.samples.append(sizes)

    def changes(self) -> bool:
        """Whether what comes to be known now is kept; it will be saved then."""
        if self.home is None:
            return False
        if kept.holds(self.home):
            kept.later(self.save)
            return True
        self.home = None  # a setting has changed, and not all that is here has come about with the same
        return False

    def _load(self) -> None:
        """Have what earlier processes knew that is not known here."""
        found: Any = (self.home and kept.load(self.home)) or ([], [])
        failed, traces = found
        self.failed += [tried for tried in failed if tried not in self.failed]
        here = [(traced.pattern, traced.order) for traced in self.traces]
        self.traces += [
            new for record in traces if ((new := Traced(*record, known=self)).pattern, new.order) not in here
        ]

    def save(self) -> None:
        """Keep what is known for other processes."""
        if self.home is None:
            return
        self._load()  # another may have written meanwhile
        written = [record for traced in self.traces if (record := traced.written()) is not None]
        symbolic = [record for record in written if min([0, *record[0]]) < 0]
        concrete = [record for record in written if min([0, *record[0]]) == 0]
        most = tuning.kept_traces
        kept.save(self.home, (self.failed[-most:], [*concrete[-most:], *symbolic[-most:]]))


def _traced(*args: Any) -> Traced | None:
    """The trace; None if the function asks for the value of a size: with numbers an error is told in its own words."""
    try:
        return Traced.of(*args)
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
        closed: the jaxpr; None when a backend has made of it what it needs, or it was kept.
        backend: what a backend has made of it.
        kept: what a backend keeps of that, or a function that gives it; None if nothing.
        is_used: whether it has been.
        is_tried: whether what the backend has made has run, and gave such results.
    """

    __slots__ = (
        "_known", "_made", "_shapes", "_warnings", "_warns", "backend", "closed", "is_tried", "is_used", "kept",
        "order", "pattern", "symbols", "written_shapes",
    )  # fmt: skip

    def __init__(
        self, pattern: list[int], order: Order | None, shapes: Any, backend: Any, known: _Known | None
    ) -> None:
        self.pattern, self.order, self.written_shapes, self.kept = pattern, order, shapes, backend
        self.symbols = -min([0, *pattern])
        self._known = known
        self.closed: Any = None
        self.backend: Any = None
        self.is_used = self.is_tried = False
        self._made: Any = None
        self._shapes: Callable[..., Any] | None = None
        self._warnings: list[warnings.WarningMessage] = []
        self._warns = False

    @classmethod
    def of(
        cls,
        of: Callable[..., Any],
        values: Sequence[Any],
        numbers: Sequence[int],
        pattern: Sequence[int],
        order: Order | None = None,
        known: _Known | None = None,
    ) -> Traced:
        """Trace a function."""
        self = cls([*pattern], order, None, None, known)
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
            self.closed, self._made = jax.make_jaxpr(fn, return_shape=True)(*avals)
        self._warnings, self._warns, self.is_used = [] if self.symbols else told, bool(told), True
        return self

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
        if not env and self._made is not None:
            return self._made
        if self._shapes is None:
            if self._made is None:
                kind, dtypes, shapes = self.written_shapes
                make = _KINDS[kind]
            else:
                leaves, tree = jax.tree.flatten(self._made)
                make, dtypes, shapes = partial(jax.tree.unflatten, tree), *self._written_leaves(leaves)
            kinds = [*map(np.dtype, dtypes)]
            of: Any = FunctionType(shapes, dict(ARITHMETIC)) if self.symbols else lambda: shapes
            self._shapes = lambda *env: make([*map(jax.ShapeDtypeStruct, of(*env), kinds)])
        return self._shapes(*env)

    def _written_leaves(self, leaves: Sequence[Any]) -> tuple[list[str], Any]:
        """The dtypes of results, and their shapes, or the code that gives these for the symbols."""
        dtypes = [leaf.dtype.name for leaf in leaves]
        if not self.symbols:
            return dtypes, tuple([leaf.shape for leaf in leaves])
        source = ", ".join(text(tuple(leaf.shape)) for leaf in leaves)
        names = ", ".join(f"n{k}" for k in range(self.symbols))
        return dtypes, eval(f"lambda {names}: ({source},)", {}).__code__

    def keep(self, backend: Any) -> None:
        """Keep what a backend has made, if that is done now: something for `marshal`, or a function that gives it."""
        if self._known is not None and self._known.changes():
            self.kept = backend

    def written(self) -> tuple[Any, ...] | None:
        """The arguments of `Traced` that make one like this, for `marshal`; None if it is not to be kept."""
        if self.written_shapes is None:
            self.written_shapes = self._written_shapes()
        if self.written_shapes is None or self._warns:  # where a warning points to is in the user's code
            return None
        try:
            backend = self.kept() if callable(self.kept) else self.kept
        except kept.Unwritten:
            return None
        return self.pattern, self.order, self.written_shapes, backend

    def _written_shapes(self) -> tuple[Any, ...] | None:
        kind = next((name for name, cls in _CLASSES.items() if type(self._made) is cls), None)
        leaves = [self._made] if kind == "one" else self._made
        return (kind, *self._written_leaves(leaves)) if kind and all(map(_is_plain, leaves)) else None


def _is_plain(made: Any) -> bool:
    """Whether there is nothing to it but a shape and a dtype."""
    return type(made) is jax.ShapeDtypeStruct and made == jax.ShapeDtypeStruct(made.shape, made.dtype)


#: what a function may give that is written down
_CLASSES = {"one": jax.ShapeDtypeStruct, "tuple": tuple, "list": list}
_KINDS: dict[str, Callable[..., Any]] = {"one": lambda made: made[0], "tuple": tuple, "list": list}
