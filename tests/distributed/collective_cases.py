"""Collectives in two processes, as a script for PyTorch and for the library: prints each result as JSON."""

import json
import os
import sys
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist

warnings.simplefilter("ignore")
rank = int(os.environ["RANK"])
found = {}


def plain(value):
    if isinstance(value, torch.Tensor):
        if value.is_complex():
            value = torch.view_as_real(value)
        if value.dtype == torch.bfloat16:
            value = value.float()
        return [str(value.dtype), value.tolist()]
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value if isinstance(value, int | float | str | bool | None | dict) else str(value)


def case(name, run, text=True):
    """``text``: whether the error's text is to be the same."""
    try:
        found[name] = plain(run())
    except Exception as error:
        found[name] = [type(error).__name__, str(error) if text else ""]


def without_group():
    for name in (
        "get_rank",
        "get_world_size",
        "get_backend",
        "barrier",
        "new_group",
        "destroy_process_group",
    ):
        case(f"{name} without a group", getattr(dist, name))
    case("all_reduce without a group", lambda: dist.all_reduce(torch.ones(1)))
    case("ranks without a group", lambda: dist.get_process_group_ranks(None))
    case("global rank without a group", lambda: dist.get_global_rank(None, 0))
    case("is_initialized", dist.is_initialized)
    case("is_available", dist.is_available)


def reductions():
    O = dist.ReduceOp
    for dtype in (
        "bool",
        "int8",
        "uint8",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "complex64",
    ):
        for op in ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG"):
            if op == "AVG" and dtype in ("bool", "complex64"):  # PyTorch ends the process
                continue
            t = (torch.tensor([[1, 2, 0], [3, 5, 1]]) * (1 + rank) - rank).to(getattr(torch, dtype))
            case(f"all_reduce {dtype} {op}", lambda: (dist.all_reduce(t, getattr(O, op)), t))
    for op in (O.SUM, O.MAX, O.PRODUCT):
        t, o = torch.tensor([1.5, 2.0]) + rank, torch.zeros(2)
        mine = t.clone()  # PyTorch leaves something else in those that are not the target
        case(f"reduce {op}", lambda: (dist.reduce(mine, 1, op), mine if rank == 1 else 0))
        case(f"reduce_scatter {op}", lambda: (dist.reduce_scatter(o, [t + 1, t * 2], op), o))
    case("float BAND", lambda: dist.all_reduce(torch.ones(2), O.BAND))
    case("PREMUL_SUM", lambda: dist.all_reduce(torch.ones(2), dist._make_nccl_premul_sum(2.0)))
    case("names", lambda: [str(O.SUM), repr(O.SUM), O.SUM == O.RedOpType.SUM, O(O.MAX) == O.MAX, str(O.AVG)])


def places():
    p = torch.ones(2, requires_grad=True)
    case("a leaf", lambda: (dist.all_reduce(p), p.detach(), p._version, p.is_leaf, p.requires_grad))
    whole = torch.arange(6.0).view(2, 3)
    case("a view", lambda: (dist.all_reduce(whole[1]), whole, whole._version))
    turned = torch.arange(6.0).view(2, 3).t()
    case("a transposed tensor", lambda: (dist.all_reduce(turned), turned))
    zero = torch.tensor(float(rank))
    case("0-dim", lambda: (dist.all_reduce(zero), zero))
    empty = torch.zeros(0, 3)
    case("empty", lambda: (dist.all_reduce(empty), empty))
    large = torch.full((100, 100), 1.0 + rank)
    case("large", lambda: (dist.all_reduce(large), large.sum().item()))
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    dist.all_reduce(y)
    y.sum().backward()
    case("a gradient through", lambda: x.grad)


