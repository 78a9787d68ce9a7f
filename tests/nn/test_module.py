"""`Module`'s contract: every program runs on torch and on this package and must do the same."""

from __future__ import annotations

import copy
import io
import pickle
import sys
import warnings
from collections import OrderedDict

import pytest
import torch
from nn_programs import net, same, tries
from twins import plain, same_outcome

import functorch_port as ft

# ---------------------------------------------------------------- structure


def test_walks_and_repr():
    def program(T):
        m = net(T)
        return {
            "repr": repr(m),
            "str": str(m.more),
            "params": [(n, list(p.shape)) for n, p in m.named_parameters()],
            "all params": [n for n, _ in m.named_parameters(remove_duplicate=False)],
            "own": [n for n, _ in m.named_parameters("p", recurse=False)],
            "buffers": [n for n, _ in m.named_buffers()],
            "modules": [(n, type(c).__name__) for n, c in m.named_modules()],
            "all modules": [n for n, _ in m.named_modules(remove_duplicate=False)],
            "prefixed": [n for n, _ in m.named_modules(prefix="x")],
            "children": [n for n, _ in m.named_children()],
            "counts": (
                len(list(m.parameters())),
                len(list(m.modules())),
                len(list(m.children())),
                len(list(m.buffers())),
            ),
            "keys": list(m.state_dict()),
            "meta": dict(m.state_dict()._metadata),
            "prefix": list(m.state_dict(prefix="a.")),
            "training": [c.training for c in m.eval().modules()],
            "partial": [c.training for c in m.more[0].train().modules()],
            "dir": [n for n in dir(m) if n in ("first", "w", "more", "forward", "number", "_modules")],
            "name": m._get_name(),
            "dict": [k for k in m.__dict__],
        }

    same(program)


def test_attributes_are_filed():
    def program(T):
        nn, m = T.nn, T.nn.Linear(2, 2)
        log = []

        def note():
            log.append((list(m._parameters), list(m._buffers), list(m._modules), sorted(m._non_persistent_buffers_set),
                        sorted(k for k in m.__dict__ if k in "abcd")))  # fmt: skip

        m.a = 1
        m.a = nn.Parameter(T.ones(1))
        note()
        m.b = nn.ReLU()
        m.c = nn.Buffer(T.ones(2), persistent=False)
        note()
        m.c = T.zeros(1)
        m.b = None
        note()
        m.b = nn.Identity()
        m.a = None
        note()
        del m.a
        del m.c
        del m.b
        note()
        m.d = nn.ReLU()
        m.d = nn.Parameter(T.ones(1))
        note()
        m.register_buffer("d2", T.ones(1), False)
        m.register_buffer("d2", T.ones(1), True)
        m.d2 = nn.Parameter(T.ones(1))
        note()
        return log

    same(program)


def test_attribute_errors():
    def program(T):
        nn, m = T.nn, net(T)

        class NoInit(nn.Module):
            def __init__(self, what):
                self.x = what

        class Bare(nn.Module):
            pass

        class BufferFirst(nn.Module):
            def __init__(self):
                self.register_buffer("b", None)

        class ParameterFirst(nn.Module):
            def __init__(self):
                self.register_parameter("b", None)

        return tries(
            lambda: NoInit(nn.ReLU()),
            lambda: NoInit(nn.Parameter(T.ones(1))),
            BufferFirst,
            ParameterFirst,
            lambda: Bare(1),
            lambda: Bare(a=1),
            lambda: Bare()(1),
            lambda: m.nothing,
            lambda: delattr(m, "nothing"),
            lambda: setattr(m, "w", T.ones(3)),
            lambda: setattr(m, "w", 3),
            lambda: setattr(m, "first", 3),
            lambda: setattr(m, "first", T.ones(1)),
            lambda: setattr(m.first, "scale", 3),
            lambda: setattr(m, "w", nn.ReLU()),
            lambda: m.register_buffer("number", None),
            lambda: setattr(m, "number", T.nn.Buffer(T.ones(1))),
            lambda: m.register_buffer("q", 3),
            lambda: m.register_buffer(3, None),
            lambda: m.register_buffer("a.b", None),
            lambda: m.register_buffer("", None),
            lambda: m.register_parameter("number", None),
            lambda: m.register_parameter("q", T.ones(1)),
            lambda: m.register_parameter("q", 3),
            lambda: m.register_parameter(3, None),
            lambda: m.register_parameter("a.b", None),
            lambda: m.register_parameter("", None),
            lambda: m.add_module("q", 3),
            lambda: m.add_module(3, None),
            lambda: m.add_module("a.b", None),
            lambda: m.add_module("", None),
            lambda: m.add_module("number", None),
            lambda: m.train(1),
            lambda: m.get_extra_state(),
            lambda: m.set_extra_state(1),
        )

    same(program)


