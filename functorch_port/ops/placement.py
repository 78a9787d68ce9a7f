"""Where on a mesh the value of an operation lies."""

from __future__ import annotations

from typing import Any

import jax
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from .._base.meshes import within
from .._run.registry import Array, op

try:
    from jax.experimental.shard_alike import shard_alike
except ImportError:  # JAX 0.12 has none: XLA lays microbatches as it finds best

    def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
        return x, y


__all__ = ["constrain", "from_microbatches", "to_microbatches"]


@op("_constrain", where="", node="RedistributeBackward", lays=True)
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


@op("_to_microbatches", where="", node="UnflattenBackward0")
def to_microbatches(input: Array, count: int, mesh: Any) -> Any:
    """Rows as ``count`` microbatches (count, n, ...), each of neighbours."""
    return jax.custom_derivatives.linear_call(
        lambda _, x: _apart(x, count, mesh), lambda _, ct: _together(ct, mesh), (), input
    )


@op("_from_microbatches", where="", node="FlattenBackward0")
def from_microbatches(input: Array, mesh: Any) -> Any:
    """The rows of microbatches."""
    count = input.shape[0]
    return jax.custom_derivatives.linear_call(
        lambda _, x: _together(x, mesh), lambda _, ct: _apart(ct, count, mesh), (), input
    )


# Along axes of the mesh that split the rows, each microbatch is to be split. Which axes these are is not known in a
# trace. Microbatches of every ``count``-th row would lie so by themselves, and XLA is to lay those of neighbours alike.


def _apart(x: Any, count: int, mesh: Any) -> Any:
    size, rest = x.shape[0] // count, x.shape[1:]
    return _alike(x.reshape(count, size, *rest), x.reshape(size, count, *rest).swapaxes(0, 1), mesh, whole=1)


def _together(x: Any, mesh: Any) -> Any:
    shape = x.shape[0] * x.shape[1], *x.shape[2:]
    return _alike(x.reshape(shape), x.swapaxes(0, 1).reshape(shape), mesh, whole=0)


def _alike(x: Any, other: Any, mesh: Any, whole: int) -> Any:
    """``x``, which lies like ``other``; the first dimensions, ``whole`` of them, are not split."""
    if max(mesh.shape.values()) == mesh.size:
        return x
    free = [PartitionSpec.UNCONSTRAINED] * (x.ndim - whole)
    where = NamedSharding(within(mesh), PartitionSpec(*[None] * whole, *free))
    return shard_alike(*[lax.with_sharding_constraint(y, where) for y in (x, other)])[0]
