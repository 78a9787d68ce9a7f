"""Hooks for `DistributedDataParallel.register_comm_hook`: of these `allreduce_hook` is what happens anyway.

A hook is given the gradients of one process before they are added up. There are none: the model computes with the
batches of all, and XLA adds a gradient up inside of the product that makes it, in the product's dtype.

Reference: https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html
"""

from __future__ import annotations

from typing import Any

from ...._base.refused import refused_function

__all__ = [
    "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook", "fp16_compress_wrapper",
]  # fmt: skip

WHY = (
    "XLA adds up gradients inside of the products that make them, so there is nothing to compress between the two. For "
    "less communication compute in torch.autocast(dtype=torch.bfloat16), or have a model of your own in each process: "
    "functorch_port.horovod.DistributedOptimizer(optimizer, compression=Compression.fp16)"
)


def allreduce_hook(process_group: Any, bucket: Any) -> Any:
    """The mean of the gradients of all processes: register it, which changes nothing.

    Raises:
        NotImplementedError: it is called.
    """
    raise NotImplementedError("allreduce_hook is only to be registered: XLA adds up the gradients")


fp16_compress_hook, bf16_compress_hook, fp16_compress_wrapper, bf16_compress_wrapper = (
    refused_function(f"torch.distributed.algorithms.ddp_comm_hooks.default_hooks.{name}", WHY)
    for name in ("fp16_compress_hook", "bf16_compress_hook", "fp16_compress_wrapper", "bf16_compress_wrapper")
)
