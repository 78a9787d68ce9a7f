"""Layers on devices one after the other: the numbers of the layers on one device."""

from __future__ import annotations

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from collectives import counted, elements, text_of
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from pipelines import stack

import functorch_port as ft
from functorch_port.distributed.pipelining import PipelineStage, ScheduleGPipe
from functorch_port.distributed.sharding import shard
from functorch_port.distributed.tensor.experimental import context_parallel
from functorch_port.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

nn, F = ft.nn, ft.nn.functional


def pipe(layers: Any, mesh: Any, count: int, **how: Any) -> Any:
    return ScheduleGPipe(PipelineStage(layers, 0, mesh.size(), "cpu", group=mesh), count, **how)


@pytest.fixture(scope="module")
def row() -> Any:
    return ft.distributed.init_device_mesh("cpu", (4,), mesh_dim_names=("pp",))


@pytest.mark.parametrize(
    ("compiled", "remat", "count"), [(False, False, 4), (True, True, 8), (True, False, 1)]
)
def test_values_and_gradients(compiled: bool, remat: bool, count: int, row: Any) -> None:
    layers, split = stack(), stack(remat=remat)
    x = ft.randn(8, 3, 8, dtype=ft.float64, requires_grad=True)
    both = lambda f, net: [out := f(x), *ft.autograd.grad(out.square().sum(), [x, *net.parameters()])]
    want = both(layers, layers)
    run = pipe(split, row, count)
    step = ft.compile(lambda: both(run, split)) if compiled else (lambda: both(run, split))
    for got, expected in zip(step(), want, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), 1e-10, 1e-12)
    assert {s.data.shape for s in split.stacked.up.weight.jax().addressable_shards} == {(2, 16, 8)}


