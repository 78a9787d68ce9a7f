"""`nn.scan` and `Sequential.scan_`: layers with their own parameters, compiled as one."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass

import numpy as np
import pytest

import functorch_port as ft
from functorch_port._base.jaxprs import operations

nn = ft.nn


class Block(nn.Module):
    def __init__(self, size=4, p=0.0):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(size), nn.Linear(size, 8), nn.Linear(8, size, bias=False)
        self.drop, self.act = nn.Dropout(p), ft.tanh
        self.register_buffer("scale", ft.tensor(0.5))

    def forward(self, x, shift=None, power=1):
        out = self.drop(self.down(self.act(self.up(self.norm(x))))) * self.scale**power
        return x + (out if shift is None else out + shift)


def blocks(n=4, p=0.0, container=nn.ModuleList):
    ft.manual_seed(0)
    made = [Block(p=p) for _ in range(n)]
    return (container(*made) if container is nn.Sequential else container(made)).double()


X = ft.arange(12.0).reshape(3, 4).double().sin()


def scans(step, *args):
    """How many loops a compiled function's last program has, and of how many rounds."""
    (program, *_) = step.programs()
    return [
        e.params["length"] for e in operations([program.executable.jaxpr.jaxpr]) if e.primitive.name == "scan"
    ]


