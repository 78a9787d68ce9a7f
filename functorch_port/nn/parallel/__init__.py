"""``torch.nn.parallel``: PyTorch's data-parallel modules, in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .data_parallel import DataParallel as DataParallel
from .data_parallel import data_parallel as data_parallel
from .distributed import DistributedDataParallel as DistributedDataParallel

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter",
]  # fmt: skip


def _refused(name: str) -> Callable[..., Any]:
    def refused(*args: Any, **kwargs: Any) -> Any:
        """Not supported: one process drives all devices.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            f"nn.parallel.{name} is not supported: one process drives all devices here. Shard the batch over the "
            "devices with jax.sharding and call the module itself."
        )

    refused.__name__ = refused.__qualname__ = name
    return refused


gather, parallel_apply, replicate, scatter = map(
    _refused, ("gather", "parallel_apply", "replicate", "scatter")
)
