"""Processes with different numbers of batches.

Reference: https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html
"""

from functorch_port.nn.parallel._join import Join as Join
from functorch_port.nn.parallel._join import Joinable as Joinable
from functorch_port.nn.parallel._join import JoinHook as JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
