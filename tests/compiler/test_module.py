"""`compile(module)`: the forward pass compiled, the rest of the loop as it is."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
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


def test_tensors_that_stand_in_for_parameters_are_arguments():
    inner = ft.compile(ft.nn.Linear(2, 2))
    net = ft.nn.Sequential(inner, ft.nn.BatchNorm1d(2))
    x = ft.tensor([[1.0, 2.0], [3.0, 5.0]])
    for model, names in ((inner, ["_orig_mod.weight"]), (net, ["0._orig_mod.weight", "1.weight"])):
        for k in (1.0, 2.0, 3.0):
            given = {name: ft.full_like(dict(model.named_parameters())[name], k) for name in names}
            ft.manual_seed(0)
            found = ft.func.functional_call(model, {n: t.requires_grad_() for n, t in given.items()}, (x,))
            grads = ft.autograd.grad(found.square().sum(), [*given.values()])
            for name, t in given.items():
                model.get_parameter(name).data.copy_(t.detach())
            plain = model(x)
            np.testing.assert_allclose(found.detach().numpy(), plain.detach().numpy(), rtol=1e-6)
            wanted = ft.autograd.grad(plain.square().sum(), [model.get_parameter(name) for name in names])
            for a, b in zip(grads, wanted, strict=True):
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    # by itself, and with other tensors inside of one or two functional calls
    assert inner.compiled.traces == 3, inner.compiled.reasons


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


def _class(lib):
    class Net(lib.nn.Module):
        note = "class"

        def __init__(self):
            super().__init__()
            self.fc, self.norm, self.k = lib.nn.Linear(2, 2), lib.nn.BatchNorm1d(2), 3
            self.register_buffer("count", lib.ones(2))

        def forward(self, x, scale=1.0):
            return self.norm(self.fc(x)) * scale * self.k

        def doubled(self):
            return self.k * 2

        @property
        def more(self):
            return self.k + 100

        @more.setter
        def more(self, value):
            self.k = value

        def extra_repr(self):
            return "hello"

    return Net


def _names(c):
    return [[n for n, _ in named()] for named in (c.named_parameters, c.named_buffers, c.named_modules)]


def _set(c, name, value):
    setattr(c, name, value)


# Each says what is to be seen of a module and its wrapper, both as they come, after something was done to one of them.
WRAPPER = {
    "eval of the wrapper": lambda lib, m, c: [c.eval() is c, m.training, c.training, m.norm.training],
    "eval of the module": lambda lib, m, c: [m.eval() is m, c.training],
    "back to training": lambda lib, m, c: [c.eval(), m.train(), c.training][2:],
    "mode of the wrapper alone": lambda lib, m, c: [
        _set(c, "training", False), m.training, m.norm.training, "training" in c.__dict__,
    ],
    "mode of a child": lambda lib, m, c: [m.norm.eval() is m.norm, c.training, c.norm.training],
    "a new attribute of the wrapper": lambda lib, m, c: [_set(c, "x", 1), m.x, c.x, "x" in c.__dict__],
    "a new attribute of the module": lambda lib, m, c: [_set(m, "x", 1), c.x],
    "an attribute": lambda lib, m, c: [_set(c, "k", 5), m.k, c.k, c.doubled()],
    "an attribute of the class": lambda lib, m, c: [_set(c, "note", "own"), m.note, type(m).note],
    "a later attribute of the class": lambda lib, m, c: [_set(type(m), "later", 4), c.later],
    "a property": lambda lib, m, c: [c.more, _set(c, "more", 7), m.k],
    "deleted": lambda lib, m, c: [_set(c, "x", 1), delattr(c, "x"), hasattr(m, "x"), hasattr(c, "x")],
    "deleted, but never there": lambda lib, m, c: [delattr(c, "nothing")],
    "read, but never there": lambda lib, m, c: [c.nothing],
    "a new parameter": lambda lib, m, c: [
        _set(c, "w", lib.nn.Parameter(lib.ones(1))), "w" in m._parameters, "w" in c._parameters, _names(c),
    ],
    "a deleted parameter": lambda lib, m, c: [delattr(c.fc, "bias"), delattr(c, "fc"), _names(c)],
    "a new child": lambda lib, m, c: [_set(c, "sub", lib.nn.ReLU()), "sub" in m._modules, _names(c)],
    "a registered parameter": lambda lib, m, c: [
        c.register_parameter("w", lib.nn.Parameter(lib.ones(1))), "w" in m._parameters, _names(c),
    ],
    "a registered buffer": lambda lib, m, c: [c.register_buffer("b", lib.ones(1)), "b" in m._buffers, _names(c)],
    "registered where one is": lambda lib, m, c: [c.register_buffer("fc", lib.ones(1))],
    "state": lambda lib, m, c: [list(c.state_dict()), str(c.load_state_dict(c.state_dict()))],
    "state of the module": lambda lib, m, c: [c.load_state_dict(m.state_dict())],
    "lookup": lambda lib, m, c: [c.get_submodule("fc") is m.fc, c.get_submodule("_orig_mod.fc") is m.fc],
    "same tensors": lambda lib, m, c: [c.fc is m.fc, c.count is m.count, [*c.parameters()] == [*m.parameters()]],
    "text": lambda lib, m, c: [repr(c), type(c).__name__, c._get_name()],
    "listing": lambda lib, m, c: [n in dir(c) for n in ("doubled", "fc", "k", "_orig_mod", "training")],
    "kinds": lambda lib, m, c: [isinstance(c, lib.nn.Module), isinstance(c, type(m))],
    "len": lambda lib, m, c: [len(c)],
    "iteration": lambda lib, m, c: [iter(c)],
    "items": lambda lib, m, c: [c[0]],
    "conversion": lambda lib, m, c: [c.double() is c, str(m.fc.weight.dtype), str(m.count.dtype)],
    "apply": lambda lib, m, c: [c.apply(lambda q: _set(q, "seen", type(q).__name__)) is c, m.seen, m.fc.seen],
    "frozen": lambda lib, m, c: [c.requires_grad_(False) is c, m.fc.weight.requires_grad],
    "where hooks are": lambda lib, m, c: [
        len(c._forward_hooks), c.register_forward_hook(print) and len(c._forward_hooks), len(m._forward_hooks),
    ],
    "part of another": lambda lib, m, c: [
        list((p := lib.nn.Sequential(c)).state_dict()), p.eval() is p, m.training, p.train() is p, m.training,
    ],
    "another module": lambda lib, m, c: [_set(c, "_orig_mod", type(m)()), c._orig_mod is m, c.fc is m.fc],
}  # fmt: skip


@pytest.mark.parametrize("what", WRAPPER)
def test_the_wrapper_is_that_of_pytorch(what):
    def run(lib):
        module = _class(lib)()
        wrapper = torch.compile(module, backend="eager") if lib is torch else ft.compile(module)
        try:
            return repr(WRAPPER[what](lib, module, wrapper))
        except (AttributeError, TypeError, KeyError, RuntimeError) as error:
            return f"{type(error).__name__}: {error}"

    assert run(ft) == run(torch)


def _calls(lib, wrap):
    """What comes of calls with hooks and forward methods on the wrapper and on the module."""
    x, found = lib.tensor([[1.0, 2.0], [3.0, 5.0]]), []

    def fresh():
        lib.manual_seed(0)
        module = _class(lib)().eval()
        return module, wrap(module)

    def see(*wrappers):
        found.extend(c(x).tolist() for c in wrappers)

    m, c = fresh()
    see(c, m)
    m, c = fresh()
    c.register_forward_hook(lambda mod, args, out: found.append(type(mod).__name__) or out * 2)
    see(c, c, m)
    m, c = fresh()
    c.register_forward_pre_hook(lambda mod, args: (args[0] * 0,))
    see(c, m)
    m, c = fresh()
    see(c)
    handle = m.register_forward_hook(lambda mod, args, out: out * 2)
    see(c, m)
    handle.remove()
    see(c, m)
    m, c = fresh()
    m.forward = lambda x, scale=1.0: x * 10
    see(c, m)
    m, c = fresh()
    c.forward = lambda x: x * 12
    see(c, m)
    m, c = fresh()
    see(c)
    c.train()
    see(c)
    m.eval()
    see(c)
    see(copy.copy(c))
    other = copy.deepcopy(c)
    other.k, other.fc.weight.requires_grad = 0, False
    see(other, c)
    assert other._orig_mod is not m and m.k == 3 and m.fc.weight.requires_grad
    with lib.no_grad():
        other.fc.weight.zero_()
        other.k = 1
    other = copy.deepcopy(other)
    see(other, c)
    again = pickle.loads(pickle.dumps(wrap(lib.nn.Sequential(lib.nn.ReLU()))))
    see(again)
    return found


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # by PyTorch's own tracing
def test_calls_through_the_wrapper_are_those_of_pytorch():
    expected = _calls(torch, lambda m: torch.compile(m, backend="eager"))
    for ours, theirs in zip(_calls(ft, ft.compile), expected, strict=True):
        if isinstance(theirs, str):
            assert ours == theirs
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_forward_set_on_the_wrapper_is_deleted_again():
    c = ft.compile(ft.nn.ReLU())
    c.forward = lambda x: x * 2
    assert c(ft.ones(1)).tolist() == [2.0]
    del c.forward  # PyTorch is left without any
    assert c(ft.ones(1)).tolist() == [1.0] and c.compiled.traces == 1


def test_backward_hooks_of_the_wrapper():
    c, seen = ft.compile(ft.nn.Linear(2, 2)), []
    c.register_full_backward_hook(lambda mod, grads, outs: seen.append((type(mod), len(grads), len(outs))))
    x = ft.ones(1, 2, requires_grad=True)
    c(x).sum().backward()
    assert seen == [(type(c), 1, 1)]


def test_containers_have_the_length_and_the_truth_of_the_module():
    for lib, wrap in ((torch, lambda m: torch.compile(m, backend="eager")), (ft, ft.compile)):
        chain = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.ReLU())
        c = wrap(chain)
        assert len(c) == 2 and c and not wrap(lib.nn.Sequential())
        assert c.append(lib.nn.ReLU()) is chain and len(c) == 3
        for use in (iter, lambda c: c[0], lambda c: 1 in c):
            with pytest.raises(TypeError, match="OptimizedModule"):
                use(c)
    assert ft.compile(ft.nn.ReLU())  # PyTorch raises


def test_a_mode_set_through_the_wrapper_inside_a_compiled_function():
    net = ft.nn.Dropout(0.5)
    c = ft.compile(net)

    @ft.compile
    def step(x):
        c.eval()
        return c(x)

    for _ in range(2):
        net.train()
        assert step(ft.ones(4)).tolist() == [1.0] * 4 and not net.training and not c.training


def test_functional_call_of_a_compiled_module() -> None:
    net = ft.compile(ft.nn.Linear(2, 1, bias=False))
    around = ft.nn.Sequential(ft.nn.Linear(2, 1, bias=False))
    around[0].compile()
    x, given = ft.ones(1, 2), ft.ones(1, 2, requires_grad=True)
    for module, name in ((net, "_orig_mod.weight"), (around, "0.weight")):
        own = module(x).item()
        for k in range(3):
            out = ft.func.functional_call(module, {name: given * k}, x)
            assert out.item() == 2 * k
            given.grad = None
            out.backward()
            assert given.grad.tolist() == [[k, k]]
            assert module(x).item() == own
