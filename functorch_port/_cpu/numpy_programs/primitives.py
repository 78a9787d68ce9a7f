"""How the primitives of JAX are written in numpy that are none of `ELEMENTS`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jax import lax

from ..._base import sizes
from .helpers import ones_of
from .values import Unsupported, Value, identity

if TYPE_CHECKING:
    from .writer import Writer

__all__ = ["RULES", "in_shape"]


def _broadcast(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    x, aval = ins[0], eqn.outvars[0].aval
    shape = [1] * len(aval.shape)
    padded = (1,) * (x.aval.ndim - len(x.shape)) + x.shape
    for dim, n in zip(eqn.params["broadcast_dimensions"], padded, strict=True):
        shape[dim] = n
    while shape and shape[0] == 1 and len(shape) > len(x.shape):
        shape.pop(0)
    return in_shape(w, x, aval, tuple(shape))


def in_shape(w: Writer, x: Value, aval: Any, shape: tuple[int, ...]) -> Value:
    """The elements of an array in another shape."""
    x = x.of or x
    if shape == x.shape:
        return x.like(aval)
    new = w._look(f"{w._array(x)}.reshape({sizes.text(shape)})", aval, shape, [x])
    if new.const is None:
        new.of = x
    return new


def _reshape(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    x, aval = ins[0], eqn.outvars[0].aval
    if eqn.primitive.name == "reshape" and eqn.params["dimensions"] is not None:
        raise Unsupported("reshape in another order")
    if not x.shape and x.aval.shape:
        return x.like(aval)
    return in_shape(w, w._whole(x), aval, tuple(aval.shape))


def _indexed(w: Writer, aval: Any, x: Value, slices: Sequence[str]) -> Value:
    x = w._whole(x)
    return w._look(f"{w._array(x)}[{', '.join(slices)}]", aval, aval.shape, [x])


def _slice(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    p, aval = eqn.params, eqn.outvars[0].aval
    steps = p["strides"] or (1,) * len(p["start_indices"])
    bounds = zip(p["start_indices"], p["limit_indices"], steps, strict=True)
    parts = [":".join(map(sizes.text, part)) for part in bounds]
    return _indexed(w, aval, ins[0], parts) if parts else ins[0]


def _split(w: Writer, eqn: Any, ins: list[Value]) -> list[Value]:
    outs, at, axis = [], 0, eqn.params["axis"]
    for var, size in zip(eqn.outvars, eqn.params["sizes"], strict=True):
        outs.append(
            _indexed(w, var.aval, ins[0], [":"] * axis + [f"{sizes.text(at)}:{sizes.text(at + size)}"])
        )
        at += size
    return outs


def _reverse(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    aval = eqn.outvars[0].aval
    return _indexed(
        w, aval, ins[0], ["::-1" if d in eqn.params["dimensions"] else ":" for d in range(aval.ndim)]
    )


def _transpose(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    x, aval = w._whole(ins[0]), eqn.outvars[0].aval
    return w._look(f"{w._array(x)}.transpose({tuple(eqn.params['permutation'])})", aval, aval.shape, [x])


def _reducing(ufunc: str, kinds: str, typed: bool = False) -> Callable[..., Value]:
    def rule(w: Writer, eqn: Any, ins: list[Value]) -> Value:
        x, aval = w._whole(ins[0]), eqn.outvars[0].aval
        axes = tuple(eqn.params["axes"])
        if x.aval.dtype.kind not in kinds:
            raise Unsupported(ufunc)
        if not axes:
            return x.like(aval)
        if math.prod(x.aval.shape) == 0:
            empty = identity(getattr(np, ufunc), aval.dtype)
            return w._constant(empty, aval.update(shape=())).like(aval)
        if all(x.aval.shape[d] == 1 for d in axes):
            return in_shape(w, x, aval, tuple(aval.shape))
        if ufunc == "add" and aval.dtype.kind == "f":
            found = _sum(w, x, aval, axes)
            if found is not None:
                return found
        rank, array = x.aval.ndim, w._array(x)
        axis = "None" if len(axes) == rank else str(axes[0] if len(axes) == 1 else axes)
        kind = f", {w._dtype(aval.dtype)}" if typed else ""
        text = f"np.{ufunc}.reduce({array}, {axis}{kind})"
        if not typed and 0 < (kept := rank - len(axes)) == min(axes):
            text = f"_reduce_last(np.{ufunc}, {array}, {sizes.text(tuple(x.aval.shape))}, {kept})"
        return w._emit(text, aval, aval.shape, [x], 2.2, (x.aval.shape, 1e-3))

    return rule


def _sum(w: Writer, x: Value, aval: Any, axes: tuple[int, ...]) -> Value | None:
    """A sum over the first or the last dimensions; None for others."""
    shape, rank, out = tuple(x.aval.shape), x.aval.ndim, tuple(aval.shape)
    first, last = axes == tuple(range(len(axes))), axes == tuple(range(rank - len(axes), rank))
    if x.aval.dtype != aval.dtype or not (first or last):
        return None
    count, rest = math.prod(shape[d] for d in axes), math.prod(out)
    if sizes.is_known((count, rest)) and count * rest <= 4096:
        w.names[ones := f"ones{aval.dtype.name}{count}"] = ones_of(count, aval.dtype)
        flat = (count,) if first and last else (rest, count) if last else (count, rest)
        text = w._array(x) if flat == shape else f"{w._array(x)}.reshape({flat})"
        text = f"{text}.dot({ones})" if last else f"{ones}.dot({text})"
        if len(out) > 1:
            text += f".reshape({out})"
        return w._emit(text, aval, out, [x], 0.9, (shape, 0.2e-3))
    kind, number = ("last", rank - len(axes)) if last else ("first", len(axes))
    text = f"_sum_{kind}({w._array(x)}, {sizes.text(shape)}, {number}, {w._dtype(aval.dtype)})"
    return w._emit(text, aval, out, [x], 1.5, (shape, 0.2e-3))


def _arg(name: str) -> Callable[..., Value]:
    def rule(w: Writer, eqn: Any, ins: list[Value]) -> Value:
        x, aval = w._whole(ins[0]), eqn.outvars[0].aval
        (axis,) = eqn.params["axes"]
        text = f"np.{name}({w._array(x)}, {axis}).astype({w._dtype(aval.dtype)})"
        return w._emit(text, aval, aval.shape, [x], 2.5)

    return rule


def _cumulative(ufunc: str) -> Callable[..., Value]:
    def rule(w: Writer, eqn: Any, ins: list[Value]) -> Value:
        x, aval, axis = w._whole(ins[0]), eqn.outvars[0].aval, eqn.params["axis"]
        turn = f"[{', '.join([':'] * axis + ['::-1'])}]" if eqn.params["reverse"] else ""
        text = f"np.{ufunc}.accumulate({w._array(x)}{turn}, {axis}, {w._dtype(aval.dtype)}){turn}"
        return w._emit(text, aval, aval.shape, [x], 3.0)

    return rule


def _is_made(w: Writer, value: Value, *names: str) -> list[Value] | None:
    """The arguments of the primitive that a value comes from, if it is one of these."""
    name, ins, _ = w.made.get(value.text, ("", [], None))
    return ins if name in names else None


def _is_nan_of(w: Writer, value: Value) -> str | None:
    """The text of the array of which this tells where it is NaN."""
    ins = _is_made(w, value, "ne")
    return ins[0].text if ins and ins[0].text == ins[1].text else None


def _extreme(w: Writer, which: Value, no: Value, yes: Value) -> str | None:
    """A choice that is a maximum or a minimum, both with NaN where there is one, as numpy says it."""
    if yes.const is not None and yes.const.ndim == 0:
        over = _is_made(w, which, "reduce_or")
        of = _is_made(w, no, "reduce_max", "reduce_min")
        if np.isnan(yes.const) and over and of and _is_nan_of(w, over[0]) == of[0].text:
            same = w.made[which.text][2]["axes"] == w.made[no.text][2]["axes"]
            return no.text if same else None
        compared = _is_made(w, which, "le")
        if yes.const == 0 and compared and compared[0].text == no.text and compared[1].const is not None:
            if compared[1].const.ndim == 0 and compared[1].const == 0:
                return f"np.maximum({no.text}, {w._operand(yes, no.shape)})"
        return None
    either = _is_made(w, which, "or")
    if either and _is_nan_of(w, either[1]) == yes.text:
        for name, ufunc in (("gt", "maximum"), ("lt", "minimum")):
            compared = _is_made(w, either[0], name)
            if compared and [v.text for v in compared] == [yes.text, no.text]:
                return f"np.{ufunc}({no.text}, {yes.text})"
    return None


def _select(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    which, *cases = ins
    aval = eqn.outvars[0].aval
    if len(cases) == 1:
        return cases[0]
    if which.aval.dtype != np.bool_:
        return _choice(w, aval, which, cases)
    no, yes = cases
    shape = sizes.broadcast(which.shape, no.shape, yes.shape)
    extreme = _extreme(w, which, no, yes) if aval.dtype.kind == "f" and shape == no.shape else None
    if extreme is not None:
        return w._emit(extreme, aval, shape, [no, yes], 0.9)
    if not shape:
        return w._emit(f"{w._array(yes)} if {which.text} else {w._array(no)}", aval, shape, ins, 0.5)
    text = f"_chosen({w._array(which)}, {w._array(yes)}, {w._array(no)}, {w._dtype(aval.dtype)})"
    return w._emit(text, aval, shape, ins, 3.0)


def _choice(w: Writer, aval: Any, which: Value, cases: Sequence[Value]) -> Value:
    """One of many values, by its number."""
    shape = sizes.broadcast(which.shape, *[v.shape for v in cases])
    text = w._array(cases[0])
    for k, case in enumerate(cases[1:], 1):
        text = f"np.where({w._array(which)} == {k}, {w._array(case)}, {text})"
    return w._emit(text if shape else f"{text}[()]", aval, shape, [which, *cases], 5.0 * len(cases))


def _iota(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    aval, dim = eqn.outvars[0].aval, eqn.params["dimension"]
    if not sizes.is_known(aval.shape[dim]):
        shape = [n if d == dim else 1 for d, n in enumerate(aval.shape)]
        text = f"_count_up({sizes.text(aval.shape[dim])}, {dim}, {aval.ndim}, {w._dtype(aval.dtype)})"
        return w._emit(text, aval, shape, [], 1.5)
    column = np.arange(aval.shape[dim], dtype=aval.dtype).reshape(
        [-1 if d == dim else 1 for d in range(aval.ndim)]
    )
    return w._constant(column, aval)


def _concatenate(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    parts, aval = [w._whole(v) for v in ins], eqn.outvars[0].aval
    text = f"np.concatenate(({', '.join(w._array(v) for v in parts)},), {eqn.params['dimension']})"
    return w._emit(text, aval, aval.shape, parts, 0.5 + 0.1 * len(parts))


def _product(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    (contract, batch), aval = eqn.params["dimension_numbers"], eqn.outvars[0].aval
    a, b = (w._whole(w.converted(v, v.aval.update(dtype=aval.dtype))) for v in ins)
    inner = math.prod(a.aval.shape[d] for d in contract[0])
    w.products.append((*aval.shape, inner))
    free = [
        [d for d in range(v.aval.ndim) if d not in c and d not in t]
        for v, c, t in zip((a, b), contract, batch, strict=True)
    ]
    outer = [a.aval.shape[d] for d in batch[0]]
    rows, columns = (math.prod(v.aval.shape[d] for d in f) for v, f in zip((a, b), free, strict=True))
    left = _ordered(w, a, (*batch[0], *free[0], *contract[0]), (*outer, rows, inner))
    right = _ordered(w, b, (*batch[1], *contract[1], *free[1]), (*outer, inner, columns))
    flat = (*outer, rows, columns)
    text = f"np.matmul({left}, {right})" if outer else f"{left}.dot({right})"
    if not (outer or free[0] or free[1]):
        text = f"_dot({left}, {right})"
    if flat != tuple(aval.shape):
        text += f".reshape({sizes.text(tuple(aval.shape))})"
    if not aval.shape:
        text += "[()]"
    return w._emit(text, aval, aval.shape, [a, b], 1.5, ((*flat, inner), 3e-5))


def _ordered(w: Writer, x: Value, order: tuple[int, ...], shape: tuple[int, ...]) -> str:
    text = w._array(x)
    if order != tuple(range(len(order))):
        text += f".transpose({order})"
    if shape != tuple(x.aval.shape[d] for d in order):
        text += f".reshape({sizes.text(shape)})"
    return text


def _by_xla(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    (x,), aval = ins, eqn.outvars[0].aval
    return w._emit(
        f"_by_xla({w._named(getattr(lax, eqn.primitive.name))}, {w._array(x)})",
        aval,
        x.shape,
        ins,
        20.0,
        (x.shape, 1e-3),
    )


def _padding(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    if not any(n for c in eqn.params["padding_config"] for n in c):
        return ins[0]
    x, value, aval = w._whole(ins[0]), ins[1], eqn.outvars[0].aval
    config = sizes.text(tuple(eqn.params["padding_config"]))
    return w._emit(f"_pad({w._array(x)}, {value.text}, {config})", aval, aval.shape, [x, value], 4.0)


def _dynamic_slice(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    x, aval = w._whole(ins[0]), eqn.outvars[0].aval
    slices, needs = [], [x]
    for start, size, extent in zip(ins[1:], eqn.params["slice_sizes"], x.aval.shape, strict=True):
        if size == extent:
            slices.append(":")
            continue
        given = (_is_made(w, start, "convert_element_type") or [start])[0]  # whatever its type
        bounds = f"{sizes.text(size)}, {sizes.text(extent)}"
        begin = w._emit(f"_start({given.text}, {bounds})", start.aval, (), [given], 0.3)
        slices.append(f"{begin.text}:{begin.text} + {sizes.text(size)}")
        needs.append(begin)
    return w._look(f"{w._array(x)}[{', '.join(slices)}]", aval, aval.shape, needs) if slices else x


def _dynamic_update_slice(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    x, block, aval = w._whole(ins[0]), w._whole(ins[1]), eqn.outvars[0].aval
    text = f"_put({', '.join([w._array(x), w._array(block), *(v.text for v in ins[2:])])})"
    return w._emit(text, aval, aval.shape, [x, block, *ins[2:]], 2.5)


def _stack(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    parts, aval = [w._whole(v) for v in ins], eqn.outvars[0].aval
    axis = eqn.params["axis"]
    index = ", ".join([":"] * axis + ["None"])
    text = f"np.concatenate(({', '.join(f'{w._array(v)}[{index}]' for v in parts)},), {axis})"
    return w._emit(text, aval, aval.shape, parts, 0.5 + 0.2 * len(parts))


def _unstack(w: Writer, eqn: Any, ins: list[Value]) -> list[Value]:
    axis = eqn.params["axis"]
    return [_indexed(w, var.aval, ins[0], [":"] * axis + [str(i)]) for i, var in enumerate(eqn.outvars)]


def _sort(w: Writer, eqn: Any, ins: list[Value]) -> list[Value]:
    dim, keys = eqn.params["dimension"], eqn.params["num_keys"]
    if len(ins) > 1:
        each = (eqn.outvars[0].aval.shape, 0.03 * len(ins))
        return w._call(_sorted, eqn, ins, 10.0, each, dim=dim, keys=keys)
    x, aval = w._whole(ins[0]), eqn.outvars[0].aval
    text = f"np.sort({w._array(x)}, {dim})"
    return [w._emit(text, aval, aval.shape, [x], 4.0, (aval.shape, 0.01))]


def _sorted(*arrays: np.ndarray, dim: int, keys: int) -> tuple[np.ndarray, ...]:
    """Stable, by some of the arrays."""
    by = arrays[0]
    order = np.argsort(by, dim, kind="stable") if keys == 1 else np.lexsort(arrays[:keys][::-1], dim)
    return tuple([np.take_along_axis(x, order, dim) for x in arrays])


def _top_k(w: Writer, eqn: Any, ins: list[Value]) -> list[Value]:
    axis = eqn.params.get("axis", ins[0].aval.ndim - 1)
    how = {"k": eqn.params["k"], "axis": axis, "dtype": eqn.outvars[1].aval.dtype}
    return w._call(_largest, eqn, ins, 15.0, (ins[0].aval.shape, 0.03), **how)


def _in_order(x: np.ndarray) -> np.ndarray:
    """Integers with the order of the bits of floats."""
    if x.dtype.kind in "biu":
        return x
    word = np.dtype(f"i{x.dtype.itemsize}")
    bits = np.ascontiguousarray(x).view(word)
    return bits ^ (bits >> (8 * word.itemsize - 1) & np.iinfo(word).max)


def _largest(x: np.ndarray, *, k: int, axis: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """The largest numbers, of equal ones those with the lowest index, and their indices. Floats have the order of their
    bits: a NaN is the largest, or with a sign the smallest, and -0.0 is less than 0.0.
    """
    x = x.swapaxes(axis, -1)
    keys = _in_order(x)
    order = (
        np.argsort(keys[..., ::-1], -1, kind="stable")[..., : -k - 1 : -1]
        if k
        else np.zeros((*x.shape[:-1], 0), int)
    )
    order = x.shape[-1] - 1 - order
    found = np.take_along_axis(x, order, -1)
    return found.swapaxes(axis, -1), order.astype(dtype).swapaxes(axis, -1)


def _size(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    aval = eqn.outvars[0].aval
    text = f"{w._dtype(aval.dtype)}.type({sizes.text(eqn.params['dim'])})"
    return w._emit(text, aval, (), [], 0.3)


def _same(w: Writer, eqn: Any, ins: list[Value]) -> list[Value]:
    return ins


RULES: dict[str, Callable[..., Any]] = {
    "argmax": _arg("argmax"),
    "argmin": _arg("argmin"),
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "copy": _same,
    "copy_p": _same,
    "cumlogsumexp": _cumulative("logaddexp"),
    "cummax": _cumulative("maximum"),
    "cummin": _cumulative("minimum"),
    "cumprod": _cumulative("multiply"),
    "cumsum": _cumulative("add"),
    "dim_as_value": _size,
    "dot_general": _product,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "erf": _by_xla,
    "erf_inv": _by_xla,
    "erfc": _by_xla,
    "expand_dims": _reshape,
    "iota": _iota,
    "optimization_barrier": _same,
    "pad": _padding,
    "reduce_and": _reducing("bitwise_and", "biu"),
    "reduce_max": _reducing("maximum", "biuf"),
    "reduce_min": _reducing("minimum", "biuf"),
    "reduce_or": _reducing("bitwise_or", "biu"),
    "reduce_prod": _reducing("multiply", "iufc", typed=True),
    "reduce_sum": _reducing("add", "iufc", typed=True),
    "reduce_xor": _reducing("bitwise_xor", "biu"),
    "reshape": _reshape,
    "rev": _reverse,
    "select_n": _select,
    "slice": _slice,
    "sort": _sort,
    "split": _split,
    "squeeze": _reshape,
    "stack": _stack,
    "stop_gradient": _same,
    "top_k": _top_k,
    "transpose": _transpose,
    "unstack": _unstack,
}
