"""Calls of operations on small tensors that are like one that came before: its program is known by their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

from .._array import tracing
from .._array.placing import form_of
from .._array.value import HOST, VALUES
from .._base import config, watch
from .._base.bounded import Bounded
from .._base.quiet import quiet
from .._base.tuning import tuning
from .._run.call import Op
from .._run.registry import ARRAY, ARRAYS, STATIC
from .._run.results import attach_view
from .._tensor import grad_mode
from .._tensor.overriding import noticed
from .._tensor.plan import Plan
from .._tensor.tensor import Tensor, wrap_small
from .._tensor.view import View
from .numpy_programs import LEAST, MOST, Bound, kind_of

__all__ = ["caller"]

_grad = grad_mode.state
_quietly = quiet.run
_COUNTS = frozenset({int, float, complex})
_ARRAYS = repeat(ARRAY)


def caller(op: Op, name: str = "") -> Callable[..., Any]:
    """An operation as a function that looks first whether a call is like one that came before on small tensors.

    With a ``name`` it is a public one: arguments that it refuses may override it.
    """
    kinds, kind_of, positional, is_view = op.kinds, op.kind_of, op.positional, op.spec.view
    #: by what the arguments of a call are: the program, the plan if that is to be asked, and the `form_of` the result
    small: Bounded[Any, tuple[Bound, Any, int]] = Bounded(tuning.cached_kinds)
    find = small.get
    config.remembered.append(small)

    def call(*args: Any, **kwargs: Any) -> Any:
        known: list[Any] = []
        values: list[Any] = []
        try:
            if (
                not tracing.overlay
                and not watch.on
                and len(args) <= positional
                and _note(args, kinds, known, values)
                and not (kwargs and not _note_named(kwargs, kind_of, known, values))
            ):
                # Most calls are like one that came before: on small tensors without a gradient, with the same settings.
                try:
                    found = find(tuple(known))
                except TypeError:  # a list in a list
                    return op.run(args, kwargs)
                if found is None:
                    plan, dyn = op.found(args, kwargs)
                    result = op.of(plan, dyn, args, kwargs)
                    if kwargs and op.spec.after is not None:  # which `of` calls
                        return result
                    if type(result) is Tensor and (args or not is_view) and op.in_order(kwargs):
                        _remember(small, known, plan, values, result)
                    return result
                bound, plan, made = found
                if plan is not None and plan.check is not None:
                    plan.check(*values)
                try:
                    value = _quietly(bound.function, *bound.sizes, *values)
                except Exception:  # the usual way says it in its own words
                    return op.run(args, kwargs)
                result = wrap_small(value, made)
                if is_view:
                    view = View(None, plan, tuple(values[1:]), values[0], value, _grad.enabled)
                    attach_view(result, args[0], view)
                return result
            return op.run(args, kwargs)
        except Exception:
            if not (name and noticed(args, kwargs)):
                raise
        return call(*args, **kwargs)  # it has other code now

    return call


def _remember(
    small: dict[Any, Any], known: list[Any], plan: Plan, values: Sequence[Any], result: Tensor
) -> None:
    """Note how calls like one are computed, if that is by a program for small values."""
    state = plan.backend.get(kind_of(values)[0])
    if state and state.is_small and not any([isinstance(k, Tensor) for k in known]):  # noqa: C419 (faster)
        asked = plan if plan.view or plan.check is not None else None
        small[tuple(known)] = state, asked, form_of(result._look())


def _note(args: Iterable[Any], kinds: Iterable[str], known: list[Any], values: list[Any]) -> bool:
    """Add arguments to what a call is known by, if they are small tensors without a gradient, or none at all."""
    for a, kind in zip(args, kinds):
        cls = type(a)
        if kind is STATIC:
            known.append(cls)
            known.append(tuple(a) if cls is list else repr(a) if cls is float and not a else a)
        elif cls is Tensor:
            cell = a._storage
            if a._view is not None or (a._requires_grad and _grad.enabled):
                return False
            value, form = cell.held, cell.form  # at once: another thread may write
            if value.__class__ in HOST:
                if value.size > tuning.numpy_elements:
                    return False
                if form is None:
                    form = cell.form = form_of(value)
            elif value.__class__ in VALUES and (value := cell.host()) is not None:
                form = form_of(value)
            else:
                return False
            values.append(value)
            known.append(form)
        elif cls in _COUNTS:
            if cls is int and not LEAST <= a <= MOST:
                return False
            known.append(cls)
            values.append(a)
        elif a is None or cls is bool:
            known.append(a)
        elif kind is ARRAYS and (cls is list or cls is tuple):
            known.append(len(a))
            if not _note(a, _ARRAYS, known, values):
                return False
        else:
            return False
    return True


def _note_named(kwargs: dict[str, Any], kind_of: dict[str, str], known: list[Any], values: list[Any]) -> bool:
    """As `_note` for keyword arguments."""
    known.append(tuple(kwargs))
    try:
        kinds = [kind_of[name] for name in kwargs]
    except KeyError:
        return False
    return _note(kwargs.values(), kinds, known, values)
