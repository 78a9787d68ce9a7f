"""What autograd has of a `Tensor`: ``requires_grad``, ``grad``, ``data``, `detach`, hooks."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any

import jax

from .._array import placed, tracing
from .._base import inside
from . import grad_mode
from .errors import C_NAMES
from .node import Hooks, RemovableHandle
from .tensor import Tensor, attach, bare
from .view import PLAIN

__all__: list[str] = []

_grad = grad_mode.state

DETACH_VIEW = (
    "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for "
    "training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence "
    "detach_() cannot be called on these gradients. To fix this error, please refer to the "
    "Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution."
)


def _requires_grad(self: Tensor) -> bool:
    base = self._base
    if base is None:
        return self._requires_grad
    if self._view.origin is not PLAIN:  # type: ignore[union-attr]
        return self._requires_grad or (base._requires_grad and self._is_differentiable())
    self._sync_view()
    return self._requires_grad


def _check_flag(self: Tensor, value: bool) -> None:
    """Refuse a flag that the tensor cannot have."""
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


def _set_requires_grad(self: Tensor, value: bool) -> None:
    _check_flag(self, value)
    if value:
        self._check_requires_grad()
    self._inherits = False
    if self._requires_grad != bool(value):
        if tracing.in_jax():
            inside.may_change(self, "requires_grad")
        if tracing.overlay:
            tracing.overlay.note_flag(self, self._requires_grad)
        tracing.bump_epoch()
    self._requires_grad = bool(value)


def _delete_requires_grad(self: Tensor) -> None:
    raise RuntimeError("requires_grad must be a bool")


def _check_requires_grad(self: Tensor) -> None:
    """Refuse what was made in inference mode, outside of it."""
    if not _grad.inference and self.is_inference():
        raise RuntimeError(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
        )


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
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


def _grad_fn(self: Tensor) -> Any:
    """The node that made this tensor, or None for a leaf."""
    if self._base is not None:
        self._sync_view()
    return self._grad_fn


def _output_nr(self: Tensor) -> int:
    return self._output_nr


def _is_leaf(self: Tensor) -> bool:
    return self.grad_fn is None


def _public_grad(self: Tensor) -> Tensor | None:
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


def _set_public_grad(self: Tensor, grad: Tensor | None) -> None:
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
    if grad is not self._kept_grad and tracing.in_jax():
        inside.may_rebind(self, grad, "gets another gradient")
    if placed.several and grad is not None and placed.is_shared(self._storage) and not tracing.overlay:
        placed.agreed("what is assigned to the gradient of a tensor on the devices of all", grad._look())
    self._set_grad(grad)


def _delete_grad(self: Tensor) -> None:
    self.grad = None


def _kept(self: Tensor) -> Tensor | None:
    """The gradient outside of any trace; one that a compiled step left pending is computed now."""
    grad = self._kept_grad
    if grad is None or isinstance(grad, Tensor):
        return grad
    grad.fill()
    return self._kept_grad


def _keep(self: Tensor, grad: Tensor | None) -> None:
    self._kept_grad = grad


def _get_grad(self: Tensor) -> Tensor | None:
    if tracing.overlay:
        return tracing.overlay.get_grad(self)
    return self._grad


def _set_grad(self: Tensor, grad: Tensor | None) -> None:
    if tracing.overlay:
        tracing.overlay.set_grad(self, grad)
    else:
        self._grad = grad


def detach(self: Tensor) -> Tensor:
    """A tensor that shares this one's Storage and is cut off from its history, for JAX as for the tape."""
    tensor = self._alias()
    if not tracing.overlay.rebinds if tracing.overlay else self._is_traced():
        tensor._view = self._stopped()
    return tensor


def _is_traced(self: Tensor) -> bool:
    """Whether a transform of JAX's runs, and has this value."""
    if not inside.met or inside.top_trace(None) is inside.NO_TRACE:
        return False
    return isinstance(self._storage.held, jax.core.Tracer)


def _alias(self: Tensor) -> Tensor:
    """`detach` of what the tape alone differentiates."""
    tensor = bare(Tensor)
    tensor._storage, tensor._view = self._storage, self._view
    own = self._counter()
    if own is not None:
        tensor._own_count = own
    if tracing.overlay:
        tracing.overlay.note_made(tensor, self)
    elif inside.met and inside.top_trace(None) is not inside.NO_TRACE:
        inside.note_handle(tensor)
    return tensor