def copies():
    t = torch.tensor([-0.0, float("nan"), 1e-45, 7.0])
    normal = torch.tensor([-0.0, float("nan"), 1e-3, 7.0])
    for dtype in (
        "float32",
        "float64",
        "bfloat16",
        "float16",
        "complex64",
        "complex128",
        "bool",
        "int64",
        "uint8",
    ):
        for src in (0, 1):
            own = (normal if rank == src else torch.full((4,), 3.0)).nan_to_num(5).to(getattr(torch, dtype))
            case(f"broadcast {dtype} {src}", lambda: (dist.broadcast(own, src), own))
    own = t.clone() if rank else torch.zeros(4)
    case("broadcast bits", lambda: (dist.broadcast(own, 1), own.view(torch.int32)))
    own = torch.tensor([[1, 2], [3, 4]]) + 10 * rank
    parts = [torch.zeros_like(own) for _ in range(2)]
    case("all_gather", lambda: (dist.all_gather(parts, own), parts))
    for shape in ((4, 2), (8,)):
        into = torch.zeros(shape, dtype=torch.int64)
        case(
            f"all_gather_into_tensor {shape}",
            lambda: (dist.all_gather_into_tensor(into, own.view(-1) if len(shape) == 1 else own), into),
        )
    parts = [torch.zeros_like(own) for _ in range(2)] if rank == 1 else None
    case("gather", lambda: (dist.gather(own, parts, dst=1), parts))
    part = torch.zeros(2)
    given = [torch.tensor([1.0, -0.0]), torch.tensor([3.0, 4.0])] if rank == 0 else None
    case("scatter", lambda: (dist.scatter(part, given, src=0), part))
    out = torch.zeros(2)
    case(
        "reduce_scatter_tensor",
        lambda: (dist.reduce_scatter_tensor(out, torch.arange(4.0) * (rank + 1)), out),
    )
    outs = [torch.zeros(2), torch.zeros(2)]
    case(
        "all_to_all",
        lambda: (dist.all_to_all(outs, [torch.full((2,), 10.0 * rank + i) for i in range(2)]), outs),
    )
    sizes = [[1, 2], [3, 1]]
    received = [row[rank] for row in sizes]
    single = torch.zeros(4, 2)
    case(
        "all_to_all_single",
        lambda: (dist.all_to_all_single(single, torch.arange(8.0).view(4, 2) + 100 * rank), single),
    )
    single = torch.zeros(sum(received), 2)
    split = lambda: dist.all_to_all_single(
        single, torch.arange(2.0 * sum(sizes[rank])).view(-1, 2) + 100 * rank, received, sizes[rank]
    )  # noqa: E501
    case("all_to_all_single uneven", lambda: (split(), single))


def objects():
    got = [None, None]
    case(
        "all_gather_object",
        lambda: (dist.all_gather_object(got, {"rank": rank, "text": "x" * 300 * rank}), got),
    )
    given = [{"a": rank}, rank, [1, 2]]
    case("broadcast_object_list", lambda: (dist.broadcast_object_list(given, 1), given))
    one = [None]
    case(
        "scatter_object_list",
        lambda: (dist.scatter_object_list(one, ["x", {"y": 1}] if rank == 0 else None, 0), one),
    )
    got = [None, None] if rank == 0 else None
    case("gather_object", lambda: (dist.gather_object(("r", rank), got, 0), got))
    box = [None, None]
    case(
        "object to another",
        lambda: dist.send_object_list([1, "a"], 1) if rank == 0 else (dist.recv_object_list(box, 0), box),
    )


def messages():
    t = torch.zeros(2)
    case("send", lambda: dist.send(torch.tensor([3.0, 4.0]), 1) if rank == 0 else [dist.recv(t, 0), t])
    t = torch.zeros(1, dtype=torch.int64)
    case("from any", lambda: dist.send(torch.tensor([3]), 0, tag=4) if rank else [dist.recv(t, tag=4), t])
    case("wrong op", lambda: dist.P2POp(dist.all_reduce, t, 0))
    case("no ops", lambda: dist.batch_isend_irecv([]))

    def batch():
        into = [torch.zeros(1), torch.zeros(2, dtype=torch.bfloat16)]
        other = 1 - rank
        sends = [torch.full((1,), 5.0 + rank), torch.full((2,), 7.0 + rank, dtype=torch.bfloat16)]
        ops = [dist.P2POp(dist.isend, s, other) for s in sends] + [
            dist.P2POp(dist.irecv, r, other) for r in into
        ]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        return into

    case("batch", batch)