def test_beside_tensor_parallelism() -> None:
    mesh = ft.distributed.init_device_mesh("cpu", (2, 4), mesh_dim_names=("pp", "tp"))
    layers, split = stack(4), shard(stack(4), {}, mesh)
    parallelize_module(
        split, mesh["tp"], {"stacked.up": ColwiseParallel(), "stacked.down": RowwiseParallel()}
    )
    run = pipe(split, mesh["pp"], 2)
    assert {s.data.shape for s in split.stacked.up.weight.jax().addressable_shards} == {(2, 4, 8)}
    x = ft.randn(8, 8, dtype=ft.float64)
    both = lambda f, net, x: [out := f(x), *ft.autograd.grad(out.square().sum(), [*net.parameters()])]
    got = ft.compile(lambda x: both(run, split, x))(shard(x.clone(), P(), mesh))
    for a, b in zip(got, both(layers, layers, x), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-10, 1e-12)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        q, k, v = (y.unflatten(-1, (2, 4)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


def test_beside_context_parallelism() -> None:
    mesh = ft.distributed.init_device_mesh("cpu", (2, 4), mesh_dim_names=("pp", "cp"))
    layers = nn.ScanStack([Attention() for _ in range(2)]).double()
    split = shard(copy.deepcopy(layers), {}, mesh)
    run = pipe(split, mesh["pp"], 2)
    x = ft.randn(4, 8, 8, dtype=ft.float64)
    both = lambda f, net, x: [out := f(x), *ft.autograd.grad(out.square().sum(), [*net.parameters()])]
    with context_parallel(mesh["cp"]):
        got = ft.compile(lambda x: both(run, split, x))(shard(x.clone(), P(), mesh))
    for a, b in zip(got, both(layers, layers, x), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-10, 1e-12)


def test_a_step_computes_losses_and_gradients(row: Any) -> None:
    layers, split = stack(4), stack(4)
    x, y = ft.randn(2, 8, 8, dtype=ft.float64).unbind(0)
    schedule = pipe(split, row, 4, loss_fn=F.mse_loss)
    losses: list[Any] = []
    out = schedule.step(x, target=y, losses=losses)
    want = layers(x)
    F.mse_loss(want, y).backward()
    np.testing.assert_allclose(out.numpy(), want.detach().numpy(), rtol=1e-12)
    each = [F.mse_loss(a, b).item() for a, b in zip(want.chunk(4), y.chunk(4), strict=True)]
    np.testing.assert_allclose([loss.item() for loss in losses], each, rtol=1e-12)
    for p, q in zip(split.parameters(), layers.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), 1e-10, 1e-12)
    losses = []
    np.testing.assert_allclose(schedule.eval(x, target=y, losses=losses).numpy(), out.numpy())
    np.testing.assert_allclose([loss.item() for loss in losses], each, rtol=1e-12)


def by_hand(mesh: Any) -> str:
    """The same in JAX."""
    on = [(i, (i + 1) % 4) for i in range(4)]

    def layer(w: Any, x: Any) -> Any:
        y = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * w["n"][0] + w["n"][
            1
        ]
        return x + jax.nn.gelu(y @ w["up"].T + w["upb"], approximate=False) @ w["down"].T + w["downb"]

    def stages(w: Any, x: Any) -> Any:
        def step(arrived: Any, given: Any) -> Any:
            now = jnp.where(lax.axis_index("pp") == 0, given, arrived)
            now, _ = lax.scan(lambda x, w: (layer(w, x), None), now, w)
            return lax.ppermute(now, "pp", on), now

        given = jnp.concatenate([x, jnp.broadcast_to(x[:1], (3, *x.shape[1:]))])
        return lax.scan(step, x[0], given)[1][3:][None]

    run = jax.shard_map(
        stages, mesh=mesh.jax_mesh, in_specs=(P("pp"), P()), out_specs=P("pp"), check_vma=False
    )
    loss = lambda w, x: jnp.square(run(w, x.reshape(4, 2, 8))[-1]).sum()
    shapes = {"n": (2, 8), "up": (16, 8), "upb": (16,), "down": (8, 16), "downb": (8,)}
    like = lambda shape, spec: jax.ShapeDtypeStruct(
        shape, np.float32, sharding=NamedSharding(mesh.jax_mesh, spec)
    )
    weights = {name: like((4, *shape), P("pp")) for name, shape in shapes.items()}
    return str(jax.jit(jax.value_and_grad(loss)).lower(weights, like((8, 8), P())).compile().as_text())


def test_the_program_communicates_no_more_than_one_by_hand(row: Any) -> None:
    layers = stack(4)
    run = pipe(layers, row, 4)
    x = shard(ft.randn(8, 8, dtype=ft.float64), P(), row)

    @ft.compile
    def step(x: Any) -> Any:
        layers.zero_grad()
        loss = run(x).square().sum()
        loss.backward()
        return loss

    ours, theirs = text_of(step, x), by_hand(row)
    # there and back again; and the results of the last stage go to all
    assert counted(ours) == {"collective-permute": 4, "all-reduce": 1}
    assert counted(ours).total() <= counted(theirs).total()
    assert elements(ours).total() <= elements(theirs).total()


def test_a_trace_that_fails_leaves_the_layers_as_they_were(row: Any) -> None:
    layers = stack(4)
    weight = layers.stacked.up.weight
    run = pipe(layers, row, 2)

    @ft.compile
    def step(x: Any) -> Any:
        run(x)
        raise KeyError("mine")

    x = ft.ones(4, 8, dtype=ft.float64)
    with pytest.raises(KeyError, match="mine"):
        step(x)
    assert layers.stacked.up.weight is weight and run(x).shape == (4, 8)


def test_what_is_refused(row: Any) -> None:
    with pytest.raises(NotImplementedError, match="PipelineStage takes an nn.ScanStack of all layers"):
        PipelineStage(nn.Linear(8, 8), 0, 4, "cpu", group=row)
    with pytest.raises(ValueError, match="6 layers cannot be split into 4 equal stages"):
        PipelineStage(stack(6), 0, 4, "cpu", group=row)
    with pytest.raises(ValueError, match="this is stage 0 of 4 by the mesh, not 1 of 4"):
        PipelineStage(stack(4), 1, 4, "cpu", group=row)
    with pytest.raises(ValueError, match="a DeviceMesh of one dimension"):
        PipelineStage(stack(4), 0, 4, "cpu")
    run = pipe(stack(4), row, 3)
    with pytest.raises(ValueError, match="a batch of 8 cannot be split into 3 equal microbatches"):
        run(ft.zeros(8, 8, dtype=ft.float64))
