"""`prefetch_to_device`: batches are on their way to the device before they are asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from functorch_port._tensor.tensor import Tensor
from functorch_port.utils._pytree import tree_map_only

__all__ = ["prefetch_to_device"]


class prefetch_to_device:
    """Iterates over the batches of a loader, of which the next ones are moved to the device ahead.

    Transfers run beside the program. So the device need not wait for a batch, if the loader's workers are fast enough.
    The position of the loader (`utils.resume`) counts the batches that were given out, not those taken ahead.

    Args:
        loader: a `DataLoader`, or any iterable of batches: tensors in tuples, lists and dicts, and others, which stay.
        size: how many batches are taken ahead. Each takes memory on the device.
        device: where tensors go; None for JAX's default device. Or a function of a tensor, such as one that shards it.

    Raises:
        ValueError: ``size`` is below 1.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.utils.data import DataLoader, prefetch_to_device
        >>> loader = DataLoader(torch.arange(5), batch_size=2)
        >>> [batch.tolist() for batch in prefetch_to_device(loader, 2)]
        [[0, 1], [2, 3], [4]]
        >>> len(prefetch_to_device(loader))
        3

    Reference: https://flax.readthedocs.io/en/latest/api_reference/flax.jax_utils.html
    """

    def __init__(self, loader: Iterable[Any], size: int = 2, device: Any = None) -> None:
        if size < 1:
            raise ValueError(f"prefetch_to_device: size must be at least 1, but got {size}")
        self.loader, self.size, self.device = loader, size, device

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        batches, ahead = iter(self.loader), deque[tuple[Any, Exception | None]]()
        move, over = self._mover(), False
        while True:
            while not over and len(ahead) <= self.size:
                try:
                    ahead.append((tree_map_only(Tensor, move, next(batches)), None))
                except StopIteration:
                    over = True
                except Exception as error:  # in place of its batch, after those before it
                    ahead.append((None, error))
                    over = True
            _note(batches, len(ahead) - 1 if ahead else None)
            if not ahead:
                return
            batch, failure = ahead.popleft()
            if failure is not None:
                raise failure
            yield batch

    def _mover(self) -> Callable[[Tensor], Tensor]:
        if callable(self.device):
            return self.device
        if self.device is None:
            return lambda tensor: tensor
        return lambda tensor: tensor.to(self.device, non_blocking=True)  # type: ignore[attr-defined]


def _note(batches: Any, count: int | None) -> None:
    """Tell the iterator of a `DataLoader` how many of its batches have not been given out; None after the last."""
    if hasattr(batches, "_num_ahead"):
        batches._num_ahead = count