def test_lookup_by_path():
    def program(T):
        m = net(T)
        found = tries(
            lambda: type(m.get_submodule("more.1")).__name__,
            lambda: m.get_submodule("") is m,
            lambda: list(m.get_parameter("first.lin.weight").shape),
            lambda: m.get_buffer("first.scale"),
            lambda: m.get_submodule("first.lin.weight"),
            lambda: m.get_submodule("first.none.x"),
            lambda: m.get_submodule("nope"),
            lambda: m.get_parameter("first.nope"),
            lambda: m.get_parameter("first.scale"),
            lambda: m.get_parameter("number"),
            lambda: m.get_buffer("w"),
            lambda: m.get_buffer("nope"),
            lambda: m.set_submodule("", m),
            lambda: m.set_submodule("first.x", 3),
            lambda: m.set_submodule("first.x", T.nn.ReLU(), strict=True),
            lambda: m.set_submodule("w", T.nn.ReLU()),
            lambda: m.set_submodule("nope.x", T.nn.ReLU()),
            lambda: m.set_submodule("first.x", T.nn.ReLU()),
            lambda: m.set_submodule("more.1", T.nn.Identity(), strict=True),
            lambda: m.set_submodule("top", T.nn.Tanh()),
        )
        return found, repr(m)

    same(program)


def test_apply_and_requires_grad():
    def program(T):
        m = net(T)
        seen = []
        assert m.apply(lambda c: seen.append(type(c).__name__)) is m
        m.requires_grad_(False)
        frozen = [p.requires_grad for p in m.parameters()]
        m.first.requires_grad_()
        return seen, frozen, [p.requires_grad for p in m.parameters()]

    same(program)


# ---------------------------------------------------------------- hooks


def _logging(log, name, result=None):
    def hook(module, *args):
        log.append((name, type(module).__name__, [_described(a) for a in args]))
        return result(*args) if callable(result) else result

    return hook


def _described(value):
    if isinstance(value, (torch.Tensor, ft.Tensor)):
        return [round(v, 4) for v in value.detach().reshape(-1).tolist()]
    if isinstance(value, (tuple, list)):
        return [_described(v) for v in value]
    if isinstance(value, dict):
        return {k: _described(v) for k, v in value.items()}
    return value


def test_forward_hooks_in_order():
    def program(T):
        nn, log = T.nn, []

        class Scale(nn.Module):
            def forward(self, x, by=2.0):
                log.append("forward")
                return x * by

        glob = __import__(f"{T.__name__}.nn.modules.module", fromlist=["x"])
        m = Scale()
        handles = [
            m.register_forward_pre_hook(_logging(log, "pre 1")),
            m.register_forward_pre_hook(
                _logging(log, "pre kw", lambda a, k: (a, {"by": 3.0})), with_kwargs=True
            ),
            m.register_forward_pre_hook(_logging(log, "pre first", lambda a: a[0] + 1), prepend=True),
            m.register_forward_hook(_logging(log, "post 1")),
            m.register_forward_hook(_logging(log, "post kw", lambda a, k, out: out + 1), with_kwargs=True),
            m.register_forward_hook(_logging(log, "post first", lambda a, out: out * 10), prepend=True),
            glob.register_module_forward_pre_hook(_logging(log, "global pre")),
            glob.register_module_forward_hook(_logging(log, "global post")),
            glob.register_module_forward_hook(_logging(log, "global kw"), with_kwargs=True),
        ]
        try:
            first = m(T.tensor([1.0]), by=2.0).tolist()
            handles[1].remove()
            with m.register_forward_hook(_logging(log, "inside")):
                second = m(T.tensor([1.0])).tolist()
        finally:
            for h in handles:
                h.remove()
        log.append("bare")
        third = m(T.tensor([1.0])).tolist()
        return (
            log,
            first,
            second,
            third,
            len(m._forward_hooks),
            len(m._forward_pre_hooks),
            len(m._forward_hooks_with_kwargs),
        )

    same(program)


