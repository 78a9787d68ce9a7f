"""What goes wrong in a job ends it within a bounded time, with an error that says what to do. Real processes."""

import json
import os

import pytest


def cause(found):
    """What the launcher says last."""
    return found.err[found.err.index("Root Cause") :]


LOOP = """
dist.init_process_group(timeout=timedelta(seconds=60))
for step in range(1000):
    if step == 3 and rank == int(sys.argv[1]):
        %s
    dist.all_reduce(torch.ones(3))
"""


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_worker(job, rank):
    """Rank 0 has JAX's coordinator: JAX aborts the others then, which is not shown as the cause."""
    found = job(LOOP % "os.kill(os.getpid(), 9)", str(rank), status=1)
    assert found.seconds < 30
    assert f"rank      : {rank}" in cause(found) and "killed by SIGKILL" in cause(found)


def test_a_killed_worker_without_the_launcher(plain):
    found = plain(
        """
dist.init_process_group(init_method=sys.argv[1], rank=int(sys.argv[2]), world_size=2)
if sys.argv[2] == "1":
    os.kill(os.getpid(), 9)
dist.all_reduce(torch.ones(3))
"""
    )
    assert [each.status for each in found] == [1, -9] and all(each.seconds < 30 for each in found)
    assert "rank 1 broke off: it crashed, was killed" in found[0].err
    assert "all_reduce(SUM) of float32[3] cannot be done" in found[0].err


def test_a_stopped_worker(job):
    found = job(LOOP % "os.kill(os.getpid(), signal.SIGSTOP)", "1", options=("--watchdog=7",), status=1)
    assert found.seconds < 30
    assert "rank      : 1" in cause(found) and "the process is stopped" in cause(found)


def test_a_stuck_worker(job):
    """The rank that does something else is named, not the one that waits for it; and where it is."""
    found = job(LOOP % "time.sleep(100)", "1", options=("--watchdog=7",), status=1)
    assert found.seconds < 30
    assert "rank      : 1" in cause(found) and "no progress for" in cause(found)
    assert "script0.py" in cause(found) and "in <module>" in cause(found)
    assert "last: waiting in all_reduce(SUM) of float32[3]" in found.err


def test_progress_keeps_the_watchdog_quiet(job):
    job(
        """
dist.init_process_group()
p = torch.nn.Parameter(torch.ones(2))
opt = torch.optim.SGD([p], lr=0.1)
f = torch.compile(lambda x: x + 1)
for _ in range(30):
    time.sleep(0.3)
    if rank == 0:
        p.grad = torch.ones(2)
        opt.step()
    else:
        f(p.detach())
""",
        options=("--watchdog=7",),
    )


DIFFERENT = {
    "kind": ("dist.all_reduce(t)", "dist.broadcast(t, 0)"),
    "shape": ("dist.all_reduce(t)", "dist.all_reduce(t[:1])"),
    "dtype": ("dist.all_reduce(t)", "dist.all_reduce(t.int())"),
    "reduction": ("dist.all_reduce(t)", "dist.all_reduce(t, dist.ReduceOp.MAX)"),
    "source": ("dist.broadcast(t, 0)", "dist.broadcast(t, 1)"),
    "barrier": ("dist.barrier()", "dist.all_reduce(t)"),
    "sizes": (
        "dist.all_to_all_single(t, t, [1, 1], [1, 1])",
        "dist.all_to_all_single(t[:1], t, [0, 1], [1, 1])",
    ),
}


def test_different_collectives(job):
    """Each gives an error on both, and the next collective works. Also after the same kind went well before."""
    cases = "\n".join(
        f"""
for again in range(2):
    try:
        if rank == 0:
            {left}
        else:
            {right}
    except dist.DistBackendError as error:
        found[{name!r}] = str(error)
    dist.all_reduce(t)
    dist.broadcast(t, 0)
"""
        for name, (left, right) in DIFFERENT.items()
    )
    head = "dist.init_process_group(timeout=timedelta(seconds=30))\nt = torch.ones(2)\nfound = {}\n"
    found = job(f"{head}{cases}\nprint(json.dumps(found))").values()
    for texts in found:
        assert {*texts} == {*DIFFERENT}
    text = found[1]["shape"]
    assert "rank 0: all_reduce(SUM) of float32[2] at script0.py:" in text
    assert "rank 1: all_reduce(SUM) of float32[1] at script0.py:" in text and "the same calls" in text


