"""Two processes train with batches of their own, compiled: PyTorch's numbers, one all-reduce, and what is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = str(Path(__file__).with_name("own_batch_cases.py"))


@pytest.fixture(scope="module")
def want(tmp_path_factory):
    """What PyTorch gives: of each process, by case."""
    folder = tmp_path_factory.mktemp("torch")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", SCRIPT]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    for _ in range(5):  # PyTorch's own processes abort now and then as they end
        ran = subprocess.run([*command, f"{folder}/"], env=kept, capture_output=True, text=True, timeout=300)
        if ran.returncode == 0:
            break
    assert ran.returncode == 0, ran.stderr
    return [json.loads((folder / str(rank)).read_text()) for rank in range(2)]


def close(mine, theirs):
    flat = lambda x: sum(map(flat, x), []) if isinstance(x, list) else [x]
    if not isinstance(theirs, list):
        return mine == theirs
    mine, theirs = flat(mine), flat(theirs)
    assert [x is None for x in mine] == [x is None for x in theirs]
    numbers = [[x for x in row if x is not None] for row in (mine, theirs)]
    return np.allclose(*numbers, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("devices", "cases"),
    [(1, []), (2, ["step_as_people_write_it", "parts_and_own_parameters", "batches_of_different_sizes"])],
)
def test_the_numbers_of_pytorch(started, launching, ended, want, tmp_path, devices, cases):
    options = (f"--devices-per-proc={devices}", SCRIPT, f"{tmp_path}/", *cases)
    found = ended(started(launching(*options)))
    assert found.status == 0, found.err
    for rank in range(2):
        mine = json.loads((tmp_path / str(rank)).read_text())
        assert len(mine) == (len(cases) or 14)
        wrong = {
            name: (mine[name], want[rank][name]) for name in mine if not close(mine[name], want[rank][name])
        }
        assert not wrong


REST = """
import jax
from contextlib import ExitStack
from unittest import mock
import torch.nn.functional as F
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.sharding import from_process_batch
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel as DDP
from collectives import counted, elements, text_of

nn, found = torch.nn, {}
dist.init_process_group("gloo")


def refused(name, f, *args):
    try:
        f(*args)
        found[name] = ""
    except (RuntimeError, ValueError) as error:
        found[name] = str(error)


def net(norm=nn.BatchNorm1d):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), norm(8), nn.ReLU(), nn.Linear(8, 3)).double()


def batch(seed):
    torch.manual_seed(seed)
    return torch.randn(6, 4).double(), torch.randint(0, 3, (6,))


def step_of(model, opt):
    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    return step


ddp = DDP(net())
opt = torch.optim.SGD(ddp.parameters(), lr=0.1)
step = torch.compile(step_of(ddp, opt))
x, y = batch(rank)
text = text_of(step, x, y)
size = sum(p.numel() for p in ddp.parameters()) + sum(b.numel() for b in ddp.buffers() if b.is_floating_point())
found["collectives"] = [dict(counted(text)), elements(text)["all-reduce"] - size]

adam = torch.compile(step_of(ddp, torch.optim.AdamW(ddp.parameters())))
adam(x, y), adam(x, y)
made = "make_array_from_callback", "make_array_from_process_local_data"
with ExitStack() as stack:
    calls = [stack.enter_context(mock.patch.object(jax, name, wraps=getattr(jax, name))) for name in made]
    adam(x, y)
found["through the host"] = sum(call.call_count for call in calls)

sync, alone, losses = nn.SyncBatchNorm.convert_sync_batchnorm(net()), net(), []
sync = DDP(sync)
steps = [step_of(m, torch.optim.SGD(m.parameters(), lr=0.1)) for m in (sync, alone)]
for i, first in enumerate((steps[0], torch.compile(steps[0]))):
    first(*batch(2 * i + rank))
    steps[1](*map(torch.cat, zip(batch(2 * i), batch(2 * i + 1))))
found["sync"] = max((a - b).abs().max().item() for a, b in zip(sync.state_dict().values(), alone.state_dict().values()))

