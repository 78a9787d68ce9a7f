"""Samplers: the order in which a ``DataLoader`` visits a dataset."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import functorch_port as torch
from functorch_port._random.generator import Generator
from functorch_port._tensor.tensor import Tensor

__all__ = [
    "BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler",
]  # fmt: skip

T = TypeVar("T", covariant=True)


def draw_seed(generator: Generator | None = None) -> int:
    """Draw one int64, with which samplers and loader iterators seed their own generators."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def _require_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


def _require_bool(name: str, value: Any, error: type[Exception]) -> None:
    if not isinstance(value, bool):
        raise error(f"{name} should be a boolean value, but got {name}={value}")


class Sampler(Generic[T]):
    """Base class: ``__iter__`` yields indices (or lists of indices); ``__len__`` is optional.

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.Sampler
    """

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ... up to the length of the data.

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.SequentialSampler
    """

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Random indices, without or with replacement, in PyTorch's order for a given seed.

    Without ``generator``, every pass creates a generator and seeds it with one draw from the default generator.

    Args:
        data_source: the data; it must have a length.
        replacement: draw with replacement.
        num_samples: number of draws; default: the length of the data.
        generator: the generator.

    Raises:
        TypeError: if ``replacement`` is not a bool.
        ValueError: if ``num_samples`` is not a positive int.

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.RandomSampler
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        _require_bool("replacement", replacement, TypeError)
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """The number of draws in one pass; by default the current length of the data."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        generator = self.generator
        if generator is None:
            generator = Generator()
            generator.manual_seed(draw_seed())
        draws = self._with_replacement if self.replacement else self._permutations
        yield from draws(len(self.data_source), generator)

    def _with_replacement(self, n: int, generator: Generator) -> Iterator[int]:
        whole, rest = divmod(self.num_samples, 32)  # PyTorch draws 32 at a time
        for size in [32] * whole + [rest]:
            yield from torch.randint(n, (size,), dtype=torch.int64, generator=generator).tolist()

    def _permutations(self, n: int, generator: Generator) -> Iterator[int]:
        whole, rest = divmod(self.num_samples, n)
        for count in [n] * whole + [rest]:  # the last permutation is drawn even if none of it is used
            yield from torch.randperm(n, generator=generator).tolist()[:count]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in a random order.

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.SubsetRandomSampler
    """

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in torch.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with the given weights, which need not sum to one.

    Args:
        weights: one non-negative weight per index.
        num_samples: number of draws.
        replacement: draw with replacement.
        generator: the generator.

    Raises:
        ValueError: if ``num_samples`` is not a positive int, ``replacement`` not a bool, or ``weights`` not 1-D.

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.WeightedRandomSampler
    """

    weights: Tensor
    num_samples: int
    replacement: bool

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        _require_count("num_samples", num_samples)
        _require_bool("replacement", replacement, ValueError)
        self.weights = torch.as_tensor(weights, dtype=torch.float64)
        if self.weights.dim() != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        draws = torch.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from draws.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Group the indices of another sampler into lists of ``batch_size``.

    Args:
        sampler: any iterable of indices.
        batch_size: number of indices per list.
        drop_last: drop a shorter last list.

    Raises:
        ValueError: if ``batch_size`` is not a positive int or ``drop_last`` is not a bool.

    Example:
        >>> from functorch_port.utils.data import BatchSampler
        >>> list(BatchSampler(range(5), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]

    Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.BatchSampler
    """

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        _require_count("batch_size", batch_size)
        _require_bool("drop_last", drop_last, ValueError)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
