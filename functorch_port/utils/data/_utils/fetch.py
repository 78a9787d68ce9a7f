"""From the indices of a batch to the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functorch_port._tensor.tensor import Tensor
from functorch_port.utils.data._arrays import taken
from functorch_port.utils.data._utils import collate
from functorch_port.utils.data.dataset import Subset, TensorDataset

__all__ = ["Fetcher", "IterableFetcher", "MapFetcher"]


class Fetcher:
    """Gets batches of a dataset.

    Args:
        dataset: the dataset.
        batched: whether an index is a list of indices.
        collate_fn: makes a batch of samples.
        drop_last: whether a smaller last batch of an iterable dataset is dropped.
    """

    def __init__(self, dataset: Any, batched: bool, collate_fn: Callable, drop_last: bool) -> None:
        self.dataset, self.batched, self.collate_fn, self.drop_last = dataset, batched, collate_fn, drop_last

    def fetch(self, index: Any) -> Any:
        """The batch.

        Raises:
            StopIteration: an iterable dataset has ended.
        """
        raise NotImplementedError


class MapFetcher(Fetcher):
    """Of a dataset with indices."""

    def fetch(self, index: Any) -> Any:
        if not self.batched:
            return self.collate_fn(self.dataset[index])
        if self.collate_fn is collate.default_collate:
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
    if collate.default_collate_fn_map.get(Tensor) is not collate.collate_tensor_fn:
        return None
    rows = np.array(indices, dtype=np.int64)
    try:
        batch = [taken(tensor, rows) for tensor in dataset.tensors]
    except IndexError:
        return None  # indexing sample by sample raises PyTorch's error
    found = [tensor for tensor in batch if tensor is not None]
    return found if rows.size and len(found) == len(batch) else None


class IterableFetcher(Fetcher):
    """Of a dataset that is a stream."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.samples = iter(self.dataset)
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
