"""Arrays on one device that meet those on a mesh."""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

__all__ = ["INCOMPATIBLE", "joined", "within"]

#: part of JAX's text where a program is given arrays on different devices
INCOMPATIBLE = "incompatible devices"


def within(mesh: Any) -> Any:
    """The mesh for an operation: in a function on parts (`jax.shard_map`), the one that says which axes are taken."""
    around = jax.sharding.get_abstract_mesh()
    return mesh if around.empty else around


def joined(error: Exception, args: Any) -> Any:
    """Arguments that a program has refused, with those on one device on all of the mesh that others are on.

    None if that is not why it refused them; and in several processes, where one cannot know what the others have.
    """
    if not isinstance(error, ValueError) or INCOMPATIBLE not in str(error) or jax.process_count() > 1:
        return None
    arrays = [leaf for leaf in jax.tree.leaves(args) if isinstance(leaf, jax.Array)]
    wide = [a.sharding for a in arrays if len(a.sharding.device_set) > 1]
    if not wide or not isinstance(wide[0], NamedSharding):
        return None
    everywhere = NamedSharding(wide[0].mesh, PartitionSpec())
    if not all(a.sharding.device_set <= everywhere.device_set for a in arrays):
        return None

    def moved(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array) or len(leaf.sharding.device_set) > 1:
            return leaf
        return jax.device_put(jax.numpy.copy(leaf), everywhere)

    return jax.tree.map(moved, args)
