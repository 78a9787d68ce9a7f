"""`Tensor`: a handle on a `Storage`, an optional view of it, and autograd metadata."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax

from .._array import tracing
from .._array.storage import Storage
from .._array.value import HOST, LAZY, OTHERS
from .._base import device as devices
from .._base import dtypes, inside, layout
from .._base.layout import channels_last, channels_last_3d, is_in_format
from .._base.size import Size
from .._base.strides import contiguous
from . import overriding
from . import untyped as _untyped  # noqa: F401  (methods of Storage)
from .node import Hooks
from .registered import function
from .view import View

__all__ = ["Tensor", "View", "bare", "wrap"]

NO_SUBCLASS = (
    "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your "
    "class inherits from Tensor."
)

_new = object.__new__


def bare(cls: type[Any]) -> Any:
    """A tensor without a Storage."""
    tensor = _new(cls)
    tensor._view = tensor._base = tensor._grad_fn = tensor._kept_grad = tensor._accumulator = None
    tensor._requires_grad = False
    tensor._output_nr = 0
    return tensor


def wrap(value: Any) -> Tensor:
    """A fresh Tensor around an array."""
    if value.__class__ in HOST and not tracing.overlay:
        return wrap_small(value)
    tensor = _new(Tensor)
    tensor._storage = Storage(value)
    tensor._view = tensor._base = tensor._grad_fn = tensor._kept_grad = tensor._accumulator = None
    tensor._requires_grad = False
    tensor._output_nr = 0
    return tensor


def wrap_small(value: Any, form: int | None = None) -> Tensor:
    """As `wrap` for a numpy array that stays on the host; its `form_of` where that is known."""
    tensor = _new(Tensor)
    cell = tensor._storage = _new(Storage)  # written out: small operations are made of this
    cell.held = value
    cell.form = form
    cell.version = cell.apart = 0
    if tracing.inferring:
        cell.version = tracing.UNTRACKED
    if inside.met and inside.top_trace(None) is not inside.NO_TRACE:
        inside.note(cell)
    tensor._view = tensor._base = tensor._grad_fn = tensor._kept_grad = tensor._accumulator = None
    tensor._requires_grad = False
    tensor._output_nr = 0
    return tensor


class Tensor:
    """A multi-dimensional array with PyTorch's semantics on JAX.

    Calling the class is the legacy constructor: ``Tensor(2, 3)`` is uninitialised (zeros here), ``Tensor([1,
    2])`` holds
    the data in the default dtype. Use :func:`functorch_port.tensor` instead.

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
    # what `gradients`, `interop`, `creation`, `autograd.methods` and `_run.inplace` install
    requires_grad: bool
    grad: Tensor | None
    data: Tensor
    grad_fn: Any
    is_leaf: bool
    detach: Callable[[], Tensor]
    item: Callable[[], Any]
    _legacy: Callable[..., Tensor]
    backward: Callable[..., None]
    _check_inplace: Callable[..., Any]
    _check_history: Callable[..., Any]
    _sync_view: Callable[..., Any]
    _take: Callable[..., Any]

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
    is_sparse = is_sparse_csr = is_quantized = is_mkldnn = is_nested = is_mps = is_xpu = False

    def __new__(cls, *args: Any, device: Any = None) -> Tensor:
        made = cls._legacy(args, device)
        return made if cls is Tensor else made._as(cls)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        jax.tree_util.register_pytree_node(cls, _flatten, _unflatten)
        if overriding.is_overriding(cls):
            overriding.activate()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Everything is done in `__new__`."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What a function does with tensors of this class: itself, and its results are of the class.

        A subclass may have its own, and call this one: ``super().__torch_function__(func, types, args, kwargs)``.

        Args:
            func: the function, method, getter or setter that was called.
            types: the classes of the arguments that have a ``__torch_function__``.
            args, kwargs: the arguments.

        Example:
            >>> import functorch_port as torch
            >>> class Named(torch.Tensor):
            ...     pass
            >>> Named([1., 2.]) + 1
            Named([2., 3.])

        Reference: https://docs.pytorch.org/docs/stable/notes/extending.html
        """
        return overriding.default(cls, func, types, args, kwargs)

    def _as(self, cls: type[Tensor]) -> Any:
        """Another handle, of a subclass, on what this one is a handle on."""
        if getattr(cls, "__torch_dispatch__", overriding.no_dispatch) is not overriding.no_dispatch:
            raise NotImplementedError(
                f"{cls.__name__}: __torch_dispatch__ is not called here, as there are no dispatch keys: "
                "override functions by __torch_function__"
            )
        made = bare(cls)
        for slot in ("_storage", "_view", "_base", "_grad_fn", "_requires_grad", "_output_nr"):
            setattr(made, slot, getattr(self, slot))
        made._version_seen = self._version_seen
        if tracing.overlay and not tracing.overlay.transforms:
            tracing.overlay.note_made(made)
        return made

    @staticmethod
    def _make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Any:
        """An instance of a subclass that shares the Storage of ``data`` and is cut off from its history."""
        if not isinstance(data, Tensor):
            raise TypeError(
                f"_make_subclass(): argument 'data' (position 2) must be Tensor, not {type(data).__name__}"
            )
        if not issubclass(cls, Tensor):
            raise TypeError(NO_SUBCLASS)
        with overriding.WithoutAll():
            made = data.detach()._as(cls)
            made.requires_grad = require_grad
        return made

    @staticmethod
    def _make_wrapper_subclass(cls: type[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Refused: a tensor without elements needs ``__torch_dispatch__``."""
        raise NotImplementedError(
            "Tensor._make_wrapper_subclass: a tensor without elements of its own needs __torch_dispatch__, which is "
            "not called here: hold the tensors in a class with __torch_function__"
        )

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
        """The current array where it is, a numpy array if that is on the host (see `Storage.look`)."""
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
            self._view.put(self._storage, device_value(value))
        if self._own_count is not None or (self._base is not None and self._base._own_count is not None):
            self._counter()[0] += 1
            self._storage.apart += 1

    def _touch(self) -> None:
        """Count an in-place operation that writes no element, as PyTorch counts it."""
        own = self._counter()
        if own is not None:
            own[0] += 1
        else:
            self._storage.version += 1

    def jax(self) -> jax.Array:
        """The value as a `jax.Array` (an immutable snapshot; nothing is copied)."""
        return self._value

    __jax_array__ = jax

    @property
    def shape(self) -> Size:
        return Size(self._aval().shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        if dim is None:
            return self.shape
        return self._aval().shape[self._wrap_dim(dim)]

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
        return math.prod(self._aval().shape)

    nelement = numel

    @property
    def dtype(self) -> dtypes.dtype:
        return dtypes.from_np(self._aval().dtype)

    @property
    def itemsize(self) -> int:
        return self._aval().dtype.itemsize

    def element_size(self) -> int:
        """Bytes per element."""
        return self._aval().dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.numel() * self.itemsize

    @property
    def device(self) -> devices.device:
        return device_of(self._storage)

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        return self.device.type == "cpu"

    @property
    def is_meta(self) -> bool:
        return self.device.type == "meta"

    def get_device(self) -> int:
        """Index of the device, -1 on the CPU."""
        return -1 if self.is_cpu else (self.device.index or 0)

    @property
    def layout(self) -> Any:
        return layout.strided

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        return self.dtype.is_signed

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
        own = (self if self._base is None else self._base)._own_count
        return self._storage.version - self._storage.apart if own is None else own[0]

    def _counter(self) -> Any:
        """The count that this tensor's writes are added to, unless that is the Storage's."""
        return self._own_count if self._base is None else self._base._own_count

    # --------------------------------------------------------------- layout

    def _layout(self) -> tuple[tuple[int, ...], int]:
        if self._view is None:
            return contiguous(self._aval().shape), 0
        return self._view.layout(self._storage)

    def _turned(self) -> tuple[bool, bool]:
        """Whether it shows the conjugate, and whether the negative, of what is in the Storage."""
        return (False, False) if self._view is None else self._view.turned()

    def _strides(self) -> tuple[int, ...]:
        return self._layout()[0]

    def stride(self, dim: int | None = None) -> Any:
        """Element strides, as PyTorch's layout of the same views would have them."""
        strides = self._strides()
        return strides if dim is None else strides[self._wrap_dim(dim)]

    def storage_offset(self) -> int:
        """Position of the first element in the Storage."""
        return self._layout()[1]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in order, that of ``memory_format``, as PyTorch's layout of the same views would."""
        if memory_format in (channels_last, channels_last_3d):
            return is_in_format(self._aval().shape, self._strides(), memory_format)
        return self._view is None or self._view.is_contiguous(self._storage)

    def _overlaps(self) -> bool:
        return (
            self._view is not None
            and self._view.may_overlap
            and any(s == 0 and n > 1 for s, n in zip(self._strides(), self._value.shape, strict=True))
        )

    def _is_look_of(self, other: Any) -> bool:
        """Whether ``other`` is the same look at the same elements: copying it does nothing."""
        return (
            isinstance(other, Tensor)
            and self._storage is other._storage
            and self.dtype is other.dtype
            and not any(t._view is not None and t._view.is_traced() for t in (self, other))
            and self.is_set_to(other)
        )

    def data_ptr(self) -> int:
        """An address-like number: equal for tensors that start at the same element of one Storage."""
        return self._storage.data_ptr() + self.storage_offset() * self.itemsize

    def is_set_to(self, tensor: Tensor) -> bool:
        """Whether both look at the same elements of one Storage in the same way."""
        return (
            self._storage is tensor._storage
            and self.shape == tensor.shape
            and self._layout() == tensor._layout()
            and self._turned() == tensor._turned()
        )

    def untyped_storage(self) -> Storage:
        """The `Storage` that holds the value."""
        return self._storage

    def _is_view(self) -> bool:
        return self._base is not None

    is_shared = is_pinned = lambda self: False

    def share_memory_(self) -> Tensor:
        return self

    def pin_memory(self, device: Any = None) -> Tensor:
        return self

    # ------------------------------------------------------------- autograd

    def _look_at(self, cell: Storage, view: View | None) -> None:
        """Become a handle on another Storage."""
        if tracing.overlay and tracing.overlay.rebinds:
            tracing.overlay.note_data(self)
        self._storage, self._view, self._base = cell, view, None

    def __len__(self) -> int:
        shape = self._aval().shape
        if not shape:
            raise TypeError("len() of a 0-d tensor")
        return shape[0]

    __hash__ = object.__hash__

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self)} - {"__dict__"})


