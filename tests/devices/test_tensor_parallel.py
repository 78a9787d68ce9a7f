"""Modules split over a dimension of a mesh: numbers of one device, collectives of a program written by hand."""

from __future__ import annotations

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from collectives import elements, shapes_of, text_of
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from torch.distributed.tensor import parallel as theirs

import functorch_port as ft
from functorch_port.distributed.sharding import shard
from functorch_port.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from functorch_port.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

nn, F = ft.nn, ft.nn.functional
DIM, HEADS, VOCAB = 16, 8, 32


def meshes(how: str) -> Any:
    """The whole mesh, and the dimension that modules are split over."""
    if how == "row":
        mesh = ft.distributed.init_device_mesh("cpu", (4,))
        return mesh, mesh
    if how == "cube":
        mesh = ft.distributed.init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    else:
        mesh = ft.distributed.init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    return mesh, mesh["tp"]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(DIM, DIM, bias=False) for _ in range(4))

    def forward(self, x: Any) -> Any:
        n, length, _ = x.shape
        q, k, v = (f(x).view(n, length, -1, DIM // HEADS).transpose(1, 2) for f in (self.q, self.k, self.v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(out.transpose(1, 2).contiguous().view(n, length, -1))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attention = nn.RMSNorm(DIM), Attention()
        self.norm2, self.up, self.down = nn.LayerNorm(DIM), nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.norm1(x))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList([Block()])
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, VOCAB)

    def forward(self, x: Any) -> Any:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def plain_plan() -> dict[str, Any]:
    return {
        "embed": RowwiseParallel(),
        "layers.*.attention.[qkv]": ColwiseParallel(),
        "layers.*.attention.o": RowwiseParallel(),
        "layers.*.up": ColwiseParallel(),
        "layers.*.down": RowwiseParallel(),
        "head": ColwiseParallel(use_local_output=False),
    }


def sequence_plan() -> dict[str, Any]:
    """Between the products of matrices, the sequence is split."""
    return {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "layers.*.norm1": SequenceParallel(),
        "layers.*.attention": PrepareModuleInput(
            input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
        ),
        "layers.*.attention.[qkv]": ColwiseParallel(use_local_output=False),
        "layers.*.attention.o": RowwiseParallel(output_layouts=Shard(1)),
        "layers.*.norm2": SequenceParallel(),
        "layers.*.up": ColwiseParallel(input_layouts=Shard(1)),
        "layers.*.down": RowwiseParallel(output_layouts=Shard(1)),
        "layers.*.drop": SequenceParallel(),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
    }


def trained(how: str, plan: Any, compiled: bool, dtype: Any, steps: int = 20) -> tuple[Any, Any]:
    ft.manual_seed(0)
    net = Net().to(dtype)
    mesh = None
    if how != "one":
        mesh, tp = meshes(how.removesuffix("+fsdp"))
        if how.endswith("+fsdp"):
            specs = {f"^{name}$": P(*[None] * (p.dim() - 1), "dp") for name, p in net.named_parameters()}
            shard(net, specs, mesh)
        parallelize_module(net, tp, plan())
    opt = ft.optim.AdamW(net.parameters(), 0.01)
    rng = np.random.default_rng(0)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        with loss_parallel():
            loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
            loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        return loss

    run = ft.compile(step, rng="torch") if compiled else step
    losses = []
    for _ in range(steps):
        x, y = (ft.tensor(rng.integers(0, VOCAB, (4, 8))) for _ in range(2))
        if mesh is not None and mesh.ndim > 1:
            shard(x, P("dp"), mesh)
            shard(y, P("dp"), mesh)
        losses.append(run(x, y).item())
    return np.array(losses), net


@pytest.fixture(scope="module")
def alone() -> Any:
    return {compiled: trained("one", None, compiled, ft.float64) for compiled in (False, True)}


