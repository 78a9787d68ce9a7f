"""Tables of vectors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ...autograd.grad_mode import is_grad_enabled, no_grad
from ...autograd.node import FREED, AccumulateGrad, Edge, Node
from ...core import storage
from ...core.bind import function
from ...core.dispatch import edge_of
from ...core.sparse import SparseTensor
from ...core.tensor import Tensor, wrap
from ._common import require_tensor

_embedding, _renorm, _one_hot = function("embedding"), function("embedding_renorm"), function("one_hot")


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of a table.

    Args:
        input: indices of any shape, int64 or int32.
        weight: (rows, columns).
        padding_idx: a row that gets no gradient.
        max_norm: rows looked up whose norm is larger are first scaled down to it, in ``weight`` itself.
        norm_type: the norm's exponent.
        scale_grad_by_freq: not supported.
        sparse: give ``weight`` a sparse gradient, whose entries are the rows looked up, if it is a leaf (else a
            dense one, as where a compiled function ends before the backward). `SGD`, `Adagrad` and `SparseAdam` take
            it, in a compiled function too, if that clears the gradient first.

    Raises:
        IndexError: for an index that names no row.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding.html
    """
    require_tensor("embedding", "indices", 2, input)
    if scale_grad_by_freq:
        raise NotImplementedError(
            "embedding(scale_grad_by_freq=True) is not supported; divide the gradient by the counts in a hook"
        )
    rows = weight.shape[0]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    if max_norm is not None:
        with no_grad():
            weight._set_value(_renorm(weight, input, float(max_norm), float(norm_type))._value)
    padding = -1 if padding_idx is None else padding_idx
    transformed = storage.overlay is not None and storage.overlay.transforms
    if sparse and not transformed and is_grad_enabled() and weight.requires_grad:
        return _sparse_embedding(input, weight, padding)
    return _embedding(input, weight, padding)


def _sparse_embedding(input: Tensor, weight: Tensor, padding: int) -> Tensor:
    """Rows of a table, recorded by a node that gives a sparse gradient."""
    with no_grad():
        rows = _embedding(input, weight, padding)
    edge = edge_of(weight)
    if storage.overlay is not None:
        storage.overlay.note_edges([weight], [edge])
    rows._requires_grad = True
    rows._grad_fn = _SparseRows(edge, input._value, weight.shape, padding)
    return rows


class _SparseRows(Node):
    """Backward of a sparse `embedding`."""

    __slots__ = ("indices", "padding", "shape")

    def __init__(self, edge: Edge, indices: Any, shape: tuple[int, ...], padding: int) -> None:
        super().__init__((edge,))
        self.indices, self.shape, self.padding = indices, shape, padding

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        with storage.x64():
            ids, values = _entries(self._saved(), grads[0], self.padding, self.shape[0])
        return [self._gradient(wrap(ids), wrap(values))]

    def apply_recorded(self, grads: Sequence[Any]) -> Sequence[Any]:
        with storage.x64():
            ids, _ = _entries(self._saved(), grads[0]._value, self.padding, self.shape[0])
        return [self._gradient(wrap(ids), grads[0].reshape(-1, self.shape[1]))]

    def _gradient(self, ids: Tensor, values: Tensor) -> Any:
        few = ids.shape[1] < 2
        sparse = SparseTensor._make(ids, values, self.shape, coalesced=few, loose=self.padding >= 0)
        if type(self.edges[0][0]) is AccumulateGrad:  # type: ignore[index]
            return sparse
        dense = sparse.to_dense()  # other nodes take dense gradients
        return dense if values.requires_grad else dense._value

    def _saved(self) -> Any:
        if self.indices is None:
            raise RuntimeError(FREED)
        return self.indices

    def release(self) -> None:
        self.indices = None


_SparseRows.__name__ = _SparseRows.__qualname__ = "EmbeddingBackward0"


@functools.partial(jax.jit, static_argnums=(2, 3))
def _entries(indices: Any, grad: Any, padding: int, rows: int) -> tuple[Any, Any]:
    """Indices (1, n) and values (n, columns) of the gradient; padding is left out."""
    ids = indices.reshape(1, -1).astype(jnp.int64)
    if padding >= 0:
        ids = jnp.where(ids == padding, rows, ids)
    return ids, grad.reshape(-1, grad.shape[-1])


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Class indices as vectors of zeros with a one, of type int64.

    Args:
        tensor: int64 indices of any shape.
        num_classes: length of the vectors; -1 for the largest index plus one (which reads the values).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.one_hot.html
    """
    if tensor.dtype.name != "int64":
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == -1:
        if tensor.numel() == 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        num_classes = max(int(tensor.max().item()) + 1, 1)
    if tensor.numel() == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    return _one_hot(tensor, num_classes)
