"""Collectives of real processes, compared with PyTorch's on Gloo."""

import json
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(("cases", "count"), [("collective_cases", 170), ("nn_cases", 6)])
def test_equal_torch(tmp_path, started, launching, ended, cases, count):
    script = str(Path(__file__).with_name(f"{cases}.py"))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    ours, theirs = (
        started(launching(script, f"{tmp_path}/ours")),
        started([*torchrun, script, f"{tmp_path}/torch"]),
    )
    for process in (theirs, ours):
        found = ended(process)
        assert found.status == 0, found.err
    for rank in range(2):
        left, right = (json.loads((tmp_path / f"{name}{rank}").read_text()) for name in ("ours", "torch"))
        assert len(right) >= count
        different = {n: (left.get(n), right[n]) for n in right if str(left.get(n)) != str(right[n])}
        assert not different


def test_what_gloo_lacks(job):
    found = job(
        """
dist.init_process_group("cpu:gloo,cuda:nccl")
names = [dist.get_backend(), dist.group.WORLD.name()]
dist.destroy_process_group()
dist.init_process_group("xla")
t = torch.tensor([1.0, 2.0]) + rank
dist.all_reduce(t, dist._make_nccl_premul_sum(3.0))
i = torch.tensor([4, 5], dtype=torch.int16) + rank
dist.all_reduce(i)
outs = [torch.zeros(n) for n in ((1, 3), (2, 1))[rank]]
dist.all_to_all(outs, [torch.full((n,), 10.0 * rank + n) for n in ((1, 2), (3, 1))[rank]])
try:
    dist.all_to_all_single(torch.zeros(3), torch.zeros(3))
except RuntimeError as error:
    names.append(str(error))
print(json.dumps([names, t.tolist(), i.tolist(), [o.tolist() for o in outs]]))
"""
    ).values()
    names = ["cpu:gloo,cuda:nccl", "gloo", "Tensor's dim 0 does not divide equally across group size"]
    assert found == [
        [names, [9.0, 15.0], [9, 11], [[1.0], [13.0, 13.0, 13.0]]],
        [names, [9.0, 15.0], [9, 11], [[2.0, 2.0], [11.0]]],
    ]


def test_training_with_gradients_summed_by_hand(job):
    """The parameters after some steps are those of one process with the whole batch; those that XLA computed last are
    not touched by the next step, which donates."""
    found = job(
        """
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
x, y = torch.randn(16, 8, dtype=torch.float64), torch.randn(16, 1, dtype=torch.float64)
alone = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
alone.load_state_dict(model.state_dict())
dist.init_process_group()
world = dist.get_world_size()
opts = [torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (model, alone)]
for p in model.parameters():
    dist.broadcast(p.data, 0)
for step in range(6):
    for m, opt, own in ((model, opts[0], slice(rank * 8, rank * 8 + 8)), (alone, opts[1], slice(None))):
        opt.zero_grad()
        loss = ((m(x[own]) - y[own]) ** 2).mean()
        loss.backward()
        if m is model:
            works = [dist.all_reduce(p.grad, dist.ReduceOp.AVG, async_op=True) for p in m.parameters()]
            for work in works:
                work.wait()
        opt.step()
print(json.dumps(max((a - b).abs().max().item() for a, b in zip(model.parameters(), alone.parameters()))))
"""
    ).values()
    assert all(difference < 1e-12 for difference in found)


def test_a_tensor_may_be_written_after(job):
    """Who only gives a tensor waits, too: the program reads its memory, which a numpy array may share."""
    found = job(
        """
import numpy as np
dist.init_process_group()
wrong = 0
for size in (4, 1000, 4000):
    shared = np.zeros(size, np.float32)
    for n in range(30):
        shared[:] = n
        t = torch.from_numpy(shared)
        if rank == 0:
            dist.broadcast(t, 0)
            dist.gather(t, dst=1)
        else:
            got, parts = torch.zeros(size), [torch.zeros(size), torch.zeros(size)]
            dist.broadcast(got, 0)
            dist.gather(t, parts, dst=1)
            wrong += int((got != n).sum()) + int((parts[0] != n).sum())
        shared[:] = -1
print(json.dumps(wrong))
"""
    )
    assert found.values() == [0, 0]


def test_groups_of_some_of_four(job):
    found = job(
        """
dist.init_process_group()
half, every = dist.new_subgroups(2)
t = torch.tensor([float(rank)])
dist.all_reduce(t, group=half)
odd = dist.new_group([3, 1])
o = torch.tensor([float(rank)])
if rank % 2:
    dist.broadcast(o, src=3, group=odd)
    message = torch.zeros(1)
    if rank == 1:
        dist.send(o + 1, 3, group=odd)
    else:
        print(dist.recv(message, 1, group=odd))
print(json.dumps([t.item(), o.item(), dist.get_process_group_ranks(half), dist.get_rank(half)]))
""",
        nproc=4,
    )
    assert found.values() == [[1, 0, [0, 1], 0], [1, 3, [0, 1], 1], [5, 2, [2, 3], 0], [5, 3, [2, 3], 1]]
    assert found.of(3)[0] == "1"
