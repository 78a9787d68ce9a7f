"""Horovod's names in two processes: training is that of one process with the batches of both."""

import sys

import numpy as np
import torch

nn, F = torch.nn, torch.nn.functional

SCRIPT = """
import horovod.torch as hvd

F, nn = torch.nn.functional, torch.nn
hvd.init()
assert hvd.is_initialized() and (hvd.rank(), hvd.size()) == (rank, 2)
assert (hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()) == (rank, 2, 0, 1)

# --- values
x = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64) * (rank + 1)
assert hvd.allreduce(x).tolist() == [1.5, 3.0, 6.0] and x.tolist()[0] == rank + 1
assert hvd.allreduce(x, average=False).tolist() == hvd.allreduce(x, op=hvd.Sum).tolist() == [3.0, 6.0, 12.0]
assert hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0).tolist() == [6.0, 12.0, 24.0]
assert hvd.allreduce(x, op=hvd.Max).tolist() == [2.0, 4.0, 8.0]
assert hvd.allreduce(x, op=hvd.Product).tolist() == [2.0, 8.0, 32.0]
half = hvd.allreduce(x, compression=hvd.Compression.fp16)
assert half.dtype is torch.float64 and half.tolist() == [1.5, 3.0, 6.0]
whole = torch.tensor([1, 2, 5]) + 2 * rank
assert hvd.allreduce(whole).tolist() == [2, 3, 6]
handle = hvd.allreduce_async_(whole.clone(), op=hvd.Sum)
assert hvd.poll(handle) and hvd.synchronize(handle).tolist() == [4, 6, 12]
y, z = x.clone(), whole.clone()
hvd.grouped_allreduce_([y, z, y[:1].clone()], op=hvd.Sum)
assert y.tolist() == [3.0, 6.0, 12.0] and z.tolist() == [4, 6, 12]
assert hvd.broadcast(x, 1).tolist() == [2.0, 4.0, 8.0]
assert hvd.allgather(x[: rank + 1]).tolist() == [1.0, 2.0, 4.0]
out, received = hvd.alltoall(x, [1, 2])
assert out.tolist() == ([1.0, 2.0] if rank == 0 else [2.0, 4.0, 4.0, 8.0]), out
assert received == [rank + 1] * 2 and hvd.alltoall(x[:2]).tolist() == [float(2**rank), 2.0 * 2**rank]
assert hvd.reducescatter(x, op=hvd.Sum).tolist() == ([3.0, 6.0] if rank == 0 else [12.0])
assert hvd.allgather_object({"of": rank}) == [{"of": 0}, {"of": 1}]
assert hvd.broadcast_object(rank + 5, 1) == 6

# --- gradients
w = x.clone().requires_grad_()
def grad(made):
    return torch.autograd.grad((made * (rank + 1)).sum(), w)[0].tolist()
assert grad(hvd.allreduce(w, op=hvd.Sum)) == [3.0] * 3
assert grad(hvd.allgather(w)) == [1.5] * 3
assert grad(hvd.broadcast(w, 0)) == ([1.5] * 3 if rank == 0 else [0.0] * 3)
assert grad(hvd.alltoall(w, [1, 2])[0]) == [1.0, 2.0, 2.0]

# --- training
def trained(**how):
    torch.manual_seed(rank)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    for p in net.parameters():
        if rank == 0:
            torch.nn.init.constant_(p, 0.1)
    with torch.no_grad():
        net[0].weight += torch.arange(48.0).view(8, 6).double() / 50 * (1 - rank)
    opt = torch.optim.AdamW(net.parameters(), lr=0.05 * (1 + rank), weight_decay=0.1)
    opt = hvd.DistributedOptimizer(opt, named_parameters=net.named_parameters(), **how)
    assert isinstance(opt, torch.optim.AdamW)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(opt, root_rank=0)
    for i in range(6):
        for part in range(how.get("backward_passes_per_step", 1)):
            g = torch.arange(4 * 6).double().view(4, 6) * 0.37 + 3 * i + 100 * part + 7 * rank
            F.cross_entropy(net(g.sin()), (torch.arange(4) + i + rank + part) % 3).backward()
        if i % 2:
            opt.synchronize()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            with opt.skip_synchronize():
                opt.step()
        else:
            opt.step()
        opt.zero_grad()
        schedule.step()
    return [p.detach().flatten().tolist() for p in net.parameters()]

found = [trained(), trained(backward_passes_per_step=2, gradient_predivide_factor=2.0)]


# --- what is refused
def refused(error, fn, text):
    try:
        fn()
    except error as raised:
        assert text in str(raised), raised
    else:
        raise AssertionError(text)
net = nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), 0.1)
refused(NotImplementedError, lambda: hvd.allreduce(x, op=hvd.Adasum), "Average")
refused(NotImplementedError, lambda: hvd.SyncBatchNorm, "DistributedDataParallel")
refused(ValueError, lambda: hvd.DistributedOptimizer(opt, [("a", net.weight)]), "not named")
refused(ValueError, lambda: hvd.DistributedOptimizer(opt, [("a", net.weight), ("a", net.bias)]), "duplicates: a")
lbfgs = torch.optim.LBFGS(net.parameters())
refused(NotImplementedError, lambda: hvd.DistributedOptimizer(lbfgs), "loss")
assert hvd.join() == 1
hvd.barrier()
hvd.shutdown()
assert not hvd.is_initialized()
print(json.dumps(found), flush=True)
"""


def trained(passes: int) -> list[np.ndarray]:
    """PyTorch's training in one process with the batches of both."""
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    for p in net.parameters():
        nn.init.constant_(p, 0.1)
    with torch.no_grad():
        net[0].weight += torch.arange(48.0).view(8, 6).double() / 50
    opt = torch.optim.AdamW(net.parameters(), lr=0.05, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
    for i in range(6):
        for part in range(passes):
            for rank in range(2):
                g = torch.arange(4 * 6).double().view(4, 6) * 0.37 + 3 * i + 100 * part + 7 * rank
                (F.cross_entropy(net(g.sin()), (torch.arange(4) + i + rank + part) % 3) / 2).backward()
        if i % 2:
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        opt.zero_grad()
        schedule.step()
    return [p.detach().flatten().numpy() for p in net.parameters()]


def test_horovods_names_in_two_processes(job):
    first, second = job(SCRIPT).values()
    assert first == second
    for found, passes in zip(first, (1, 2), strict=True):
        for got, want in zip(found, trained(passes), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


def test_without_a_launcher_there_is_one_process(started, ended, script):
    text = """
import horovod.torch as hvd
hvd.init()
net = torch.nn.Linear(2, 1)
opt = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1), net.named_parameters())
hvd.broadcast_parameters(list(net.named_parameters()), 0)
net(torch.ones(3, 2)).sum().backward()
opt.step()
print(hvd.rank(), hvd.size(), hvd.local_rank(), hvd.cross_size())
"""
    found = ended(started([sys.executable, "-m", "functorch_port", "run", script(text)]))
    assert found.out.split() == ["0", "1", "0", "1"], found.err
