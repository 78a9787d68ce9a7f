"""`SparseTensor` itself."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._array import placing, tracing
from ..._base import dtypes
from ..._base.layout import SparseOperand, sparse_coo
from ..._base.promotion import can_cast
from ..._base.size import Size
from ..._base.tuning import tuning
from ..._tensor import grad_mode, gradients, printing
from ..._tensor.node import Node, RemovableHandle, accumulator
from ..._tensor.overriding import disabled
from ..._tensor.plan import Plan
from ..._tensor.tensor import Tensor, wrap
from ..inplace import LEAF_INPLACE
from ..packing import with_history
from ..run import run


class NoStorage:
    """What a sparse tensor has in place of a Storage."""

    __slots__ = ("__weakref__",)
    version = 0

    @property
    def value(self) -> Any:
        raise SparseOperand

    held = value

    def look(self) -> Any:
        raise SparseOperand

    array = host = peek = aval = look


class Entries(Node):
    """The history of the values of a sparse leaf: their gradient becomes a sparse one, with the leaf's indices."""

    __slots__ = ("like",)

    def __init__(self, leaf: SparseTensor) -> None:
        super().__init__(((accumulator(leaf), 0),))
        self.like = leaf.detach()

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        (grad,) = grads
        return [None if grad is None else self.like._with(grad if isinstance(grad, Tensor) else wrap(grad))]

    apply_recorded = apply


class Elements(Node):
    """The history of all elements of a sparse leaf, whose gradient is dense."""

    __slots__ = ()

    def __init__(self, leaf: SparseTensor) -> None:
        super().__init__(((accumulator(leaf), 0),))

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        return grads

    apply_recorded = apply


class Picked(Node):
    """The history of the entries of a dense tensor, which is to get the gradient of all its elements."""

    __slots__ = ()

    def __init__(self, values: Tensor) -> None:
        super().__init__(((values.grad_fn, values._output_nr),))

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        return grads

    apply_recorded = apply


def _part(name: str) -> Any:
    """An attribute that a trace is told of when it is read."""

    def get(self: Any) -> Any:
        if tracing.overlay:
            tracing.overlay.note_part(self, name)
        return self.__dict__[name]

    return property(get, lambda self, value: self.__dict__.update({name: value}))


