"""Collectives of tensors: the processes agree on what they do, and XLA's program does it (`_programs`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import jax
import numpy as np

from functorch_port._array import tracing
from functorch_port._tensor.tensor import Tensor

from ._arguments import (
    check_dtypes,
    check_list,
    check_parts,
    check_same,
    check_tensor,
    fill,
    flat,
    reduction_of,
    rows_of,
    split_sizes,
)
from ._group import ProcessGroup, Work, described
from ._groups import group_of, root_of
from ._programs import on_rank
from ._reduce_op import ReduceOp
from ._store import DistBackendError

__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
    "supports_complex",
]


def _work(name: str, results: list[Tensor], made: Any, async_op: bool) -> Work | None:
    """The work that has ``made`` arrays, from which the results come. Who has no result waits for them, too: until they
    are there the program reads the tensors that it was given.
    """
    work = Work(name, results, made)
    if async_op:
        return work
    work.wait()
    return None


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Reduce the tensors of all processes, into each of them.

    Example:
        >>> import functorch_port.distributed as dist
        >>> dist.all_reduce(loss, dist.ReduceOp.AVG)  # doctest: +SKIP

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_reduce
    """
    check_tensor(tensor, "tensor")
    pg = group_of(group, "all_reduce")
    if pg is None:
        return None
    kind, factor = reduction_of(op, tensor, pg, "all_reduce")
    pg.agree(f"all_reduce({kind}) of {described(tensor)}")
    row = pg.compute(tensor, "reduce", kind, factor, row=flat(tensor))
    fill([tensor], [row])
    return _work("all_reduce", [tensor], row, async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduce the tensors of all processes into that of ``dst``; those of the others stay as they are.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.reduce
    """
    check_tensor(tensor, "tensor")
    pg = group_of(group, "reduce")
    if pg is None:
        return None
    root = root_of(pg, dst, group_dst, "dst", "reduce")
    kind, factor = reduction_of(op, tensor, pg, "reduce")
    pg.agree(f"reduce({kind}, dst={root}) of {described(tensor)}")
    row = pg.compute(tensor, "reduce", kind, factor, row=flat(tensor))
    if tracing.overlay:
        row = on_rank(root, row, flat(tensor))
    if tracing.overlay or pg.rank() == root:
        fill([tensor], [row])
    return _work("reduce", [tensor], row, async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copy the tensor of ``src`` into those of all processes.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.broadcast
    """
    check_tensor(tensor, "tensor")
    pg = group_of(group, "broadcast")
    if pg is None:
        return None
    root = root_of(pg, src, group_src, "src", "broadcast")
    pg.agree(f"broadcast(src={root}) of {described(tensor)}")
    row = pg.compute(tensor, "broadcast", root, row=flat(tensor))
    if tracing.overlay or pg.rank() != root:
        fill([tensor], [row])
    return _work("broadcast", [tensor], row, async_op)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Copy the tensors of all processes into a list, in each of them.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather
    """
    check_list(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    check_dtypes(*tensor_list, tensor)
    pg = group_of(group, "all_gather")
    if pg is None:
        return None
    check_same("allgather", tensor_list, tensor, pg.size())
    pg.agree(f"all_gather of {described(tensor)}")
    rows = pg.compute(tensor, "gather", row=flat(tensor))
    fill(tensor_list, rows)
    return _work("all_gather", tensor_list, rows, async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Copy the tensors of all processes into one, concatenated or stacked, in each of them.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather_into_tensor
    """
    check_tensor(input_tensor, "input_tensor")
    check_tensor(output_tensor, "output_tensor")
    pg = group_of(group, "all_gather_into_tensor")
    if pg is None:
        return None
    check_dtypes(input_tensor, output_tensor)
    check_parts("all_gather_into_tensor", input_tensor, output_tensor, pg.size())
    pg.agree(f"all_gather_into_tensor of {described(input_tensor)}")
    rows = pg.compute(input_tensor, "gather", row=flat(input_tensor))
    fill([output_tensor], [rows])
    return _work("all_gather_into_tensor", [output_tensor], rows, async_op)


all_gather_single = all_gather_into_tensor


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Copy the tensors of all processes into a list of ``dst``.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.gather
    """
    check_tensor(tensor, "tensor")
    pg = group_of(group, "gather")
    if pg is None:
        return None
    root = root_of(pg, dst, group_dst, "dst", "gather")
    results = _only_on(pg, root, gather_list, "gather_list", "destination")
    if results is not None:
        check_dtypes(*results, tensor)
        check_same("gather", results, tensor, pg.size())
    pg.agree(f"gather(dst={root}) of {described(tensor)}")
    rows = pg.compute(tensor, "gather", row=flat(tensor))
    fill(results or [], rows)
    return _work("gather", results or [], rows, async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copy each tensor of a list of ``src`` into the tensor of one process.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.scatter
    """
    check_tensor(tensor, "tensor")
    pg = group_of(group, "scatter")
    if pg is None:
        return None
    root = root_of(pg, src, group_src, "src", "scatter")
    given = _only_on(pg, root, scatter_list, "scatter_list", "source")
    if given is not None:
        check_dtypes(*given, tensor)
        check_same("scatter", given, tensor, pg.size())
    pg.agree(f"scatter(src={root}) of {described(tensor)}")
    rows = rows_of([tensor] * pg.size() if given is None else given)
    row = pg.compute(tensor, "scatter", root, row=rows)
    fill([tensor], [row])
    return _work("scatter", [tensor], row, async_op)


def _only_on(pg: ProcessGroup, root: int, given: Any, name: str, what: str) -> list[Tensor] | None:
    """A list of tensors that one process gives, and the others do not."""
    if pg.rank() != root:
        if given:
            raise ValueError(f"Argument ``{name}`` must NOT be specified on non-{what} ranks.")
        return None
    if not given:
        raise ValueError(f"Argument ``{name}`` must be specified on {what} rank.")
    check_list(given, name)
    return given


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce the lists of all processes, and give each process its element.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.reduce_scatter
    """
    check_tensor(output, "output")
    check_list(input_list, "input_list")
    check_dtypes(output, *input_list)
    pg = group_of(group, "reduce_scatter")
    if pg is None:
        return None
    check_same("reduce_scatter", input_list, output, pg.size())
    return _reduced_part("reduce_scatter", output, rows_of(input_list), op, pg, async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce the tensors of all processes, and give each process its part.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.reduce_scatter_tensor
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    pg = group_of(group, "reduce_scatter_tensor")
    if pg is None:
        return None
    check_dtypes(output, input)
    check_parts("reduce_scatter_tensor", output, input, pg.size())
    rows = flat(input).reshape(pg.size(), -1)
    return _reduced_part("reduce_scatter_tensor", output, rows, op, pg, async_op)


reduce_scatter_single = reduce_scatter_tensor


def _reduced_part(
    name: str, output: Tensor, rows: Any, op: Any, pg: ProcessGroup, async_op: bool
) -> Work | None:
    kind, factor = reduction_of(op, output, pg, name)
    pg.agree(f"{name}({kind}) of {described(output)}")
    row = pg.compute(output, "reduce_scatter", kind, factor, row=rows)
    fill([output], [row])
    return _work(name, [output], row, async_op)


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Send each tensor of a list to one process, and receive one of each.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_to_all
    """
    check_list(output_tensor_list, "output_tensor_list")
    check_list(input_tensor_list, "input_tensor_list")
    check_dtypes(*output_tensor_list, *input_tensor_list)
    pg = group_of(group, "all_to_all")
    if pg is None:
        return None
    for tensors in (output_tensor_list, input_tensor_list):
        if len(tensors) != pg.size():
            raise RuntimeError(f"all_to_all: a list has {len(tensors)} tensors for {pg.size()} processes")
    parts = [flat(tensor) for tensor in input_tensor_list]
    found = _all_to_all(
        "all_to_all", pg, input_tensor_list[0], parts, [t.numel() for t in output_tensor_list]
    )
    fill(output_tensor_list, found)
    return _work("all_to_all", output_tensor_list, found, async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Send each part of a tensor, along the first dimension, to one process, and receive one of each.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_to_all_single
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    check_dtypes(output, input)
    pg = group_of(group, "all_to_all_single")
    if pg is None:
        return None
    sent = split_sizes(input, input_split_sizes, pg.size())
    received = split_sizes(output, output_split_sizes, pg.size())
    cuts = np.cumsum(sent)[:-1].tolist()
    whole = flat(input)
    parts = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    found = _all_to_all("all_to_all_single", pg, input, parts, received)
    fill([output], [jax.numpy.concatenate(found)])
    return _work("all_to_all_single", [output], found, async_op)


def _all_to_all(
    name: str, pg: ProcessGroup, like: Tensor, parts: list[Any], received: list[int]
) -> list[Any]:
    """Exchange parts, of any sizes, by rows as long as the longest part of any process."""
    sent = [len(part) for part in parts]
    if tracing.overlay and len({*sent, *received}) > 1:
        raise NotImplementedError(
            f"{name} of parts of different sizes in a compiled function: call it outside"
        )
    sizes = pg.agree(f"{name} of {str(like.dtype).removeprefix('torch.')}", [sent, received])
    for source, (theirs, _) in enumerate(sizes):
        for target, (_, expected) in enumerate(sizes):
            if theirs[target] != expected[source]:
                raise DistBackendError(
                    f"{name}: rank {pg._ranks[source]} sends {theirs[target]} elements to rank {pg._ranks[target]}, "
                    f"which expects {expected[source]}"
                )
    longest = max(max(theirs) for theirs, _ in sizes)
    numpy = np if all(isinstance(part, np.ndarray) for part in parts) else jax.numpy
    rows = numpy.stack([numpy.pad(part, (0, longest - len(part))) for part in parts])
    found = pg.compute(like, "exchange", row=rows)
    return [row[:size] for row, size in zip(found, received, strict=True)]


def barrier(
    group: ProcessGroup | None = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Wait until all processes have come here.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.barrier
    """
    pg = group_of(group, "barrier")
    if pg is None:
        return None
    pg.agree("barrier", timeout=timeout)
    return _work("barrier", [], [], async_op)


def monitored_barrier(
    group: ProcessGroup | None = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """`barrier`, whose error names all ranks that did not come in time; every process raises it.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.monitored_barrier
    """
    pg = group_of(group, "monitored_barrier")
    if pg is not None:
        pg.agree("monitored_barrier", timeout=timeout)


def supports_complex(reduceOp: ReduceOp) -> bool:
    """Whether a reduction is defined for complex numbers."""
    return ReduceOp(reduceOp).op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM)
