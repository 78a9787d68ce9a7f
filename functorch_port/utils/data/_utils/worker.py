"""Data loading workers. A worker is not a process, but random states and a copy of the dataset.

JAX does not work in forked processes, so a loader with ``num_workers > 0`` runs its workers in the main process, with
the order, random numbers and errors of PyTorch's worker processes.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import functorch_port as torch
from functorch_port._random.generator import Generator, default_generator


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """The result of `get_worker_info` in a worker.

    Attributes:
        id: the worker's number, from 0.
        num_workers: the number of workers.
        seed: the seed of this worker's random numbers.
        dataset: this worker's copy of the dataset.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "in-process"


class _State(threading.local):
    """The worker that runs in the calling thread."""

    current: WorkerInfo | None = None


_state = _State()


def get_worker_info() -> WorkerInfo | None:
    """Information about the worker that runs this code; None outside of a worker.

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.get_worker_info
    """
    return _state.current


class RandomState:
    """The current random states of Python, numpy and the default generator.

    Args:
        generators: further generators.
    """

    def __init__(self, generators: Iterable[Generator] = ()) -> None:
        self.python: Any = random.getstate()
        self.numpy: Any = np.random.get_state(legacy=False)
        self.generators = [(g, g.__getstate__()) for g in (default_generator, *generators)]

    def restore(self) -> None:
        """Set the current states to these."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        for generator, state in self.generators:
            generator.__setstate__(state)

    def plain(self) -> dict[str, Any]:
        """The states as numbers, strings and tensors, for a file."""
        words = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in self.numpy["state"].items()}
        return {
            "python": self.python,
            "numpy": {**self.numpy, "state": words},
            "generators": [torch.tensor(list(state), dtype=torch.uint8) for _, state in self.generators],
        }

    @classmethod
    def of(cls, plain: dict[str, Any], generators: Iterable[Generator] = ()) -> RandomState:
        """The states from the result of `plain`.

        Raises:
            RuntimeError: the number of generators differs.
        """
        self = cls(generators)
        words = plain["numpy"]["state"].items()
        state = {k: np.array(v, np.uint32) if isinstance(v, list) else v for k, v in words}
        self.python, self.numpy = plain["python"], {**plain["numpy"], "state": state}
        states = [bytes(saved.tolist()) for saved in plain["generators"]]
        if len(states) != len(self.generators):
            raise RuntimeError(
                f"the checkpoint has the states of {len(states)} generators, but this run has {len(self.generators)}"
            )
        self.generators = [(g, saved) for (g, _), saved in zip(self.generators, states, strict=True)]
        return self


#: the result of a worker whose iterable dataset has ended
ENDED = object()


class Worker:
    """A worker with its own random states.

    Args:
        info: the worker's number and dataset.
        base_seed: the seed of the loader's iterator.
        init_fn: the user's ``worker_init_fn``.
        fetcher: a function that returns an object whose ``fetch`` gets batches from the dataset.
        streams: whether the dataset is iterable, so that a ``StopIteration`` ends it.
    """

    def __init__(
        self,
        info: WorkerInfo,
        base_seed: int,
        init_fn: Callable[[int], Any] | None,
        fetcher: Callable[[], Any],
        streams: bool,
    ) -> None:
        self.info = info
        self.active = True
        self._make, self._streams = fetcher, streams
        outside = RandomState()
        try:
            random.seed(info.seed)
            np.random.seed(_numpy_seed(base_seed, info.id))
            torch.default_generator.manual_seed(info.seed)
            self._state = RandomState()
        finally:
            outside.restore()
        self._begin(init_fn)

    def begin(self) -> None:
        """Start another pass."""
        self.active = True
        self._begin(None)

    def _begin(self, init_fn: Callable[[int], Any] | None) -> None:
        self._broken: Failure | None = None
        with self.running():
            try:
                if init_fn is not None:
                    init_fn(self.info.id)
                self._fetcher = self._make()
            except Exception as error:  # raised in place of every batch
                self._broken = Failure(error, self.info.id)

    def fetch(self, index: Any) -> Any:
        """A batch, a `Failure` in place of it, or `ENDED`."""
        if self._broken is not None:
            return self._broken
        with self.running():
            try:
                return self._fetcher.fetch(index)
            except Exception as error:
                if self._streams and isinstance(error, StopIteration):
                    self.active = False
                    return ENDED
                return Failure(error, self.info.id)
            except SystemExit as error:  # ends a worker process in PyTorch, but must not end this one
                return Failure(error, self.info.id)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the ``with`` block in this worker. An interrupted block leaves the worker's random states unchanged."""
        outside, outer = RandomState(), _state.current
        self._state.restore()
        _state.current = self.info
        try:
            yield
            self._state = RandomState()
        finally:
            _state.current = outer
            outside.restore()


class Failure:
    """The text of an exception in a worker. The exception is raised in place of its batch."""

    def __init__(self, error: BaseException, number: int) -> None:
        self.kind = type(error)
        lines = "".join(traceback.format_exception(error))
        self.text = f"Caught {self.kind.__name__} in DataLoader worker process {number}.\nOriginal {lines}"

    def error(self) -> BaseException:
        """A new exception of the same type, or a RuntimeError if that type does not take one string."""
        if self.kind is SystemExit:
            return RuntimeError(f"DataLoader worker (pid(s) {os.getpid()}) exited unexpectedly")
        if self.kind is KeyError:
            return KeyError(_Plain(self.text))
        make: Any = self.kind
        if getattr(make, "message", None):
            return make(message=self.text)
        try:
            return make(self.text)
        except Exception:
            return RuntimeError(self.text)


class _Plain(str):
    """A string that a KeyError shows without quotes and escapes."""

    __slots__ = ()
    __repr__ = str.__str__


def _numpy_seed(base_seed: int, worker_id: int) -> list[int]:
    """PyTorch's seed of numpy in a worker: four words of a seed sequence."""
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(words).generate_state(4).tolist()
