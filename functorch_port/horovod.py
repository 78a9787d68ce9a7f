"""Horovod's names over the process groups of ``torch.distributed`` (``import horovod.torch as hvd``).

A process has a model and gradients of its own. `DistributedOptimizer` averages the gradients over the processes at its
step, in one all-reduce for each dtype.

Reference: https://horovod.readthedocs.io/en/stable/api.html#module-horovod.torch
"""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, NoReturn

from . import cat, no_grad, zeros_like
from ._tensor.tensor import Tensor
from .autograd import Function
from .distributed import distributed_c10d as c10d
from .distributed._store import DistError as HorovodInternalError
from .distributed._store import HashStore
from .optim import LBFGS, Optimizer

__all__ = [
    "Adasum", "Average", "Compression", "DistributedOptimizer", "HorovodInternalError", "Max", "Min", "Product", "Sum",
    "allgather", "allgather_async", "allgather_object", "allreduce", "allreduce_", "allreduce_async",
    "allreduce_async_", "alltoall", "alltoall_async", "barrier", "broadcast", "broadcast_", "broadcast_async",
    "broadcast_async_", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters", "cross_rank",
    "cross_size", "global_process_set", "grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async",
    "grouped_allreduce_async_", "init", "is_initialized", "join", "local_rank", "local_size", "poll", "rank",
    "reducescatter", "reducescatter_async", "shutdown", "size", "synchronize",
]  # fmt: skip


class _Op(Enum):
    """A reduction. Its value is the name in ``torch.distributed``."""

    AVERAGE, SUM, ADASUM, MIN, MAX, PRODUCT = "AVG", "SUM", "ADASUM", "MIN", "MAX", "PRODUCT"


Average, Sum, Adasum, Min, Max, Product = _Op
#: all processes, the only set that there is
global_process_set = None


