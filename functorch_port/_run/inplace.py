"""In-place operations, and the histories of views: the methods of Tensor that run plans."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._array import tracing
from .._base import inside, watch
from .._base.layout import memory_order
from .._base.promotion import can_cast
from .._base.tuning import tuning
from .._tensor import grad_mode, saved
from .._tensor.family import Family
from .._tensor.node import EndedView
from .._tensor.plan import Plan
from .._tensor.tensor import Tensor, attach, wrap
from .._tensor.view import PLAIN, SPLIT, View, is_dense, laid, put_through, refusal
from .run import run

_grad = grad_mode.state

LEAF_INPLACE = "a leaf Variable that requires grad is being used in an in-place operation."
VIEW_OF_LEAF_INPLACE = "a view of a leaf Variable that requires grad is being used in an in-place operation."
OVERLAP = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory "
    "location. Please clone() the tensor before performing the operation."
)
PARTIAL_OVERLAP = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
    "memory location. Please clone() the tensor before performing the operation."
)
#: in-place operations that may not read what they write at all
SCATTERING = frozenset(
    {
        "scatter_",
        "scatter_add_",
        "scatter_reduce_",
        "index_add_",
        "index_copy_",
        "index_reduce_",
        "index_put_",
        "put_",
    }
)
#: in-place operations for which PyTorch does not look whether they read what they write
UNCHECKED = frozenset({"masked_scatter_"})
#: in-place operations that may write to a place several times; what PyTorch warns of, which will refuse some
REPEATED_WRITES = {
    **dict.fromkeys(("fill_", "zero_", "fill_diagonal_", "tril_", "triu_"), ""),
    **dict.fromkeys(("masked_fill_", "index_fill_"), "tensor[mask] = scalar"),
    "index_put_": "tensor[indices] = tensor",
}


def _sync_view(self: Tensor) -> None:
    """A view whose base was written to since has its history from the base's."""
    base = self._base
    if base is None:
        return
    if self._version_seen == self._writes or not (base._requires_grad or self._grad_fn is not None):
        if self._grad_fn is None and base._requires_grad is not self._requires_grad:
            self._inherit(base)
        return
    if not self._is_differentiable():
        return
    if self._view.origin is not PLAIN:  # type: ignore[union-attr]
        raise RuntimeError(refusal(self._view, self._grad_fn, of_base=True))  # type: ignore[arg-type]

    self._note_history()
    self._version_seen = self._writes
    if not base._requires_grad:
        self._grad_fn, self._output_nr = EndedView(), 0
        return
    plans, counts, extra = self._way_from_base()
    with grad_mode.enable_grad():
        current = run(view_again(plans, counts, _grad.original_views), [base, *extra])
    self._inherits = False
    self._become(current)


def _is_stale(self: Tensor) -> bool:
    """Whether it is a view made in no_grad mode, or among others, of a base with a history, changed since."""
    base = self._base
    if base is None or self._view.origin is PLAIN or self._version_seen == self._writes:  # type: ignore[union-attr]
        return False
    return (base._requires_grad or self._grad_fn is not None) and self._is_differentiable()


def _is_differentiable(self: Tensor) -> bool:
    return self.is_floating_point() or self.is_complex()


def _way_from_base(self: Tensor) -> tuple[tuple[Any, ...], tuple[int, ...], list[Any]]:
    """The view ops that lead from the base to this view, how many dynamic arguments each has, and these."""
    links = self._view.chain()  # type: ignore[union-attr]
    view = self._base._view  # type: ignore[union-attr]
    back: list[View] = []
    if view is not None:  # `t_()` and the like make the base itself look at its Storage in another way
        inner = view.chain()
        if links[: len(inner)] == inner:
            links = links[len(inner) :]
        else:
            back = inner
    plans, counts = tuple(link.plan for link in links), tuple(len(link.extra) for link in links)
    extra = [e for link in (*back, *links) for e in link.extra]
    if back:
        seen = tuple(link.plan for link in back), tuple(len(link.extra) for link in back)
        plans, counts = (_unseen(self._storage._shape(), *seen), *plans), (sum(seen[1]), *counts)
    return plans, counts, extra


def _inherit(self: Tensor, base: Tensor) -> None:
    """A view without a history requires a gradient if its base does."""
    if self._inherits:
        self._requires_grad = self._inherits = base._requires_grad
    elif base._requires_grad and self._is_differentiable():
        self._requires_grad = self._inherits = True


def _check_inplace(self: Tensor, *others: Any, name: str = "") -> None:
    """PyTorch's refusals, before anything is computed. ``others`` are the operation's other arguments."""
    self._check_history(*others)
    self._check_overlap(*others, name=name)


