"""`DataLoader`: loads batches of a dataset in one process, in PyTorch's order for a given seed."""

from __future__ import annotations

import functools
import multiprocessing
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

import jax
import numpy as np

from functorch_port._random.generator import Generator
from functorch_port._tensor.tensor import Tensor
from functorch_port.utils.data._arrays import taken
from functorch_port.utils.data._copies import copies
from functorch_port.utils.data._position import Position
from functorch_port.utils.data._utils import collate as _collate
from functorch_port.utils.data._utils.collate import default_collate as default_collate
from functorch_port.utils.data._utils.collate import default_convert as default_convert
from functorch_port.utils.data._utils.worker import ENDED, Failure, Worker, WorkerInfo
from functorch_port.utils.data._utils.worker import get_worker_info as get_worker_info
from functorch_port.utils.data.dataset import Dataset, IterableDataset, Subset, TensorDataset
from functorch_port.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    draw_seed,
)

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

T = TypeVar("T", covariant=True)

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
_told_about_workers = False


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

    All batches are loaded in the calling process. With ``num_workers > 0`` the workers take turns in this process, as a
    warning says once. Each worker has its own seed and its own copies of the dataset, ``collate_fn`` and
    ``worker_init_fn``, so that augmentation and stateful datasets give PyTorch's batches. Attributes of modules and
    classes, and variables of closures, are not copied. A worker sets the random states of the process while it works,
    so other threads should not draw from the default generators at that time.

    An exception in a worker is raised in place of its batch, with the same type and the worker's traceback as message.
    Iteration may continue after it. With the default collate function, a batch of a ``TensorDataset`` (or a ``Subset``
    of one) is a single indexing operation.

    Args:
        dataset: a map-style or iterable-style dataset, or anything with ``__getitem__`` and ``__len__``.
        batch_size: samples per batch; None disables batching.
        shuffle: use a new random order in every pass.
        sampler: an iterable of indices that determines the order, in place of ``shuffle``.
        batch_sampler: an iterable of lists of indices, in place of ``batch_size``, ``shuffle``, ``sampler`` and
            ``drop_last``.
        num_workers: the number of workers; see above.
        collate_fn: a function from a list of samples to a batch. Default: ``default_collate``, or ``default_convert``
            without batching.
        pin_memory: accepted and ignored; JAX stages transfers itself.
        drop_last: drop a smaller last batch.
        timeout: ignored with workers, as none is waited for; must be 0 without workers.
        worker_init_fn: a function that is called in each new worker with its number.
        multiprocessing_context: checked and ignored.
        generator: the generator of the order and the workers' seeds. Default: the default generator.
        prefetch_factor: the number of batches per worker whose indices are drawn ahead. Default: 2 with workers.
        persistent_workers: keep the workers, with their datasets and random states, from pass to pass.
        pin_memory_device, in_order: accepted and ignored.

    Raises:
        ValueError: if options are mutually exclusive or out of range.
        NotImplementedError: with workers, if the dataset holds a generator, which cannot be copied.

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
        self._iterator = None

    @property
    def multiprocessing_context(self) -> Any:
        """The multiprocessing context; not used, as there are no worker processes."""
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
        return _WorkersIter(self) if self.num_workers else _SingleProcessDataLoaderIter(self)

    def __iter__(self) -> _BaseDataLoaderIter:
        if self._position is not None:
            return self._position.begin()
        if not (self.persistent_workers and self.num_workers):
            return self._get_iterator()
        if self._iterator is None:
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
        return multiprocessing.get_context(context)
    if not isinstance(context, BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the "
            f"start method, but got multiprocessing_context={context}"
        )
    return context


def _default_sampler(dataset: Any, iterable: bool, shuffle: bool, generator: Generator | None) -> Sampler:
    if iterable:
        return _InfiniteConstantSampler()
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


# Fetchers: from the indices of a batch to the batch.


class _MapFetcher:
    def __init__(self, dataset: Any, batched: bool, collate_fn: Callable, drop_last: bool) -> None:
        self.dataset = dataset
        self.batched = batched
        self.collate_fn = collate_fn

    def fetch(self, index: Any) -> Any:
        if not self.batched:
            return self.collate_fn(self.dataset[index])
        if self.collate_fn is default_collate:
            batch = _tensor_batch(self.dataset, index)
            if batch is not None:
                return batch
        items = getattr(self.dataset, "__getitems__", None)
        return self.collate_fn(items(index) if items else [self.dataset[i] for i in index])


def _is_index(kind: type) -> bool:
    return kind is not bool and issubclass(kind, int | np.integer)


