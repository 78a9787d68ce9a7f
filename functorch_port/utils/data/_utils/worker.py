"""What a data loading worker does, in its process."""

from __future__ import annotations

import contextlib
import importlib
import os
import queue
import random
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

import functorch_port as torch
from functorch_port._base.reraised import ExceptionWrapper
from functorch_port._base.tuning import tuning
from functorch_port.utils.data._utils import collate
from functorch_port.utils.data._utils.channel import Channel, Parcel
from functorch_port.utils.data._utils.fetch import Fetcher, IterableFetcher

__all__ = [
    "Ended",
    "Failure",
    "Job",
    "Resume",
    "Surroundings",
    "WorkerInfo",
    "flush",
    "get_worker_info",
    "leave",
    "work",
]


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
    worker_method: str | None = "multiprocessing"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Information about the worker that this process is; None outside of a worker.

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.get_worker_info
    """
    return _worker_info


class Resume:
    """In place of a task: start another pass. The worker sends it back."""


class Ended:
    """In place of a batch: the worker's stream has ended."""


_GROUPS = "functorch_port.distributed._groups"
#: seconds for the sample that is being loaded when the loader ends, which may write to a file
_TO_FINISH = 5
_STANDARD_COLLATE = dict(collate.default_collate_fn_map)


def _path() -> list[str]:
    """Where modules are found, also if the program has changed its directory since it first looked there."""
    places = [place for place in sys.path if isinstance(place, str)]
    return [place and getattr(sys.path_importer_cache.get(place), "path", place) for place in places]


def _folder() -> str | None:
    """The working directory; None if it has been removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _world() -> Any:
    """The process group of this process, if it is in one."""
    groups = sys.modules.get(_GROUPS)
    return None if groups is None else groups.described()


def _collated() -> dict[Any, Any]:
    """What the program has changed in how samples of a type are collated."""
    table = collate.default_collate_fn_map
    return {kind: fn for kind, fn in table.items() if _STANDARD_COLLATE.get(kind) is not fn}


@dataclass(slots=True)
class Surroundings:
    """What a worker has from the process of its loader before it gets its `Job`."""

    path: list[str] = field(default_factory=_path)
    argv: list[str] = field(default_factory=lambda: list(sys.argv))
    folder: str | None = field(default_factory=_folder)
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    answers_torch: bool = field(default_factory=lambda: sys.modules.get("torch") is torch)

    def enter(self) -> None:
        """Make them this process's."""
        sys.path[:], sys.argv[:] = self.path, self.argv
        if self.folder is not None:
            os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.environment)
        if self.answers_torch:
            importlib.import_module("functorch_port.launcher").install()


@dataclass(slots=True)
class Job:
    """What the workers of a loader do; the same for all.

    Attributes:
        kind: the class of fetcher.
        parts: the dataset, the function that makes a batch, the function that sets up a worker.
        batched, drop_last: see `Fetcher`.
        base_seed: the seed of the loader's iterator.
        workers: how many there are.
        world: the process group of the loader's process, whose rank a stream may ask for.
        dtype, filters, collated: the process's default dtype, filters of warnings, and changes to how samples of a
            type are collated.
    """

    kind: type[Fetcher]
    parts: tuple[Any, Callable, Callable[[int], Any] | None]
    batched: bool
    drop_last: bool
    base_seed: int
    workers: int
    world: Any = field(default_factory=_world)
    dtype: Any = field(default_factory=torch.get_default_dtype)
    filters: list[Any] = field(default_factory=lambda: list(warnings.filters))
    collated: dict[Any, Any] = field(default_factory=_collated)

    def begin(self, number: int) -> None:
        """Set up this process as worker ``number``."""
        global _worker_info
        if self.world is not None:
            importlib.import_module(_GROUPS).be_in(self.world)
        torch.set_default_dtype(self.dtype)
        warnings.resetwarnings()
        warnings.filters.extend(self.filters)  # type: ignore[attr-defined]
        collate.default_collate_fn_map.update(self.collated)
        dataset, _, set_up = self.parts
        seed = self.base_seed + number
        _worker_info = WorkerInfo(number, self.workers, seed, dataset)
        random.seed(seed)
        np.random.seed(_generate_state(self.base_seed, number))
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        if set_up is not None:
            set_up(number)

    def fetcher(self) -> Fetcher:
        """For a new pass."""
        dataset, collate_fn, _ = self.parts
        return self.kind(dataset, self.batched, collate_fn, self.drop_last)


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """PyTorch's seed of numpy in a worker: four words of a seed sequence."""
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(words).generate_state(4).tolist()


