"""`Tensor`: a handle on a `Storage`, with an optional view of it and what autograd needs.

Several tensors may be handles on one Storage; reading one runs its view on the array there, writing goes through the
view to the Storage. The rest of PyTorch's methods are in files of their own: `attributes`, `gradients` and `interop`
here, the operations in `ops`, in-place writes in `_run.inplace`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from .._array import tracing
from .._array.sizes import sized
from .._array.storage import Storage
from .._array.value import HOST, LAZY, OTHERS
from .._base import device as devices
from .._base import dtypes, inside
from .._base.size import Size
from . import cells as _cells  # noqa: F401  (methods of Storage)
from . import overriding
from .node import Hooks
from .view import View

__all__ = ["Tensor", "View", "attach", "bare", "wrap"]

_new = object.__new__


def bare(cls: type[Any]) -> Any:
    """A tensor without a Storage."""
    tensor = _new(cls)
    tensor._view = tensor._base = tensor._grad_fn = tensor._kept_grad = tensor._accumulator = None
    tensor._requires_grad, tensor._output_nr = False, 0
    return tensor


def wrap(value: Any) -> Tensor:
    """A fresh Tensor around an array."""
    if value.__class__ in HOST and not tracing.overlay:
        return wrap_small(value)
    tensor = _new(Tensor)
    tensor._storage = Storage(value)
    tensor._view = tensor._base = tensor._grad_fn = tensor._kept_grad = tensor._accumulator = None
    tensor._requires_grad, tensor._output_nr = False, 0
    return tensor


def wrap_small(value: Any, form: int | None = None) -> Tensor:
    """As `wrap` for a numpy array, which the executor computes with as it is; ``form`` is its `form_of`, if known."""
    tensor = _new(Tensor)
    cell = tensor._storage = _new(Storage)  # written out: small operations are made of this
    cell.held, cell.form = value, form
    cell.version = cell.apart = 0
    if tracing.inferring:
        cell.version = tracing.UNTRACKED
    if inside.met and inside.top_trace(None) is not inside.NO_TRACE:
        inside.note(cell)
    tensor._view = tensor._base = tensor._grad_fn = tensor._kept_grad = tensor._accumulator = None
    tensor._requires_grad, tensor._output_nr = False, 0
    return tensor


class Tensor:
    """A multi-dimensional array with PyTorch's semantics on JAX.

    Calling the class is the legacy constructor: ``Tensor(2, 3)`` is uninitialised (zeros here), ``Tensor([1, 2])``
    holds the data in the default dtype. Use :func:`functorch_port.tensor` instead.

    Reference: https://docs.pytorch.org/docs/stable/tensors.html
    """

    __slots__ = (
        "__dict__", "__weakref__", "_accumulator", "_base", "_grad_fn", "_kept_grad", "_output_nr", "_requires_grad",
        "_storage", "_view",
    )  # fmt: skip
    __module__ = "functorch_port"
    _storage: Storage
    _view: Any
    _base: Any
    _grad_fn: Any
    _requires_grad: bool
    _output_nr: int
    __array_priority__ = 1000

    if TYPE_CHECKING:  # what is written elsewhere

        def __getattr__(self, name: str) -> Any: ...

    #: of a view: `_version` when its history was last right; what is written after that may be recorded by the base
    _version_seen = 0
    _hooks: Hooks | None = None
    _post_accumulate_hooks: Hooks | None = None
    _retains_grad = False
    #: of a view without a history: whether it requires a gradient because its base does
    _inherits = False
    #: in an open dual level: that, and the tangent (see `_run.duals`)
    _dual: tuple[Any, Tensor | None] | None = None
    #: the count of writes, as a list of one number, of a tensor that came from ``.data`` and counts for itself
    _own_count: list[int] | None = None
    #: whether it has entries in place of a Storage, in one of the sparse layouts
    _sparse = False
    is_sparse = is_sparse_csr = is_quantized = is_mkldnn = is_nested = is_mps = is_xpu = False

    def __new__(cls, *args: Any, device: Any = None) -> Tensor:
        made = cls._legacy(args, device)  # from `creation`
        return made if cls is Tensor else made._as(cls)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        jax.tree_util.register_pytree_node(cls, _flatten, _unflatten)
        if overriding.is_overriding(cls):
            overriding.activate()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Everything is done in `__new__`."""

    @classmethod
    def _wrap(cls, value: Any) -> Tensor:
        return wrap(value)

    # ---------------------------------------------------------------- value

    @property
    def _value(self) -> Any:
        """The current array (a tracer during a trace)."""
        if self._view is None:
            return self._storage.value
        return self._view.get(self._storage)

    def _look(self) -> Any:
        """The current array where it is: numpy's or JAX's (see `Storage.look`)."""
        cell = self._storage
        if self._view is None:
            return cell.look()
        if tracing.overlay:
            return self._view.get(cell)
        value = self._peek()
        return value.array() if value.__class__ in LAZY else value

    def _aval(self) -> Any:
        """Something of the current array's shape and dtype: nothing is computed for it."""
        if self._view is None:
            return self._storage.aval()
        return self._look() if tracing.overlay else self._view.aval(self._storage)

    def _peek(self) -> Any:
        """The current array where it is, or the lazy value: for an operation, or to be put into another tensor."""
        cell, view = self._storage, self._view
        if tracing.overlay:
            return self._look()
        found = cell.host() if cell.held.__class__ in OTHERS else None
        if view is None:
            return cell.peek() if found is None else found
        value = None if found is None else view.host(found)
        return view.peek(cell) if value is None else value

    def _set_value(self, value: Any) -> None:
        """Write in place, through views; counts up the version; not recorded."""
        if self._view is None:
            self._storage.value = value
        else:
            self._view.put(self._storage, Storage(value).array() if value.__class__ in OTHERS else value)
        own = self._counter()
        if own is not None:
            own[0] += 1
            self._storage.apart += 1

    def jax(self) -> jax.Array:
        """The value as a `jax.Array` (an immutable snapshot; nothing is copied)."""
        return self._value

    __jax_array__ = jax

    # ---------------------------------------------------------------- sizes

    @property
    def shape(self) -> Size:
        shape = self._aval().shape
        return Size(sized(shape) if tracing.overlay else shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        if dim is None:
            return self.shape
        return self.shape[self._wrap_dim(dim)]

    def _wrap_dim(self, dim: int) -> int:
        n = len(self._aval().shape)
        if not n:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        if not -n <= dim < n:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
            )
        return dim

    @property
    def ndim(self) -> int:
        return len(self._aval().shape)

    def dim(self) -> int:
        """Number of dimensions."""
        return len(self._aval().shape)

    ndimension = dim

    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    nelement = numel

    @property
    def dtype(self) -> dtypes.dtype:
        return dtypes.from_np(self._aval().dtype)

    @property
    def device(self) -> devices.device:
        return self._storage.device

    # --------------------------------------------------------------- writes

    @property
    def _version(self) -> int:
        if self.is_inference():
            raise RuntimeError("Inference tensors do not track version counter.")
        return self._writes

    def is_inference(self) -> bool:
        """Whether the tensor's memory was made in `inference_mode`."""
        return self._storage.version.__class__ is tracing.Untracked

    @property
    def _writes(self) -> int:
        """How often the tensor was written to."""
        own = self._counter()
        return self._storage.version - self._storage.apart if own is None else own[0]

    def _touch(self) -> None:
        """Count an in-place operation that writes no element, as PyTorch counts it."""
        own = self._counter()
        if own is not None:
            own[0] += 1
        else:
            self._storage.version += 1

    def _counter(self) -> Any:
        """The count that this tensor's writes are added to, unless that is the Storage's."""
        return self._own_count if self._base is None else self._base._own_count

    def _look_at(self, cell: Storage, view: View | None) -> None:
        """Become a handle on another Storage."""
        if tracing.overlay and tracing.overlay.rebinds:
            tracing.overlay.note_data(self)
        tracing.bump_epoch()
        self._storage, self._view, self._base = cell, view, None

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("len() of a 0-d tensor")
        return shape[0]

    __hash__ = object.__hash__


Tensor.__annotations__.clear()  # `typing.get_type_hints` would look them up in the package


def attach(*methods: Callable[..., Any], **properties: property) -> None:
    """Give `Tensor` methods and properties that are written elsewhere."""
    for method in methods:
        method.__qualname__ = f"Tensor.{method.__name__}"
        setattr(Tensor, method.__name__, method)
    for name, made in properties.items():
        made.__set_name__(Tensor, name)  # which errors say
        setattr(Tensor, name, made)


def _flatten(tensor: Tensor) -> tuple[tuple[Any, ...], Any]:
    return (tensor._value,), (type(tensor), tensor._requires_grad)


def _unflatten(aux: Any, children: Sequence[Any]) -> Tensor:
    cls, requires_grad = aux
    tensor = bare(cls)
    tensor._storage, tensor._requires_grad = Storage(children[0]), requires_grad
    return tensor


jax.tree_util.register_pytree_node(Tensor, _flatten, _unflatten)
overriding._tensor = Tensor
