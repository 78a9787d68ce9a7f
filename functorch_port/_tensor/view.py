"""Views: how a tensor looks into a Storage, how it writes back through the view, and PyTorch's strides of
the same view.

A view is a chain of view ops. All but the few that reinterpret elements (`real`, `view(dtype)`, ...) are
gathers, so their
transpose says where elements go.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array import executor, tracing
from .._array.storage import Storage
from .._array.value import LAZY
from .._base.bounded import Bounded
from .._base.strides import REINTERPRET, RULES, Layout, contiguous
from .._base.tuning import tuning
from . import grad_mode
from .family import Family
from .plan import Plan

__all__ = [
    "CUSTOM", "LAID_OUT", "NO_GRAD", "PLAIN", "SPLIT", "View", "is_dense", "laid", "laid_out", "put_through",
    "refusal", "reinterpret",
]  # fmt: skip

_grad = grad_mode.state

#: how a view came about, where that forbids recorded in-place operations on it
PLAIN, NO_GRAD, SPLIT, INFERENCE, CUSTOM = 0, 1, 2, 3, 4
_REPEATING = frozenset({"expand", "unfold", "_as_strided"})
_SPLITS = frozenset({"_split_part", "_split_sizes_part", "_unbind_part"})


class View:
    """How a tensor looks into its Storage: a chain of view ops, each the plan of an op with its dynamic arguments.

    The value last computed is kept together with the array it came from; arrays are immutable, so identity
    is freshness.

    Attributes:
        parent: the view that this one looks into, or None for the Storage itself.
        plan: the plan of the view op.
        extra: its dynamic arguments after the first.
        may_overlap: whether an element may appear twice.
        origin: `PLAIN`, or `NO_GRAD` (made with recording off), `INFERENCE` (in inference mode), `SPLIT` (one of
            several outputs of an op), or `CUSTOM` (an output of a custom function).
    """

    __slots__ = ("cache", "extra", "may_overlap", "origin", "parent", "plan", "source")

    def __init__(
        self,
        parent: View | None,
        plan: Any,
        extra: tuple[Any, ...],
        source: Any,
        cache: Any,
        recording: bool = True,
    ) -> None:
        self.parent = parent
        self.plan = plan
        self.extra = extra
        self.source = source
        self.cache = cache
        self.origin = PLAIN if parent is None else parent.origin
        if not recording:
            self.origin = INFERENCE if _grad.inference else NO_GRAD
        elif plan.name in _SPLITS:
            self.origin = SPLIT
        self.may_overlap = plan.name in _REPEATING or (parent is not None and parent.may_overlap)

    def chain(self) -> list[View]:
        """The views from the Storage outwards."""
        links: list[View] = []
        view: View | None = self
        while view is not None:
            links.append(view)
            view = view.parent
        return links[::-1]

    def fresh(self, onto: View | None = None) -> Any:
        """The same view without the arrays it has seen, to look with at another Storage of the same kind: at all of
        it, or at what ``onto`` sees of it.
        """
        if self.plan.name == LAID_OUT:
            return onto
        new: View = object.__new__(View)
        new.parent = onto if self.parent is None else self.parent.fresh(onto)
        new.plan, new.extra, new.may_overlap, new.origin = (
            self.plan,
            self.extra,
            self.may_overlap,
            self.origin,
        )
        new.source, new.cache = _kind(self.source if onto is None else onto.source), _kind(self.cache)
        if onto is not None:
            new.may_overlap = self.may_overlap or onto.may_overlap
            new.origin = self.origin or onto.origin
        return new

    def same_as(self, other: View | None) -> bool:
        """Whether both are made of the same views with the same positions."""
        if self is other:
            return True
        if other is None or self.plan is not other.plan or self.extra != other.extra:
            return False
        return self.parent is other.parent or (self.parent is not None and self.parent.same_as(other.parent))

    def get(self, cell: Storage) -> Any:
        """The view's value, an array."""
        value = self.peek(cell)
        return value.array() if value.__class__ in LAZY else value

    def aval(self, cell: Storage) -> Any:
        """Something of the value's shape and dtype."""
        known = self.source is not None and self.source.shape == cell._shape()
        return self.cache if known else self.peek(cell)

    def peek(self, cell: Storage) -> Any:
        """The view's value, an array or a lazy value."""
        base, source = cell.peek(), self.source
        if base is source or (source.__class__ in LAZY and source.gave(base)):
            return self.cache
        inner = base if self.parent is None else self.parent.peek(cell)
        if tracing.overlay:
            return self.plan.fn(inner, *self.extra)
        if isinstance(inner, jax.ShapeDtypeStruct):
            return jax.eval_shape(self.plan.fn, inner, *self.extra)
        value = executor.current.view(self.plan, (inner, *self.extra))
        if not isinstance(value, jax.core.Tracer):  # one would outlive its trace in a view from outside
            self.source, self.cache = base, value
        return value

    def host(self, base: Any) -> Any:
        """The view's value as a numpy array, of the Storage's numpy array; None if there is no way there."""
        if base is self.source:
            return self.cache
        inner = base if self.parent is None else self.parent.host(base)
        value = None if inner is None else executor.current.on_host(self.plan, (inner, *self.extra))
        if value is not None:
            self.source, self.cache = base, value
        return value

    def put(self, cell: Storage, value: Any) -> None:
        """Write ``value`` through the view into the Storage."""
        base = cell.value
        if isinstance(base, jax.ShapeDtypeStruct):
            cell.value = base
            return
        links = self.chain()
        fn, jitted = put_through(tuple(link.plan for link in links))
        args = (base, value, tuple(link.extra for link in links))
        if tracing.overlay:
            cell.value = fn(*args)
            return
        with tracing.x64():
            new = jitted(*args)
        cell.value = new
        if (
            not self.may_overlap
        ):  # where the last value written to a place is not the one that all of it has now
            self.source, self.cache = new, value

    def layout(self, cell: Storage) -> tuple[tuple[int, ...], int]:
        """Element strides and offset, as PyTorch's layout of the same views."""
        shape, dtype = cell._shape(), np.dtype(cell.aval().dtype)
        links = []
        for link in self.chain():
            extra = tuple(
                0 if isinstance(e, jax.core.Tracer) else int(e) for e in link.extra
            )  # strides do not depend on it
            links.append((link.plan, extra, tuple(link.cache.shape), np.dtype(link.cache.dtype)))
        return _layout(shape, dtype, tuple(links))

    def strides(self, cell: Storage) -> tuple[int, ...]:
        """The strides of `layout`. The arguments of a view op say where it looks, but not how far apart."""
        if self.parent is not None or self.plan.name in REINTERPRET:
            return self.layout(cell)[0]
        key = (self.plan, cell._shape(), self.cache.shape)
        found = _strides.get(key)
        if found is None:
            found = _strides[key] = self.layout(cell)[0]
        return found

    def is_contiguous(self, cell: Storage) -> bool:
        """Whether the elements lie in order."""
        shape = self.aval(cell).shape
        key = (self.plan, cell._shape(), shape)
        found = _contiguous.get(key) if self.parent is None else None
        if found is None:
            strides, wanted = self.strides(cell), contiguous(shape)
            in_order = all(n == 1 or a == b for n, a, b in zip(shape, strides, wanted, strict=True))
            found = in_order or math.prod(shape) == 0
            if self.parent is None and self.plan.name not in REINTERPRET:
                _contiguous[key] = found
        return found

    def turned(self) -> tuple[bool, bool]:
        """Whether it shows the conjugate, and whether the negative, of what is in the Storage."""
        conj = neg = False
        for link in self.chain():
            name = link.plan.name
            if name == "_conj":
                conj = not conj
            elif name == "_neg_view" or (name == "imag" and conj):
                neg = not neg
            if name in ("_real", "imag"):
                conj = False
        return conj, neg

    def is_traced(self) -> bool:
        """Whether a position in the view is known only when the compiled program runs."""
        return any(isinstance(e, jax.core.Tracer) for link in self.chain() for e in link.extra)


