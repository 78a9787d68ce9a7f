"""Collectives that give new tensors, and whose backward pass is a collective: all processes must run it."""

from __future__ import annotations

from typing import Any

import functorch_port as torch
from functorch_port._tensor.tensor import Tensor
from functorch_port.autograd import Function

from .. import distributed_c10d as c10d
from .._reduce_op import ReduceOp

__all__ = ["all_gather", "all_reduce", "all_to_all_single", "broadcast", "reduce_scatter"]


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, tensor: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        result = tensor.clone()
        c10d.all_reduce(result, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The reduction of the tensors of all processes. The gradient is reduced by ``op``, too, as in PyTorch."""
    return _AllReduce.apply(op, group, tensor)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        result = tensor.clone()
        c10d.broadcast(result, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        total = _AllReduce.apply(ReduceOp.SUM, ctx.group, grad)
        return None, None, total if c10d.get_rank() == ctx.src else torch.zeros_like(total)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of ``src``, whose gradient is the sum of those of all processes."""
    return _Broadcast.apply(src, group, tensor)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.group = group
        parts = [torch.empty_like(tensor) for _ in range(c10d.get_world_size(group))]
        c10d.all_gather(parts, tensor.contiguous(), group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, _ReduceScatter.apply(ReduceOp.SUM, ctx.group, *grads)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes; the gradient of each is summed in the process that it came from."""
    return _AllGather.apply(group, tensor)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, *tensors: Tensor) -> Tensor:
        ctx.group = group
        result = torch.empty_like(tensors[0])
        c10d.reduce_scatter(result, [*tensors], op, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, *_AllGather.apply(ctx.group, grad)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """The reduction of this process's elements of the lists of all; ``output`` gives the shape."""
    return _ReduceScatter.apply(op, group, *input_list)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, output: Tensor, received: Any, sent: Any, tensor: Tensor) -> Tensor:
        ctx.group, ctx.received, ctx.sent, ctx.shape = group, received, sent, tensor.shape
        result = torch.empty_like(output)
        c10d.all_to_all_single(result, tensor.contiguous(), received, sent, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        like = torch.empty(ctx.shape, dtype=grad.dtype)
        return None, None, None, None, _AllToAllSingle.apply(ctx.group, like, ctx.sent, ctx.received, grad)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
) -> Tensor:
    """The parts that the processes send to this one; ``output`` gives the shape."""
    return _AllToAllSingle.apply(group, output, output_split_sizes, input_split_sizes, input)
