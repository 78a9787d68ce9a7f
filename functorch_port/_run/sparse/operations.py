"""The sparse versions of operations: sums, products, transposes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._base.layout import sparse_csc, sparse_csr
from ..._base.tuning import tuning
from ..._tensor.tensor import Tensor, wrap
from .compressed import CompressedTensor, compressed
from .tensor import SparseTensor, _device, _plan, _run, _scattered, linear_index

ADD_DENSE = "add(sparse, dense) is not supported. Use add(dense, sparse) instead."


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


def _then(input: Any, fn: Callable[[Any], Tensor]) -> Callable[[], Tensor] | None:
    """What gives all elements of a result, where those of the operand are known."""
    found = input._elements()
    return None if found is None else lambda: fn(found())


def _is_sparse(x: Any) -> bool:
    return isinstance(x, SparseTensor)


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
    return in_layout(name, known, args, kwargs)


def in_layout(name: str, known: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What the sparse version of an operation gives, in the layout of the first compressed argument."""
    layouts = [a.layout for a in args if isinstance(a, CompressedTensor)]
    if not layouts or name in _TURNING:
        return known(*args, **kwargs)
    given = [a.to_sparse() if isinstance(a, CompressedTensor) else a for a in args]
    if name == "add" and isinstance(given[1], Tensor) and not _is_sparse(given[1]):  # which COO refuses
        return given[1].mul(kwargs.get("alpha", 1)) + given[0]  # type: ignore[attr-defined]
    result = known(*given, **kwargs)
    return compressed(result, layouts[0]) if _is_sparse(result) else result


#: operations that end in `_permute`, which knows what becomes of a layout
_TURNING = frozenset({"t", "transpose", "permute"})
_TURNED = {sparse_csr: sparse_csc, sparse_csc: sparse_csr}


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
        if other._is_from_leaf():
            return input.add(other.to_dense(masked_grad=False), alpha=alpha)  # type: ignore[attr-defined,no-any-return]
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
    vals = b._trim()._vals if alpha == 1 else b._trim()._vals * alpha
    result = a._gathered(merged, n, [(a._trim()._vals, at_a), (vals, at_b)], both)
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
        made = input._with(input._vals * other)
        made._dense = _then(input, lambda dense: dense * other)
        return made  # type: ignore[no-any-return]
    if other.shape != input.shape:
        raise NotImplementedError("a sparse tensor times one of another shape: use .to_dense()")
    return input._with(input._trim()._vals * _sparse_mask(other.to_dense(), input)._vals)  # type: ignore[attr-defined]


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


def _of_entries(name: str) -> Callable[[Any], Tensor]:
    return lambda input: (a := input.coalesce())._with(getattr(a._vals, name)())


_operation("abs", "absolute")(_of_entries("abs"))
_operation("relu")(_of_entries("relu"))
_operation("sqrt")(_of_entries("sqrt"))


@_operation("clone")
def _clone(input: Any, **kwargs: Any) -> Tensor:
    return input._with(input._vals.clone())


@_operation("sum")
def _sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    if dim is not None:
        raise NotImplementedError(
            "the sum of a sparse tensor over some dimensions: use torch.sparse.sum, or .to_dense()"
        )
    if input._is_from_leaf():
        return input.to_dense(masked_grad=False).sum(dtype=dtype)  # type: ignore[no-any-return,attr-defined]
    return input._trim()._vals.sum(dtype=dtype)


