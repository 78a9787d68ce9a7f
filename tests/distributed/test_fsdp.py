"""Fully sharded training in several processes: a script gives PyTorch's numbers, and those of one device."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import functorch_port as ft

TRAIN = """
import json, os
import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

nn, F = torch.nn, torch.nn.functional


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 16), nn.Linear(16, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(16, 8), nn.Linear(8, 6)
        self.places = nn.Embedding(8, 8)
        self.blocks = nn.ModuleList([Block(8), Block(8)])

    def forward(self, x):
        x = self.embed(x) + self.places(torch.arange(x.size(1)))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def sharded(net, **options):
    for block in net.blocks:
        fully_shard(block, **options)
    return fully_shard(net, **options)


def trained(change, dtype=torch.float64, steps=20, ranks=(), make=torch.optim.AdamW, seed=0, run=lambda f: f):
    torch.manual_seed(seed)
    net = change(Net().to(dtype))
    opt = make(net.parameters(), lr=0.01)
    losses = []

    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        opt.zero_grad()
        return loss

    step = run(step)
    for i in range(steps):
        parts = []
        for rank in ranks:
            g = torch.Generator().manual_seed(100 * i + rank)
            parts.append((torch.randint(0, 16, (4, 5), generator=g), torch.randint(0, 6, (4,), generator=g)))
        losses.append(step(*(torch.cat(both) for both in zip(*parts))).item())
    return net, opt, losses


def whole(net):
    found = [p.detach() for p in net.parameters()]
    return [(p.full_tensor() if hasattr(p, "full_tensor") else p).numpy() for p in found]


def told(net, losses):
    return [losses, [p.tolist() for p in whole(net)]]
"""
SCRIPT = f"""{TRAIN}
dist.init_process_group("gloo")
net, opt, losses = trained(sharded, ranks=[dist.get_rank()])
print(json.dumps(told(net, losses)), flush=True)
dist.barrier()
dist.destroy_process_group()
"""
#: what has only one process in the library, and the checks of several
HERE = f"""{TRAIN}
import jax


def bytes_here(tensors):
    found = {{}}
    for t in tensors:
        for part in t._value.addressable_shards:
            found[part.device.id] = found.get(part.device.id, 0) + part.data.nbytes
    return sorted(found.values())


def state_of(opt):
    return [t for entries in opt.state.values() for t in entries.values() if t.dim()]


def has_all(t):
    return getattr(t._look(), "is_fully_addressable", True)


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
"""


def alone(count, steps=20, dtype="float64"):
    """The losses and weights of one device with the batches of all."""
    space = {"torch": ft}
    exec(
        TRAIN.replace("torch.distributed", "functorch_port.distributed").replace("import torch\n", ""), space
    )
    net, _, losses = space["trained"](lambda net: net, getattr(ft, dtype), steps, range(count))
    return space["told"](net, losses)


def compare(found, want, tol=1e-10):
    """The mean of the processes' losses, and the weights of each."""
    np.testing.assert_allclose(np.mean([losses for losses, _ in found], 0), want[0], tol, tol)
    for _, weights in found:
        for a, b in zip(weights, want[1], strict=True):
            np.testing.assert_allclose(a, b, tol, tol)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
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
    return found


def test_two_processes_of_two_devices_give_pytorchs_numbers(job, theirs):
    want = alone(2)
    compare(theirs, want)
    script = f"""{HERE}
net, opt, losses = trained(sharded, ranks=[rank])
size = sum(p.numel() * 8 for p in net.parameters())
split = sum(p.numel() * 8 for p in net.parameters() if p.shape != (6,)) / 4 + 6 * 8  # 4 devices do not share 6
assert bytes_here(net.parameters()) == [split] * 2 and bytes_here(state_of(opt)) == [2 * split] * 2
low = trained(sharded, torch.float32, ranks=[rank])

by_process = lambda net: sharded(net, mesh=init_device_mesh("cpu", (2,)))  # their devices have the same
other, _, other_losses = trained(by_process, steps=3, ranks=[rank])
assert bytes_here(other.parameters()) == [size / 2] * 2

torch.manual_seed(0)  # rows that a process's devices cannot share, their gradient, an index of a device
one, three = nn.Linear(8, 8).double(), fully_shard(nn.Linear(8, 8).double())
three.load_state_dict(one.state_dict())
x = torch.randn(3, 8, generator=torch.Generator().manual_seed(rank)).double().requires_grad_()
y = x.detach().clone().requires_grad_()
(three(x).to(f"cpu:{{rank}}") ** 3).mean().backward()
(one(y) ** 3).mean().backward()
np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), 1e-10)
mean = one.weight.grad.clone()
dist.all_reduce(mean)
np.testing.assert_allclose(three.weight.grad.full_tensor().numpy(), mean.numpy() / 2, 1e-9, 1e-12)
print(json.dumps([told(net, losses), told(low[0], low[2]), told(other, other_losses)]))
"""
    found = job(script, options=("--devices-per-proc=2",)).values()
    full, low, other = zip(*found, strict=True)
    compare(full, want)
    for mine, wanted in zip(full, sorted(theirs, key=lambda one: one[0] != full[0][0]), strict=False):
        np.testing.assert_allclose(mine[1][0], wanted[1][0], 1e-10, 1e-12)
    compare(low, want, 1e-5)
    compare(other, alone(2, 3))


def test_states_of_two_processes(job, tmp_path):
    script = f"""{HERE}
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
import torch.distributed.checkpoint as dcp
from torch.distributed.fsdp import FullOptimStateDictConfig, FullStateDictConfig, StateDictType
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.optim import ZeroRedundancyOptimizer

path = {str(tmp_path / "saved")!r}
same = lambda a, b: [np.testing.assert_array_equal(x, y) for x, y in zip(whole(a), whole(b), strict=True)]

# the older wrapper; the values of the first process count
wrap = lambda net: FSDP(net, None, auto_wrap_policy=ModuleWrapPolicy({{Block}}), sync_module_states=True)
net, opt, losses = trained(wrap, steps=3, ranks=[rank], seed=rank)
only = FullStateDictConfig(offload_to_cpu=True, rank0_only=True), FullOptimStateDictConfig(rank0_only=True)
with FSDP.state_dict_type(net, StateDictType.FULL_STATE_DICT, *only):
    state, moments = net.state_dict(), FSDP.optim_state_dict(net, opt)
    assert (len(state), len(moments)) == ((12, 2) if rank == 0 else (0, 0))
    assert all(has_all(t) for t in state.values())
    opt.load_state_dict(FSDP.optim_state_dict_to_load(net, opt, moments))
with FSDP.state_dict_type(net, StateDictType.SHARDED_STATE_DICT):
    net.load_state_dict(net.state_dict())
before = whole(net)
with FSDP.summon_full_params(net):
    assert all(p.numpy().shape == p.shape for p in map(torch.Tensor.detach, net.parameters()))
    for p in net.parameters():
        p.data.mul_(2)
assert all((2 * a == b).all() for a, b in zip(before, whole(net), strict=True))
with FSDP.summon_full_params(net, writeback=False, rank0_only=True):
    for p in net.parameters():
        p.data.mul_(2)
assert all((2 * a == b).all() for a, b in zip(before, whole(net), strict=True))
assert not any(has_all(p) or p._value.is_fully_replicated for p in net.parameters())
for p in net.parameters():
    p.data.div_(2)
first = told(net, losses)

# the blocks are compiled first
def of_compiled(net):
    net.blocks = nn.ModuleList([torch.compile(block) for block in net.blocks])
    return sharded(net)


net, opt, losses = trained(of_compiled, steps=3, ranks=[rank])
assert [block.compiled.traces for block in net.blocks] == [1, 1]
parts = told(net, losses)

# the optimizer's state alone is split
ddp = lambda net: nn.parallel.DistributedDataParallel(net)
zero = lambda params, lr: ZeroRedundancyOptimizer(params, torch.optim.AdamW, lr=lr)
net, opt, losses = trained(ddp, steps=3, ranks=[rank], make=zero)
assert bytes_here(state_of(opt))[0] == sum(p.numel() * 8 for p in net.parameters())
opt.consolidate_state_dict(to=1)
moments = [t for entries in opt.state_dict()["state"].values() for t in entries.values() if t.dim()]
assert all(has_all(t) == (rank == 1) for t in moments)
second = told(net, losses)
try:
    zero(Net().parameters(), 0.1)
except NotImplementedError as error:
    assert "after DistributedDataParallel" in str(error)

# states by names, and a checkpoint
net, opt, losses = trained(sharded, steps=3, ranks=[rank])
state, moments = get_state_dict(net, opt, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
assert bool(state) == bool(moments) == (rank == 0)
dcp.save({{"net": net, "opt": opt}}, checkpoint_id=path)
for way in ("names", "checkpoint"):
    torch.manual_seed(7)
    new = sharded(Net().double())
    its = torch.optim.AdamW(new.parameters(), lr=0.01)
    if way == "names":
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_state_dict(new, its, model_state_dict=state, optim_state_dict=moments, options=options)
    else:
        dcp.load({{"net": new, "opt": its}}, checkpoint_id=path)
    same(net, new)
    assert all((a.full_tensor() == b.full_tensor()).all() for a, b in zip(state_of(opt), state_of(its), strict=True))
print(json.dumps([first, parts, second, told(net, losses)]))
"""
    want = alone(2, 3)
    for found in zip(*job(script).values(), strict=True):
        compare(found, want)


def test_four_processes(job):
    script = f"""{HERE}
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
hybrid = trained(lambda net: sharded(net, mesh=mesh), steps=3, ranks=[rank], run=torch.compile)
assert bytes_here(hybrid[0].parameters())[0] * 2 == sum(p.numel() * 8 for p in hybrid[0].parameters())


def on_both(net):
    for block in net.blocks:
        parallelize_module(block, mesh["columns"], {{"up": ColwiseParallel(), "down": RowwiseParallel()}})
    return sharded(net, mesh=mesh["rows"])


both, again = (
    trained(on_both, steps=3, ranks=[mesh.get_local_rank("rows")], run=run) for run in (lambda f: f, torch.compile)
)
try:
    fully_shard(nn.Linear(8, 8), mesh=init_device_mesh("cpu", (2,)))
except NotImplementedError as error:
    assert "devices of 2 of 4 processes" in str(error)
lstm = fully_shard(nn.LSTM(4, 8))
first = fully_shard(nn.LSTM(4, 8, batch_first=True))
for net, x, text in ((lstm, (5, 3, 4), "dimension 0"), (first, (3, 5, 4), ""), (first, (3 + rank, 5, 4), "shapes")):
    try:
        net(torch.ones(x))
        assert not text
    except (NotImplementedError, ValueError) as error:
        assert text in str(error), error
from torch.distributed.tensor import Shard, distribute_tensor

for mine, name, total in ((mesh, "rows", [4, 6, 4, 6]), (mesh["columns"], None, [3, 3, 7, 7])):
    ranks = torch.tensor(rank + 1)
    dist.all_reduce(ranks, group=mine.get_group(name))
    assert ranks.item() == total[rank]

# indices of one process meet a tensor on a mesh of two dimensions: the gradient is on that mesh, and so it has names
table = distribute_tensor(torch.arange(64.0).reshape(8, 8), mesh, [Shard(0), Shard(1)]).requires_grad_()
(grad,) = torch.autograd.grad(table[torch.tensor([0, 3])].sum(), table)
assert grad.full_tensor().sum(1).tolist() == [8.0, 0.0, 0.0, 8.0, 0.0, 0.0, 0.0, 0.0]
print(json.dumps([told(hybrid[0], hybrid[2]), told(both[0], both[2]), told(again[0], again[2])]))
"""
    hybrid, both, again = zip(*job(script, nproc=4).values(), strict=True)
    compare(hybrid, alone(4, 3))
    compare(both, alone(2, 3))
    compare(again, alone(2, 3))
