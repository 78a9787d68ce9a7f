"""The sizes that a program is exported for: from ``dynamic_shapes`` to symbols of `jax.export`."""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from .._array.sizes import Symbols, size_key
from .._base.sizes import ARITHMETIC, MOST
from .._dynamo.exc import UserError
from .._tensor.tensor import Tensor
from .._trace.sizes import Place, Sizes
from ._dims import Dim, DimHint, is_dim
from ._signature import Input, Range, Size

__all__ = ["Declared", "declared"]

_EXPECTED = "an int, a Dim, Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC"


@dataclass(frozen=True)
class Declared(Sizes):
    """The sizes of inputs that change.

    Attributes:
        sizes: by place.
        ranges: by name of a size that changes.
        open_to_two: the names whose least was not said.
        auto: the names of those that may be left out.
        now: by name the value in the example.
    """

    all: tuple[Any, ...] = ()
    sizes: Mapping[Place, Size] = field(default_factory=dict)
    ranges: Mapping[str, Range] = field(default_factory=dict)
    open_to_two: frozenset[str] = frozenset()
    auto: frozenset[str] = frozenset()
    now: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def _symbols(self) -> Symbols:
        largest = {n: MOST if r.upper is None else r.upper for n, r in self.ranges.items()}
        least = {n: r.lower for n, r in self.ranges.items()}
        return Symbols(largest, dict(self.now), least, guarded=False)

    def symbols(self, leaves: Sequence[Any]) -> Symbols:
        return self._symbols

    def shape(self, i: int, shape: Sequence[int]) -> tuple[Any, ...]:
        """The shape of an input, with symbols."""
        return tuple(self._dim((i, d), n) for d, n in enumerate(shape))

    def _dim(self, place: Place, n: int) -> Any:
        if place not in self.sizes:
            return n
        factor, name, offset = self.sizes[place]  # type: ignore[misc]
        return self._symbols.dims[name] * factor + offset

    def avals(
        self, avals: list[Any], cells: Sequence[Any], leaves: Sequence[Any], symbols: Symbols
    ) -> list[Any]:
        places = {leaf._storage: i for i, leaf in enumerate(leaves)}
        return [
            type(a)(self.shape(places[c], a.shape), a.dtype) if c in places else a
            for a, c in zip(avals, cells, strict=True)
        ]

    def numbers(self) -> list[tuple[Any, int, int]]:
        return []

    def values(self, leaves: Sequence[Any]) -> dict[Any, Any]:
        return {size_key(name): dim for name, dim in self._symbols.dims.items()}

    def lengths(self, args: Sequence[tuple[int, int]], inputs: Sequence[Any]) -> list[tuple[int, ...] | None]:
        return []

    # -------------------------------------------------------------- others to try

    def from_two(self) -> Declared | None:
        """The same without sizes of 1, where that was not said; None if there is nothing to change."""
        free = {n for n in self.open_to_two if self.ranges[n].lower == 1 and self.now[n] > 1}
        if not free:
            return None
        ranges = {n: Range(2, r.upper) if n in free else r for n, r in self.ranges.items()}
        return replace(self, ranges=ranges)

    def joined(self) -> Declared | None:
        """The same with those that may be left out being one if they are equal in the example."""
        first: dict[int, str] = {}
        same = {n: first.setdefault(self.now[n], n) for n in self.ranges if n in self.auto}
        if all(a == b for a, b in same.items()):
            return None
        sizes = {p: (f, same.get(n, n), o) for p, (f, n, o) in self.sizes.items()}  # type: ignore[misc]
        return self._of(sizes)

    def without(self, names: Sequence[str]) -> Declared:
        """The same with some sizes as they are in the example."""
        return self._of({p: s for p, s in self.sizes.items() if s[1] not in names})  # type: ignore[index]

    def _of(self, sizes: Mapping[Place, Size]) -> Declared:
        left = {s[1] for s in sizes.values()}  # type: ignore[index]
        keep = lambda table: {n: v for n, v in table.items() if n in left}
        return replace(
            self,
            sizes=sizes,
            ranges=keep(self.ranges),
            now=keep(self.now),
            auto=self.auto & left,
            open_to_two=self.open_to_two & left,
        )

    def shapes(self, inputs: Sequence[Input]) -> list[Input]:
        """The inputs with these sizes."""
        tensors = iter(range(len(inputs)))
        return [
            one if one.dtype is None else replace(one, shape=self._sizes(next(tensors), one.shape))
            for one in inputs
        ]

    def _sizes(self, i: int, shape: Sequence[Size]) -> tuple[Size, ...]:
        return tuple(self.sizes.get((i, d), n) for d, n in enumerate(shape))


def declared(parameters: Mapping[str, Any], dynamic_shapes: Any, order: Mapping[int, int]) -> Declared:
    """The sizes that ``dynamic_shapes`` declares.

    Args:
        parameters: the arguments by name, as the module's ``forward`` has them.
        dynamic_shapes: a dict by these names, or a list or tuple with an item for each.
        order: by `id` of a leaf its number among the tensors that the program takes.

    Raises:
        UserError: it does not fit the arguments.
    """
    if dynamic_shapes is None:
        return Declared()
    names = list(parameters)
    if isinstance(dynamic_shapes, dict):
        if set(dynamic_shapes) != set(names):
            raise UserError(
                "When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names "
                f"{names} of `inputs`, but here they are {list(dynamic_shapes)}. Alternatively, you could also ignore "
                "arg names entirely and specify `dynamic_shapes` as a list/tuple matching `inputs`."
            )
        specs = [(f"[{name!r}]", parameters[name], dynamic_shapes[name]) for name in names]
    else:
        if not isinstance(dynamic_shapes, list | tuple) or len(dynamic_shapes) != len(names):
            count = f"{len(dynamic_shapes)} elements" if hasattr(dynamic_shapes, "__len__") else "no elements"
            raise UserError(
                "Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs` has "
                f"{len(names)} elements, but `dynamic_shapes` has {count}"
            )
        specs = [
            (f"[{k}]", value, spec)
            for k, (value, spec) in enumerate(zip(parameters.values(), dynamic_shapes, strict=True))
        ]
    table = _Table()
    for path, value, spec in specs:
        for where, tensor, dims in _pairs(value, spec, path):
            for d, dim in _dims(where, tensor, dims):
                table.add((order[id(tensor)], d), int(tensor.shape[d]), dim, f"{where}.shape[{d}]")
    return table.declared()


