"""`DistributedDataParallel`: the name."""

from __future__ import annotations

from typing import Any

from ..module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Refused when it is made, as it needs a process group.

    Raises:
        NotImplementedError: always.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    """

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "nn.parallel.DistributedDataParallel: there are no process groups. One process drives all its "
            "devices: give "
            "the batch a jax.sharding over them and call the module itself"
        )
