"""`DataLoader`: loads batches of a dataset, by worker processes if asked to, in PyTorch's order for a given seed."""

from __future__ import annotations

import multiprocessing
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import connection
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

import jax

from functorch_port._random.generator import Generator
from functorch_port.utils.data._position import Position
from functorch_port.utils.data._utils.channel import Parcel
from functorch_port.utils.data._utils.collate import default_collate as default_collate
from functorch_port.utils.data._utils.collate import default_convert as default_convert
from functorch_port.utils.data._utils.fetch import IterableFetcher, MapFetcher
from functorch_port.utils.data._utils.processes import Process, prepare, start
from functorch_port.utils.data._utils.worker import Ended, Failure, Job, Resume
from functorch_port.utils.data._utils.worker import get_worker_info as get_worker_info
from functorch_port.utils.data.dataset import Dataset, IterableDataset
from functorch_port.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    draw_seed,
)

#: what makes a batch of a list of samples
_collate_fn_t = Callable[[list[Any]], Any]

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

T = TypeVar("T", covariant=True)

_HALF = "the DataLoader was interrupted while a message came or went: iterate over it again"
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _DatasetKind:
    Map = 0
    Iterable = 1


class _InfiniteConstantSampler(Sampler):
    """The sampler of an iterable dataset. It yields None forever; the dataset determines the end."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[T]):
    """An iterable over batches of a dataset.

    With ``num_workers > 0`` as many processes load batches ahead, each with its own seed, as in PyTorch. They are fresh
    processes, as JAX does not survive a fork, but start as fast as forked ones (the first takes a second). The dataset,
    ``collate_fn`` and ``worker_init_fn`` are sent to them: lambdas and what is defined in a script, too, and no
    ``if __name__ == "__main__"`` is needed. Arrays come back through shared memory. In a worker all tensors are on the
    CPU and in numpy, so nothing is compiled there. A worker knows the environment, the working directory, the default
    dtype and the rank, but not what a program has changed in other modules.

    An exception in a worker is raised in place of its batch, with the same type and the worker's traceback as message,
    and iteration may continue after it. A worker that is killed is an error at once. Workers end with their iterator,
    and with the process, however it ends. With the default collate function, a batch of a ``TensorDataset`` (or a
    ``Subset`` of one) is a single indexing operation.

    Args:
        dataset: a map-style or iterable-style dataset, or anything with ``__getitem__`` and ``__len__``.
        batch_size: samples per batch; None disables batching.
        shuffle: use a new random order in every pass.
        sampler: an iterable of indices that determines the order, in place of ``shuffle``.
        batch_sampler: an iterable of lists of indices, in place of ``batch_size``, ``shuffle``, ``sampler`` and
            ``drop_last``.
        num_workers: the number of worker processes; 0 loads in this process.
        collate_fn: a function from a list of samples to a batch. Default: ``default_collate``, or ``default_convert``
            without batching.
        pin_memory: accepted and ignored; JAX stages transfers itself. See `prefetch_to_device`.
        drop_last: drop a smaller last batch.
        timeout: seconds to wait for a batch of a worker at most; 0 waits for ever.
        worker_init_fn: a function that is called in each new worker with its number.
        multiprocessing_context: "spawn" or "forkserver", or such a context of `multiprocessing`: workers are fresh
            processes with any. "fork" warns of that.
        generator: the generator of the order and the workers' seeds. Default: the default generator.
        prefetch_factor: batches per worker that are asked for ahead. Default: 2 with workers.
        persistent_workers: keep the workers, with their datasets and random states, from pass to pass.
        pin_memory_device: accepted and ignored.
        in_order: with False, batches of workers come as they are ready.

    Raises:
        ValueError: if options are mutually exclusive or out of range.
        TypeError: from iteration, if the dataset or a function cannot be sent to workers.
        RuntimeError: from iteration, if a worker has ended, or a batch has not come in time.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.utils.data import DataLoader, TensorDataset
        >>> for x, y in DataLoader(TensorDataset(torch.arange(3), torch.ones(3)), batch_size=2):
        ...     print(x, y)
        tensor([0, 1]) tensor([1., 1.])
        tensor([2]) tensor([1.])

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
    """

    dataset: Dataset[T]
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Sampler | Iterable
    pin_memory_device: str
    prefetch_factor: int | None
    _iterator: _BaseDataLoaderIter | None
    _initialized = False
    #: the position in the current pass, for checkpoints
    _position: Position | None = None

    def __init__(
        self,
        dataset: Dataset[T],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        iterable = isinstance(dataset, IterableDataset)
        if iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        _check_exclusive(batch_size, bool(shuffle), sampler, batch_sampler, drop_last)

        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self._dataset_kind = _DatasetKind.Iterable if iterable else _DatasetKind.Map

        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None:
            sampler = _default_sampler(dataset, iterable, bool(shuffle), generator)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._initialized = True
        self._IterableDataset_len_called: int | None = None
        if num_workers:
            _warn_of_many_workers(num_workers)
            prepare()  # it takes a second, which the program has other uses for
        self._iterator = None

    @property
    def multiprocessing_context(self) -> Any:
        """The multiprocessing context, which was checked: every worker is a fresh process."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        self._context = None if context is None else _checked_context(context, self.num_workers)

    def __setattr__(self, attr: str, val: Any) -> None:
        if self._initialized and attr in _FIXED:
            raise ValueError(
                f"{attr} attribute should not be set after {self.__class__.__name__} is initialized"
            )
        super().__setattr__(attr, val)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self) -> _BaseDataLoaderIter:
        return (
            _MultiProcessingDataLoaderIter(self) if self.num_workers else _SingleProcessDataLoaderIter(self)
        )

    def __iter__(self) -> _BaseDataLoaderIter:
        if self._position is not None:
            return self._position.begin()
        if not (self.persistent_workers and self.num_workers):
            return self._get_iterator()
        if self._iterator is None or not self._iterator._goes_on():
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)


