"""What the calling thread computes in another way for a while; a compiled function has a program for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax

from .modes import OfThread

__all__ = ["state"]


class _State(OfThread):
    """
    Attributes:
        attention: what takes the place of `scaled_dot_product_attention`: a callable that compares by value.
        parts: of a batch that devices have a part of each, as under `parallel.DistributedDataParallel`: batch
            normalization has the statistics of each part.
        split: the mesh over which a batch is split along dimension 0, and the axes; None where nobody has said.
        joined: whether the batch is that of several processes, whose rows were joined along dimension 0.
        around: gives a context manager for what runs now, in which `checkpoint` runs a part of it again.
        platform: the device type that traces are for, if that is not where their tensors are.
    """

    attention: Any = None
    parts = 1
    split: tuple[Any, tuple[str, ...]] | None = None
    joined = False
    around: Callable[[], Any] | None = None
    platform: str | None = None

    def check_batch_first(self, name: str, sequences: Any) -> None:
        """Refuse sequences of shape (T, N, E) that were joined along T.

        Raises:
            NotImplementedError: they were, or a trace cannot tell.
        """
        shape, value = sequences.shape, sequences._look()
        if not self.joined or len(shape) != 3:
            return
        if isinstance(value, jax.core.Tracer):
            raise NotImplementedError(
                f"{name}(batch_first=False) of fully sharded parameters in several processes, in a compiled function, "
                "which cannot tell whether dimension 0 is the sequence: have batch_first=True"
            )
        part = value.sharding.shard_shape(shape)
        if part[0] < shape[0] and part[1] == shape[1]:
            raise NotImplementedError(
                f"{name}(batch_first=False) of fully sharded parameters in several processes: the batches of all were "
                "joined along dimension 0, which is the sequence here. Give the model its batch first, and let it "
                "call transpose(0, 1)"
            )

    @contextmanager
    def having(self, **values: Any) -> Iterator[None]:
        """Other values for a block."""
        before = {name: getattr(self, name) for name in values}
        try:
            self.__dict__.update(values)
            yield
        finally:
            self.__dict__.update(before)


state = _State()
