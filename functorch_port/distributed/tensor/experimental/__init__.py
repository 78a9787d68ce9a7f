"""Functions on parts of tensors, and attention of long sequences: ``torch.distributed.tensor.experimental``."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._attention import context_parallel
from ._func_map import local_map

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]


@contextmanager
def implicit_replication() -> Iterator[None]:
    """``with implicit_replication():`` tensors that are on no mesh join those on one. Here they always do.

    Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.html
    """
    yield


def register_sharding(op: Any) -> Any:
    """Not supported: XLA finds by itself how an operation is computed in parts.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"register_sharding({op}): XLA finds by itself how an operation is computed in parts. For another way, compute "
        "on the parts by local_map"
    )