def _check_workers(num_workers: int, timeout: float, prefetch: int | None, persistent: bool) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch is not None and prefetch < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


def _check_exclusive(
    batch_size: Any, shuffle: bool, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError(
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
        )
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )


def _checked_context(context: Any, num_workers: int) -> BaseContext:
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
            f"but got num_workers={num_workers}"
        )
    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods!r}, "
                f"but got multiprocessing_context={context!r}"
            )
        context = multiprocessing.get_context(context)
    elif not isinstance(context, BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the "
            f"start method, but got multiprocessing_context={context}"
        )
    if context.get_start_method(allow_none=True) == "fork":
        warnings.warn(
            "DataLoader(multiprocessing_context='fork'): JAX does not survive a fork, so workers are fresh processes; "
            "they get the dataset, but not what else is in this process",
            stacklevel=4,
        )
    return context


def _warn_of_many_workers(num_workers: int) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if num_workers > cores:
        warnings.warn(
            f"This DataLoader will create {num_workers} worker processes in total. Our suggested max number of worker "
            f"in current system is {cores}, which is smaller than what this DataLoader is going to create. Please be "
            "aware that excessive worker creation might get DataLoader running slow or even freeze, lower the worker "
            "number to avoid potential slowness/freeze if necessary.",
            stacklevel=3,
        )


def _default_sampler(dataset: Any, iterable: bool, shuffle: bool, generator: Generator | None) -> Sampler:
    if iterable:
        return _InfiniteConstantSampler()
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


# Iterators: one pass over a loader.


