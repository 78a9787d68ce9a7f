"""The layouts CSR and CSC: matrices whose entries are sorted by row, or by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._base import dtypes
from ..._base.layout import SparseOperand, layout, sparse_coo, sparse_csc, sparse_csr
from ..._tensor import creation
from ..._tensor.tensor import Tensor
from .tensor import SparseTensor, _device, _on_host, check_cast

__all__ = [
    "CompressedTensor",
    "compressed",
    "sparse_compressed_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
]

_NAMES = {sparse_csr: "SparseCsr", sparse_csc: "SparseCsc"}
#: for each layout which of (row, column) its entries are sorted by, and the names of its indices
_SORTED = {sparse_csr: (0, "crow_indices", "col_indices"), sparse_csc: (1, "ccol_indices", "row_indices")}


class CompressedTensor(SparseTensor):
    """A matrix of layout `torch.sparse_csr` or `torch.sparse_csc`; made by `sparse_csr_tensor`, `Tensor.to_sparse_csr`
    and their kind.

    It is a `SparseTensor` of layout `torch.sparse_coo` with its entries in another order, and takes part in the same
    operations, whose results have its layout if they are sparse. Its history is that of its values.

    Reference: https://docs.pytorch.org/docs/stable/sparse.html#sparse-compressed-tensors
    """

    is_sparse = False

    _layout: layout
    _index_dtype: dtypes.dtype

    @classmethod
    def _of(
        cls,
        ids: Tensor,
        vals: Tensor,
        size: Sequence[int],
        kind: layout,
        index_dtype: dtypes.dtype = dtypes.int64,
    ) -> CompressedTensor:
        """Of entries that are distinct, and in the layout's order."""
        new: CompressedTensor = cls._make(ids, vals, size, kind is sparse_csr)  # type: ignore[assignment]
        new._layout, new._index_dtype = kind, index_dtype
        return new

    def _with(self, vals: Tensor) -> CompressedTensor:
        return CompressedTensor._of(self._ids, vals, self._size, self._layout, self._index_dtype)

    @property
    def layout(self) -> Any:
        return self._layout

    @property
    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        return self._layout is sparse_csr

    # ------------------------------------------------------------ what it holds

    def _compressed(self) -> np.ndarray:
        """Where the entries of each row (or column) begin."""
        by = _SORTED[self._layout][0]
        return np.searchsorted(_on_host(self._ids)[by], np.arange(self._size[by] + 1))

    def _index(self, name: str) -> Tensor:
        by, begins, others = _SORTED[self._layout]
        if name not in (begins, others):
            raise self._expected(name)
        found = self._compressed() if name == begins else _on_host(self._ids)[1 - by]
        return _device(found.astype(self._index_dtype.np))

    def crow_indices(self) -> Tensor:
        """Where the entries of each row begin (rows + 1), of layout `torch.sparse_csr`."""
        return self._index("crow_indices")

    def col_indices(self) -> Tensor:
        """The column of each entry (nnz), of layout `torch.sparse_csr`."""
        return self._index("col_indices")

    def ccol_indices(self) -> Tensor:
        """Where the entries of each column begin (columns + 1), of layout `torch.sparse_csc`."""
        return self._index("ccol_indices")

    def row_indices(self) -> Tensor:
        """The row of each entry (nnz), of layout `torch.sparse_csc`."""
        return self._index("row_indices")

    def values(self) -> Tensor:
        """The values of the entries (nnz), in the layout's order."""
        return self._vals

    def _expected(self, name: str) -> RuntimeError:
        return expected(name, _NAMES[self._layout])

    def indices(self) -> Tensor:
        raise self._expected("indices")

    def coalesce(self) -> SparseTensor:
        raise self._expected("coalesce")

    def is_coalesced(self) -> bool:
        raise self._expected("is_coalesced")

    # ------------------------------------------------------------ other layouts

    def _coo(self) -> SparseTensor:
        made = SparseTensor._make(self._ids, self._vals, self._size, self._coalesced)
        made._dense = self._elements()
        return made.coalesce()

    def to_sparse(self, sparse_dim: Any = None, *, layout: Any = None, **kwargs: Any) -> SparseTensor:
        """The same elements in another layout, by default `torch.sparse_coo`."""
        if layout is self._layout:
            return self
        return self._coo() if layout in (None, sparse_coo) else compressed(self._coo(), layout)

    # ------------------------------------------------------- as other tensors

    def stride(self, dim: int | None = None) -> Any:
        raise RuntimeError("Sparse CSR tensors do not have strides")

    def is_contiguous(self, memory_format: Any = None) -> bool:
        raise RuntimeError("Sparse CSR tensors do not have is_contiguous")

    def numpy(self, *, force: bool = False) -> np.ndarray:
        raise TypeError(
            f"can't convert {_NAMES[self._layout]} layout tensor to numpy. Use Tensor.to_dense() first."
        )

    def untyped_storage(self) -> Any:
        raise NotImplementedError("Cannot access storage of SparseCsrTensorImpl")

    storage = _typed_storage = untyped_storage

    @property  # type: ignore[override]
    def data(self) -> SparseTensor:
        return self.detach()

    @data.setter
    def data(self, other: Any) -> None:
        SparseTensor.data.fset(self, other)  # type: ignore[attr-defined]
        self._index_dtype = other._index_dtype

    def _filed(self) -> tuple[Any, ...]:
        begins, others = (self._index(name) for name in _SORTED[self._layout][1:])
        return begins, others, self._own.detach().requires_grad_(self.requires_grad), self.shape  # type: ignore[attr-defined]

    def _reduced(self) -> Any:
        begins, others = (self._index(name).numpy() for name in _SORTED[self._layout][1:])
        return _rebuilt, (begins, others, self._own.detach(), self._size, self.is_sparse_csr)

    def _take(self, out: Any, recorded: bool = True) -> CompressedTensor:
        if not isinstance(out, SparseTensor) or out.shape != self.shape:
            raise SparseOperand
        made = compressed(out.to_sparse(), self._layout)
        if made.dtype is not self.dtype:
            check_cast(made.dtype, self.dtype)
            made = made.to(self.dtype)
        self._hold(made._ids, made._own, made._coalesced, False)
        return self


