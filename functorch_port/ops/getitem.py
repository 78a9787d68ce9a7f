"""Indexing: ``x[...]`` and ``x[...] = v`` in PyTorch's forms.

As in PyTorch, an index is split: first the basic parts (ints, slices, None, Ellipsis), which give a view, then index
tensors and masks. Positions are dynamic arguments, so ``x[i]`` for a thousand ``i`` is one program.
"""

from __future__ import annotations

import itertools
import operator
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array import executor, tracing
from .._array.fits import ASSIGNED
from .._array.refusal import outside, refuse
from .._array.sizes import SymSize, is_same_size, sized
from .._array.symbolic import SymNumber
from .._base import dtypes, memory, sizes
from .._run import bind
from .._run.call import Op
from .._run.inplace import VIEW_OF_LEAF_INPLACE
from .._run.registry import Array, Arrays, composite, op, ops
from .._tensor import grad_mode
from .._tensor.creation import tensor
from .._tensor.tensor import Tensor, wrap
from .._tensor.view import PLAIN
from ._common import add_at, check_expand, choose, put_at, type_name
from .cast import cast_array

__all__ = ["getitem", "setitem"]

_grad = grad_mode.state
_NODE_OF = {"i": "SelectBackward0", "s": "SliceBackward0", "n": "UnsqueezeBackward0", ":": "AliasBackward0"}


def _basic_node(static: dict[str, Any]) -> str:
    """The node's name: PyTorch applies the parts in turn, and the last one with an effect gives the name."""
    acting = [part[0] for part in static["spec"] if part[0] != ":"]
    return _NODE_OF[acting[-1] if acting else ":"]


def _starts(
    spec: tuple[Any, ...], starts: Any, shape: tuple[int, ...]
) -> tuple[list[Any], list[int], list[int]]:
    """The start, extent and step of the block of a basic index, per dimension of the input."""
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
    """The start positions in one dtype, as `lax` requires: int32, unless one is wider."""
    return [jnp.asarray(b, jnp.int32) for b in begin]


def _cut(x: Any, begin: list[Any], extent: list[int], step: list[int]) -> Any:
    if all(isinstance(b, int) for b in begin):
        return lax.slice(x, begin, [b + e for b, e in zip(begin, extent, strict=True)], step)
    block = lax.dynamic_slice(x, _index_type(begin), extent, allow_negative_indices=False)
    return lax.slice(block, [0] * x.ndim, extent, step) if any(s > 1 for s in step) else block


@op("basic_index", where="", view=True, node=_basic_node)
def basic_index(input: Array, starts: Arrays, spec: tuple) -> Any:
    """The block at ``starts``; parts of ``spec``: ``("i",)``, ``("s", count, step)``, ``("n",)``, ``(":",)``."""
    return _cut(input, *_starts(spec, starts, input.shape)).reshape(_basic_shape(spec, input.shape))


