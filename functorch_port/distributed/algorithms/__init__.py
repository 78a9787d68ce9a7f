"""Algorithms of distributed training: ``torch.distributed.algorithms``."""

from .join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