def groups():
    case(
        "backend",
        lambda: [dist.get_backend(), dist.get_rank(), dist.get_world_size(), dist.group.WORLD.size()],
    )
    case("twice", lambda: dist.init_process_group("gloo"))
    one = dist.new_group([1])
    case(
        "of one",
        lambda: [
            one == -100,
            dist.get_rank(one),
            dist.get_world_size(one),
            dist.get_process_group_ranks(one) if rank else 0,
        ],
    )
    t = torch.ones(1)
    case("in one", lambda: (dist.all_reduce(t, group=one), t))
    case("group rank", lambda: dist.get_group_rank(one, 1) if rank else 0)
    case("global rank", lambda: dist.get_global_rank(one, 0) if rank else 1)
    case("backend outside", lambda: dist.get_backend(one))
    all_of_them = dist.new_group()
    case("in all", lambda: (dist.all_reduce(t, group=all_of_them), t))
    case("ranks", lambda: dist.get_process_group_ranks(None))
    case("out of range", lambda: dist.new_group([5]))
    case("duplicates", lambda: dist.new_group([0, 0]))
    mine, every = dist.new_subgroups(1)
    case("subgroups", lambda: [dist.get_process_group_ranks(mine), len(every), [g == -100 for g in every]])
    case("subgroups too large", lambda: dist.new_subgroups(3))
    mine, every = dist.new_subgroups_by_enumeration([[1], [0]])
    case("enumerated", lambda: [dist.get_process_group_ranks(mine), len(every)])
    case("overlapping", lambda: dist.new_subgroups_by_enumeration([[0, 1], [1]]))
    dist.destroy_process_group(all_of_them)
    case("node", dist.get_node_local_rank)
    case("barrier", dist.barrier)
    case("monitored_barrier", lambda: dist.monitored_barrier(timeout=timedelta(seconds=5)))


def works():
    t = torch.ones(2)
    work = dist.all_reduce(t, async_op=True)
    case("work", lambda: [work.wait(), work.is_completed(), work.is_success(), t])
    several = [torch.full((3,), float(i)) for i in range(5)]
    handles = [dist.all_reduce(t, async_op=True) for t in several]
    case("several", lambda: ([h.wait() for h in handles], several))
    w = dist.barrier(async_op=True)
    case("barrier work", lambda: w.wait())
    parts = [torch.zeros(1), torch.zeros(1)]
    w = dist.all_gather(parts, torch.ones(1) * rank, async_op=True)
    case("all_gather work", lambda: (w.wait(), parts))


def errors():
    one = torch.ones(2)
    case("a list", lambda: dist.all_reduce([1]))
    case("no tensor", lambda: dist.broadcast(3, 0))
    case("no list", lambda: dist.all_gather(3, one))
    case("no tensors", lambda: dist.all_gather([3], one))
    case("op", lambda: dist.all_reduce(one, "sum"), text=False)
    case("all_gather shapes", lambda: dist.all_gather([torch.zeros(2), torch.zeros(3)], one))
    case("all_gather count", lambda: dist.all_gather([torch.zeros(2)], one))
    case(
        "all_gather dtypes", lambda: dist.all_gather([torch.zeros(2), torch.zeros(2, dtype=torch.int32)], one)
    )
    case("into a wrong size", lambda: dist.all_gather_into_tensor(torch.zeros(3), one), text=False)
    case("src", lambda: dist.broadcast(one, 5))
    case("dst", lambda: dist.reduce(one, 5))
    case("src twice", lambda: dist.broadcast(one, src=0, group_src=0))
    case(
        "reduce_scatter_tensor size",
        lambda: dist.reduce_scatter_tensor(torch.zeros(2), torch.ones(3)),
        text=False,
    )
    case("splits", lambda: dist.all_to_all_single(torch.zeros(4), torch.zeros(4), [1, 2], [2, 2]))
    case("one split", lambda: dist.all_to_all_single(torch.zeros(4), torch.zeros(4), [4], [2, 2]))


without_group()
dist.init_process_group("gloo", timeout=timedelta(seconds=20))
for part in (reductions, places, copies, objects, messages, groups, works):
    part()
dist.barrier()
errors()  # after one of these PyTorch's next collective may fail, too
dist.destroy_process_group()
case("destroyed", dist.is_initialized)
with open(sys.argv[1] + str(rank), "w") as file:
    json.dump(found, file)