@pytest.mark.parametrize(
    ("how", "plan", "compiled"),
    [
        ("row", plain_plan, False),
        ("row", sequence_plan, True),
        ("grid+fsdp", plain_plan, True),
        ("grid+fsdp", sequence_plan, False),
    ],
)
def test_a_transformer_has_the_numbers_of_one_device(how: str, plan: Any, compiled: bool, alone: Any) -> None:
    want, one = alone[compiled]
    got, net = trained(how, plan, compiled, ft.float64)
    np.testing.assert_allclose(got, want, rtol=1e-10)
    for (name, p), q in zip(net.named_parameters(), one.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), 1e-8, 1e-9, err_msg=name)
    parts = {s.data.shape for s in net.layers[0].up.weight.jax().addressable_shards}
    assert parts == {(16, 8) if how == "grid+fsdp" else (16, 16)}


def test_in_a_cube_and_in_float32(alone: Any) -> None:
    got, _ = trained("cube", sequence_plan, True, ft.float32)
    np.testing.assert_allclose(got, alone[True][0], rtol=1e-5)


def collectives_of(plan: Any) -> Any:
    """Those of a loss with its gradients, on 2 x 4 devices."""
    ft.manual_seed(0)
    net = Net()
    net.eval()
    mesh, tp = meshes("grid")
    shard(net, {}, mesh)
    parallelize_module(net, tp, plan())
    x = shard(ft.zeros(4, 8, dtype=ft.int64), P("dp"), mesh)

    @ft.compile
    def step(x: Any) -> Any:
        net.zero_grad()
        loss = F.cross_entropy(net(x).flatten(0, 1), x.flatten())
        loss.backward()
        return loss

    return text_of(step, x)