def _check_history(self: Tensor, *others: Any) -> None:
    """Refuse what the history does not allow."""
    if self._storage.version.__class__ is tracing.Untracked:
        self._check_inference()
    if _grad.enabled:
        if self._view is not None and self._view.origin is not PLAIN and self._base is not None:
            if self.requires_grad or (
                self._is_differentiable() and any(isinstance(o, Tensor) and o.requires_grad for o in others)
            ):
                split = self._view.origin is SPLIT
                raise RuntimeError(refusal(self._view, self._grad_fn if split else self.grad_fn))
        if self._base is None:
            if self._requires_grad and self._grad_fn is None:
                raise RuntimeError(LEAF_INPLACE)
        elif self._base._grad_fn is None and (self._base._requires_grad or self._requires_grad):
            raise RuntimeError(VIEW_OF_LEAF_INPLACE)


def _check_inference(self: Tensor) -> None:
    """Refuse to write outside of inference mode to what was made in it."""
    if not _grad.inference and self.is_inference() and self._counter() is None:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get "
            "a normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more "
            "details."
        )


def _check_overlap(self: Tensor, *others: Any, name: str = "") -> None:
    """Refuse to write to elements that repeat, or that are read at another position at the same time."""
    if self._view is not None and self._overlaps():
        example = REPEATED_WRITES.get(name)
        if example is None:
            raise RuntimeError(OVERLAP)
        if example:
            warnings.warn(
                f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before performing "
                f"this operation. This also applies to advanced indexing e.g. {example}",
                UserWarning,
                stacklevel=4,
            )
    for other in () if name in UNCHECKED else others:
        if isinstance(other, Tensor) and other._storage is self._storage:
            self._check_shared(other, name in SCATTERING)


def _check_shared(self: Tensor, other: Tensor, apart: bool) -> None:
    """Refuse to write over what is being read: ``a[1:] = a[:-1]``, ``a.add_(a.t())``; ``a`` itself if ``apart``."""
    if other is self:
        if apart:
            raise RuntimeError(PARTIAL_OVERLAP)
        return
    if any(t._view is not None and t._view.is_traced() for t in (self, other)):
        return
    (mine, start), (theirs, begin) = self._layout(), other._layout()
    shape, other_shape = self._aval().shape, other._aval().shape
    count, size = self.numel(), other.numel()
    if not (count and size and is_dense(shape, mine) and is_dense(other_shape, theirs)):
        return
    start, count = start * self.itemsize, count * self.itemsize
    begin, size = begin * other.itemsize, size * other.itemsize
    if start == begin and count == size:
        overlap = apart or mine != theirs
    else:
        overlap = start < begin + size and begin < start + count
    if overlap:
        raise RuntimeError(PARTIAL_OVERLAP)


def _take(self: Tensor, out: Tensor, recorded: bool = True) -> Tensor:
    """Become ``out``: the end of every in-place operation. Unless ``recorded``, the history stays as it was."""
    node, made = out._grad_fn, out._storage
    value = out._peek()
    own = self._aval()
    if value.shape != own.shape:
        raise RuntimeError(
            f"output with shape {list(own.shape)} doesn't match the broadcast shape {list(value.shape)}"
        )
    if value.dtype != own.dtype:
        out = self._cast_result(out)
        value = out._peek()
    if value.__class__ is not own.__class__:
        value = _on_meta(self._storage.aval(), value)
    history = (
        out._requires_grad or self._requires_grad or (self._base is not None and self._base._requires_grad)
    )
    if not (recorded and history and _grad.enabled):
        self._set_value(value)
    elif self._base is None:
        self._note_history()
        self._set_value(value)
        self._continue_from(out)
    else:
        self._take_through_base(out)
    if node is not None and node.saved:
        saved.after_write(node, made, self._storage)
    if watch.on:
        if watch.state.level is not None:
            watch.state.level.take(self, out)
        if watch.state.profile is not None:
            watch.state.profile.in_place()
    return self


def _note_history(self: Tensor) -> None:
    if tracing.overlay:
        tracing.overlay.note_history(self)


def _cast_result(self: Tensor, out: Tensor) -> Tensor:
    if not can_cast(out.dtype, self.dtype):
        raise RuntimeError(
            f"result type {out.dtype.scalar_name} can't be cast to the desired output type {self.dtype.scalar_name}"
        )
    return out.to(self.dtype)


def _take_through_base(self: Tensor, out: Tensor) -> None:
    """An in-place op on a view, recorded: the base becomes a copy with the new slice (PyTorch's ``CopySlices``)."""

    base = self._base
    assert base is not None and self._view is not None
    if self._view.origin is not PLAIN:
        raise RuntimeError(refusal(self._view, self.grad_fn))
    base._note_history()
    self._note_history()
    if out._grad_fn is not None and self._grad_fn is not None and self._grad_fn.extras is not None:
        out._grad_fn.bypass(self._grad_fn)
    plans, counts, extra = self._way_from_base()
    new = run(_copy_slices(plans, counts), [base, out, *extra])
    base._set_value(new._value)
    base._become(new)
    self._sync_view()


def _continue_from(self: Tensor, out: Tensor) -> None:
    """Take over the history of ``out``, whose value was written to this tensor already."""
    if self._base is not None:
        self._take_through_base(out)
    else:
        self._become(out)