def _rebuild(
    cls: type[Tensor], cell: Storage, view: Any, requires_grad: bool, extra: dict[str, Any]
) -> Tensor:
    """Unpickle a tensor; tensors that shared a Storage share it again."""
    tensor = _new(cls)
    tensor._storage = cell
    tensor._view = tensor._base = tensor._grad_fn = tensor._kept_grad = tensor._accumulator = None
    tensor._requires_grad, tensor._output_nr = requires_grad, 0
    if view is not None:
        with overriding.WithoutAll():
            tensor._view = function("_strided")(tensor.detach(), *view)._view
    tensor.__dict__.update(extra)
    return tensor


def device_value(value: Any) -> Any:
    """A value as a `jax.Array`, wherever it is."""
    return Storage(value).array() if value.__class__ in OTHERS else value


@functools.cache
def _host_device() -> devices.device:
    return devices.from_jax(jax.devices("cpu")[0])


_DEVICES: dict[Any, devices.device] = {}


def device_of(cell: Storage) -> devices.device:
    """Where the value of a Storage is; of one that a trace made, where the trace's program runs."""
    value = cell.held
    if value.__class__ in OTHERS:
        if value.__class__ in HOST or value.on_cpu:
            return _host_device()
        value = cell.array()
    if isinstance(value, jax.ShapeDtypeStruct):
        return devices.device("meta")
    if isinstance(value, jax.core.Tracer):
        overlay = tracing.current()
        return (overlay and overlay.device()) or devices.get_default_device()
    sharding = value.sharding
    found = _DEVICES.get(sharding)
    if found is None:
        found = _DEVICES[sharding] = devices.from_jax(next(iter(sharding.device_set)))
    return found


def _flatten(tensor: Tensor) -> tuple[tuple[Any, ...], Any]:
    return (tensor._value,), (type(tensor), tensor._requires_grad)


def _unflatten(aux: Any, children: Sequence[Any]) -> Tensor:
    cls, requires_grad = aux
    tensor = wrap(children[0])
    if cls is not Tensor:
        new = _new(cls)
        for slot in ("_storage", "_view", "_base", "_grad_fn", "_grad", "_accumulator", "_output_nr"):
            setattr(new, slot, getattr(tensor, slot))
        tensor = new
    tensor._requires_grad = requires_grad
    return tensor


jax.tree_util.register_pytree_node(Tensor, _flatten, _unflatten)
Storage.device = property(device_of, doc="Where it is.")
overriding._tensor = Tensor