mesh = init_device_mesh("cpu", (2,))
tp = parallelize_module(net(nn.Identity), mesh, {"0": ColwiseParallel(), "3": RowwiseParallel()})
whole = from_process_batch({"x": x}, mesh=mesh)["x"]
assert whole.placements == (Shard(0),) and (whole == DTensor.from_local(x, mesh, [Shard(0)])).all()
bias, state, own = ddp.module[0].bias, torch.ones(8).double() * rank, torch.ones(12, 1).double() * rank
compiled = torch.compile
refused("a batch that is written", compiled(lambda x: (ddp(x), bias.data.copy_(x[:2].flatten()))), x)
refused("state that differs", compiled(lambda x: (ddp(x), bias.data.copy_(state))), x)
refused("code that differs", compiled(lambda x: ddp(x) * rank), x)
refused("split weights", compiled(lambda x: (ddp(x), tp(x).sum())), x)
refused("a batch for split weights", compiled(lambda x: tp(x)), x)
refused("from_local", compiled(lambda x: DTensor.from_local(x, mesh, [Shard(0)]).sum()), x)
refused("to_local", compiled(lambda x: x.to_local().sum()), whole)
refused("a transform", torch.func.vmap(ddp), x)
refused("barrier", compiled(lambda x: dist.barrier()), x)
refused("gather", compiled(lambda x: dist.gather(x, [x] if rank == 0 else None)), x)
refused("eager and split", lambda: whole * own)
refused("eager with a gradient", lambda: whole * torch.ones(12, 1).double().requires_grad_())
refused("written", lambda: bias.data.copy_(state))

# of programs that all have run, each process runs another; what is of a process differs only at a later call
scaled = compiled(lambda x, k, is_first: ((ddp(x) if is_first else ddp(x).abs()) * k).sum().backward())
together = compiled(lambda x, k, is_first: ((tp(x) if is_first else tp(x).abs()) * k).sum().backward())
ones = torch.ones(6, 4).double()
for f in (scaled, together):
    for is_first in (True, False, True):
        f(ones, 1.0, is_first)
refused("another program later", scaled, ones, 1.0, rank == 0)
refused("another program of all later", together, ones, 1.0, rank == 0)
refused("another batch later", together, ones + rank, 1.0, True)
refused("another number later", together, ones, 1.0 + rank, True)
opt.param_groups[0]["lr"] = 0.1 + rank
refused("a number", torch.compile(step_of(ddp, opt)), x, y)
refused("a number later", lambda: [step(x, y) for _ in range(10)])
with ddp.join():
    refused("join", compiled(lambda x: ddp(x).sum()), x)
    dist.barrier()
ddp.eval()
if rank == 0:  # no communication: the others are not asked
    with torch.no_grad():
        out = [compiled(lambda x: ddp.module(x).sum())(x).item(), ddp.module(x).sum().item()]
    found["alone"] = out[0] - out[1]
dist.barrier()
print(json.dumps(found))
"""


def test_one_all_reduce_and_what_is_refused(job):
    path = str(Path(__file__).parents[1])
    for rank, found in enumerate(job(f"sys.path.insert(0, {path!r})\n{REST}").values()):
        # gradients, buffers, and of lr a digest of each, in two halves
        assert found.pop("collectives") == [{"all-reduce": 1}, 4]
        assert found.pop("through the host") == 0  # the count of steps: a call would wait for the one before
        assert found.pop("sync") < 1e-12
        assert rank or abs(found.pop("alone")) < 1e-12
        for name, told in {
            "a batch that is written": "would get values of one",
            "state that differs": "must be the same in all processes, and differs between rank 0 and rank 1",
            "code that differs": "the processes compiled different programs",
            "split weights": "only parameters of a module under",
            "a batch for split weights": "DTensor.from_local(x, mesh, [Shard(0)])",
            "from_local": "before the call",
            "to_local": "call it after",
            "a transform": "in a transform",
            "barrier": "torch.distributed.barrier in a compiled",
            "gather": "torch.distributed.gather in a compiled",
            "eager and split": "must be the same in all processes",
            "eager with a gradient": "requires a gradient",
            "written": "must be the same in all processes",
            "another program later": "the processes compiled different programs",
            "another program of all later": "the processes compiled different programs",
            "another batch later": "was not the same in all processes: a tensor of shape (6, 4). It has to be",
            "another number later": "was not the same in all processes: argument 1. It has to be",
            "a number": "the number 'lr'",
            "a number later": "this was not the same in all processes: the number 'lr'. It has to be",
            "join": "uncompiled",
        }.items():
            assert told in found.pop(name), name
        assert not found
