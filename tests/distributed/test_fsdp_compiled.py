"""Fully sharded training compiled, each of several processes with its own batch: the numbers of an eager run."""

HEAD = """
import json
import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint

nn, F = torch.nn, torch.nn.functional
dist.init_process_group("gloo")
rank, eager = dist.get_rank(), lambda f: f


def batch(i, rows=4):
    g = torch.Generator().manual_seed(100 * i + rank)
    return torch.randn(rows, 8, generator=g).double(), torch.randint(0, 6, (rows,), generator=g)
"""
CASES = """

class Net(nn.Module):
    def __init__(self, norm=nn.Identity, again=False):
        super().__init__()
        self.up, self.norm, self.down, self.head = nn.Linear(8, 16), norm(16), nn.Linear(16, 8), nn.Linear(8, 6)
        self.again = again

    def forward(self, x, target=None):
        inner = lambda x: F.gelu(self.norm(self.up(x)))
        x = self.head(self.down(checkpoint(inner, x, use_reentrant=False) if self.again else inner(x)))
        return x if target is None else F.cross_entropy(x, target)


def net_of(*options, **how):
    torch.manual_seed(0)
    net = Net(*options).double()
    return fully_shard([net.down], **how) and fully_shard(net, **how)


def whole(t):
    t = t.detach()
    return (t.full_tensor() if isinstance(t, DTensor) else t).tolist()


def left(net, *more):
    return [*(whole(t) for t in (*net.parameters(), *net.buffers())), *more]


def trained(net, compiled, loss_of):
    opt = torch.optim.AdamW(net.parameters(), lr=0.01, eps=1e-5)

    @compiled
    def step(x, y):
        opt.zero_grad()
        loss = loss_of(net, x, y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        return loss, norm

    losses = []
    for i in range(3):
        if i == 2:
            opt.param_groups[0]["lr"] = 0.02
        losses += [found.item() for found in step(*batch(i))]
    assert compiled is eager or step.traces == 1, step.reasons
    return left(net, losses, [whole(p.grad) for p in net.parameters()])


def step_as_people_write_it(compiled):
    def loss_of(net, x, y):
        loss = F.cross_entropy(net(x), y)
        told = loss.detach().clone()
        dist.all_reduce(told)
        return loss * 2 + 1e-2 * told

    return trained(net_of(nn.BatchNorm1d, True, reshard_after_forward=True), compiled, loss_of)


def hybrid_beside_ddp(compiled):
    torch.manual_seed(1)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    both = nn.Sequential(DDP(nn.Linear(8, 8).double()), net_of(nn.SyncBatchNorm, mesh=mesh))
    return trained(both, compiled, lambda net, x, y: F.cross_entropy(net(x), y))


def wrapper_and_scaler(compiled):
    torch.manual_seed(0)
    net = FSDP(Net().double(), device_mesh=init_device_mesh("cpu", (2,)))  # a position is a process
    opt, scaler = torch.optim.SGD(net.parameters(), lr=0.1), ShardedGradScaler("cpu", 8.0, growth_interval=2)
    scaler.scale(torch.zeros(()).double())  # it makes its state when it is first used

    @compiled
    def step(x, y):
        opt.zero_grad()
        for part in (slice(2), slice(2, 4)):  # gradients are added up
            loss = net(x[part], y[part])  # in the model: the mean of all
            scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        return loss

    losses = [step(*batch(i)).item() for i in range(3)]
    assert compiled is eager or step.traces == 1, step.reasons
    return left(net, losses, scaler.get_scale())


def module(compiled):
    net = net_of(nn.Identity, False, reshard_after_forward=True)
    opt, run, losses = torch.optim.SGD(net.parameters(), lr=0.1), compiled(net), []
    for i in range(2):
        opt.zero_grad()
        for k in range(2):
            x, y = batch(2 * i + k, 3)  # the devices of a process cannot share it
            loss = F.cross_entropy(run(x.requires_grad_()), y)
            loss.backward()
            losses += [loss.item(), x.grad.tolist()]
        opt.step()
    with torch.no_grad():
        losses += [run(batch(9, 3)[0]).tolist()]
    return left(net, *losses)


def state_of_the_process(compiled):
    net, seen, total = fully_shard(nn.Linear(8, 6).double()), [], torch.zeros(()).double()

    @compiled
    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        total.add_(loss.detach())
        seen.append(loss.detach())
        return x * net.bias.detach().sum()

    return [*(step(*batch(i)).tolist() for i in range(2)), total.item(), [loss.item() for loss in seen]]


found = {}
for case in (step_as_people_write_it, hybrid_beside_ddp, wrapper_and_scaler, module, state_of_the_process):
    torch.manual_seed(2)
    want = case(eager)
    torch.manual_seed(2)
    got = case(torch.compile)
    flat = lambda x: sum(map(flat, x), []) if isinstance(x, list) else [x]
    want, got = np.array(flat(want), float), np.array(flat(got), float)
    assert want.shape == got.shape, case
    found[case.__name__] = float(np.abs(want - got).max())
print(json.dumps(found))
"""