def test_always_called_hooks():
    def program(T):
        log = []

        class Bad(T.nn.Module):
            def forward(self, x):
                raise ValueError("broken")

        def raising(module, args, out):
            raise RuntimeError("hook broken")

        m = Bad()
        m.register_forward_hook(_logging(log, "skipped"))
        m.register_forward_hook(_logging(log, "always"), always_call=True)
        m.register_forward_hook(raising, always_call=True)
        m.register_forward_hook(_logging(log, "always kw"), always_call=True, with_kwargs=True)
        return tries(lambda: m(T.ones(1))), log

    same(program)


def test_bad_pre_hook():
    def program(T):
        m = T.nn.Identity()
        m.register_forward_pre_hook(lambda m, a, k: a, with_kwargs=True)
        return tries(lambda: m(T.ones(1)))

    same(program)


def test_full_backward_hooks():
    def program(T):
        nn, log = T.nn, []

        class Two(nn.Module):
            def forward(self, a, flag, b):
                return a * b, b.detach() * 2, a + 1

        glob = __import__(f"{T.__name__}.nn.modules.module", fromlist=["x"])
        m = Two()
        m.register_full_backward_hook(_logging(log, "back"))
        m.register_full_backward_hook(_logging(log, "scaled", lambda gi, go: (gi[0] * 2, None, gi[2])))
        m.register_full_backward_hook(_logging(log, "first"), prepend=True)
        m.register_full_backward_pre_hook(_logging(log, "pre"))
        m.register_full_backward_pre_hook(_logging(log, "pre scaled", lambda go: (go[0] * 3, go[1], go[2])))
        handles = [
            glob.register_module_full_backward_hook(_logging(log, "global")),
            glob.register_module_full_backward_pre_hook(_logging(log, "global pre")),
        ]
        try:
            a, b = T.tensor([2.0], requires_grad=True), T.tensor([5.0], requires_grad=True)
            x, y, z = m(a, True, b)
            name = type(x.grad_fn).__name__
            (x + z).sum().backward()
        finally:
            for h in handles:
                h.remove()
        return log, a.grad.tolist(), b.grad.tolist(), name, y.requires_grad

    same(program)


def test_full_backward_hooks_in_a_network():
    def program(T):
        log = []
        T.manual_seed(0)
        m = T.nn.Sequential(T.nn.Linear(2, 2), T.nn.Tanh(), T.nn.Linear(2, 1))
        for layer in m:
            layer.register_full_backward_hook(_logging(log, "back"))
            layer.register_full_backward_pre_hook(_logging(log, "pre"))
        m(T.tensor([[1.0, 2.0]])).sum().backward()  # no input of the first layer requires a gradient
        x = T.tensor([[1.0, 2.0]], requires_grad=True)
        m(x).sum().backward()
        with T.no_grad():
            m(x)
        return log, _described(x.grad)

    same(program)


def test_backward_hook_errors():
    def program(T):
        def attempt(**hooks):
            m = T.nn.Linear(2, 2)
            for kind, hook in hooks.items():
                getattr(m, f"register_{kind}")(hook)
            x = T.ones(1, 2, requires_grad="no_grad" not in hooks)
            m(x).sum().backward()

        m = T.nn.Identity()
        m.register_full_backward_hook(lambda *a: None)
        old = T.nn.Identity()
        old.register_backward_hook(lambda *a: None)
        frozen = T.nn.Linear(2, 2)
        frozen.register_full_backward_hook(lambda m, gi, go: (T.ones(1, 2),))
        return tries(
            lambda: attempt(full_backward_hook=lambda m, gi, go: (gi[0], gi[0])),
            lambda: attempt(full_backward_pre_hook=lambda m, go: (go[0], go[0])),
            lambda: frozen(T.ones(1, 2)).sum().backward(),
            lambda: m.register_backward_hook(lambda *a: None),
            lambda: old.register_full_backward_hook(lambda *a: None),
        )

    same(program)


def test_old_backward_hooks():
    def program(T):
        log = []

        class Times(T.nn.Module):
            def forward(self, x):
                return x * 3

        m = Times()
        m.register_backward_hook(_logging(log, "old"))
        x = T.tensor([1.0], requires_grad=True)
        m(x * 1).sum().backward()
        return log, x.grad.tolist()

    same(program)


