"""Functions on parts of tensors, and attention of long sequences: ``torch.distributed.tensor.experimental``."""

from collections.abc import Iterator
from contextlib import contextmanager

from ._attention import context_parallel
from ._func_map import local_map

__all__ = ["context_parallel", "implicit_replication", "local_map"]


@contextmanager
def implicit_replication() -> Iterator[None]:
    """``with implicit_replication():`` tensors that are on no mesh join those on one. Here they always do.

    Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.html
    """
    yield
