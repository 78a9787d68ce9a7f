"""Models that are split over the devices of several processes, beside the same model on one device of each process.

A script: it gets a file with the losses and weights of one device (`alone`), and prints how far away those of each case
are, as JSON.
"""

import json
import sys
from contextlib import nullcontext

import jax
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.experts import ExpertParallel, MixtureOfExperts
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.sharding import constrain, from_process_batch, shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

nn, F, P = torch.nn, torch.nn.functional, jax.sharding.PartitionSpec
STEPS, ROWS, LENGTH, WIDTH, CLASSES = 3, 4, 8, 8, 8
plain = lambda *args: args


class Attention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.dropout = dropout

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (4, 2)).transpose(1, 2) for f in (self.q, self.k, self.v))
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        return self.o(out.transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.embed, self.head = nn.Embedding(CLASSES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(dropout)
        self.up, self.down = nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH)

    def forward(self, x):
        x = self.embed(x)
        x = x + self.attention(self.norm1(x))
        return self.head(x + self.down(F.gelu(self.up(self.norm2(x)))))


class Experts(nn.Module):
    def __init__(self, groups):
        super().__init__()
        self.embed, self.head = nn.Embedding(CLASSES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.experts = MixtureOfExperts(WIDTH, 8, 4, groups=groups, capacity_factor=1.0)

    def forward(self, x):
        x = self.embed(x)
        routed = self.experts(x)
        return self.head(x + routed.output), 0.01 * routed.balance_loss + 1e-3 * routed.z_loss


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(CLASSES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.layers = nn.ScanStack([nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(4)])
        self.pipe = self.layers

    def forward(self, x):
        return self.head(self.pipe(self.embed(x)))


# ------------------------------------------------------------------ forms


def tensor_parallel(net, mesh):
    """With sequence and loss parallelism."""
    return parallelize_module(
        net,
        mesh,
        {
            "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm*": SequenceParallel(),
            "attention": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
            "attention.[qkv]": ColwiseParallel(use_local_output=False),
            "attention.o": RowwiseParallel(output_layouts=Shard(1)),
            "up": ColwiseParallel(input_layouts=Shard(1)),
            "down": RowwiseParallel(output_layouts=Shard(1)),
            "head": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
        },
    )


def expert_parallel(net, mesh):
    return parallelize_module(net, mesh, {"experts": ExpertParallel()})


def pipeline(net, mesh):
    stage = PipelineStage(net.layers, mesh.get_local_rank(), mesh.size(), "cpu", group=mesh)
    del net.pipe
    net.pipe = ScheduleGPipe(stage, n_microbatches=2)
    return net


def everywhere(form):
    """A form of a model whose other parameters are on all devices."""
    return lambda net, mesh: form(shard(net, {}, mesh), mesh)


def unchanged(net, mesh):
    return net


# ------------------------------------------------------------------ training


def batch(i, rank=0):
    g = torch.Generator().manual_seed(100 * i + rank)
    return [torch.randint(0, CLASSES, (ROWS, LENGTH), generator=g) for _ in range(2)]


def trained(
    make, form=unchanged, mesh=None, compiled=False, around=lambda x, y: nullcontext(), given=plain, seen=(0,)
):
    """The losses and the weights.

    Args:
        around: gives the context of a step, for its batch.
        given: makes of a batch what the model is given.
        seen: the ranks whose batches are joined.
    """
    torch.manual_seed(0)
    net = form(make().double(), mesh)
    opt = torch.optim.AdamW(net.parameters(), lr=0.01)

    def step(x, y):
        opt.zero_grad()
        out, more = net(x), 0.0
        if isinstance(out, tuple):
            out, more = out
        loss = F.cross_entropy(out.flatten(0, 1), y.flatten()) + more
        loss.backward()
        opt.step()
        return loss

    run, losses = torch.compile(step) if compiled else step, []
    for i in range(STEPS):
        x, y = given(*map(torch.cat, zip(*[batch(i, rank) for rank in seen])))
        with around(x, y):
            losses.append(run(x, y))
    return [torch.stack([loss.detach() for loss in losses]), *map(whole, net.parameters())]


def whole(p):
    p = p.detach()
    return p.full_tensor() if hasattr(p, "full_tensor") else p


def compare(got, want):
    return max((a - b.reshape(a.shape)).abs().max().item() for a, b in zip(got, want, strict=True))


def alone(processes):
    """What one device gives, by model, and for the batches of all processes."""
    ring = lambda *_: context_parallel(jax.sharding.Mesh(jax.devices()[:1], ("all",)))
    return {
        "transformer": trained(Transformer),
        "experts, 1": trained(lambda: Experts(1)),
        "experts, 4": trained(lambda: Experts(4)),
        "stack": trained(Stack),
        "dropout": trained(lambda: Transformer(0.3), around=ring),
        "transformer, all": trained(Transformer, seen=range(processes)),
        "experts, 4, all": trained(lambda: Experts(4), seen=range(processes)),
    }


found = {}


def beside(name, want, make, form, mesh, kinds=(False, True), **how):
    """Train it in several processes, eagerly and compiled."""
    for kind in kinds:
        got = trained(make, form, mesh, kind, **how)
        found[f"{name}, compiled" if kind else name] = compare(got, want)


def refused(name, f, *args, error=ValueError, text="must be the same in all processes"):
    try:
        f(*args)
    except error as raised:
        found[name] = 0.0 if text in str(raised) else str(raised)
    else:
        found[name] = "not refused"


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    row = init_device_mesh("cpu", (4,), mesh_dim_names=("all",))
    ranks = tuple(range(world))

    def parts(*tensors):
        """The batches of the processes, as one on all devices."""
        return from_process_batch([x.chunk(world)[rank] for x in tensors], P("all"), row)

    ring = lambda *_: context_parallel(row)
    split = lambda *tensors: context_parallel(row, buffers=tensors, buffer_seq_dims=[1] * len(tensors))

    with open(sys.argv[1]) as file:
        want = {
            name: [torch.tensor(t, dtype=torch.float64) for t in one] for name, one in json.load(file).items()
        }

    # the same batch in all processes
    tensors = "tensor, sequence and loss parallel", want["transformer"], Transformer, tensor_parallel, row
    if world == 4:
        beside(*tensors, kinds=[False], around=lambda *_: loss_parallel())
    else:
        beside(*tensors, around=lambda *_: loss_parallel())
        beside("experts, 1 group", want["experts, 1"], lambda: Experts(1), expert_parallel, row, kinds=[True])
        beside(
            "experts, 4 groups", want["experts, 4"], lambda: Experts(4), expert_parallel, row, kinds=[False]
        )
        beside("a pipeline", want["stack"], Stack, everywhere(pipeline), row, kinds=[True])
        beside("a ring", want["transformer"], Transformer, unchanged, row, kinds=[True], around=ring)
        drops = lambda: Transformer(0.3)
        assert compare(want["dropout"], want["transformer"]) > 1e-3
        beside(
            "a ring that drops",
            want["dropout"],
            drops,
            everywhere(unchanged),
            row,
            kinds=[False],
            around=split,
        )

        # batches of their own
        four, of_all = everywhere(expert_parallel), dict(kinds=[True], given=parts, seen=ranks)
        beside("experts, batches", want["experts, 4, all"], lambda: Experts(4), four, row, **of_all)
        both = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        form = lambda net, mesh: fully_shard(tensor_parallel(net, mesh["tp"]), mesh=mesh["dp"])
        mine = lambda *tensors: [x.chunk(world)[rank] for x in tensors]
        net = trained(Transformer, form, both, given=mine, seen=ranks)
        losses = [torch.empty_like(net[0]) for _ in ranks]
        dist.all_gather(losses, net[0])
        mean = [sum(losses) / world, *net[1:]]
        found["fully sharded and tensor parallel"] = compare(mean, want["transformer, all"])

    # what is not the same in all processes
    x = torch.ones(4, 8, WIDTH).double() * (rank + 1)
    first, experts = tensor_parallel(Transformer().double(), row), expert_parallel(Experts(4).double(), row)
    index = (torch.ones(4, 8) * rank).long()
    attend = lambda x: F.scaled_dot_product_attention(x, x, x)
    halves = DTensor.from_local(x.detach(), row, [Shard(0)]).requires_grad_()
    weight = DTensor.from_local(torch.ones(2), row, [Replicate()])
    with context_parallel(row):
        refused("a ring of others", attend, x)
        refused("a compiled ring of others", torch.compile(attend), x)
        refused(
            "a mask",
            lambda: F.scaled_dot_product_attention(halves, halves, halves, attn_mask=torch.ones(8, 8)),
            error=NotImplementedError,
            text="attn_mask=",
        )
    refused("buffers of others", lambda: context_parallel(row, buffers=[x], buffer_seq_dims=[1]).__enter__())
    refused("tokens of others", first, index)
    refused("compiled tokens of others", torch.compile(first), index)
    refused("experts of others", experts, index)
    refused("a constraint", lambda: constrain(x, P("all"), row))
    refused("a compiled constraint", torch.compile(lambda x: constrain(x, P("all"), row)), x)
    refused("what is placed", lambda: shard(x, P("all"), row))
    refused("parts that are to be the same", lambda: DTensor.from_local(x, row, [Replicate()]))
    refused("a gradient of one", lambda: (halves * 2).backward(torch.ones(halves.shape).double() * rank))
    doubled = halves * 2
    doubled.register_hook(lambda grad: torch.ones(grad.shape).double() * rank)
    refused("a gradient of a hook", (doubled * halves).sum().backward)
    refused("an assigned gradient", lambda: setattr(weight, "grad", torch.ones(2) * rank))
    print(json.dumps(found), flush=True)
    dist.barrier()


if __name__ == "__main__":
    main()
