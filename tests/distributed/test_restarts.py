"""A process is killed, or its disk is full, while all save: others go on, with the losses of a run without that."""

import os

import numpy as np

import functorch_port as ft

MODEL = """
nn, F = torch.nn, torch.nn.functional


def made():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).double()
    return net, torch.optim.AdamW(net.parameters(), lr=0.05)


def batch(step):
    g = torch.Generator().manual_seed(step)
    return torch.randn(8, 6, generator=g).double(), torch.randint(0, 3, (8,), generator=g)
"""

SCRIPT = """
import torch.distributed.checkpoint as dcp
from functorch_port.interchange import _orbax

dist.init_process_group(timeout=timedelta(seconds=60))
folder, last, drill = sys.argv[1], int(sys.argv[2]), sys.argv[3]
net, opt = made()
model = nn.parallel.DistributedDataParallel(net)
checkpoints = dcp.CheckpointManager(folder, keep=2)
state = {"model": net, "optimizer": opt}
start = checkpoints.load(state)
losses, count = [], dist.get_world_size()
for step in range(0 if start is None else start + 1, last):
    x, y = (each.chunk(count)[rank] for each in batch(step))
    opt.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
    total = loss.detach().clone()
    dist.all_reduce(total, dist.ReduceOp.AVG)
    losses.append(total.item())
    if step == 3 and rank == 2 and drill == "kill":
        _orbax.Writing.wait = lambda self: os.kill(os.getpid(), 9)
    if step == 3 and rank == 0 and drill == "full":
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))
    checkpoints.async_save(step, state)
    checkpoints.wait()
print(json.dumps([start, losses]))
"""


def names(folder):
    return sorted(os.listdir(folder))


def test_two_go_on_after_one_of_four_was_killed_in_a_save(job, tmp_path):
    scope = {"torch": ft}
    exec(MODEL, scope)
    net, opt = scope["made"]()
    want = []
    for step in range(6):
        x, y = scope["batch"](step)
        opt.zero_grad()
        loss = ft.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        want.append(loss.item())
    folder = tmp_path / "run"
    found = job(MODEL + SCRIPT, str(folder), "6", "kill", nproc=4, status=1)
    assert found.seconds < 60 and "killed by SIGKILL" in found.err
    assert "2" in names(folder) and "3" not in names(folder)
    assert [name for name in names(folder) if name.startswith(".")], "the save had begun"
    (start, losses), again = job(MODEL + SCRIPT, str(folder), "6", "none").values()
    assert start == 2 and again == [start, losses]
    np.testing.assert_allclose(losses, want[3:], rtol=1e-10)
    assert names(folder) == ["4", "5"]
    # a full disk of one: all end, with its error, and what was saved before is there
    found = job(MODEL + SCRIPT, str(tmp_path / "full"), "6", "full", status=1)
    assert found.seconds < 60 and "File too large" in found.err
    assert [name for name in names(tmp_path / "full") if not name.startswith(".")] == ["1", "2"]
