"""A program for sizes that it does not know, as one for arrays of known sizes whose ends count for nothing.

The program was traced with symbols for some sizes (`_array.sizes`). In the padded one an axis of unknown size has the
most that it may have, and the size is an input, a number. The rule of the whole file: **what an operation gives within
the true sizes depends only on what it was given within them**. The rest of an array, its padding, holds anything, NaN
among it. So an elementwise operation needs nothing, a sum sets its padding to zero before, a maximum to -inf, and so
on. An operation without a rule in `padding_rules` is refused.

An axis is one axis of the padded array, or several factors of it: to see (8, n, 64) as (8 * n, 64) nothing has to be
moved, and a mask is that of the factor n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array.sizes import Symbols
from .._base import lowering
from .._base.jaxprs import operations, pruned, walk
from .._base.sizes import evaluated, is_symbolic_dim, names_in
from .ends import Ends

if TYPE_CHECKING:
    from .stages import Stage

__all__ = [
    "Array", "Axis", "Factor", "Padding", "Unpaddable", "pad_stage", "padded", "rule_for", "size_of", "small_sizes",
]  # fmt: skip


class Unpaddable(NotImplementedError):
    """There is no padded form of an operation."""


class Factor(NamedTuple):
    """A part of an axis, which is an axis of the padded array.

    Attributes:
        size: a number, or an expression of symbols: then only so many of the first elements count.
        same: whether all elements along it are the same: then the padded array has one of them.
    """

    size: Any
    same: bool = False

    @property
    def is_open(self) -> bool:
        return is_symbolic_dim(self.size)


#: an axis is the product of its factors, the last of which runs fastest
Axis = tuple[Factor, ...]


class Array(NamedTuple):
    """A padded array, and what each axis of the array that it stands for is in it."""

    array: Any
    axes: tuple[Axis, ...]

    def spans(self) -> list[range]:
        """The axes of the padded array, for each axis."""
        found, start = [], 0
        for axis in self.axes:
            found.append(range(start, start + len(axis)))
            start += len(axis)
        return found

    @property
    def is_closed(self) -> bool:
        """Whether there is no padding."""
        return not any(f.is_open for axis in self.axes for f in axis)


Rule = Callable[["Padding", Any, list[Array]], Sequence[Array]]
_rules: dict[str, Rule] = {}


def rule_for(*names: str) -> Callable[[Rule], Rule]:
    """Make a function the rule of these primitives."""

    def enter(rule: Rule) -> Rule:
        _rules.update(dict.fromkeys(names, rule))
        return rule

    return enter


def size_of(axis: Axis) -> Any:
    """The size that an axis stands for."""
    return math.prod(f.size for f in axis)


def is_open(shape: Iterable[Any]) -> bool:
    return any(is_symbolic_dim(n) for n in shape)


class Padding:
    """What the rules need: how large axes are, where padding begins, and arrays in other layouts.

    Args:
        symbols: of the trace.
        values: their values in the program, by name.
    """

    def __init__(self, symbols: Symbols, values: dict[str, Any]) -> None:
        self.symbols, self.platform = symbols, jax.default_backend()
        self.values = {name: lax.convert_element_type(v, np.int32) for name, v in values.items()}
        self.bounds = lru_cache(None)(self._bounds)

    # -------------------------------------------------------------- sizes

    def _bounds(self, size: Any) -> tuple[int, int]:
        """The least and the most that a size may be."""
        if not is_symbolic_dim(size):
            return int(size), int(size)
        names = names_in(size)
        ranges = [np.arange(2, self.symbols.largest[name] + 1) for name in names]
        if math.prod(map(len, ranges)) > 10_000_000:
            raise Unpaddable(f"a dimension of size {size}")
        values = dict(zip(names, np.ix_(*ranges), strict=True))
        found = evaluated(size, values, {"max": np.maximum, "min": np.minimum})
        return int(found.min()), int(found.max())

    def most(self, size: Any) -> int:
        """The most that a size may be."""
        return self.bounds(size)[1]

    def value(self, size: Any) -> Any:
        """A size in the program, a number of type int32."""
        if not is_symbolic_dim(size):
            return np.int32(size)
        return evaluated(size, self.values, {"max": jnp.maximum, "min": jnp.minimum})

    def length(self, factor: Factor) -> int:
        """How long the axis of a factor is in the padded array."""
        return 1 if factor.same else self.most(factor.size)

    # ------------------------------------------------------------- layouts

    def given(self, array: Any, shape: Sequence[Any]) -> Array:
        """An array whose axes are of one factor each."""
        return Array(array, tuple((Factor(n),) for n in shape))

    def axis_as(self, x: Array, k: int, axis: Axis) -> Array:
        """An array with other factors of axis ``k``, whose product is the same."""
        old = x.axes[k]
        if old == axis:
            return x
        axes = (*x.axes[:k], axis, *x.axes[k + 1 :])
        span = x.spans()[k]
        shape = x.array.shape
        before, after = shape[: span.start], shape[span.stop :]
        if [f.size for f in old] == [f.size for f in axis] or all(f.same for f in old):
            ones = shape[span.start : span.stop] if len(old) == len(axis) else (1,) * len(axis)
            array = x.array.reshape(*before, *ones, *after)
            array = jnp.broadcast_to(array, (*before, *map(self.length, axis), *after))
            return Array(array, axes)
        if any(f.same for f in old):
            x = self.axis_as(x, k, tuple(Factor(f.size) for f in old))
        index = self._positions(x.axes[k], axis)
        flat = x.array.reshape(*before, -1, *after)
        taken = jnp.take(flat, index.reshape(-1), axis=len(before), mode="clip")
        return Array(taken.reshape(*before, *index.shape, *after), axes)

    def _positions(self, old: Axis, new: Axis) -> Any:
        """Where in an axis of the padded array, its factors taken together, an element of the new one is."""
        shape = tuple(map(self.length, new))
        place: Any = np.int32(0)
        for d, factor in enumerate(new):
            place = place * self.value(factor.size) + lax.broadcasted_iota(np.int32, shape, d)
        parts = []
        for factor in old[:0:-1]:
            size = self.value(factor.size)
            parts.append(place % size)
            place = place // size
        for factor, part in zip(old[1:], reversed(parts), strict=True):
            place = place * np.int32(self.length(factor)) + part
        return place

    def full(self, x: Array, k: int) -> Array:
        """An array with no factor of axis ``k`` along which all is the same."""
        return self.axis_as(x, k, tuple(Factor(f.size) for f in x.axes[k]))

    def packed(self, x: Array, k: int | None = None) -> Array:
        """An array whose axis ``k``, or all, is one axis of the padded array."""
        for i in range(len(x.axes)) if k is None else (k,):
            x = self.axis_as(x, i, (Factor(size_of(x.axes[i])),))
        return x

    def common(self, axes: Sequence[Axis]) -> Axis:
        """The factors that arrays with such an axis are best brought to."""
        axes = list(dict.fromkeys(axes))
        if len(axes) == 1:
            return axes[0]
        firm = [axis for axis in axes if not (len(axis) == 1 and axis[0].same)]
        if not firm:
            return axes[0]
        sizes = [[f.size for f in axis] for axis in firm]
        if any(s != sizes[0] for s in sizes):
            return (Factor(math.prod(sizes[0])),)
        return tuple(Factor(f[0].size, all(g.same for g in f)) for f in zip(*firm, strict=True))

    def aligned(self, arrays: Sequence[Array], but: Sequence[int] = ()) -> list[Array]:
        """Arrays of one shape, or with other axes ``but``, with the same layout. A size of 1 goes with any."""
        arrays = list(arrays)
        for k in range(len(arrays[0].axes)):
            if k not in but:
                ones = [x.axes[k] == (Factor(1),) for x in arrays]
                if all(ones):
                    continue
                axis = self.common([x.axes[k] for x, is_one in zip(arrays, ones, strict=True) if not is_one])
                stretched = tuple(Factor(f.size, f.same or f.is_open) for f in axis)
                for i, x in enumerate(arrays):
                    if ones[i]:
                        x = Array(x.array, (*x.axes[:k], (Factor(size_of(axis), True),), *x.axes[k + 1 :]))
                    arrays[i] = self.axis_as(x, k, stretched if ones[i] else axis)
        return arrays

    # --------------------------------------------------------------- masks

    def mask(self, x: Array, axes: Iterable[int]) -> Any:
        """Where an array counts, for padding along these axes; None if there is none along them."""
        found, spans, ndim = None, x.spans(), x.array.ndim
        for k in axes:
            for factor, d in zip(x.axes[k], spans[k], strict=True):
                if factor.is_open and not factor.same:
                    shape = tuple(self.most(factor.size) if i == d else 1 for i in range(ndim))
                    here = lax.broadcasted_iota(np.int32, shape, d) < self.value(factor.size)
                    found = here if found is None else found & here
        return found

    def filled(self, x: Array, axes: Iterable[int], value: Any) -> Array:
        """An array with a number in the padding along these axes."""
        mask = self.mask(x, axes)
        if mask is None:
            return x
        return Array(jnp.where(mask, x.array, jnp.asarray(value, x.array.dtype)), x.axes)

    def resized(self, x: Array, k: int, size: Any, value: Any = 0) -> Array:
        """An array of which axis ``k`` is one axis, with another size: cut off, or with more of a number."""
        d, length = x.spans()[k].start, self.most(size)
        array, now = x.array, x.array.shape[x.spans()[k].start]
        if length < now:
            array = lax.slice_in_dim(array, 0, length, axis=d)
        elif length > now:
            more = [(0, length - now if i == d else 0, 0) for i in range(array.ndim)]
            array = lax.pad(array, jnp.asarray(value, array.dtype), more)
        return Array(array, (*x.axes[:k], (Factor(size),), *x.axes[k + 1 :]))

    # --------------------------------------------------------- the program

    def run(self, jaxpr: Any, values: Sequence[Any]) -> list[Any]:
        """The outputs of a jaxpr; an array with padding is an `Array`."""
        return walk(jaxpr, values, self.rule, lambda value, aval: value, self.platform)

    def rule(self, eqn: Any, ins: list[Any]) -> list[Any]:
        outs = [v.aval for v in eqn.outvars]
        params = eqn.params
        known = not any(isinstance(x, Array) for x in ins) and not any(map(_has_open, outs))
        if known and not _asks(params.values()) and not _inside(eqn):
            return self.bound(eqn, ins, **params)
        rule = _rules.get(eqn.primitive.name)
        if rule is None:
            formula = lowering.formula_of(eqn.primitive)
            if formula is not None:
                avals = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
                closed = jax.make_jaxpr(partial(formula, **params))(*avals)
                return self.run(closed.jaxpr, [*closed.consts, *ins])
            raise Unpaddable(f"the operation {eqn.primitive.name}")
        arrays = [
            x if isinstance(x, Array) else self.given(x, v.aval.shape)
            for x, v in zip(ins, eqn.invars, strict=True)
        ]
        made = rule(self, eqn, arrays)
        for x, aval in zip(made, outs, strict=True):
            lengths = tuple(self.length(f) for axis in x.axes for f in axis)
            sizes = tuple(map(size_of, x.axes))
            if sizes != aval.shape or x.array.shape != lengths or x.array.dtype != aval.dtype:
                raise AssertionError(f"{eqn.primitive.name} gave {x.array.aval} {x.axes} for {aval}")
        return [x.array if x.is_closed else x for x in made]

    @staticmethod
    def bound(eqn: Any, arrays: Sequence[Any], **params: Any) -> list[Any]:
        """The operation itself, of padded arrays."""
        out = eqn.primitive.bind(*arrays, **params)
        return list(out) if eqn.primitive.multiple_results else [out]


def _has_open(aval: Any) -> bool:
    return is_open(getattr(aval, "shape", ()))


def _asks(params: Iterable[Any]) -> bool:
    """Whether an operation has an unknown size among its parameters."""
    return any(_asks(x) if isinstance(x, tuple | list) else is_symbolic_dim(x) for x in params)


def _inside(eqn: Any) -> bool:
    """Whether a program inside of an operation has unknown sizes."""
    return any(_has_open(v.aval) for inner in operations(eqn.params.values()) for v in inner.outvars)


def small_sizes(closed: Any, symbols: Symbols) -> list[Any]:
    """The sizes in a program that may be 0 or 1, or more, where PyTorch may do something else."""
    sizes = {n for eqn in operations([closed]) for v in eqn.outvars for n in getattr(v.aval, "shape", ())}
    padding = Padding(symbols, {})
    return [n for n in sizes if is_symbolic_dim(n) and padding.bounds(n)[0] < 2 <= padding.bounds(n)[1]]


def padded(
    closed: Any, symbols: Symbols, positions: dict[str, int], as_is: Iterable[int] = ()
) -> tuple[Any, dict[int, tuple[Axis, ...]]]:
    """The program for arrays with padding, and the layouts of those outputs that have some.

    Args:
        positions: of the inputs that are values of symbols, by name.
        as_is: outputs that may have any layout; in others an axis is one axis.
    """
    jaxpr, _ = pruned(closed.jaxpr)
    consts, layouts = list(closed.consts), {}
    as_is = set(as_is)

    def run(consts: list[Any], inputs: list[Any]) -> list[Any]:
        padding = Padding(symbols, {name: inputs[k] for name, k in positions.items()})
        values = [
            padding.given(x, v.aval.shape) if _has_open(v.aval) else x
            for x, v in zip(inputs, jaxpr.invars, strict=True)
        ]
        outs = []
        for k, out in enumerate(padding.run(jaxpr, [*consts, *values])):
            if isinstance(out, Array):
                if k not in as_is:
                    out = padding.packed(out)
                layouts[k] = out.axes
                out = out.array
            outs.append(out)
        return outs

    limits = Padding(symbols, {})
    avals = [
        jax.ShapeDtypeStruct(tuple(map(limits.most, v.aval.shape)), v.aval.dtype, weak_type=v.aval.weak_type)
        for v in jaxpr.invars
    ]
    made = jax.make_jaxpr(run)([*map(jax.typeof, consts)], avals)
    count, new = len(consts), made.jaxpr
    new = new.replace(constvars=[*new.invars[:count], *new.constvars], invars=new.invars[count:])
    return closed.replace(jaxpr=new, consts=[*consts, *made.consts]), layouts


def pad_stage(
    stage: Stage, avals: Sequence[Any], layouts: dict[int, tuple[Axis, ...]], symbols: Symbols
) -> None:
    """Have a part of the walk back take arrays with padding.

    Args:
        avals: of the program's outputs.
        layouts: of those that have padding; what the walk takes is as it is, and taken from here.
    """
    jaxpr, names = stage.jaxpr, stage.sizes
    count = len(stage.residuals) - len(names)
    axes = [layouts.pop(i, None) for i in stage.residuals]
    found: dict[int, tuple[Axis, ...]] = {}

    def run(residuals: list[Any], grads: list[Any]) -> list[Any]:
        padding = Padding(symbols, dict(zip(names, residuals[count:], strict=True)))
        values = [r if a is None else Array(r, a) for r, a in zip(residuals[:count], axes, strict=False)]
        for grad, var in zip(grads, jaxpr.invars, strict=True):
            values.append(padding.given(grad, var.aval.shape) if _has_open(var.aval) else grad)
        outs = padding.run(jaxpr, values)
        for k, out in enumerate(outs):
            if isinstance(out, Array):
                outs[k], found[k] = padding.packed(out)
        return outs

    most = Padding(symbols, {}).most
    stage.avals = [
        None if a is None else jax.ShapeDtypeStruct(tuple(map(most, a.shape)), a.dtype) for a in stage.avals
    ]
    made = jax.make_jaxpr(run)([avals[i] for i in stage.residuals], [a for a in stage.avals if a is not None])
    taken = len(stage.residuals)
    constvars = [*made.jaxpr.invars[:taken], *made.jaxpr.constvars]
    stage.jaxpr = made.jaxpr.replace(constvars=constvars, invars=made.jaxpr.invars[taken:])
    stage.consts, stage.ends = list(made.consts), Ends(found)
