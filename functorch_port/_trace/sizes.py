"""Which sizes of a compiled function's arguments change from call to call, and the programs that serve several.

A size is *open* if programs take it as a number. It is opened by `mark_dynamic`, or by a change if the function was
compiled with ``dynamic=True``. Sizes that were equal so far are one number, until they differ. A program is for sizes
up to its bucket. Sizes 0 and 1 have programs of their own, as in PyTorch.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax

from .._array.sizes import Symbols, size_key
from .._array.storage import Storage
from .._tensor.tensor import Tensor
from .._tensor.tree import unflatten
from .tree import by_identity

__all__ = ["BEFORE", "Changing", "Place", "Sizes", "argument_names"]

#: the number of an argument, and of a dimension
Place = tuple[int, int]


# ------------------------------------------------------------------ of a program


@dataclass(frozen=True)
class Size:
    """A size that a program takes as a number.

    Attributes:
        name: of the symbol in the trace.
        largest: the most that it may be: the program computes with that.
        places: the dimensions of arguments that have it.
    """

    name: str
    largest: int
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Sizes:
    """The sizes that a program takes as numbers."""

    all: tuple[Size, ...]

    def symbols(self, leaves: Sequence[Any]) -> Symbols:
        """New symbols for a trace."""
        now = {s.name: leaves[s.places[0][0]].shape[s.places[0][1]] for s in self.all}
        return Symbols({s.name: s.largest for s in self.all}, now)

    def avals(
        self, avals: list[Any], cells: Sequence[Storage], leaves: Sequence[Any], symbols: Symbols
    ) -> list[Any]:
        """The avals of Storages, with symbols in those of arguments."""
        names: dict[Storage, dict[int, str]] = {}
        for size in self.all:
            for i, d in size.places:
                names.setdefault(leaves[i]._storage, {})[d] = size.name
        return [
            jax.ShapeDtypeStruct(symbols.shape(a.shape, names[c]), a.dtype) if c in names else a
            for a, c in zip(avals, cells, strict=True)
        ]

    def numbers(self) -> list[tuple[Any, int, int]]:
        """For `Numbers`: what each is called there, an argument and a dimension that has it."""
        return [(size_key(s.name), *s.places[0]) for s in self.all]

    def values(self, leaves: Sequence[Any]) -> dict[Any, Any]:
        """By the names of `numbers` what the sizes are in a call."""
        return {name: leaves[i].shape[d] for name, i, d in self.numbers()}

    def lengths(self, args: Sequence[tuple[int, int]], inputs: Sequence[Any]) -> list[tuple[int, ...] | None]:
        """For `Inputs`: the shapes to which arguments are padded, given their numbers, and positions among inputs."""
        mine = {i for s in self.all for i, _ in s.places}
        return [tuple(inputs[position].aval.shape) if i in mine else None for i, position in args]

    def fewer(self) -> list[Sizes]:
        """What to try if a function cannot have these sizes as numbers."""
        if len(self.all) < 2:
            return []
        return [Sizes(tuple(s for s in self.all if s is not one)) for one in self.all]


# ------------------------------------------------------------------ of a function


@dataclass
class _Kind:
    """Calls that differ in sizes only.

    Attributes:
        shapes: of the first one's arguments; None for those that are no plain tensors.
        groups: the open sizes, those together that were equal so far.
        closed: sizes that cannot be open, and why.
        limits: what `mark_dynamic` says that a size is at most.
        buckets: by group those that there are programs for.
        borrowed: by group and bucket how many calls had the program of a larger one.
    """

    shapes: list[tuple[int, ...] | None]
    groups: list[tuple[Place, ...]] = field(default_factory=list)
    closed: dict[Place, str] = field(default_factory=dict)
    limits: dict[Place, int] = field(default_factory=dict)
    buckets: dict[tuple[Place, ...], set[int]] = field(default_factory=dict)
    borrowed: Counter[Any] = field(default_factory=Counter)

    def is_open(self, place: Place) -> bool:
        return any(place in group for group in self.groups)

    def open(self, places: Sequence[Place], shapes: Sequence[Any]) -> None:
        """Take sizes as numbers from now on."""
        together: dict[Any, list[Place]] = {}
        for i, d in places:
            if (i, d) not in self.closed and not self.is_open((i, d)):
                together.setdefault((self.shapes[i][d], shapes[i][d]), []).append((i, d))  # type: ignore[index]
        self.groups += map(tuple, together.values())

    def split(self, shapes: Sequence[Any]) -> None:
        """Tell sizes apart that are not equal."""
        found: dict[Any, list[Place]] = {}
        for k, group in enumerate(self.groups):
            for i, d in group:
                found.setdefault((k, shapes[i][d]), []).append((i, d))
        self.groups = list(map(tuple, found.values()))


#: the smallest bucket
_LEAST = 8
#: calls that a larger bucket's program serves before one of their own may be made for them
_FEW = 8
#: that pays if there is one such call for so many of the larger one
_SHARE = 16

#: what was noted of the circumstances of a call, then of each of its leaves, then which share memory
Key = tuple[Any, ...]
#: so many parts of a key come before those of the leaves
BEFORE = 2


class Changing:
    """The sizes of a function's arguments.

    Args:
        dynamic: whether a size that changes is opened; None: where it is marked; False: not even there.
        buckets: sizes to pad to; larger ones, or all without it, are padded to powers of two.
    """

    def __init__(self, dynamic: bool | None, buckets: Sequence[int] | None) -> None:
        self.dynamic, self.buckets = dynamic, sorted(buckets or ())
        self.kinds: dict[Any, _Kind] = {}
        #: how often a size was another where a program was made
        self.changes: Counter[Place] = Counter()
        self._traced: dict[Any, list[Any]] = {}

    def marked(self, leaves: Sequence[Any]) -> bool:
        """Whether a size of these arguments is open from the first call on."""
        return self.dynamic is not False and any(map(_marks, leaves))

    def find(self, key: Key, leaves: Sequence[Any]) -> tuple[Any, Sizes | None, Loan | None]:
        """For a call: the key of its programs, the sizes that these take as numbers, and whether that is on loan.

        Args:
            key: of programs for these sizes alone.
        """
        if self.dynamic is False or not (self.dynamic or self.kinds or any(map(_marks, leaves))):
            return key, None, None
        base, shapes = _base(key, leaves)
        kind = self.kinds.setdefault(base, _Kind(shapes))
        self._open(kind, shapes, leaves)
        sizes: list[Size] = []
        borrows: list[tuple[tuple[Place, ...], int]] = []
        for group in kind.groups:
            i, d = group[0]
            n = shapes[i][d]  # type: ignore[index]
            if n > 1:
                own, bucket = self._bucket(kind, group, n)
                if bucket > own:
                    borrows.append((group, own))
                sizes.append(Size(f"n{len(sizes)}", bucket, group))
        if not sizes:
            return key, None, None
        opened = {place for size in sizes for place in size.places}
        static = [
            shape and tuple(None if (i, d) in opened else n for d, n in enumerate(shape))
            for i, shape in enumerate(shapes)
        ]
        found = Sizes(tuple(sizes))
        return (base, tuple(static), found), found, Loan(kind, borrows) if borrows else None

    def _open(self, kind: _Kind, shapes: list[Any], leaves: Sequence[Any]) -> None:
        marked: list[Place] = []
        for i, leaf in enumerate(leaves):
            for d, most in _marks(leaf).items():
                if shapes[i] is not None and (i, d) not in kind.limits:
                    kind.limits[i, d] = most
                    marked.append((i, d))
        if marked:  # the same dimension of other arguments is taken for the same size, until it differs
            sizes = {(d, shapes[i][d]) for i, d in marked}
            marked += [p for p in _places(shapes) if p not in marked and (p[1], shapes[p[0]][p[1]]) in sizes]
        changed = [(i, d) for i, d in _places(shapes) if shapes[i][d] != kind.shapes[i][d]]  # type: ignore[index]
        kind.open([*marked, *(changed if self.dynamic else ())], shapes)
        kind.split(shapes)

    def _bucket(self, kind: _Kind, group: tuple[Place, ...], n: int) -> tuple[int, int]:
        """The bucket that would be a size's own, and the one to take: that of a program that is there, if any."""
        made = kind.buckets.setdefault(group, set())
        limits = [most for place in group if (most := kind.limits.get(place, 0)) >= n]
        larger = [b for b in self.buckets if b >= n]
        if limits or larger:
            own = min(limits or larger)
        elif not made and any(place in kind.limits for place in group):
            own = n  # what comes first comes often, as a rule: the batch size
        else:
            own = max(_LEAST, 1 << (n - 1).bit_length())
        there = min((b for b in made if b >= n), default=None)
        if there is None:
            made.add(own)
            return own, own
        return max(own, there) if there <= own else own, there

    # -------------------------------------------------------------- what was found out

    def close(self, key: Key, leaves: Sequence[Any], sizes: Iterable[Size], why: str) -> None:
        """Note that a function cannot have sizes as numbers."""
        base, shapes = _base(key, leaves)
        kind = self.kinds.setdefault(base, _Kind(shapes))
        for size in sizes:
            kind.closed.update(dict.fromkeys(size.places, why))
        kind.groups = [g for g in kind.groups if not any(place in kind.closed for place in g)]

    def changed(self, key: Key, leaves: Sequence[Any]) -> list[tuple[Place, int, int]]:
        """For a call that needs a new program: sizes that differ from those of another one, with both sizes."""
        base, now = _base(key, leaves)
        before = self._traced.setdefault(base, [])
        places = _places(now)
        differing = [
            [((i, d), old[i][d], now[i][d]) for i, d in places if old[i][d] != now[i][d]] for old in before
        ]
        before[:] = [*before[-63:], now]
        found: list[tuple[Place, int, int]] = min(reversed(differing), key=len, default=[])
        self.changes.update(place for place, _, _ in found)
        return found

    def describe(self, fn: Callable[..., Any]) -> list[str]:
        """What is open, and what cannot be, for `explain`."""
        lines = []
        for base, kind in self.kinds.items():
            names = argument_names(fn, base[0])
            for group in kind.groups:
                sizes = ", ".join(f"{names[i]}.shape[{d}]" for i, d in group)
                buckets = ", ".join(map(str, sorted(kind.buckets.get(group, ()))))
                lines.append(f"  a number of the program: {sizes}, up to {buckets or 'no size yet'}")
            for (i, d), why in kind.closed.items():
                lines.append(f"  a program for each: {names[i]}.shape[{d}], because {why}")
        return lines