class SparseTensor(Tensor):
    """A tensor of layout `torch.sparse_coo`; made by `sparse_coo_tensor`, `Tensor.to_sparse` and sparse embeddings.

    It takes part in sums, differences, products with numbers, matrix products, and reductions to a sum. Its history is
    that of its values, unless it is a leaf that requires a gradient. What else is to be done with it, `to_dense` first.

    Reference: https://docs.pytorch.org/docs/stable/sparse.html
    """

    is_sparse = _sparse = True
    _is_param = False
    __torch_function__ = disabled  # type: ignore[assignment]

    _ids: Tensor = _part("_ids")
    _own: Tensor = _part("_own")
    _size: tuple[int, ...]
    _coalesced: bool
    _loose: bool
    #: gives the dense tensor with a history that it was made of
    _dense: Callable[[], Tensor] | None

    @classmethod
    def _make(
        cls, ids: Tensor, vals: Tensor, size: Sequence[int], coalesced: bool = False, loose: bool = False
    ) -> SparseTensor:
        """``loose`` says that entries may be left out."""
        new: SparseTensor = object.__new__(cls)
        new._view = new._base = new._grad_fn = new._grad = new._accumulator = None
        new._requires_grad = False
        new._storage = NoStorage()  # type: ignore[assignment]
        new._hold(ids, vals, coalesced, loose)
        new._size = tuple(size)
        if tracing.overlay:
            tracing.overlay.note_made(new)
        return new

    def _hold(self, ids: Tensor, vals: Tensor, coalesced: bool, loose: bool) -> None:
        self._ids, self._own, self._coalesced, self._loose = ids, vals, coalesced, loose
        self._dense = None

    @property
    def _vals(self) -> Tensor:
        """The values with their history; ``_requires_grad`` says that this is a leaf that requires a gradient."""
        return with_history(self._own, (Entries(self), 0)) if self._requires_grad else self._own

    def _with(self, vals: Tensor) -> SparseTensor:
        """The same entries with other values."""
        return SparseTensor._make(self._ids, vals, self._size, self._coalesced, self._loose)

    # ------------------------------------------------------------ what it holds

    def _trim(self) -> SparseTensor:
        """This tensor without entries that are left out."""
        if self._loose:
            ids, vals = _on_host(self._ids), self._own
            keep = np.flatnonzero(ids[0] < self._size[0])
            if len(keep) < ids.shape[1]:
                kept = _device(keep)
                self._own = (
                    vals.index_select(0, kept)  # type: ignore[attr-defined]
                    if vals.requires_grad
                    else _device(np.asarray(vals._value)[keep])
                )
                self._ids = _device(ids[:, keep])
            self._loose = False
        return self

    def _nnz(self) -> int:
        """Number of entries."""
        self._trim()
        return self._ids.shape[1]

    def _indices(self) -> Tensor:
        """The indices (sparse_dim, nnz), coalesced or not."""
        return self._trim()._ids

    def _values(self) -> Tensor:
        """The values (nnz, ...), coalesced or not, without their history; writing to them changes this tensor."""
        return self._trim()._own.detach()

    def indices(self) -> Tensor:
        """The indices (sparse_dim, nnz) of a coalesced tensor."""
        return self._need_coalesced("indices")._indices()

    def values(self) -> Tensor:
        """The values (nnz, ...) of a coalesced tensor."""
        return self._need_coalesced("values")._trim()._vals

    def _need_coalesced(self, what: str) -> SparseTensor:
        if not self._coalesced:
            raise RuntimeError(f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first")
        return self

    def is_coalesced(self) -> bool:
        """Whether the indices are known to be sorted and distinct."""
        return self._coalesced

    def _coalesced_(self, coalesced: bool) -> SparseTensor:
        """Say whether the indices are sorted and distinct."""
        self._coalesced = coalesced
        return self

    def coalesce(self) -> SparseTensor:
        """This tensor with sorted indices, and the values of equal indices summed; itself if it is coalesced."""
        if self._coalesced:
            return self
        ids, linear = self._host_indices()
        _, first, inverse = np.unique(linear, return_index=True, return_inverse=True)
        made = self._gathered(ids[:, first], len(first), [(self._vals, inverse)], True)
        made._dense = self._elements()
        return made

    def _host_indices(self) -> tuple[np.ndarray, np.ndarray]:
        """The indices as a numpy array, and as positions in the flattened sparse dimensions."""
        self._trim()
        ids = _on_host(self._ids)
        return ids, linear_index(ids, self._size)

    def _gathered(
        self, ids: np.ndarray, n: int, parts: Sequence[tuple[Tensor, np.ndarray]], coalesced: bool
    ) -> SparseTensor:
        """``n`` entries with given indices, of which each is the sum of the parts' values that go there."""
        room = max(1, 1 << (n - 1).bit_length()) if n and len(ids) else n
        filled = np.full((ids.shape[0], room), 0, np.int64)
        filled[:, :n] = ids
        if room > n:
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
        """The dense tensor with the same elements; differentiable with respect to the values.

        Args:
            masked_grad: with False, a leaf, or the dense tensor that this was made of, gets the gradient of all its
                elements, which is dense.
        """
        if dtype is not None:
            raise RuntimeError("dtype argument is not supported by sparse_to_dense")
        if masked_grad is False and self._is_from_leaf():
            found = self._elements()
            if found is not None:
                return found()
            raise NotImplementedError(
                "the gradient of all elements of what was computed from a sparse leaf, or from to_sparse(): only that "
                "of its entries is known. Use to_dense() or the functions of torch.sparse, or compute with "
                "leaf.to_dense(masked_grad=False), or with the dense tensor"
            )
        return _run(_dense_plan(self._size), [self._vals, self._ids])

    def _elements(self) -> Callable[[], Tensor] | None:
        """What gives the dense tensor that gets the gradient of all elements, where that is known."""
        if self._requires_grad and self.is_leaf:
            return lambda: with_history(self.detach().to_dense(), (Elements(self), 0))
        return self._dense

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
        return self._own.dtype

    @property
    def itemsize(self) -> int:
        return self._own.itemsize

    def element_size(self) -> int:
        return self._own.itemsize

    @property
    def device(self) -> Any:
        return self._own.device

    @property
    def layout(self) -> Any:
        return sparse_coo

    @property
    def _writes(self) -> int:
        return self._own._writes

    def is_inference(self) -> bool:
        return self._own.is_inference()

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
        return self._requires_grad or self._own.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._check_flag(value)
        self._requires_grad = bool(value)

    def _is_differentiable(self) -> bool:
        return self._own._is_differentiable()  # type: ignore[no-any-return]

    @property
    def is_leaf(self) -> bool:
        return not self._own.requires_grad

    @property
    def grad_fn(self) -> Any:
        return self._own.grad_fn

    @property
    def _output_nr(self) -> int:  # type: ignore[override]
        return self._own._output_nr

    def _is_from_leaf(self) -> bool:
        """Whether a sparse leaf, or a dense tensor by its entries, gets a gradient from this tensor."""
        if self.is_leaf:
            return self._requires_grad
        if self._dense is not None:
            return True
        seen: set[Node] = set()
        stack = [self._own.grad_fn]
        while stack:
            node = stack.pop()
            if type(node) is Entries or type(node) is Picked:
                return True
            if node is not None and node not in seen:
                seen.add(node)
                stack += [edge[0] for edge in node.edges if edge is not None]
        return False

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        if self.is_leaf:
            return super().register_hook(hook)  # type: ignore[no-any-return,misc]
        like = self.detach()

        def on_values(grad: Any) -> Tensor | None:
            changed = hook(None if grad is None else like._with(grad))  # type: ignore[arg-type]
            return None if changed is None else like._gradient_of_values(changed)

        return self._own.register_hook(on_values)  # type: ignore[no-any-return,attr-defined]

    def _gradient_of_values(self, gradient: Tensor) -> Tensor:
        """A gradient of this tensor as one of its values."""
        dense = gradient.to_dense()  # type: ignore[attr-defined]
        return dense.sparse_mask(self)._vals  # type: ignore[no-any-return,attr-defined]

    def detach(self) -> SparseTensor:
        return self._with(self._own.detach())

    def _alias(self) -> SparseTensor:
        return self._with(self._own._alias())

    def detach_(self) -> SparseTensor:
        self._own, self._requires_grad = self._own.detach(), False
        return self

    @property  # type: ignore[override]
    def data(self) -> SparseTensor:
        return self.detach()

    @data.setter
    def data(self, other: SparseTensor) -> None:
        gradients.check_layout(self, other)
        self._hold(other._ids, other._own.detach(), other._coalesced, other._loose)
        self._size = other._size

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """With values of another dtype, or on another device."""
        vals = self._vals.to(*args, **kwargs)  # type: ignore[attr-defined]
        if (vals.dtype, vals.device) == (self.dtype, self.device) and not kwargs.get("copy"):
            return self
        new = self._with(vals)
        if vals.device != self.device:
            new._ids = self._ids.to(vals.device)  # type: ignore[attr-defined]
        return new

    def type(self, dtype: Any = None, **kwargs: Any) -> Any:
        if dtype is None:
            return str(self._own.type()).replace("torch.", "torch.sparse.")  # type: ignore[attr-defined]
        return self._with(self._vals.type(dtype))  # type: ignore[attr-defined]

    def _host(self, what: str) -> np.ndarray:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def numpy(self, *, force: bool = False) -> np.ndarray:
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        text = printing.sparse_repr(self)
        return f"Parameter containing:\n{text}" if self._is_param else text

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        if id(self) not in memo:
            copy = memo[id(self)] = self._with(self._own.__deepcopy__(memo))
            copy._ids, copy._requires_grad = self._ids.__deepcopy__(memo), self._requires_grad
            copy._is_param = self._is_param
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._is_param:
            return _parameter, (self.detach(), self.requires_grad)
        return self._reduced()

    def _reduced(self) -> Any:
        self._trim()
        return SparseTensor._make, (self._ids, self._own, self._size, self._coalesced)

    def _filed(self) -> tuple[Any, ...]:
        """What a file has of it."""
        return self._indices(), self._values(), self.shape, self._coalesced

    def pow(self, exponent: Any) -> SparseTensor:
        """The elements to a power that is a number."""
        if isinstance(exponent, Tensor):
            raise SparseOperand
        coalesced = self.coalesce()
        return coalesced._with(coalesced._vals.pow(exponent))  # type: ignore[attr-defined]

    __pow__ = pow

    # ------------------------------------------------------------------ in place

    def _check_inplace(self, *others: Any, name: str = "") -> None:
        if self._requires_grad and grad_mode.state.enabled:
            raise RuntimeError(LEAF_INPLACE)

    def _take(self, out: Any, recorded: bool = True) -> SparseTensor:
        if not out.is_sparse or out.shape != self.shape:
            raise SparseOperand
        if out.dtype is not self.dtype:
            check_cast(out.dtype, self.dtype)
            out = out.to(self.dtype)
        self._hold(out._ids, out._vals, out._coalesced, out._loose)
        return self

    def zero_(self) -> SparseTensor:
        """Take all entries away."""
        self._check_inplace()
        k = self.sparse_dim()
        empty = wrap(_zeros((0, *self._size[k:]), self._own._value.dtype))
        self._hold(wrap(_zeros((k, 0), np.int64)), empty, True, False)
        return self


def _parameter(data: SparseTensor, requires_grad: bool) -> SparseTensor:
    data._is_param = True
    data.requires_grad = requires_grad
    return data


def _convert(name: str) -> Callable[..., Any]:
    def method(self: SparseTensor, *args: Any, **kwargs: Any) -> SparseTensor:
        return self.to(getattr(self._own, name)(*args, **kwargs).dtype)

    method.__name__ = name
    return method


for _name in ("double", "float", "half", "bfloat16", "long", "int", "short", "char", "bool"):
    setattr(SparseTensor, _name, _convert(_name))


# helpers


def linear_index(indices: Any, size: Sequence[int]) -> Any:
    """Indices ``(sparse_dim, n)`` as positions in the flattened sparse dimensions; works on numpy and JAX arrays.

    An entry that is left out gets a position past the end.
    """
    k = indices.shape[0]
    linear = (0 * indices).sum(0)  # zeros, of a 0-dim tensor too
    for row, n in zip(indices, size[:k]):
        linear = linear * n + row
    return linear


def check_cast(found: dtypes.dtype, wanted: dtypes.dtype) -> None:
    """Refuse to write numbers that a tensor cannot hold."""
    if not can_cast(found, wanted):
        raise RuntimeError(f"Can't convert result type {found.scalar_name} to output {wanted.scalar_name}")


def _on_host(indices: Tensor) -> np.ndarray:
    if isinstance(indices._value, jax.core.Tracer):
        raise NotImplementedError(
            "the entries of a sparse tensor are not known while a function is being compiled: use .to_dense(), or "
            "look at them outside"
        )
    return np.asarray(indices._value)


def _device(array: np.ndarray) -> Tensor:
    return wrap(placing.put(array))


def _zeros(shape: Sequence[int], dtype: Any) -> Any:
    return placing.put(np.zeros(shape, dtype))


def _np_dtype(tensor: Tensor) -> Any:
    return tensor._value.dtype


def _run(plan: Any, arguments: Sequence[Any]) -> Tensor:
    return run(plan, arguments)


@functools.lru_cache(tuning.cached_programs)
def _dense_plan(size: tuple[int, ...]) -> Any:
    def to_dense(values: Any, indices: Any) -> Any:
        return _scattered(jnp.zeros(size, values.dtype), indices, values)

    return _plan(to_dense, "ToDenseBackward0")


def _plan(fn: Callable[..., Any], node: str) -> Any:
    return Plan(fn, fn.__name__, node)


def _scattered(dense: Any, indices: Any, values: Any) -> Any:
    """``dense`` plus the entries."""
    k = indices.shape[0]
    flat = dense.reshape(math.prod(dense.shape[:k]), *dense.shape[k:])
    places = flat.at[linear_index(indices, dense.shape)]
    sums = places.max if flat.dtype == bool else places.add
    return sums(values, mode="drop").reshape(dense.shape)
