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
def constrain(input: Array, sharding: Any, back: Any, axes: Any = None) -> Any:
    """``input`` with a `NamedSharding`; its gradient has the sharding ``back``, or any if that is None.

    ``axes`` are the axes of the mesh that are meant: along the others both lie as they do. None: all axes.
    """
    place = lambda _, x: _placed(x, sharding, axes)
    place_back = lambda _, ct: ct if back is None else _placed(ct, back, axes)
    return jax.custom_derivatives.linear_call(place, place_back, (), input)


def _placed(x: Any, sharding: Any, axes: Any) -> Any:
    mesh, spec = within(sharding.mesh), sharding.spec
    if axes is None or set(axes) == set(mesh.axis_names):
        return lax.with_sharding_constraint(x, NamedSharding(mesh, spec, memory_kind=sharding.memory_kind))
    # a constraint cannot say that some axes split no dimension while others do as they like
    return jax.shard_map(lambda part: part, mesh=mesh, in_specs=spec, out_specs=spec, axis_names=set(axes))(x)
