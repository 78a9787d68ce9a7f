"""Optimizers whose state is split over devices: ``torch.distributed.optim``."""

from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
