"""Embedding lookups and one-hot encoding."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from ..._array import executor, tracing
from ..._run.bind import function
from ..._run.opnode import edge_of
from ..._run.sparse.tensor import SparseTensor
from ..._tensor.grad_mode import is_grad_enabled, no_grad
from ..._tensor.node import FREED, AccumulateGrad, Edge, Node
from ..._tensor.plan import Plan
from ..._tensor.tensor import Tensor, wrap
from ._common import require_tensor

_embedding_bag, _embedding_bag_of_rows = function("_embedding_bag"), function("_embedding_bag_of_rows")
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
    """Look up rows of an embedding table.

    Args:
        input: indices of any shape, int64 or int32.
        weight: (rows, columns).
        padding_idx: index of a row that gets no gradient.
        max_norm: rows that are looked up and have a larger norm are first rescaled to it, in ``weight`` itself.
        norm_type: exponent of that norm.
        scale_grad_by_freq: divide a row's gradient by the number of times it was looked up.
        sparse: give ``weight`` a sparse gradient that holds only the rows looked up. ``weight`` must be a leaf, and a
            compiled function must run the backward too; else the gradient is dense. `SGD`, `Adagrad` and `SparseAdam`
            accept it; a compiled function must clear the gradient first.

    Raises:
        IndexError: if an index is out of range.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding.html
    """
    require_tensor("embedding", "indices", 2, input)
    if scale_grad_by_freq and sparse:
        raise NotImplementedError(
            "embedding(scale_grad_by_freq=True, sparse=True) is not supported; use sparse=False"
        )
    if padding_idx is not None:
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    if max_norm is not None:
        with no_grad():
            weight._set_value(_renorm(weight, input, float(max_norm), float(norm_type))._value)
    padding = -1 if padding_idx is None else padding_idx
    transformed = bool(tracing.overlay) and tracing.overlay.transforms
    if sparse and not transformed and is_grad_enabled() and weight.requires_grad:
        return _sparse_embedding(input, weight, padding)
    return _embedding(input, weight, padding, scale_grad_by_freq)


def _sparse_embedding(input: Tensor, weight: Tensor, padding: int) -> Tensor:
    """Look up rows, recorded by a node that returns a sparse gradient."""
    with no_grad():
        rows = _embedding(input, weight, padding)
    edge = edge_of(weight)
    if tracing.overlay:
        tracing.overlay.note_edges([weight], [edge])
    rows._requires_grad = True
    rows._grad_fn = _SparseRows(edge, input._look(), weight.shape, padding)
    return rows


class _SparseRows(Node):
    """Backward of a sparse `embedding`."""

    __slots__ = ("indices", "padding", "shape")

    def __init__(self, edge: Edge, indices: Any, shape: tuple[int, ...], padding: int) -> None:
        super().__init__((edge,))
        self.indices, self.shape, self.padding = indices, shape, padding

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        ids, values = self._entries(grads[0])
        return [self._gradient(wrap(ids), wrap(values))]

    def apply_recorded(self, grads: Sequence[Any]) -> Sequence[Any]:
        ids, _ = self._entries(grads[0]._look())
        return [self._gradient(wrap(ids), grads[0].reshape(-1, self.shape[1]))]

    def _entries(self, grad: Any) -> Any:
        values = (self._saved(), grad, self.padding, self.shape[0])
        with tracing.x64():
            return _ENTRIES.fn(*values) if tracing.overlay else executor.current.compute(_ENTRIES, values)

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


def _entries(indices: Any, grad: Any, padding: Any, rows: Any) -> tuple[Any, Any]:
    """Indices (1, n) and values (n, columns) of the gradient; padding, if it is not negative, is left out."""
    ids = indices.reshape(1, -1).astype(jnp.int64)
    return jnp.where((ids == padding) & (ids >= 0), rows, ids), grad.reshape(ids.shape[1], grad.shape[-1])


_ENTRIES = Plan(_entries, "embedding_entries", "")


_MODES = ("sum", "mean", "max")


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sum, average or take the maximum over bags of rows of an embedding table.

    Args:
        input: indices: (B, n), B bags of n rows each, or a vector with the indices of all bags.
        weight: (rows, columns).
        offsets: with a vector of indices, the position where each bag begins.
        max_norm: rows that are looked up and have a larger norm are first rescaled to it, in ``weight`` itself.
        norm_type: exponent of that norm.
        scale_grad_by_freq: divide a row's gradient by the number of times it was looked up (not with "max").
        mode: "sum", "mean" or "max".
        sparse: give ``weight`` a sparse gradient, as in `embedding` (not with "max").
        per_sample_weights: a factor per index (only with "sum").
        include_last_offset: ``offsets`` has one more entry, the end of the last bag.
        padding_idx: an index that is left out of its bag.

    Shape:
        (B, columns); an empty bag gives zeros.

    Raises:
        ValueError: if the shapes do not match or the mode is unknown.
        RuntimeError: if an index is out of range.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding_bag.html
    """
    if weight.dtype.name == "int64" and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`.",
            stacklevel=2,
        )
        weight, input = input, weight
    _check_bags(input, weight, offsets, per_sample_weights, mode)
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if max_norm is not None:
        with no_grad():
            weight._set_value(_renorm(weight, input, float(max_norm), float(norm_type))._value)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}'). Please open a feature request on GitHub."
        )
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, -{rows} through {rows - 1}, but got {padding_idx}"
        )
    padding = -1 if padding_idx is None else padding_idx % rows
    how = mode, include_last_offset and offsets is not None, padding
    if not sparse:
        return _embedding_bag(weight, input, offsets, per_sample_weights, *how, scale_grad_by_freq)
    looked_up = embedding(input, weight, padding_idx, scale_grad_by_freq=scale_grad_by_freq, sparse=True)
    return _embedding_bag_of_rows(looked_up, input, offsets, per_sample_weights, *how)


def _check_bags(input: Tensor, weight: Tensor, offsets: Any, per_sample_weights: Any, mode: str) -> None:
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, "
            f"then it must have the same shape as the input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if input.dim() not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if input.dim() == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
            f"sequences. However, found offsets of type {type(offsets)}"
        )
    if input.dim() == 1 and offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets is not None and offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if mode not in _MODES:
        raise ValueError("mode has to be one of sum, mean or max")


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """One-hot encoding of class indices, as int64.

    Args:
        tensor: int64 indices of any shape.
        num_classes: length of the vectors; -1 for the largest index plus one (this reads the values).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.one_hot.html
    """
    if tensor.dtype.name != "int64":
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == -1:
        if tensor.numel() == 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        num_classes = max(tensor.max()._as_size("one_hot", "a given num_classes") + 1, 1)
    if tensor.numel() == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    return _one_hot(tensor, num_classes)
