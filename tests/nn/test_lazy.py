"""Modules that get their shapes in the first call, and modules without first values."""

from __future__ import annotations

import copy
import io
import itertools
import pickle

import pytest
import torch
from nn_programs import same, tries
from twins import plain

import functorch_port as ft

TOL = 1e-5

LAYERS = {
    "LazyLinear(3)": (2, 4),
    "LazyLinear(3, bias=False)": (4,),
    "LazyConv1d(4, 3, groups=2)": (2, 4, 6),
    "LazyConv1d(4, 2)": (3, 6),
    "LazyConv2d(4, 3, padding=1, bias=False)": (2, 3, 5, 5),
    "LazyConv3d(2, 2)": (1, 2, 3, 3, 3),
    "LazyBatchNorm1d()": (4, 3),
    "LazyBatchNorm1d(affine=False)": (4, 3, 2),
    "LazyBatchNorm2d(track_running_stats=False)": (2, 3, 2, 2),
    "LazyBatchNorm3d(bias=False)": (2, 3, 2, 2, 2),
    "LazyConvTranspose1d(4, 3, groups=2)": (2, 4, 6),
    "LazyConvTranspose2d(4, 3, stride=2, bias=False)": (2, 3, 5, 5),
    "LazyConvTranspose3d(2, 2)": (1, 2, 3, 3, 3),
    "LazyInstanceNorm1d(affine=True)": (4, 3, 2),
    "LazyInstanceNorm2d(track_running_stats=True)": (2, 3, 2, 2),
    "LazyInstanceNorm3d()": (2, 3, 2, 2, 2),
}


def made(T, text):
    T.manual_seed(0)
    return eval(f"T.nn.{text}")


def state(module):
    return [
        (k, repr(v) if "Uninit" in type(v).__name__ else plain(v)) for k, v in module.state_dict().items()
    ]


@pytest.mark.parametrize("text", LAYERS)
def test_first_call(text):
    def program(T):
        m = made(T, text)
        out = [repr(m), state(m), [type(p).__name__ for p in m.parameters()], m.has_uninitialized_params()]
        x = T.linspace(-1, 1, int(torch.Size(LAYERS[text]).numel())).view(LAYERS[text])
        y = m(x)
        y.pow(2).sum().backward()
        out += [repr(m), type(m).__name__, plain(y), state(m), [plain(p.grad) for p in m.parameters()]]
        again = made(T, text)
        again.load_state_dict(m.state_dict())
        out += [repr(again), state(again)]
        again(x)
        return [*out, repr(again), list(m._forward_pre_hooks), list(m._load_state_dict_pre_hooks)]

    same(program, TOL)


def test_before_the_first_call():
    def program(T):
        m = T.nn.Sequential(T.nn.LazyLinear(3), T.nn.LazyBatchNorm1d())
        w = m[0].weight
        out = tries(
            lambda: w.shape,
            lambda: w.size(),
            lambda: str(w.dtype),
            lambda: str(w.device),
            lambda: (w.requires_grad, w.is_leaf, w.is_floating_point(), w.is_complex()),
            lambda: m.share_memory(),
            lambda: str(m.double()[1].running_mean.dtype),
            lambda: repr(m.half().state_dict()),
            lambda: repr(pickle.loads(pickle.dumps(w))),
            lambda: repr(copy.deepcopy(w)),
            lambda: str(T.nn.LazyLinear(3).load_state_dict(T.nn.LazyLinear(3).state_dict())),
            lambda: T.nn.Linear(2, 3).load_state_dict(T.nn.LazyLinear(3).state_dict()),
            lambda: T.nn.LazyConv2d(4, 3)(T.ones(2, 3)),
            lambda: T.nn.LazyConv2d(4, 3, groups=2)(T.ones(1, 3, 4, 4)),
            lambda: T.nn.LazyLinear(3, device="meta")(T.ones(2, 2, device="meta")).shape,
            lambda: repr(T.nn.UninitializedBuffer(persistent=False)),
        )
        w.materialize((2, 2))
        row = T.nn.UninitializedBuffer()
        row.materialize(3)
        return [*out, type(w).__name__, str(w.dtype), list(w.shape), list(row.shape)]

    same(program)


