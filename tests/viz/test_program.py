"""Pictures of compiled programs, tables of layers, curves."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest
import torch

import functorch_port as ft
from functorch_port import nn, viz


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)

    def forward(self, x):
        return self.bn(self.conv(x)).relu()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(Block(3), Block(8))
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        return self.fc(self.layer1(x).mean((2, 3)))


@pytest.fixture(scope="module")
def step():
    model = Net()
    optimizer = ft.optim.SGD(model.parameters(), lr=0.1)

    @ft.compile
    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    step(ft.ones(2, 3, 8, 8))
    return step


def nodes(source: str) -> dict[str, str]:
    """The colours of nodes by name."""
    found = {}
    for statement in source.split("\n\t"):
        name, _, rest = statement.strip().partition(" [label=")
        if 'fillcolor="' in rest:
            found[name.strip('"')] = rest.partition('fillcolor="')[2].partition('"')[0]
    return found


def test_boxes_are_the_modules(step) -> None:
    source = viz.program(step).source
    found = nodes(source)
    forward, backward, rest = "#cfe2f3", "#f9cb9c", "#d9ead3"
    for name in ("model/layer1/0/conv", "model/layer1/1/bn", "model/fc"):
        assert found[name] == forward and found[f"backward/{name}"] == backward
    assert found["SGD.step"] == rest
    assert 'subgraph "cluster_model/layer1"' in source and "subgraph cluster_backward" in source
    assert "1.28 kFLOPs" not in source and "320 FLOPs" in source  # of fc: 2 * 2 * 8 * 10
    arrows = [line for line in source.splitlines() if "->" in line]
    assert any('"model/layer1/1/bn" -> "backward/model/layer1/1/bn"' in a and "dashed" in a for a in arrows)
    assert any('"backward/model/fc" -> "SGD.step"' in a and "solid" in a and '"360 B"' in a for a in arrows)


def test_operations_are_within_the_modules(step) -> None:
    source = viz.program(step, operations=True).source
    assert len(nodes(source)) == len(step.programs()[0].executable.jaxpr.jaxpr.eqns)
    assert "float32[2,10]" in source
    with pytest.raises(ValueError, match="more than most=3"):
        viz.program(step, operations=True, most=3)


def test_functions_that_are_not_compiled_are() -> None:
    model = nn.Linear(3, 2)
    assert "model" in nodes(viz.program(lambda x: model(x).sum(), ft.ones(4, 3)).source)
    for module in (model, ft.compile(model)):
        assert "Linear" in nodes(viz.program(module, ft.ones(4, 3)).source)


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_pictures_can_be_rendered(step, tmp_path) -> None:
    path = Path(viz.program(step).render(tmp_path / "step", format="svg"))
    assert "layer1" in path.read_text()


def test_the_program_is_that_of_the_arguments() -> None:
    step = ft.compile(lambda x: (x @ x).sum())
    step(ft.ones(2, 2))
    small, large = (viz.program(step, ft.ones(n, n)).source for n in (2, 3))
    assert "16 FLOPs" in small and "54 FLOPs" in large and viz.program(step).source == large


def test_summary() -> None:
    model = Net()
    model.layer1[0].conv.bias.requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = viz.summary(model, input_size=(2, 3, 8, 8))
    assert model.training and all(m.training for m in model.modules())
    assert all((before[name] == value).all() for name, value in model.state_dict().items())
    rows = {layer.name: layer for layer in found.layers}
    first, second, fc = 2 * 2 * 8 * 64 * 27, 2 * 2 * 8 * 64 * 72, 2 * 2 * 8 * 10
    assert rows["layer1.0.conv"].flops == first and rows["layer1.1.conv"].flops == second
    assert rows["layer1"].flops == first + second
    assert found.total_flops == rows[""].flops == first + second + fc
    assert rows["layer1.0"].output == [2, 8, 8, 8] and rows["layer1.0"].nbytes == 4 * 2 * 8 * 64
    assert found.output_bytes == 4 * (4 * 2 * 8 * 64 + 2 * 10)
    text = str(found)
    assert "Conv2d (conv)" in text and f"{first:,}" in text
    assert "Conv2d" not in str(viz.summary(model, ft.ones(2, 3, 8, 8), depth=1))
    compiled, named = viz.summary(ft.compile(model), ft.ones(2, 3, 8, 8)), {"x": ft.ones(2, 3, 8, 8)}
    assert compiled.total_flops == viz.summary(model, named).total_flops == found.total_flops


def test_summary_beside_torchinfo() -> None:
    torchinfo = pytest.importorskip("torchinfo")

    def model(T):
        n = T.nn
        shared = n.Linear(6, 6)
        return n.Sequential(n.Conv1d(2, 4, 3), n.Flatten(), n.Linear(16, 6), shared, n.ReLU(), shared)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torchinfo.summary(model(torch), input_size=(3, 2, 6), verbose=0)
    ours = viz.summary(model(ft), input_size=(3, 2, 6))
    assert (ours.total_params, ours.trainable_params) == (theirs.total_params, theirs.trainable_params)
    assert [r.output for r in ours.layers] == [layer.output_size for layer in theirs.summary_list]
    assert [r.kind for r in ours.layers] == [layer.class_name for layer in theirs.summary_list]
    assert "(shared)" in str(ours)


def test_summary_refuses() -> None:
    for options in ({}, {"input_data": ft.ones(1, 3), "input_size": (1, 3)}):
        with pytest.raises(ValueError, match="either"):
            viz.summary(nn.Linear(3, 2), **options)
    with pytest.raises(ValueError, match="2 dtypes for 1 inputs"):
        viz.summary(nn.Linear(3, 2), input_size=(1, 3), dtypes=[ft.float32, ft.float32])


def test_landscapes(tmp_path) -> None:
    layer = nn.Linear(4, 3)
    before = [p.clone() for p in layer.parameters()]
    state = ft.get_rng_state()
    loss = lambda: layer.weight.square().sum() + layer.bias.sum()
    at, losses = viz.loss_landscape(layer, loss, tmp_path / "loss.png", steps=5, span=2.0)
    assert all((p == old).all() for p, old in zip(layer.parameters(), before))
    assert (ft.get_rng_state() == state).all()
    assert losses[2, 2] == pytest.approx(loss().item(), rel=1e-6)
    squares = layer.weight.square().sum().item()  # that of a direction, too
    for line in (losses[:, 2], losses[2]):
        for k in (1, 2):
            assert line[2 + k] + line[2 - k] - 2 * line[2] == pytest.approx(
                2 * at[2 + k] ** 2 * squares, rel=1e-4
            )
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ZeroDivisionError):
        viz.loss_landscape(layer, lambda: 1 / 0)
    assert all((p == old).all() for p, old in zip(layer.parameters(), before))
    with pytest.raises(ValueError, match="0 parameters"):
        viz.loss_landscape(nn.ReLU(), loss)


def test_curves(tmp_path) -> None:
    history = {"train/loss": [ft.tensor(1.0), 0.5], "test/loss": [(0, 1.1), (1, 0.7)], "rate": [0.1, 0.1]}
    viz.plot_history(history, tmp_path / "history.png", log=True)
    assert (tmp_path / "history.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="nothing"):
        viz.plot_history({"loss": []}, tmp_path / "none.png")
