"""The older name of `distributed.tensor`."""

from .. import tensor
from ..tensor import *  # noqa: F403
from . import device_mesh, placement_types

__all__ = [*tensor.__all__, "device_mesh", "placement_types"]
