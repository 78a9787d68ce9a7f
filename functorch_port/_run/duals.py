"""Forward mode on eager operations: while a dual level is open, a tensor may have a tangent.

An operation on such a *dual* tensor runs as ever, and its derivative in the direction of the tangents runs beside it,
as an operation on the tape like any other: so a tangent has a history, and forward and reverse mode nest. A view of a
dual has the same view of the tangent, and what is written in place is written to both. What the user sees of this is in
`autograd.forward_ad`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax

from .._array import tracing
from .._base import watch
from .._base.modes import OfThread
from .._tensor import creation
from .._tensor.plan import Plan
from .._tensor.tensor import Tensor
from .arguments import arguments_of
from .call import Op
from .inplace import view_again
from .run import run

__all__ = ["Level", "attach", "linear", "paused", "run_op", "state", "take", "tangent_of"]

IN_TRACE = (
    "a tensor with a tangent (autograd.forward_ad) inside a compiled function or a transform of torch.func: take the "
    "derivative with torch.func.jvp there"
)
OUT = "Trying to use forward AD with {}_out that does not support it because it is an out= function"


class _State(OfThread):
    """
    Attributes:
        enabled: whether tangents are computed.
    """

    enabled = True


state = _State()


class Level:
    """An open dual level: what has a tangent in it, by weak references.

    Attributes:
        within: the trace or transform in which it was opened, if any.
    """

    def __init__(self) -> None:
        self.within = tracing.current()
        self.tensors: list[weakref.ref[Tensor]] = []

    def tangent_of(self, tensor: Any) -> Tensor | None:
        """As `tangent_of`, while this level is the open one."""
        return tangent_of(tensor)

    def run_op(self, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        """As `run_op`."""
        return run_op(op, args, kwargs, out)

    def take(self, tensor: Tensor, out: Tensor) -> None:
        """As `take`."""
        take(tensor, out)

    def close(self) -> None:
        """Forget all tangents."""
        for ref in self.tensors:
            tensor = ref()
            if tensor is not None and tensor._dual is not None and tensor._dual[0] is self:
                tensor._dual = None


@contextmanager
def paused() -> Iterator[None]:
    """Run operations on values alone."""
    level, watch.state.level = watch.state.level, None
    try:
        yield
    finally:
        watch.state.level = level


def attach(tensor: Tensor, tangent: Tensor | None) -> None:
    """Give a tensor its tangent in the open level; None says that it has none, although its base may have one."""
    level = watch.state.level
    if tensor._dual is None:
        level.tensors.append(weakref.ref(tensor))
    tensor._dual = (level, tangent)


def tangent_of(tensor: Any) -> Tensor | None:
    """The tangent of a tensor in the open level, or None."""
    level = watch.state.level
    if level is None or not isinstance(tensor, Tensor) or not state.enabled:
        return None
    own = tensor._dual
    if own is not None and own[0] is level:
        return own[1]
    base = tensor._base
    if base is None or base._dual is None or base._dual[0] is not level or base._dual[1] is None:
        return None
    if not tensor._is_differentiable():
        return None
    tangent = _same_view(tensor, base._dual[1])
    attach(tensor, tangent)
    return tangent


def _same_view(tensor: Tensor, of: Tensor) -> Tensor:
    """What ``tensor`` shows of its base, shown of ``of``, which has the shape of the base."""
    plans, counts, extra = tensor._way_from_base()
    with paused():
        view = run(view_again(plans, counts), [of, *extra])
    view._storage, view._base = of._storage, of if of._base is None else of._base
    view._view = tensor._view.fresh(of._view)  # type: ignore[union-attr]
    view._version_seen = of._writes
    return view


def run_op(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """One operation in an open level."""
    plan, dyn = op._bind(args, kwargs)
    tangents = [tangent_of(a) for a in dyn]
    if all(t is None for t in tangents) and (out is None or tangent_of(out) is None):
        with paused():
            return op.run(args, {**kwargs, "out": out} if out is not None else kwargs)
    if tracing.current() is not watch.state.level.within:
        raise NotImplementedError(IN_TRACE)
    if out is not None:
        raise NotImplementedError(OUT.format(arguments_of(op.spec).label))
    with paused():
        result = op.run(args, dict(kwargs))
        if not plan.differentiable:
            return result
        outs = result if isinstance(result, tuple | list) else (result,)
        wanted = [isinstance(o, Tensor) and o._is_differentiable() for o in outs]
        if not any(wanted):
            return result
        made: Sequence[Tensor]
        if op.spec.view:
            made = [_replaced(op, args, kwargs, dyn[0], tangents[0])]
        else:
            made = _pushed(plan, dyn, tangents)
    rest = iter(made)
    for one, has in zip(outs, wanted, strict=True):
        if has:
            attach(one, next(rest))
    return result


def linear(fn: Callable[[Tensor], Tensor], tensor: Tensor) -> Tensor:
    """``fn`` of a tensor, and of its tangent if it has one."""
    tangent = tangent_of(tensor)
    with paused():
        out = fn(tensor)
        moved = None if tangent is None else fn(tangent)
    if moved is not None:
        attach(out, moved)
    return out


def _replaced(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], old: Any, new: Any) -> Tensor:
    """A view op of the tangent in place of that of the tensor."""
    return op.run(
        tuple(new if a is old else a for a in args), {k: new if v is old else v for k, v in kwargs.items()}
    )


def _pushed(plan: Plan, dyn: Sequence[Any], tangents: Sequence[Tensor | None]) -> Sequence[Tensor]:
    """The tangents of an operation's differentiable results."""
    given = [t for t in tangents if t is not None]
    try:
        made = run(_forward_plan(plan, tuple(t is not None for t in tangents)), [*dyn, *given])
    except TypeError as error:
        if "forward-mode" not in str(error):
            raise
        made = NotImplemented
    if made is NotImplemented:
        raise NotImplementedError(
            f"Trying to use forward AD with {plan.name.lstrip('_')} that does not support it because it has not been "
            "implemented yet."
        )
    return made if isinstance(made, tuple | list) else (made,)