def test_different_numbers_of_collectives(job):
    found = job(
        """
dist.init_process_group()
for _ in range(3 + rank):
    dist.all_reduce(torch.ones(1))
""",
        status=1,
    )
    assert (
        found.seconds < 30
        and "rank 0 has ended, so all_reduce(SUM) of float32[1] cannot be done" in cause(found)
    )


def test_a_rank_that_never_comes(job):
    found = job(
        """
dist.init_process_group(timeout=timedelta(seconds=1))
if rank == 0:
    try:
        dist.barrier()
    except dist.DistBackendError as error:
        print(json.dumps(str(error)))
    t = torch.zeros(1)
    try:
        dist.recv(t, 1)
    except dist.DistBackendError as error:
        print(json.dumps(str(error)))
else:
    time.sleep(3)
"""
    )
    barrier, recv = map(json.loads, found.of(0))
    assert "rank 1 did not come to barrier within 1 s, the timeout" in barrier
    assert "rank 1 sent nothing within 1 s" in recv


def test_a_rank_that_is_never_started(plain):
    (found,) = plain(
        """
try:
    dist.init_process_group(init_method=sys.argv[1], rank=0, world_size=2, timeout=timedelta(seconds=2))
except dist.DistBackendError as error:
    print(error)
""",
        ranks=[0],
    )
    assert found.seconds < 20 and "rank 1 did not come to init_process_group within 2 s" in found.out


def test_a_store_that_nobody_serves(plain):
    (found,) = plain(
        """
try:
    dist.init_process_group(init_method=sys.argv[1], rank=1, world_size=2, timeout=timedelta(seconds=1))
except dist.DistNetworkError as error:
    print(error)
""",
        ranks=[1],
    )
    assert "timed out after 1000ms while trying to connect to (localhost" in found.out


def test_a_rank_that_is_ready_early(job):
    """It waits for the others, which is no failure."""
    found = job(
        "dist.init_process_group()\nif rank == 0: time.sleep(2)\nprint(json.dumps(float(torch.ones(2).sum())))"
    )
    assert found.values() == [2, 2]


def test_jax_before_the_group_without_the_launcher(plain):
    found = plain(
        """
import jax
jax.devices()
try:
    dist.init_process_group(init_method=sys.argv[1], rank=int(sys.argv[2]), world_size=2, timeout=timedelta(seconds=20))
except RuntimeError as error:
    print(error)
"""
    )
    assert all(
        "Call it first in the script, or start the script by `functorch-port launch`" in each.out
        for each in found
    )


def test_tensors_before_the_group_that_have_not_started_jax(plain):
    found = plain(
        """
t = torch.ones(2000)
t.mul_(t.sum() / 2000)
dist.init_process_group(init_method=sys.argv[1], rank=int(sys.argv[2]), world_size=2, timeout=timedelta(seconds=20))
dist.all_reduce(t)
big = torch.arange(20000.0) * (dist.get_rank() + 1)
dist.all_reduce(big)
print((t == 2).all().item(), torch.equal(big, 3 * torch.arange(20000.0)))
"""
    )
    if os.environ.get("FUNCTORCH_PORT_BACKEND") == "jax":  # there every tensor starts JAX
        assert found and all("start the script by `functorch-port launch`" in each.err for each in found)
        return
    assert len(found) == 2 and all(each.out.endswith("True True\n") for each in found), found


def test_messages_that_do_not_fit(job):
    found = job(
        """
dist.init_process_group(timeout=timedelta(seconds=20))
if rank == 0:
    dist.send(torch.ones(3), 1)
    dist.send(torch.ones(2, dtype=torch.int64), 1)
else:
    for _ in range(2):
        try:
            dist.recv(torch.zeros(2), 0)
        except dist.DistBackendError as error:
            print(error)
dist.barrier()
"""
    )
    first, second = found.of(1)
    assert "recv of float32[2]: rank 0 sent float32[3]" in first and "rank 0 sent int64[2]" in second


