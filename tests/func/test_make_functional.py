"""The old names of `torch.func`: modules as functions, and ``import functorch``."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import pytest
import torch
import torch._functorch.make_functional as theirs

import functorch_port as ft
import functorch_port._functorch.make_functional as ours

BOTH = [(torch, theirs), (ft, ours)]


def _net(library: Any, seed: int = 0, norm: bool = False) -> Any:
    library.manual_seed(seed)
    net = library.nn.Sequential(library.nn.Linear(3, 3), library.nn.Tanh(), library.nn.Linear(3, 3))
    net[2].weight = net[0].weight  # under two names
    if norm:
        net.append(library.nn.BatchNorm1d(3))
    return net.eval()


def _values(tensors: Any) -> list[Any]:
    return [[t.tolist(), t.requires_grad] for t in tensors]


@pytest.mark.parametrize("disable", [False, True])
def test_a_module_and_its_parameters(disable: bool) -> None:
    found = []
    for library, made in BOTH:
        net = _net(library)
        before = _values(net.parameters())
        fmodel, params = made.make_functional(net, disable_autograd_tracking=disable)
        assert _values(net.parameters()) == before
        assert {p.device.type for p in fmodel.stateless_model.parameters()} == {"meta"}
        x = library.ones(2, 3)
        out = fmodel([p * 2 for p in params], x)
        found.append([_values(params), fmodel.param_names, out.requires_grad])
        library.manual_seed(1)
        expected = library.func.functional_call(
            net, dict(zip(fmodel.param_names, [p * 2 for p in params])), x
        )
        assert out.tolist() == expected.tolist()
    assert found[0] == found[1]


def test_buffers() -> None:
    found = []
    for library, made in BOTH:
        net = _net(library, norm=True)
        with pytest.raises(RuntimeError, match="has buffers") as error:
            made.make_functional(net)
        fmodel, params, buffers = made.make_functional_with_buffers(net)
        out = fmodel(params, [b + 1 for b in buffers], library.ones(2, 3))
        found.append([_values(params), _values(buffers), fmodel.buffer_names, str(error.value)])
        assert out.shape == (2, 3)
    assert found[0] == found[1]


def test_an_ensemble() -> None:
    found = []
    for library, made in BOTH:
        nets = [_net(library, seed, norm=True) for seed in range(3)]
        fmodel, params, buffers = made.combine_state_for_ensemble(nets)
        x = library.linspace(0, 1, 18).reshape(3, 2, 3)
        out = library.func.vmap(fmodel)(params, buffers, x)
        expected = library.stack([net(part) for net, part in zip(nets, x)])
        library.testing.assert_close(out, expected)
        found.append([_values(params), _values(buffers)])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "models",
    [
        lambda t: [],
        lambda t: [t.nn.Linear(1, 1), t.nn.Linear(1, 1).eval()],
        lambda t: [t.nn.Linear(1, 1), t.nn.ReLU()],
    ],
)
def test_what_makes_no_ensemble(models: Any) -> None:
    with pytest.raises(RuntimeError) as expected:
        theirs.combine_state_for_ensemble(models(torch))
    with pytest.raises(RuntimeError) as found:
        ours.combine_state_for_ensemble(models(ft))
    assert str(found.value) == str(expected.value)


def test_old_names_warn() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert ft.functorch.vmap(lambda x: x + 1)(ft.zeros(2)).tolist() == [1.0, 1.0]
    assert [w.category for w in caught] == [FutureWarning]
    assert "`functorch.vmap` is deprecated as of PyTorch 2.0" in str(caught[0].message)


def test_functorch_is_imported() -> None:
    code = "import functorch, torch; print(functorch.__name__, functorch.make_functional.__module__)"
    done = subprocess.run(
        [sys.executable, "-m", "functorch_port", "run", "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["functorch_port.functorch", "functorch_port._functorch.make_functional"]
