"""``torch.nn.parallel``: PyTorch's data-parallel modules, in one process."""

from __future__ import annotations

from ..._base.refused import refused_function
from .data_parallel import DataParallel as DataParallel
from .data_parallel import data_parallel as data_parallel
from .distributed import DistributedDataParallel as DistributedDataParallel

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter",
]  # fmt: skip


_WHY = (
    "one process drives all devices here. Shard the batch over the devices with jax.sharding "
    "and call the module itself"
)
gather, parallel_apply, replicate, scatter = (
    refused_function(f"torch.nn.parallel.{n}", _WHY)
    for n in ("gather", "parallel_apply", "replicate", "scatter")
)
