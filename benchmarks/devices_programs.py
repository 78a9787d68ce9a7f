"""Training steps on many devices, ours and hand-written ones, for `devices.py`.

A form says how a model lies on a mesh. ``python devices_programs.py FORM cpu|tpu`` prints what both compiled steps
communicate and need as JSON: on 8 virtual CPU devices, or ahead of time for a TPU v5e of 4 x 4 chips.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

VOCAB, WIDTH, HEADS, LAYERS, LENGTH = 512, 256, 16, 2, 64
SIZES = (256, 1024, 1024, 256)
RATE, DECAY = 1e-3, 1e-2


# --------------------------------------------------------------------- ours


def _networks() -> tuple[Any, Any]:
    import functorch_port as torch

    nn, F = torch.nn, torch.nn.functional

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

        def forward(self, x: Any) -> Any:
            n, length, _ = x.shape
            q, k, v = (
                f(x).view(n, length, HEADS, WIDTH // HEADS).transpose(1, 2) for f in (self.q, self.k, self.v)
            )
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.o(out.transpose(1, 2).reshape(n, length, WIDTH))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention()
            self.norm2 = nn.LayerNorm(WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH)
            self.layers = nn.ModuleList([Block() for _ in range(LAYERS)])
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)

        def forward(self, x: Any) -> Any:
            x = self.embed(x)
            for layer in self.layers:
                x = layer(x)
            return self.head(self.norm(x))

    def mlp() -> Any:
        layers: list[Any] = []
        for a, b in pairwise(SIZES):
            layers += [nn.Linear(a, b), nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    return mlp, GPT


def _plan(split_sequence: bool) -> dict[str, Any]:
    """Megatron's split; the sequence is split between products of matrices if asked for."""
    from functorch_port.distributed.tensor import Replicate, Shard
    from functorch_port.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
    )

    if not split_sequence:
        return {
            "embed": RowwiseParallel(input_layouts=Replicate()),
            "layers.*.attention.[qkv]": ColwiseParallel(), "layers.*.attention.o": RowwiseParallel(),
            "layers.*.up": ColwiseParallel(), "layers.*.down": RowwiseParallel(),
            "head": ColwiseParallel(use_local_output=False),
        }  # fmt: skip
    whole = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    return {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "layers.*.norm1": SequenceParallel(), "layers.*.norm2": SequenceParallel(), "norm": SequenceParallel(),
        "layers.*.attention": whole, "layers.*.attention.[qkv]": ColwiseParallel(use_local_output=False),
        "layers.*.attention.o": RowwiseParallel(output_layouts=Shard(1)),
        "layers.*.up": ColwiseParallel(input_layouts=Shard(1)),
        "layers.*.down": RowwiseParallel(output_layouts=Shard(1)),
        "head": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
    }  # fmt: skip


class Form(NamedTuple):
    """How a model lies on devices.

    Attributes:
        mesh: the axes of the mesh, of which 0 is the rest of the devices.
        model: "mlp" or "gpt".
        batch: the axes that split the batch.
        sharded: the axes that split parameters and state (fully sharded).
        tensor: whether the axis "tp" splits layers.
        sequence: whether it splits the sequence, too.
        kept: whether gathered parameters stay until the backward pass.
    """

    mesh: dict[str, int]
    model: str = "gpt"
    batch: tuple[str, ...] = ("dp",)
    sharded: str = ""
    tensor: bool = False
    sequence: bool = False
    kept: bool = False


FORMS = {
    "MLP, DDP": Form({"dp": 0}, "mlp"),
    "GPT, DDP": Form({"dp": 0}),
    "GPT, FSDP": Form({"dp": 0}, sharded="dp"),
    "GPT, FSDP, kept": Form({"dp": 0}, sharded="dp", kept=True),
    "GPT, HSDP": Form({"rep": 2, "dp": 0}, batch=("rep", "dp"), sharded="dp"),
    "GPT, TP": Form({"tp": 0}, batch=(), tensor=True),
    "GPT, FSDP x TP": Form({"dp": 2, "tp": 0}, sharded="dp", tensor=True),
    "GPT, SP": Form({"dp": 2, "tp": 0}, tensor=True, sequence=True),
}