def _tensor_batch(dataset: Any, indices: Any) -> list[Tensor] | None:
    """The collated batch of a ``TensorDataset`` with one indexing per tensor; None for other datasets."""
    while type(dataset) is Subset:
        try:
            indices = [dataset.indices[i] for i in indices]
        except (TypeError, LookupError):
            return None
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset or not all(map(_is_index, set(map(type, indices)))):
        return None
    if _collate.default_collate_fn_map.get(Tensor) is not _collate.collate_tensor_fn:
        return None
    rows = np.array(indices, dtype=np.int64)
    try:
        batch = [taken(tensor, rows) for tensor in dataset.tensors]
    except IndexError:
        return None  # indexing sample by sample raises PyTorch's error
    found = [tensor for tensor in batch if tensor is not None]
    return found if rows.size and len(found) == len(batch) else None


class _IterableFetcher:
    def __init__(self, dataset: Any, batched: bool, collate_fn: Callable, drop_last: bool) -> None:
        self.samples = iter(dataset)
        self.batched = batched
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.ended = False

    def fetch(self, index: Any) -> Any:
        if self.ended:
            raise StopIteration
        if not self.batched:
            return self.collate_fn(next(self.samples))
        batch = [sample for _, sample in zip(index, self.samples)]
        self.ended = len(batch) < len(index)
        if not batch or (self.drop_last and self.ended):
            raise StopIteration
        return self.collate_fn(batch)


def _fetcher(loader: DataLoader, dataset: Any, collate_fn: Callable) -> _MapFetcher | _IterableFetcher:
    kind = _IterableFetcher if loader._dataset_kind == _DatasetKind.Iterable else _MapFetcher
    return kind(dataset, loader._auto_collation, collate_fn, loader.drop_last)


# Iterators: one pass over a loader.


class _BaseDataLoaderIter:
    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
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
        self._ended = False
        self._announced = loader._IterableDataset_len_called

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

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
        self._fetcher = _fetcher(loader, loader.dataset, loader.collate_fn)

    def _next_data(self) -> Any:
        return self._fetcher.fetch(self._next_index())


class _WorkersIter(_BaseDataLoaderIter):
    """Iterates over the batches of the workers in PyTorch's order; each is loaded on demand."""

    def __init__(self, loader: DataLoader) -> None:
        _tell_about_workers()
        super().__init__(loader)
        if not loader.prefetch_factor:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        self._prefetch = loader.prefetch_factor * loader.num_workers
        parts = copies((loader.dataset, loader.collate_fn, loader.worker_init_fn), loader.num_workers)
        self._workers = [self._start(loader, number, *own) for number, own in enumerate(parts)]
        self._sampler_iter = iter(self._index_sampler)  # started twice, as in PyTorch
        self._begin()

    def _start(self, loader: DataLoader, number: int, dataset: Any, collate_fn: Any, init_fn: Any) -> Worker:
        info = WorkerInfo(number, loader.num_workers, self._base_seed + number, dataset)
        fetcher = functools.partial(_fetcher, loader, dataset, collate_fn)
        return Worker(info, self._base_seed, init_fn, fetcher, self._counted)

    def _reset(self, loader: DataLoader) -> None:
        super()._reset(loader)
        if hasattr(self, "_workers"):
            while self._tasks:  # a worker process would have done them
                self._do_task()
            for worker in self._workers:
                worker.begin()
            self._begin()

    def _begin(self) -> None:
        """Start a pass: draw the indices of the first batches."""
        self._turn = 0
        self._tasks: deque[tuple[Worker, Any]] = deque()
        for _ in range(self._prefetch):
            self._put_task()

    def _put_task(self) -> None:
        try:
            index = self._next_index()
        except StopIteration:
            return
        for _ in self._workers:
            worker = self._workers[self._turn]
            self._turn = (self._turn + 1) % len(self._workers)
            if worker.active:
                self._tasks.append((worker, index))
                return

    def _do_task(self) -> Any:
        """Run the next task and return its batch; an interrupted task stays the next one."""
        worker, index = self._tasks[0]
        data = worker.fetch(index)
        self._tasks.popleft()
        if data is ENDED:
            self._tasks = deque(task for task in self._tasks if task[0].active)
        return data

    def _next_data(self) -> Any:
        while self._tasks:
            data = self._do_task()
            self._put_task()
            if isinstance(data, Failure):
                raise data.error()
            if data is not ENDED:
                return data
        raise StopIteration


def _tell_about_workers() -> None:
    global _told_about_workers
    if not _told_about_workers:
        _told_about_workers = True
        warnings.warn(
            "DataLoader(num_workers > 0): functorch_port starts no worker processes (JAX does not survive a "
            "fork); the workers' batches are loaded in this process, in the same order and with the same "
            "random numbers. Use num_workers=0 to silence this.",
            stacklevel=5,
        )
