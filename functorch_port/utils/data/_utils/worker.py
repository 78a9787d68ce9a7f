"""What a data loading worker is here: not a process, but its own seeds and its own copy of the dataset.

JAX and forked processes do not go together, so a loader with ``num_workers > 0`` does its workers' work in
the main process, in the order, with the random numbers and with the errors that PyTorch's worker processes have.
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
    """The states of the random streams that dataset code draws from: Python's, numpy's, the default generator's.

    Args:
        generators: more of them.
    """

    def __init__(self, generators: Iterable[Generator] = ()) -> None:
        self.python: Any = random.getstate()
        self.numpy: Any = np.random.get_state(legacy=False)
        self.generators = [(g, g.__getstate__()) for g in (default_generator, *generators)]

    def restore(self) -> None:
        """Make these the current states."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        for generator, state in self.generators:
            generator.__setstate__(state)

    def plain(self) -> dict[str, Any]:
        """As numbers, text and bytes, which a file may have."""
        words = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in self.numpy["state"].items()}
        return {
            "python": self.python,
            "numpy": {**self.numpy, "state": words},
            "generators": [torch.tensor(list(state), dtype=torch.uint8) for _, state in self.generators],
        }

    @classmethod
    def of(cls, plain: dict[str, Any], generators: Iterable[Generator] = ()) -> RandomState:
        """What `plain` gave, for the generators of this process.

        Raises:
            RuntimeError: there were more or fewer of them.
        """
        self = cls(generators)
        words = plain["numpy"]["state"].items()
        state = {k: np.array(v, np.uint32) if isinstance(v, list) else v for k, v in words}
        self.python, self.numpy = plain["python"], {**plain["numpy"], "state": state}
        states = [bytes(saved.tolist()) for saved in plain["generators"]]
        if len(states) != len(self.generators):
            raise RuntimeError(f"there were {len(states)} generators, and are {len(self.generators)}")
        self.generators = [(g, saved) for (g, _), saved in zip(self.generators, states, strict=True)]
        return self


#: what a worker gives when its iterable dataset has no more
ENDED = object()


class Worker:
    """One worker, with random streams and a `WorkerInfo` of its own.

    Args:
        info: who it is.
        base_seed: the loader iterator's seed.
        init_fn: the user's ``worker_init_fn``.
        fetcher: makes what gets batches from its dataset.
        streams: whether that is an iterable dataset, which ends by a ``StopIteration``.
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
            except Exception as error:  # comes in place of the batches
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
            except SystemExit as error:  # would end a process, but not the main one
                return Failure(error, self.info.id)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Do what follows as this worker; what the user interrupts has drawn nothing."""
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
    """An exception in a worker, as text: it is raised where its batch is asked for."""

    def __init__(self, error: BaseException, number: int) -> None:
        self.kind = type(error)
        lines = "".join(traceback.format_exception(error))
        self.text = f"Caught {self.kind.__name__} in DataLoader worker process {number}.\nOriginal {lines}"

    def error(self) -> BaseException:
        """A new exception of the same type; a RuntimeError where that cannot be made of a text."""
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
    """A text that a KeyError shows as it is, on several lines."""

    __slots__ = ()
    __repr__ = str.__str__


def _numpy_seed(base_seed: int, worker_id: int) -> list[int]:
    """Numpy's seed of a worker, as PyTorch derives it: four words of a seed sequence."""
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(words).generate_state(4).tolist()
