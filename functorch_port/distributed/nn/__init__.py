"""``torch.distributed.nn``: collectives that autograd differentiates."""

from . import functional
from .functional import all_gather, all_reduce, all_to_all_single, broadcast, reduce_scatter

__all__ = ["all_gather", "all_reduce", "all_to_all_single", "broadcast", "functional", "reduce_scatter"]