def test_hooked_output_must_be_a_tensor():
    def program(T):
        class Dict(T.nn.Module):
            def forward(self, x):
                return {"x": x}

        m = Dict()
        m.register_full_backward_hook(lambda *a: None)
        return plain(m(T.ones(1)))

    same(program)


def test_registration_hooks():
    def program(T):
        log = []
        glob = __import__(f"{T.__name__}.nn.modules.module", fromlist=["x"])
        handles = [
            glob.register_module_parameter_registration_hook(
                lambda m, n, p: log.append(("param", type(m).__name__, n))
            ),
            glob.register_module_buffer_registration_hook(
                lambda m, n, b: log.append(("buffer", type(m).__name__, n))
            ),
            glob.register_module_module_registration_hook(
                lambda m, n, c: (
                    log.append(("module", type(m).__name__, n)) or (T.nn.Tanh() if n == "act" else None)
                )
            ),
        ]
        try:
            m = net(T)
        finally:
            for h in handles:
                h.remove()
        return log, type(m.first.act).__name__

    same(program)


def test_hooks_survive_copies():
    def program(T):
        log = []
        m = T.nn.Linear(1, 1)
        m.register_forward_hook(_logging(log, "post"))
        twin = copy.deepcopy(m)
        twin(T.ones(1, 1))
        return len(log), len(twin._forward_hooks), twin.weight is not m.weight

    same(program)


# ---------------------------------------------------------------- state dicts


def test_state_dict_round_trip():
    def program(T):
        m = net(T)
        state = m.state_dict()
        shares = (
            state["w"].data_ptr() == m.w.data_ptr(),
            state["w"].requires_grad,
            m.state_dict(keep_vars=True)["w"] is m.w,
        )
        other = net(T)
        with T.no_grad():
            for p in other.parameters():
                p.add_(1.0)
        before = other.w
        result = other.load_state_dict(state)
        return shares, str(result), other.w is before, plain(dict(other.state_dict()))

    same(program)


def test_load_errors_and_missing_keys():
    def program(T):
        def loading(change, **kwargs):
            m = net(T)
            state = OrderedDict(m.state_dict())
            change(state)
            return str(m.load_state_dict(state, **kwargs))

        def wrong(state):
            state["w"] = T.ones(5)
            state["more.0.bias"] = 3
            del state["more.1.bias"]
            state["x"] = T.ones(1)
            state["more.7.bias"] = T.ones(1)
            state["w.y"] = T.ones(1)

        return tries(
            lambda: loading(lambda s: None),
            lambda: loading(wrong),
            lambda: loading(wrong, strict=False),
            lambda: loading(lambda s: s.pop("w")),
            lambda: loading(lambda s: s.pop("w"), strict=False),
            lambda: loading(lambda s: s.update(zz=1)),
            lambda: loading(lambda s: s.update(zz=1), strict=False),
            lambda: net(T).load_state_dict([]),
            lambda: net(T).load_state_dict(None),
        )

    same(program)


def test_a_failed_load_changes_nothing():
    m = net(ft)
    before = plain(dict(m.state_dict()))
    kept = m.w
    for assign in (False, True):
        state = OrderedDict((k, v + 1) for k, v in m.state_dict().items())
        state["more.1.bias"] = ft.ones(7)
        with pytest.raises(RuntimeError, match="size mismatch"):
            m.load_state_dict(state, assign=assign)
        assert plain(dict(m.state_dict())) == before and m.w is kept

    def broken(module, keys):
        raise ValueError("hook")

    m.register_load_state_dict_post_hook(broken)
    with pytest.raises(ValueError, match="hook"):
        m.load_state_dict(OrderedDict((k, v + 1) for k, v in m.state_dict().items()))
    assert plain(dict(m.state_dict())) == before


def test_load_with_assign():
    def program(T):
        m = T.nn.Linear(2, 2)
        m.bias.requires_grad_(False)
        state = {"weight": T.ones(2, 2), "bias": T.nn.Parameter(T.zeros(2))}
        m.load_state_dict(state, assign=True)
        same_storage = m.weight.data_ptr() == state["weight"].data_ptr()
        kinds = type(m.weight).__name__, m.bias is state["bias"], m.weight.requires_grad, m.bias.requires_grad
        double = T.nn.BatchNorm1d(2)
        double.load_state_dict({k: v.double() for k, v in double.state_dict().items()}, assign=True)
        return same_storage, kinds, str(double.weight.dtype), str(double.running_mean.dtype)

    same(program)