def _become(self: Tensor, out: Tensor) -> None:
    """Take over the history of ``out``; hooks stay with the history they were registered on,
    `retain_grad` moves.
    """
    if self._retains_grad and self._grad_fn is not None and self._grad_fn.retained:
        self._grad_fn.retained.pop(self._output_nr, None)
    self._requires_grad, self._grad_fn, self._output_nr = out._requires_grad, out._grad_fn, out._output_nr
    self._hooks = None
    if self._retains_grad and self._requires_grad:
        self.retain_grad()


def _assign_out(self: Tensor, result: Tensor) -> None:
    """Receive an ``out=`` result; resizes as PyTorch does."""
    self._check_inference()
    if self._overlaps():
        raise RuntimeError(OVERLAP)
    if result.dtype != self.dtype:
        result = self._cast_result(result)
    if result.shape == self.shape:
        self._set_value(result._value)
        return
    if self.numel() != 0:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(self.shape)}, "
            f"which does not match the required output shape {list(result.shape)}. This behavior is "
            "deprecated, and in a future PyTorch release outputs will not be resized unless they have "
            "zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero "
            "elements with t.resize_(0).",
            UserWarning,
            stacklevel=4,
        )
    if tracing.in_jax():
        inside.may_rebind(self, result, "has its size changed")
    made = laid(wrap(result._value), memory_order(result))
    self._look_at(made._storage, made._view)


def _stopped(tensor: Tensor) -> View:
    """What `detach` is inside a transform of `func`, where no tape says what is differentiated."""
    return View(tensor._view, _stop_plan(), (), None, tensor._value)


@functools.cache
def _stop_plan() -> Any:

    return Plan(jax.lax.stop_gradient, "alias", "AliasBackward0")


def _grouped(flat: Sequence[Any], counts: Sequence[int]) -> list[Sequence[Any]]:
    groups, at = [], 0
    for n in counts:
        groups.append(flat[at : at + n])
        at += n
    return groups


@functools.lru_cache(tuning.cached_programs)
def _copy_slices(plans: tuple[Any, ...], counts: tuple[int, ...]) -> Any:
    """The plan that writes a value through a chain of views; the views' positions are dynamic arguments."""

    put, _ = put_through(plans)
    fn = lambda base, value, *extra: put(base, value, _grouped(extra, counts))
    family = Family(lambda numbers: fn, _chain("copy_slices", plans, counts))
    plan = Plan(fn, "copy_slices", "CopySlices", family=family)
    plan.edge_order = ((0, False), (1, False))
    return plan


def _chain(word: str, plans: Sequence[Any], *static: Any) -> str | None:
    """The name of a `Family` for what a chain of views is used for."""
    names = [plan.family.name and f"{plan.family.name} {plan.numbers}" for plan in plans]
    return None if None in names else f"{word} {names} {static}"


def _look_through(plans: Sequence[Any], extras: Sequence[Sequence[Any]], value: Any) -> Any:
    for plan, own in zip(plans, extras, strict=True):
        value = plan.fn(value, *own)
    return value


@functools.lru_cache(tuning.cached_programs)
def _unseen(shape: tuple[int, ...], plans: tuple[Any, ...], counts: tuple[int, ...]) -> Any:
    """The plan that leads from a look into a Storage back to all of that; zero where the look does not lead."""

    def look(base: Any, *extra: Any) -> Any:
        size = math.prod(shape)
        inner = _look_through(plans, _grouped(extra, counts), jnp.arange(size).reshape(shape)).reshape(-1)
        place = jnp.full(size, inner.size).at[inner].set(jnp.arange(inner.size))
        return base.reshape(-1).at[place].get(mode="fill", fill_value=0).reshape(shape)

    family = Family(lambda numbers: look, _chain("unseen", plans, counts, shape))
    return Plan(look, "unseen", "AsStridedBackward0", family=family)


@functools.lru_cache(tuning.cached_programs)
def view_again(plans: tuple[Any, ...], counts: tuple[int, ...], original: bool = False) -> Any:
    """The plan that looks through a chain of views anew; ``original`` has it named by the last of them."""

    fn = lambda base, *extra: _look_through(plans, _grouped(extra, counts), base)
    family = Family(lambda numbers: fn, _chain("view", plans, counts))
    plan = Plan(fn, "view", plans[-1].node if original else "AsStridedBackward0", family=family)
    plan.edge_order = ((0, False),)
    return plan


def _on_meta(own: Any, value: Any) -> Any:
    """What an in-place operation writes: shapes stay shapes on the meta device, and do not leave it."""
    if isinstance(own, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(value.shape, value.dtype)
    if isinstance(value, jax.ShapeDtypeStruct):
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    return value


attach(
    _sync_view, _is_stale, _is_differentiable, _way_from_base, _inherit, _check_inplace, _check_history,
    _check_inference, _check_overlap, _check_shared, _take, _note_history, _cast_result, _take_through_base,
    _continue_from, _become, _assign_out, _stopped,
)  # fmt: skip
