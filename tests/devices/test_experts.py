"""Mixtures of experts: the numbers of a dense computation, on one device and on many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from collectives import counted, shapes_of, text_of
from jax.sharding import PartitionSpec as P

import functorch_port as ft
from functorch_port.distributed.experts import ExpertParallel, MixtureOfExperts
from functorch_port.distributed.sharding import shard
from functorch_port.distributed.tensor.parallel import parallelize_module

nn, F = ft.nn, ft.nn.functional


def made(**how: Any) -> Any:
    ft.manual_seed(0)
    return MixtureOfExperts(8, 16, **{"num_experts": 4, "capacity_factor": None, **how}).double()


def dense(layer: Any, x: Any) -> Any:
    """All experts for all tokens, and of these the chosen ones."""
    probs = F.softmax(x @ layer.router.T, -1)
    h = ft.einsum("...d,edh->...eh", x, layer.weight1) + layer.bias1
    if layer.gated:
        a, b = h.chunk(2, -1)
        h = layer.activation(a) * b
    else:
        h = layer.activation(h)
    all_of = ft.einsum("...eh,ehd->...ed", h, layer.weight2) + layer.bias2
    gates, chosen = probs.topk(layer.top_k, -1)
    if layer.normalize:
        gates = gates / gates.sum(-1, keepdim=True)
    return (gates.unsqueeze(-1) * all_of.gather(-2, chosen.unsqueeze(-1).expand(*chosen.shape, 8))).sum(-2)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    "how", [{}, {"top_k": 1, "groups": 4}, {"top_k": 3, "gated": True, "activation": F.silu}]
)
def test_with_room_for_all_it_is_the_dense_computation(how: Any, compiled: bool) -> None:
    layer = made(**how)
    x = ft.randn(4, 6, 8, dtype=ft.float64, requires_grad=True)
    inputs = [x, *layer.parameters()]

    def both(f: Any) -> Any:
        out = f(x)
        return [out, *ft.autograd.grad(out.square().sum(), inputs)]

    run = ft.compile(both) if compiled else both
    got, want = run(lambda x: layer(x).output), both(lambda x: dense(layer, x))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-10, 1e-12)
    assert layer(x).dropped.item() == 0


def test_losses_are_those_of_the_papers() -> None:
    layer = made(top_k=1)
    x = ft.randn(12, 8, dtype=ft.float64)
    logits = (x @ layer.router.T).detach().numpy()
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    share = np.bincount(probs.argmax(-1), minlength=4) / 12
    routed = layer(x)
    np.testing.assert_allclose(routed.balance_loss.item(), 4 * (share * probs.mean(0)).sum())
    np.testing.assert_allclose(routed.z_loss.item(), (np.log(np.exp(logits).sum(-1)) ** 2).mean())
    with ft.no_grad():
        layer.router.zero_()
    np.testing.assert_allclose(layer(x).balance_loss.item(), 1)


def test_what_finds_no_room_is_dropped() -> None:
    layer = made(top_k=2, capacity_factor=0.5)
    with ft.no_grad():  # the first choice is always expert 0, the second 1
        layer.router.copy_(ft.tensor([3.0, 2.0, 1.0, 0.0]).unsqueeze(1).expand(4, 8))
    x = ft.rand(8, 8, dtype=ft.float64)
    assert layer.capacity(8) == 2
    routed = layer(x)
    np.testing.assert_allclose(routed.output[:2].detach().numpy(), dense(layer, x)[:2].detach().numpy())
    assert routed.output[2:].abs().sum().item() == 0
    assert routed.dropped.item() == 0.75
    # a second choice goes behind all first ones
    layer.capacity_factor, layer.top_k = 4 / 8 * 4 / 2, 2
    with ft.no_grad():
        x[:4].neg_()  # their first choice is 3, the second 2
    assert layer(x).dropped.item() == 0


def trained(on: Any, compiled: bool, groups: int) -> tuple[Any, Any]:
    """With tokens dropped: they are the same ones everywhere."""
    ft.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8).double(), made(groups=groups, capacity_factor=1.0))
    if on is not None:
        shard(net, {}, on)
        parallelize_module(net, on["ep"], {"1": ExpertParallel()})
    opt = ft.optim.AdamW(net.parameters(), 0.01)
    rng = np.random.default_rng(0)

    def step(x: Any) -> Any:
        opt.zero_grad()
        routed = net(x)
        loss = (routed.output - x).square().mean() + 0.01 * routed.balance_loss + 1e-3 * routed.z_loss
        loss.backward()
        opt.step()
        return loss

    run = ft.compile(step) if compiled else step
    losses = []
    for _ in range(20):
        x = ft.tensor(rng.standard_normal((8, 6, 8)))
        losses.append(run(x if on is None else shard(x, P(("dp", "ep")), on)).item())
    return np.array(losses), net


@pytest.mark.parametrize(("compiled", "groups"), [(False, 8), (True, 8), (True, 1)])
def test_experts_on_devices_have_the_numbers_of_one_device(compiled: bool, groups: int) -> None:
    mesh = ft.distributed.init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "ep"))
    want, one = trained(None, compiled, groups)
    got, net = trained(mesh, compiled, groups)
    np.testing.assert_allclose(got, want, rtol=1e-10)
    for p, q in zip(net.parameters(), one.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), 1e-8, 1e-9)
    assert {s.data.shape for s in net[1].weight1.jax().addressable_shards} == {(1, 8, 16)}


def test_tokens_go_to_their_experts_and_back() -> None:
    mesh = ft.distributed.init_device_mesh("cpu", (8,), mesh_dim_names=("ep",))
    layer = MixtureOfExperts(8, 16, num_experts=8, groups=8)
    parallelize_module(layer, mesh, ExpertParallel())
    x = shard(ft.randn(64, 8), P("ep"), mesh)
    text = text_of(ft.compile(lambda x: layer(x).output), x)
    found = shapes_of(text)
    assert counted(text) == {"all-to-all": 2}, found
    # the parts of an all-to-all, one for each device, are a group's tokens for an expert
    assert {np.prod(shape) for _, shape in found} == {layer.capacity(8) * 8}

    @ft.compile
    def step(x: Any) -> Any:
        layer.zero_grad()
        routed = layer(x)
        loss = routed.output.square().mean() + routed.balance_loss
        loss.backward()
        return loss

    text = text_of(step, x)
    # x has no gradient that would go back; what is summed are means over all tokens, and the gradient of the router
    assert counted(text)["all-to-all"] == 3 and counted(text)["all-gather"] == 0
    assert {shape for kind, shape in shapes_of(text) if kind == "all-reduce"} <= {(), (8,), (8, 8)}


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="top_k must be between 1 and the number of experts, 4, got 5"):
        MixtureOfExperts(8, 16, 4, top_k=5)
    with pytest.raises(ValueError, match="capacity_factor must be positive"):
        MixtureOfExperts(8, 16, 4, capacity_factor=0)
    mesh = ft.distributed.init_device_mesh("cpu", (8,))
    with pytest.raises(ValueError, match="cannot be split into 8 equal parts"):
        parallelize_module(MixtureOfExperts(8, 16, 4), mesh, ExpertParallel())
    with pytest.raises(NotImplementedError, match="ExpertParallel is for MixtureOfExperts"):
        parallelize_module(nn.Linear(8, 8), mesh, ExpertParallel())
