"""Where on a mesh the value of an operation lies."""

from __future__ import annotations

from typing import Any

import jax
from jax import lax
from jax.sharding import NamedSharding

from .._base.meshes import within
from .._run.registry import Array, op

__all__ = ["constrain"]


@op("_constrain", where="", node="RedistributeBackward")
def constrain(
    input: Array,
    sharding: Any,
    back: Any,
    axes: Any = None,
    forward_dtype: Any = None,
    backward_dtype: Any = None,
) -> Any:
    """``input`` with a `NamedSharding`; its gradient has the sharding ``back``, or any if that is None.

    Args:
        axes: those of the mesh that are meant: along the others both lie as they do. None: all axes.
        forward_dtype: the result has it, and is converted before it moves.
        backward_dtype: a gradient is converted to it before it moves, and to that of ``input`` after.
    """
    dtype = input.dtype

    def place(_: Any, x: Any) -> Any:
        if forward_dtype is not None and x.dtype != forward_dtype:
            x = lax.with_sharding_constraint(x.astype(forward_dtype), back)
        return _placed(x, sharding, axes)

    def place_back(_: Any, ct: Any) -> Any:
        ct = ct if backward_dtype is None else ct.astype(backward_dtype)
        return (ct if back is None else _placed(ct, back, axes)).astype(dtype)

    return jax.custom_derivatives.linear_call(place, place_back, (), input)


def _placed(x: Any, sharding: Any, axes: Any) -> Any:
    mesh, spec = within(sharding.mesh), sharding.spec
    if axes is None or set(axes) == set(mesh.axis_names):
        return lax.with_sharding_constraint(x, NamedSharding(mesh, spec))
    # a constraint cannot say that some axes split no dimension while others do as they like
    return jax.shard_map(lambda part: part, mesh=mesh, in_specs=spec, out_specs=spec, axis_names=set(axes))(x)
