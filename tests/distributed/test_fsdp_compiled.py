"""Fully sharded training compiled, each of several processes with its own batch: the numbers of an eager run."""

CASES = """
import json
import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.tensor import DTensor, Shard
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint

nn, F = torch.nn, torch.nn.functional
dist.init_process_group("gloo")
rank, eager = dist.get_rank(), lambda f: f


class Block(nn.Module):
    def __init__(self, norm=nn.Identity, dropout=0.0, again=False):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(8, 16), norm(16), nn.Linear(16, 8)
        self.drop, self.again = nn.Dropout(dropout), again

    def forward(self, x):
        inner = lambda x: self.down(self.drop(F.gelu(self.norm(self.up(x)))))
        return x + (checkpoint(inner, x, use_reentrant=False) if self.again else inner(x))


class Net(nn.Module):
    def __init__(self, *options):
        super().__init__()
        self.blocks, self.head = nn.ModuleList([Block(*options), Block(*options)]), nn.Linear(8, 6)

    def forward(self, x, target=None):
        for block in self.blocks:
            x = block(x)
        return self.head(x) if target is None else F.cross_entropy(self.head(x), target)


def net_of(*options, **how):
    torch.manual_seed(0)
    net = Net(*options).double()
    for block in net.blocks:
        fully_shard(block, **how)
    return fully_shard(net, **how)


def batch(i, rows=4, of=None):
    g = torch.Generator().manual_seed(100 * i + (rank if of is None else of))
    return torch.randn(rows, 8, generator=g).double(), torch.randint(0, 6, (rows,), generator=g)


def whole(t):
    t = t.detach()
    return (t.full_tensor() if isinstance(t, DTensor) else t).tolist()


def left(net, *more):
    return [*(whole(t) for t in (*net.parameters(), *net.buffers())), *more]


def trained(net, compiled, loss_of=lambda net, x, y: F.cross_entropy(net(x), y), batches=batch):
    opt = torch.optim.AdamW(net.parameters(), lr=0.01)

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
        losses += [found.item() for found in step(*batches(i))]
    if compiled is not eager:
        assert step.traces == 1, step.reasons
    return left(net, losses, [whole(p.grad) for p in net.parameters()])


def units(compiled):
    return trained(net_of(), compiled)


def batch_norm_and_checkpoints(compiled):
    return trained(net_of(nn.BatchNorm1d, 0.0, True, reshard_after_forward=True), compiled)


def sync_batch_norm(compiled):
    return trained(net_of(nn.SyncBatchNorm), compiled)


def low_precision(compiled):
    policy = MixedPrecisionPolicy(param_dtype=torch.float32)
    return trained(net_of(mp_policy=policy), compiled)


def wrapper_on_a_mesh_of_processes(compiled):
    torch.manual_seed(0)
    return trained(FSDP(Net().double(), device_mesh=init_device_mesh("cpu", (2,))), compiled)


def hybrid(compiled):
    return trained(net_of(mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))), compiled)


def rows_that_devices_cannot_share(compiled):
    return trained(net_of(), compiled, batches=lambda i: batch(i, 3))


def loss_in_the_model(compiled):
    return trained(net_of(), compiled, lambda net, x, y: net(x, y))


def loss_with_weights_and_a_mean(compiled):
    def loss_of(net, x, y):
        loss = F.cross_entropy(net(x), y)
        told = loss.detach().clone()
        dist.all_reduce(told)
        return loss * 2 + 1e-2 * told

    return trained(net_of(), compiled, loss_of)


def beside_a_model_of_ddp(compiled):
    torch.manual_seed(1)
    return trained(nn.Sequential(DDP(nn.Linear(8, 8).double()), net_of()), compiled)


def accumulation(compiled):
    net = net_of()
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    @compiled
    def step(x, y, x2, y2):
        opt.zero_grad()
        net.set_requires_gradient_sync(False)
        first = F.cross_entropy(net(x), y)
        first.backward()
        net.set_requires_gradient_sync(True)
        second = F.cross_entropy(net(x2), y2)
        second.backward()
        opt.step()
        return first + second

    @compiled
    def backward(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        return loss

    losses = [step(*batch(i), *batch(i + 10)).item() for i in range(2)]
    for i in range(2):
        opt.zero_grad()
        losses += [backward(*batch(i)).item(), backward(*batch(i + 7)).item()]
        opt.step()
    return left(net, losses)


def module(compiled):
    net = net_of()
    opt, run, losses = torch.optim.SGD(net.parameters(), lr=0.1), compiled(net), []
    for i in range(2):
        x, y = batch(i)
        opt.zero_grad()
        loss = F.cross_entropy(run(x.requires_grad_()), y)
        loss.backward()
        opt.step()
        losses += [loss.item(), x.grad.tolist()]
    with torch.no_grad():
        losses += [run(batch(9)[0]).tolist(), run(batch(9)[0]).tolist()]
    return left(net, *losses)


def scaler(compiled):
    net = net_of()
    opt, scaler = torch.optim.SGD(net.parameters(), lr=0.1), ShardedGradScaler(init_scale=8.0, growth_interval=2)

    @compiled
    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        return loss

    return left(net, [step(*batch(i)).item() for i in range(4)], scaler.get_scale())


def state_of_the_process(compiled):
    net, seen, total = net_of(), [], torch.zeros(()).double()

    @compiled
    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        total.add_(loss.detach())
        seen.append(loss.detach())
        return x * net.head.bias.detach().sum()

    out = [step(*batch(i)).tolist() for i in range(2)]
    return [*out, total.item(), [loss.item() for loss in seen]]
"""

HERE = """
found = {}
names = %r
for name in names:
    want, got = globals()[name](eager), globals()[name](torch.compile)
    flat = lambda x: sum(map(flat, x), []) if isinstance(x, list) else [x]
    want, got = np.array(flat(want), float), np.array(flat(got), float)
    assert want.shape == got.shape, name
    found[name] = float(np.abs(want - got).max())
print(json.dumps(found))
"""

NAMES = (
    "units",
    "batch_norm_and_checkpoints",
    "sync_batch_norm",
    "low_precision",
    "wrapper_on_a_mesh_of_processes",
    "hybrid",
    "rows_that_devices_cannot_share",
    "loss_in_the_model",
    "loss_with_weights_and_a_mean",
    "beside_a_model_of_ddp",
    "accumulation",
    "module",
    "scaler",
    "state_of_the_process",
)


def test_the_numbers_of_an_eager_run(job):
    for found in job(CASES + HERE % (NAMES,), options=("--devices-per-proc=2",)).values():
        for name, most in found.items():
            assert most < (1e-5 if name == "low_precision" else 1e-10), name