def _pairs(value: Any, spec: Any, path: str) -> Iterator[tuple[str, Tensor, Any]]:
    """Each tensor with what is said of its dimensions."""
    if spec is None:
        return
    if isinstance(value, Tensor):
        yield path, value, spec
        return
    if isinstance(value, dict) and isinstance(spec, dict) and set(value) == set(spec):
        children = [(f"[{k!r}]", value[k], spec[k]) for k in value]
    elif isinstance(value, list | tuple) and isinstance(spec, list | tuple) and len(value) == len(spec):
        children = [(f"[{k}]", v, s) for k, (v, s) in enumerate(zip(value, spec, strict=True))]
    else:
        raise UserError(
            f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs{path}` is a "
            f"{type(value)}, but `dynamic_shapes{path}` is {spec!r}"
        )
    for key, v, s in children:
        yield from _pairs(v, s, path + key)


def _dims(path: str, tensor: Tensor, spec: Any) -> Iterator[tuple[int, Any]]:
    if isinstance(spec, dict):
        items = spec.items()
    elif isinstance(spec, list | tuple):
        if len(spec) != tensor.dim():
            raise UserError(
                f"Expected dynamic shape spec {spec} specified at `dynamic_shapes{path}` to have the same length as "
                f"the actual tensor shape {tensor.shape} (expected {tensor.dim()}, but got {len(spec)} instead)"
            )
        items = dict(enumerate(spec)).items()
    else:
        raise UserError(
            f"Unexpected input tensor shape {spec} specified at `dynamic_shapes{path}` (expected either a list/tuple "
            f"of dimensions, or a dict mapping indices to dimensions, where each dimension is {_EXPECTED})"
        )
    for d, dim in items:
        if type(d) is not int or not -tensor.dim() <= d < tensor.dim():
            raise UserError(
                f"Unexpected dimension {d!r} specified at `dynamic_shapes{path}`: the tensor has shape {tensor.shape}"
            )
        if not is_dim(dim):
            raise UserError(
                f"Unexpected dimension mapped to index {d} in input tensor shape {spec} specified at "
                f"`dynamic_shapes{path}` (expected None, {_EXPECTED},  but got {dim!r} instead)"
            )
        yield d % tensor.dim(), dim


class _Table:
    """What is declared, one dimension after the other."""

    def __init__(self) -> None:
        self.sizes: dict[Place, Size] = {}
        self.roots: dict[str, Dim] = {}
        self.ranges: dict[str, Range] = {}
        self.free: set[str] = set()
        self.auto: set[str] = set()
        self.now: dict[str, tuple[int, str]] = {}

    def add(self, place: Place, n: int, dim: Any, where: str) -> None:
        if dim is None or (isinstance(dim, DimHint) and dim.kind == "STATIC"):
            return
        if type(dim) is int:
            if n != dim:
                raise UserError(
                    f"Static shape constraint of {dim} does not match input size of {n}, for {where}"
                )
            return
        if isinstance(dim, DimHint):
            name = f"s{len([k for k in self.ranges if k not in self.roots])}"
            while name in self.roots:
                name += "_"
            if dim.kind == "AUTO":
                self.auto.add(name)
            self._enter(name, dim, place, (1, name, 0), n, where)
            return
        root = dim.root
        name = root.__name__
        if name in ARITHMETIC or keyword.iskeyword(name):
            raise UserError(f"Dim({name!r}): JAX's sizes cannot have this name; choose another")
        known = self.roots.setdefault(name, root)
        if (known.min, known.max) != (root.min, root.max):
            raise UserError(
                f"Found different definitions {known!r} and {root!r} for the same symbolic dimension {name}!"
            )
        value, rest = divmod(n - dim.offset, dim.factor)
        if rest:
            raise UserError(f"{where} = {n} is not {dim.__name__} for any {name}")
        self._enter(name, root, place, (dim.factor, name, dim.offset), value, where)

    def _enter(self, name: str, dim: Any, place: Place, size: Size, value: int, where: str) -> None:
        before, there = self.now.setdefault(name, (value, where))
        if before != value:
            raise UserError(f"{where} = {value} is not equal to {there} = {before}, as both are {name}")
        self.ranges[name] = Range(max(dim.min or 1, 1), dim.max)
        if dim.min is None:
            self.free.add(name)
        lower, upper = self.ranges[name]
        if value < lower or (upper is not None and value > upper):
            raise UserError(
                f"{value} not in range [{lower}, {'int_oo' if upper is None else upper}], for {where}"
            )
        self.sizes[place] = size

    def declared(self) -> Declared:
        return Declared(
            (),
            self.sizes,
            self.ranges,
            frozenset(self.free),
            frozenset(self.auto),
            {n: v for n, (v, _) in self.now.items()},
        )
