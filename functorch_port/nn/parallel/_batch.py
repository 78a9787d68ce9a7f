"""Batches that are split over devices: what the data-parallel modules share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..._array import placed
from ..._array.placed import sharding_of
from ..._base import contexts, meshes
from ..._run.call import Op
from ..._run.registry import ops
from ..._tensor import tree
from ..._tensor.tensor import Tensor, wrap

__all__ = ["of_first", "one_process", "replicate", "row", "run", "split"]

_constrain = Op(ops["_constrain"])


def one_process(name: str) -> None:
    """Refuse several processes.

    Raises:
        NotImplementedError: there are several.
    """
    if jax.process_count() > 1:
        raise NotImplementedError(
            f"{name} of several processes is not supported: start one process that drives all devices of a host, or "
            "place parameters and batches with distributed.sharding.shard"
        )


def row(devices: Any) -> Mesh:
    """Devices in a row, with the axis ``"data"``."""
    return meshes.mesh_of(devices, ("data",))


def of_first(tensors: Iterable[Tensor]) -> None:
    """Give tensors of each of several processes the values that the first has, in place."""
    for tensor in tensors if jax.process_count() > 1 else ():
        if _lies_anywhere(tensor) and not tensor.is_meta:
            tensor._storage.put(placed.from_process(0, tensor._storage.look()))


def replicate(tensors: Iterable[Tensor], mesh: Mesh) -> None:
    """Have every device of a mesh hold tensors, in place; those that lie on several devices stay as they are."""
    everywhere = NamedSharding(mesh, PartitionSpec())
    for tensor in tensors:
        if _lies_anywhere(tensor):
            placed.place(tensor._storage, everywhere)


def _lies_anywhere(tensor: Tensor) -> bool:
    return tensor._view is None and sharding_of(tensor._storage) is None


def run(module: Callable[..., Any], mesh: Mesh, axes: Sequence[str], args: Any, kwargs: Any) -> Any:
    """A module's result for a batch that is split."""
    (args, kwargs), parts = split((args, kwargs), mesh, axes)
    with contexts.state.having(parts=parts, split=(mesh, tuple(axes) if parts > 1 else ())):
        return module(*args, **kwargs)


def split(args: Any, mesh: Mesh, axes: Sequence[str], declared: bool = True) -> tuple[Any, int]:
    """The tensors of a batch, split along dimension 0 over axes of a mesh; and into how many parts they are.

    These are all tensors with as many rows as the first one. If that cannot be split into equal parts, or lies on
    several devices in a way of its own, all stay as they are.

    Args:
        args: tensors in nested containers.
        mesh: the mesh.
        axes: the names of axes.
        declared: whether tensors that were placed already stay where they are.
    """
    tensors = [leaf for leaf in tree.leaves(args) if isinstance(leaf, Tensor) and leaf.dim()]
    parts = int(np.prod([mesh.shape[axis] for axis in axes]))
    if not tensors:
        return args, parts
    rows = tensors[0].shape[0]
    own = _declared(tensors[0]) if declared else None
    if own is not None:
        have = PartitionSpec((*own.spec, None)[0])
        is_split = {*axes} <= {*meshes.axes_of(have[0])} or NamedSharding(own.mesh, have).is_equivalent_to(
            NamedSharding(mesh, PartitionSpec(tuple(axes))), 1
        )
        return args, parts if is_split else 1
    if not isinstance(rows, int) or not rows or rows % parts:
        return args, 1

    def place(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or not leaf.dim() or leaf.shape[0] != rows or leaf._sparse:
            return leaf
        if declared and _declared(leaf) is not None:
            return leaf
        rest = [PartitionSpec.UNCONSTRAINED] * (leaf.dim() - 1)
        if leaf.requires_grad or _is_spread(leaf):
            where = NamedSharding(mesh, PartitionSpec(tuple(axes), *rest))
            return _constrain.run((leaf, where, where), {})
        return wrap(placed.brought(leaf._look(), NamedSharding(mesh, PartitionSpec(tuple(axes)))))

    return tree.map(place, args), parts


def _declared(tensor: Tensor) -> NamedSharding | None:
    return sharding_of(tensor._storage)


def _is_spread(tensor: Tensor) -> bool:
    """Whether a program has computed the value, or does so now, rather than one device."""
    value = tensor._look()
    return isinstance(value, jax.core.Tracer) or (
        isinstance(value, jax.Array) and len(value.sharding.device_set) > 1
    )
