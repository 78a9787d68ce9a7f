"""Names of modules and regions in compiled programs."""

from __future__ import annotations

import re

import functorch_port as ft
from functorch_port import nn
from functorch_port._base.flops import by_scope, scope_of
from functorch_port.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        return self.conv(x).relu()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.fc(x.mean((2, 3)))


def compiled_step(region: str = "loss"):
    model = Net()
    optimizer = ft.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        out = model(x)
        with ft.profiler.record_function(region):
            loss = (out * out).sum()
        loss.backward()
        optimizer.step()
        return loss

    step = ft.compile(step)
    step(ft.ones(2, 3, 4, 4))
    return step


def test_operations_have_the_names_of_modules() -> None:
    executable = compiled_step().programs()[0].executable
    scopes = {scope_of(eqn) for eqn in executable.jaxpr.jaxpr.eqns}
    expected = {"model/layers/0/conv", "model/layers/1/conv", "model/layers/0", "model/fc", "loss"}
    assert expected | {f"backward/{name}" for name in expected} | {"SGD.step"} <= scopes
    text = executable.lower().compile().as_text()
    names = set(re.findall(r'op_name="([^"]*)"', text))
    for name in ("/model/fc/", "/backward/model/fc/"):
        assert any(name in found for found in names), name


def test_sums_of_gradients_belong_to_the_backward_pass() -> None:
    layer = nn.Linear(3, 3)

    @ft.compile
    def grads(x):
        (layer(x).sum() + layer(2 * x).sum()).backward()
        return layer.weight.grad

    grads(ft.ones(2, 3))
    jaxpr = grads.programs()[0].executable.jaxpr.jaxpr
    sums = [scope_of(eqn) for eqn in jaxpr.eqns if eqn.primitive.name in ("add", "add_any")]
    assert sums and set(sums) == {"backward"}  # the results are not asked for


def test_flops_by_module() -> None:
    counts = by_scope(compiled_step().programs()[0].executable.jaxpr)
    conv = 2 * 2 * 3 * 4 * 4 * 3 * 9
    assert counts == {
        "model/layers/0/conv": conv,
        "model/layers/1/conv": conv,
        "model/fc": 2 * 2 * 3 * 2,
        "backward/model/fc": 2 * (2 * 2 * 3 * 2),
        "backward/model/layers/1/conv": 2 * conv,
        "backward/model/layers/0/conv": conv,  # the input needs no gradient
    }


def test_what_is_computed_again_belongs_to_the_backward_pass_of_its_module() -> None:
    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(2, 8), nn.Linear(8, 2)

        def forward(self, x):
            return checkpoint(lambda x: self.second(self.first(x).relu()), x, use_reentrant=False)

    model = Wide()

    @ft.compile(keep_grads=False)
    def step(x):
        loss = model(x).sum()
        loss.backward()
        return loss, [p.grad for p in model.parameters()]

    step(ft.ones(3, 2))
    one = 2 * 3 * 2 * 8
    assert by_scope(step.programs()[0].executable.jaxpr) == {
        "model/first": one,
        "model/second": one,
        "backward/rematted_computation/model/first": one,
        "backward/model/second": 2 * one,
        "backward/model/first": one,
    }


def test_a_module_itself_has_the_name_of_its_class() -> None:
    model = ft.compile(Net())
    with ft.no_grad():
        model(ft.ones(1, 3, 4, 4))
    jaxpr = model.compiled.programs()[0].executable.jaxpr.jaxpr
    assert "Net/layers/0/conv" in {scope_of(eqn) for eqn in jaxpr.eqns}


def test_errors_leave_no_scope_behind() -> None:
    from functorch_port._base import scopes

    class Wrong(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    model = Wrong()
    for _ in range(2):
        try:
            ft.compile(lambda x: model(x))(ft.ones(1))
        except ValueError:
            pass
    assert (scopes.state.path, scopes.state.module) == ("", None)


def test_a_call_of_a_class_of_its_own_runs_once() -> None:
    """Within a scope `Module`'s is entered again, and not that of the class."""

    class Counting(nn.Linear):
        calls = 0

        def __call__(self, x):
            self.calls += 1
            return super().__call__(x)

    layer, x = Counting(2, 2), ft.ones(1, 2)
    layer(x)
    with ft.no_grad():
        layer(x)
    assert layer.calls == 2
    traced = []
    ft.compile(lambda x: traced.append(x) or layer(x))(x)
    assert layer.calls == 2 + len(traced)


def test_a_module_within_itself_keeps_its_name_and_its_hooks() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x, again=True):
            return self(self.fc(x), again=False) if again else self.fc(x).relu()

    model, seen = Twice(), []
    model.register_forward_pre_hook(lambda module, args: seen.append(module))
    step = ft.compile(lambda x: model(x))
    with ft.no_grad():
        assert ft.allclose(step(ft.ones(1, 2)), model(ft.ones(1, 2)))
    assert len(seen) == 4
    found = {scope_of(eqn) for eqn in step.programs()[0].executable.jaxpr.jaxpr.eqns}
    assert found - {""} == {"model", "model/fc"}
