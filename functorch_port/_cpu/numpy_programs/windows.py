"""Reductions over windows and convolutions written in numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ops._convolution import Convolution
from ..native.numpy_convolution import convolve
from .helpers import pad
from .values import Unsupported, Value, identity

if TYPE_CHECKING:
    from .writer import Writer

__all__ = ["WINDOWS"]

#: whether the largest element is chosen, or the smallest; windows, strides and dilations
_How = tuple[bool, Sequence[int], Sequence[int], Sequence[int]]


def _config(pads: Sequence[Any], spread: Sequence[int]) -> tuple[Any, ...]:
    """What `pad` takes."""
    return tuple([(low, high, d - 1) for (low, high), d in zip(pads, spread, strict=True)])


def _spans(window: Sequence[int], dilations: Sequence[int]) -> list[int]:
    return [(n - 1) * d + 1 for n, d in zip(window, dilations, strict=True)]


def _places(size: int, window: int, stride: int) -> int:
    """How many places a window has."""
    return max((size - window) // stride + 1, 0)


def _reduced(
    x: np.ndarray,
    *,
    ufunc: Any,
    start: Any,
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    config: tuple[tuple[int, int, int], ...],
) -> np.ndarray:
    """The reductions over windows, one dimension after the other."""
    x = pad(x, start, config)
    for dim, (size, stride, step) in enumerate(zip(window, strides, dilations, strict=True)):
        if size == stride == 1:
            continue
        count = _places(x.shape[dim], (size - 1) * step + 1, stride)
        lead = (slice(None),) * dim
        found: Any = None
        for k in range(size):
            part = x[
                (*lead, slice(k * step, k * step + (count - 1) * stride + 1 if count else k * step, stride))
            ]
            found = part.copy() if found is None else ufunc(found, part, out=found)
        x = found
    return x


def _reducing(w: Writer, eqn: Any, ins: list[Value], ufunc: Any) -> Any:
    p, aval = eqn.params, eqn.outvars[0].aval
    if not all(p["window_dimensions"]):
        raise Unsupported("an empty window")
    how = {
        "ufunc": ufunc, "start": identity(ufunc, aval.dtype), "window": tuple(p["window_dimensions"]),
        "strides": tuple(p["window_strides"]), "dilations": tuple(p["window_dilation"]),
        "config": _config(p["padding"], p["base_dilation"]),
    }  # fmt: skip
    each = [((*aval.shape, n), 1e-3) for n in p["window_dimensions"] if n != 1]
    return w._call(_reduced, eqn, ins[:1], 15.0, (ins[0].aval.shape, 1e-3), *each, **how)


# ------------------------------------------------------------------ the element that is chosen in each window


def _chosen(
    x: np.ndarray, config: tuple[tuple[int, int, int], ...], how: _How
) -> tuple[Any, tuple[int, ...]]:
    """Of each window the position of the element that is chosen, in the flattened array that it is padded to."""
    largest, _, strides, dilations = how
    padded = pad(x, identity(np.maximum if largest else np.minimum, x.dtype), config)
    rows, inner = _rows(padded, how)
    best = rows.argmax(-1) if largest else rows.argmin(-1)
    total: Any = 0
    for d, offset in enumerate(np.unravel_index(best, inner)):
        first = np.arange(best.shape[d]).reshape([-1 if k == d else 1 for k in range(x.ndim)]) * strides[d]
        total = total * padded.shape[d] + first + offset * dilations[d]
    return total, padded.shape


def _rows(x: np.ndarray, how: _How) -> tuple[np.ndarray, tuple[int, ...]]:
    """The windows, flattened; their shape."""
    _, window, strides, dilations = how
    view = np.lib.stride_tricks.sliding_window_view(x, _spans(window, dilations))
    view = view[(*[slice(None, None, s) for s in strides], *[slice(None, None, d) for d in dilations])]
    return view.reshape(*view.shape[: x.ndim], -1), view.shape[x.ndim :]


def _gathered(tangent: np.ndarray, x: np.ndarray, *, config: Any, how: _How) -> np.ndarray:
    at, _ = _chosen(x, config, how)
    return pad(tangent, 0, config).reshape(-1)[at]


def _scattered(source: np.ndarray, x: np.ndarray, *, config: Any, how: _How) -> np.ndarray:
    at, shape = _chosen(x, config, how)
    out = np.zeros(shape, source.dtype)
    np.add.at(out.reshape(-1), at.reshape(-1), source.reshape(-1))
    return pad(out, 0, tuple([(-low, -high, 0) for low, high, _ in config]))


def _choosing(w: Writer, eqn: Any, ins: list[Value], fn: Any) -> Any:
    p, ones = eqn.params, (1,) * ins[0].aval.ndim
    select, window = p["select_prim"].name, tuple(p["window_dimensions"])
    if select not in ("ge", "le") or ins[1].aval.dtype.kind not in "iuf" or not all(window):
        raise Unsupported("a choice in windows")
    config = _config(p["padding"], p.get("base_dilation", ones))
    how = select == "ge", window, tuple(p["window_strides"]), tuple(p.get("window_dilation", ones))
    inner = (*eqn.outvars[0].aval.shape, *window)
    return w._call(fn, eqn, ins, 40.0, (inner, 3e-3), config=config, how=how)


# ------------------------------------------------------------------ convolutions


def _convolved(
    x: np.ndarray,
    k: np.ndarray,
    *,
    strides: Sequence[int],
    config: tuple[tuple[int, int, int], ...],
    dilations: Sequence[int],
    groups: int,
    specs: Sequence[tuple[int, ...]],
    dtype: Any,
) -> np.ndarray:
    x, k = (a.transpose(order).astype(dtype, copy=False) for a, order in zip((x, k), specs))
    x = pad(x, 0, ((0, 0, 0), (0, 0, 0), *config))
    places = [
        _places(*part) for part in zip(x.shape[2:], _spans(k.shape[2:], dilations), strides, strict=True)
    ]
    shape = (len(x), len(k), *places)
    if x.size and k.size and all(shape):
        how = Convolution(
            input=x.shape, weight=k.shape, strides=tuple(strides), pads=((0, 0),) * len(strides),
            dilations=tuple(dilations), groups=groups, precision=None,
        )  # fmt: skip
        out = convolve("forward", how, x, k)
    else:
        out = np.zeros(shape, dtype)
    return out.transpose(np.argsort(specs[2]))


def _convolution(w: Writer, eqn: Any, ins: list[Value]) -> Any:
    p, aval = eqn.params, eqn.outvars[0].aval
    if p["batch_group_count"] != 1:
        raise Unsupported("a convolution by groups of the batch")
    d = p["dimension_numbers"]
    products = (*aval.shape, *[n for dim, n in enumerate(ins[1].aval.shape) if dim != d.rhs_spec[0]])
    w.products.append(products)
    how = {
        "strides": tuple(p["window_strides"]), "dilations": tuple(p["rhs_dilation"]),
        "config": _config(p["padding"], p["lhs_dilation"]),
        "groups": p["feature_group_count"], "specs": (d.lhs_spec, d.rhs_spec, d.out_spec), "dtype": aval.dtype,
    }  # fmt: skip
    return w._call(_convolved, eqn, ins, 60.0, (products, 1e-4), **how)


WINDOWS: dict[str, Callable[..., Any]] = {
    "conv_general_dilated": _convolution,
    "reduce_window_max": partial(_reducing, ufunc=np.maximum),
    "reduce_window_min": partial(_reducing, ufunc=np.minimum),
    "reduce_window_sum": partial(_reducing, ufunc=np.add),
    "select_and_gather_add": partial(_choosing, fn=_gathered),
    "select_and_scatter_add": partial(_choosing, fn=_scattered),
}
