"""DistributedDataParallel in several processes: a script gives PyTorch's numbers, which are computed beside."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

SCRIPT = """
import json
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

nn, F = torch.nn, torch.nn.functional
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)  # the parameters of rank 0 count
net = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5)).double()
model = DDP(net)
opt = torch.optim.Adam(model.parameters(), lr=0.01)
losses = []
for i in range(6):
    g = torch.Generator().manual_seed(100 * i + rank)
    x, y = torch.randn(20, 10, generator=g).double(), torch.randint(0, 5, (20,), generator=g)
    if i % 3:
        opt.zero_grad()
    with model.no_sync() if i == 2 else torch.enable_grad():
        out = model(x)
        assert out.shape == (20, 5)
        loss = F.cross_entropy(out, y)
        loss.backward()
    if i != 2:  # two batches for one step
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
    losses.append(loss.item())
total = torch.tensor(losses)
dist.all_reduce(total)
weights = [p.detach().double().sum().item() for p in model.parameters()]
running = [b.double().sum().item() for b in model.buffers()] if rank == 0 else []
model.eval()
with torch.no_grad():
    alone = model.module(torch.ones(3, 10).double()).sum().item() if rank == 0 else 0.0
print(json.dumps([losses, total.tolist(), weights, running, alone]), flush=True)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def want(tmp_path_factory):
    """What PyTorch gives, in two processes of its own."""
    path = tmp_path_factory.mktemp("torch") / "script.py"
    path.write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(path)]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    for _ in range(5):  # PyTorch's own processes abort now and then as they end
        ran = subprocess.run(command, env=kept, capture_output=True, text=True, timeout=300)
        if ran.returncode == 0:
            break
    assert ran.returncode == 0, ran.stderr
    found, at = [], ran.stdout.find("[[")  # two processes may write into one line
    while at >= 0:
        one, end = json.JSONDecoder().raw_decode(ran.stdout, at)
        found.append(one)
        at = ran.stdout.find("[[", end)
    return sorted(found, key=lambda one: not one[3])  # that of rank 0 has buffers


@pytest.mark.parametrize("devices", [1, 2])
def test_a_script_gives_pytorchs_numbers(job, want, devices):
    found = job(SCRIPT, options=(f"--devices-per-proc={devices}",)).values()
    for mine, theirs in zip(found, want, strict=True):
        for got, expected in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)
