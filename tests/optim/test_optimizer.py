"""The Optimizer contract: groups, state, texts, hooks, saving; each program runs on torch and on this package."""

from __future__ import annotations

import copy
import pickle
import weakref

import numpy as np
import pytest
import torch
from twins import distance, outcome, plain, same_outcome, to_ours, to_torch

import functorch_port as ft
from functorch_port._array import tracing

pytestmark = pytest.mark.usefixtures("both_ways")


def _param(T, *shape):
    return T.nn.Parameter(T.ones(*shape or (2,)))


def _with_grad(T, *shape):
    p = _param(T, *shape)
    p.grad = T.ones_like(p.detach())
    return p


# ---------------------------------------------------------------------- errors and warnings


def _required(T):
    from importlib import import_module

    return import_module(f"{T.__name__}.optim.optimizer").required


def _subclass_with_required(T):
    class Own(T.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": _required(T)})

    return Own


def _named_twice(T):
    p = _param(T)
    T.optim.SGD([{"params": [p]}, {"params": [p]}])


ERRORS = {
    "tensor as params": lambda T: T.optim.SGD(_param(T)),
    "parameter list of numbers": lambda T: T.optim.SGD([1, 2]),
    "None among params": lambda T: T.optim.SGD([None]),
    "not iterable": lambda T: T.optim.SGD(3),
    "empty list": lambda T: T.optim.SGD([]),
    "empty generator": lambda T: T.optim.SGD(p for p in ()),
    "set in a group": lambda T: T.optim.SGD([{"params": {_param(T)}}]),
    "group without params": lambda T: T.optim.SGD([{"params": [_param(T)]}, {"lr": 1}]),
    "mixed groups and tensors": lambda T: T.optim.SGD([{"params": _param(T)}, _param(T)]),
    "non-leaf": lambda T: T.optim.SGD([_param(T) * 2]),
    "parameter in two groups": _named_twice,
    "partly named": lambda T: T.optim.SGD([("a", _param(T)), _param(T)]),
    "named beside unnamed group": lambda T: T.optim.SGD(
        [{"params": [("a", _param(T))]}, {"params": _param(T)}]
    ),
    "unnamed beside named group": lambda T: T.optim.SGD(
        [{"params": _param(T)}, {"params": [("a", _param(T))]}]
    ),
    "group is no dict": lambda T: T.optim.SGD([_param(T)]).add_param_group([_param(T)]),
    "missing required option": lambda T: _subclass_with_required(T)([_param(T)]),
    "step of the base class": lambda T: T.optim.Optimizer([_param(T)], {}).step(),
    "closure that is none": lambda T: T.optim.SGD([_param(T)]).step(3),
    "negative lr": lambda T: T.optim.SGD([_param(T)], lr=-0.1),
    "negative momentum": lambda T: T.optim.SGD([_param(T)], momentum=-0.1),
    "negative weight decay": lambda T: T.optim.SGD([_param(T)], weight_decay=-0.1),
    "negative tensor lr": lambda T: T.optim.SGD([_param(T)], lr=T.tensor(-1.0)),
    "tensor lr of two": lambda T: T.optim.SGD([_param(T)], lr=T.ones(2)),
    "lr is a string": lambda T: T.optim.SGD([_param(T)], lr="0.1"),
    "lr is None": lambda T: T.optim.SGD([_param(T)], lr=None),
    "nesterov without momentum": lambda T: T.optim.SGD([_param(T)], nesterov=True),
    "nesterov with dampening": lambda T: T.optim.SGD([_param(T)], momentum=0.9, dampening=0.1, nesterov=True),
    "fused and foreach": lambda T: T.optim.SGD([_param(T)], fused=True, foreach=True),
    "fused and differentiable": lambda T: T.optim.SGD([_param(T)], fused=True, differentiable=True),
    "unknown option": lambda T: T.optim.SGD([_param(T)], alpha=1),
    "too many positional": lambda T: T.optim.SGD([_param(T)], 0.1, 0.9, 0, 0, True, True),
    "no params": lambda T: T.optim.SGD(),
    "load: fewer groups": lambda T: T.optim.SGD([_param(T)]).load_state_dict(
        {"state": {}, "param_groups": []}
    ),
    "load: other group size": lambda T: T.optim.SGD([_param(T)]).load_state_dict(
        {"state": {}, "param_groups": [{"params": [0, 1]}]}
    ),
    "load: no groups": lambda T: T.optim.SGD([_param(T)]).load_state_dict({"state": {}}),
    "load: no state": lambda T: T.optim.SGD([_param(T)]).load_state_dict({"param_groups": [{"params": [0]}]}),
    "load: None": lambda T: T.optim.SGD([_param(T)]).load_state_dict(None),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_torchs(name):
    program = ERRORS[name]
    _, theirs, their_warnings = outcome(program, torch)
    _, ours, our_warnings = outcome(program, ft)
    assert theirs is not None
    assert theirs == (ours[0], ours[1].replace("functorch_port", "torch"))
    assert their_warnings == our_warnings


def test_duplicates_in_a_group_warn():
    def run(T):
        p = _param(T)
        return len(T.optim.SGD([p, p]).param_groups[0]["params"])

    theirs, ours = outcome(run, torch), outcome(run, ft)
    assert theirs == ours and len(ours[2]) == 1


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "RMSprop", "NAdam", "RAdam", "Adagrad", "ASGD", "Rprop"]
)
@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
def test_a_parameter_that_occurs_twice_takes_two_steps(name):
    """Its count of steps goes on by two, so the second has the corrections of the next step."""
    found = []
    for T in (torch, ft):
        p, q = (T.nn.Parameter(T.tensor(v, dtype=T.float64)) for v in ([1.0, 2.0], [3.0]))
        optimizer = getattr(T.optim, name)([p, q, p], lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            ((p * p).sum() + 3 * q.sum()).backward()
            optimizer.step()
        steps = [float(optimizer.state[x].get("step", 0)) for x in (p, q)]
        found.append([p.tolist(), q.tolist(), steps])
    assert found[1][2] == found[0][2]
    for theirs, ours in zip(found[0][:2], found[1][:2]):
        assert ours == pytest.approx(theirs, rel=1e-12)


def test_a_failed_group_leaves_the_optimizer_as_it_was():
    p = _param(ft)
    optimizer = ft.optim.SGD([p])
    for bad in ({"params": [p]}, {"params": [_param(ft) * 2]}, {"params": [3]}):
        with pytest.raises((ValueError, TypeError)):
            optimizer.add_param_group(bad)
        assert len(optimizer.param_groups) == 1


def test_a_failed_load_leaves_the_optimizer_as_it_was():
    p = _with_grad(ft)
    optimizer = ft.optim.SGD([p], lr=0.1, momentum=0.5)
    optimizer.step()
    before = plain(optimizer.state_dict())
    with pytest.raises(ValueError):
        optimizer.load_state_dict({"state": {0: {"momentum_buffer": ft.zeros(2)}}, "param_groups": []})
    assert plain(optimizer.state_dict()) == before


# ---------------------------------------------------------------------- groups


def test_groups_are_live_plain_dicts():
    def run(T):
        a, b = _with_grad(T), _with_grad(T, 3)
        optimizer = T.optim.SGD([{"params": a, "name": "first"}], lr=0.5)
        group = {"params": [b], "lr": 0.25, "mine": [1, 2]}
        optimizer.add_param_group(group)
        assert optimizer.param_groups[1] is group and type(group) is dict
        optimizer.param_groups[0]["lr"] = 1.0
        optimizer.step()
        return [list(g) for g in optimizer.param_groups], plain([a, b]), plain(optimizer.state_dict())

    same_outcome(run)


def test_params_may_be_any_iterable():
    def run(T):
        net = T.nn.Linear(2, 3)
        kinds = [net.parameters(), list(net.parameters()), tuple(net.parameters()), {"a": 1, "b": 2}.keys()]
        sizes = [len(T.optim.SGD(k).param_groups[0]["params"]) for k in kinds[:3]]
        named = T.optim.SGD(net.named_parameters(), lr=0.1)
        return sizes, named.param_groups[0]["param_names"], repr(named), plain(named.state_dict())

    same_outcome(run)


def test_defaults_are_kept():
    def run(T):
        optimizer = T.optim.SGD([_param(T)], lr=0.1, momentum=0.9)
        return optimizer.defaults

    same_outcome(run)


# ---------------------------------------------------------------------- texts


def _constant_net(T):
    net = T.nn.Linear(3, 3)
    for p in net.parameters():
        T.nn.init.constant_(p, 0.5)
    return net


PRINTED = {
    "param_groups": lambda T, net, opt: str(opt.param_groups),
    "net.state_dict()": lambda T, net, opt: str(net.state_dict()),
    "optimizer.state_dict()": lambda T, net, opt: str(opt.state_dict()),
    "repr(net)": lambda T, net, opt: repr(net),
    "repr(optimizer)": lambda T, net, opt: repr(opt),
    "state": lambda T, net, opt: str(opt.state),
    "group with tensors": lambda T, net, opt: repr(T.optim.SGD(net.parameters(), lr=T.tensor(0.1))),
}


@pytest.mark.parametrize("what", PRINTED)
@pytest.mark.parametrize("momentum", [0, 0.9])
def test_printed_text(what, momentum):
    def run(T):
        net = _constant_net(T)
        optimizer = T.optim.SGD(net.parameters(), lr=0.025, momentum=momentum)
        before = PRINTED[what](T, net, optimizer)
        net(T.ones(2, 3)).sum().backward()
        optimizer.step()
        return before, PRINTED[what](T, net, optimizer)

    same_outcome(run)


# ---------------------------------------------------------------------- zero_grad and step


def test_zero_grad():
    def run(T):
        a, b = _with_grad(T), _param(T)
        optimizer = T.optim.SGD([a, b])
        grad = a.grad
        optimizer.zero_grad(set_to_none=False)
        same_object = a.grad is grad
        zeroed = plain([a.grad, grad]), b.grad
        optimizer.zero_grad()
        return zeroed, same_object, a.grad, b.grad

    same_outcome(run)


def test_zero_grad_detaches_gradients_with_history():
    def run(T):
        w = _param(T)
        (grad,) = T.autograd.grad((w**3).sum(), w, create_graph=True)
        w.grad = grad
        T.optim.SGD([w]).zero_grad(set_to_none=False)
        return w.grad.requires_grad, w.grad.grad_fn is None, plain(w.grad)

    same_outcome(run)


def test_state_is_empty_until_the_first_step():
    def run(T):
        p = _with_grad(T)
        optimizer = T.optim.SGD([p], lr=0.1, momentum=0.9)
        before = plain(optimizer.state_dict())
        optimizer.step()
        return (
            before,
            plain(optimizer.state_dict()),
            list(optimizer.state[p]),
            [k is p for k in optimizer.state],
        )

    same_outcome(run)


def test_without_momentum_there_is_no_state():
    def run(T):
        optimizer = T.optim.SGD([_with_grad(T)], lr=0.1)
        optimizer.step()
        return plain(optimizer.state_dict()), len(optimizer.state)

    same_outcome(run)


# ---------------------------------------------------------------------- optimizers of one's own


def _mirror_descent(T):
    class MirrorDescent(T.optim.Optimizer):
        def __init__(self, params, lr=0.1, penalty=0.0):
            super().__init__(params, {"lr": lr, "penalty": penalty})

        @T.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    p.mul_(T.exp(T.exp(-group["lr"] * (p.grad + group["penalty"]))))
                    p.div_(p.sum(dim=-1, keepdim=True))

    return MirrorDescent


def test_mirror_descent_on_the_simplex():
    def run(T):
        x = T.tensor([[0.25, 0.75]], requires_grad=True)
        optimizer = _mirror_descent(T)([x], lr=0.1)
        target, values = T.tensor([0]), []
        for _ in range(100):
            optimizer.zero_grad()
            T.nn.functional.cross_entropy(x, target).backward()
            optimizer.step()
            values.append(x.detach().numpy().copy())
        return values

    theirs, ours = run(torch), run(ft)
    assert distance(theirs, ours) < 1e-5
    assert ours[-1][0, 0] > 0.5


def test_subclass_with_state_in_tensor_operations():
    def make(T):
        class Heavy(T.optim.Optimizer):
            def __init__(self, params, lr=0.1, beta=0.5):
                super().__init__(params, dict(lr=lr, beta=beta))

            def step(self, closure=None):
                with T.no_grad():
                    for group in self.param_groups:
                        for p in group["params"]:
                            if p.grad is None:
                                continue
                            state = self.state[p]
                            if len(state) == 0:
                                state["step"] = 0
                                state["v"] = T.zeros_like(p)
                            state["step"] += 1
                            state["v"].mul_(group["beta"]).add_(p.grad, alpha=1 - group["beta"])
                            p.addcdiv_(state["v"], state["v"].abs() + 1.0, value=-group["lr"] / state["step"])

        return Heavy

    def run(T):
        w = T.nn.Parameter(T.tensor([1.0, -2.0, 3.0], dtype=T.float64))
        optimizer = make(T)([w])
        for _ in range(10):
            optimizer.zero_grad()
            (w**2).sum().backward()
            optimizer.step()
        state = optimizer.state_dict()["state"][0]
        return [w.detach().numpy(), state["v"].numpy(), np.array(state["step"])]

    assert distance(run(torch), run(ft)) < 1e-14


def test_subclass_of_sgd_and_super():
    def run(T):
        class Counting(T.optim.SGD):
            steps = 0

            def step(self, closure=None):
                self.steps += 1
                return super().step(closure)

        p = _with_grad(T)
        optimizer = Counting([p], lr=0.5)
        seen = []
        optimizer.register_step_post_hook(lambda *a: seen.append(1))
        optimizer.step()
        return optimizer.steps, plain(p), len(seen)

    same_outcome(run)


# ---------------------------------------------------------------------- hooks


def test_step_hooks_and_their_order():
    from importlib import import_module

    def run(T):
        module = import_module(f"{T.__name__}.optim.optimizer")
        log = []
        p = _with_grad(T)
        optimizer = T.optim.SGD([p], lr=0.5)
        note = lambda name: lambda opt, args, kwargs: log.append((name, opt is optimizer, len(args), kwargs))  # noqa: E731
        handles = [
            module.register_optimizer_step_pre_hook(note("global pre")),
            module.register_optimizer_step_post_hook(note("global post")),
            optimizer.register_step_pre_hook(note("pre")),
            optimizer.register_step_post_hook(note("post")),
        ]
        optimizer.step()
        for handle in handles:
            handle.remove()
        optimizer.step()
        return log

    same_outcome(run)


def test_a_pre_hook_may_change_the_arguments():
    def run(T):
        optimizer = T.optim.SGD([_with_grad(T)])
        calls = []

        def closure():
            calls.append("closure")
            return T.tensor(7.0)

        optimizer.register_step_pre_hook(lambda opt, args, kwargs: ((args[0], closure), {}))
        return optimizer.step().item(), calls

    same_outcome(run)


def test_a_pre_hook_that_returns_nonsense():
    optimizer = ft.optim.SGD([_with_grad(ft)])
    optimizer.register_step_pre_hook(lambda *a: 3)
    with pytest.raises(
        RuntimeError, match=r"SGD.step .* must return None or a tuple of \(new_args, new_kwargs\), but got 3."
    ):
        optimizer.step()


def test_state_dict_hooks():
    def run(T):
        log = []
        optimizer = T.optim.SGD([_with_grad(T)], lr=0.5, momentum=0.5)
        optimizer.step()
        optimizer.register_state_dict_pre_hook(lambda o: log.append("pre"))
        optimizer.register_state_dict_pre_hook(lambda o: log.append("pre, first"), prepend=True)
        optimizer.register_state_dict_post_hook(lambda o, d: {**d, "extra": 1})
        optimizer.register_state_dict_post_hook(lambda o, d: log.append(sorted(d)), prepend=True)
        optimizer.register_load_state_dict_pre_hook(lambda o, d: {**d, "state": {}})
        optimizer.register_load_state_dict_post_hook(lambda o: log.append("loaded"))
        handle = optimizer.register_load_state_dict_post_hook(lambda o: log.append("gone"))
        handle.remove()
        saved = optimizer.state_dict()
        optimizer.load_state_dict(saved)
        return log, plain(saved), len(optimizer.state)

    same_outcome(run)


def test_hooks_run_once_per_class_and_instance():
    def run(T):
        Own = _mirror_descent(T)
        counts = []
        for _ in range(3):
            p = T.tensor([[0.5, 0.5]], requires_grad=True)
            p.grad = T.ones(1, 2)
            optimizer = Own([p])
            optimizer.register_step_pre_hook(lambda *a: counts.append(1))
            optimizer.step()
        return len(counts), getattr(Own.step, "hooked", False)

    same_outcome(run)


# ---------------------------------------------------------------------- saving, loading, copying


def test_load_overwrites_hyperparameters_and_casts_state():
    def run(T):
        source = T.optim.SGD([_with_grad(T)], lr=0.5, momentum=0.5)
        source.step()
        saved = source.state_dict()
        saved["param_groups"][0]["extra"] = "kept"
        saved["state"][0]["step"] = T.tensor(3, dtype=T.int64)
        saved["state"][0]["nested"] = {"a": [T.ones(2)], "n": 4}
        p = T.nn.Parameter(T.ones(2, dtype=T.float64))
        target = T.optim.SGD([p], lr=9.0)
        target.load_state_dict(saved)
        return (
            plain(target.state_dict()),
            list(target.param_groups[0]),
            target.param_groups[0]["params"][0] is p,
        )

    same_outcome(run)


def test_load_does_not_change_what_it_is_given():
    def run(T):
        source = T.optim.SGD([_with_grad(T), _with_grad(T)], lr=0.5, momentum=0.5)
        source.step()
        saved = source.state_dict()
        before = plain(saved)
        target = T.optim.SGD([_with_grad(T), _with_grad(T)])
        target.load_state_dict(saved)
        target.param_groups[0]["lr"] = 3
        return plain(saved) == before

    same_outcome(run)


def test_load_shares_state_tensors_that_need_no_cast():
    def run(T):
        a, b = _with_grad(T), _with_grad(T)
        first, second = (T.optim.SGD([p], lr=0.5, momentum=0.5) for p in (a, b))
        first.step()
        second.load_state_dict(first.state_dict())
        second.step()
        return plain([first.state_dict(), second.state_dict(), a, b])

    same_outcome(run)


def test_load_names():
    def run(T):
        named = T.optim.SGD([("a", _param(T))])
        unnamed = T.optim.SGD([_param(T)])
        out = []
        for target, source in ((named, unnamed), (unnamed, named), (named, T.optim.SGD([("b", _param(T))]))):
            target = copy.deepcopy(target)
            target.load_state_dict(source.state_dict())
            out.append(target.param_groups[0].get("param_names"))
        return out

    same_outcome(run)


def test_state_that_belongs_to_no_parameter():
    def run(T):
        optimizer = T.optim.SGD([_param(T)])
        optimizer.state["global"] = {"n": 3}
        saved = optimizer.state_dict()
        other = T.optim.SGD([_param(T)])
        other.load_state_dict(saved)
        return plain(saved), dict(other.state)

    same_outcome(run)


@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_copies_keep_their_links(way):
    def run(T):
        net = T.nn.Linear(2, 2)
        optimizer = T.optim.SGD(net.parameters(), lr=0.5, momentum=0.5)
        net(T.ones(1, 2)).sum().backward()
        optimizer.step()
        pair = (net, optimizer)
        net2, opt2 = copy.deepcopy(pair) if way == "deepcopy" else pickle.loads(pickle.dumps(pair))
        params = list(net2.parameters())
        linked = all(a is b for a, b in zip(opt2.param_groups[0]["params"], params, strict=True))
        keyed = all(p in opt2.state and "momentum_buffer" in opt2.state[p] for p in params)
        separate = all(p is not q for p, q in zip(params, net.parameters(), strict=True))
        opt2.zero_grad()
        net2(T.ones(1, 2)).sum().backward()
        opt2.step()
        return linked, keyed, separate, len(opt2.state), repr(opt2), plain(opt2.state_dict()["param_groups"])

    same_outcome(run)


def test_old_pickles_get_missing_options():
    def run(T):
        optimizer = T.optim.SGD([_param(T)], lr=0.5)
        state = optimizer.__getstate__()
        for name in ("nesterov", "maximize", "foreach", "differentiable", "fused"):
            del state["param_groups"][0][name]
        fresh = T.optim.SGD.__new__(T.optim.SGD)
        fresh.__setstate__(state)
        fresh.step()
        return (
            fresh.param_groups[0]["nesterov"],
            fresh.param_groups[0]["foreach"],
            fresh.defaults["differentiable"],
        )

    same_outcome(run)


def test_both_ways_through_numpy():
    def make(T):
        ps = [_with_grad(T, 2, 2), _with_grad(T)]
        return ps, T.optim.SGD(ps, lr=0.5, momentum=0.5)

    theirs, ours = make(torch)[1], make(ft)[1]
    theirs.step()
    ours.load_state_dict(to_ours(theirs.state_dict()))
    assert plain(ours.state_dict()) == plain(theirs.state_dict())
    ours.step()
    theirs.load_state_dict(to_torch(ours.state_dict()))
    assert plain(ours.state_dict()) == plain(theirs.state_dict())


def test_no_cycles_keep_parameters_alive():
    p = _with_grad(ft)
    optimizer = ft.optim.SGD([p], lr=0.1, momentum=0.5)
    optimizer.step()
    gone = weakref.ref(p)
    del p, optimizer
    assert gone() is None


# ---------------------------------------------------------------------- what `compile` relies on


def test_structural_changes_count_up_the_epoch():
    optimizer = ft.optim.SGD([_with_grad(ft)], lr=0.5)
    changes = [
        lambda: optimizer.add_param_group({"params": [_param(ft)]}),
        lambda: optimizer.load_state_dict(optimizer.state_dict()),
        lambda: optimizer.__setstate__(optimizer.__getstate__()),
        lambda: setattr(optimizer, "state", copy.copy(optimizer.state)),
        lambda: setattr(optimizer, "param_groups", optimizer.param_groups),
    ]
    for change in changes:
        before = tracing.epoch
        change()
        assert tracing.epoch > before
    before = tracing.epoch
    optimizer.param_groups[0]["lr"] = 0.25
    optimizer.zero_grad()
    optimizer.step()
    assert tracing.epoch == before


def test_state_made_ahead_gives_the_lazy_first_step():
    grads = np.random.default_rng(0).standard_normal((3, 4))
    results = []
    for ahead in (False, True):
        p = ft.nn.Parameter(ft.ones(4))
        optimizer = ft.optim.SGD([p], lr=0.5, momentum=0.9, nesterov=True, weight_decay=0.1)
        if ahead:
            state = optimizer._init_state(p, optimizer.param_groups[0])
            assert list(state) == ["momentum_buffer"]
            optimizer.state[p].update(state)
        for g in grads:
            p.grad = ft.tensor(g.astype("float32"))
            optimizer.step()
        results.append(plain([p, optimizer.state_dict()]))
    assert results[0] == results[1]
    for options, state in (({"momentum": 0.5, "dampening": 0.5}, None), ({"dampening": 0.5}, {})):
        optimizer = ft.optim.SGD([p], **options)
        assert optimizer._init_state(p, optimizer.param_groups[0]) == state


@pytest.mark.parametrize(
    ("name", "switch"),
    [
        ("Adam", {"amsgrad": True}), ("AdamW", {"amsgrad": True}), ("RMSprop", {"centered": True}),
        ("RMSprop", {"momentum": 0.9}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("compiled", [False, True])
def test_a_step_that_raises_changes_nothing(name, switch, compiled):
    """What is switched on in mid-run has no state: PyTorch raises the same error, with the counter moved on."""
    params = [ft.nn.Parameter(ft.ones(2)) for _ in range(2)]
    optimizer = getattr(ft.optim, name)([{"params": [p]} for p in params], lr=0.1)
    step = ft.compile(optimizer.step) if compiled else optimizer.step

    def now():
        return [[p.tolist(), {k: v.tolist() for k, v in optimizer.state[p].items()}] for p in params]

    for _ in range(2):
        for p in params:
            p.grad = ft.ones(2)
        step()
    before = now()
    optimizer.param_groups[1].update(switch)
    for _ in range(2):
        with pytest.raises(KeyError):
            step()
        assert now() == before
