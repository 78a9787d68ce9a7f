"""Sparse tensors in coordinate form (COO), a small class of their own.

A `SparseTensor` is a pair of dense tensors, indices ``(sparse_dim, n)`` and values ``(n, ...)``, with a shape, and
the knowledge whether the indices are sorted and distinct ("coalesced"). It has no Storage. An operation that reads
the array of its arguments finds `NoStorage` there; `run` then looks for a sparse version of the operation, or
refuses.

Entries may be *left out*: their first index is the size of the first dimension, so that a scatter drops them. They
make room: gradients of a table have the same number of entries whatever is padding, and results of a merge have a
power of two of them, so that what follows is not compiled for every number. Whoever looks at the indices or values
never sees them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array import storage
from .._base import dtypes
from .._base.layout import SparseOperand, sparse_coo
from .._base.size import Size
from .._base.tuning import tuning
from .._tensor.overriding import disabled
from .._tensor.tensor import Tensor, wrap
from . import bind

__all__ = ["SparseTensor", "linear_index", "run", "sparse_coo_tensor"]

ADD_DENSE = "add(sparse, dense) is not supported. Use add(dense, sparse) instead."


class NoStorage:
    """What a sparse tensor has in place of a Storage."""

    __slots__ = ("__weakref__",)
    version = 0

    @property
    def _value(self) -> Any:
        raise SparseOperand

    value = host = _value

    def look(self) -> Any:
        raise SparseOperand

    on_host = peek = aval = look


class SparseTensor(Tensor):
    """A tensor of layout `torch.sparse_coo`; made by `sparse_coo_tensor`, `Tensor.to_sparse` and sparse embeddings.

    It takes part in sums, differences, products with numbers, matrix products, and reductions to a sum; its values
    may have a history. What else is to be done with it, `to_dense` first.

    Reference: https://docs.pytorch.org/docs/stable/sparse.html
    """

    is_sparse = True
    __torch_function__ = disabled  # type: ignore[assignment]

    _ids: Tensor
    _vals: Tensor
    _size: tuple[int, ...]
    _coalesced: bool
    _loose: bool

    @classmethod
    def _make(
        cls, ids: Tensor, vals: Tensor, size: Sequence[int], coalesced: bool = False, loose: bool = False
    ) -> SparseTensor:
        """``loose`` says that entries may be left out."""
        new: SparseTensor = object.__new__(cls)
        new._view = new._base = new._grad_fn = new._grad = new._accumulator = None
        new._requires_grad, new._output_nr = False, 0
        new._storage = NoStorage()  # type: ignore[assignment]
        new._hold(ids, vals, coalesced, loose)
        new._size = tuple(size)
        if storage.overlay:
            storage.overlay.note_made(new)
        return new

    def _hold(self, ids: Tensor, vals: Tensor, coalesced: bool, loose: bool) -> None:
        self._ids, self._vals, self._coalesced, self._loose = ids, vals, coalesced, loose

    def _with(self, vals: Tensor) -> SparseTensor:
        """The same entries with other values."""
        return SparseTensor._make(self._ids, vals, self._size, self._coalesced, self._loose)

    # ------------------------------------------------------------ what it holds

    def _trim(self) -> None:
        """Do away with entries that are left out."""
        if self._loose:
            ids = _on_host(self._ids)
            keep = np.flatnonzero(ids[0] < self._size[0])
            if len(keep) < ids.shape[1]:
                kept = _device(keep)
                self._vals = (
                    self._vals.index_select(0, kept)  # type: ignore[attr-defined]
                    if self._vals.requires_grad
                    else _device(np.asarray(self._vals._value)[keep])
                )
                self._ids = _device(ids[:, keep])
            self._loose = False

    def _nnz(self) -> int:
        """Number of entries."""
        self._trim()
        return self._ids.shape[1]

    def _indices(self) -> Tensor:
        """The indices (sparse_dim, nnz), coalesced or not."""
        self._trim()
        return self._ids

    def _values(self) -> Tensor:
        """The values (nnz, ...), coalesced or not; writing to them changes this tensor."""
        self._trim()
        return self._vals

    def indices(self) -> Tensor:
        """The indices (sparse_dim, nnz) of a coalesced tensor."""
        return self._need_coalesced("indices")._indices()

    def values(self) -> Tensor:
        """The values (nnz, ...) of a coalesced tensor."""
        return self._need_coalesced("values")._values()

    def _need_coalesced(self, what: str) -> SparseTensor:
        if not self._coalesced:
            raise RuntimeError(f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first")
        return self

    def is_coalesced(self) -> bool:
        """Whether the indices are known to be sorted and distinct."""
        return self._coalesced

    def coalesce(self) -> SparseTensor:
        """This tensor with sorted indices, and the values of equal indices summed; itself if it is coalesced."""
        if self._coalesced:
            return self
        ids, linear = self._host_indices()
        _, first, inverse = np.unique(linear, return_index=True, return_inverse=True)
        return self._gathered(ids[:, first], len(first), [(self._values(), inverse)], True)

    def _host_indices(self) -> tuple[np.ndarray, np.ndarray]:
        """The indices on the host, and as positions in the flattened sparse dimensions."""
        self._trim()
        ids = _on_host(self._ids)
        return ids, linear_index(ids, self._size)

    def _gathered(
        self, ids: np.ndarray, n: int, parts: Sequence[tuple[Tensor, np.ndarray]], coalesced: bool
    ) -> SparseTensor:
        """``n`` entries with given indices, of which each is the sum of the parts' values that go there."""
        room = max(1, 1 << (n - 1).bit_length()) if n else 0
        filled = np.full((ids.shape[0], room), 0, np.int64)
        filled[:, :n] = ids
        filled[0, n:] = self._size[0]
        like = functools.reduce(lambda a, b: np.promote_types(a, b), [_np_dtype(v) for v, _ in parts])
        shape = (room, *self._size[ids.shape[0] :])
        if any(v.requires_grad for v, _ in parts):
            vals = wrap(_zeros(shape, like))
            for v, at in parts:
                vals = vals.index_add(0, _device(at), v.to(dtypes.from_np(like)))  # type: ignore[attr-defined]
        else:
            sums = np.zeros(shape, like)
            for v, at in parts:
                np.add.at(sums, at, np.asarray(v._value).astype(like, copy=False))
            vals = _device(sums)
        return SparseTensor._make(_device(filled), vals, self._size, coalesced, room > n)

    def sparse_dim(self) -> int:
        """Number of dimensions that are indexed."""
        return self._ids.shape[0]

    def dense_dim(self) -> int:
        """Number of dimensions that each value has."""
        return len(self._size) - self._ids.shape[0]

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        """The dense tensor with the same elements; differentiable with respect to the values."""
        if dtype is not None:
            raise RuntimeError("dtype argument is not supported by sparse_to_dense")
        return _run(_dense_plan(self._size), [self._vals, self._ids])

    def to_sparse(self, *args: Any, **kwargs: Any) -> SparseTensor:
        return self

    # ------------------------------------------------------- as other tensors

    @property
    def shape(self) -> Size:
        return Size(self._size)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self._size[self._wrap_dim(dim)]

    def _wrap_dim(self, dim: int) -> int:
        n = len(self._size)
        if not -n <= dim < n:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
            )
        return dim

    @property
    def ndim(self) -> int:
        return len(self._size)

    def dim(self) -> int:
        return len(self._size)

    ndimension = dim

    def numel(self) -> int:
        return math.prod(self._size)

    nelement = numel

    def __len__(self) -> int:
        return self._size[0]

    @property
    def dtype(self) -> dtypes.dtype:
        return self._vals.dtype

    @property
    def itemsize(self) -> int:
        return self._vals.itemsize

    def element_size(self) -> int:
        return self._vals.itemsize

    @property
    def device(self) -> Any:
        return self._vals.device

    @property
    def layout(self) -> Any:
        return sparse_coo

    @property
    def _writes(self) -> int:
        return self._vals._writes

    def is_inference(self) -> bool:
        return self._vals.is_inference()

    def stride(self, dim: int | None = None) -> Any:
        return (0,) * self.ndim if dim is None else 0

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return False

    def is_same_size(self, other: Tensor) -> bool:
        return self.shape == other.shape

    def data_ptr(self) -> int:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def untyped_storage(self) -> Any:
        raise NotImplementedError("Cannot access storage of SparseTensorImpl")

    storage = _typed_storage = untyped_storage

    @property
    def requires_grad(self) -> bool:
        return self._vals.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        if requires_grad and not self.requires_grad:
            raise NotImplementedError(
                "a sparse tensor cannot be a leaf that requires grad; make it from values that require grad"
            )
        if not requires_grad:
            self._vals = self._vals.detach()
        return self

    @property
    def grad_fn(self) -> Any:
        return self._vals.grad_fn

    def detach(self) -> SparseTensor:
        return self._with(self._vals.detach())

    def detach_(self) -> SparseTensor:
        self._vals = self._vals.detach()
        return self

    @property  # type: ignore[override]
    def data(self) -> SparseTensor:
        return self.detach()

    @data.setter
    def data(self, other: SparseTensor) -> None:
        self._hold(other._ids, other._vals.detach(), other._coalesced, other._loose)

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """With values of another dtype, or on another device."""
        vals = self._vals.to(*args, **kwargs)  # type: ignore[attr-defined]
        if vals is self._vals:
            return self
        new = self._with(vals)
        if vals.device != self._vals.device:
            new._ids = self._ids.to(vals.device)  # type: ignore[attr-defined]
        return new

    def type(self, dtype: Any = None, **kwargs: Any) -> Any:
        if dtype is None:
            return str(self._vals.type()).replace("torch.", "torch.sparse.")  # type: ignore[attr-defined]
        return self._with(self._vals.type(dtype))  # type: ignore[attr-defined]

    def _host(self, what: str) -> np.ndarray:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def numpy(self, *, force: bool = False) -> np.ndarray:
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        from .._tensor import printing

        return printing.sparse_repr(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        if id(self) not in memo:
            parts = self._ids.__deepcopy__(memo), self._vals.__deepcopy__(memo)
            memo[id(self)] = SparseTensor._make(*parts, self._size, self._coalesced, self._loose)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._trim()
        return SparseTensor._make, (self._ids, self._vals, self._size, self._coalesced)

    def pow(self, exponent: Any) -> SparseTensor:
        """The elements to a power that is a number."""
        if isinstance(exponent, Tensor):
            raise SparseOperand
        coalesced = self.coalesce()
        return coalesced._with(coalesced._vals.pow(exponent))  # type: ignore[attr-defined]

    __pow__ = pow

    # ------------------------------------------------------------------ in place

    def _check_inplace(self, *others: Any, name: str = "") -> None:
        pass

    def _take(self, out: Any, recorded: bool = True) -> SparseTensor:
        if not out.is_sparse or out.shape != self.shape:
            raise SparseOperand
        if out.dtype is not self.dtype:
            out = out.to(self.dtype)
        self._hold(out._ids, out._vals, out._coalesced, out._loose)
        return self

    def zero_(self) -> SparseTensor:
        """Take all entries away."""
        k = self.sparse_dim()
        empty = wrap(_zeros((0, *self._size[k:]), self._vals._value.dtype))
        self._hold(wrap(_zeros((k, 0), np.int64)), empty, True, False)
        return self


def _convert(name: str) -> Callable[..., Any]:
    def method(self: SparseTensor, *args: Any, **kwargs: Any) -> SparseTensor:
        return self.to(getattr(self._vals, name)(*args, **kwargs).dtype)

    method.__name__ = name
    return method


for _name in ("double", "float", "half", "bfloat16", "long", "int", "short", "char", "bool"):
    setattr(SparseTensor, _name, _convert(_name))


# ------------------------------------------------------------------- helpers


def linear_index(indices: Any, size: Sequence[int]) -> Any:
    """Indices ``(sparse_dim, n)`` as positions in the flattened sparse dimensions; works on numpy and JAX arrays.

    An entry that is left out gets a position past the end.
    """
    k = indices.shape[0]
    linear = (0 * indices).sum(0)  # zeros, of a 0-dim tensor too
    for row, n in zip(indices, size[:k]):
        linear = linear * n + row
    return linear


def _on_host(indices: Tensor) -> np.ndarray:
    if isinstance(indices._value, jax.core.Tracer):
        raise NotImplementedError(
            "the entries of a sparse tensor are not known while a function is being compiled: use .to_dense(), or "
            "look at them outside"
        )
    return np.asarray(indices._value)


def _device(array: np.ndarray) -> Tensor:
    return wrap(storage.put(array))


def _zeros(shape: Sequence[int], dtype: Any) -> Any:
    return storage.put(np.zeros(shape, dtype))


def _np_dtype(tensor: Tensor) -> Any:
    return tensor._value.dtype


def _run(plan: Any, arguments: Sequence[Any]) -> Tensor:
    from .run import run

    return run(plan, arguments)


@functools.lru_cache(tuning.cached_programs)
def _dense_plan(size: tuple[int, ...]) -> Any:
    def to_dense(values: Any, indices: Any) -> Any:
        return _scattered(jnp.zeros(size, values.dtype), indices, values)

    return _plan(to_dense, "ToDenseBackward0")


@functools.cache
def _add_plan() -> Any:
    def add(dense: Any, indices: Any, values: Any, alpha: Any) -> Any:
        dtype = jnp.result_type(dense, values)
        return _scattered(dense.astype(dtype), indices, values.astype(dtype) * jnp.asarray(alpha, dtype))

    return _plan(add, "AddBackward0")


@functools.lru_cache(tuning.cached_programs)
def _mm_plan(rows: int) -> Any:
    def mm(indices: Any, values: Any, dense: Any) -> Any:
        """Sums over the entries: ``out[i] += value * dense[j]``."""
        dtype = jnp.result_type(values, dense)
        factor = values.reshape(-1, *(1,) * (dense.ndim - 1)).astype(dtype)
        products = factor * dense.astype(dtype).at[indices[1]].get(mode="clip")
        return jnp.zeros((rows, *dense.shape[1:]), dtype).at[indices[0]].add(products, mode="drop")

    return _plan(mm, "MmBackward0")


def _plan(fn: Callable[..., Any], node: str) -> Any:
    from .plan import Plan

    return Plan(fn, fn.__name__, node)


def _scattered(dense: Any, indices: Any, values: Any) -> Any:
    """``dense`` plus the entries."""
    k = indices.shape[0]
    flat = dense.reshape(-1, *dense.shape[k:])
    places = flat.at[linear_index(indices, dense.shape)]
    sums = places.max if flat.dtype == bool else places.add
    return sums(values, mode="drop").reshape(dense.shape)


def _is_sparse(x: Any) -> bool:
    return isinstance(x, SparseTensor)


# ---------------------------------------------------------------- operations

#: sparse versions of operations by name, with their public arguments
_operations: dict[str, Callable[..., Any]] = {}


def run(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The sparse version of an operation, which was called with a sparse argument."""
    known = _operations.get(name)
    if known is None:
        raise NotImplementedError(
            f"Could not run 'aten::{name.lstrip('_')}' with arguments from the 'SparseCPU' backend. There is no "
            "version of it for sparse tensors here: use .to_dense()"
        )
    return known(*args, **kwargs)


def _operation(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        _operations.update(dict.fromkeys(names, fn))
        return fn

    return register


@_operation("add")
def _add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    if not _is_sparse(other) or not isinstance(input, Tensor):
        raise RuntimeError(ADD_DENSE)
    if not input.is_sparse:
        if input.shape != other.shape:
            raise RuntimeError(
                f"add: expected 'self' and 'other' to have same size, but self has size {list(input.shape)} while "
                f"other has size {list(other.shape)} (FYI: dense-sparse addition does not currently support "
                "broadcasting)"
            )
        return _run(_add_plan(), [input, other._ids, other._vals, alpha])
    if input.shape != other.shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(input.shape)} != {list(other.shape)}"
        )
    return _merged(input, other, alpha)


def _merged(a: Any, b: Any, alpha: Any) -> SparseTensor:
    """``a + alpha * b``: one pass over both in their order, where equal indices that meet become one entry."""
    both = a._coalesced and b._coalesced
    if a._ids is b._ids:
        return SparseTensor._make(a._ids, a._vals.add(b._vals, alpha=alpha), a._size, both, a._loose)
    if any(isinstance(t._value, jax.core.Tracer) for t in (a._ids, b._ids)):
        return _joined(a, b, alpha)
    stored = np.asarray(a._ids._value), np.asarray(b._ids._value)
    if stored[0].shape == stored[1].shape and (stored[0] == stored[1]).all():
        loose = a._loose or b._loose
        return SparseTensor._make(a._ids, a._vals.add(b._vals, alpha=alpha), a._size, both, loose)
    (ids, mine), (others, theirs) = a._host_indices(), b._host_indices()
    at_a, at_b, n = _merge_places(mine.tolist(), theirs.tolist())
    merged = np.empty((ids.shape[0], n), np.int64)
    merged[:, at_a] = ids
    merged[:, at_b] = others
    vals = b._values() if alpha == 1 else b._values() * alpha
    result = a._gathered(merged, n, [(a._values(), at_a), (vals, at_b)], both)
    return result.coalesce() if n > a.numel() else result


def _joined(a: Any, b: Any, alpha: Any) -> SparseTensor:
    """``a + alpha * b`` with the entries of both, for a trace, where equal indices are not known."""
    kind = jnp.promote_types(a._vals._value.dtype, b._vals._value.dtype)
    ids = jnp.concatenate([a._ids._value, b._ids._value], 1)
    vals = jnp.concatenate([a._vals._value.astype(kind), (b._vals * alpha)._value.astype(kind)])
    return SparseTensor._make(wrap(ids), wrap(vals), a._size, loose=a._loose or b._loose)


def _merge_places(a: list[int], b: list[int]) -> tuple[np.ndarray, np.ndarray, int]:
    """Where the entries of two index lists go when they are merged, and how many places there are."""
    at_a, at_b = [], []
    i = j = n = 0
    while i < len(a) and j < len(b):
        first, second = a[i], b[j]
        if first <= second:
            at_a.append(n)
            i += 1
        if second <= first:
            at_b.append(n)
            j += 1
        n += 1
    at_a += range(n, n + len(a) - i)
    at_b += range(n, n + len(b) - j)
    return np.array(at_a, np.int64), np.array(at_b, np.int64), n + len(a) - i + len(b) - j


@_operation("sub", "subtract")
def _sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    return _add(input, other, alpha=-alpha)


@_operation("mul", "multiply")
def _mul(input: Any, other: Any) -> Tensor:
    if not _is_sparse(input):
        input, other = other, input
    if not isinstance(other, Tensor) or (other.dim() == 0 and not other.is_sparse):
        return input._with(input._vals * other)
    if other.shape != input.shape:
        raise NotImplementedError("a sparse tensor times one of another shape: use .to_dense()")
    return input._with(input._values() * _sparse_mask(other.to_dense(), input)._vals)  # type: ignore[attr-defined]


@_operation("div", "divide", "true_divide")
def _div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    if not _is_sparse(input) or (isinstance(other, Tensor) and other.dim() != 0):
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(getattr(other, 'shape', ()))} for divisor)"
        )
    return input._with(input._vals.div(other, rounding_mode=rounding_mode))


@_operation("neg", "negative")
def _neg(input: Any) -> Tensor:
    return input._with(-input._vals)


@_operation("abs", "absolute")
def _abs(input: Any) -> Tensor:
    return (a := input.coalesce())._with(a._vals.abs())


@_operation("sqrt")
def _sqrt(input: Any) -> Tensor:
    return (a := input.coalesce())._with(a._vals.sqrt())


@_operation("clone")
def _clone(input: Any, **kwargs: Any) -> Tensor:
    return input._with(input._vals.clone())


@_operation("sum")
def _sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    if dim is not None:
        raise NotImplementedError(
            "the sum of a sparse tensor over some dimensions: use torch.sparse.sum, or .to_dense()"
        )
    return input._values().sum(dtype=dtype)


def sum_over(input: SparseTensor, dims: Sequence[int]) -> Tensor:
    """The sum over some dimensions: sparse, or dense if no sparse dimension is left."""
    ndim, k = input.dim(), input.sparse_dim()
    places: set[int] = set()
    for dim in dims:
        place = input._wrap_dim(dim) % ndim
        if place in places:
            raise RuntimeError(f"dim {place} appears multiple times in the list of dims")
        places.add(place)
    values = input._values()
    dense = [d - k + 1 for d in sorted(places) if d >= k]
    if dense:
        values = values.sum(dense)  # type: ignore[attr-defined]
    rows = [d for d in range(k) if d not in places]
    if not rows:
        return values.sum(0)  # type: ignore[attr-defined]
    ids = wrap(input._indices()._value[np.array(rows)])
    size = [n for d, n in enumerate(input._size) if d not in places]
    return SparseTensor._make(ids, values, size, input._coalesced and len(rows) == k).coalesce()


@_operation("norm")
def _norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    if dim is not None:
        raise NotImplementedError("the norm of a sparse tensor over some dimensions: use .to_dense()")
    return input.coalesce()._values().norm(p, dtype=dtype)


@_operation("t")
def _t(input: Any) -> Tensor:
    if input.dense_dim() or input.sparse_dim() > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {input.sparse_dim()} sparse and "
            f"{input.dense_dim()} dense dimensions"
        )
    return input if input.dim() < 2 else _transpose(input, 0, 1)


@_operation("transpose")
def _transpose(input: Any, dim0: int, dim1: int) -> Tensor:
    order = list(range(input.dim()))
    a, b = (input._wrap_dim(d) % input.dim() for d in (dim0, dim1))
    order[a], order[b] = b, a
    return _permute(input, *order)


@_operation("permute")
def _permute(input: Any, *dims: Any) -> Tensor:
    order = dims[0] if len(dims) == 1 and isinstance(dims[0], tuple | list) else dims
    order = [input._wrap_dim(d) % input.dim() for d in order]
    k = input.sparse_dim()
    if sorted(order) != list(range(input.dim())):
        raise RuntimeError("permute(sparse_coo): the dimensions must be a permutation of all of them")
    if order[k:] != list(range(k, input.dim())):
        raise NotImplementedError("transposing dense dimensions of a sparse tensor: use .to_dense()")
    ids = _device(np.asarray(input._indices()._value)[order[:k]])
    same = order == list(range(input.dim())) and input._coalesced
    return SparseTensor._make(ids, input._values(), [input._size[d] for d in order], same)


@_operation("copy")
def _copy(input: Any, src: Any, non_blocking: bool = False) -> Tensor:
    if not (input.is_sparse and _is_sparse(src)):
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{input.type()} and src type = {src.type()}"
        )
    return src.to(input.dtype)


@_operation("mm", "matmul", "mv")
def _mm(input: Any, other: Any) -> Tensor:
    if not _is_sparse(input):
        return _mm(_t(other), input.t()).t()  # type: ignore[attr-defined]
    if _is_sparse(other):
        raise NotImplementedError("the product of two sparse matrices: use .to_dense() of one of them")
    if input.sparse_dim() != 2 or input.dense_dim() or other.dim() not in (1, 2):
        raise NotImplementedError("sparse products are of a matrix and a matrix or vector: use .to_dense()")
    if input._size[1] != other.shape[0]:
        raise RuntimeError(
            "mv: expected self.size(-1) == vec.size(-1)"
            if other.dim() == 1
            else f"addmm: Argument #3 (dense): Expected dim 0 size {input._size[1]}, got {other.shape[0]}"
        )
    return _run(_mm_plan(input._size[0]), [input._ids, input._vals, other])


@_operation("addmm")
def _addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    if input.is_sparse:
        raise RuntimeError(
            "addmm_sparse_dense: expected strided result tensor, got tensor with layout Sparse"
        )
    return input * beta + _mm(mat1, mat2) * alpha


# ---------------------------------------------------------------------- making

#: whether `sparse_coo_tensor` checks ``is_coalesced`` where it is not told (indices are checked in any case)
check_invariants_by_default = False


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """A sparse tensor from the places and values of its entries.

    Args:
        indices: integers (sparse_dim, nnz): column ``i`` is where value ``i`` stands. They may repeat: the values
            are summed.
        values: (nnz, ...). If they require grad, so does the result.
        size: the shape; by default the smallest that holds all indices. Without values it makes a tensor of zeros.
        dtype, device: default: those of ``values``.
        requires_grad: not supported; require it on ``values``.
        check_invariants: also check what ``is_coalesced`` says; the indices are checked in any case.
        is_coalesced: whether the indices are sorted and distinct; by default only fewer than two are known to be.

    Raises:
        RuntimeError: if the shapes do not fit, or an index is out of range.

    Example:
        >>> import functorch_port as torch
        >>> torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 0.]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.sparse_coo_tensor.html
    """
    from .._tensor import creation

    if requires_grad:
        raise NotImplementedError(
            "sparse_coo_tensor(requires_grad=True): a sparse tensor cannot be a leaf; let the values require grad"
        )
    if values is None:
        size = indices if size is None else size
        if not isinstance(size, tuple):
            raise TypeError(
                "sparse_coo_tensor(): argument 'size' (position 1) must be tuple of ints, but found element of type "
                f"{type(size[0]).__name__ if isinstance(size, list) and size else type(size).__name__} at pos 0"
            )
        kind = (
            dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype, "sparse_coo_tensor")
        ).np
        none = wrap(_zeros((len(size), 0), np.int64)), wrap(_zeros((0,), kind))
        zeros = SparseTensor._make(*none, size, coalesced=True)
        return zeros if device is None else zeros.to(device=device)
    ids = creation.as_tensor(indices, device=device).to(dtypes.int64).detach()  # type: ignore[attr-defined]
    vals = creation.as_tensor(values, dtype=dtype, device=device)
    vals = vals if vals.requires_grad else vals.detach()
    if vals.dim() == 0:
        vals = vals.reshape(1)  # type: ignore[attr-defined]
    if ids.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(ids.shape)}")
    host = np.asarray(ids._value)
    if size is None:
        size = (*(int(n) + 1 for n in host.max(1, initial=-1)), *vals.shape[1:])
    _check(host, vals.shape, tuple(size))
    checked = check_invariants_by_default if check_invariants is None else check_invariants
    if is_coalesced and checked and (np.diff(linear_index(host, size)) <= 0).any():
        raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")
    return SparseTensor._make(ids, vals, size, host.shape[1] < 2 if is_coalesced is None else is_coalesced)


def _check(indices: np.ndarray, values: Sequence[int], size: tuple[int, ...]) -> None:
    k, n = indices.shape
    if k + len(values) - 1 != len(size):
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: "
            f"len(size) = {len(size)}, sparse_dim = {k}, dense_dim = {len(values) - 1}"
        )
    if n != values[0]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {n}, nnz from values: {values[0]}"
        )
    if tuple(values[1:]) != size[k:]:
        raise RuntimeError(f"values has incorrect size, expected {[n, *size[k:]]}, got {list(values)}")
    for d in range(k if n else 0):
        if indices[d].min() < 0:
            raise RuntimeError(f"found negative index {indices[d].min()} for dim {d}")
        if indices[d].max() >= size[d]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {d}, size is {size[d]} but found index {indices[d].max()}"
            )


def _to_sparse(
    self: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: Any = None,
    blocksize: Any = None,
    dense_dim: Any = None,
) -> SparseTensor:
    """The sparse tensor of the elements that are not zero; with ``sparse_dim``, of the slices that are not."""
    if layout not in (None, sparse_coo) or blocksize is not None or dense_dim is not None:
        raise NotImplementedError("to_sparse() makes layout torch.sparse_coo only")
    k = self.dim() if sparse_dim is None else sparse_dim
    if not 0 <= k <= self.dim():
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{self.dim()}] range, but {k} is given"
        )
    if k == 0:
        return SparseTensor._make(
            _device(np.zeros((0, 1), np.int64)), self.reshape(1, *self.shape), self.shape, coalesced=True
        )  # type: ignore[attr-defined]
    host = self._host("Tensor.to_sparse()")
    filled = (host != 0).any(tuple(range(k, host.ndim))) if k < host.ndim else host != 0
    places = np.nonzero(filled)
    ids = np.stack(places)
    vals = self[tuple(map(_device, places))] if self.requires_grad else _device(host[places])  # type: ignore[index]
    return SparseTensor._make(_device(ids.astype(np.int64)), vals, self.shape, coalesced=True)


def _sparse_mask(self: Tensor, mask: Tensor) -> SparseTensor:
    """The elements at the places of the sparse tensor ``mask``."""
    if not isinstance(mask, SparseTensor):
        raise NotImplementedError("sparse_mask() takes a sparse mask")
    k = mask.sparse_dim()
    at = _device(linear_index(np.asarray(mask._indices()._value), mask._size))
    flat = self.reshape(-1, *self.shape[k:])  # type: ignore[attr-defined]
    return SparseTensor._make(mask._ids, flat[at], mask._size, mask._coalesced)


def _strided(name: str) -> Callable[..., Any]:
    kind = "sparse tensor" if name == "values" else "sparse coordinate tensor"

    def method(self: Tensor) -> Any:
        raise RuntimeError(f"{name} expected {kind} layout but got Strided")

    method.__name__ = name
    return method


for _name in ("coalesce", "is_coalesced", "indices", "values"):
    setattr(Tensor, _name, _strided(_name))
Tensor.to_sparse = _to_sparse  # type: ignore[attr-defined]
Tensor.to_sparse_coo = lambda self: self.to_sparse()  # type: ignore[attr-defined]
Tensor.sparse_mask = _sparse_mask  # type: ignore[attr-defined]
Tensor.to_dense = lambda self, dtype=None, *, masked_grad=None: self if dtype is None else self.to(dtype)  # type: ignore[attr-defined]
Tensor.sparse_dim = lambda self: 0  # type: ignore[attr-defined]
Tensor.dense_dim = lambda self: self.dim()  # type: ignore[attr-defined]


def refused(name: str) -> Callable[..., Any]:
    """A function that PyTorch has for sparse tensors and this package does not."""

    def function(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{name}: of the sparse layouts there is torch.sparse_coo only, with sums, products and what "
            "SparseTensor's documentation names: use torch.sparse_coo_tensor or .to_dense()"
        )

    function.__name__ = function.__qualname__ = name
    return function


sparse_csr_tensor = refused("sparse_csr_tensor")
sparse_csc_tensor = refused("sparse_csc_tensor")
sparse_bsr_tensor = refused("sparse_bsr_tensor")
sparse_bsc_tensor = refused("sparse_bsc_tensor")
sparse_compressed_tensor = refused("sparse_compressed_tensor")
smm = refused("smm")
hspmm = refused("hspmm")
sspaddmm = refused("sspaddmm")
for _name in ("to_sparse_csr", "to_sparse_csc", "to_sparse_bsr", "to_sparse_bsc", "sparse_resize_"):
    setattr(Tensor, _name, refused(_name))
bind.publish_methods()
