"""``a / b``, rounded once as a division is.

XLA makes a product with the reciprocal of a divisor that is broadcast: ``x / 3`` is off by a last bit for a third of
the numbers, and ``(x / 49).floor()`` by one at 49 in float64. It does not see through a choice, so it divides by what
is ``b`` wherever ``a`` is a number.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.interpreters import ad

from .lowering import define

__all__ = ["divide"]


def divide(a: Any, b: Any) -> Any:
    """``a / b`` of an array, and an array of its dtype or a number."""
    a, b = jnp.broadcast_arrays(a, jnp.asarray(b, a.dtype))
    return _divide(a, b) if jnp.issubdtype(a.dtype, jnp.inexact) else lax.div(a, b)


def _divide(a: Any, b: Any) -> Any:
    return _primitive().bind(a, b)


@cache
def _primitive() -> Any:
    """The division, which is made when it is first needed: importing the package takes less without it."""
    from jax.extend.core import Primitive

    primitive = Primitive("divide")
    primitive.def_abstract_eval(lambda a, b: a.update(weak_type=a.weak_type and b.weak_type))
    define(primitive, _by_xla)
    ad.primitive_jvps[primitive] = _jvp
    ad.primitive_transposes[primitive] = _transpose
    return primitive


def _by_xla(a: Any, b: Any) -> Any:
    return lax.div(a, lax.select(lax.ne(a, a), a, b))


def _jvp(primals: Any, tangents: Any) -> Any:
    """Without the square of ``b``, which is 0 for a small one; XLA would make it of ``(a / b) / b``."""
    (a, b), (da, db) = primals, tangents
    out = _divide(a, b)
    parts = [] if isinstance(da, ad.Zero) else [_divide(da, b)]
    if not isinstance(db, ad.Zero):
        parts.append(-_divide(db, b) * out)
    return out, sum(parts[1:], parts[0])


def _transpose(cotangent: Any, a: Any, b: Any) -> Any:
    return (ad.Zero(a.aval) if isinstance(cotangent, ad.Zero) else _divide(cotangent, b)), None
