"""Training in two processes with the batches of each: a script for PyTorch, and for the library, which compiles it."""

import json
import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint

nn, F = torch.nn, torch.nn.functional
OURS = "functorch_port" in sys.modules
compiled = torch.compile if OURS else (lambda f: f)


def model(norm=nn.BatchNorm1d, inside=lambda net: net):
    torch.manual_seed(dist.get_rank())  # the parameters of rank 0 count
    return DDP(inside(nn.Sequential(nn.Linear(10, 16), norm(16), nn.ReLU(), nn.Linear(16, 5)).double()))


def batch(i, n=20):
    g = torch.Generator().manual_seed(100 * i + dist.get_rank())
    return torch.randn(n, 10, generator=g).double(), torch.randint(0, 5, (n,), generator=g)


def left(losses, ddp):
    running = [b.double().sum().item() for b in ddp.buffers()] if dist.get_rank() == 0 else []
    return [*losses, *(p.detach().sum().item() for p in ddp.parameters()), *running]


def step_as_people_write_it():
    ddp = model()
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)

    @compiled
    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(ddp(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(ddp.parameters(), 0.5)
        opt.step()
        return loss, norm

    losses = []
    for i in range(4):
        if i == 2:
            opt.param_groups[0]["lr"] = 0.05
        losses += [found.item() for found in step(*batch(i))]
    if OURS:
        assert step.traces == 1, step.reasons
    return left([*losses, *(p.grad.sum().item() for p in ddp.parameters())], ddp)


def accumulation_in_one_function():
    ddp = model()
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1)

    @compiled
    def step(x, y, x2, y2):
        opt.zero_grad()
        with ddp.no_sync():
            first = F.cross_entropy(ddp(x), y)
            first.backward()
        second = F.cross_entropy(ddp(x2), y2) + 1e-2 * sum(p.pow(2).sum() for p in ddp.parameters())
        second.backward()
        opt.step()
        return first + second

    return left([step(*batch(i), *batch(i + 10)).item() for i in range(2)], ddp)


def accumulation_by_calls():
    ddp = model()
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1)

    @compiled
    def backward(x, y):
        loss = F.cross_entropy(ddp(x), y)
        loss.backward()
        return loss

    losses = []
    for i in range(2):
        opt.zero_grad()
        with ddp.no_sync():
            losses.append(backward(*batch(i)).item())
        losses.append(backward(*batch(i + 7)).item())
        opt.step()
    return left(losses, ddp)


def compiled_module():
    ddp = model()
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1)
    net, losses = compiled(ddp), []
    for i in range(2):
        x, y = batch(i)
        opt.zero_grad()
        loss = F.cross_entropy(net(x.requires_grad_()), y)
        loss.backward()
        opt.step()
        losses += [loss.item(), x.grad.abs().sum().item()]
    ddp.eval()
    with torch.no_grad():
        losses += [net(batch(9)[0]).sum().item() for _ in range(2)]
    return left(losses, ddp)


def own_buffers():
    """Those of a process alone: they begin with its own values, or with those of rank 0."""
    found = []
    for how in ({"broadcast_buffers": False}, {"forward_sync_buffers": False}):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(10, 6), nn.BatchNorm1d(6)).double()
        net[1].running_mean += dist.get_rank() + 1
        ddp = DDP(net, **how)
        step = compiled(lambda x, ddp=ddp: ddp(x).pow(3).mean())
        step(batch(0)[0]).backward()
        ddp(batch(1)[0])
        ddp.eval()
        found += [step(batch(2)[0]).item(), *(b.double().sum().item() for b in ddp.buffers())]
    return found


def compiled_inside():
    """`compile` before DDP, and of a part: calls of one process, which rank 0 makes alone, too."""
    kept, found = [], []
    for whole in (True, False):

        def inside(net, whole=whole):
            if not whole:
                net[3] = compiled(net[3])
            kept.append(compiled(net) if whole else net[3])
            return kept[-1] if whole else net

        ddp = model(inside=inside)
        opt, losses = torch.optim.SGD(ddp.parameters(), lr=0.1), []
        for i in range(3):
            x, y = batch(i)
            (F.cross_entropy(ddp(x), y) + ddp(x.flip(0)).square().mean()).backward()
            opt.step()
            opt.zero_grad()
            if dist.get_rank() == 0:
                ddp.eval()
                with torch.no_grad():
                    losses.append(ddp.module(x).sum().item())
                ddp.train()
        found += left(losses, ddp)
        if OURS:
            assert kept[-1].compiled.traces <= (5 if whole else 4), kept[-1].compiled.reasons
    return found


class Parts(nn.Module):
    """One is compiled, one is computed again in the backward pass."""

    def __init__(self):
        super().__init__()
        self.fast = compiled(nn.Linear(10, 6).double())
        self.again = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3)).double()

    def forward(self, x):
        return checkpoint(self.again, self.fast(x), use_reentrant=False)