def _rebuilt(
    begins: np.ndarray, others: np.ndarray, values: Tensor, size: Any, by_row: bool
) -> CompressedTensor:
    make = sparse_csr_tensor if by_row else sparse_csc_tensor
    return make(creation.as_tensor(begins), creation.as_tensor(others), values, size)


def compressed(given: SparseTensor, kind: layout) -> Any:
    """A sparse matrix in layout ``kind``."""
    if kind not in _SORTED:
        raise NotImplementedError(
            f"layout {kind}: of the sparse layouts there are torch.sparse_coo, torch.sparse_csr and torch.sparse_csc"
        )
    if given.sparse_dim() != 2 or given.dense_dim():
        raise NotImplementedError(
            f"layout {kind} is of matrices here: batches and dense dimensions are not supported, as "
            f"{tuple(given.shape)} with {given.dense_dim()} dense dimensions has them"
        )
    given = given.coalesce()._trim()
    ids, vals = given._ids, given._vals
    if kind is sparse_csc:
        host = _on_host(ids)
        order = np.lexsort(host)
        ids, vals = _device(host[:, order]), vals.index_select(0, _device(order))  # type: ignore[attr-defined]
    made = CompressedTensor._of(ids, vals, given._size, kind)
    made._dense = given._elements()
    return made


#: what has indices or values of these names, if not a tensor of layout COO
_KINDS = {
    "values": "sparse tensor",
    **dict.fromkeys(("crow_indices", "col_indices"), "sparse row compressed tensor"),
    **dict.fromkeys(("ccol_indices", "row_indices"), "sparse column compressed tensor"),
}


def expected(name: str, found: str) -> RuntimeError:
    """PyTorch's error where a tensor of another layout is asked for what ``name`` gives."""
    return RuntimeError(
        f"{name} expected {_KINDS.get(name, 'sparse coordinate tensor')} layout but got {found}"
    )


