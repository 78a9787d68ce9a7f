"""`compile(module)`: the forward pass compiled, the rest of the loop as it is."""

from __future__ import annotations

import numpy as np
import torch

import functorch_port as ft


def _train(T, compiled):
    T.manual_seed(0)
    nn = T.nn
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3)
    ).double()
    model = ft.compile(net) if compiled else net
    opt = T.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = T.tensor(np.random.default_rng(0).standard_normal((6, 1, 6, 6)))
    y = T.tensor(np.arange(6) % 3)
    losses = []
    for i in range(10):
        model.train(i % 4 != 3)
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses, {k: v.numpy() for k, v in net.state_dict().items()}, model


def test_a_compiled_module_trains_as_the_module():
    expected, weights, _ = _train(torch, False)
    losses, ours, model = _train(ft, True)
    np.testing.assert_allclose(losses, expected, rtol=1e-10)
    for k in weights:
        np.testing.assert_allclose(ours[k], weights[k], rtol=1e-10, atol=1e-12, err_msg=k)
    assert model.compiled.traces == 2  # train and eval


def test_it_is_the_module_to_everything_else():
    net = ft.nn.Linear(2, 2)
    model = ft.compile(net)
    theirs = torch.compile(torch.nn.Linear(2, 2), backend="eager")
    assert list(model.state_dict()) == list(theirs.state_dict())
    assert (
        model.weight is net.weight and [*model.parameters()] == [*net.parameters()] and model._orig_mod is net
    )
    model.eval()
    assert not net.training
    net.compile()
    x = ft.ones(1, 2)
    np.testing.assert_allclose(net(x).detach().numpy(), model(x).detach().numpy())


def test_hooks_of_all_modules_are_guarded():
    net = ft.nn.Linear(2, 2)
    run, x = ft.compile(lambda x: net(x)), ft.ones(1, 2)
    plain = run(x).tolist()
    handle = ft.nn.modules.module.register_module_forward_hook(lambda module, args, out: out * 0)
    assert run(x).tolist() == [[0.0, 0.0]]
    handle.remove()
    assert run(x).tolist() == plain
    assert run.traces == 2
    assert run.reasons[1] == "a hook of all modules was added or removed"


def test_the_node_is_called_as_in_pytorch():
    net = ft.compile(ft.nn.Linear(1, 1))
    assert repr(net(ft.ones(1))).endswith("grad_fn=<CompiledFunctionBackward>)")
