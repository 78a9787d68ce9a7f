"""A GPT whose training step is planned for a TPU pod: nothing runs, and the weights take no memory.

    functorch-port plan examples/plan_gpt.py:build --topology v5e:16x16 --mesh fsdp=64,tp=4 --batch 256
    functorch-port plan examples/plan_gpt.py:build --topology v5e:4x4 --remat false
    functorch-port plan examples/plan_gpt.py:build --topology v5e:4x4 --mesh fsdp,tp --sweep
    functorch-port plan examples/plan_gpt.py:small --topology cpu:8

`build` is a GPT of 6.9 billion parameters, `small` one of a million. With real tensors in place of those on the meta
device, on a mesh of `init_device_mesh`, the same step trains.
"""

import torch
from jax.sharding import PartitionSpec as P
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.sharding import shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F


class Block(nn.Module):
    """Attention, then a layer of its own for every place, both with a norm before and a shortcut around."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, width = x.shape
        y = self.norm1(x)
        q, k, v = (
            f(y).view(n, t, self.heads, width // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(n, t, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, codes, width, heads, layers, context, remat):
        super().__init__()
        self.embed, self.place = nn.Embedding(codes, width), nn.Embedding(context, width)
        # one block is compiled, and run in a loop
        self.blocks = nn.ScanStack([Block(width, heads) for _ in range(layers)], remat=remat)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, codes, bias=False)

    def forward(self, x):
        x = self.embed(x) + self.place(torch.arange(x.shape[1], device=x.device))
        return self.head(self.norm(self.blocks(x)))


#: which layers a mesh with a dimension "tp" splits
SPLIT = {
    "q": ColwiseParallel(), "k": ColwiseParallel(), "v": ColwiseParallel(), "out": RowwiseParallel(),
    "up": ColwiseParallel(), "down": RowwiseParallel(),
}  # fmt: skip

#: of XLA: it is to wait for a split weight as a whole, and not to add up products with its parts
OPTIONS = {"tpu": {"xla_jf_spmd_threshold_for_windowed_einsum_mib": 1_000_000}}


def build(mesh, batch=16, dtype=torch.bfloat16, remat=True, microbatches=1, size=(50304, 4096, 32, 32, 2048)):
    """The training step, and what it is called with."""
    context = size[-1]
    with torch.device("meta"):
        net = GPT(*size, remat)
        x, y = torch.zeros(batch, context, dtype=torch.int32), torch.zeros(batch, context, dtype=torch.int64)
    names = mesh.mesh_dim_names
    own = mesh["fsdp"] if len(names) > 1 else mesh
    if "tp" in names:
        shard(net, {}, mesh)
        parallelize_module(net.blocks.stacked, mesh["tp"], SPLIT)
    fully_shard(net.blocks, mesh=own)
    fully_shard(net, mesh=own)
    for tensor in (x, y):
        shard(tensor, P("fsdp"), mesh)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4, weight_decay=0.1)

    @torch.compile(keep_grads=False, options=OPTIONS.get(mesh.device_type))
    def step(x, y):
        optimizer.zero_grad()
        total = 0.0
        for part, wanted in zip(*(a.unflatten(0, (-1, microbatches)).unbind(1) for a in (x, y))):
            with torch.autocast(mesh.device_type, dtype):
                loss = F.cross_entropy(net(part).flatten(0, 1), wanted.flatten()) / microbatches
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        return total

    return step, [x, y]


def small(mesh, batch=16, dtype=torch.bfloat16, remat=True, microbatches=1):
    """The same of a small one."""
    return build(mesh, batch, dtype, remat, microbatches, size=(512, 128, 4, 4, 64))