class Loan(NamedTuple):
    """A call that programs for larger sizes serve.

    Attributes:
        borrows: groups of sizes with the buckets that would be their own.
    """

    kind: _Kind
    borrows: list[tuple[tuple[Place, ...], int]]

    def may_go_on(self, calls: int) -> bool:
        """Note such a call of programs that had so many. False if it comes too often: it gets programs of its own."""
        for borrow in self.borrows:
            self.kind.borrowed[borrow] += 1
            count = self.kind.borrowed[borrow]
            if count > _FEW and count * _SHARE > calls:
                group, own = borrow
                self.kind.buckets[group].add(own)
                return False
        return True


def _marks(leaf: Any) -> dict[int, int]:
    """The dimensions that were marked, with the most that each may be, or 0."""
    return getattr(leaf, "_dynamic_sizes", {}) if isinstance(leaf, Tensor) else {}


def _places(shapes: Sequence[tuple[int, ...] | None]) -> list[Place]:
    return [(i, d) for i, shape in enumerate(shapes) for d in range(len(shape or ()))]


def _base(key: Key, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], list[tuple[int, ...] | None]]:
    """The key without sizes, and the sizes."""
    first = BEFORE
    shapes: list[tuple[int, ...] | None] = []
    rest: list[Any] = []
    shared = len(key) > first + len(leaves)  # arguments that share memory: their sizes stay
    for leaf, part in zip(leaves, key[first:], strict=False):
        plain = isinstance(leaf, Tensor) and not by_identity(leaf) and not leaf._sparse and not shared
        if plain and not (leaf._view is not None and not leaf.is_contiguous()):
            shapes.append(tuple(part[0]))
            rest.append((len(part[0]), *part[1:]))
        else:
            shapes.append(None)
            rest.append(part)
    return (*key[:first], *rest, *key[first + len(leaves) :]), shapes


def argument_names(fn: Callable[..., Any], tree: Any) -> list[str]:
    """What the leaves of the arguments are called."""
    names = [f"argument {i}" for i in range(tree.num_leaves)]
    args, kwargs = unflatten(tree, list(range(tree.num_leaves)))
    fn = getattr(getattr(fn, "__self__", fn), "forward", fn)
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    called: list[str] = []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            called += [f"{p.name}[{i}]" for i in range(len(args) - len(called))]
        elif p.kind is not p.VAR_KEYWORD:
            called.append(p.name)

    def walk(name: str, item: Any) -> None:
        if type(item) is int:
            names[item] = name
        elif isinstance(item, list | tuple):
            for i, part in enumerate(item):
                walk(f"{name}[{i}]", part)
        elif isinstance(item, dict):
            for key, part in item.items():
                walk(f"{name}[{key!r}]", part)

    for i, item in enumerate(args):
        walk(called[i] if i < len(called) else f"argument {i}", item)
    for key, item in kwargs.items():
        walk(key, item)
    return names
