"""`Tensor`: a handle on a `Storage`, an optional view of it, and autograd metadata."""

from __future__ import annotations

import copy
import functools
import math
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array import executor, storage
from .._array.storage import HOST, LAZY, OTHERS, Storage
from .._base import device as devices
from .._base import dtypes, inside, memory
from .._base.layout import channels_last, channels_last_3d, is_in_format
from .._base.size import Size
from .._base.strides import contiguous
from . import grad_mode, overriding
from . import untyped as _untyped  # noqa: F401  (methods of Storage)
from .node import Hooks, RemovableHandle
from .registered import function
from .view import PLAIN, View

__all__ = ["Tensor", "View", "bare", "wrap"]

_grad = grad_mode.state

NO_SUBCLASS = (
    "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your "
    "class inherits from Tensor."
)
DETACH_VIEW = (
    "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for "
    "training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence "
    "detach_() cannot be called on these gradients. To fix this error, please refer to the "
    "Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution."
)
#: what C++ calls the types, where an error text says so
C_NAMES = {
    "float64": "double", "float32": "float", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int64": "long int",
    "int32": "int", "int16": "short int", "int8": "signed char", "uint8": "unsigned char", "complex64":
    "c10::complex<float>",
    "complex128": "c10::complex<double>",
}  # fmt: skip


_new = object.__new__


def bare(cls: type[Any]) -> Any:
    """A tensor without a Storage."""
    tensor = _new(cls)
    tensor._view = tensor._base = tensor._grad_fn = tensor._kept_grad = tensor._accumulator = None
    tensor._requires_grad = False
    tensor._output_nr = 0
    return tensor


#: what `Tensor.__dict__` has of the library's own
_BOOKKEEPING = frozenset({
    "_hooks", "_inherits", "_own_count", "_post_accumulate_hooks", "_retains_grad", "_version_seen",
})  # fmt: skip


