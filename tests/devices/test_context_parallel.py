"""Attention in a ring of devices: values and gradients of plain attention, in less memory for each device."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from collectives import counted, text_of
from jax.sharding import PartitionSpec as P

import functorch_port as ft
from functorch_port.distributed.sharding import shard
from functorch_port.distributed.tensor import Replicate, Shard
from functorch_port.distributed.tensor.experimental import context_parallel

nn, F = ft.nn, ft.nn.functional
attention = F.scaled_dot_product_attention


@pytest.fixture(scope="module")
def row() -> Any:
    return ft.distributed.init_device_mesh("cpu", (4,), mesh_dim_names=("cp",))


def tensors(*shapes: tuple[int, ...], dtype: Any = ft.float64) -> list[Any]:
    rng = np.random.default_rng(0)
    return [ft.tensor(rng.standard_normal(shape), dtype=dtype, requires_grad=True) for shape in shapes]


def results(inputs: list[Any], mesh: Any, compiled: bool, **how: Any) -> list[Any]:
    def both(*inputs: Any) -> Any:
        out = attention(*inputs, **how)
        return [out, *ft.autograd.grad(out.square().sum(), inputs)]

    run = ft.compile(both) if compiled else both
    if mesh is None:
        return [t.detach().numpy() for t in run(*inputs)]
    with context_parallel(mesh):
        return [t.detach().numpy() for t in run(*inputs)]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_plain_attention(causal: bool, compiled: bool, row: Any) -> None:
    inputs = tensors((2, 3, 16, 4), (2, 3, 16, 4), (2, 3, 16, 5))
    want = results(inputs, None, False, is_causal=causal)
    for got, expected in zip(results(inputs, row, compiled, is_causal=causal), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_a_causal_sequence_is_dealt_to_any_number_of_devices(count: int) -> None:
    mesh = ft.distributed.init_device_mesh("cpu", (count,))
    for length in (count * 2, count * 3, count * 4):  # an odd part stays as it is
        inputs = tensors((1, 2, length, 4), (1, 2, length, 4), (1, 2, length, 4))
        want = results(inputs, None, False, is_causal=True)
        for got, expected in zip(results(inputs, mesh, True, is_causal=True), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_other_lengths_groups_of_heads_and_a_scale(causal: bool, row: Any) -> None:
    inputs = tensors((2, 4, 8, 4), (2, 2, 16, 4), (2, 2, 16, 4))
    how = {"is_causal": causal, "enable_gqa": True, "scale": 0.3}
    want = results(inputs, None, False, **how)
    for got, expected in zip(results(inputs, row, True, **how), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


def test_half_precision_is_rounded_once(row: Any) -> None:
    inputs = tensors((1, 2, 16, 4), (1, 2, 16, 4), (1, 2, 16, 4), dtype=ft.bfloat16)
    exact = [x.detach().double().requires_grad_() for x in inputs]
    want = results(exact, None, False, is_causal=True)
    with context_parallel(row):
        got = attention(*inputs, is_causal=True)
    assert got.dtype == ft.bfloat16
    np.testing.assert_allclose(got.detach().double().numpy(), want[0], rtol=2**-8, atol=1e-3)


@pytest.mark.parametrize("causal", [False, True])
def test_what_is_dropped_depends_on_the_seed_and_not_on_the_devices(causal: bool) -> None:
    p, (q, k, v) = 0.4, tensors((2, 3, 16, 4), (2, 3, 16, 4), (2, 3, 16, 5))

    def both(value: Any) -> list[Any]:
        out = attention(q, k, value, dropout_p=p, is_causal=causal)
        return [out, *ft.autograd.grad(out.square().sum(), [q, k, value])]

    def ring(f: Any, count: int, value: Any) -> Any:
        ft.manual_seed(3)
        with context_parallel(ft.distributed.init_device_mesh("cpu", (count,))):
            return f(value)

    with ft.no_grad():
        eye = ft.eye(16, dtype=ft.float64).expand(2, 3, 16, 16)  # of which a weight is the factor
        kept = ring(lambda v: attention(q, k, v, dropout_p=p, is_causal=causal), 4, eye) != 0
    scores = (q @ k.mT) / 2
    if causal:
        scores = scores.masked_fill(~ft.ones(16, 16).bool().tril(), -ft.inf)
    out = F.softmax(scores, -1) * kept / (1 - p) @ v
    want = [out, *ft.autograd.grad(out.square().sum(), [q, k, v])]
    for got, expected in zip(ring(ft.compile(both, rng="torch"), 2, v), want, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), 1e-10, 1e-12)


def test_the_share_of_weights_that_is_dropped(row: Any) -> None:
    x, eye = ft.zeros(2, 4, 64, 2), ft.eye(64).expand(2, 4, 64, 64)
    with context_parallel(row):
        found = [attention(x, x, eye, dropout_p=p) for p in (0.3, 0.3, 1.0)]
    first, second = (out != 0 for out in found[:2])
    assert found[2].abs().sum() == 0
    np.testing.assert_allclose(found[0].sum(-1).mean().item(), 1, atol=0.02)
    for a, b in (
        (first, second),
        (first[0], first[1]),
        (first[:, 0], first[:, 1]),
        (first[..., :8], first[..., 8:16]),
    ):
        np.testing.assert_allclose(
            a.float().mean().item(), 0.7, atol=0.015
        )  # 3 standard deviations of the smallest
        np.testing.assert_allclose((a == b).float().mean().item(), 0.58, atol=0.02)  # as independent ones


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        q, k, v = (y.unflatten(-1, (2, 4)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        return self.out(attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def trained(mesh: Any, compiled: bool) -> np.ndarray:
    ft.manual_seed(0)
    net = Model().double()
    opt = ft.optim.AdamW(net.parameters(), 0.01)
    rng = np.random.default_rng(0)
    if mesh is not None:
        shard(net, {}, mesh)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        return loss

    run = ft.compile(step) if compiled else step
    losses = []
    for _ in range(20):
        x, y = (ft.tensor(rng.standard_normal((4, 16, 8))) for _ in range(2))
        if mesh is None:
            losses.append(run(x, y).item())
            continue
        shard(x, P("dp"), mesh)
        shard(y, P("dp"), mesh)
        with context_parallel(mesh["cp"], buffers=[x, y], buffer_seq_dims=[1, 1], no_restore_buffers={x}):
            assert {s.data.shape for s in x.jax().addressable_shards} == {(2, 4, 8)}
            losses.append(run(x, y).item())
        assert x.placements[-1] == Shard(1) and y.placements[-1] == Replicate()
    return np.array(losses)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_training_beside_data_parallelism_has_the_numbers_of_one_device(compiled: bool) -> None:
    mesh = ft.distributed.init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "cp"))
    np.testing.assert_allclose(trained(mesh, compiled), trained(None, compiled), rtol=1e-10)


def test_only_neighbours_communicate_and_memory_falls_with_the_part(row: Any) -> None:
    needs = {}
    for count in (2, 8):
        mesh = ft.distributed.init_device_mesh("cpu", (count,), mesh_dim_names=("cp",))
        x = shard(ft.zeros(1, 1, 512, 8), P(None, None, "cp"), mesh)
        step = ft.compile(lambda x: ft.autograd.grad(attention(x, x * 2, x * 3, is_causal=True).sum(), x)[0])
        x.requires_grad_()
        with context_parallel(mesh):
            program = text_of(step, x)
            (traced,) = step.programs()
            like = jax.ShapeDtypeStruct(x.shape, np.float32, sharding=x.jax().sharding)
            lowered = jax.jit(traced.executable.pure).lower([], [like])
            needs[count] = lowered.compile().memory_analysis().temp_size_in_bytes
        # keys and values on the way there; on the way back they and their gradients. Beside it, two pieces of each
        # input are dealt, there and back; those of the result are collected, on the way back alone: nobody wants it
        assert counted(program) == {"collective-permute": 2 + 4 + 2 * (2 * 3 + 1)}
        assert "512,512" not in program
    assert needs[8] < needs[2] / 3


def test_the_context_ends_and_programs_know_it(row: Any) -> None:
    x = shard(ft.ones(1, 1, 8, 4), P(), row)
    step = ft.compile(lambda x: attention(x, x, x))
    plain = text_of(step, x)
    with context_parallel(row):
        ring = text_of(step, x)
    assert not counted(plain) and counted(ring)
    assert text_of(step, x) == plain and step.traces == 2


def test_what_is_refused(row: Any) -> None:
    x = ft.zeros(1, 1, 8, 4)
    with pytest.raises(ValueError, match="`seq_dims` must have the same number of elements as `buffers`"):
        context_parallel(row, buffers=[x]).__enter__()
    with pytest.raises(ValueError, match="`no_restore_buffers` must be a subset of `buffers`"):
        context_parallel(row, no_restore_buffers={x}).__enter__()
    with context_parallel(row):
        with pytest.raises(NotImplementedError, match="attn_mask=.* within context_parallel"):
            attention(x, x, x, attn_mask=ft.zeros(8, 8))
        with pytest.raises(RuntimeError, match="dropout probability has to be between 0 and 1, but got 1.5"):
            attention(x, x, x, dropout_p=1.5)
        with pytest.raises(ValueError, match="has 6 elements, which 4 devices cannot share"):
            attention(*[ft.zeros(1, 1, 6, 4)] * 3)

    @ft.compile
    def inside(x: Any) -> Any:
        with context_parallel(row, buffers=[x], buffer_seq_dims=[2]):
            return attention(x, x, x)

    with pytest.raises(NotImplementedError, match="enter the context around its call"):
        inside(x)