REST = """
found = {}

def refused(name, f, *args):
    try:
        f(*args)
        found[name] = ""
    except (RuntimeError, ValueError) as error:
        found[name] = str(error)


class Odd(nn.Module):
    def __init__(self, forward, inner=None):
        super().__init__()
        self.linear, self.do, self.inner = nn.Linear(8, 8).double(), forward, inner

    def forward(self, *args):
        return self.do(self, *args)


def odd(forward, inner=None):
    torch.manual_seed(0)
    return fully_shard(Odd(forward, inner))


x, mesh, mask = batch(0)[0], init_device_mesh("cpu", (2,)), torch.ones(3).double()
net, compiled = odd(lambda self, x: self.linear(x)), torch.compile
masked = odd(lambda self, x, mask: self.linear(x) * mask.sum())
drop = compiled(odd(lambda self, x: F.dropout(self.linear(x))))
lstm = odd(lambda self, x: self.inner(x)[0] + self.linear(x), nn.LSTM(8, 8).double())
weight, z = net.linear.weight, DTensor.from_local(x, mesh, [Shard(0)])
refused("another argument", compiled(masked), x, mask)
refused("it made global", compiled(masked), x, DTensor.from_local(mask, mesh, [Replicate()]))
refused("global ones", compiled(lambda z, x: net(z * 2) + x.sum()), z, x)
refused("a weight outside", compiled(lambda x: (net(x) * weight.sum()).sum().backward()), x)
refused("its gradient", lambda: compiled(lambda x: (net(x) * weight.sum()).sum())(x).backward())
refused("a branch", compiled(lambda x: torch.cond(x.sum() > 0, net, lambda x: net(-x), (x,))), x)
refused("rows of no batch", compiled(odd(lambda self, x: (self.linear(x), torch.arange(8)))), x)
refused("sequences first", compiled(lstm), x[:, None])
refused("dropout", drop, x)
grid = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
partly = nn.Linear(8, 8).double()
fully_shard(partly, ignored_params={partly.bias})
refused("an ignored parameter", compiled(lambda x: partly(x).sum().backward()), x)
partly.bias.requires_grad_(False)
refused("a frozen one", compiled(lambda x: partly(x).sum().backward()), x)
refused("batches along tp", compiled(fully_shard(nn.Linear(8, 8).double(), mesh=grid["dp"])), x)
run = compiled(net)
refused("sizes", lambda: [run(x[:n]) for n in (4, 3, 4 - rank)])
torch.manual_seed(rank)
refused("seeds", compiled(lambda x: drop(x) + 1), x)
print(json.dumps(found))
"""


def test_the_numbers_of_an_eager_run(job):
    for found in job(HEAD + CASES, options=("--devices-per-proc=2",)).values():
        assert len(found) == 5
        for name, difference in found.items():
            assert difference < 1e-10, name


def test_what_is_refused(job):
    for found in job(HEAD + REST).values():
        for name, told in {
            "another argument": "has not as many rows as the first argument",
            "it made global": "",
            "global ones": "computed of global ones",
            "a weight outside": "'linear.weight' of FSDPOdd of shape (8, 8) is the same in all processes, and",
            "its gradient": "use it within the module",
            "a branch": "or call the model without compile",
            "rows of no batch": "Make it outside of the module",
            "sequences first": "have batch_first=True",
            "dropout": "",
            "batches along tp": "several processes give different values of a tensor of shape [4, 8]",
            "an ignored parameter": "or call requires_grad_(False)",
            "a frozen one": "",
            "sizes": "the processes compiled different programs",
            "seeds": "the key of a generator",
        }.items():
            message = found.pop(name)
            assert told in message and bool(told) == bool(message), (name, message)
        assert not found
