"""`nn.ScanStack`: the same numbers as the layers one by one, in a program of one size for any depth."""

from __future__ import annotations

import copy
import pickle

import jax
import numpy as np
import pytest

import functorch_port as ft

nn = ft.nn


class Block(nn.Module):
    def __init__(self, size=4, p=0.0):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(size), nn.Linear(size, 8), nn.Linear(8, size, bias=False)
        self.drop = nn.Dropout(p)
        self.register_buffer("scale", ft.tensor(0.5))

    def forward(self, x, shift=None, power=1):
        out = self.drop(self.down(ft.tanh(self.up(self.norm(x))))) * self.scale**power
        return x + (out if shift is None else out + shift)


def stack(n=5, container=nn.ScanStack, **kwargs):
    ft.manual_seed(0)
    return container([Block() for _ in range(n)], **kwargs).double()


def train(layers, compile, steps=4):
    head = nn.Linear(4, 1).double()
    with ft.no_grad():
        head.weight.fill_(0.3)
        head.bias.fill_(0.1)
    opt = ft.optim.Adam([*layers.parameters(), *head.parameters()], lr=0.05)
    x = ft.arange(12.0).reshape(3, 4).double().sin()

    def step(x, shift):
        opt.zero_grad()
        for layer in [layers] if isinstance(layers, nn.ScanStack) else layers:
            x = layer(x, shift, power=2)
        loss = head(x).square().mean()
        loss.backward()
        opt.step()
        return loss

    run = compile(step)
    losses = [run(x, ft.ones(4).double()).item() for _ in range(steps)]
    return losses, {k: v.numpy() for k, v in layers.state_dict().items()}


@pytest.mark.parametrize("remat", [False, True, "dots_saveable", jax.checkpoint_policies.nothing_saveable])
def test_trains_as_the_layers_one_by_one(remat):
    want, state = train(stack(container=nn.ModuleList), lambda fn: fn)
    got, mine = train(stack(remat=remat), ft.compile)
    np.testing.assert_allclose(got, want, rtol=1e-10)
    assert list(mine) == list(state)
    for name, value in state.items():
        np.testing.assert_allclose(mine[name], value, rtol=1e-7, atol=1e-9, err_msg=name)


def test_eager_frozen_and_transforms():
    layers, x = stack(3), ft.ones(2, 4).double()
    layers.stacked.up.weight.requires_grad_(False)
    layers(x).sum().backward()
    want = {n: p.grad for n, p in layers.named_parameters()}
    layers.zero_grad()

    @ft.compile
    def step(x):
        layers(x).sum().backward()

    step(x)
    for name, p in layers.named_parameters():
        assert (p.grad is None) == (want[name] is None), name
        if p.grad is not None:
            np.testing.assert_allclose(p.grad.numpy(), want[name].numpy(), rtol=1e-10)
    grad = ft.func.grad(lambda x: layers(x).sum())(x)
    leaf = x.clone().requires_grad_()
    layers(leaf).sum().backward()
    np.testing.assert_allclose(grad.detach().numpy(), leaf.grad.numpy(), rtol=1e-10)


def test_state_is_that_of_the_layers():
    plain = nn.Sequential(*[Block() for _ in range(3)])
    layers = nn.ScanStack(plain)
    state, mine = plain.state_dict(), layers.state_dict()
    assert list(mine) == list(state) and {k for k in mine._metadata if k} == {k for k in state._metadata if k}
    assert all(mine[k].tolist() == state[k].tolist() for k in state)
    outer = nn.ModuleDict({"a": nn.ScanStack([Block() for _ in range(3)])})
    outer.load_state_dict({f"a.{k}": v for k, v in state.items()})
    x = ft.ones(2, 4)
    np.testing.assert_allclose(outer["a"](x).detach().numpy(), plain(x).detach().numpy(), rtol=1e-6)
    plain.load_state_dict(layers.state_dict())
    assert [v.tolist() for v in layers.unstack().state_dict().values()] == [
        v.tolist() for v in state.values()
    ]
    with pytest.raises(RuntimeError, match="Missing key"):
        layers.load_state_dict({k: v for k, v in state.items() if k != "1.up.bias"})
    again = copy.deepcopy(layers)
    assert repr(again) == repr(layers) and "(0-2): 3 x Block(" in repr(layers) and len(again) == 3
    assert pickle.loads(pickle.dumps(nn.ScanStack([nn.Tanh()]))).count == 1


