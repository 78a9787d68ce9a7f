"""A sampler that splits the indices among the processes of a distributed run."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

import jax

import functorch_port as torch
from functorch_port._random.generator import Generator
from functorch_port.distributed import distributed_c10d
from functorch_port.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Sampler of one process: every ``num_replicas``-th index from ``rank`` on, of an order shared by all processes.

    Args:
        dataset: the dataset; it must have a length.
        num_replicas: number of processes that share the data; default: that of the process group, or JAX's count.
        rank: index of this process; default: that in the process group, or JAX's index.
        shuffle: use a random order, which depends on ``seed`` and the epoch and is the same in all processes.
        seed: see ``shuffle``.
        drop_last: drop the last indices to divide evenly, instead of repeating some.

    Raises:
        ValueError: if ``rank`` is outside [0, num_replicas - 1].

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        in_group = distributed_c10d.is_initialized()
        if num_replicas is None:
            num_replicas = distributed_c10d.get_world_size() if in_group else jax.process_count()
        if rank is None:
            rank = distributed_c10d.get_rank() if in_group else jax.process_index()
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset: Sized = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        length = len(self.dataset)
        self.num_samples = length // num_replicas if drop_last else -(-length // num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            generator = Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = torch.randperm(len(indices), generator=generator).tolist()
        if len(indices) < self.total_size:
            indices = (indices * -(-self.total_size // len(indices)))[: self.total_size]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the shuffle; call it before each pass."""
        self.epoch = epoch