#: (plan of a view of a whole Storage, shape of that, shape of the view) -> its strides
_strides: Bounded[Any, tuple[int, ...]] = Bounded(tuning.cached_facts)
#: the same -> whether it is contiguous
_contiguous: Bounded[Any, bool] = Bounded(tuning.cached_facts)


@functools.lru_cache(tuning.cached_programs)
def laid_out(strides: tuple[int, ...]) -> Any:
    """The plan of a view that shows all of a Storage, and has these strides: what a compiled function sees of an
    argument that is a view of another tensor.
    """
    plan = Plan(lambda x: x, LAID_OUT, "AliasBackward0")
    plan.named = lambda values: {"input": None, "strides": strides}
    return plan


#: the name of such plans
LAID_OUT = "laid_out"


def laid(made: Any, order: Sequence[int] | None) -> Any:
    """A fresh tensor whose elements lie in memory in an order of its dimensions: a look at a Storage that has it.

    The Storage is computed when somebody needs it; the tensor's value is there already.
    """
    overlay = tracing.overlay
    if order is None or (overlay and overlay.transforms):
        return made
    cell, (plan, back) = made._storage, _permutations(tuple(order))
    value = made._peek()
    there: Any
    if isinstance(value, jax.ShapeDtypeStruct):
        there = jax.ShapeDtypeStruct([value.shape[d] for d in order], value.dtype)
    elif isinstance(value, np.ndarray):
        there = np.ascontiguousarray(value.transpose(order))
    elif overlay:
        there = plan.fn(value)
    else:
        there = executor.current.view(plan, (value,))
    if overlay:
        made._storage = Storage(there)
        overlay.note_made(made)
    else:
        cell.held, cell.form = there, None  # nobody else has seen it
    made._view = View(None, back, (), there, value)
    return made