class _BaseDataLoaderIter:
    def __init__(self, loader: DataLoader) -> None:
        self._dataset = loader.dataset
        self._counted = loader._dataset_kind == _DatasetKind.Iterable
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        _warn_of_pinning(loader)
        self._reset(loader)
        self._base_seed = draw_seed(loader.generator)

    def _reset(self, loader: DataLoader) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = self._num_failed = 0
        #: batches that `prefetch_to_device` has not given out; None if it takes none, or has given out all
        self._num_ahead: int | None = None
        self._ended = False
        self._announced = loader._IterableDataset_len_called

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def _goes_on(self) -> bool:
        """Whether another pass may start with it."""
        return True

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        try:
            data = self._next_data()
        except StopIteration:
            self._ended = True
            raise
        except Exception:
            self._num_failed += 1
            raise
        self._num_yielded += 1
        if self._counted and self._announced is not None and self._num_yielded > self._announced:
            warnings.warn(self._too_many(), stacklevel=2)
        return data

    def _pass_over(self, count: int) -> None:
        """Skip the first batches of the pass; with indexed samples, nothing is loaded for them."""
        skip = self._next_data if self._counted or self._num_workers else self._next_index
        for done in range(count):
            try:
                skip()
            except StopIteration:
                raise RuntimeError(
                    f"the DataLoader has {done} batches, but {count} were done in the pass to resume: use the "
                    "dataset and the batch size of that run"
                ) from None
            except Exception:
                self._num_failed += 1  # the failure counts as a batch, as before
        self._num_yielded = count - self._num_failed

    def _too_many(self) -> str:
        text = (
            f"Length of IterableDataset {self._dataset} was reported to be {self._announced}"
            f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._num_workers:
            text += (
                "For multiprocessing data-loading, this could be caused by not properly configuring the "
                "IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
            )
        return text

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", self.__class__.__name__)


def _warn_of_pinning(loader: DataLoader) -> None:
    if not loader.pin_memory:
        return
    if loader.pin_memory_device:
        warnings.warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device,"
            f"ignore pin_memory_device='{loader.pin_memory_device}'.",
            stacklevel=4,
        )
    if jax.default_backend() == "cpu":
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found, "
            "then device pinned memory won't be used.",
            stacklevel=4,
        )


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        if loader.timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        kind = IterableFetcher if self._counted else MapFetcher
        self._fetcher = kind(loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last)

    def _next_data(self) -> Any:
        return self._fetcher.fetch(self._next_index())


