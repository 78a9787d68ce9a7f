"""What a data loading worker is here: not a process, but its own seeds and its own copy of the dataset.

JAX and forked processes do not go together, so a loader with ``num_workers > 0`` does its workers' work in
the main process, in the order and with the random numbers that PyTorch's worker processes have.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import functorch_port as torch


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What ``get_worker_info`` tells inside a worker.

    Attributes:
        id: the worker's number, from 0.
        num_workers: how many there are.
        seed: the seed of this worker's generators.
        dataset: this worker's dataset object.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "in-process"


class _State(threading.local):
    """The worker whose work the calling thread is doing."""

    current: WorkerInfo | None = None


_state = _State()


def get_worker_info() -> WorkerInfo | None:
    """The worker whose work is being done, or None outside of one.

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.get_worker_info
    """
    return _state.current


class RandomState:
    """The states of the random streams that dataset code draws from: Python's, numpy's, the default generator's."""

    def __init__(self) -> None:
        self.python = random.getstate()
        self.numpy = np.random.get_state()
        self.generator = torch.default_generator.get_state()

    def restore(self) -> None:
        """Make these the current states."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        torch.default_generator.set_state(self.generator)


class Worker:
    """One worker: ``with worker:`` makes its random streams and its ``WorkerInfo`` the current ones.

    Args:
        info: who it is.
        base_seed: the loader iterator's seed.
        init_fn: the user's ``worker_init_fn``.
    """

    def __init__(self, info: WorkerInfo, base_seed: int, init_fn: Callable[[int], Any] | None) -> None:
        self.info = info
        self.active = True
        self.fetcher: Any = None
        outside = RandomState()
        try:
            random.seed(info.seed)
            np.random.seed(_numpy_seed(base_seed, info.id))
            torch.default_generator.manual_seed(info.seed)
            self._state = RandomState()
        finally:
            outside.restore()
        if init_fn is not None:
            with self.running():
                init_fn(info.id)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Do what follows as this worker."""
        outside, outer = RandomState(), _state.current
        self._state.restore()
        _state.current = self.info
        try:
            yield
        finally:
            self._state = RandomState()
            _state.current = outer
            outside.restore()


def _numpy_seed(base_seed: int, worker_id: int) -> list[int]:
    """Numpy's seed of a worker, as PyTorch derives it: four words of a seed sequence."""
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(words).generate_state(4).tolist()