def test_load_casts_and_broadcasts_nothing():
    def program(T):
        m = T.nn.Linear(2, 2)
        m.load_state_dict({"weight": T.ones(2, 2, dtype=T.float64), "bias": T.ones(2, dtype=T.int64)})
        scalar = T.nn.Module()
        scalar.register_buffer("s", T.tensor(1.0))
        scalar.load_state_dict({"s": T.tensor([4.0])})
        return str(m.weight.dtype), plain(m.bias), plain(scalar.s)

    same(program)


def test_old_batch_norm_state():
    def program(T):
        m = T.nn.BatchNorm1d(2)
        state = m.state_dict()
        del state["num_batches_tracked"]
        with_version = tries(lambda: str(m.load_state_dict(state)))
        state._metadata[""]["version"] = 1
        return with_version, tries(
            lambda: str(m.load_state_dict(state)), lambda: str(m.load_state_dict(dict(state)))
        )

    same(program)


def test_state_dict_hooks():
    def program(T):
        log = []
        m = T.nn.Sequential(T.nn.Linear(1, 1), T.nn.BatchNorm1d(1))

        def post(module, state, prefix, meta):
            log.append(("post", type(module).__name__, prefix, dict(meta), list(state)))
            state[prefix + "extra"] = T.ones(1)

        def bad(module, state, prefix, meta):
            return state

        def old(module, state, prefix, meta):
            state["old"] = T.zeros(1)
            return state

        m[0].register_state_dict_post_hook(post)
        m[0].register_state_dict_pre_hook(lambda module, prefix, keep: log.append(("pre", prefix, keep)))
        m._register_state_dict_hook(old)
        keys = list(m.state_dict())
        m[1].register_state_dict_post_hook(bad)
        errors = tries(m.state_dict, lambda: m._register_state_dict_hook(post))
        return log, keys, errors

    same(program)


def test_load_state_dict_hooks():
    def program(T):
        log = []
        m = T.nn.Sequential(T.nn.Linear(1, 1), T.nn.Linear(1, 1))

        def pre(module, state, prefix, meta, strict, missing, unexpected, errors):
            log.append(("pre", type(module).__name__, prefix, sorted(state), strict))
            state[prefix + "bias"] = state.pop(prefix + "b")

        def plain_pre(state, prefix, *rest):
            log.append(("plain", prefix))

        def post(module, keys):
            log.append(("post", type(module).__name__, list(keys.missing_keys), list(keys.unexpected_keys)))
            keys.missing_keys.clear()

        m[0].register_load_state_dict_pre_hook(pre)
        m[1]._register_load_state_dict_pre_hook(plain_pre)
        m.register_load_state_dict_post_hook(post)
        state = m.state_dict()
        state["0.b"] = state.pop("0.bias")
        del state["1.bias"]
        result = str(m.load_state_dict(state))
        m[0].register_load_state_dict_post_hook(lambda module, keys: 1)
        return log, result, tries(lambda: m.load_state_dict(state))

    same(program)


def test_extra_state():
    def program(T):
        class Extra(T.nn.Module):
            def __init__(self):
                super().__init__()
                self.value = 0

            def get_extra_state(self):
                return {"value": self.value}

            def set_extra_state(self, state):
                self.value = state["value"]

        m = T.nn.Sequential(Extra(), T.nn.Linear(1, 1))
        m[0].value = 7
        state = m.state_dict()
        other = T.nn.Sequential(Extra(), T.nn.Linear(1, 1))
        other.load_state_dict(state)
        return (
            list(state),
            other[0].value,
            tries(
                lambda: T.nn.Sequential(T.nn.Identity(), T.nn.Linear(1, 1)).load_state_dict(state),
                lambda: other.load_state_dict({k: v for k, v in state.items() if "extra" not in k}),
            ),
        )

    same(program)


def test_state_dict_positional_arguments_warn():
    def program(T):
        return list(T.nn.Linear(1, 1).state_dict({}, "a."))

    same(program)


# ---------------------------------------------------------------- conversions and gradients