def _making(kind: layout) -> Callable[..., Any]:
    by, begins, others = _SORTED[kind]
    many = "rows" if by == 0 else "columns"

    def make(
        compressed_indices: Any,
        plain_indices: Any,
        values: Any,
        size: Any = None,
        *,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        check_invariants: bool | None = None,
    ) -> CompressedTensor:
        """A sparse matrix from its rows (CSR) or columns (CSC), in the order of which the entries come.

        Args:
            compressed_indices: where the entries of each row begin, (rows + 1), of int32 or int64; of each column
                for CSC.
            plain_indices: the column of each entry, (nnz), rising within a row; the row for CSC.
            values: (nnz). If they require grad, so does the result.
            size: the shape; by default the smallest that holds all indices.
            dtype, device: default: those of ``values``.
            layout: nothing else than that of the function.
            pin_memory, check_invariants: without effect: the indices are checked in any case.
            requires_grad: whether the result is a leaf that requires a gradient.

        Raises:
            RuntimeError: the shapes do not fit, or the indices are not of such a matrix.
            NotImplementedError: batches or dense dimensions.

        Example:
            >>> import functorch_port as torch
            >>> torch.sparse_csr_tensor([0, 1, 2], [1, 0], [3.0, 4.0], (2, 2)).to_dense()
            tensor([[0., 3.],
                    [4., 0.]])

        Reference: https://docs.pytorch.org/docs/stable/generated/torch.sparse_csr_tensor.html
        """
        if layout not in (None, kind):
            raise RuntimeError(f"sparse compressed layout must be {kind}, but got {layout}")
        first, second = (
            creation.as_tensor(x, device=device).detach() for x in (compressed_indices, plain_indices)
        )
        vals = creation.as_tensor(values, dtype=dtype, device=device)
        vals = vals if vals.requires_grad else vals.detach()
        if first.dtype is not second.dtype:
            kinds = [str(t.dtype.scalar_name) for t in (first, second)]
            raise RuntimeError(
                f"{begins} and {others} must have the same dtype, bot got {kinds[0]} and {kinds[1]}, respectively"
            )
        if first.dtype not in (dtypes.int32, dtypes.int64):
            raise RuntimeError(f"{begins} and {others} must be an int32 or int64 type, but got {first.dtype}")
        if first.dim() != 1 or second.dim() != 1 or vals.dim() != 1:
            raise NotImplementedError(
                f"layout {kind} is of matrices here: batches and dense dimensions are not supported"
            )
        starts, places = np.asarray(first._value, np.int64), np.asarray(second._value, np.int64)
        if size is None:
            shape = [len(starts) - 1, int(places.max(initial=-1)) + 1]
            size = shape if by == 0 else shape[::-1]
        sorted_by = _checked(starts, places, tuple(vals.shape), tuple(size), (by, begins, others, many))
        pair = (sorted_by, places) if by == 0 else (places, sorted_by)
        made = CompressedTensor._of(_device(np.stack(pair)), vals, tuple(size), kind, first.dtype)
        if requires_grad:
            made.requires_grad = True
        return made

    make.__name__ = make.__qualname__ = f"{kind._name}_tensor"
    return make


def _checked(
    starts: np.ndarray, places: np.ndarray, values: Sequence[int], size: Sequence[int], names: Sequence[Any]
) -> np.ndarray:
    """The row (or column) that each entry is in, of indices that are those of such a matrix."""
    by, begins, others, many = names
    if len(size) != 2:
        raise RuntimeError(
            "tensor dimensionality must be sum of batch, base, and dense dimensionalities (=0 + 2 + 0) but got "
            f"{len(size)}"
        )
    if len(starts) != size[by] + 1:
        raise RuntimeError(
            f"{begins}.shape[-1] must be equal to the number of {many} + 1 (={size[by] + 1}), but got {len(starts)}"
        )
    if len(places) != values[0]:
        raise RuntimeError(
            f"{others}.shape[-1] must be equal to nnz (={values[0]}) as defined by values.shape[0], but got "
            f"{len(places)}"
        )
    count, limit = ("nrows", "ncols") if by == 0 else ("ncols", "nrows")
    for said, ok in (
        (f"{begins}[..., 0] == 0", starts[0] == 0),
        (f"{begins}[..., -1] == nnz", starts[-1] == len(places)),
        (f"0 <= {others} < {limit}", ((places >= 0) & (places < size[1 - by])).all()),
    ):
        if not ok:
            raise RuntimeError(f"`{said}` is not satisfied.")
    counts = np.diff(starts)
    row = np.repeat(np.arange(len(counts)), np.maximum(counts, 0))
    if (counts < 0).any() or ((np.diff(row) == 0) & (np.diff(places) <= 0)).any():
        raise RuntimeError(
            f"`{others}[..., {begins}[..., i - 1]:{begins}[..., i]] for all i = 1, ..., {count} are sorted and "
            "distinct along the last dimension values` is not satisfied."
        )
    return row


sparse_csr_tensor, sparse_csc_tensor = _making(sparse_csr), _making(sparse_csc)


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    layout: Any = None,
    **kwargs: Any,
) -> CompressedTensor:
    """`sparse_csr_tensor` or `sparse_csc_tensor`, by ``layout``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.sparse_compressed_tensor.html
    """
    if layout not in _SORTED:
        raise NotImplementedError(
            f"sparse_compressed_tensor(layout={layout}): there are torch.sparse_csr and torch.sparse_csc"
        )
    make = sparse_csr_tensor if layout is sparse_csr else sparse_csc_tensor
    return make(compressed_indices, plain_indices, values, size, **kwargs)  # type: ignore[no-any-return]
