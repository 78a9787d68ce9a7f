"""The older name of `distributed.tensor`."""

from ..tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)  # fmt: skip
from . import device_mesh, placement_types

__all__ = [
    "DTensor", "Partial", "Placement", "Replicate", "Shard", "device_mesh", "distribute_module", "distribute_tensor",
    "empty", "full", "ones", "placement_types", "rand", "randn", "zeros",
]  # fmt: skip