@op("basic_put", where="", node="CopySlices", edges=("input", "value"), fits={"value": ASSIGNED})
def basic_put(input: Array, value: Array, starts: Arrays, spec: tuple) -> Any:
    """``input`` with ``value`` written into the block."""
    begin, extent, step = _starts(spec, starts, input.shape)
    target = _basic_shape(spec, input.shape)
    value = _cast_value(value, input.dtype)
    value = value.reshape(value.shape[_leading_ones(value.shape, len(target)) :])
    if value.ndim > len(target):
        raise RuntimeError(
            f"expand(torch.{type_name(value)}Tensor{{{list(value.shape)}}}, size={list(target)}): the number "
            f"of sizes provided ({len(target)}) must be greater or equal to the number of dimensions in the "
            f"tensor ({value.ndim})"
        )
    check_expand(value.shape, target)
    value = jnp.broadcast_to(value, target)
    kept = [(e - 1) // s + 1 if e else 0 for e, s in zip(extent, step, strict=True)]
    block = value.reshape(kept)
    if any(s > 1 for s in step):
        index = tuple(b + s * jnp.arange(k) for b, s, k in zip(begin, step, kept, strict=True))
        return input.at[jnp.ix_(*index)].set(block)
    return lax.dynamic_update_slice(input, block, _index_type(begin), allow_negative_indices=False)


def _cast_value(value: Any, np_dtype: np.dtype[Any]) -> Any:
    """An assigned value, cast to the dtype of its target."""
    return cast_array(jnp.asarray(value), np_dtype)


def _wrapped(indices: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Index arrays with negative positions wrapped, as int32 where the dimension allows; None is a full slice."""
    out: list[Any] = []
    for dim, index in enumerate(indices):
        if index is None:
            out.append(slice(None))
        else:
            size = shape[dim]
            index = choose(index < 0, index + size, index)
            out.append(index.astype(jnp.int32) if size < 2**31 else index)
    return tuple(out)


def _check_range(input: Any, indices: Any, **_: Any) -> None:
    given = [(index, input.shape[dim]) for dim, index in enumerate(indices) if index is not None]
    for at, (index, size) in enumerate(given):  # PyTorch counts the dimensions that are indexed
        if index.size and not size and not isinstance(index, jax.ShapeDtypeStruct):
            raise IndexError("index is out of bounds for dimension with size 0")
        refuse(partial(outside, low=-size, high=size), partial(_out_of_bounds, at, size), index)


def _out_of_bounds(dim: int, size: int, index: Any) -> Exception:
    low, high = int(index.min()), int(index.max())
    worst = high if high >= size else low
    return IndexError(f"index {worst} is out of bounds for dimension {dim} with size {size}")


def _broadcast_check(indices: Any) -> None:
    shapes = [i.shape for i in indices if i is not None]
    try:
        sizes.broadcast(*shapes)
    except ValueError:
        listed = ", ".join(str(list(s)) for s in shapes)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {listed}"
        ) from None


@op(
    "_index",
    where="",
    node="IndexBackward0",
    edges=("input",),
    check=lambda input, indices: _check_range(input, indices),
)
def index_(input: Array, indices: Arrays) -> Any:
    """``input[indices]`` with index tensors, and None for dimensions without one."""
    _broadcast_check(indices)
    return input.at[_wrapped(indices, input.shape)].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _check_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> None:
    _check_range(input, indices)


@op(
    "_index_put",
    where="",
    node="IndexPutBackward0",
    edges=("input", "values"),
    check=_check_put,
    fits={"values": ASSIGNED},
)
def index_put_(input: Array, indices: Arrays, values: Array, accumulate: bool = False) -> Any:
    """``input`` with ``values`` at the index tensors; added up where positions repeat if ``accumulate``."""
    _broadcast_check(indices)
    values = jnp.asarray(values, input.dtype if isinstance(values, bool) else None)
    where = _wrapped(indices, input.shape)
    target = jax.eval_shape(lambda x: x[where], input).shape
    names = [dtypes.from_np(d).scalar_name for d in (input.dtype, values.dtype)]
    matches = values.dtype == input.dtype or values.weak_type
    values = _cast_value(values, input.dtype) if matches else values
    values = values.reshape(values.shape[_leading_ones(values.shape, len(target)) :])
    try:
        values = jnp.broadcast_to(values, target)
    except ValueError:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing "
            f"result of shape {list(target)}"
        ) from None
    if not matches:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {names[0]} for the destination "
            f"and {names[1]} for the source."
        )
    return (add_at if accumulate else put_at)(input, where, values)


def _leading_ones(shape: Any, ndim: int) -> int:
    """The number of leading dimensions of size 1 to drop to get to ``ndim``."""
    count = 0
    while len(shape) - count > ndim and shape[count] == 1:
        count += 1
    return count


@op("mask_put", where="", node="IndexPutBackward0", edges=("input", "value"), fits={"value": ASSIGNED})
def mask_put(input: Array, mask: Array, value: Array) -> Any:
    """``input`` with one ``value`` where ``mask``, over the leading dimensions, is True."""
    mask = mask.reshape(mask.shape + (1,) * (input.ndim - mask.ndim))
    return jnp.where(mask, _cast_value(value, input.dtype), input)


_basic_index, _basic_put, _index, _index_put, _mask_put = (
    Op(ops[name]).call for name in ("basic_index", "basic_put", "_index", "_index_put", "mask_put")
)


# ------------------------------------------------------- reading an index


def _is_int(item: Any) -> bool:
    if isinstance(item, bool | np.bool_):
        return False
    if isinstance(item, int | np.integer | SymNumber):
        return True
    return (
        isinstance(item, Tensor) and item.ndim == 0 and item._aval().dtype.kind in "iu" and not _is_mask(item)
    )


def _as_index_tensor(item: Any) -> Tensor:
    if isinstance(item, Tensor):
        if item._aval().dtype.name not in ("int64", "int32", "uint8", "bool"):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        return item
    if isinstance(item, str):
        raise TypeError("new(): invalid data type 'str'")
    if isinstance(item, range):
        item = list(item)
    if isinstance(item, list | tuple | np.ndarray | jax.Array):
        if len(item) or not isinstance(item, list | tuple):
            return _as_index_tensor(tensor(item))
        with tracing.x64():
            return wrap(jnp.zeros((0,), jnp.int64))
    kind = type(item)
    name = (
        kind.__name__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__name__}"
    )
    raise IndexError(
        f"only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {name})"
    )


def _is_mask(item: Any) -> bool:
    return isinstance(item, Tensor) and item._aval().dtype.name in ("bool", "uint8")


def _consumed(item: Any) -> int:
    """The number of dimensions of the input that an index item consumes."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.ndim if _is_mask(item) else 1


def _items(index: Any) -> list[Any]:
    """The parts of an index: those of a tuple, or of a short list that has more than numbers."""
    parts = [index]
    if isinstance(index, tuple):
        parts = list(index)
    elif isinstance(index, list) and len(index) < 32:
        if any(
            isinstance(i, Tensor | slice | list | tuple | str | range) or i is None or i is Ellipsis
            for i in index
        ):
            parts = index
    return [
        item
        if item is None or item is Ellipsis or isinstance(item, slice | bool) or _is_int(item)
        else _as_index_tensor(item)
        for item in parts
    ]


def _position(at: Any, dim: int, size: int) -> Any:
    """A checked, non-negative int; a traced 0-dim tensor is unchanged."""
    if isinstance(at, Tensor):
        if isinstance(at._look(), jax.core.Tracer):
            refuse(partial(outside, low=-size, high=size), partial(_out_of_bounds, dim, size), at._look())
            return at
        at = at.item()
    at = at if type(at) is SymSize else operator.index(at)
    if not -size <= at < size:
        raise IndexError(f"index {at} is out of bounds for dimension {dim} with size {size}")
    return at + size if at < 0 else at


def _slice(item: slice, size: int) -> tuple[int, int, int]:
    try:
        parts: list[Any] = [
            p if p is None or type(p) is SymSize else operator.index(p)
            for p in (item.start, item.stop, item.step)
        ]
    except TypeError:
        raise TypeError("slice indices must be integers or None or have an __index__ method") from None
    step = 1 if parts[2] is None else parts[2]
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step < 0:
        raise ValueError("step must be greater than zero")
    if SymSize in map(type, (*parts, size)):
        start: Any = _clipped(parts[0], 0, size)
        stop: Any = _clipped(parts[1], size, size)
    else:
        start, stop, _ = slice(parts[0], parts[1], step).indices(size)
    return start, max(0, -(-(stop - start) // step)), step


def _clipped(position: Any, default: Any, size: Any) -> Any:
    """Where a slice begins or ends; as Python has it, for sizes that are not known."""
    if position is None:
        return default
    if position < 0:
        position = position + size
    return 0 if position < 0 else size if position > size else position


def _split(x: Tensor, raw: Any) -> tuple[list[Any], tuple[Any, ...], list[Any]]:
    """The starts and spec of the basic part, and the index tensors for the remaining dimensions."""
    shape = x._aval().shape
    if tracing.overlay:
        shape = sized(shape)
    plain = _plain(raw, shape)
    if plain is not None:
        return *plain, []
    items = _items(raw)
    used = sum(_consumed(i) for i in items)
    if used > len(shape):
        raise IndexError(
            f"too many indices for tensor of dimension {len(shape)}" if shape else _scalar_refusal(raw)
        )
    if Ellipsis not in [i for i in items if not isinstance(i, Tensor)]:
        items.append(Ellipsis)
    starts: list[Any] = []
    spec: list[Any] = []
    tensors: list[Any] = []
    dim = 0
    skipped = len(shape) - used
    for item in items:
        if item is Ellipsis:
            spec += [(":",)] * skipped
            tensors += [None] * skipped
            dim += skipped
            skipped = 0
        elif item is None:
            spec.append(("n",))
            tensors.append(None)
        elif isinstance(item, bool):
            spec.append(("n",))
            tensors.append(_one_or_none(item))
        elif _is_int(item):
            starts.append(_position(item, dim, shape[dim]))
            spec.append(("i",))
            dim += 1
        elif isinstance(item, slice):
            start, count, step = _slice(item, shape[dim])
            if isinstance(raw, tuple) and step == 1 and is_same_size(count, shape[dim]):
                spec.append((":",))
            else:
                starts.append(start)
                spec.append(("s", count, step))
            tensors.append(None)
            dim += 1
        else:
            wide = item.ndim if _is_mask(item) else 1
            _check_mask(item, shape, dim)
            spec += [(":",)] * wide if wide else [("n",)]
            tensors.append(item if wide else item.reshape(1))  # type: ignore[attr-defined]
            tensors += [_TAKEN] * (wide - 1)
            dim += wide
    return starts, tuple(spec), tensors


def _plain(raw: Any, shape: tuple[int, ...]) -> tuple[list[Any], tuple[Any, ...]] | None:
    """The starts and spec of an index that has only valid integers and slices, else None."""
    items = raw if type(raw) is tuple else (raw,)
    if len(items) > len(shape):
        return None
    starts: list[Any] = []
    spec: list[Any] = []
    for item, size in zip(items, shape, strict=False):
        if type(item) is int:
            if not -size <= item < size:
                return None
            starts.append(item + size if item < 0 else item)
            spec.append(_ONE)
        elif type(item) is slice and item.step is None:
            if SymSize in (type(size), type(item.start), type(item.stop)):
                return None
            try:
                start, stop, _ = item.indices(size)
            except TypeError:
                return None
            if stop - start == size and items is raw:
                spec.append(_ALL)
            else:
                starts.append(start)
                spec.append(("s", max(0, stop - start), 1))
        else:
            return None
    spec += [_ALL] * (len(shape) - len(items))
    return starts, tuple(spec)


_ONE, _ALL = ("i",), (":",)


def _scalar_refusal(raw: Any) -> str:
    if isinstance(raw, slice):
        return "slice() cannot be applied to a 0-dim tensor."
    if _is_int(raw):
        return (
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
            "convert a 0-dim tensor to a number"
        )
    return "too many indices for tensor of dimension 0"


def _one_or_none(flag: bool) -> Tensor:
    """The index into a new dimension of size 1 that keeps all or nothing."""
    with tracing.x64():
        return wrap(jnp.zeros((int(flag),), jnp.int64))


_TAKEN = object()  # a dimension that the mask before it covers


def _check_mask(item: Tensor, shape: tuple[int, ...], dim: int) -> None:
    if not _is_mask(item):
        return
    for k, n in enumerate(item.shape):
        if n != shape[dim + k]:
            raise IndexError(
                f"The shape of the mask {list(item.shape)} at index {k} does not match the shape of the "
                f"indexed tensor {list(shape)} at index {dim + k}"
            )


def _nonzero(mask: Tensor, what: str) -> list[Tensor]:
    if isinstance(mask._look(), jax.core.Tracer):
        raise RuntimeError(
            f"{what} with a boolean mask has a shape that depends on values, which a compiled function "
            "cannot have. Use torch.where(mask, x, other), or multiply by the mask."
        )
    if mask.is_meta:
        raise NotImplementedError(
            f"{what} with a boolean mask has a shape that depends on values, which meta tensors do not have"
        )
    host = memory.run(np.asarray, (mask._look(),))
    with tracing.x64():
        return [wrap(executor.current.place(i)) for i in np.nonzero(np.atleast_1d(host))]


def _warn_of_bytes(mask: Tensor) -> None:
    if mask.dtype is dtypes.uint8:
        warnings.warn(
            "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
            stacklevel=4,
        )


def _index_tensors(tensors: list[Any], what: str) -> list[Any]:
    """The index tensors, with masks replaced by their nonzero positions and without trailing Nones."""
    out: list[Any] = []
    for item in tensors:
        if item is _TAKEN:
            continue
        if item is not None and _is_mask(item):
            _warn_of_bytes(item)
            out += _nonzero(item, what)
        else:
            out.append(item)
    while out and out[-1] is None:
        out.pop()
    return out


# ----------------------------------------------------------- x[...], x[...] = v


def getitem(x: Tensor, raw: Any) -> Tensor:
    """``x[raw]``."""
    starts, spec, tensors = _split(x, raw)
    if not tensors:
        return _basic_index(x, starts, spec)
    advanced = any(t is not None for t in tensors)
    result = x
    if not advanced or any(part[0] != ":" for part in spec):
        result = _basic_index(x, starts, spec)
    return _index(result, _index_tensors(tensors, "x[mask]")) if advanced else result


def setitem(x: Tensor, raw: Any, value: Any) -> None:
    """``x[raw] = value``."""
    if not isinstance(value, Tensor | int | float | complex | SymNumber | np.integer | jax.Array):
        kind = type(value)
        name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        raise TypeError(
            f"can't assign a {name.replace('functorch_port._base.size', 'torch')} to a {x.type()}"
        )  # type: ignore[attr-defined]
    starts, spec, tensors = _split(x, raw)
    whole = all(part[0] == ":" for part in spec) or (isinstance(raw, slice) and raw == slice(None))
    if _grad.enabled and x._requires_grad and not whole and x._base is None and x._grad_fn is None:
        raise RuntimeError(VIEW_OF_LEAF_INPLACE)
    if all(t is None for t in tensors):
        _set_block(x, value, starts, spec, whole)
        return
    masks = [t for t in tensors if t is not None and t is not _TAKEN]
    scalar = not isinstance(value, Tensor) or value.numel() == 1
    if whole and scalar and len(masks) == 1 and _is_mask(masks[0]) and tensors[0] is masks[0]:
        if masks[0].dtype is dtypes.uint8:
            raise RuntimeError(
                "masked_fill_ only supports boolean masks, but got mask with dtype unsigned char"
            )
        x._check_inplace(value, name="masked_fill_")
        value = value.reshape(()) if isinstance(value, Tensor) and value.ndim else value  # type: ignore[attr-defined]
        x._take(_mask_put(x, masks[0], value))
        return
    target = x if whole else _basic_index(x, starts, spec)
    target._check_inplace(value, name="index_put_")
    target._take(_index_put(target, _index_tensors(tensors, "x[mask] = values"), value))


def _set_block(x: Tensor, value: Any, starts: list[Any], spec: tuple[Any, ...], whole: bool) -> None:
    """Assign to a block: one operation in the simple case, else a copy into the view of the block."""
    shared = isinstance(value, Tensor) and value._storage is x._storage
    if not shared and (x._view is None or (x._view.origin is PLAIN and not x._overlaps())):
        x._check_inplace()
        x._take(_basic_put(x, value, starts, spec))
        return
    if x._base is None:
        x._check_history()
    target = x if whole and not shared else _basic_index(x, starts, spec)
    same = shared and target._view.same_as(value._view)
    source = _expanded(value, target.shape) if shared and not same else value
    if same or (shared and target._is_look_of(source)):
        target._check_history()
        target._touch()  # x[i] += 1 ends here: it wrote through the view already
        if x._base is not None and target.is_set_to(x) and not x._is_stale():
            x._sync_view()
        return
    target._check_inplace(source)
    target._take(_basic_put(target, value, [], ((":",),) * target.ndim))


def _expanded(value: Tensor, shape: Sequence[int]) -> Any:
    """A value, expanded as PyTorch does before it copies into a block, even onto repeated elements."""
    if value.shape == shape or not value.ndim:
        return value if value.ndim else None
    sizes = tuple(itertools.dropwhile(lambda n: n == 1, value.shape))
    try:
        return bind.function("expand")(value.view(sizes), shape)  # type: ignore[attr-defined]
    except RuntimeError:  # of another shape, which is for the assignment to say
        return None


def _index_put_public(self: Tensor, indices: Any, values: Any, accumulate: bool) -> Tensor:
    listed: list[Any] = []
    if not len(indices):
        raise RuntimeError("sym_strides() called on an undefined Tensor")
    for item in indices:
        converted = item if item is None else _as_index_tensor(item)
        _check_mask(converted, self.shape, len(listed)) if converted is not None else None
        listed += (
            [converted] if converted is None or not _is_mask(converted) else _nonzero(converted, "index_put")
        )
    return _index_put(self, listed, values, accumulate)


@composite("index_put")
def index_put(input: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """``input`` with ``values`` at the index tensors or masks; added up where positions repeat if ``accumulate``."""
    return _index_put_public(input, indices, values, accumulate)


@composite("index_put_")
def index_put_inplace(input: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """In-place version of `index_put`."""
    input._check_inplace(values, name="index_put_")
    return input._take(_index_put_public(input, indices, values, accumulate))


def delitem(x: Tensor, raw: Any) -> None:
    """Not supported."""
    raise TypeError("Tensor does not support deleting items")


Tensor.__getitem__ = getitem  # type: ignore[attr-defined]
Tensor.__setitem__ = setitem  # type: ignore[attr-defined]
Tensor.__delitem__ = delitem  # type: ignore[attr-defined]
