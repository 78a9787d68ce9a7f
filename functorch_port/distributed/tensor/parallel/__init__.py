"""Modules split over a dimension of a mesh: ``torch.distributed.tensor.parallel``.

A style puts the parameters of a module on the mesh, and says by hooks how its inputs and outputs lie there. Every
tensor is the whole one; XLA computes the parts and communicates.
"""

from .api import parallelize_module
from .loss import loss_parallel
from .style import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput",
    "RowwiseParallel", "SequenceParallel", "loss_parallel", "parallelize_module",
]  # fmt: skip
