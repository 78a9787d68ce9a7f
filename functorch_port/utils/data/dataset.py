"""Datasets: map-style, iterable-style, and functions to combine and split them."""

from __future__ import annotations

import bisect
import itertools
import math
import operator
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import functorch_port as torch
from functorch_port._random.generator import Generator, default_generator
from functorch_port._tensor.tensor import Tensor

__all__ = [
    "ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset", "TensorDataset",
    "random_split",
]  # fmt: skip

T = TypeVar("T", covariant=True)


class Dataset(Generic[T]):
    """A map from keys (usually indices) to samples; subclasses define ``__getitem__`` and usually ``__len__``.

    A subclass may also define ``__getitems__(indices) -> list of samples`` to load a whole batch at once.

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.Dataset
    """

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[T]) -> ConcatDataset[T]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T], Iterable[T]):
    """A stream of samples; subclasses define ``__iter__``.

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset
    """

    def __add__(self, other: Dataset[T]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """A dataset whose samples are the rows of one or several tensors.

    ``DataLoader`` with the default collate function loads a whole batch with one indexing operation.

    Args:
        tensors: tensors with the same ``size(0)``.

    Raises:
        AssertionError: if the first dimensions differ.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.utils.data import TensorDataset
        >>> TensorDataset(torch.arange(4), torch.zeros(4, 2))[1]
        (tensor(1), tensor([0., 0.]))

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.TensorDataset
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if len({tensor.size(0) for tensor in tensors}) > 1:
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


def _items(dataset: Any, indices: list) -> list:
    """The samples at ``indices``, with ``__getitems__`` if the dataset has it."""
    batched = getattr(dataset, "__getitems__", None)
    if not callable(batched):
        return [dataset[index] for index in indices]
    return batched(indices)


class StackDataset(Dataset):
    """Datasets of the same length, zipped: samples are tuples, or dicts for keyword arguments.

    Raises:
        ValueError: if there is no dataset, both positional and keyword datasets, or the lengths differ.

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.StackDataset
    """

    datasets: tuple | dict

    def __init__(self, *args: Dataset, **kwargs: Dataset) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or"
                "``dict``- (via ``kwargs``) like input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        lengths = [len(dataset) for dataset in self._members()]
        if len(set(lengths)) > 1:
            raise ValueError("Size mismatch between datasets")
        self._length = lengths[0]

    def _members(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _assemble(self, parts: Iterable[Any]) -> Any:
        return dict(zip(self.datasets, parts)) if isinstance(self.datasets, dict) else tuple(parts)

    def __getitem__(self, index: Any) -> Any:
        return self._assemble([dataset[index] for dataset in self._members()])

    def __getitems__(self, indices: list) -> list:
        columns = [_items(dataset, indices) for dataset in self._members()]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(
                    f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)}"
                )
        return [self._assemble(row) for row in zip(*columns)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T]):
    """The concatenation of map-style datasets.

    Raises:
        AssertionError: if there is no dataset, or one of them is an ``IterableDataset``.

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.ConcatDataset
    """

    datasets: list[Dataset[T]]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        super().__init__()
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Sequence) -> list[int]:
        """The cumulative sums of the lengths."""
        return list(itertools.accumulate(len(member) for member in sequence))

    @property
    def cummulative_sizes(self) -> list[int]:
        """Deprecated name of ``cumulative_sizes``."""
        warnings.warn(
            "`cummulative_sizes` attribute is renamed to `cumulative_sizes`", DeprecationWarning, stacklevel=2
        )
        return self.cumulative_sizes

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> T:
        if idx < 0:
            idx += len(self)
            if idx < 0:
                raise ValueError("absolute value of index should not exceed dataset length")
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        start = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][idx - start]


class ChainDataset(IterableDataset):
    """The concatenation of iterable-style datasets.

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.ChainDataset
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        super().__init__()
        self.datasets = datasets

    def _streams(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator:
        return itertools.chain.from_iterable(self._streams())

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._streams())


class Subset(Dataset[T]):
    """The samples of ``dataset`` at ``indices``.

    A subclass that overrides ``__getitem__`` must override ``__getitems__`` too, which loaders call.

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.Subset
    """

    dataset: Dataset[T]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[T], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        cls = type(self)
        if cls.__getitem__ is not Subset.__getitem__ and cls.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{cls.__name__} overrides __getitem__ but not __getitems__. "
                "When subclassing Subset and overriding __getitem__, you must also override "
                "__getitems__ to ensure DataLoader works correctly with your custom logic. "
                "A simple implementation:\n\n"
                "def __getitems__(self, indices):\n"
                "    return [self.__getitem__(idx) for idx in indices]"
            )

    def __getitem__(self, idx: Any) -> T:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[T]:
        return _items(self.dataset, [self.indices[index] for index in indices])

    def __len__(self) -> int:
        return len(self.indices)


def _size(dataset: Any) -> int:
    return len(dataset)


def _lengths_of_fractions(fractions: Sequence[float], total: int) -> list[int]:
    """The lengths rounded down, with the remainder distributed one by one from the first on."""
    for i, fraction in enumerate(fractions):
        if fraction < 0 or fraction > 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    lengths = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(lengths)):
        lengths[i % len(lengths)] += 1
    return lengths


def random_split(
    dataset: Dataset[T],
    lengths: Sequence[int | float],
    generator: Generator | None = default_generator,
) -> list[Subset[T]]:
    """Split a dataset randomly into disjoint subsets.

    Args:
        dataset: the dataset; it must have a length.
        lengths: sizes that sum to ``len(dataset)``, or fractions that sum to 1.
        generator: the generator of the permutation.

    Raises:
        ValueError: if the sizes do not sum to ``len(dataset)``, or a fraction is outside [0, 1].

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.utils.data import random_split
        >>> [len(part) for part in random_split(range(10), [0.7, 0.3], torch.Generator().manual_seed(0))]
        [7, 3]

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.random_split
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _lengths_of_fractions(lengths, _size(dataset))
        for i, length in enumerate(lengths):
            if length == 0:
                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2
                )
    if sum(lengths) != _size(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    total: Any = sum(lengths)
    order = torch.randperm(operator.index(total), generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, order[end - length : end]) for end, length in zip(ends, lengths, strict=True)]  # type: ignore