@functools.cache
def _permutations(order: tuple[int, ...]) -> tuple[Any, Any]:
    """The plan that puts dimensions into an order, and the one that takes them back."""
    return _permutation(order), _permutation(tuple(np.argsort(order).tolist()))


@functools.cache
def _permutation(order: tuple[int, ...]) -> Any:
    family = Family(lambda numbers: lambda x: x.transpose(order), f"permutation {order}")
    plan = Plan(family.of(()), "permute", "PermuteBackward0", family=family)
    plan.named = lambda values: {"input": None, "dims": order}
    return plan


def _kind(value: Any) -> jax.ShapeDtypeStruct:
    if isinstance(value, jax.ShapeDtypeStruct):
        return value
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


# ------------------------------------------------------------------- writing


@functools.lru_cache(tuning.cached_programs)
def put_through(plans: tuple[Any, ...]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """``put(base, value, extras) -> base`` with ``value`` written where the chain of view ops looks; and its
    jitted form.
    """

    #: those from the first on that repeats elements are written through together
    once = next((i for i, plan in enumerate(plans) if plan.name in _REPEATING), len(plans))

    def put(base: Any, value: Any, extras: Sequence[Sequence[Any]]) -> Any:
        inner = [base]
        for plan, extra in zip(plans[:once], extras[:once], strict=True):
            inner.append(plan.fn(inner[-1], *extra))
        if once < len(plans):
            value = _put_at_positions(plans[once:], inner[-1], value, extras[once:])
        for plan, extra, source in zip(plans[:once][::-1], extras[:once][::-1], inner[-2::-1], strict=True):
            value = _put_one(plan, extra, source, value)
        return value

    return put, jax.jit(put)


def _put_at_positions(plans: Sequence[Any], base: Any, value: Any, extras: Sequence[Sequence[Any]]) -> Any:
    """Write where an array of positions comes out. Of the values for one place, one that changes it counts."""
    whole = next((i for i, plan in enumerate(plans) if plan.name in _REINTERPRETED), len(plans))
    if whole < len(plans):  # positions have no parts
        inner = base
        for plan, extra in zip(plans[:whole], extras[:whole], strict=True):
            inner = plan.fn(inner, *extra)
        put, _ = put_through(tuple(plans[whole:]))
        plans, extras, value = plans[:whole], extras[:whole], put(inner, value, extras[whole:])
    positions = jnp.arange(base.size).reshape(base.shape)
    for plan, extra in zip(plans, extras, strict=True):
        positions = plan.fn(positions, *extra)
    at, new, flat = positions.reshape(-1), value.reshape(-1), base.reshape(-1)
    old = flat[at]
    same = (new == old) | ((new != new) & (old != old))
    written = flat.at[at].set(new)
    return written.at[jnp.where(same, base.size, at)].set(new, mode="drop").reshape(base.shape)


def _put_one(plan: Any, extra: Sequence[Any], source: Any, value: Any) -> Any:
    """``source`` with ``value`` where one view op looks."""
    if plan.name in _REINTERPRETED:
        return _REINTERPRETED[plan.name](source, value)

    def view(x: Any) -> Any:
        return plan.fn(x, *extra)

    if value.size == source.size and plan.name in ("_view", "alias", LAID_OUT):
        return value.reshape(source.shape)
    if not jnp.issubdtype(source.dtype, np.inexact):  # JAX transposes floats only
        positions = view(jnp.arange(source.size).reshape(source.shape))
        return source.reshape(-1).at[positions.reshape(-1)].set(value.reshape(-1)).reshape(source.shape)
    (moved,) = jax.linear_transpose(view, source)(value)
    if value.size == source.size:
        return moved
    (seen,) = jax.linear_transpose(view, source)(jnp.ones_like(value))
    return jnp.where(seen != 0, moved, source)


def reinterpret(x: Any, dtype: Any) -> Any:
    """The same bytes as numbers of another dtype, more or fewer along the last dimension. Complex ones are pairs."""
    dtype = np.dtype(dtype)
    if x.dtype == dtype:
        return x
    if x.dtype.kind == "c":
        pairs = jnp.stack([jnp.real(x), jnp.imag(x)], axis=-1)
        out = reinterpret(pairs.reshape(*x.shape[:-1], 2 * x.shape[-1] if x.ndim else 2), dtype)
        return out.reshape(x.shape) if x.ndim == 0 else out
    if dtype.kind == "c":
        parts = reinterpret(x.reshape(x.shape or 1), f"f{dtype.itemsize // 2}")
        out = lax.complex(parts[..., ::2], parts[..., 1::2])
        return out.reshape(x.shape) if x.ndim == 0 else out
    if x.dtype.kind == "b":
        return reinterpret(x.astype(np.uint8), dtype)
    if dtype.kind == "b":
        return reinterpret(x, np.uint8) != 0
    ratio = dtype.itemsize // x.dtype.itemsize
    if ratio > 1:
        return lax.bitcast_convert_type(x.reshape(*x.shape[:-1], x.shape[-1] // ratio, ratio), dtype)
    out = lax.bitcast_convert_type(x, dtype)
    if x.dtype.itemsize == dtype.itemsize:
        return out
    return out.reshape(*x.shape[:-1], x.shape[-1] * out.shape[-1])


def _put_reinterpreted(source: Any, value: Any) -> Any:
    """The source with the bytes of the value. Those of a bool stay that are as true: 2 is no 1."""
    if value.dtype.kind == "b":
        same = value == reinterpret(source, value.dtype)
        value = jnp.where(same, reinterpret(source, np.uint8), value.astype(np.uint8))
    return reinterpret(value, source.dtype)


#: views that are no gathers: ``put(source, value)`` is the source that looks like the value
_REINTERPRETED: dict[str, Callable[[Any, Any], Any]] = {
    "_real": lambda source, value: lax.complex(value, jnp.imag(source)),
    "imag": lambda source, value: lax.complex(jnp.real(source), value),
    "_view_as_real": lambda source, value: lax.complex(value[..., 0], value[..., 1]),
    "_view_as_complex": lambda source, value: jnp.stack([jnp.real(value), jnp.imag(value)], axis=-1),
    "_view_dtype": _put_reinterpreted,
    "_conj": lambda source, value: jnp.conj(value),
    "_neg_view": lambda source, value: -value,
}


# -------------------------------------------------------------------- layout


@functools.lru_cache(tuning.cached_facts)
def _layout(
    shape: tuple[int, ...],
    dtype: np.dtype,
    links: tuple[tuple[Any, tuple[int, ...], tuple[int, ...], np.dtype], ...],
) -> tuple[tuple[int, ...], int]:
    """Element strides and offset of a view: the rules of its ops, one after the other."""
    at: Layout = (shape, contiguous(shape), 0)
    for plan, extra, after, kind in links:
        named = plan.named((None, *extra)) if plan.named is not None else {}
        named.pop(next(iter(named), None), None)
        if plan.name in REINTERPRET and kind != dtype:
            named["ratio"] = dtype.itemsize / kind.itemsize
        strides, offset = RULES[plan.name](at, **named)
        at = (after, strides, offset)
        dtype = kind
    return at[1], at[2]


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements fill a block of memory, each place once, in some order of the dimensions."""
    step = 1
    for stride, size in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n != 1):
        if stride != step:
            return False
        step *= size
    return True


# ----------------------------------------------------------------- refusals

_SPLIT_TEXT = (
    "This view is the output of a function that returns multiple views. Such functions do not allow the "
    "output views to be modified inplace. You should replace the inplace operation by an out-of-place one."
)
_CUSTOM_TEXT = (
    "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to "
    "handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect "
    "gradients. This behavior is forbidden. You can fix this by cloning the output of the custom Function."
)
_MODE_TEXT = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by "
    "moving both the view and the inplace either both inside the {} block (if you don't want the "
    "inplace to be tracked) or both outside (if you want the inplace to be tracked)."
)


def refusal(view: View, node: Any, of_base: bool = False) -> str:
    """Why a recorded in-place operation on a view (or ``of_base``, on what it is a view of) is an error.

    ``node`` is the view's ``grad_fn``.
    """
    changed = "is being modified inplace"
    if of_base:
        changed = "its base or another view of its base has been modified inplace"
    name = "" if node is None else node.name().removesuffix("0").removesuffix("Backward")
    told = {SPLIT: _SPLIT_TEXT, CUSTOM: _CUSTOM_TEXT}.get(view.origin)
    if node is not None and told is not None:
        number = _ordinal(view) if view.origin is SPLIT else 0
        return f"Output {number} of {name} is a view and {changed}. {told}"
    mode, block, where = "no_grad", "no_grad", "with grad mode enabled"
    if view.origin is INFERENCE:
        mode, block, where = "inference", "inference_mode", "in normal mode"
    what = "A view was" if node is None else f"Output 0 of {name} is a view of a view which was"
    return f"{what} created in {mode} mode and {changed} {where}. {told or _MODE_TEXT.format(block)}"


def _ordinal(view: View) -> int:
    """Which output of `unbind`, `split` or `chunk` a view is."""
    start = view.extra[0] if view.plan.name in _SPLITS and view.extra else 0
    if isinstance(start, jax.core.Tracer) or view.plan.name == "_unbind_part" or not start:
        return 0 if isinstance(start, jax.core.Tracer) else int(start)
    lengths = [n for n, source in zip(view.cache.shape, _inner_shape(view), strict=True) if n != source]
    return -(-int(start) // max(lengths[0], 1)) if lengths else 0


def _inner_shape(view: View) -> Sequence[int]:
    return view.source.shape if view.parent is None else view.parent.cache.shape