def train(layers, run_layers, compile, clip=1.0):
    optimizer = ft.optim.AdamW(
        [
            {"params": [p for p in layers.parameters() if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in layers.parameters() if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=0.05,
    )

    @compile
    def step(x, shift):
        optimizer.zero_grad()
        loss = run_layers(x, shift).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(layers.parameters(), clip)
        optimizer.step()
        return loss

    losses = [step(X, ft.ones(4).double()).item() for _ in range(4)]
    state = optimizer.state_dict()["state"]
    moments = [v.numpy() for s in state.values() for v in s.values()]
    return losses, {k: v.numpy() for k, v in layers.state_dict().items()}, moments, step


@pytest.mark.parametrize("remat", [False, True, "dots_saveable"])
def test_trains_as_the_loop(remat):
    """Parameters, groups, optimizer state and gradients are those of each layer."""
    plain, layers = blocks(), blocks()

    def loop(x, shift):
        for layer in plain:
            x = layer(x, shift, power=2)
        return x

    want = train(plain, loop, lambda fn: fn)
    got = train(layers, lambda x, shift: nn.scan(layers, x, shift, power=2, remat=remat), ft.compile)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-10)
    assert list(got[1]) == list(want[1])
    for a, b in zip([*got[1].values(), *got[2]], [*want[1].values(), *want[2]], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-10)
    assert scans(got[3]) == [4, 4]  # forward and backward


def test_a_sequential_with_the_flag():
    plain, flagged = blocks(container=nn.Sequential), blocks(container=nn.Sequential).scan_(remat=True)
    assert list(plain.state_dict()) == list(flagged.state_dict()) and repr(plain) == repr(flagged)
    for again in (flagged, copy.deepcopy(flagged), pickle.loads(pickle.dumps(flagged))):
        run = ft.compile(lambda x, net=again: net(x))
        np.testing.assert_allclose(run(X).detach().numpy(), plain(X).detach().numpy(), rtol=1e-12)
        assert scans(run) == [4]
    np.testing.assert_allclose(flagged(X).detach().numpy(), plain(X).detach().numpy(), rtol=1e-12)
    with pytest.raises(ValueError, match="remat"):
        nn.Sequential().scan_("everything")
    assert nn.scan([], X) is X


def test_what_changes_in_any_layer_is_seen():
    layers = blocks(p=0.5).eval()
    run = ft.compile(lambda x: nn.scan(layers, x))

    def check():
        want = X
        for layer in layers:
            want = layer(want)
        np.testing.assert_allclose(run(X).detach().numpy(), want.detach().numpy(), rtol=1e-12)

    check()
    with ft.no_grad():
        layers[2].up.weight.mul_(3)
    check()
    assert run.traces == 1
    layers[3].train()
    with pytest.raises(ValueError, match="layer 3 differs from layer 0 in its attribute 'training'"):
        run(X)
    layers.eval()
    layers[1].drop.p = 0.25
    with pytest.raises(ValueError, match="layer 1 differs from layer 0 in its options"):
        run(X)
    layers[1].drop.p = 0.5
    check()
    layers[2].act = ft.sigmoid
    with pytest.raises(ValueError, match="layer 2 differs from layer 0 in its attribute 'act'"):
        run(X)
    for layer in layers:
        layer.act = ft.sigmoid
    check()
    layers[2].up.weight.requires_grad_(False)
    with pytest.raises(ValueError, match="layer 2 differs from layer 0 in its parameters"):
        run(X)
    layers[2].up.weight.requires_grad_(True)
    layers.append(copy.deepcopy(layers[0]))
    check()
    calls = []
    layers[1].register_forward_hook(lambda *a: calls.append(1))
    check()
    assert calls and not scans(run)  # with hooks it is a loop


def test_layers_with_a_config_and_those_of_the_library():
    """Equal dataclasses are equal; what changes in one of any layer is seen."""

    @dataclass
    class Config:
        factor: float = 0.5

    class Scaled(nn.Linear):
        def __init__(self, config):
            super().__init__(4, 4)
            self.config = config

        def forward(self, x):
            return x + self.config.factor * super().forward(x)

    layers = nn.ModuleList([Scaled(Config()) for _ in range(3)])
    run = ft.compile(lambda x: nn.scan(layers, x))
    x = ft.ones(2, 4)
    np.testing.assert_allclose(run(x).detach(), nn.Sequential(*layers)(x).detach(), rtol=1e-6)
    layers[2].config.factor = 0.25
    with pytest.raises(ValueError, match="layer 2 differs from layer 0 in its attribute 'config'"):
        run(x)
    encoder = nn.ModuleList([nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(3)]).eval()
    x = ft.linspace(-1, 1, 80).reshape(2, 5, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    run = ft.compile(lambda x: nn.scan(encoder, x, mask, is_causal=True))
    want = x
    for layer in encoder:
        want = layer(want, mask, is_causal=True)
    np.testing.assert_allclose(run(x).detach(), want.detach(), rtol=1e-4, atol=1e-5)
    assert scans(run) == [3]


def test_shared_layers_and_dropout():
    """A layer that occurs twice gets both gradients; each layer draws its own dropout."""
    layer = Block().double()
    tied = nn.ModuleList([layer, layer, layer])

    def gradient(fn):
        tied.zero_grad()
        fn(X).square().sum().backward()
        return [p.grad.numpy().copy() for p in layer.parameters()]

    want = gradient(nn.Sequential(*tied))
    for a, b in zip(gradient(ft.compile(lambda x: nn.scan(tied, x, remat=True))), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    drops = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5)).scan_()
    out = ft.compile(lambda x: drops(x))(ft.ones(4000))
    assert 0.2 < (out != 0).float().mean().item() < 0.3 and set(out.tolist()) == {0.0, 4.0}


def test_refused():
    cases = {
        "class": [nn.Tanh(), nn.ReLU()],
        "options": [nn.Linear(4, 4), nn.Linear(4, 4, bias=False)],
    }
    for what, layers in cases.items():
        with pytest.raises(ValueError, match=f"layer 1 differs from layer 0 in its {what}"):
            ft.compile(lambda x, layers=layers: nn.scan(layers, x))(ft.ones(2, 4))
    with pytest.raises(RuntimeError, match="shape and dtype must not change"):
        ft.compile(lambda x: nn.scan([nn.Flatten(), nn.Flatten()], x))(ft.ones(2, 4, 1))
    with pytest.raises(RuntimeError, match="would be lost"):
        norms = [nn.BatchNorm1d(4), nn.BatchNorm1d(4)]
        ft.compile(lambda x: nn.scan(norms, x))(ft.ones(2, 4))


def test_the_loop_in_a_program_does_not_grow():
    def count(n):
        layers = blocks(n)
        jaxpr = ft.functionalize(lambda x: nn.scan(layers, x)).jaxpr(X)
        return sum(e.primitive.name in ("dot_general", "tanh") for e in operations([jaxpr.jaxpr]))

    assert count(3) == count(9)