def detach_(self: Tensor) -> Tensor:
    """Cut this tensor off from its history, in place."""
    if self._base is not None:
        raise RuntimeError(DETACH_VIEW)
    if tracing.in_jax() and self._requires_grad:
        inside.may_change(self, "requires_grad")
    self._note_history()
    if self._grad_fn is not None:
        self._grad_fn.detached = {*(self._grad_fn.detached or ()), self._output_nr}
    self._grad_fn, self._output_nr, self._requires_grad = None, 0, False
    self._dual = None
    return self


def _data(self: Tensor) -> Tensor:
    """A tensor that shares this one's Storage and is invisible to autograd, which does not count its writes."""
    tensor = self.detach() if tracing.overlay and tracing.overlay.transforms else self._alias()
    tensor._own_count = [0]
    return tensor


def check_layout(tensor: Tensor, other: Any) -> None:
    """Refuse new data of another layout."""
    if not isinstance(other, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(other).__name__}")
    if other.layout is not tensor.layout:
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor "
            "type."
        )


def _set_data(self: Tensor, other: Tensor) -> None:
    check_layout(self, other)
    overlay = tracing.current()
    if overlay is not None and not overlay.rebinds and (other.shape, other.dtype) == (self.shape, self.dtype):
        self._set_value(other._value)  # what has no handles beside values: there the write is what counts
        return
    if self._requires_grad and not (other.is_floating_point() or other.is_complex()):
        raise RuntimeError(
            "data set to a tensor that requires gradients must be floating point or complex dtype"
        )
    if tracing.in_jax():
        inside.may_rebind(self, other, "gets other data")
    if overlay is not None and overlay.rebinds:
        overlay.note_inputs((other,))
    if other.is_inference() and not self.is_inference():  # whose writes are counted still, for itself
        self._own_count = self._counter() or [self._writes]
    self._look_at(other._storage, other._view)


def _delete_data(self: Tensor) -> None:
    raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")


def retain_grad(self: Tensor) -> None:
    """Have ``.grad`` filled by backward although this tensor is not a leaf."""
    if tracing.overlay and tracing.overlay.transforms:
        tracing.overlay.refuse_retain_grad()
    if not self.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self._grad_fn is None:
        return
    self._retains_grad = True
    if tracing.overlay:
        tracing.overlay.note_hook(self, "retain_grad")
    node = self._grad_fn
    if node.retained is None:
        node.retained = {}
    node.retained[self._output_nr] = weakref.ref(self)


def _retains_grad(self: Tensor) -> bool:
    return self._retains_grad


def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call ``hook(grad)`` whenever a gradient of this tensor is computed; what it returns replaces the gradient.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.register_hook.html
    """
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._hooks is None:
        node = self.grad_fn
        self._hooks = Hooks() if node is None else node.hooks_of(self._output_nr)
    return self._hooked(self._hooks, hook, "register_hook")


def _hooked(self: Tensor, table: Hooks, hook: Any, how: str) -> RemovableHandle:
    handle = table.add(hook)
    tracing.bump_epoch()
    if tracing.overlay and not tracing.overlay.transforms:
        tracing.overlay.note_hook(self, how, hook, handle)
    return handle


def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call ``hook(tensor)`` after a gradient was added to this leaf's ``.grad``."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if self._post_accumulate_hooks is None:
        self._post_accumulate_hooks = Hooks()
    return self._hooked(self._post_accumulate_hooks, hook, "register_post_accumulate_grad_hook")


def __delattr__(self: Tensor, name: str) -> None:
    if name == "_grad_fn":
        raise RuntimeError("Deletion of _grad_fn not allowed. Detach tensor instead!")
    if name == "_backward_hooks":
        raise RuntimeError("Deletion of _backwards_hooks not allowed!")
    object.__delattr__(self, name)


attach(
    __delattr__, _check_flag, _check_requires_grad, requires_grad_, _get_grad, _set_grad, _alias, _is_traced, detach,
    detach_, retain_grad, register_hook, _hooked, register_post_accumulate_grad_hook,
    requires_grad=property(_requires_grad, _set_requires_grad, _delete_requires_grad),
    grad_fn=property(_grad_fn),
    output_nr=property(_output_nr),
    is_leaf=property(_is_leaf),
    grad=property(_public_grad, _set_public_grad, _delete_grad),
    _grad=property(_kept, _keep),
    data=property(_data, _set_data, _delete_data),
    retains_grad=property(_retains_grad),
)  # fmt: skip