def _forward_plan(plan: Plan, mask: tuple[bool, ...]) -> Plan:
    """The plan of ``fn(*values, *tangents of those in mask) -> tangents of the differentiable results``."""
    found = plan.derived.get(("jvp", mask))
    if found is None:
        fn = functools.partial(_push, plan.fn, mask)
        found = plan.derived["jvp", mask] = Plan(fn, f"{plan.name}_jvp", f"{plan.node[:-1]}Jvp0")
    return found


def _push(fn: Callable[..., Any], mask: Sequence[bool], *args: Any) -> Any:
    values, tangents = args[: len(mask)], args[len(mask) :]

    def masked(*diff: Any) -> Any:
        it = iter(diff)
        return fn(*[next(it) if m else v for v, m in zip(values, mask, strict=True)])

    _, made = jax.jvp(masked, [v for v, m in zip(values, mask, strict=True) if m], list(tangents))
    made = made if isinstance(made, tuple | list) else (made,)
    kept = [t for t in made if t.dtype != jax.dtypes.float0]
    return kept[0] if len(kept) == 1 else tuple(kept)


def take(tensor: Tensor, out: Tensor) -> None:
    """``out`` was written to ``tensor`` in place: so is its tangent."""
    new, old = tangent_of(out), tangent_of(tensor)
    if new is None and old is None:
        return
    if old is None:
        base = tensor._base
        if base is None:
            attach(tensor, new)
            return
        with paused():
            zeros = creation.zeros_like(base)
        attach(base, zeros)
        old = tangent_of(tensor)
    assert old is not None
    with paused():
        value: Any = old._alias() * 0 if new is None else new
        old._check_inplace(value)
        old._take(value.broadcast_to(old.shape))
