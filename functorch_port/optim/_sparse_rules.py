"""Steps with sparse gradients.

A `SparseStep` works on tensors, in place: ``step(param, grad, state, scalars, flags)`` returns the new state. `by_rows`
makes it of a rule that updates only the rows in the gradient, a pure function of one parameter,

    rule(param, rows, values, state, scalars, flags) -> (new param, new state)

like those of `engine`, with the gradient as row indices ``(n,)`` and values ``(n, ...)``. Row indices may repeat;
those past the end are dropped. If the gradient has several sparse dimensions, they are flattened first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from .._array import executor, placing, tracing
from .._array.donation import Before, Donating, is_whole, lent, own, whole
from .._base.tuning import tuning
from .._run.sparse.tensor import linear_index
from .._tensor import grad_mode
from .._tensor.plan import Plan
from .._tensor.tensor import Tensor
from ._engine import MANY, Early, State, arrays_of
from ._rules import axpy, minus, plus, quotient, root, scaled, times
from .optimizer import to_scalar

__all__ = ["SparseStep", "adagrad_rows", "adam_rows", "by_rows", "coalesced", "sgd_step", "update_rows"]

SparseStep: TypeAlias = Callable[[Tensor, Any, State, tuple[Any, ...], Any], State]
RowRule: TypeAlias = Callable[
    [Any, Any, Any, tuple[Any, ...], tuple[Any, ...], Any], tuple[Any, tuple[Any, ...]]
]


# ---------------------------------------------------------------------- rules


def coalesced(rows: Any, values: Any, count: int) -> tuple[Any, Any]:
    """The distinct row indices and the sums of their values, padded with row indices past the end."""
    distinct, place = jnp.unique(rows, size=rows.shape[0], fill_value=count, return_inverse=True)
    return distinct, jnp.zeros_like(values).at[place.reshape(-1)].add(values)


def _at(table: Any, rows: Any) -> Any:
    return table.at[rows].get(mode="clip")


def _added(table: Any, rows: Any, values: Any) -> Any:
    return table.at[rows].add(values, mode="drop")


def sgd_rows(param: Any, rows: Any, values: Any, state: Any, scalars: Any, flags: Any) -> Any:
    """``param + scalars[0] * gradient``, without state."""
    return _added(param, rows, scaled(values, scalars[0])), state


def adagrad_rows(param: Any, rows: Any, values: Any, state: Any, scalars: Any, flags: Any) -> Any:
    """One step of `Adagrad`: scalars ``(minus_step_size, eps, ...)``, state ``(sum,)``."""
    minus_step_size, eps = scalars[:2]
    if flags.weight_decay:
        raise RuntimeError("weight_decay option is not compatible with sparse gradients")
    rows, values = coalesced(rows, -values if flags.maximize else values, param.shape[0])
    total = _added(state[0], rows, times(values, values))
    divisor = plus(root(_at(total, rows)), eps)
    return _added(param, rows, scaled(quotient(values, divisor), minus_step_size)), (total,)


def adam_rows(param: Any, rows: Any, values: Any, state: Any, scalars: Any, flags: Any) -> Any:
    """One step of `SparseAdam`: scalars ``(minus_step_size, 1 - beta1, 1 - beta2, eps)``; flags: `maximize`."""
    minus_step_size, one_minus_beta1, one_minus_beta2, eps = scalars
    rows, values = coalesced(rows, -values if flags else values, param.shape[0])
    means, squares = state
    mean, square = _at(means, rows), _at(squares, rows)
    mean_change = scaled(minus(values, mean), one_minus_beta1)
    square_change = scaled(minus(times(values, values), square), one_minus_beta2)
    means, squares = _added(means, rows, mean_change), _added(squares, rows, square_change)
    numerator, denominator = axpy(mean_change, 1, mean), plus(root(axpy(square_change, 1, square)), eps)
    return _added(param, rows, scaled(quotient(numerator, denominator), minus_step_size)), (means, squares)


# ---------------------------------------------------------------------- running them


def by_rows(rule: RowRule) -> SparseStep:
    """A step that applies ``rule``."""
    return partial(update_rows, rule)


def update_rows(
    rule: RowRule, param: Tensor, grad: Any, state: State, scalars: tuple[Any, ...], flags: Any
) -> State:
    """Apply ``rule`` to one parameter in place, donating its memory unless something else references it."""
    if grad_mode.state.enabled and any(t.requires_grad for t in (param, grad)):
        param._check_inplace()
        raise NotImplementedError(
            "a step with differentiable=True does not support sparse gradients; convert them with to_dense()"
        )
    if not grad._ids.shape[1]:
        return state
    tensors: list[Any] = [param, *state]

    def work() -> None:
        with lent([t._storage for t in tensors]):
            _write_rows(rule, tensors, grad, scalars, flags)

    if tracing.overlay or is_whole():
        work()
    else:
        whole(work, Before(tensors).undo)
    return state


def _write_rows(
    rule: RowRule, tensors: Sequence[Tensor], grad: Any, scalars: tuple[Any, ...], flags: Any
) -> None:
    gradient = grad._ids, grad._vals
    numbers = tuple(placing.as_array(to_scalar(x)) for x in scalars)
    if tracing.overlay:
        ids, values = arrays_of(gradient)
        new = _applied(rule, flags, arrays_of(tensors), ids, values, numbers)
    else:
        numbers = tuple(x if hasattr(x, "dtype") else np.float64(x) for x in numbers)
        types = tuple([(a.shape, a.dtype) for a in (t._aval() for t in (*tensors, *gradient))])
        plan = _operation(rule, flags, len(tensors))
        given = (*[t._look() for t in gradient], *numbers)
        new = _program(rule, flags, types).call(
            lambda: executor.current.early(plan, [*[t._look() for t in tensors], *given]),
            lambda: (own(arrays_of(tensors)), given),
            lambda: (arrays_of(tensors), given),
        )
    for tensor, value in zip(tensors, new, strict=True):
        tensor._set_value(value)


def _applied(
    rule: RowRule, flags: Any, tables: list[Any], indices: Any, values: Any, scalars: Any
) -> list[Any]:
    """Apply the rule with the sparse dimensions flattened."""
    shape, k = tables[0].shape, indices.shape[0]
    flat = [t.reshape(math.prod(shape[:k]), *shape[k:]) for t in tables]
    new, state = rule(flat[0], linear_index(indices, shape), values, tuple(flat[1:]), scalars, flags)
    return [t.reshape(shape) for t in (new, *state)]


@lru_cache(tuning.cached_programs)
def _program(rule: RowRule, flags: Any, types: Any) -> Early:
    """The program for tables and gradients of these shapes and dtypes."""
    return Early(Donating(_compiled(rule, flags)), [jax.ShapeDtypeStruct(*types[0])], MANY)


@lru_cache(tuning.cached_programs)
def _operation(rule: RowRule, flags: Any, count: int) -> Plan:
    """The same as an operation, of ``count`` tables, the gradient and the numbers."""

    def step(*values: Any) -> tuple[Any, ...]:
        ids, change, *scalars = values[count:]
        return tuple(_applied(rule, flags, [*values[:count]], ids, change, scalars))

    return Plan(step, rule.__name__, "")


@lru_cache(tuning.cached_programs)
def _compiled(rule: RowRule, flags: Any) -> Callable[..., Any]:
    def step(tables: list[Any], given: Any) -> list[Any]:
        indices, values, *scalars = given
        return _applied(rule, flags, tables, indices, values, scalars)

    step.__name__ = step.__qualname__ = f"{rule.__name__}_step"
    return jax.jit(step, donate_argnums=0)


def sgd_step(param: Tensor, grad: Any, state: State, scalars: tuple[Any, ...], flags: Any) -> State:
    """A step of `SGD`; the first momentum buffer is sparse."""
    if flags.momentum and tracing.overlay:
        raise NotImplementedError(
            "SGD with momentum does not support sparse gradients in a compiled function, as its buffer grows. Call "
            "step() outside, or use SparseAdam, Adagrad or embedding(sparse=False)."
        )
    (buf,), (minus_lr, momentum, one_minus_dampening, weight_decay) = state, scalars
    direction: Any = -grad if flags.maximize else grad
    if flags.weight_decay:
        direction = direction.add(param, alpha=weight_decay)
    if flags.momentum:
        if buf is None:
            buf = direction.clone()
        else:
            buf.mul_(momentum).add_(direction, alpha=one_minus_dampening)  # type: ignore[attr-defined]
        direction = direction.add(buf, alpha=momentum) if flags.nesterov else buf
    if direction._sparse:
        update_rows(sgd_rows, param, direction, (), (minus_lr,), None)
    else:
        param.add_(direction, alpha=minus_lr)  # type: ignore[attr-defined]
    return (buf,)
