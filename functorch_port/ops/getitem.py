"""Indexing: ``x[...]`` and ``x[...] = v`` in PyTorch's forms.

An index is split as PyTorch does: first everything basic (ints, slices, None, Ellipsis), which is a view, then index
tensors and masks on what is left. Positions are dynamic arguments, so ``x[i]`` for a thousand ``i`` is one program.
"""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core import storage
from ..core.creation import tensor
from ..core.dispatch import Op
from ..core.registry import Array, Arrays, op, ops
from ..core.symbolic import SymNumber
from ..core.tensor import Tensor, wrap

__all__ = ["getitem", "setitem"]

_NODE_OF = {"i": "SelectBackward0", "s": "SliceBackward0", "n": "UnsqueezeBackward0", ":": "AliasBackward0"}


def _basic_node(static: dict[str, Any]) -> str:
    """PyTorch applies the parts one after the other: the last one that does something names the node."""
    acting = [part[0] for part in static["spec"] if part[0] != ":"]
    return _NODE_OF[acting[-1] if acting else ":"]


def _starts(spec: tuple[Any, ...], starts: Any, shape: tuple[int, ...]) -> tuple[list[Any], list[int], list[int]]:
    """Start, extent and step of the block that a basic index covers, per dimension of the input."""
    it, begin, extent, step = iter(starts), [], [], []
    dim = 0
    for part in spec:
        if part[0] == "n":
            continue
        size = shape[dim]
        if part[0] == "i":
            at = next(it)
            begin.append(at if isinstance(at, int) else jnp.where(at < 0, at + size, at))
            extent.append(1)
            step.append(1)
        elif part[0] == "s":
            _, count, by = part
            begin.append(next(it))
            extent.append((count - 1) * by + 1 if count else 0)
            step.append(by)
        else:
            begin.append(0)
            extent.append(size)
            step.append(1)
        dim += 1
    return begin, extent, step


