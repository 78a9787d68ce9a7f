"""What each operation of JAX is on padded arrays (see `padded`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import random as prng

from .._base.jaxprs import scan_parts
from .._base.sizes import is_symbolic_dim
from .padded import Array, Axis, Factor, Padding, Unpaddable, rule_for, size_of

__all__: list[str] = []

# ------------------------------------------------------------------ elementwise

_ELEMENTWISE = (
    "abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh",
    "bessel_i0e", "bessel_i1e", "cbrt", "ceil", "clamp", "clz", "complex", "conj", "convert_element_type",
    "copy", "cos", "cosh", "digamma", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1",
    "floor", "ge", "gt", "igamma", "igamma_grad_a", "igammac", "imag", "integer_pow", "is_finite", "le",
    "lgamma", "log", "log1p", "log2", "logistic", "lt", "max", "min", "mul", "ne", "neg", "nextafter", "not",
    "one_minus_square", "optimization_barrier", "or", "polygamma", "polynomial", "population_count", "pow", "real",
    "reduce_precision", "regularized_incomplete_beta", "rem", "round", "rsqrt", "select_n", "shift_left",
    "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh", "sqrt", "square",
    "stop_gradient", "sub", "tan", "tanh", "threefry2x32", "xor", "zeta",
)  # fmt: skip


@rule_for(*_ELEMENTWISE)
def _elementwise(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    whole = [k for k, x in enumerate(ins) if x.axes]  # numbers stand beside arrays
    if eqn.primitive.name == "optimization_barrier":
        made = p.bound(eqn, [x.array for x in ins], **eqn.params)
        return [Array(a, x.axes) for a, x in zip(made, ins, strict=True)]
    arrays: list[Any] = [x.array for x in ins]
    aligned = p.aligned([ins[k] for k in whole])
    shape = np.broadcast_shapes(*(x.array.shape for x in aligned))
    for k, x in zip(whole, aligned, strict=True):
        arrays[k] = jnp.broadcast_to(x.array, shape)
    axes = _shared_axes(aligned)
    return [Array(a, axes) for a in p.bound(eqn, arrays, **eqn.params)]


def _shared_axes(aligned: Sequence[Array]) -> tuple[Axis, ...]:
    """The axes of what is computed of arrays that are aligned."""
    return tuple(
        tuple(Factor(f[0].size, all(g.same for g in f)) for f in zip(*axis, strict=True))
        for axis in zip(*(x.axes for x in aligned), strict=True)
    )


@rule_for("bitcast_convert_type")
def _bitcast(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    if len(eqn.outvars[0].aval.shape) != len(ins[0].axes):
        raise Unpaddable("a view with elements of another width")
    return _elementwise(p, eqn, ins)


@rule_for("dim_as_value")
def _dim_as_value(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    return [Array(lax.convert_element_type(p.value(eqn.params["dim"]), eqn.outvars[0].aval.dtype), ())]


# ------------------------------------------------------------------ shapes


@rule_for("broadcast_in_dim")
def _broadcast_in_dim(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    x, shape = ins[0], eqn.outvars[0].aval.shape
    given = {int(d): k for k, d in enumerate(eqn.params["broadcast_dimensions"])}
    axes: list[Axis] = []
    old: list[int] = []
    new: list[int] = []
    spans = x.spans()
    for d, size in enumerate(shape):
        k = given.get(d)
        if k is not None and (x.axes[k] != (Factor(1),) or size == 1):
            axes.append(x.axes[k])
            lengths = [x.array.shape[i] for i in spans[k]]
            old, new = old + lengths, new + lengths
            continue
        axes.append((Factor(size, is_symbolic_dim(size)),))
        old, new = [*old, 1], [*new, 1 if is_symbolic_dim(size) else size]
    return [Array(jnp.broadcast_to(x.array.reshape(old), new), tuple(axes))]


@rule_for("iota")
def _iota(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    shape, dimension = eqn.outvars[0].aval.shape, eqn.params["dimension"]
    axes = tuple((Factor(n, is_symbolic_dim(n) and d != dimension),) for d, n in enumerate(shape))
    lengths = [p.length(axis[0]) for axis in axes]
    return [Array(lax.broadcasted_iota(eqn.params["dtype"], lengths, dimension), axes)]


@rule_for("transpose")
def _transpose(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    (x,), order = ins, eqn.params["permutation"]
    spans = x.spans()
    return [Array(x.array.transpose([d for k in order for d in spans[k]]), tuple(x.axes[k] for k in order))]


@rule_for("squeeze")
def _squeeze(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    (x,) = ins
    gone = [k % len(x.axes) for k in eqn.params["dimensions"]]
    axes = tuple(axis for k, axis in enumerate(x.axes) if k not in gone)
    spans = x.spans()
    return [Array(lax.squeeze(x.array, [d for k in gone for d in spans[k]]), axes)]


@rule_for("expand_dims")
def _expand_dims(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    return _reshape(p, eqn, ins)


@rule_for("reshape")
def _reshape(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    (x,), shape = ins, eqn.outvars[0].aval.shape
    if eqn.params.get("dimensions") is not None:
        raise Unpaddable("a reshape in another order")
    # those at the start and the end that stay; in between an axis along which all is the same is not yet known to be
    head = 0
    while head < min(len(x.axes), len(shape)) and size_of(x.axes[head]) == shape[head]:
        head += 1
    tail = 0
    while tail < min(len(x.axes), len(shape)) - head and size_of(x.axes[-1 - tail]) == shape[-1 - tail]:
        tail += 1
    stop, end = len(x.axes) - tail, len(shape) - tail
    for k in range(head, stop):
        x = p.full(x, k)
    queue = [f for axis in x.axes[head:stop] for f in axis if f.size != 1]
    spans = x.spans()
    before = [x.array.shape[d] for span in spans[:head] for d in span]
    after = [x.array.shape[d] for span in spans[stop:] for d in span]
    array, axes = x.array.reshape(*before, *map(p.length, queue), *after), []
    place = len(before)  # the axis of `array` that is the first of the queue
    for size in shape[head:end]:
        got: list[Factor] = []
        missing = size
        while missing != 1:
            if not queue:
                raise Unpaddable(f"a reshape to {shape}")
            rest = _quotient(missing, queue[0].size)
            if rest is None:  # a part of the factor
                others = _quotient(queue[0].size, missing)
                if others is None and len(queue) > 1:  # only as a whole
                    array, queue = _as_one(p, array, place, queue)
                    continue
                if others is None:
                    raise Unpaddable(f"a reshape to {shape}")
                parts = (Factor(missing), Factor(others))
                array = _split(p, array, place, queue[0], parts)
                queue[:1] = parts
                rest = 1
            got.append(queue.pop(0))
            place += 1
            missing = rest
        axes.append(_merged(got))
    if queue:
        raise Unpaddable(f"a reshape to {shape}")
    lengths = [p.length(f) for axis in axes for f in axis]
    return [Array(array.reshape(*before, *lengths, *after), (*x.axes[:head], *axes, *x.axes[stop:]))]


def _quotient(a: Any, b: Any) -> Any:
    """``a / b``, or None if that is no number of elements."""
    if is_symbolic_dim(b) and not is_symbolic_dim(a):
        return None
    rest = a % b
    return a // b if not is_symbolic_dim(rest) and rest == 0 else None


def _as_one(p: Padding, array: Any, d: int, factors: list[Factor]) -> tuple[Any, list[Factor]]:
    """Axes of a padded array from one on, as one: elements move."""
    shape = array.shape
    axes = [(Factor(n),) for n in shape]
    x = Array(array, (*axes[:d], tuple(factors), *axes[d + len(factors) :]))
    x = p.packed(x, d)
    return x.array, list(x.axes[d])


def _split(p: Padding, array: Any, d: int, factor: Factor, parts: tuple[Factor, Factor]) -> Any:
    """An axis of a padded array as two; where the first is of known size, and the second not, elements move."""
    shape = array.shape
    if factor.is_open and not (parts[0].is_open and not parts[1].is_open):
        x = Array(array, tuple((Factor(n),) if i != d else (factor,) for i, n in enumerate(shape)))
        return p.axis_as(x, d, parts).array
    return array.reshape(*shape[:d], *map(p.length, parts), *shape[d + 1 :])


def _merged(factors: Sequence[Factor]) -> Axis:
    """The same axis of as few factors as need be: known ones in a row, and those after an unknown one."""
    found: list[Factor] = []
    for f in factors:
        if f.size == 1:
            continue
        if found and not f.is_open:
            found[-1] = Factor(found[-1].size * f.size)
        else:
            found.append(f)
    return tuple(found) or (Factor(1),)


@rule_for("slice")
def _slice(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    (x,), shape = ins, eqn.outvars[0].aval.shape
    starts, limits = eqn.params["start_indices"], eqn.params["limit_indices"]
    steps = eqn.params["strides"] or (1,) * len(shape)
    for k, (start, limit, step) in enumerate(zip(starts, limits, steps, strict=True)):
        if start != 0 or step != 1 or limit != size_of(x.axes[k]):
            x = _cut(p, x, k, start, step, shape[k])
    return [x]


def _cut(p: Padding, x: Array, k: int, start: Any, step: int, size: Any) -> Array:
    """``size`` elements along an axis from ``start``, a size or a number in the program, every ``step`` of them."""
    if x.axes[k][0].same and len(x.axes[k]) == 1:
        axes = (*x.axes[:k], (Factor(size, True),), *x.axes[k + 1 :])
        return _settled(p, Array(x.array, axes))
    if is_symbolic_dim(step):
        raise Unpaddable("a slice with such a step")
    x = p.packed(x, k)
    d, length = x.spans()[k].start, p.most(size)
    reach = max((length - 1) * step + 1, 0)
    if isinstance(start, int):
        x = p.resized(x, k, max(start + reach, x.array.shape[d]))
        array = lax.slice_in_dim(x.array, start, start + reach, step, d)
    else:
        offset = p.value(start) if is_symbolic_dim(start) else start
        x = p.resized(x, k, x.array.shape[d] + reach)
        array = lax.dynamic_slice_in_dim(x.array, offset, reach, d)
        array = lax.slice_in_dim(array, 0, reach, step, d)
    return Array(array, (*x.axes[:k], (Factor(size),), *x.axes[k + 1 :]))


def _settled(p: Padding, x: Array) -> Array:
    """An array whose axes of known size have as many elements."""
    for k, axis in enumerate(x.axes):
        if any(f.same and not f.is_open for f in axis):
            x = p.full(x, k)
    return x


@rule_for("split")
def _split_rule(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    (x,), k, found = ins, eqn.params["axis"], []
    start: Any = 0
    for size in eqn.params["sizes"]:
        found.append(_cut(p, x, k, start, 1, size))
        start = start + size
    return found


@rule_for("dynamic_slice")
def _dynamic_slice(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    x, *starts = ins
    for k, (start, size) in enumerate(zip(starts, eqn.outvars[0].aval.shape, strict=True)):
        whole = size_of(x.axes[k])
        if size != whole:
            x = _cut(p, x, k, _within(p, start.array, whole - size), 1, size)
    return [x]


def _within(p: Padding, index: Any, most: Any) -> Any:
    """A start index within bounds, as JAX takes it."""
    index = jnp.asarray(index)
    if jnp.issubdtype(index.dtype, jnp.unsignedinteger) or index.dtype.itemsize < 4:
        index = index.astype(np.int32)
    return jnp.clip(index, 0, jnp.asarray(p.value(most)).astype(index.dtype))


@rule_for("dynamic_update_slice")
def _dynamic_update_slice(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    x, new, *starts = ins
    return [_put(p, x, new, {k: start.array for k, start in enumerate(starts)})]


def _put(p: Padding, x: Array, new: Array, starts: dict[int, Any]) -> Array:
    """An array with another one in place of its elements from ``starts`` on, by axis."""
    firm = [k for k in range(len(x.axes)) if size_of(x.axes[k]) != size_of(new.axes[k])]
    x, new = p.aligned([x, new], firm)
    for k in range(len(x.axes)):
        x, new = p.full(x, k), p.full(new, k)
        if k in firm:
            x, new = p.packed(x, k), p.packed(new, k)
    shape, spans = x.array.shape, x.spans()
    at: list[Any] = [np.int32(0)] * x.array.ndim
    larger = x
    for k in firm:
        d = spans[k].start
        at[d] = _within(p, starts[k], size_of(x.axes[k]) - size_of(new.axes[k])).astype(np.int32)
        larger = p.resized(larger, k, shape[d] + new.array.shape[d])
    mask = p.mask(new, firm)
    values = new.array
    if mask is not None:
        values = jnp.where(mask, values, lax.dynamic_slice(larger.array, at, values.shape))
    made = lax.dynamic_update_slice(larger.array, values, at)
    return Array(lax.slice(made, [0] * made.ndim, shape), x.axes)


@rule_for("concatenate")
def _concatenate(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    k, size = eqn.params["dimension"], eqn.outvars[0].aval.shape[eqn.params["dimension"]]
    arrays = [p.packed(x, k) for x in p.aligned(ins, [k])]
    shape = np.broadcast_shapes(
        *(tuple(n if d != x.spans()[k].start else 1 for d, n in enumerate(x.array.shape)) for x in arrays)
    )
    d = arrays[0].spans()[k].start
    whole = [jnp.broadcast_to(x.array, (*shape[:d], x.array.shape[d], *shape[d + 1 :])) for x in arrays]
    axes = (*arrays[0].axes[:k], (Factor(size),), *arrays[0].axes[k + 1 :])
    if not any(x.axes[k][0].is_open for x in arrays[:-1]):
        return [Array(lax.concatenate(whole, d), axes)]
    made = jnp.zeros((*shape[:d], sum(a.shape[d] for a in whole), *shape[d + 1 :]), whole[0].dtype)
    start: Any = 0
    for x, array in zip(arrays, whole, strict=True):  # the padding of one is under the next
        made = lax.dynamic_update_slice_in_dim(made, array, p.value(start), d)
        start = start + x.axes[k][0].size
    return [p.resized(Array(made, axes), k, size)]


@rule_for("stack")
def _stack(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    k = eqn.params["axis"]
    arrays = p.aligned(ins)
    shape = np.broadcast_shapes(*(x.array.shape for x in arrays))
    d = arrays[0].spans()[k].start if k < len(arrays[0].axes) else len(shape)
    array = jnp.stack([jnp.broadcast_to(x.array, shape) for x in arrays], d)
    axes = _shared_axes(arrays)
    return [Array(array, (*axes[:k], (Factor(len(ins)),), *axes[k:]))]


@rule_for("unstack")
def _unstack(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    (x,), k = ins, eqn.params["axis"]
    axes = (*x.axes[:k], *x.axes[k + 1 :])
    return [Array(a, axes) for a in jnp.unstack(x.array, axis=x.spans()[k].start)]


@rule_for("tile")
def _tile(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    (x,) = ins
    axes: list[Axis] = []
    old: list[int] = []
    new: list[int] = []
    for k, count in enumerate(eqn.params["reps"]):
        if count != 1:
            x = p.full(x, k)
        axes.append(x.axes[k] if count == 1 else _merged([Factor(count), *x.axes[k]]))
        lengths = [p.length(f) for f in x.axes[k]]
        old, new = [*old, 1, *lengths], [*new, p.most(count), *lengths]
    array = jnp.broadcast_to(x.array.reshape(old), new)
    return [Array(array.reshape([p.length(f) for axis in axes for f in axis]), tuple(axes))]


@rule_for("pad")
def _pad(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    x, value = ins[0], ins[1].array
    for k, (low, high, inner) in enumerate(eqn.params["padding_config"]):
        size = eqn.outvars[0].aval.shape[k]
        if (low, high, inner) == (0, 0, 0):
            continue
        x = p.filled(p.packed(x, k), [k], value)
        d = x.spans()[k].start
        config = [(0, 0, 0)] * x.array.ndim
        if not is_symbolic_dim(low):
            config[d] = (low, 0, inner)
            array = lax.pad(x.array, value, config)
        else:
            config[d] = (0, 0, inner)
            inside = lax.pad(x.array, value, config)
            shape = [n + p.most(low) if i == d else n for i, n in enumerate(inside.shape)]
            array = jnp.full(shape, value, inside.dtype)
            array = lax.dynamic_update_slice_in_dim(array, inside, p.value(low), d)
        now = Array(array, (*x.axes[:k], (Factor(array.shape[d]),), *x.axes[k + 1 :]))
        x = p.resized(now, k, size, value)
    return [x]


@rule_for("rev")
def _rev(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    (x,) = ins
    for k in eqn.params["dimensions"]:
        x = p.packed(p.full(x, k), k)
        d, factor = x.spans()[k].start, x.axes[k][0]
        array = lax.rev(x.array, [d])
        if factor.is_open:
            length = array.shape[d]
            twice = lax.concatenate([array, array], d)
            array = lax.dynamic_slice_in_dim(twice, length - p.value(factor.size), length, d)
        x = Array(array, x.axes)
    return [x]


# ------------------------------------------------------------------ along axes


def _least(dtype: Any) -> Any:
    """What is below all numbers of a type."""
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise Unpaddable("a maximum of complex numbers")
    if dtype == jnp.bool_:
        return False
    return -np.inf if jnp.issubdtype(dtype, jnp.inexact) else jnp.iinfo(dtype).min


def _greatest(dtype: Any) -> Any:
    if dtype == jnp.bool_:
        return True
    return np.inf if jnp.issubdtype(dtype, jnp.inexact) else jnp.iinfo(dtype).max


#: what changes nothing in a reduction of elements of a type
_NEUTRAL: dict[str, Callable[[Any], Any]] = {
    "sum": lambda dtype: 0,
    "prod": lambda dtype: 1,
    "max": _least,
    "min": lambda dtype: -_least(dtype) if jnp.issubdtype(dtype, jnp.inexact) else _greatest(dtype),
    "and": lambda dtype: -1 if jnp.issubdtype(dtype, jnp.signedinteger) else _greatest(dtype),
    "or": lambda dtype: 0,
    "xor": lambda dtype: 0,
    "logsumexp": lambda dtype: -np.inf,
}


@rule_for(*(f"reduce_{name}" for name in ("sum", "prod", "max", "min", "and", "or", "xor")))
def _reduce(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    (x,), kind, axes = ins, eqn.primitive.name.removeprefix("reduce_"), eqn.params["axes"]
    if kind in ("sum", "prod", "xor"):
        for k in axes:
            x = p.full(x, k)
    x = p.filled(x, axes, _NEUTRAL[kind](x.array.dtype))
    spans = x.spans()
    (array,) = p.bound(eqn, [x.array], **{**eqn.params, "axes": tuple(d for k in axes for d in spans[k])})
    return [Array(array, tuple(axis for k, axis in enumerate(x.axes) if k not in axes))]


@rule_for("argmax", "argmin")
def _argmax(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    (x,), axes = ins, eqn.params["axes"]
    for k in axes:
        x = p.packed(x, k)
    x = p.filled(x, axes, _NEUTRAL[eqn.primitive.name[3:]](x.array.dtype))
    spans = x.spans()
    (array,) = p.bound(eqn, [x.array], **{**eqn.params, "axes": tuple(d for k in axes for d in spans[k])})
    return [Array(array, tuple(axis for k, axis in enumerate(x.axes) if k not in axes))]


@rule_for("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def _cumulative(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    (x,), k = ins, eqn.params["axis"]
    x = p.packed(x, k)
    if eqn.params["reverse"]:
        x = p.filled(x, [k], _NEUTRAL[eqn.primitive.name[3:]](x.array.dtype))
    (array,) = p.bound(eqn, [x.array], **{**eqn.params, "axis": x.spans()[k].start})
    return [Array(array, x.axes)]


@rule_for("sort")
def _sort(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    k, keys = eqn.params["dimension"], eqn.params["num_keys"]
    arrays = [p.packed(x, k) for x in p.aligned(ins)]
    shape = np.broadcast_shapes(*(x.array.shape for x in arrays))
    d, mask = arrays[0].spans()[k].start, p.mask(arrays[0], [k])
    whole = [jnp.broadcast_to(x.array, shape) for x in arrays]
    if mask is not None:  # padding comes last
        whole.insert(0, jnp.broadcast_to(~mask, shape).astype(np.int32))
    params = {**eqn.params, "dimension": d, "num_keys": keys + (mask is not None)}
    made = p.bound(eqn, whole, **params)[len(whole) - len(arrays) :]
    return [Array(a, x.axes) for a, x in zip(made, arrays, strict=True)]


@rule_for("top_k")
def _top_k(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    (x,), k, count = ins, eqn.params.get("axis", -1) % len(ins[0].axes), eqn.params["k"]
    if is_symbolic_dim(count) or k != len(x.axes) - 1:
        raise Unpaddable("top_k of so many, or along another axis than the last")
    x = p.packed(x, k)
    x = p.filled(x, [k], _least(x.array.dtype))
    params = {**eqn.params, **({"axis": x.array.ndim - 1} if "axis" in eqn.params else {})}
    axes = (*x.axes[:k], (Factor(count),))
    return [Array(a, axes) for a in p.bound(eqn, [x.array], **params)]


# ------------------------------------------------------------------ products


@rule_for("dot_general")
def _dot_general(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    a, b = ins
    (summed_a, summed_b), (batch_a, batch_b) = eqn.params["dimension_numbers"]
    for i, k in zip((*summed_a, *batch_a), (*summed_b, *batch_b), strict=True):
        axis = p.common([a.axes[i], b.axes[k]])
        if i in summed_a:
            axis = tuple(Factor(f.size) for f in axis)
        a, b = p.axis_as(a, i, axis), p.axis_as(b, k, axis)
    a, b = p.filled(a, summed_a, 0), p.filled(b, summed_b, 0)  # both: 0 times NaN is NaN
    spans_a, spans_b = a.spans(), b.spans()
    flat = lambda axes, spans: tuple(d for k in axes for d in spans[k])
    numbers = (
        (flat(summed_a, spans_a), flat(summed_b, spans_b)),
        (flat(batch_a, spans_a), flat(batch_b, spans_b)),
    )
    (array,) = p.bound(eqn, [a.array, b.array], **{**eqn.params, "dimension_numbers": numbers})
    free_a = [axis for k, axis in enumerate(a.axes) if k not in (*summed_a, *batch_a)]
    free_b = [axis for k, axis in enumerate(b.axes) if k not in (*summed_b, *batch_b)]
    return [Array(array, (*(a.axes[k] for k in batch_a), *free_a, *free_b))]


@rule_for("conv_general_dilated")
def _conv(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    x, w = ins
    numbers, params = eqn.params["dimension_numbers"], dict(eqn.params)
    (xb, xf, *xs), (wo, wi, *ws), (_, _, *ys) = numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec
    for k in range(len(x.axes)):
        x, w = p.packed(x, k), p.packed(w, k)
    out = eqn.outvars[0].aval.shape
    grouped = [x.axes[xf], w.axes[wi], w.axes[wo]] if params["feature_group_count"] != 1 else []
    grouped += [x.axes[xb], w.axes[wo]] if params["batch_group_count"] != 1 else []
    if any(axis[0].is_open for axis in grouped):
        raise Unpaddable("a convolution in groups along such a dimension")
    x = p.filled(x, [xf, *xs], 0)
    w = p.filled(w, [wi, *ws], 0)
    pads = []
    for i, (low, high) in enumerate(params["padding"]):
        if is_symbolic_dim(low):
            raise Unpaddable("a convolution with so much padding")
        a, b, y = x.axes[xs[i]][0], w.axes[ws[i]][0], out[ys[i]]
        if a.is_open or b.is_open or is_symbolic_dim(high) or is_symbolic_dim(y):
            # as much as gives the most of the result: what lies outside is zero here and there
            n = (p.length(a) - 1) * params["lhs_dilation"][i] + 1
            window = (p.length(b) - 1) * params["rhs_dilation"][i] + 1
            high = (p.most(y) - 1) * params["window_strides"][i] + window - n - low
        pads.append((low, high))
    params["padding"] = tuple(pads)
    (array,) = p.bound(eqn, [x.array, w.array], **params)
    axes: list[Axis] = [()] * len(out)
    for k, n in enumerate(out):
        axes[k] = (Factor(n),)
    return [Array(array, tuple(axes))]


# ------------------------------------------------------------------ windows

_WINDOWS = {
    "reduce_window_sum": "sum", "reduce_window_max": "max", "reduce_window_min": "min",
}  # fmt: skip


@rule_for(*_WINDOWS)
def _reduce_window(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    (x,), params, out = ins, dict(eqn.params), eqn.outvars[0].aval.shape
    neutral = _NEUTRAL[_WINDOWS[eqn.primitive.name]](x.array.dtype)
    pads = []
    for k, (low, high) in enumerate(params["padding"]):
        x = p.packed(x, k)
        window, step = params["window_dimensions"][k], params["window_strides"][k]
        if is_symbolic_dim(window) or is_symbolic_dim(low):
            raise Unpaddable("a pool over so much")
        if x.axes[k][0].is_open and (window, step, low) != (1, 1, 0):
            x = p.filled(x, [k], neutral)
            n = (x.array.shape[k] - 1) * params["base_dilation"][k] + 1
            high = (p.most(out[k]) - 1) * step + (window - 1) * params["window_dilation"][k] + 1 - n - low
            if high < 0:
                x = Array(lax.slice_in_dim(x.array, 0, x.array.shape[k] + high, axis=k), x.axes)
                high = 0
        pads.append((low, 0 if is_symbolic_dim(high) else high))
    params["padding"] = tuple(pads)
    (array,) = p.bound(eqn, [x.array], **params)
    return [p.given(array, out)]


# ------------------------------------------------------------------ positions


def _indices(p: Padding, eqn: Any, indices: Array, limits: Sequence[Any], clips: bool) -> Any:
    """Start indices that mean within padding what they mean without: clipped, or out of bounds where they are.

    Args:
        limits: the largest of each; a size, or None where the operation itself knows.
    """
    array = indices.array
    if jnp.issubdtype(array.dtype, jnp.unsignedinteger) or array.dtype.itemsize < 4:
        array = array.astype(
            np.int64 if array.dtype.itemsize >= 4 and jax.config.jax_enable_x64 else np.int32
        )
    if all(limit is None for limit in limits):
        return array
    parts = []
    for k, limit in enumerate(limits):
        part = array[..., k : k + 1]
        if limit is not None:
            most = jnp.asarray(p.value(limit)).astype(part.dtype)
            outside = jnp.iinfo(part.dtype).max
            part = jnp.clip(part, 0, most) if clips else jnp.where((part < 0) | (part > most), outside, part)
        parts.append(part)
    return jnp.concatenate(parts, -1)


@rule_for("gather")
def _gather(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    x, at = ins
    params, out = dict(eqn.params), eqn.outvars[0].aval.shape
    numbers, slices, mode = params["dimension_numbers"], list(params["slice_sizes"]), params["mode"]
    clips = mode in (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.PROMISE_IN_BOUNDS)
    if clips and len(at.axes) == 1 and any(map(is_symbolic_dim, slices)):  # a slice
        for i, k in enumerate(numbers.start_index_map):
            size = size_of(x.axes[k])
            if size != slices[k]:
                x = _cut(p, x, k, _within(p, at.array[i], size - slices[k]), 1, slices[k])
        gone = numbers.collapsed_slice_dims
        array = jnp.squeeze(x.array, tuple(d for k in gone for d in x.spans()[k]))
        return [Array(array, tuple(axis for k, axis in enumerate(x.axes) if k not in gone))]
    batch = list(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    for k, i in batch:
        axis = tuple(Factor(f.size) for f in p.common([x.axes[k], at.axes[i]]))
        x, at = p.axis_as(x, k, axis), p.axis_as(at, i, axis)
    limits: list[Any] = []
    for k in numbers.start_index_map:
        size = size_of(x.axes[k])
        x = p.packed(x, k)
        if slices[k] != size and is_symbolic_dim(slices[k]):
            raise Unpaddable("a gather of so many elements")
        limits.append(size - slices[k] if is_symbolic_dim(size) and slices[k] != size else None)
    for k in range(len(x.axes)):
        x = p.full(x, k)
    for k in range(len(at.axes)):
        at = p.full(at, k)
    index = _indices(p, eqn, at, limits, clips)
    spans, spots = x.spans(), at.spans()
    flat = lambda axes, spans: tuple(d for k in axes for d in spans[k])
    offsets = [
        k
        for k in range(len(x.axes))
        if k not in numbers.collapsed_slice_dims and k not in numbers.operand_batching_dims
    ]
    lengths: list[int] = []
    for k, span in enumerate(spans):
        whole = slices[k] == size_of(x.axes[k]) and k not in numbers.operand_batching_dims
        lengths += [
            x.array.shape[d] if whole else 1 if k in numbers.operand_batching_dims else slices[k]
            for d in span
        ]
    axes: list[Axis] = []
    window, rest = iter(offsets), iter(at.axes[:-1])
    for d in range(len(out)):
        if d in numbers.offset_dims:
            k = next(window)
            axes.append(x.axes[k] if slices[k] == size_of(x.axes[k]) else (Factor(slices[k]),))
        else:
            axes.append(next(rest))
    shell = Array(None, tuple(axes)).spans()
    new = lax.GatherDimensionNumbers(
        offset_dims=flat(numbers.offset_dims, shell),
        collapsed_slice_dims=flat(numbers.collapsed_slice_dims, spans),
        start_index_map=flat(numbers.start_index_map, spans),
        operand_batching_dims=flat([k for k, _ in batch], spans),
        start_indices_batching_dims=flat([i for _, i in batch], spots),
    )
    params |= {"dimension_numbers": new, "slice_sizes": tuple(lengths)}
    params |= {"indices_are_sorted": False, "unique_indices": False}
    if mode == lax.GatherScatterMode.PROMISE_IN_BOUNDS:
        params["mode"] = lax.GatherScatterMode.CLIP  # in the padding of the indices it is no promise
    (array,) = p.bound(eqn, [x.array, index], **params)
    return [Array(array, tuple(axes))]


@rule_for("scatter", "scatter-add", "scatter_add", "scatter_mul", "scatter_min", "scatter_max", "scatter_sub")
def _scatter(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    x, at, new = ins
    params = dict(eqn.params)
    numbers, mode = params["dimension_numbers"], params["mode"]
    whole = numbers.update_window_dims == tuple(range(len(x.axes)))
    if whole and len(at.axes) == 1 and any(f.is_open for axis in new.axes for f in axis):  # into a slice
        return [_scatter_slice(p, eqn, x, at, new)]
    batch = list(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
    for k in range(len(at.axes)):
        at = p.full(at, k)
    for k in range(len(x.axes)):
        x = p.full(x, k)
    for k in range(len(new.axes)):
        new = p.full(new, k)
    for k, i in batch:
        axis = p.common([x.axes[k], at.axes[i]])
        x, at = p.axis_as(x, k, axis), p.axis_as(at, i, axis)
    for k in numbers.scatter_dims_to_operand_dims:
        x = p.packed(x, k)
    # the axes of the updates are those of the indices, and of the windows in the operand
    inside = [
        k
        for k in range(len(x.axes))
        if k not in numbers.inserted_window_dims and k not in numbers.operand_batching_dims
    ]
    windows = dict(zip(numbers.update_window_dims, inside, strict=True))
    rest = iter(range(len(at.axes) - 1))
    for d in range(len(new.axes)):
        within = windows.get(d)
        if within is None:
            new = p.axis_as(new, d, at.axes[next(rest)])
        elif size_of(new.axes[d]) == size_of(x.axes[within]):
            axis = p.common([new.axes[d], x.axes[within]])
            new, x = p.axis_as(new, d, axis), p.axis_as(x, within, axis)
        elif any(f.is_open for f in new.axes[d]):
            raise Unpaddable("a scatter of so many elements")
    widths = {k: size_of(new.axes[d]) for d, k in windows.items()}
    limits: list[Any] = []
    for k in numbers.scatter_dims_to_operand_dims:
        size, width = size_of(x.axes[k]), widths.get(k, 1)
        clips = mode in (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.PROMISE_IN_BOUNDS)
        limits.append(size - width if size != width and (clips or is_symbolic_dim(size)) else None)
    index = _indices(p, eqn, at, limits, mode == lax.GatherScatterMode.CLIP)
    mask = p.mask(at, range(len(at.axes) - 1))
    if mask is not None:  # what padding says goes nowhere
        if not limits:
            if (
                any(f.is_open for d in range(len(new.axes)) if d not in windows for f in new.axes[d])
                and len(batch) != len(at.axes) - 1
            ):
                raise Unpaddable("a scatter without positions")
        else:
            index = jnp.where(mask, index, jnp.iinfo(index.dtype).max)
    spans, spots, shell = x.spans(), at.spans(), new.spans()
    flat = lambda axes, spans: tuple(d for k in axes for d in spans[k])
    params["dimension_numbers"] = lax.ScatterDimensionNumbers(
        update_window_dims=flat(numbers.update_window_dims, shell),
        inserted_window_dims=flat(numbers.inserted_window_dims, spans),
        scatter_dims_to_operand_dims=flat(numbers.scatter_dims_to_operand_dims, spans),
        operand_batching_dims=flat([k for k, _ in batch], spans),
        scatter_indices_batching_dims=flat([i for _, i in batch], spots),
    )
    params |= {"indices_are_sorted": False, "unique_indices": False}
    params["mode"] = lax.GatherScatterMode.FILL_OR_DROP
    (array,) = p.bound(eqn, [x.array, index, new.array], **params)
    return [Array(array, x.axes)]


def _scatter_slice(p: Padding, eqn: Any, x: Array, at: Array, new: Array) -> Array:
    """A scatter to all elements of one slice."""
    name, mode = eqn.primitive.name, eqn.params["mode"]
    starts: dict[int, Any] = dict.fromkeys(range(len(x.axes)), 0)
    fits: Any = True
    for i, k in enumerate(eqn.params["dimension_numbers"].scatter_dims_to_operand_dims):
        starts[k] = at.array[i]
        most = p.value(size_of(x.axes[k]) - size_of(new.axes[k]))
        fits = fits & (starts[k] >= 0) & (starts[k] <= most)
    if name == "scatter":
        made = _put(p, x, new, starts)
    elif name in ("scatter-add", "scatter_add"):
        made = _put(p, Array(jnp.zeros_like(x.array), x.axes), new, starts)
        x, made = p.aligned([x, made])
        made = Array(x.array + made.array, _shared_axes([x, made]))
    else:
        raise Unpaddable(f"the operation {name} of so many elements")
    if mode == lax.GatherScatterMode.FILL_OR_DROP:
        x, made = p.aligned([x, made])
        made = Array(jnp.where(fits, made.array, x.array), _shared_axes([x, made]))
    return made


# ------------------------------------------------------------------ random numbers


@rule_for("random_bits")
def _random_bits(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    """The bits that each element has in the array without padding, which depend on its place there."""
    key, width, shape = ins[0].array, eqn.params["bit_width"], eqn.params["shape"]
    name = str(jax.random.key_impl(key))
    if (
        key.ndim
        or "threefry" not in name
        or not jax.config.jax_threefry_partitionable
        or width not in (32, 64)
    ):
        raise Unpaddable("random numbers of another kind than JAX's default")
    axes = tuple((Factor(n),) for n in shape)
    lengths = [p.length(axis[0]) for axis in axes]
    high: Any = np.uint32(0)
    low: Any = np.uint32(0)
    most = math.prod(map(p.most, shape))
    if most >= 2**32:
        raise Unpaddable("so many random numbers")
    for d, size in enumerate(shape):
        place = lax.broadcasted_iota(np.uint32, lengths, d)
        low = low * jnp.asarray(p.value(size)).astype(np.uint32) + place
    first, second = jax.random.key_data(key)
    full = lambda x: jnp.broadcast_to(jnp.asarray(x, np.uint32), lengths)
    a, b = prng.threefry2x32_p.bind(*map(full, (first, second, high, low)))
    if width == 32:
        return [Array(a ^ b, axes)]
    return [Array((a.astype(np.uint64) << np.uint64(32)) | b.astype(np.uint64), axes)]


# ------------------------------------------------------------------ loops and branches


def _body(p: Padding, closed: Any) -> Callable[..., list[Any]]:
    """A program inside of an operation as a function of padded arrays, each axis of which is one axis."""
    jaxpr = closed.jaxpr

    def run(*arrays: Any) -> list[Any]:
        given = [
            p.given(x, v.aval.shape) if any(map(is_symbolic_dim, v.aval.shape)) else x
            for x, v in zip(arrays, jaxpr.invars, strict=True)
        ]
        outs = p.run(jaxpr, [*closed.consts, *given])
        return [p.packed(x).array if isinstance(x, Array) else x for x in outs]

    return run


def _flat(p: Padding, ins: Sequence[Array]) -> list[Any]:
    return [p.packed(x).array for x in ins]


def _given(p: Padding, eqn: Any, arrays: Sequence[Any]) -> list[Array]:
    return [p.given(a, v.aval.shape) for a, v in zip(arrays, eqn.outvars, strict=True)]


@rule_for("cond")
def _cond(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    index, *arrays = _flat(p, ins)
    return _given(p, eqn, lax.switch(index, [_body(p, b) for b in eqn.params["branches"]], *arrays))


@rule_for("while")
def _while(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    arrays, params = _flat(p, ins), eqn.params
    test, body = _body(p, params["cond_jaxpr"]), _body(p, params["body_jaxpr"])
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    of_test, of_body = arrays[:first], arrays[first:second]
    made = lax.while_loop(
        lambda now: test(*of_test, *now)[0], lambda now: body(*of_body, *now), arrays[second:]
    )
    return _given(p, eqn, made)


@rule_for("scan")
def _scan(p: Padding, eqn: Any, ins: list[Array]) -> Sequence[Array]:
    """A loop over padding too, in which nothing is carried on."""
    arrays, params = _flat(p, ins), eqn.params
    consts, carried = scan_parts(eqn)
    body, length, fixed = _body(p, params["jaxpr"]), params["length"], arrays[:consts]
    is_open = is_symbolic_dim(length)

    def step(now: list[Any], given: Any) -> tuple[list[Any], list[Any]]:
        k, parts = given
        outs = body(*fixed, *now, *parts)
        after = outs[:carried]
        if is_open:
            after = [lax.select(k < p.value(length), new, old) for new, old in zip(after, now, strict=True)]
        return after, outs[carried:]

    start, parts = arrays[consts : consts + carried], arrays[consts + carried :]
    options = {name: params[name] for name in ("reverse", "unroll") if name in params}
    after, found = lax.scan(step, start, (lax.iota(np.int32, p.most(length)), parts), **options)
    return _given(p, eqn, [*after, *found])