def sum_over(input: SparseTensor, dims: Sequence[int]) -> Tensor:
    """The sum over some dimensions: sparse, or dense if no sparse dimension is left."""
    ndim, k = input.dim(), input.sparse_dim()
    places: set[int] = set()
    for dim in dims:
        place = input._wrap_dim(dim) % ndim
        if place in places:
            raise RuntimeError(f"dim {place} appears multiple times in the list of dims")
        places.add(place)
    values = input._trim()._vals
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
    return input.coalesce()._trim()._vals.norm(p, dtype=dtype)


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
    if isinstance(input, CompressedTensor):
        turned = order == [1, 0]
        return compressed(
            _permute(input.to_sparse(), *order), _TURNED[input.layout] if turned else input.layout
        )
    k = input.sparse_dim()
    if sorted(order) != list(range(input.dim())):
        raise RuntimeError("permute(sparse_coo): the dimensions must be a permutation of all of them")
    if order[k:] != list(range(k, input.dim())):
        raise NotImplementedError("transposing dense dimensions of a sparse tensor: use .to_dense()")
    ids = _device(np.asarray(input._indices()._value)[order[:k]])
    same = order == list(range(input.dim())) and input._coalesced
    made = SparseTensor._make(ids, input._trim()._vals, [input._size[d] for d in order], same)
    made._dense = _then(input, lambda dense: dense.permute(order))
    return made


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
    """The product of matrices, where a sparse leaf gets the gradient of all its elements."""
    leaves = [_is_sparse(t) and t._is_from_leaf() for t in (input, other)]
    if any(leaves):
        if _is_sparse(input) and _is_sparse(other):
            raise NotImplementedError(
                "the product of two sparse matrices of which one is a leaf that requires a gradient: use "
                "torch.sparse.mm"
            )
        input, other = (
            t.to_dense(masked_grad=False) if leaf else t for t, leaf in zip((input, other), leaves)
        )
        return input @ other  # type: ignore[no-any-return]
    return masked_mm(input, other)


@_operation("_linear_2d", "_linear_nd", "_linear_2d_unbiased", "_linear_nd_unbiased")
def _linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """`nn.functional.linear` with a sparse weight."""
    if _is_sparse(input) or _is_sparse(bias):
        raise NotImplementedError("linear: of a sparse input or bias use .to_dense()")
    rows = input.reshape(-1, input.shape[-1])
    out = _mm(rows, _t(weight)).reshape(*input.shape[:-1], weight.shape[0])  # type: ignore[attr-defined]
    return out if bias is None else out + bias


def masked_mm(input: Any, other: Any) -> Tensor:
    """The product of matrices, where a sparse one gets the gradient of its entries."""
    if not _is_sparse(input):
        return masked_mm(_t(other), input.t()).t()  # type: ignore[attr-defined]
    if input.sparse_dim() != 2 or input.dense_dim() or other.dim() not in (1, 2):
        raise NotImplementedError("sparse products are of a matrix and a matrix or vector: use .to_dense()")
    if input._size[1] != other.shape[0]:
        raise RuntimeError(
            "mv: expected self.size(-1) == vec.size(-1)"
            if other.dim() == 1
            else f"addmm: Argument #3 (dense): Expected dim 0 size {input._size[1]}, got {other.shape[0]}"
        )
    if _is_sparse(other):
        return _product(input, other)
    return _run(_mm_plan(input._size[0]), [input._ids, input._vals, other])


def _product(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """The product of two sparse matrices: each entry of ``a`` meets all those in its row of ``b``."""
    b = b.coalesce()
    ids, others = a._host_indices()[0], b._host_indices()[0]
    starts = np.searchsorted(others[0], np.arange(b._size[0] + 1))
    first, counts = starts[ids[1]], np.diff(starts)[ids[1]]
    mine = np.repeat(np.arange(ids.shape[1]), counts)
    theirs = np.arange(len(mine)) + (first - np.cumsum(counts) + counts)[mine]
    values = a._vals.index_select(0, _device(mine)) * b._vals.index_select(0, _device(theirs))  # type: ignore[attr-defined]
    places = _device(np.stack([ids[0][mine], others[1][theirs]]))
    return SparseTensor._make(places, values, (a._size[0], b._size[1])).coalesce()


@_operation("addmm")
def _addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return added(input, _mm(mat1, mat2), beta, alpha)


def added(input: Any, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """What `addmm` makes of a product."""
    if input.is_sparse:
        raise RuntimeError(
            "addmm_sparse_dense: expected strided result tensor, got tensor with layout Sparse"
        )
    return input * beta + product * alpha  # type: ignore[no-any-return]


def _sparse_mask(self: Tensor, mask: Tensor) -> SparseTensor:
    """The elements at the places of the sparse tensor ``mask``."""
    if not isinstance(mask, SparseTensor):
        raise NotImplementedError("sparse_mask() takes a sparse mask")
    k = mask._trim().sparse_dim()
    at = _device(linear_index(np.asarray(mask._ids._value), mask._size))
    flat = self.reshape(math.prod(self.shape[:k]), *self.shape[k:])  # type: ignore[attr-defined]
    return mask._with(flat[at])