PROGRAMS = """
from torch.distributed.tensor import DTensor, Shard
dist.init_process_group(timeout=timedelta(seconds=30))
mesh = torch.distributed.init_device_mesh("cpu", (2,))
x = DTensor.from_local(torch.ones(4, 3), mesh, [Shard(0)])


def attempt(f, *args):
    try:
        return f(*args).tolist()
    except RuntimeError as error:
        return str(error)


step = torch.compile(lambda x: x * (rank + 2))
found = {"branch": attempt(step, x), "kept": attempt(step, x)}
square, cube = torch.compile(lambda x: x * x), torch.compile(lambda x: x * x * x)
found["function"] = attempt(square if rank == 0 else cube, x)
found["dtype"] = attempt(torch.compile(lambda x: x + 1), x.double() if rank else x)
if rank == 0:
    found["collective"] = attempt(torch.compile(lambda x: x - 1), x)
else:
    found["collective"] = attempt(lambda: dist.all_reduce(torch.ones(2)))
total = lambda x: (x + 2).sum(0)
once = torch.compile(total)
for _ in range(2):  # the same program, traced once more by one of them
    found["good"] = attempt(once if rank == 0 else torch.compile(total), x)
from torch.distributed.pipelining import PipelineStage
stack = torch.nn.ScanStack([torch.nn.Linear(3, 3) for _ in range(2)])
try:
    PipelineStage(stack, 0, 2, "cpu", group=mesh)  # which is right in rank 0
except (ValueError, RuntimeError) as error:
    found["stage"] = f"{type(error).__name__}: {error}"
found["whole"] = [[*p.placements] == [Shard(0)] for p in PipelineStage(stack, rank, 2, "cpu", group=mesh).parameters()]
grid = torch.distributed.init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "pp"))
stack = torch.nn.ScanStack([torch.nn.Linear(3, 3) for _ in range(2)])
run = torch.distributed.pipelining.ScheduleGPipe(PipelineStage(stack, 0, 1, "cpu", group=grid["pp"]), 2)
try:
    run(torch.ones(4, 3))  # whose rows, along dp?
except NotImplementedError as error:
    found["rows"] = str(error)
print(json.dumps(found))
"""


def test_different_programs(job):
    """Each gives an error on both that names the functions and what differs, and the next program works."""
    for found in job(PROGRAMS).values():
        assert found["good"] == [24.0, 24.0, 24.0]
        for case in ("branch", "kept", "function", "dtype"):
            assert "the processes compiled different programs: rank 0: program " in found[case], case
            assert found[case].count(" at script0.py:") == 2
        assert "2.0:f32[]" in found["branch"] and "3.0:f32[]" in found["branch"]
        assert "f32[8,3]" in found["dtype"] and "f64[8,3]" in found["dtype"]
        assert "rank 0: a call of a compiled program at script0.py:" in found["collective"]
        assert "rank 1: all_reduce(SUM) of float32[2] at script0.py:" in found["collective"]
        assert "is stage 1 of 2 by the mesh, not 0 of 2" in found["stage"] and all(found["whole"])
        assert "say how it lies there by DTensor.from_local" in found["rows"]