def _basic_shape(spec: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    out, dim = [], 0
    for part in spec:
        if part[0] == "n":
            out.append(1)
            continue
        if part[0] == "s":
            out.append(part[1])
        elif part[0] == ":":
            out.append(shape[dim])
        dim += 1
    return tuple(out)


def _index_type(begin: list[Any]) -> list[Any]:
    """Start positions of one type, as `lax` wants them: int32, unless one is wider."""
    return [jnp.asarray(b, jnp.int32) for b in begin]


def _cut(x: Any, begin: list[Any], extent: list[int], step: list[int]) -> Any:
    if all(isinstance(b, int) for b in begin):
        return lax.slice(x, begin, [b + e for b, e in zip(begin, extent, strict=True)], step)
    block = lax.dynamic_slice(x, _index_type(begin), extent)
    return lax.slice(block, [0] * x.ndim, extent, step) if any(s > 1 for s in step) else block


@op("basic_index", where="", view=True, node=_basic_node)
def basic_index(input: Array, starts: Arrays, spec: tuple) -> Any:
    """The block at ``starts`` that ``spec`` describes: ``("i",)``, ``("s", count, step)``, ``("n",)``, ``(":",)`` per part."""
    return _cut(input, *_starts(spec, starts, input.shape)).reshape(_basic_shape(spec, input.shape))


@op("basic_put", where="", node="CopySlices")
def basic_put(input: Array, value: Array, starts: Arrays, spec: tuple) -> Any:
    """``input`` with ``value`` written into the block."""
    begin, extent, step = _starts(spec, starts, input.shape)
    target = _basic_shape(spec, input.shape)
    value = _broadcast_value(jnp.asarray(value).astype(input.dtype), target)
    kept = [(e - 1) // s + 1 if e else 0 for e, s in zip(extent, step, strict=True)]
    block = value.reshape(kept)
    if any(s > 1 for s in step):
        index = tuple(b + s * jnp.arange(k) for b, s, k in zip(begin, step, kept, strict=True))
        return input.at[jnp.ix_(*index)].set(block)
    return lax.dynamic_update_slice(input, block, _index_type(begin))


def _broadcast_value(value: Any, target: tuple[int, ...]) -> Any:
    while value.ndim > len(target) and value.shape[0] == 1:
        value = value[0]
    try:
        return jnp.broadcast_to(value, target)
    except ValueError:
        raise RuntimeError(
            f"The expanded size of the tensor ({target[-1] if target else 1}) must match the existing size "
            f"({value.shape[-1] if value.ndim else 1}) at non-singleton dimension {max(len(target) - 1, 0)}.  "
            f"Target sizes: {list(target)}.  Tensor sizes: {list(value.shape)}"
        ) from None


def _wrapped(indices: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Index arrays with negative positions counted from the end, narrow where the dimension is; None is a full slice."""
    out = []
    for dim, index in enumerate(indices):
        if index is None:
            out.append(slice(None))
        else:
            size = shape[dim]
            index = jnp.where(index < 0, index + size, index)
            out.append(index.astype(jnp.int32) if size < 2**31 else index)
    return tuple(out)


def _check_range(input: Any, indices: Any, **_: Any) -> None:
    for dim, index in enumerate(indices):
        if index is not None and not isinstance(index, jax.ShapeDtypeStruct) and index.size:
            host = np.asarray(index)
            low, high = int(host.min()), int(host.max())
            size = input.shape[dim]
            if low < -size or high >= size:
                bad = high if high >= size else low
                raise IndexError(f"index {bad} is out of bounds for dimension {dim} with size {size}")


def _broadcast_check(indices: Any) -> None:
    shapes = [i.shape for i in indices if i is not None]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(str(list(s)) for s in shapes)
        raise IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {listed}") from None


@op("index", where="", node="IndexBackward0", check=lambda input, indices: _check_range(input, indices))
def index(input: Array, indices: Arrays) -> Any:
    """``input[indices]`` with index tensors, None for the dimensions without one."""
    _broadcast_check(indices)
    return input.at[_wrapped(indices, input.shape)].get(mode="promise_in_bounds")


def _check_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> None:
    _check_range(input, indices)


@op("index_put", inplace=True, node="IndexPutBackward0", check=_check_put)
def index_put(input: Array, indices: Arrays, values: Array, accumulate: bool = False) -> Any:
    """``input`` with ``values`` at the index tensors; added up where positions repeat if ``accumulate``."""
    _broadcast_check(indices)
    where = _wrapped(indices, input.shape)
    target = jax.eval_shape(lambda x: x[where], input).shape
    values = _broadcast_value(jnp.asarray(values).astype(input.dtype), target)
    return input.at[where].add(values) if accumulate else input.at[where].set(values)


@op("mask_put", where="", node="IndexPutBackward0")
def mask_put(input: Array, mask: Array, value: Array) -> Any:
    """``input`` with the single ``value`` where ``mask`` (of the leading dimensions) is true."""
    mask = mask.reshape(mask.shape + (1,) * (input.ndim - mask.ndim))
    return jnp.where(mask, jnp.asarray(value).astype(input.dtype), input)


_basic_index, _basic_put, _index, _index_put, _mask_put = (
    Op(ops[name]) for name in ("basic_index", "basic_put", "index", "index_put", "mask_put")
)


def _is_int(item: Any) -> bool:
    if isinstance(item, bool | np.bool_):
        return False
    if isinstance(item, int | np.integer | SymNumber):
        return True
    return isinstance(item, Tensor) and item.ndim == 0 and item._value.dtype.kind in "iu"


def _as_index_tensor(item: Any) -> Any:
    if isinstance(item, Tensor):
        kind = item._value.dtype
        if kind.kind not in "iub":
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        return item
    if isinstance(item, range):
        item = list(item)
    if isinstance(item, list | tuple | np.ndarray | jax.Array):
        return _as_index_tensor(tensor(item)) if len(item) or not isinstance(item, list | tuple) else wrap(jnp.zeros((0,), jnp.int32))
    if isinstance(item, str):
        raise TypeError("only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got str)")
    raise TypeError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
        f"(got {type(item).__name__})"
    )


def _consumed(item: Any) -> int:
    """How many dimensions of the input an index item stands for."""
    if item is None or item is Ellipsis or isinstance(item, bool | np.bool_):
        return 0
    if isinstance(item, Tensor) and item._value.dtype.kind in "b":
        return item.ndim
    return 1


def _items(index: Any) -> list[Any]:
    if isinstance(index, tuple):
        items = list(index)
    elif isinstance(index, list) and any(isinstance(i, slice | Tensor | list | tuple) or i is None or i is Ellipsis for i in index) and len(index) < 32 and not all(isinstance(i, Tensor) and i.ndim == 0 for i in index):
        items = list(index) if any(isinstance(i, slice) or i is None or i is Ellipsis for i in index) else [index]
    else:
        items = [index]
    out = []
    for item in items:
        if item is None or item is Ellipsis or isinstance(item, slice | bool | np.bool_) or _is_int(item):
            out.append(item)
        else:
            out.append(_as_index_tensor(item))
    return out


def _position(at: Any, dim: int, size: int) -> Any:
    """A checked, non-negative int; a traced 0-dim tensor stays what it is."""
    if isinstance(at, Tensor):
        if isinstance(at._value, jax.core.Tracer):
            return at
        at = at.item()
    at = operator.index(at)
    if not -size <= at < size:
        raise IndexError(f"index {at} is out of bounds for dimension {dim} with size {size}")
    return at + size if at < 0 else at


def _slice(item: slice, size: int) -> tuple[int, int, int]:
    parts = [operator.index(p) if p is not None else None for p in (item.start, item.stop, item.step)]
    step = 1 if parts[2] is None else parts[2]
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step < 0:
        raise ValueError("step must be greater than zero")
    start, stop, _ = slice(parts[0], parts[1], step).indices(size)
    return start, max(0, -(-(stop - start) // step)), step


def _split(x: Tensor, raw: Any) -> tuple[list[Any], tuple[Any, ...], list[Any]]:
    """Basic starts, basic spec, and the index tensors for the dimensions that are left."""
    items = _items(raw)
    shape = x._value.shape
    used = sum(_consumed(i) for i in items)
    if used > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    if sum(i is Ellipsis for i in items) == 0:
        items.append(Ellipsis)
    starts: list[Any] = []
    spec: list[Any] = []
    tensors: list[Any] = []
    dim = 0
    seen_ellipsis = False
    for item in items:
        if item is Ellipsis:
            if not seen_ellipsis:
                skipped = len(shape) - used
                spec += [(":",)] * skipped
                tensors += [None] * skipped
                dim += skipped
                seen_ellipsis = True
        elif item is None:
            spec.append(("n",))
            tensors.append(None)
        elif isinstance(item, bool | np.bool_):
            spec.append(("n",))
            tensors.append(tensor([bool(item)]))
        elif _is_int(item):
            if not shape:
                raise IndexError(
                    "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert "
                    "a 0-dim tensor to a number"
                )
            starts.append(_position(item, dim, shape[dim]))
            spec.append(("i",))
            dim += 1
        elif isinstance(item, slice):
            start, count, step = _slice(item, shape[dim])
            if count == shape[dim] and step == 1:
                spec.append((":",))
            else:
                starts.append(start)
                spec.append(("s", count, step if count > 1 else 1))
            tensors.append(None)
            dim += 1
        else:
            _check_mask(item, shape, dim)
            wide = item.ndim if item._value.dtype.kind == "b" else 1
            spec += [(":",)] * wide
            tensors.append(item)
            tensors += [_TAKEN] * (wide - 1)
            dim += wide
    return starts, tuple(spec), tensors


_TAKEN = object()  # a dimension that the mask before it covers


def _check_mask(item: Tensor, shape: tuple[int, ...], dim: int) -> None:
    if item._value.dtype.kind != "b":
        return
    for k, n in enumerate(item.shape):
        if n != shape[dim + k]:
            raise IndexError(
                f"The shape of the mask {list(item.shape)} at index {k} does not match the shape of the indexed tensor "
                f"{list(shape)} at index {dim + k}"
            )


def _nonzero(mask: Tensor, what: str) -> list[Tensor]:
    if isinstance(mask._value, jax.core.Tracer):
        raise RuntimeError(
            f"{what} with a boolean mask has a shape that depends on values, which a compiled function cannot have. Use "
            "torch.where(mask, x, other), or multiply by the mask."
        )
    with storage.x64():
        return [wrap(jnp.asarray(i)) for i in np.nonzero(np.asarray(mask._value))]


def _index_tensors(tensors: list[Any], what: str) -> list[Any]:
    """Masks replaced by the positions where they are true; trailing Nones dropped."""
    out: list[Any] = []
    for item in tensors:
        if item is _TAKEN:
            continue
        if item is not None and item._value.dtype.kind == "b":
            out += _nonzero(item, what)
        elif item is not None and item._value.dtype == np.uint8:
            out += _nonzero(item != 0, what)
        else:
            out.append(item)
    while out and out[-1] is None:
        out.pop()
    return out


def getitem(x: Tensor, raw: Any) -> Tensor:
    """``x[raw]``."""
    starts, spec, tensors = _split(x, raw)
    advanced = any(t is not None for t in tensors)
    result = x
    if not advanced or any(part[0] != ":" for part in spec):
        result = _basic_index(x, starts, spec)
    return _index(result, _index_tensors(tensors, "x[mask]")) if advanced else result


def setitem(x: Tensor, raw: Any, value: Any) -> None:
    """``x[raw] = value``."""
    x._check_inplace()
    if not isinstance(value, Tensor | int | float | complex | SymNumber):
        value = tensor(value, dtype=x.dtype)
    starts, spec, tensors = _split(x, raw)
    if all(t is None for t in tensors):
        x._take(_basic_put(x, value, starts, spec))
        return
    masks = [t for t in tensors if t is not None and t is not _TAKEN]
    scalar = not isinstance(value, Tensor) or value.numel() == 1
    if scalar and len(masks) == 1 and masks[0]._value.dtype.kind == "b" and tensors[0] is masks[0] and all(p[0] == ":" for p in spec):
        value = value.reshape(()) if isinstance(value, Tensor) else value  # type: ignore[attr-defined]
        x._take(_mask_put(x, masks[0], value))
        return
    target = x
    if any(part[0] != ":" for part in spec):
        target = _basic_index(x, starts, spec)
    target._take(_index_put(target, _index_tensors(tensors, "x[mask] = values"), value))


Tensor.__getitem__ = getitem  # type: ignore[attr-defined]
Tensor.__setitem__ = setitem  # type: ignore[attr-defined]
