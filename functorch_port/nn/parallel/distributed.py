"""`DistributedDataParallel`, which is not supported."""

from __future__ import annotations

from typing import Any

from .._module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Not supported: there are no process groups.

    Raises:
        NotImplementedError: always.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    """

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "nn.parallel.DistributedDataParallel is not supported: there are no process groups, one process drives all "
            "devices. Shard the batch over the devices with jax.sharding and call the module itself."
        )
