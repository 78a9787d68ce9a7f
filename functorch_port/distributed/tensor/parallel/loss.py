"""`loss_parallel`: the loss of logits that are split over the classes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["loss_parallel"]


@contextmanager
def loss_parallel() -> Iterator[None]:
    """``with loss_parallel():`` `cross_entropy` takes logits that are split over the classes.

    Here it does so without this context too: a tensor on a mesh is the whole one, and XLA computes the loss from the
    parts. The logits are never gathered; maxima and sums of the rows are exchanged.

    Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html#torch.distributed.tensor.parallel.loss_parallel
    """
    yield