def parts_and_own_parameters():
    torch.manual_seed(0)
    ddp, head = DDP(Parts()), nn.Linear(3, 1).double()
    head.weight.data += dist.get_rank()
    opt = torch.optim.SGD([*ddp.parameters(), *head.parameters()], lr=0.1, momentum=0.9)
    losses = []
    for i in range(3):
        opt.zero_grad()
        loss = head(ddp(batch(i)[0])).square().mean()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return left([*losses, head.weight.sum().item()], ddp)


def batches_of_different_sizes():
    ddp = model()
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1)
    losses = []
    for i in range(2):
        x, y = batch(i, 10 + 3 * dist.get_rank())
        opt.zero_grad()
        loss = F.cross_entropy(ddp(x), y) + 1e-2 * sum(p.pow(2).sum() for p in ddp.parameters())
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return left(losses, ddp)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.always, self.sometimes, self.never = (nn.Linear(3, 1).double() for _ in range(3))

    def forward(self, x, both):
        return self.always(x) + self.sometimes(x) if both else self.always(x)


def unused_parameters():
    torch.manual_seed(0)
    ddp = DDP(Branches(), find_unused_parameters=True)
    out = ddp(torch.ones(2, 3).double(), dist.get_rank() == 1)
    (out * ddp.module.always.bias).sum().backward()  # used by itself, too
    return [None if p.grad is None else p.grad.sum().item() for p in ddp.parameters()]


def joined(**how):
    ddp = model()
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1)
    losses = []
    with ddp.join(**how):
        for i in range(2 + 2 * dist.get_rank()):
            x, y = batch(i, 7 if i == 3 else 10)
            opt.zero_grad()
            loss = F.cross_entropy(ddp(x), y)
            loss.backward()
            opt.step()
            losses.append(loss.item())
    return left(losses, ddp)


class Counter(Joinable):
    """Counts the steps of all processes."""

    def __init__(self):
        super().__init__()
        self.count, self.last = 0.0, None

    def add(self, mine):
        total = torch.tensor([mine])
        dist.all_reduce(total)
        self.count += total.item()

    def __call__(self):
        Join.notify_join_context(self)
        self.add(1.0)

    def join_hook(self, **kwargs):
        return CounterHook(self)

    join_device = torch.device("cpu")

    @property
    def join_process_group(self):
        return dist.group.WORLD


class CounterHook(JoinHook):
    def __init__(self, counter):
        self.counter = counter

    def main_hook(self):
        self.counter.add(0.0)

    def post_hook(self, is_last_joiner):
        self.counter.last = is_last_joiner


def other_joinables():
    counter = Counter()
    with Join([counter]):
        for _ in range(2 + dist.get_rank()):
            counter()
    return [counter.count, float(counter.last)]


def early_end():
    ddp = model()
    try:
        with ddp.join(throw_on_early_termination=True):
            for i in range(1 + dist.get_rank()):
                x, y = batch(i)
                F.cross_entropy(ddp(x), y).backward()
    except RuntimeError as error:
        return str(error)


def collectives():
    rank = dist.get_rank()

    @compiled
    def exchange(x):
        found = [x.clone() for _ in range(4)]
        dist.all_reduce(found[0])
        dist.all_reduce(found[1], dist.ReduceOp.MAX)
        dist.broadcast(found[2], 1)
        dist.reduce(found[3], 1)
        gathered, parts = torch.empty(8, 2), [torch.empty(4, 2) for _ in range(2)]
        dist.all_gather_into_tensor(gathered, x)
        dist.all_gather(parts, x + 1)
        scattered, received = torch.empty(2, 2), torch.empty(4, 2)
        dist.reduce_scatter_tensor(scattered, x)
        dist.all_to_all_single(received, x)
        return [*found[:3], gathered, *parts, scattered, received], found[3]

    for _ in range(2):
        found, reduced = exchange(torch.arange(8.0).reshape(4, 2) + 10 * rank)
    return [t.tolist() for t in (*found, *([reduced] if rank else []))]


CASES = {
    case.__name__: case
    for case in (
        step_as_people_write_it,
        accumulation_in_one_function,
        accumulation_by_calls,
        compiled_module,
        own_buffers,
        compiled_inside,
        parts_and_own_parameters,
        batches_of_different_sizes,
        unused_parameters,
        joined,
        other_joinables,
        early_end,
        collectives,
    )
} | {"joined by those that are left": lambda: joined(divide_by_initial_world_size=False)}


@record
def main():
    dist.init_process_group("gloo")
    names = sys.argv[2:] or [*CASES]
    found = {name: CASES[name]() for name in names}
    with open(sys.argv[1] + str(dist.get_rank()), "w") as file:
        json.dump(found, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