def compute_in_numpy() -> None:
    """Have all tensors of this process in numpy, whatever their size: nothing is compiled or put off, or starts JAX."""
    tuning.numpy_elements = sys.maxsize
    tuning.numpy_time = tuning.numpy_products = float("inf")  # type: ignore[assignment]
    tuning.tier, tuning.replay_after, tuning.background = "numpy", 0, False


def work(channel: Channel, number: int) -> None:
    """Serve a loader until it closes the channel, which ends the process, when a sample that it loads is ready.

    The loader sends `Surroundings`, a `Job`, and then ``(task, index)`` or `Resume`. It gets ``(task, batch)``, with a
    `Failure` or `Ended` in place of a batch, and `Resume` when a new pass has started.
    """
    channel.receive().enter()
    make_job = channel.receive_later()
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(channel, tasks), daemon=True).start()
    passes = _Passes(make_job, number)
    while True:
        message = tasks.get()
        if message is None:
            leave(0)
        elif message is Resume:
            passes.start()
            channel.send(Resume)
        elif not passes.ended:
            task, index = message
            _send(channel, task, passes.fetch(index), number)


class _Passes:
    """The passes of a worker over its dataset. What fails at the start is raised in place of every batch."""

    def __init__(self, make_job: Callable[[], Job], number: int) -> None:
        self.number, self.ended = number, False
        self.failure: Failure | None = None
        try:
            self.job = make_job()
            self.job.begin(number)
            self.fetcher = self.job.fetcher()
        except Exception as error:
            self.failure = Failure(error, number)

    def start(self) -> None:
        """Start another one."""
        self.ended = False
        if not hasattr(self, "job"):
            return
        try:
            self.fetcher, self.failure = self.job.fetcher(), None
        except Exception as error:
            self.failure = Failure(error, self.number)

    def fetch(self, index: Any) -> Any:
        """The next batch, or what stands in place of it."""
        if self.failure is not None:
            return self.failure
        try:
            return self.fetcher.fetch(index)
        except Exception as error:
            if isinstance(error, StopIteration) and isinstance(self.fetcher, IterableFetcher):
                self.ended = True
                return Ended
            return Failure(error, self.number)


def _receive(channel: Channel, tasks: queue.SimpleQueue[Any]) -> None:
    """Take what the loader sends, so that it never waits; the process ends with the loader."""
    while True:
        try:
            made = channel.receive_later()
        except (EOFError, OSError):
            break
        try:
            tasks.put(made())
        except Exception:  # an index that this process cannot unpickle
            traceback.print_exc()
            leave(1)
    with contextlib.suppress(queue.Empty):
        while True:
            tasks.get_nowait()
    tasks.put(None)
    time.sleep(_TO_FINISH)
    leave(0)


def flush() -> None:
    """Write what was printed."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def leave(code: int) -> NoReturn:
    """End the process without what Python does at its end: that belongs to the process that it was forked from."""
    flush()
    os._exit(code)


def _send(channel: Channel, task: int, result: Any, number: int) -> None:
    try:
        with Parcel((task, result), batch=True) as parcel:
            channel.send(parcel)
    except (BrokenPipeError, ConnectionResetError):
        leave(0)
    except Exception as error:  # it cannot be pickled
        channel.send((task, Failure(error, number)))


class Failure(ExceptionWrapper):
    """An exception in a worker, raised in the loader's process in place of a batch.

    Args:
        error: the exception.
        number: the worker's.
    """

    def __init__(self, error: BaseException, number: int) -> None:
        found = type(error), error, error.__traceback__
        super().__init__(found, f"in DataLoader worker process {number}")