def wrap(value: Any) -> Tensor:
    """A fresh Tensor around an array."""
    if value.__class__ in HOST and not storage.overlay:
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
    if storage.inferring:
        cell.version = storage.UNTRACKED
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
    # what `autograd.engine` and `_run.inplace` install
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
        from . import creation

        made = creation.legacy(args, device)
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
        if storage.overlay and not storage.overlay.transforms:
            storage.overlay.note_made(made)
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
        if storage.overlay:
            return self._view.get(cell)
        value = self._peek()
        return value.array() if value.__class__ in LAZY else value

    def _aval(self) -> Any:
        """Something of the current array's shape and dtype: nothing is computed for it."""
        if self._view is None:
            return self._storage.aval()
        return self._look() if storage.overlay else self._view.aval(self._storage)

    def _peek(self) -> Any:
        """The current array where it is, or the lazy value: for an operation, or to be put into another tensor."""
        cell, view = self._storage, self._view
        if storage.overlay:
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
        from .._base import layout

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
        return self._storage.version.__class__ is storage.Untracked

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

    def storage(self) -> Any:
        """The `Storage` as a `TypedStorage`, which counts elements of the tensor's dtype."""
        from .typed import TypedStorage

        return TypedStorage(wrap_storage=self._storage, dtype=self.dtype)

    _typed_storage = storage

    def _is_view(self) -> bool:
        return self._base is not None

    is_shared = is_pinned = lambda self: False

    def share_memory_(self) -> Tensor:
        return self

    def pin_memory(self, device: Any = None) -> Tensor:
        return self

    # ------------------------------------------------------------- autograd

    @property
    def requires_grad(self) -> bool:
        base = self._base
        if base is None:
            return self._requires_grad
        if self._view.origin is not PLAIN:  # type: ignore[union-attr]
            return self._requires_grad or (base._requires_grad and self._is_differentiable())
        self._sync_view()
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self.grad_fn is not None:
            more = (
                ""
                if value
                else (
                    " If you want to use a computed variable in a subgraph that doesn't require "
                    "differentiation use var_no_grad = var.detach()."
                )
            )
            raise RuntimeError(f"you can only change requires_grad flags of leaf variables.{more}")
        if value and not self._is_differentiable():
            raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
        if value:
            self._check_requires_grad()
        self._inherits = False
        if self._requires_grad != bool(value):
            if storage.in_jax():
                inside.may_change(self, "requires_grad")
            if storage.overlay:
                storage.overlay.note_flag(self, self._requires_grad)
            storage.bump_epoch()
        self._requires_grad = bool(value)

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise RuntimeError("requires_grad must be a bool")

    def _check_requires_grad(self) -> None:
        """Refuse what was made in inference mode, outside of it."""
        if not _grad.inference and self.is_inference():
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
            )

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set `requires_grad` and return the tensor."""
        if not isinstance(requires_grad, bool):
            raise TypeError(
                "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not "
                + type(requires_grad).__name__
            )
        if requires_grad and not self._is_differentiable():
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if not (requires_grad and (self._is_stale() or self.grad_fn is not None)):
            self.requires_grad = requires_grad
        return self

    @property
    def grad_fn(self) -> Any:
        """The node that made this tensor, or None for a leaf."""
        if self._base is not None:
            self._sync_view()
        return self._grad_fn

    @property
    def output_nr(self) -> int:
        return self._output_nr

    @property
    def is_leaf(self) -> bool:
        return self.grad_fn is None

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient, a Tensor of this tensor's shape, or None."""
        if self._grad_fn is not None and not self._retains_grad and self._grad is None:
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
                "attribute won't be populated during autograd.backward(). If you indeed want the .grad field "
                "to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you "
                "access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead.",
                UserWarning,
                stacklevel=2,
            )
        return self._get_grad()

    @grad.setter
    def grad(self, grad: Tensor | None) -> None:
        if grad is not None:
            if not isinstance(grad, Tensor):
                raise TypeError(
                    f"assigned grad expected to be a Tensor or None but got grad of type {type(grad).__name__}"
                )
            if grad is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if grad.shape != self.shape:
                raise RuntimeError(
                    f"attempting to assign a gradient of size '{list(grad.shape)}' to a tensor of size "
                    f"'{list(self.shape)}'. Please ensure that the gradient and the tensor are the same size"
                )
            if grad.dtype != self.dtype:
                raise RuntimeError(
                    "attempting to assign a gradient with dtype '"
                    f"{C_NAMES.get(grad.dtype.name, grad.dtype.name)}' to a tensor with grad_dtype "
                    f"'{self.dtype.scalar_name}'. The gradient must match the tensor's grad_dtype (defaults "
                    "to the tensor's dtype). You can set the tensor's grad_dtype attribute with a specific "
                    "dtype, or None to allow any dtype. Set grad_dtype with caution. Diverging the dtypes of "
                    "a tensor and its gradient may break downstream systems that assume they match."
                )
        if grad is not self._kept_grad and storage.in_jax():
            inside.may_rebind(self, grad, "gets another gradient")
        self._set_grad(grad)

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def _grad(self) -> Tensor | None:
        """The gradient outside of any trace; one that a compiled step left pending is computed now."""
        grad = self._kept_grad
        if grad is None or isinstance(grad, Tensor):
            return grad
        grad.fill()
        return self._kept_grad

    @_grad.setter
    def _grad(self, grad: Tensor | None) -> None:
        self._kept_grad = grad

    def _get_grad(self) -> Tensor | None:
        if storage.overlay:
            return storage.overlay.get_grad(self)
        return self._grad

    def _set_grad(self, grad: Tensor | None) -> None:
        if storage.overlay:
            storage.overlay.set_grad(self, grad)
        else:
            self._grad = grad

    def detach(self) -> Tensor:
        """A tensor that shares this one's Storage and is cut off from its history."""
        tensor = _new(Tensor)
        tensor._storage = self._storage
        tensor._view = (
            self._view if not storage.overlay or not storage.overlay.transforms else self._stopped()
        )
        tensor._base = tensor._grad_fn = tensor._kept_grad = tensor._accumulator = None
        tensor._requires_grad = False
        tensor._output_nr = 0
        own = self._counter()
        if own is not None:
            tensor._own_count = own
        if storage.overlay:
            storage.overlay.note_made(tensor, self)
        elif inside.met and inside.top_trace(None) is not inside.NO_TRACE:
            inside.note_handle(tensor)
        return tensor

    def detach_(self) -> Tensor:
        """Cut this tensor off from its history, in place."""
        if self._base is not None:
            raise RuntimeError(DETACH_VIEW)
        if storage.in_jax() and self._requires_grad:
            inside.may_change(self, "requires_grad")
        self._note_history()
        self._grad_fn, self._output_nr, self._requires_grad = None, 0, False
        self._dual = None
        return self

    @property
    def data(self) -> Tensor:
        """A tensor that shares this one's Storage and is invisible to autograd, which does not count its writes."""
        tensor = self.detach()
        tensor._own_count = [0]
        return tensor

    @data.setter
    def data(self, other: Tensor) -> None:
        if not isinstance(other, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(other).__name__}")
        if other.is_sparse is not self.is_sparse:
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor "
                "type."
            )
        overlay = storage.current()
        if (
            overlay is not None
            and not overlay.rebinds
            and (other.shape, other.dtype) == (self.shape, self.dtype)
        ):
            self._set_value(other._value)  # what has no handles beside values: there the write is what counts
            return
        if self._requires_grad and not (other.is_floating_point() or other.is_complex()):
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex dtype"
            )
        if storage.in_jax():
            inside.may_rebind(self, other, "gets other data")
        if overlay is not None and overlay.rebinds:
            overlay.note_inputs((other,))
        storage.bump_epoch()
        if other.is_inference() and not self.is_inference():  # whose writes are counted still, for itself
            self._own_count = self._counter() or [self._writes]
        self._look_at(other._storage, other._view)

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    def _look_at(self, cell: Storage, view: View | None) -> None:
        """Become a handle on another Storage."""
        if storage.overlay and storage.overlay.rebinds:
            storage.overlay.note_data(self)
        self._storage, self._view, self._base = cell, view, None

    def retain_grad(self) -> None:
        """Have ``.grad`` filled by backward although this tensor is not a leaf."""
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if self._grad_fn is None:
            return
        self._retains_grad = True
        if storage.overlay and not storage.overlay.transforms:
            storage.overlay.note_hook(self, "retain_grad")
        node = self._grad_fn
        if node.retained is None:
            node.retained = {}
        node.retained[self._output_nr] = weakref.ref(self)

    @property
    def retains_grad(self) -> bool:
        return self._retains_grad

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call ``hook(grad)`` whenever a gradient of this tensor is computed; what it returns replaces the gradient.

        Reference: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.register_hook.html
        """
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self._hooks is None:
            node = self.grad_fn
            self._hooks = Hooks() if node is None else node.hooks_of(self._output_nr)
        return self._hooked(self._hooks, hook, "register_hook")

    def _hooked(self, table: Hooks, hook: Any, how: str) -> RemovableHandle:
        handle = table.add(hook)
        storage.bump_epoch()
        if storage.overlay and not storage.overlay.transforms:
            storage.overlay.note_hook(self, how, hook, handle)
        return handle

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call ``hook(tensor)`` after a gradient was added to this leaf's ``.grad``."""
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self.grad_fn is not None:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        if self._post_accumulate_hooks is None:
            self._post_accumulate_hooks = Hooks()
        return self._hooked(self._post_accumulate_hooks, hook, "register_post_accumulate_grad_hook")

    # ------------------------------------------------------------- in place

    # ---------------------------------------------------------------- host

    def _host(self, what: str) -> np.ndarray:
        """The value on the host."""
        value = self._look()
        if isinstance(value, jax.core.Tracer):
            if storage.overlay and storage.overlay.transforms:
                return storage.overlay.concrete(value, what)
            raise RuntimeError(
                f"{what} needs a value that is not known while the function is being compiled. Return the "
                "tensor and look at it outside, choose between tensors with torch.where, or branch with "
                "functorch_port.func.cond."
            )
        if isinstance(value, jax.ShapeDtypeStruct):
            if what == "Tensor.tolist()":
                raise NotImplementedError("Cannot copy out of meta tensor; no data!")
            raise RuntimeError(f"{what} cannot be called on meta tensors")
        return memory.run(np.asarray, (value,))

    def item(self) -> Any:
        """The value of a one-element tensor as a Python number."""
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        array = self._host("Tensor.item()")
        return array.item() if array.dtype.kind != "V" else float(array.astype(np.float32).reshape(()))

    def _as_size(self, name: str, instead: str) -> int:
        """The value as a size that the result of ``name`` has. A trace does not know it; the error says what to use."""
        try:
            return int(self.item())
        except RuntimeError:
            if not storage.overlay:
                raise
            raise RuntimeError(storage.overlay.data_dependent(name, instead)) from None

    def tolist(self) -> Any:
        """The value as nested lists of Python numbers (a number for a 0-dim tensor)."""
        array = self._host("Tensor.tolist()")
        return (array if array.dtype.kind != "V" else array.astype(np.float32)).tolist()

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The value as a numpy array.

        Up to 4,096 elements on a CPU it has the tensor's memory, as in PyTorch: what is written to one is in the
        other. A larger tensor is a `jax.Array`, which nobody may write to: of it the result is a copy that is
        read-only, so that no write is lost; ``np.array(t)`` is one to write to.

        Args:
            force: of a tensor that requires a gradient, or is on another device, too.

        Raises:
            RuntimeError: the tensor requires a gradient.
            TypeError: it is on another device, or numpy does not have its dtype.

        Example:
            >>> import functorch_port as torch
            >>> t = torch.zeros(3)
            >>> t.numpy()[1] = 5
            >>> t
            tensor([0., 5., 0.])

        Reference: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.numpy.html
        """
        if _grad.enabled and not force and self.requires_grad:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        if not self.is_cpu and not force and not isinstance(self._value, jax.core.Tracer):
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the "
                "tensor to host memory first."
            )
        for bit, on, how in zip(
            ("conjugate", "negative"), self._turned(), ("resolve_conj", "resolve_neg"), strict=True
        ):
            if on and not force:
                raise RuntimeError(
                    f"Can't call numpy() on Tensor that has {bit} bit set. Use tensor.{how}().numpy() instead."
                )
        if self.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            raise TypeError(f"Got unsupported ScalarType {self.dtype.scalar_name}")
        whole = None if storage.overlay else executor.current.shared_memory(self._storage)
        if whole is not None and self._view is None:
            return whole.view()
        array = self._host("Tensor.numpy()")
        shown = None if whole is None else self._part(whole, array)
        return _only_read(array) if shown is None else shown

    def _part(self, whole: np.ndarray, array: np.ndarray) -> np.ndarray | None:
        """``array``, the value of a view, in the memory of its Storage; None where it does not lie there."""
        if whole.dtype != array.dtype or not whole.flags.c_contiguous:
            return None
        each, (strides, offset) = array.itemsize, self._layout()
        shown = np.ndarray(array.shape, array.dtype, whole, offset * each, [n * each for n in strides])
        return shown if shown.tobytes() == array.tobytes() else None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None and copy is None else np.array(array, dtype, copy=copy)

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Tensor:
        """What a numpy function of a Tensor gives: a Tensor again."""
        from . import creation

        return creation.from_numpy(np.asarray(array, np.uint8 if array.dtype == np.bool_ else None))

    def __dlpack__(self, *, copy: bool | None = None, **kwargs: Any) -> Any:
        """The value for another library, which may write to it: in shared memory where `numpy` gives that, or a copy.

        ``copy=False`` is for who does not write to it.
        """
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if self._turned()[0]:
            raise BufferError("Can't export tensors with the conjugate bit set")
        whole = (
            None
            if storage.overlay or self._view is not None
            else executor.current.shared_memory(self._storage)
        )
        value: Any = whole
        if whole is None:
            value = self._value if copy is False else jnp.copy(self._value)
        return value.__dlpack__(**kwargs) if copy is None else value.__dlpack__(copy=copy, **kwargs)

    def __dlpack_device__(self) -> Any:
        return self._value.__dlpack_device__()

    def __bool__(self) -> bool:
        n = self.numel()
        if n != 1:
            raise RuntimeError(
                f"Boolean value of Tensor with {'more than one value' if n else 'no values'} is ambiguous"
            )
        if self.is_meta:
            raise RuntimeError("Tensor.item() cannot be called on meta tensors")
        return bool(self._host("bool(tensor)").reshape(()))

    def __int__(self) -> int:
        return int(self._one("int64_t"))

    __long__ = __int__
    __nonzero__ = __bool__

    def __float__(self) -> float:
        return float(self._one("double"))

    def __complex__(self) -> complex:
        return complex(self._one())

    def _one(self, real: str = "") -> Any:
        if self.numel() != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        value = self.item()
        if real and isinstance(value, complex):
            raise RuntimeError(f"value cannot be converted to type {real} without overflow")
        return value

    def __index__(self) -> int:
        if self.numel() != 1 or self.dtype.is_floating_point or self.dtype.is_complex:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __len__(self) -> int:
        shape = self._aval().shape
        if not shape:
            raise TypeError("len() of a 0-d tensor")
        return shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if self.dim() == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))  # type: ignore[attr-defined]

    def __contains__(self, element: Any) -> bool:
        if isinstance(element, Tensor | int | float | complex):
            return bool((element == self).any())
        raise RuntimeError(
            f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
        )

    __hash__ = object.__hash__

    def __reversed__(self) -> Tensor:
        return self.flip(0) if self.ndim else self  # type: ignore[attr-defined]

    def __format__(self, spec: str) -> str:
        if self.ndim == 0 and not self.is_meta and type(self) is Tensor:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        from . import printing

        return printing.tensor_repr(self)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self)} - {"__dict__"})

    # ------------------------------------------------------- copy and pickle

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at "
                "the moment.  If you were attempting to deepcopy a module, this may be because of a "
                "torch.nn.utils.weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001"
            )
        cell = memo.get(id(self._storage))
        if cell is None:
            cell = memo[id(self._storage)] = Storage(
                self._storage.value
            )  # arrays are immutable: nothing to copy
        new = self._like(cell)
        memo[id(self)] = new
        new.__dict__.update(copy.deepcopy(self._own_attributes(), memo))
        grad = self._get_grad()
        if grad is not None:
            new._set_grad(grad.__deepcopy__(memo))
        return new

    def _like(self, cell: Storage) -> Tensor:
        new = _new(type(self))
        new._storage, new._view = cell, self._view
        new._base = new._grad_fn = new._kept_grad = new._accumulator = None
        new._requires_grad, new._output_nr = self._requires_grad, 0
        return new

    def _own_attributes(self) -> dict[str, Any]:
        """What a program put on the tensor."""
        return {k: v for k, v in self.__dict__.items() if k not in _BOOKKEEPING}

    def __reduce_ex__(self, protocol: Any) -> Any:
        view = None
        if self._view is not None:
            view = (tuple(self.shape), *self._layout(), self.dtype, self._turned())
        return (_rebuild, (type(self), self._storage, view, self.requires_grad, self._own_attributes()))


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


def _only_read(array: np.ndarray) -> np.ndarray:
    """A copy for whoever may not write to the array. PyTorch would: it takes memory of numpy that is read-only."""
    array = array.copy()
    array.flags.writeable = False
    return array


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
        overlay = storage.current()
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