def _batch(form: Form, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of inputs and targets; each device has two rows, or all have the same eight."""
    rows = 4 * count if form.batch else 8
    return ((rows, SIZES[0]), (rows,)) if form.model == "mlp" else ((rows, LENGTH), (rows, LENGTH))


def axes(form: Form, count: int) -> dict[str, int]:
    """The mesh of so many devices."""
    known = 1
    for size in form.mesh.values():
        known *= size or 1
    return {name: size or count // known for name, size in form.mesh.items()}


def ours(form: Form, count: int, keep_grads: bool = False) -> tuple[Any, Any]:
    """The compiled step of a training loop, and what it is called with."""
    import numpy as np
    from jax.sharding import PartitionSpec

    import functorch_port as torch
    from functorch_port.distributed.device_mesh import init_device_mesh
    from functorch_port.distributed.fsdp import fully_shard
    from functorch_port.distributed.sharding import shard
    from functorch_port.distributed.tensor.parallel import loss_parallel, parallelize_module

    nn, F = torch.nn, torch.nn.functional
    sizes = axes(form, count)
    mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    torch.manual_seed(0)
    net = _networks()[form.model == "gpt"]()
    if form.tensor:
        shard(net, {}, mesh.jax_mesh)
        parallelize_module(net, mesh["tp"], _plan(form.sequence))
    if form.sharded:
        own = mesh["dp"] if form.tensor else mesh
        for layer in net.layers:
            fully_shard(layer, mesh=own, reshard_after_forward=not form.kept)
        fully_shard(net, mesh=own)
    elif not form.tensor:
        net = nn.parallel.DistributedDataParallel(net, device_mesh=mesh)
    opt = torch.optim.AdamW(net.parameters(), RATE, weight_decay=DECAY)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        with loss_parallel():
            loss = F.cross_entropy(net(x).flatten(0, -2), y.flatten())
            loss.backward()
        opt.step()
        return loss

    shape, targets = _batch(form, count)
    rng = np.random.default_rng(0)
    if form.model == "mlp":
        x = torch.from_numpy(rng.standard_normal(shape, np.float32))
    else:
        x = torch.from_numpy(rng.integers(0, VOCAB, shape, np.int32))
    y = torch.from_numpy(rng.integers(0, SIZES[-1], targets, np.int64))
    for each in (x, y):
        shard(each, PartitionSpec(form.batch or None), mesh.jax_mesh)
    # as on a TPU: on a CPU checks of values are made, each of which adds up one number
    return torch.compile(step, keep_grads=keep_grads, checks=False), (x, y)


# --------------------------------------------------------------------- by hand


def by_hand(form: Form, mesh: Any) -> tuple[Any, Any]:
    """The same in JAX and optax: a jitted step with its shardings, and shapes of what it is called with."""
    import jax
    import jax.numpy as jnp
    import optax
    from jax import lax
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    from functorch_port._base import meshes

    batch = form.batch or None
    at = lambda *spec: NamedSharding(mesh, P(*spec))
    on = lambda x, *spec: lax.with_sharding_constraint(x, at(*spec))
    tp = "tp" if form.tensor else None
    stream = (batch, tp) if form.sequence else (batch,)

    def spec(shape: tuple[int, ...], split: int | None) -> P:
        """Over "tp" along one dimension, and over the sharding axis along the first."""
        entries: list[Any] = [None] * len(shape)
        if tp and split is not None:
            entries[split] = (tp,)
        if form.sharded:
            entries[0] = (*(entries[0] or ()), form.sharded)
        return P(*entries)

    # said to be split, or XLA gathers before the barrier of a recomputation, and so once
    joined = lambda w, whole, part: on(on(w, *part), *whole)

    @functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
    def gather(w: Any, whole: P, part: P) -> Any:
        return joined(w, whole, part)

    # a gradient goes straight to its part: the constraint's own derivative would add it up whole
    gather.defvjp(
        lambda w, whole, part: (joined(w, whole, part), None), lambda whole, part, _, g: (on(g, *part),)
    )

    def gathered(w: Any) -> Any:
        """Weights as a layer computes with them: whole, but for "tp"."""
        if not form.sharded:
            return w
        drop = lambda entry: tuple(a for a in meshes.axes_of(entry) if a != form.sharded) or None
        return {name: gather(v, P(*map(drop, specs[name])), specs[name]) for name, v in w.items()}

    shapes: dict[str, tuple[tuple[int, ...], int | None]] = {}
    if form.model == "mlp":
        for i, (a, b) in enumerate(pairwise(SIZES)):
            shapes |= {f"{i}w": ((b, a), None), f"{i}b": ((b,), None)}
    else:
        shapes |= {
            "embed": ((VOCAB, WIDTH), 0), "head": ((VOCAB, WIDTH), 0),
            "norm": ((WIDTH,), None), "normb": ((WIDTH,), None),
        }  # fmt: skip
        for i in range(LAYERS):
            shapes |= {f"{i}{n}": ((WIDTH, WIDTH), 0) for n in "qkv"} | {f"{i}o": ((WIDTH, WIDTH), 1)}
            shapes |= {f"{i}{n}": ((WIDTH,), None) for n in ("norm1", "norm1b", "norm2", "norm2b")}
            shapes |= {
                f"{i}up": ((4 * WIDTH, WIDTH), 0), f"{i}upb": ((4 * WIDTH,), 0),
                f"{i}down": ((WIDTH, 4 * WIDTH), 1), f"{i}downb": ((WIDTH,), None),
            }  # fmt: skip
    specs = {name: spec(*made) for name, made in shapes.items()}

    def norm(x: Any, w: Any, b: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * w + b

    def block(w: Any, h: Any) -> Any:
        w = gathered(w)
        y = on(on(norm(h, w["norm1"], w["norm1b"]), *stream), batch)
        n, length, _ = y.shape
        q, k, v = (
            on(y @ w[name].T, batch, None, tp).reshape(n, length, HEADS, WIDTH // HEADS) for name in "qkv"
        )
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(n, length, WIDTH)
        h = h + on(y @ w["o"].T, *stream)
        y = on(on(norm(h, w["norm2"], w["norm2b"]), *stream), batch)
        y = on(jax.nn.gelu(y @ w["up"].T + w["upb"], approximate=False), batch, None, tp)
        return h + on(y @ w["down"].T + w["downb"], *stream)

    # all is kept but weights that were gathered: these are gathered again
    regathered = ("sharding_constraint", "transpose")
    again = jax.checkpoint(block, policy=lambda op, *_, **__: op.name not in regathered)
    layer = again if form.sharded and not form.kept else block

    def forward(w: Any, x: Any) -> Any:
        if form.model == "mlp":
            for i in range(len(SIZES) - 1):
                x = x @ w[f"{i}w"].T + w[f"{i}b"]
                x = jax.nn.relu(x) if i < len(SIZES) - 2 else x
            return x
        rest = gathered({name: w[name] for name in ("embed", "head", "norm", "normb")})
        h = on(rest["embed"][x], *stream)
        for i in range(LAYERS):
            h = layer({name[1:]: v for name, v in w.items() if name[0] == str(i)}, h)
        h = on(on(norm(h, rest["norm"], rest["normb"]), *stream), batch)
        return on(h @ rest["head"].T, batch, None, tp)

    def loss(w: Any, x: Any, y: Any) -> Any:
        each = optax.softmax_cross_entropy_with_integer_labels(forward(w, x), jnp.maximum(y, 0))
        return jnp.where(y == -100, 0, each).sum() / (y != -100).sum()  # as PyTorch: -100 is no target

    for i in range(LAYERS):
        specs |= {name[1:]: s for name, s in specs.items() if name[0] == str(i)}
    optimizer = optax.adamw(RATE, weight_decay=DECAY)

    def step(w: Any, state: Any, x: Any, y: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(w, x, y)
        grads = {name: on(g, *specs[name]) for name, g in grads.items()}
        updates, state = optimizer.update(grads, state, w)
        return optax.apply_updates(w, updates), state, value

    weights = {
        n: jax.ShapeDtypeStruct(s, jnp.float32, sharding=at(*specs[n])) for n, (s, _) in shapes.items()
    }
    places = {n: a.sharding for n, a in weights.items()}
    state = jax.eval_shape(optimizer.init, weights)

    def place(path: Any, a: Any) -> Any:
        name = getattr(path[-1], "key", None)
        return jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=places.get(name, at()))

    state = jax.tree_util.tree_map_with_path(place, state)
    count = mesh.size
    shape, targets = _batch(form, count)
    kind = jnp.float32 if form.model == "mlp" else jnp.int32
    x = jax.ShapeDtypeStruct(shape, kind, sharding=at(batch))
    y = jax.ShapeDtypeStruct(targets, jnp.int32, sharding=at(batch))
    out = (places, jax.tree.map(lambda a: a.sharding, state), at())
    return jax.jit(step, donate_argnums=(0, 1), out_shardings=out), (weights, state, x, y)


# --------------------------------------------------------------------- what they cost


def figures(compiled: Any) -> dict[str, Any]:
    """What a compiled program communicates, by kind, and the most memory that it needs."""
    from collectives import collectives

    memory = compiled.memory_analysis()
    found: dict[str, Any] = {}
    for each in collectives(compiled.as_text()):
        kind = found.setdefault(each.kind, {"count": 0, "bytes": 0, "shapes": []})
        kind["count"] += 1
        kind["bytes"] += each.size
        kind["shapes"] += each.shapes
    held = memory.argument_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    return {
        "collectives": found,
        "peak": held + memory.temp_size_in_bytes,
        "temporary": memory.temp_size_in_bytes,
    }


def overhead(devices: int, calls: int = 40, rounds: int = 15) -> dict[str, float]:
    """The best seconds per call of a small network's step, ours and by hand; they take turns.

    Args:
        devices: of this process. The launcher starts several processes.
    """
    global SIZES
    SIZES = (32, 64, 64, 32)
    import jax
    import jax.numpy as jnp

    import functorch_port as torch
    from functorch_port._base import meshes

    count = devices * int(os.environ.get("WORLD_SIZE", "1"))
    if count > devices:
        torch.distributed.init_process_group()
    form = FORMS["MLP, DDP"]
    step, args = ours(form, count)
    mesh = meshes.mesh_of(meshes.by_process(jax.devices()), ("dp",))
    jit, given = by_hand(form, mesh)
    zeros = lambda a: jax.jit(lambda: jnp.zeros(a.shape, a.dtype), out_shardings=a.sharding)()
    weights, state, x, y = jax.tree.map(zeros, given)
    found = {"ours": [0.0], "by hand": [0.0]}
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            loss = step(*args)
        loss.jax().block_until_ready()
        between = time.perf_counter()
        for _ in range(calls):
            weights, state, value = jit(weights, state, x, y)
        value.block_until_ready()
        found["ours"].append((between - start) / calls)
        found["by hand"].append((time.perf_counter() - between) / calls)
    return {who: min(seconds[2:]) for who, seconds in found.items()}


def main() -> None:
    """Compile both steps of a form, or time them: ``overhead DEVICES``."""
    if sys.argv[1] == "overhead":
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={sys.argv[2]}"
        found = overhead(int(sys.argv[2]))
        if os.environ.get("RANK", "0") == "0":
            print(json.dumps(found))
        return
    form, tpu = FORMS[sys.argv[1]], sys.argv[2] == "tpu"
    count = 16 if tpu else 8
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={count}"
    import jax
    from collectives import called_by, chips, elsewhere

    import functorch_port

    if tpu:  # products of matrices as precise as plain JAX has them there
        functorch_port.set_float32_matmul_precision("medium")
    step, args = ours(form, count)
    here = args[0].jax().sharding.mesh
    there = chips(axes(form, count)) if tpu else None

    def costs(jit: Any, given: Any, *donated: int) -> dict[str, Any]:
        lowered = elsewhere(jit, given, donated, there) if tpu else jit.lower(*given)
        compiled = lowered.compile()
        if "DUMP" in os.environ:
            Path(os.environ["DUMP"] + f"{len(donated)}").write_text(compiled.as_text())
        return figures(compiled)

    with jax.enable_x64(True):
        found = {"ours": costs(*called_by(step, *args), 0)}
    print(json.dumps({**found, "by hand": costs(*by_hand(form, here), 0, 1)}))


if __name__ == "__main__":
    main()