def test_values_are_refused():
    for call in (lambda w: w + 1, lambda w: w.sum(), lambda w: ft.relu(w), lambda w: w.backward()):
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
            call(ft.nn.UninitializedParameter())


def test_own_lazy_module():
    def program(T):
        class Scale(T.nn.modules.lazy.LazyModuleMixin, T.nn.Module):
            def __init__(self, enough=True):
                super().__init__()
                self.enough, self.w = enough, T.nn.UninitializedParameter()

            def initialize_parameters(self, x, factor=1):
                if self.enough:
                    self.w.materialize(x.shape)
                    T.nn.init.constant_(self.w, factor)

            def forward(self, x, factor=1):
                return self.w * x

        class Undefined(T.nn.modules.lazy.LazyModuleMixin, T.nn.Module):
            pass

        m = Scale()
        return [
            plain(m(T.ones(2), factor=3)),
            type(m).__name__,
            *tries(lambda: Scale(False)(T.ones(1)), lambda: Undefined()(T.ones(1))),
        ]

    same(program)


def test_first_call_in_a_trace_and_saving():
    m = ft.nn.Sequential(ft.nn.LazyLinear(3), ft.nn.ReLU())
    file = io.BytesIO()
    ft.save(m.state_dict(), file)
    file.seek(0)
    assert ft.nn.parameter.is_lazy(ft.load(file)["0.weight"])
    traces = itertools.count()

    @ft.compile
    def call(x):
        next(traces)
        return m(x).sum()

    first, second = call(ft.ones(2, 5)), call(ft.ones(2, 5))
    assert float(first.detach()) == float(second.detach()) and next(traces) <= 2
    assert repr(m[0]) == "Linear(in_features=5, out_features=3, bias=True)"
    assert m[0].weight.abs().sum() > 0


def test_first_call_in_a_transform():
    layer, x = ft.nn.LazyLinear(3), ft.ones(4, 2)
    out = ft.func.vmap(layer)(x)
    assert layer.weight.shape == (3, 2) and ft.allclose(out, layer(x))


def test_a_failed_load_leaves_the_shapes_open():
    m = ft.nn.Sequential(ft.nn.LazyLinear(3), ft.nn.Linear(3, 2))
    good = {"0.weight": ft.ones(3, 4), "0.bias": ft.ones(3), "1.weight": ft.ones(9, 9), "1.bias": ft.ones(2)}
    with pytest.raises(RuntimeError, match="size mismatch"):
        m.load_state_dict(good)
    assert m[0].has_uninitialized_params()
    assert m(ft.ones(1, 7)).shape == (1, 2)


def test_skip_init_and_meta():
    def program(T):
        skip = T.nn.utils.skip_init
        before = T.random.get_rng_state().tolist()
        m = skip(T.nn.Linear, 5, 2, bias=False)
        meta = T.nn.Sequential(T.nn.Linear(2, 3, device="meta"), T.nn.BatchNorm1d(3, device="meta"))
        kept = meta[0].weight
        out = [repr(m), list(m.weight.shape), m.weight.requires_grad, str(m.weight.device)]
        out += [
            before == T.random.get_rng_state().tolist(),
            repr(meta[0].bias),
            meta(T.ones(2, 2, device="meta")).shape,
        ]
        meta.to_empty(device="cpu")
        out += [list(kept.shape), str(meta[1].running_mean.device), str(meta[1].num_batches_tracked.dtype)]
        return out + tries(
            lambda: skip(dict, 2), lambda: skip(T.nn.ReLU), lambda: meta[0].to("meta").weight.is_meta
        )

    same(program)