def test_conversions_keep_identity():
    def program(T):
        m = net(T)
        params, buffers = dict(m.named_parameters()), dict(m.named_buffers())
        m(T.ones(2, 2)).sum().backward()
        out = [m.double() is m]
        out.append([str(p.dtype) for p in m.parameters()] + [str(b.dtype) for b in m.buffers()])
        out.append(all(dict(m.named_parameters())[n] is p for n, p in params.items()))
        out.append([dict(m.named_buffers())[n] is b for n, b in buffers.items()])
        out.append(str(m.first.lin.weight.grad.dtype))
        for change in (
            lambda: m.half(),
            lambda: m.bfloat16(),
            lambda: m.float(),
            lambda: m.to(T.float64),
            lambda: m.to("cpu"),
            lambda: m.to(device="cpu", dtype=T.float32),
            lambda: m.to(T.ones(1).double()),
            lambda: m.type(T.float32),
            lambda: m.cpu(),
        ):
            change()
            out.append((str(m.w.dtype), str(m.named["norm"].num_batches_tracked.dtype)))
        return out

    same(program)


def test_to_errors():
    def program(T):
        m = T.nn.Linear(2, 2)
        return tries(
            lambda: m.to(T.int32),
            lambda: m.to("cpu", T.float32, False, True),
            lambda: m.to(foo=1),
            lambda: repr(m.to()),
            lambda: repr(m.to(None)),
        )

    same(program)


def test_complex_conversion_warns():
    def program(T):
        return str(T.nn.Linear(1, 1).to(T.complex64).weight.dtype)

    same(program)


def test_meta_modules():
    def program(T):
        m = T.nn.Linear(2, 3, device="meta")
        moved = m.to_empty(device="cpu")
        return str(m.weight.device), moved is m, list(m.weight.shape), m.weight.is_meta

    same(program)


def test_zero_grad():
    def program(T):
        m = T.nn.Linear(2, 1)
        m(T.ones(1, 2)).sum().backward()
        grad = m.weight.grad
        m.zero_grad(set_to_none=False)
        kept = m.weight.grad is grad, plain(m.weight.grad)
        m.zero_grad()
        return kept, m.weight.grad is None

    same(program)


# ---------------------------------------------------------------- copies


def test_deepcopy_and_pickle():
    def program(T):
        m = net(T)
        out = []
        for twin in (
            copy.deepcopy(m),
            pickle.loads(pickle.dumps(T.nn.Sequential(T.nn.Linear(2, 2), T.nn.BatchNorm1d(2)))),
        ):
            out.append((repr(twin), list(twin.state_dict()), [p.requires_grad for p in twin.parameters()],
                        [type(p).__name__ for p in twin.parameters()]))  # fmt: skip
        twin = copy.deepcopy(m)
        with T.no_grad():
            twin.w.add_(1)
        out.append((plain(m.w), plain(twin.w), twin.tied is twin.more[0].weight, twin.again is twin.first))
        return out

    same(program)


def test_pickle_keeps_sharing():
    def program(T):
        buffer = io.BytesIO()
        lin = T.nn.Linear(2, 2)
        lin.tied = lin.weight
        pickle.dump(lin, buffer)
        buffer.seek(0)
        twin = pickle.load(buffer)
        return twin.tied is twin.weight, isinstance(twin.weight, T.nn.Parameter)

    same(program)


# ---------------------------------------------------------------- parameters


def test_parameter():
    def program(T):
        Parameter, Buffer = T.nn.Parameter, T.nn.Buffer
        base = T.ones(2)
        p = Parameter(base)
        base.add_(1)
        b = Buffer(T.ones(2))
        twin = copy.deepcopy(p)
        back = pickle.loads(pickle.dumps(Parameter(T.ones(1), requires_grad=False)))
        return [
            repr(p),
            repr(Parameter(T.zeros(1), requires_grad=False)),
            repr(Parameter()),
            isinstance(p, T.Tensor),
            isinstance(p, Parameter),
            p.is_leaf,
            p.requires_grad,
            type(p * 2).__name__,
            type(p.detach()).__name__,
            type(p.data).__name__,
            type(twin).__name__,
            twin.requires_grad,
            repr(back),
            isinstance(b, Buffer),
            isinstance(b, Parameter),
            type(b).__name__,
            b.persistent,
            isinstance(T.ones(1), Buffer),
            isinstance(copy.deepcopy(b), Buffer),
            tries(
                lambda: Parameter(T.ones(1, dtype=T.int64)),
                lambda: Parameter([1.0]),
                lambda: repr(Parameter(T.ones(1, dtype=T.int64), requires_grad=False)),
            ),
        ]

    same(program)


