"""Operations in a trace: each is traced once, and then repeated wherever it comes again with arguments of that kind.

To trace the derivative of an operation takes 3 ms and more, most of it in `jax.vjp`. A transformer has the same twenty
operations in each of its blocks. To repeat what one has become, JAX's own operations, takes a tenth.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .._array import tracing
from .._base import determinism
from .._base.bounded import Bounded
from .._base.tuning import tuning
from .avals import NUMBERS
from .pullback import Pullback, forward_and_pullback, kept_pullback, pullback_of

__all__ = ["forget", "run", "run_recorded"]

#: of a function and the kinds of its arguments: what repeats it, or None for what is traced each time
_known: Bounded[Any, Callable[..., Any] | None] = Bounded(tuning.cached_programs)
#: how the names of this package's modules begin
_PACKAGE = f"{__name__.partition('.')[0]}."
_numbers = operator.attrgetter(*tuning.__slots__)


def run(plan: Any, values: Sequence[Any]) -> Any:
    """``plan.fn(*values)`` in a trace."""
    again = _found(plan, None, values)
    return plan.fn(*values) if again is None else again(*_arrays(values))


def run_recorded(plan: Any, mask: tuple[bool, ...], values: Sequence[Any]) -> tuple[Any, Pullback]:
    """As `pullback_of` of a plan's function, in a trace."""
    again = _found(plan, mask, values)
    if again is None:
        return pullback_of(plan.fn, mask, values)
    out, kept = again(*_arrays(values))
    return out, kept_pullback(kept.residuals, values, kept.arrays)


def forget() -> None:
    """Trace everything anew: what decides about a trace has changed."""
    _known.clear()


def _found(plan: Any, mask: tuple[bool, ...] | None, values: Sequence[Any]) -> Callable[..., Any] | None:
    if plan.spec is None or not plan.spec.fn.__module__.startswith(_PACKAGE):
        return None  # another's function may depend on more than its arguments and settings
    kinds = tuple(map(_kind, values))
    if None in kinds:
        return None
    overlay = tracing.overlay
    trace = (overlay.checks is None, overlay.rng) if overlay else ()
    settings = tracing.is_local(), determinism.state["on"], jax.config.jax_enable_x64, _numbers(tuning)
    key = plan.fn, mask, kinds, trace, settings
    if key not in _known:
        _known[key] = _traced(plan.fn, mask, values)
    return _known[key]


def _kind(value: Any) -> Any:
    """What the trace depends on; None for what is no array and no number."""
    if value.__class__ in NUMBERS:
        return value.__class__, repr(value)
    if isinstance(value, jax.Array | np.ndarray):
        return jax.typeof(value)
    return None


def _arrays(values: Sequence[Any]) -> list[Any]:
    return [v for v in values if v.__class__ not in NUMBERS]


def _traced(fn: Callable[..., Any], mask: Any, values: Sequence[Any]) -> Callable[..., Any] | None:
    """A function of the arrays among the values, which repeats what ``fn`` does with them."""
    from jax.extend.core import jaxpr_as_fun  # it takes 20 ms to import

    numbers = [v if v.__class__ in NUMBERS else None for v in values]

    def of_arrays(*arrays: Any) -> Any:
        given = iter(arrays)
        full = [next(given) if n is None else n for n in numbers]
        if mask is None:
            return fn(*full)
        out, kept = forward_and_pullback(fn, mask, *full)
        return out, kept

    kinds = [jax.typeof(v) for v in _arrays(values)]
    shapes = [jax.ShapeDtypeStruct(k.shape, k.dtype, weak_type=k.weak_type) for k in kinds]
    closed, made = jax.make_jaxpr(of_arrays, return_shape=True)(*shapes)
    if any(isinstance(const, jax.core.Tracer) for const in closed.consts):
        return None  # it belongs to this trace
    again, tree = jaxpr_as_fun(closed), jax.tree.structure(made)
    return lambda *arrays: jax.tree.unflatten(tree, again(*arrays))
