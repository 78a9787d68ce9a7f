"""Where on a mesh the value of an operation lies."""

from __future__ import annotations

from typing import Any

import jax
from jax import lax

from .._run.registry import Array, op

__all__ = ["constrain"]


@op("_constrain", where="", node="RedistributeBackward")
def constrain(
    input: Array, sharding: Any, back: Any, forward_dtype: Any = None, backward_dtype: Any = None
) -> Any:
    """``input`` with a `NamedSharding`; its gradient has the sharding ``back``.

    Args:
        forward_dtype: the result has it, and is converted before it moves.
        backward_dtype: a gradient is converted to it before it moves, and to that of ``input`` after.
    """
    dtype = input.dtype

    def place(_: Any, x: Any) -> Any:
        if forward_dtype is not None and x.dtype != forward_dtype:
            x = lax.with_sharding_constraint(x.astype(forward_dtype), back)
        return lax.with_sharding_constraint(x, sharding)

    def place_back(_: Any, ct: Any) -> Any:
        ct = ct if backward_dtype is None else ct.astype(backward_dtype)
        return lax.with_sharding_constraint(ct, back).astype(dtype)

    return jax.custom_derivatives.linear_call(place, place_back, (), input)