class _Task:
    """A batch that a worker is to load.

    Attributes:
        worker: its position.
        result: ``[batch]`` once it has come; None before.
    """

    __slots__ = ("result", "worker")

    def __init__(self, worker: int) -> None:
        self.worker = worker
        self.result: list[Any] | None = None


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Iterates over the batches of worker processes, in the order of their indices."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        if not loader.prefetch_factor:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        self._prefetch_factor, self._in_order = loader.prefetch_factor, loader.in_order
        self._timeout, self._persistent_workers = loader.timeout, loader.persistent_workers
        self._broken: RuntimeError | None = None
        self._workers = self._start(loader)
        self._numbers = {worker.channel: number for number, worker in enumerate(self._workers)}
        self._end = weakref.finalize(self, _close, list(self._numbers))
        self._sampler_iter = iter(self._index_sampler)  # started twice, as in PyTorch
        self._begin()

    def _start(self, loader: DataLoader) -> list[Process]:
        """The worker processes."""
        parts = loader.dataset, loader.collate_fn, loader.worker_init_fn
        kind = IterableFetcher if self._counted else MapFetcher
        job = Job(kind, parts, loader._auto_collation, loader.drop_last, self._base_seed, loader.num_workers)
        with _parcel(job) as parcel:
            workers = start(loader.num_workers, parcel.modules)
            try:
                for worker in workers:
                    worker.channel.send(parcel)
            except BaseException:
                _close([worker.channel for worker in workers])
                raise
        return workers

    def _reset(self, loader: DataLoader) -> None:
        super()._reset(loader)
        if hasattr(self, "_workers"):
            for worker in range(self._num_workers):
                self._to(worker, Resume)
            self._resuming = len(self._workers)
            while self._resuming:  # until what was loaded ahead has come
                self._receive()
            self._begin()

    def _goes_on(self) -> bool:
        return self._broken is None

    def _begin(self) -> None:
        """Start a pass: ask for the first batches."""
        self._active = [True] * self._num_workers
        self._turn = self._sent = 0
        self._resuming = 0
        self._tasks: dict[int, _Task] = {}
        for _ in range(self._prefetch_factor * self._num_workers):
            self._put_task()

    def _put_task(self) -> None:
        try:
            index = self._next_index()
        except StopIteration:
            return
        worker = self._next_worker()
        if worker is None:
            return
        self._tasks[self._sent] = _Task(worker)
        self._to(worker, (self._sent, index))
        self._sent += 1

    def _next_worker(self) -> int | None:
        """The next one in turn; if the order of batches does not matter, one that has not too much to do."""
        for _ in self._workers:
            worker = self._turn
            self._turn = (self._turn + 1) % self._num_workers
            if self._active[worker] and (self._in_order or self._count(worker) < self._prefetch_factor):
                return worker
        return None

    def _count(self, worker: int) -> int:
        """How many batches a worker still has to load."""
        return sum(task.worker == worker and task.result is None for task in self._tasks.values())

    def _to(self, worker: int, message: Any) -> None:
        try:
            self._workers[worker].channel.send(message)
        except OSError:  # it has ended, which whoever waits for its batch will see
            pass
        except KeyboardInterrupt:
            self._break(RuntimeError(_HALF), raises=False)
            raise

    def _next_data(self) -> Any:
        while True:
            if self._broken is not None:
                raise RuntimeError(*self._broken.args) from self._broken.__cause__
            task = self._due()
            if task is None:
                if not self._persistent_workers:
                    self._end()
                raise StopIteration
            result = self._tasks.pop(task).result
            assert result is not None
            self._put_task()
            if isinstance(result[0], Failure):
                raise result[0].error()
            if result[0] is not Ended:
                return result[0]

    def _due(self) -> int | None:
        """The number of the task whose result is next; None if there are no more. It waits for the result."""
        while True:
            for number, task in list(self._tasks.items()):
                if task.result is not None:
                    return number
                if not self._active[task.worker]:
                    del self._tasks[number]  # its stream has ended
                elif self._in_order:
                    break
            if not self._tasks:
                return None
            self._receive()

    def _receive(self) -> None:
        """Wait for something to come from a worker, and take it."""
        ready: Any = connection.wait(self._numbers, self._timeout or None)  # type: ignore[arg-type]
        if not ready:
            self._break(RuntimeError(f"DataLoader timed out after {self._timeout} seconds"))
        for channel in ready:
            worker = self._numbers[channel]
            try:
                made = channel.receive_later()
            except (EOFError, OSError):
                self._break(self._workers[worker].error())
            except BaseException:  # Ctrl-C: the rest of the message would be taken for the next one
                self._break(RuntimeError(_HALF), raises=False)
                raise
            try:
                message = made()
            except BaseException as error:
                text = f"a batch of a worker could not be unpickled ({type(error).__name__})"
                self._break(RuntimeError(f"{text}: iterate over the DataLoader again"), raises=False)
                raise
            if message is Resume:
                self._resuming -= 1
                continue
            number, result = message
            if number in self._tasks:
                self._tasks[number].result = [result]
            if result is Ended:
                self._active[worker] = False

    def _break(self, error: RuntimeError, raises: bool = True) -> None:
        """End the workers; whoever asks for another batch gets the error."""
        self._broken = error
        self._end()
        if raises:
            raise error from error.__cause__


def _close(channels: list[Any]) -> None:
    """End the workers."""
    for channel in channels:
        channel.close()


def _parcel(job: Job) -> Parcel:
    try:
        return Parcel(job)
    except Exception as error:
        names = ("dataset", "collate_fn", "worker_init_fn")
        name = next((name for name, part in zip(names, job.parts) if not _is_sent(part)), "dataset")
        raise TypeError(
            f"DataLoader(num_workers={job.workers}): the {name} cannot be sent to worker processes: {error}. What "
            "cannot be copied (open files, generators, locks, connections) is made in each worker: in __getitem__, "
            "__iter__ or worker_init_fn. Or use num_workers=0, which loads in this process"
        ) from error


def _is_sent(part: Any) -> bool:
    try:
        Parcel(part).close()
    except Exception:
        return False
    return True