def by_hand(split_sequence: bool) -> Any:
    """The same in JAX, with constraints where XLA needs to be told."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("dp", "tp"))
    on = lambda x, *spec: lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))
    stream = ("dp", "tp") if split_sequence else ("dp",)
    weights = {
        "embed": ((VOCAB, DIM), P("tp")), "norm": ((2, DIM), P()), "head": ((VOCAB, DIM), P("tp")),
        "bias": ((VOCAB,), P("tp")),
    }  # fmt: skip
    for i in range(1):
        weights |= {
            f"{i}q": ((DIM, DIM), P("tp")), f"{i}k": ((DIM, DIM), P("tp")), f"{i}v": ((DIM, DIM), P("tp")),
            f"{i}o": ((DIM, DIM), P(None, "tp")), f"{i}rms": ((DIM,), P()), f"{i}norm": ((2, DIM), P()),
            f"{i}up": ((4 * DIM, DIM), P("tp")), f"{i}upb": ((4 * DIM,), P("tp")),
            f"{i}down": ((DIM, 4 * DIM), P(None, "tp")), f"{i}downb": ((DIM,), P()),
        }  # fmt: skip
    avals = {
        name: jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))
        for name, (shape, spec) in weights.items()
    }

    def layer_norm(x: Any, w: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * w[0] + w[1]

    def loss(w: Any, x: Any) -> Any:
        h = on(w["embed"][x], *stream)
        for i in range(1):
            y = on(h * lax.rsqrt((h * h).mean(-1, keepdims=True) + 1e-5) * w[f"{i}rms"], *stream)
            y = on(y, "dp")
            q, k, v = (
                on(y @ w[f"{i}{n}"].T, "dp", None, "tp").reshape(4, 8, HEADS, DIM // HEADS) for n in "qkv"
            )
            y = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(4, 8, DIM)
            h = h + on(y @ w[f"{i}o"].T, *stream)
            y = on(on(layer_norm(h, w[f"{i}norm"]), *stream), "dp")
            y = jax.nn.gelu(on(y @ w[f"{i}up"].T + w[f"{i}upb"], "dp", None, "tp"), approximate=False)
            h = h + on(y @ w[f"{i}down"].T + w[f"{i}downb"], *stream)
        h = on(on(layer_norm(h, w["norm"]), *stream), "dp")
        logits = on(h @ w["head"].T + w["bias"], "dp", None, "tp")
        picked = jnp.where(jnp.arange(VOCAB) == x[..., None], jax.nn.log_softmax(logits), 0)
        return -picked.sum(-1).mean()

    tokens = jax.ShapeDtypeStruct((4, 8), jnp.int32, sharding=NamedSharding(mesh, P("dp")))
    where = (NamedSharding(mesh, P()), {name: a.sharding for name, a in avals.items()})
    step = jax.jit(jax.value_and_grad(loss), out_shardings=where)
    return step.lower(avals, tokens).compile().as_text()


@pytest.mark.parametrize("plan", [plain_plan, sequence_plan])
def test_the_program_communicates_no_more_than_one_by_hand(plan: Any) -> None:
    ours, theirs = collectives_of(plan), by_hand(plan is sequence_plan)
    # each check of indices adds a number: whether all are good, on all devices
    large = lambda text: [(kind, shape) for kind, shape in shapes_of(text) if shape]
    assert sum(elements(ours).values()) <= 1.02 * sum(elements(theirs).values())
    assert len(large(ours)) <= len(large(theirs))
    # no weight is gathered, and the logits are not
    assert all(VOCAB not in shape and 4 * DIM not in shape for _, shape in shapes_of(ours))


def test_a_stack_of_layers_stays_one_loop() -> None:
    """Stacked parameters are split too, and the hooks run in the scan."""
    mesh, tp = meshes("grid")
    plan = {
        "stacked.attention.[qkv]": ColwiseParallel(), "stacked.attention.o": RowwiseParallel(),
        "stacked.up": ColwiseParallel(), "stacked.down": RowwiseParallel(),
    }  # fmt: skip
    x = ft.randn(4, 8, DIM, dtype=ft.float64)

    def made(count: int) -> Any:
        ft.manual_seed(0)
        return nn.ScanStack([Block().eval() for _ in range(count)]).double()

    def step(net: Any, x: Any) -> Any:
        net.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss

    programs = {}
    for count in (2, 3):
        one, net = made(count), shard(made(count), {}, mesh)
        parallelize_module(net, tp, plan)
        assert net.stacked.down.weight.placements == (Shard(2),)
        run, split = ft.compile(step), shard(x.clone(), P("dp"), mesh)
        np.testing.assert_allclose(run(net, split).item(), step(one, x).item(), rtol=1e-12)
        for p, q in zip(net.parameters(), one.parameters(), strict=True):
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), 1e-10, 1e-14)
        programs[count] = shapes_of(text_of(run, net, split))
    assert programs[2] == programs[3]
    # each device sums its part of a weight's gradient over dp
    assert ("all-reduce", (16, 16)) in programs[2] and ("all-reduce", (16, 64)) not in programs[2]
    assert all(kind == "all-reduce" and 4 * DIM not in shape for kind, shape in programs[2])


def test_styles_say_what_pytorch_says() -> None:
    def all_of(lib: Any, shard_: Any, replicate: Any) -> list[str]:
        made = [
            lib.ColwiseParallel(), lib.RowwiseParallel(output_layouts=shard_(1)), lib.SequenceParallel(sequence_dim=0),
            lib.PrepareModuleInput(input_layouts=shard_(1), desired_input_layouts=(replicate(),)),
            lib.PrepareModuleOutput(output_layouts=(shard_(1), None), desired_output_layouts=(replicate(), shard_(0))),
            lib.PrepareModuleInputOutput(
                input_kwarg_layouts={"x": shard_(1)}, desired_input_kwarg_layouts={"x": replicate()},
                output_layouts=shard_(1), desired_output_layouts=replicate()),
        ]  # fmt: skip
        return [*map(repr, made)]

    ours = all_of(ft.distributed.tensor.parallel, Shard, Replicate)
    assert ours == all_of(theirs, torch.distributed.tensor.Shard, torch.distributed.tensor.Replicate)


def test_prepared_inputs_and_outputs() -> None:
    mesh, tp = meshes("grid")

    class Two(nn.Module):
        def forward(self, x: Any, n: int, *, y: Any) -> Any:
            self.seen = x, y
            return x * n, y

    net = Two()
    style = PrepareModuleInputOutput(
        input_layouts=(Shard(1), None),
        desired_input_layouts=(Replicate(), None),
        input_kwarg_layouts={"y": Replicate()},
        desired_input_kwarg_layouts={"y": Shard(0)},
        output_layouts=(Replicate(), None),
        desired_output_layouts=(Shard(1), None),
        use_local_output=False,
    )
    parallelize_module(net, tp, style)
    x = distribute_tensor(ft.ones(4, 8, requires_grad=True), mesh, [Shard(0), Shard(1)])
    out, y = net(x, 3, y=ft.ones(4))
    assert isinstance(net.seen[0], DTensor) and isinstance(net.seen[1], DTensor)
    parts = lambda t: {s.data.shape for s in t.jax().addressable_shards}
    assert parts(net.seen[0]) == {(2, 8)} and parts(net.seen[1]) == {(1,)} and parts(out) == {(2, 2)}
    assert out.placements == (Shard(1),)
    out.sum().backward()
    assert parts(x.grad) == {(2, 2)} and x.grad.full_tensor().tolist() == [[3.0] * 8] * 4
    with pytest.raises(ValueError, match="module inputs and input_layouts should have same length!"):
        net(x, y=y)
    net = parallelize_module(
        Two(), tp, PrepareModuleOutput(output_layouts=Shard(1), desired_output_layouts=Replicate())
    )
    with pytest.raises(ValueError, match="module outputs and output_layouts should have same length!"):
        net(x, 2, y=y)


def test_what_does_not_fit_is_refused() -> None:
    _, tp = meshes("grid")
    net = Net()
    with pytest.raises(
        NotImplementedError, match="ColwiseParallel currently only support nn.Linear and nn.Emb"
    ):
        parallelize_module(net, tp, {"norm": ColwiseParallel()})
    with pytest.warns(
        UserWarning, match="Parallelize plan key 'heads' could not be resolved: no submodule match"
    ):
        parallelize_module(net, tp, {"heads": ColwiseParallel()})
    with pytest.warns(UserWarning, match="No parallelize_plan is provided"):
        parallelize_module(net, tp)
    with pytest.raises(TypeError, match=r"Expect Union\[ParallelStyle, Dict"):
        parallelize_module(net, tp, 3)
    with pytest.raises(ValueError, match="must have the same length as `device_mesh.ndim`"):
        parallelize_module(net, meshes("grid")[0], {"head": ColwiseParallel()})
    with pytest.raises(ValueError, match="cannot be split into 4 equal parts"):
        parallelize_module(nn.Linear(4, 6), tp, ColwiseParallel())
    with pytest.raises(AssertionError, match="desired module inputs should not be None!"):
        PrepareModuleInput(input_layouts=Shard(0))


def test_parameters_stay_the_objects_that_they_are() -> None:
    _, tp = meshes("grid")
    net = Net()
    net.head.weight = net.embed.weight
    opt = ft.optim.SGD(net.parameters(), 0.1)
    before = copy.copy([*net.parameters()])
    parallelize_module(net, tp, plain_plan())
    assert all(p is q for p, q in zip(net.parameters(), before, strict=True))
    assert net.head.weight is net.embed.weight
    net(ft.zeros(2, 8, dtype=ft.int64)).sum().backward()
    opt.step()
    assert net.head.weight.placements == (Shard(0),)


def test_a_padded_vocabulary_has_the_numbers_of_one_that_is_not() -> None:
    """Its logits are cut; without padding the error names the module."""
    mesh, tokens = ft.distributed.init_device_mesh("cpu", (8,)), ft.arange(12).reshape(3, 4)
    plan = {"0": RowwiseParallel(input_layouts=Replicate()), "1": ColwiseParallel()}
    make = lambda rows: nn.Sequential(nn.Embedding(rows, 8), nn.Linear(8, rows, bias=False)).double()
    small, padded = make(13), make(16)
    padded.load_state_dict({k: F.pad(w, (0, 0, 0, 3)) for k, w in small.state_dict().items()})
    with pytest.raises(ValueError, match=r"^0: dimension 0 of a tensor of shape \[13, 8\] cannot be split"):
        parallelize_module(small, mesh, plan)
    losses = []
    for net in (make(13), parallelize_module(padded, mesh, plan)):
        if net is not padded:
            net.load_state_dict(small.state_dict())
        F.cross_entropy(net(tokens)[..., :13].flatten(0, 1), tokens.flatten()).backward()
        losses.append([p.grad[:13].numpy() for p in net.parameters()])
    for one, other in zip(*losses, strict=True):
        np.testing.assert_allclose(one, other, 1e-12, 1e-15)
    assert not padded[1].weight.grad[13:].any()
