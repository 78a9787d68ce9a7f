"""A process is killed while all save: others go on, with the losses of a run without that. Or its disk is full."""

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
from functorch_port.distributed.checkpoint import state_dict_saver as saver

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
        saver._Saving._meet = lambda self: os.kill(os.getpid(), 9)  # has written, and has not told the others
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
    (start, losses), again = job(MODEL + SCRIPT, str(folder), "6", "none").values()
    assert start == 2 and again == [start, losses]
    np.testing.assert_allclose(losses, want[3:], rtol=1e-10)
    assert names(folder) == ["4", "5"]


FULL = """
import resource
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

dist.init_process_group(timeout=timedelta(seconds=60))
path, mesh = sys.argv[1], init_device_mesh("cpu", (2,))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def state(value, size=1000):
    return {"k": value, "w": distribute_tensor(torch.full((size,), float(value)), mesh, [Shard(0)])}


def later(*args, **kwargs):
    saving = dcp.async_save(*args, **kwargs)
    dist.all_reduce(torch.ones(1))  # beside it
    return saving.result()


dcp.save(state(1), checkpoint_id=path)
found = []
for save in (dcp.save, later):
    for full in (0, 1):
        if rank == full:
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))
        start = time.monotonic()
        try:
            save(state(2, 1 << 18), checkpoint_id=path)
        except dcp.CheckpointException as error:
            notes = [note for each, _ in error.failures.values() for note in each.__notes__]
            found.append([[*error.failures], str(error), time.monotonic() - start, notes])
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        dist.barrier()
        there, old = os.listdir(os.path.dirname(path)), state(0)
        dcp.load(old, checkpoint_id=path)
        assert there == ["c"] and old["k"] == 1 and (old["w"].to_local() == 1).all(), (there, old["k"])
        dist.barrier()
later(state(3), checkpoint_id=path)
dcp.load(old, checkpoint_id=path)
print(json.dumps([old["k"], found]))
"""


def test_a_full_disk_of_one(job, tmp_path):
    """All raise at once an error that names it; the former checkpoint stays, nothing else, and the next is whole."""
    (tmp_path / "run").mkdir()
    for value, found in job(FULL, str(tmp_path / "run" / "c")).values():
        assert value == 3 and [ranks for ranks, *_ in found] == [[0], [1], [0], [1]]
        for _, text, seconds, notes in found:
            assert "File too large" in text and seconds < 10
            assert "The former checkpoint, if any, is unchanged" in notes[0]