def __getattr__(name: str) -> Any:
    ways = {
        "SyncBatchNorm": "use torch.nn.parallel.DistributedDataParallel with torch.nn.SyncBatchNorm",
        "ProcessSet": "use torch.distributed.new_group and its collectives",
        "add_process_set": "use torch.distributed.new_group and its collectives",
        "elastic": "start the job by functorch-port launch --max-restarts, and load the last checkpoint",
        "sparse_allreduce_async": "reduce tensor.to_dense()",
    }
    if name in ways:
        raise NotImplementedError(f"horovod.torch.{name} is not supported: {ways[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# ------------------------------------------------------------------------------------------------ processes

#: of each rank: on which machine it is
_machines: list[Any] = []


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Connect the processes of the job (`torch.distributed.init_process_group`). Without a launcher there is one.

    Raises:
        NotImplementedError: for a communicator or process sets.
    """
    if comm is not None or process_sets is not None:
        _refuse("init(comm=, process_sets=)", "use torch.distributed.new_group")
    if not c10d.is_initialized():
        try:
            c10d.init_process_group()
        except ValueError:
            if "RANK" in os.environ:
                raise
            c10d.init_process_group(rank=0, world_size=1, store=HashStore())
    _machines[:] = allgather_object(os.environ.get("GROUP_RANK", socket.gethostname()))


def shutdown() -> None:
    """Forget the group. The processes stay connected until they end."""
    _machines.clear()
    if c10d.is_initialized():
        c10d.destroy_process_group()


def is_initialized() -> bool:
    """Whether `init` was called."""
    return bool(_machines) and c10d.is_initialized()


def _initialized() -> list[Any]:
    if not is_initialized():
        raise ValueError("Horovod has not been initialized; use hvd.init().")
    return _machines


def rank() -> int:
    """The number of this process."""
    _initialized()
    return c10d.get_rank()


def size() -> int:
    """The number of processes."""
    return len(_initialized())


def local_rank() -> int:
    """The number of this process on its machine."""
    return _initialized()[: rank()].count(_machines[rank()])


def local_size() -> int:
    """The number of processes on this machine."""
    return _initialized().count(_machines[rank()])


def _peers() -> list[Any]:
    """The machines that have a process with this local rank."""
    return [one for one in dict.fromkeys(_initialized()) if _machines.count(one) > local_rank()]


def cross_rank() -> int:
    """The number of this machine among those that have a process with this local rank."""
    return _peers().index(_machines[rank()])


def cross_size() -> int:
    """The number of machines that have a process with this local rank."""
    return len(_peers())


def barrier(process_set: Any = None) -> None:
    """Wait until all processes have come here."""
    _check(process_set)
    c10d.barrier()


def join(device: int = -1) -> int:
    """Wait until all processes have come here; returns the last rank.

    In Horovod a process that waits here takes part in the collectives of the others. Here those are an error.
    """
    _initialized()
    c10d.barrier()
    return size() - 1


# ------------------------------------------------------------------------------------------------ compression


class _None:
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: Tensor, ctx: Any) -> Tensor:
        return tensor


class _Half:
    """Sends floating point numbers as float16."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        return (tensor.half(), tensor.dtype) if tensor.is_floating_point() else (tensor, None)

    @staticmethod
    def decompress(tensor: Tensor, ctx: Any) -> Tensor:
        return tensor if ctx is None else tensor.to(ctx)


class Compression:
    """How tensors are sent: a class with the static methods ``compress`` and ``decompress``."""

    none = _None
    fp16 = _Half


# ------------------------------------------------------------------------------------------------ collectives


class _Handle:
    """A collective that was begun.

    Attributes:
        work: of `torch.distributed`, or None if all is done.
        result: gives what `synchronize` returns.
    """

    def __init__(self, work: Any, result: Callable[[], Any]) -> None:
        self.work, self.result = work, result


def poll(handle: _Handle) -> bool:
    """Whether the result is there; it waits for XLA, and returns True."""
    return handle.work is None or handle.work.is_completed()


def synchronize(handle: _Handle) -> Any:
    """Wait for the result, and return it."""
    if handle.work is not None:
        handle.work.wait()
    return handle.result()


def _refuse(what: str, instead: str) -> NoReturn:
    raise NotImplementedError(f"horovod.torch: {what} is not supported: {instead}")


def _check(process_set: Any) -> None:
    _initialized()
    if process_set is not None:
        _refuse("process_set=", "use torch.distributed.new_group and its collectives")


def _op(op: Any, average: Any = None) -> _Op:
    if average is not None:
        if op is not None:
            raise ValueError("The op parameter supersedes average. Please provide only one of them.")
        warnings.warn("Parameter `average` has been replaced with `op`", DeprecationWarning, stacklevel=3)
        op = Average if average else Sum
    op = Average if op is None else op
    if op is Adasum:
        _refuse("op=Adasum", "use Average or Sum")
    return _Op(op)


def _scaled(tensor: Tensor, factor: float) -> Tensor:
    """In place; whole numbers are rounded towards zero."""
    if factor == 1.0:
        return tensor
    return tensor.copy_(tensor.double() * factor if not tensor.is_floating_point() else tensor * factor)  # type: ignore[attr-defined]


def _begun(tensor: Tensor, op: _Op, before: float, after: float) -> _Handle:
    """An all-reduce into a tensor."""
    with no_grad():
        _scaled(tensor, before)
        exact = op is Average and tensor.is_floating_point()
        kind = c10d.ReduceOp(getattr(c10d.ReduceOp, "SUM" if op is Average and not exact else op.value))
        work = c10d.all_reduce(tensor, kind, async_op=True)
    factor = after / size() if op is Average and not exact else after

    def result() -> Tensor:
        with no_grad():
            return _scaled(tensor, factor)

    return _Handle(work, result)


def allreduce_async_(
    tensor: Tensor,
    average: Any = None,
    name: str | None = None,
    op: Any = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = None,
) -> _Handle:
    """Begin `allreduce_`."""
    _check(process_set)
    return _begun(tensor, _op(op, average), prescale_factor, postscale_factor)


def allreduce_async(tensor: Tensor, *args: Any, **kwargs: Any) -> _Handle:
    """Begin `allreduce`; the result has no gradient."""
    return allreduce_async_(tensor.detach().clone(), *args, **kwargs)


def allreduce_(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Reduce the tensors of all processes, into each of them: by default their mean."""
    handle = allreduce_async_(tensor, *args, **kwargs)
    synchronize(handle)
    return tensor


class _Collective(Function):
    """A collective with a gradient: two functions of a tensor."""

    @staticmethod
    def forward(ctx: Any, run: Any, back: Any, tensor: Tensor) -> Any:
        ctx.back = back
        return run(tensor)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, ctx.back(grad)


def _with_gradient(tensor: Tensor, run: Callable[..., Any], back: Callable[..., Any]) -> Tensor:
    return _Collective.apply(run, back, tensor)


def allreduce(
    tensor: Tensor,
    average: Any = None,
    name: str | None = None,
    compression: Any = _None,
    op: Any = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = None,
) -> Tensor:
    """The reduction of the tensors of all processes. Its gradient is reduced in the same way.

    Args:
        tensor: has the same shape and dtype in all processes.
        average: True and False for the old names of ``Average`` and ``Sum``.
        name: accepted; processes are to call collectives in the same order.
        compression: see `Compression`.
        op: ``Average`` (unless given), ``Sum``, ``Min``, ``Max`` or ``Product``.
        prescale_factor, postscale_factor: what to multiply by before and after.
        process_set: must be None.
    """
    how = {"op": _op(op, average), "prescale_factor": prescale_factor, "postscale_factor": postscale_factor}

    def run(value: Tensor) -> Tensor:
        return synchronize(allreduce_async(value, **how, process_set=process_set))  # type: ignore[no-any-return]

    small, ctx = compression.compress(tensor)
    return compression.decompress(_with_gradient(small, run, run), ctx)  # type: ignore[no-any-return]


def _fused(tensors: Iterable[Tensor], run: Callable[[Tensor], Tensor]) -> None:
    """Write into tensors what a function makes of them; those of one dtype are given to it as one."""
    kinds: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    with no_grad():
        for some in kinds.values():
            whole = run(cat([tensor.detach().reshape(-1) for tensor in some]))
            parts = whole.split([tensor.numel() for tensor in some])  # type: ignore[attr-defined]
            for tensor, part in zip(some, parts, strict=True):
                tensor.copy_(part.reshape(tensor.shape))  # type: ignore[attr-defined]


def grouped_allreduce_(tensors: Sequence[Tensor], *args: Any, **kwargs: Any) -> Sequence[Tensor]:
    """`allreduce_` of several tensors; those of one dtype in one collective."""
    _fused(tensors, lambda whole: allreduce(whole, *args, **kwargs))
    return tensors


def grouped_allreduce_async_(tensors: Sequence[Tensor], *args: Any, **kwargs: Any) -> _Handle:
    """`grouped_allreduce_`, which is done when this returns."""
    made = grouped_allreduce_(tensors, *args, **kwargs)
    return _Handle(None, lambda: made)


def grouped_allreduce_async(tensors: Sequence[Tensor], *args: Any, **kwargs: Any) -> _Handle:
    """`grouped_allreduce` without gradients, which is done when this returns."""
    return grouped_allreduce_async_([tensor.detach().clone() for tensor in tensors], *args, **kwargs)


def grouped_allreduce(tensors: Sequence[Tensor], *args: Any, **kwargs: Any) -> list[Tensor]:
    """`allreduce` of several tensors."""
    if any(tensor.requires_grad for tensor in tensors):
        return [allreduce(tensor, *args, **kwargs) for tensor in tensors]
    return list(grouped_allreduce_([tensor.clone() for tensor in tensors], *args, **kwargs))


def allgather(tensor: Tensor, name: str | None = None, process_set: Any = None) -> Tensor:
    """The tensors of all processes, one after another. They may have different lengths.

    As in Horovod the gradient of a process is its part of the mean of all gradients.
    """
    _check(process_set)
    if not tensor.dim():
        raise ValueError("allgather takes no tensor without dimensions: give tensor.reshape(1)")
    rows = allgather_object(tensor.shape[0])
    start = sum(rows[: rank()])

    def run(value: Tensor) -> Tensor:
        padded = value.new_zeros((max(rows), *value.shape[1:]))  # type: ignore[attr-defined]
        padded[: len(value)] = value
        parts = [zeros_like(padded) for _ in rows]
        c10d.all_gather(parts, padded)
        return cat([part[:n] for part, n in zip(parts, rows, strict=True)])

    return _with_gradient(tensor, run, lambda grad: allreduce(grad)[start : start + rows[rank()]])


def broadcast_async_(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: Any = None
) -> _Handle:
    """Begin `broadcast_`."""
    _check(process_set)
    return _Handle(c10d.broadcast(tensor, root_rank, async_op=True), lambda: tensor)


def broadcast_async(tensor: Tensor, *args: Any, **kwargs: Any) -> _Handle:
    """Begin `broadcast`; the result has no gradient."""
    return broadcast_async_(tensor.detach().clone(), *args, **kwargs)


def broadcast_(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Copy the tensor of ``root_rank`` into those of all processes."""
    return synchronize(broadcast_async_(tensor, *args, **kwargs))  # type: ignore[no-any-return]


def broadcast(tensor: Tensor, root_rank: int, name: str | None = None, process_set: Any = None) -> Tensor:
    """The tensor of ``root_rank``. As in Horovod its gradient is the mean of all."""
    return _with_gradient(
        tensor,
        lambda value: synchronize(broadcast_async(value, root_rank, process_set=process_set)),
        lambda grad: allreduce(grad) * (rank() == root_rank),
    )


def alltoall(tensor: Tensor, splits: Any = None, name: str | None = None, process_set: Any = None) -> Any:
    """Send each part of a tensor to one process, and receive one of each.

    Args:
        tensor: is split along its first dimension.
        splits: how many rows go to each process; unless given, as many to each.

    Returns:
        What was received; with ``splits`` also how many rows came from each process.
    """
    _check(process_set)
    given = splits.tolist() if isinstance(splits, Tensor) else splits
    if given is None and tensor.shape[0] % size():
        raise ValueError(f"alltoall: {tensor.shape[0]} rows have no equal parts for {size()} processes")
    sent = [tensor.shape[0] // size()] * size() if given is None else list(given)
    received = [parts[rank()] for parts in allgather_object(sent)]

    def run(value: Tensor, sent: list[int], received: list[int]) -> Tensor:
        out = value.new_empty((sum(received), *value.shape[1:]))  # type: ignore[attr-defined]
        c10d.all_to_all_single(out, value, received, sent)
        return out  # type: ignore[no-any-return]

    made = _with_gradient(tensor, lambda x: run(x, sent, received), lambda grad: run(grad, received, sent))
    if splits is None:
        return made
    return made, splits.new_tensor(received) if isinstance(splits, Tensor) else received


def _own_rows(count: int) -> slice:
    """The rows of this process: the first processes have one more where they cannot have the same number."""
    each, rest = divmod(count, size())
    start = rank() * each + min(rank(), rest)
    return slice(start, start + each + (rank() < rest))


def reducescatter(
    tensor: Tensor,
    name: str | None = None,
    compression: Any = _None,
    op: Any = Average,
    process_set: Any = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Tensor:
    """The rows of this process of the reduction of the tensors of all; the first may have one row more.

    Raises:
        NotImplementedError: another ``op`` than ``Average`` and ``Sum``.
    """
    if op not in (Average, Sum):
        _refuse(f"reducescatter(op={op})", "use allreduce, and take the rows of the process")
    whole = allreduce(tensor, None, name, compression, op, prescale_factor, postscale_factor, process_set)
    return whole[_own_rows(whole.shape[0])]  # type: ignore[no-any-return]


def _done(made: Any) -> _Handle:
    return _Handle(None, lambda: made)


def allgather_async(tensor: Tensor, *args: Any, **kwargs: Any) -> _Handle:
    """`allgather`, which is done when this returns."""
    return _done(allgather(tensor.detach(), *args, **kwargs))


def alltoall_async(tensor: Tensor, *args: Any, **kwargs: Any) -> _Handle:
    """`alltoall`, which is done when this returns."""
    return _done(alltoall(tensor.detach(), *args, **kwargs))


def reducescatter_async(tensor: Tensor, *args: Any, **kwargs: Any) -> _Handle:
    """`reducescatter`, which is done when this returns."""
    return _done(reducescatter(tensor.detach(), *args, **kwargs))


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """The objects of all processes, by pickle."""
    found: list[Any] = [None] * c10d.get_world_size()
    c10d.all_gather_object(found, obj)
    return found


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None, process_set: Any = None) -> Any:
    """The object of ``root_rank``, by pickle."""
    _check(process_set)
    found = [obj]
    c10d.broadcast_object_list(found, root_rank)
    return found[0]


def broadcast_parameters(params: Any, root_rank: int) -> None:
    """Copy the tensors of ``root_rank`` into those of all processes; those of one dtype in one collective.

    Args:
        params: ``model.state_dict()``, or a list of tensors or of named ones.
        root_rank: whose values count.
    """
    if isinstance(params, dict):
        tensors = [params[key] for key in sorted(params)]
    elif isinstance(params, Iterable) and not isinstance(params, Tensor):
        tensors = [p[1] if isinstance(p, tuple) else p for p in params]
    else:
        raise ValueError(f"invalid params of type: {type(params)}")
    _fused((t for t in tensors if isinstance(t, Tensor)), lambda whole: broadcast_(whole, root_rank))


def broadcast_optimizer_state(optimizer: Optimizer, root_rank: int, model: Any = None) -> None:
    """Give the optimizers of all processes the state and the settings of that of ``root_rank``."""
    if isinstance(optimizer, LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    state = broadcast_object(optimizer.state_dict(), root_rank)
    if rank() != root_rank:
        optimizer.load_state_dict(state)


# ------------------------------------------------------------------------------------------------ the optimizer


def DistributedOptimizer(
    optimizer: Optimizer,
    named_parameters: Any = None,
    compression: Any = _None,
    backward_passes_per_step: int = 1,
    op: Any = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    sparse_as_dense: bool = False,
    process_set: Any = None,
) -> Any:
    """An optimizer whose step first reduces the gradients of all processes, in one collective for each dtype.

    It is of a class derived from that of ``optimizer``, with which it shares state and groups. ``synchronize()``
    reduces the gradients before the step, and ``with optimizer.skip_synchronize():`` has a step not do so. A parameter
    without a gradient counts with zeros.

    Args:
        optimizer: makes the step.
        named_parameters: all parameters with their names, which only are checked.
        compression: see `Compression`.
        backward_passes_per_step: how many gradients are added up before a step. Any number is taken.
        op: ``Average`` or ``Sum``.
        gradient_predivide_factor: how much of the division by the number of processes is done before the sum.
        num_groups, groups: accepted: all gradients are reduced together.
        sparse_as_dense: reduce sparse gradients as dense ones.
        process_set: must be None.

    Raises:
        ValueError: for names that are not those of the parameters, or a ``gradient_predivide_factor`` with another
            ``op`` than ``Average``.
        NotImplementedError: L-BFGS, whose steps depend on the losses of each process; ``Adasum``.

    Example:
        >>> import functorch_port as torch
        >>> import functorch_port.horovod as hvd
        >>> hvd.init()  # doctest: +SKIP
        >>> opt = torch.optim.SGD(model.parameters(), 0.01 * hvd.size())  # doctest: +SKIP
        >>> opt = hvd.DistributedOptimizer(opt, model.named_parameters())  # doctest: +SKIP

    Reference: https://horovod.readthedocs.io/en/stable/api.html#horovod.torch.DistributedOptimizer
    """
    _check(process_set)
    op = _op(op)
    if gradient_predivide_factor != 1.0 and op is not Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if isinstance(optimizer, LBFGS):
        _refuse(
            "DistributedOptimizer of L-BFGS", "its steps depend on the loss: use DistributedDataParallel, where "
            "all processes have the same",
        )  # fmt: skip
    _check_names(optimizer, named_parameters)
    base: Any = type(optimizer)
    how = {
        "compression": compression, "op": op, "prescale_factor": 1 / gradient_predivide_factor,
        "postscale_factor": gradient_predivide_factor,
    }  # fmt: skip

    class Distributed(base):
        backward_passes_per_step: int
        _synchronized, _skips = False, False

        def synchronize(self) -> None:
            """Reduce the gradients."""
            self._synchronized = True
            if size() > 1:
                _reduce_gradients(self, sparse_as_dense, how)

        @contextmanager
        def skip_synchronize(self) -> Iterator[None]:
            """Steps in the block do not reduce the gradients."""
            self._skips = True
            try:
                yield
            finally:
                self._skips = False

        def set_backward_passes_per_step(self, passes: int) -> None:
            """Store the number, which changes nothing."""
            self.backward_passes_per_step = passes

        def step(self, closure: Any = None) -> Any:
            def computed() -> Any:
                loss = closure()
                self.synchronize()
                return loss

            if not self._skips and closure is None:
                if self._synchronized:
                    warnings.warn(
                        "optimizer.step() called without optimizer.skip_synchronize() context after "
                        "optimizer.synchronize(): the gradients are reduced again",
                        stacklevel=2,
                    )
                self.synchronize()
            self._synchronized = False
            return super().step() if closure is None else super().step(closure if self._skips else computed)

    Distributed.__name__ = Distributed.__qualname__ = base.__name__
    made = Distributed.__new__(Distributed)
    made.__dict__ = optimizer.__dict__
    made.backward_passes_per_step = backward_passes_per_step
    return made


def _check_names(optimizer: Optimizer, named_parameters: Any) -> None:
    if named_parameters is None:
        return
    named = list(named_parameters)
    if not all(isinstance(each, tuple) for each in named):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced by "
            "model.named_parameters()."
        )
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(twice)}"
        )
    known = {id(p) for _, p in named}
    if any(id(p) not in known for group in optimizer.param_groups for p in group["params"]):
        raise ValueError("named_parameters was specified, but one or more model parameters were not named.")


def _reduce_gradients(optimizer: Optimizer, sparse_as_dense: bool, how: dict[str, Any]) -> None:
    found = []
    for p in (p for group in optimizer.param_groups for p in group["params"] if p.requires_grad):
        if p.grad is None:  # another process may have one
            p.grad = zeros_like(p)
        elif p.grad._sparse:
            if not sparse_as_dense:
                _refuse("DistributedOptimizer of sparse gradients", "pass sparse_as_dense=True")
            p.grad = p.grad.to_dense()
        found.append(p.grad)
    grouped_allreduce_(found, **how)
