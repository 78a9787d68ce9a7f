"""Where on a mesh the value of an operation lies."""

from __future__ import annotations

from typing import Any

import jax
from jax import lax

from .._run.registry import Array, op

__all__ = ["constrain"]


@op("_constrain", where="", node="RedistributeBackward")
def constrain(input: Array, sharding: Any, back: Any) -> Any:
    """``input`` with a `NamedSharding`; its gradient has the sharding ``back``."""
    place = lambda _, x: lax.with_sharding_constraint(x, sharding)
    place_back = lambda _, ct: lax.with_sharding_constraint(ct, back)
    return jax.custom_derivatives.linear_call(place, place_back, (), input)