#: what rank 0 and rank 1 do -> a part of the error in rank 0, which says what is wrong in rank 1 or what differs
TOGETHER = {
    "a mesh larger than the devices": (
        'init_device_mesh("cpu", (2,))',
        'init_device_mesh("cpu", (4, 2))',
        "rank 1 failed in DeviceMesh at script0.py:",
        "The shape (4, 2) needs 8 devices, and 2 process(es) have 2",
    ),
    "meshes": (
        'init_device_mesh("cpu", (2,))',
        'init_device_mesh("cpu", (2, 1))',
        "shape (2,)",
        "shape (2, 1)",
    ),
    "an indivisible shard": (
        "distribute_tensor(torch.ones(4), mesh, [Shard(0)])",
        "distribute_tensor(torch.ones(5), mesh, [Shard(0)])",
        "rank 1 failed in distribute_tensor at script0.py:",
        "dimension 0 of a tensor of shape [5] cannot be split into 2 equal parts",
    ),
    "placements": (
        "distribute_tensor(torch.ones(4), mesh, [Shard(0)])",
        "distribute_tensor(torch.ones(4), mesh, [Replicate()])",
        "P('dim_0',)",
        "P()",
    ),
    "too many placements": (
        "split.redistribute(mesh, [Replicate()])",
        "split.redistribute(mesh, [Shard(0), Shard(0)])",
        "rank 1 failed in redistribute",
        "Found placements length: 2, and device_mesh.ndim: 1",
    ),
    "placements of parts": (
        "DTensor.from_local(torch.ones(2), mesh, [Shard(0)])",
        "DTensor.from_local(torch.ones(2), mesh, [Replicate()])",
        "different placements",
        "P()",
    ),
    "values that are to be the same": (
        "DTensor.from_local(torch.zeros(2), mesh, [Replicate()])",
        "DTensor.from_local(torch.ones(2), mesh, [Replicate()])",
        "differs between rank 0 and rank 1",
        "its part at [0] must be the same",
    ),
    "batches of tensor parallelism": (
        "split_net(torch.zeros(3, 2))",
        "split_net(torch.ones(3, 2))",
        "differs between rank 0 and rank 1",
        "without a sampler",
    ),
    "modules of DDP": ("DDP(nn.Linear(2, 3))", "DDP(nn.Linear(2, 2))", "shape [3, 2]", "shape [2, 2]"),
    "DDP without gradients": (
        "DDP(nn.Linear(2, 3))",
        "DDP(nn.Linear(2, 3).requires_grad_(False))",
        "rank 1 failed in DistributedDataParallel",
        "doesn't have any parameter that requires",
    ),
    "modules of fully_shard": (
        "fully_shard(nn.Linear(2, 4))",
        "fully_shard(nn.Linear(2, 2))",
        "shape [4, 2]",
        "shape [2, 2]",
    ),
    "a module that fully_shard refuses": (
        "fully_shard(nn.Linear(2, 4))",
        "fully_shard(nn.ModuleList([nn.Linear(2, 4)]))",
        "rank 1 failed in fully_shard",
        "does not support containers",
    ),
    "plans": (
        'parallelize_module(net, mesh, {"0": ColwiseParallel()})',
        'parallelize_module(net, mesh, {"0": RowwiseParallel()})',
        "ColwiseParallel",
        "RowwiseParallel",
    ),
    "a style that is none": (
        'parallelize_module(net, mesh, {"0": ColwiseParallel()})',
        'parallelize_module(net, mesh, {"0": 3})',
        "rank 1 failed in parallelize_module",
        "<class 'int'> found",
    ),
    "a state dict without a key": (
        "ddp.load_state_dict(ddp.state_dict())",
        'ddp.load_state_dict({"module.weight": ddp.module.weight})',
        "load_state_dict different things",
        "'module.bias'",
    ),
    "a checkpoint without a key": (
        'dcp.load({"w": torch.zeros(2)}, checkpoint_id=sys.argv[1])',
        'dcp.load({"v": torch.zeros(2)}, checkpoint_id=sys.argv[1])',
        "ranks:dict_keys([1])",
        "Missing key in checkpoint state_dict: v",
    ),
    "another state to save": (
        'dcp.save({"w": torch.zeros(2)}, checkpoint_id=sys.argv[1])',
        'dcp.save({"w": torch.zeros(2), "v": 1}, checkpoint_id=sys.argv[1])',
        "save different things",
        "v: int",
    ),
}


def test_arguments_that_differ_or_are_wrong_in_one_process(job, tmp_path):
    """Each gives an error on both, with what is wrong where, and the processes are in step after it."""
    cases = "\n".join(
        f"""
try:
    if rank == 0:
        {left}
    else:
        {right}
except (Exception, dcp.CheckpointException) as error:
    found[{name!r}] = str(error)
dist.all_reduce(torch.ones(1))
"""
        for name, (left, right, *_) in TOGETHER.items()
    )
    head = """
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

DDP = nn.parallel.DistributedDataParallel
dist.init_process_group(timeout=timedelta(seconds=30))
mesh, found = init_device_mesh("cpu", (2,)), {}
split, ddp = distribute_tensor(torch.ones(4), mesh, [Shard(0)]), DDP(nn.Linear(2, 2))
net = nn.Sequential(nn.Linear(2, 2))
split_net = parallelize_module(nn.Linear(2, 2), mesh, ColwiseParallel())
dcp.save({"w": torch.ones(2)}, checkpoint_id=sys.argv[1])
"""
    first, second = job(f"{head}{cases}\nprint(json.dumps(found))", str(tmp_path / "c")).values()
    assert {*first} == {*second} == {*TOGETHER}
    for name, (*_, one, two) in TOGETHER.items():
        assert one in first[name] and two in first[name], (name, first[name])
