"""Batch normalization over the whole batch of a sharded array."""

from __future__ import annotations

from typing import Any

from ..._tensor.tensor import Tensor
from ..module import Module
from .batchnorm import _BatchNorm

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(_BatchNorm):
    """Batch normalization of inputs of any dimension, like PyTorch's without a process group.

    For an array that is sharded over devices, the statistics are those of the whole batch.

    Args:
        num_features: number of channels.
        eps: added to the variance.
        momentum: weight of a batch in the running statistics; None averages over all batches.
        affine: whether to scale and shift.
        track_running_stats: False always uses the statistics of the batch.
        process_group: accepted and ignored.
        bias: whether to shift, with `affine`.
        device, dtype: of parameters and buffers.

    Shape:
        (N, C, ...).

    Example:
        >>> import functorch_port as torch
        >>> net = torch.nn.Sequential(torch.nn.BatchNorm2d(3))
        >>> torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)[0]
        SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Replace every BatchNorm in a module with a SyncBatchNorm that has its parameters and buffers.

        Args:
            module: the module; changed in place, or replaced if it is a BatchNorm itself.
            process_group: accepted and ignored.
        """
        out: Any = module
        if isinstance(module, _BatchNorm):
            old: Any = module
            out = cls(
                old.num_features,
                old.eps,
                old.momentum,
                old.affine,
                old.track_running_stats,
                process_group,
                bias=old.bias is not None,
            )
            out._parameters.update(old._parameters)
            out._buffers.update(old._buffers)
            out.training = old.training
        for name, child in module.named_children():
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return out