def test_parameter_repr_in_state_dict():
    def program(T):
        lin = T.nn.Linear(3, 2)
        T.nn.init.constant_(lin.weight, 0.5)
        T.nn.init.zeros_(lin.bias)
        return str(lin.state_dict()), str(list(lin.parameters()))

    same(program)


def test_module_without_hooks_is_called_directly():
    """The fast path: between a call and `forward` is nothing but the question whether there are hooks."""

    class Nothing(ft.nn.Module):
        def forward(self, x):
            return x

    def called(m):
        names = []
        sys.setprofile(
            lambda frame, event, arg: names.append(frame.f_code.co_name) if event == "call" else None
        )
        try:
            m(1)
        finally:
            sys.setprofile(None)
        return names

    m = Nothing()
    assert called(m) == ["__call__", "any_for_call", "forward"]
    m.register_forward_hook(lambda module, args, out: None)
    assert len(called(m)) > 3


def test_structure_changes_are_noted():
    """`compile` rechecks its guards when the epoch moves."""
    from functorch_port._array import tracing

    m = net(ft)
    changes = [
        lambda: m.eval(),
        lambda: setattr(m, "w", ft.nn.Parameter(ft.ones(3))),
        lambda: setattr(m, "extra", ft.nn.ReLU()),
        lambda: delattr(m, "extra"),
        lambda: m.register_buffer("b", ft.ones(1)),
        lambda: m.register_forward_hook(lambda *a: None).remove(),
        lambda: m.more.append(ft.nn.Linear(3, 3)),
        lambda: m.named.pop("norm"),
        lambda: m.double(),
    ]
    for change in changes:
        before = tracing.epoch
        change()
        assert tracing.epoch > before
    before = tracing.epoch
    m.note = 3  # an ordinary attribute is none of compile's business
    assert tracing.epoch == before


def test_modules_of_the_same_name_import():
    from functorch_port.nn.modules.module import Module, _IncompatibleKeys

    assert Module is ft.nn.Module
    assert str(_IncompatibleKeys([], [])) == "<All keys matched successfully>"
    assert str(_IncompatibleKeys(["a"], [])) == "_IncompatibleKeys(missing_keys=['a'], unexpected_keys=[])"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert issubclass(ft.nn.Sequential, Module)


@pytest.mark.parametrize("T", [torch, ft], ids=["torch", "port"])
def test_a_class_of_parameters_with_arguments_of_its_own(T):
    class Marked(T.Tensor):
        pass

    class Named(Marked, T.nn.Parameter):
        def __new__(cls, data, name=None, requires_grad=True):
            made = Marked._make_subclass(cls, data, requires_grad)
            made.label = name
            return made

    net = T.nn.Module()
    net.p = Named(T.ones(2), name="p")
    assert net.p.label == "p" and list(net.parameters())[0] is net.p and net.p.requires_grad
    lazy = T.nn.UninitializedParameter(requires_grad=False, dtype=T.float64)
    assert not lazy.requires_grad and lazy.dtype == T.float64


def test_a_buffer_may_be_an_object_that_stands_for_a_tensor():
    class Stands:
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            raise NotImplementedError

    def program(T):
        m, first, second = T.nn.Module(), Stands(), Stands()
        m.register_buffer("b", first)
        kept = m.b is first
        m.b = second
        return kept, m.get_buffer("b") is second, list(m._buffers)

    same_outcome(program)


@pytest.mark.parametrize("way", ["overwrite", "swap"])
def test_how_a_conversion_replaces_parameters(way):
    def program(T):
        switch = getattr(T.__future__, f"set_{way}_module_params_on_conversion")
        switch(True)
        try:
            m, used = T.nn.Linear(2, 1), T.nn.Linear(2, 1)
            m(T.ones(1, 2)).sum().backward()
            p, g, values = m.weight, m.weight.grad, m.weight.tolist()
            m.double()
            y, w = used(T.ones(1, 2)).sum(), used.weight
            used.double()
            dtypes = [str(t.dtype) for t in (m.weight, m.weight.grad, p, p.grad, g)]
            same = [m.weight is p, m.weight.grad is g, m.weight.tolist() == values, m.weight.requires_grad]
            try:
                y.backward()
                after: object = w.grad.tolist()
            except RuntimeError as error:
                after = str(error)[:68]
            told = getattr(T.__future__, f"get_{way}_module_params_on_conversion")()
            return dtypes, same, type(m.weight).__name__, after, told
        finally:
            switch(False)

    same_outcome(program)
