"""Making sparse tensors: `sparse_coo_tensor`, `Tensor.to_sparse`; and what there is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._base import dtypes
from ..._base.layout import layout as Layout
from ..._base.layout import sparse_coo, sparse_csc, sparse_csr
from ..._tensor import creation
from ..._tensor.tensor import Tensor, wrap
from .. import bind
from ..packing import with_history
from .compressed import compressed, expected
from .operations import _sparse_mask
from .tensor import Picked, SparseTensor, _device, _zeros, linear_index

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
        requires_grad: whether the result is a leaf that requires a gradient, which will be sparse.
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
    if requires_grad:
        given = None if values is None else creation.as_tensor(values, dtype=dtype, device=device).detach()
        made = sparse_coo_tensor(
            indices,
            given,
            size,
            dtype=dtype,
            device=device,
            check_invariants=check_invariants,
            is_coalesced=is_coalesced,
        )
        return made.requires_grad_()
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
    if blocksize is not None or dense_dim is not None:
        raise NotImplementedError(
            "to_sparse(blocksize=, dense_dim=): there are no sparse layouts of blocks, and compressed ones have no "
            "dense dimensions: use to_sparse(), to_sparse_csr() or to_sparse_csc()"
        )
    if layout not in (None, sparse_coo):
        return compressed(self.to_sparse(), layout)  # type: ignore[attr-defined,no-any-return]
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
    is_recorded = vals.requires_grad
    vals = with_history(vals, (Picked(vals), 0)) if is_recorded else vals
    made = SparseTensor._make(_device(ids.astype(np.int64)), vals, self.shape, coalesced=True)
    if is_recorded:
        made._dense = lambda: self.view_as(self)  # type: ignore[attr-defined]
    return made


def _lacking(name: str) -> Callable[..., Any]:
    def method(self: Tensor) -> Any:
        raise expected(name, "Sparse" if self.is_sparse else "Strided")

    method.__name__ = method.__qualname__ = name
    return method


for _name in (
    "ccol_indices", "coalesce", "col_indices", "crow_indices", "indices", "is_coalesced", "row_indices", "values",
):  # fmt: skip
    setattr(Tensor, _name, _lacking(_name))
Tensor.to_sparse = _to_sparse  # type: ignore[attr-defined]


def _of_coo(self: SparseTensor, sparse_dim: Any = None, *, layout: Any = None, **kwargs: Any) -> SparseTensor:
    """The same elements in another layout; itself in its own."""
    return self if layout in (None, sparse_coo) else compressed(self, layout)


SparseTensor.to_sparse = _of_coo  # type: ignore[method-assign]
Tensor.to_sparse_coo = lambda self: self.to_sparse()  # type: ignore[attr-defined]


def _to_compressed(kind: Layout) -> Callable[..., Any]:
    def method(self: Tensor, dense_dim: int | None = None) -> Any:
        if dense_dim:
            raise NotImplementedError(f"layout {kind} has no dense dimensions here")
        return self.to_sparse(layout=kind)  # type: ignore[attr-defined]

    method.__name__ = method.__qualname__ = f"to_{kind._name}"
    method.__doc__ = f"The matrix in layout ``{kind}``; itself if it is."
    return method


for _kind in (sparse_csr, sparse_csc):
    setattr(Tensor, f"to_{_kind._name}", _to_compressed(_kind))
Tensor.sparse_mask = _sparse_mask  # type: ignore[attr-defined]
Tensor.to_dense = lambda self, dtype=None, *, masked_grad=None: self if dtype is None else self.to(dtype)  # type: ignore[attr-defined]
Tensor.sparse_dim = lambda self: 0  # type: ignore[attr-defined]
Tensor.dense_dim = lambda self: self.dim()  # type: ignore[attr-defined]


def refused(name: str) -> Callable[..., Any]:
    """A function that PyTorch has for sparse tensors and this package does not."""

    def function(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{name}: of the sparse layouts there are torch.sparse_coo, torch.sparse_csr and torch.sparse_csc, with "
            "sums, products and what SparseTensor's documentation names: use these, or .to_dense()"
        )

    function.__name__ = function.__qualname__ = name
    return function


sparse_bsr_tensor = refused("sparse_bsr_tensor")
sparse_bsc_tensor = refused("sparse_bsc_tensor")
smm = refused("smm")
hspmm = refused("hspmm")
sspaddmm = refused("sspaddmm")
for _name in ("to_sparse_bsr", "to_sparse_bsc", "sparse_resize_"):
    setattr(Tensor, _name, refused(_name))
bind.publish_methods()