def size_of(n, **kwargs):
    layers, x = stack(n, **kwargs), ft.ones(2, 4).double()
    pure = ft.functionalize(lambda x: layers(x))
    jaxpr = jax.make_jaxpr(pure)(pure.state(x), x.jax()).jaxpr
    while not any(e.primitive.name == "scan" for e in jaxpr.eqns):
        jaxpr = next(e.params["jaxpr"].jaxpr for e in jaxpr.eqns if "jaxpr" in e.params)
    return sum(e.primitive.name in ("dot_general", "tanh", "jit", "scan") for e in jaxpr.eqns)


def test_the_program_does_not_grow_with_the_depth():
    assert size_of(3) == size_of(12)


def test_dropout_differs_between_layers_and_modes_are_noticed():
    ft.manual_seed(0)
    layers = nn.ScanStack([nn.Dropout(0.5) for _ in range(3)])
    run = ft.compile(lambda x: layers(x))
    out = run(ft.ones(4000))
    values, counts = np.unique(out.numpy(), return_counts=True)
    assert values.tolist() == [0.0, 8.0] and abs(counts[1] / 4000 - 1 / 8) < 0.03
    torch_like = ft.compile(lambda x: layers(x), rng="torch")  # PyTorch's stream: a loop
    ft.manual_seed(1)
    out = torch_like(ft.ones(40))
    ft.manual_seed(1)
    assert out.tolist() == layers(ft.ones(40)).tolist()
    layers.eval()
    assert run(ft.ones(4)).tolist() == [1.0] * 4
    layers.stacked.register_forward_hook(lambda m, args, out: out * 0)
    assert run(ft.ones(4)).tolist() == [0.0] * 4


def test_layers_within_a_transform_are_learned():
    """In a compiled function, too, where they are one operation of the function that is differentiated."""
    layers, x = stack(2), ft.ones(2, 4).double()
    scale = ft.ones(4).double().requires_grad_()

    def step(x):
        ft.func.grad(lambda x: (layers(x) * scale).square().sum())(x).sum().backward()

    step(x)
    want = [p.grad.clone() for p in (*layers.parameters(), scale)]
    for p in (*layers.parameters(), scale):
        p.grad = None
    ft.compile(step)(x)
    for p, grad in zip((*layers.parameters(), scale), want, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), grad.numpy(), 1e-10, 1e-12)


def test_refusals():
    with pytest.raises(ValueError, match="layer 1 differs from layer 0 in its class"):
        nn.ScanStack([nn.Linear(2, 2), nn.Identity()])
    with pytest.raises(ValueError, match="at least one"):
        nn.ScanStack([])
    with pytest.raises(ValueError, match="options"):
        nn.ScanStack([nn.Dropout(0.1), nn.Dropout(0.2)])
    with pytest.raises(ValueError, match="no 'x'"):
        nn.ScanStack([nn.Identity()], remat="x")
    with pytest.raises(RuntimeError, match="shape and dtype must not change"):
        layers = nn.ScanStack([nn.Linear(2, 3), nn.Linear(2, 3)])
        ft.compile(lambda x: layers(x))(ft.ones(1, 2))
    with pytest.raises(RuntimeError, match="writes to its 'running_mean'"):
        norms = nn.ScanStack([nn.BatchNorm1d(2), nn.BatchNorm1d(2)])
        ft.compile(lambda x: norms(x))(ft.ones(4, 2))
