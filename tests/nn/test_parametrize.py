"""`torch.nn.utils.parametrize`, its ready-made parametrizations, and the older weight and spectral norm."""

from __future__ import annotations

import copy
import importlib
import itertools
import pickle

import pytest
import torch
from nn_programs import same, tries
from twins import plain, to_ours

import functorch_port as ft

TOL = 2e-5  # float32 through norms and matrix functions


def modules_of(T):
    """(parametrize, parametrizations) of a library."""
    root = T.__name__
    return [
        importlib.import_module(f"{root}.nn.utils.{name}") for name in ("parametrize", "parametrizations")
    ]


def pieces(T):
    class Symmetric(T.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

        def right_inverse(self, a):
            return a.triu()

    class Twice(T.nn.Module):
        def forward(self, x):
            return 2 * x

    class Product(T.nn.Module):
        def forward(self, a, b):
            return a.unsqueeze(-1) @ b.unsqueeze(-2)

        def right_inverse(self, w):
            return w[:, 0].clone(), w[0].clone()

    class Odd(T.nn.Module):
        def __init__(self, forward=lambda x: x, inverse=None):
            super().__init__()
            self.f = forward
            if inverse is not None:
                self.right_inverse = inverse

        def forward(self, x):
            return self.f(x)

    return Symmetric, Twice, Product, Odd


def state(module):
    return {k: plain(v) for k, v in module.state_dict().items()}


def test_register_and_remove():
    def program(T):
        P, _ = modules_of(T)
        symmetric, twice, product, _ = pieces(T)
        T.manual_seed(0)
        m, out = T.nn.Linear(3, 3), []
        weight = m.weight
        out.append(P.is_parametrized(m))
        P.register_parametrization(m, "weight", symmetric())
        P.register_parametrization(m, "bias", twice())
        out += [repr(m), state(m), [n for n, _ in m.named_parameters()], type(m).__name__]
        out += [m.parametrizations.weight.original is weight, plain(m.weight), plain(m.bias)]
        out += [P.type_before_parametrizations(m) is T.nn.Linear, P.is_parametrized(m, "weight")]
        m(T.ones(2, 3)).sum().backward()
        out.append(plain(weight.grad))
        m.weight = T.arange(9.0).view(3, 3)
        out += [plain(m.weight), state(m)]
        P.register_parametrization(m, "weight", twice())
        out += [plain(m.weight), tries(lambda: setattr(m, "weight", T.ones(3, 3)))]
        with P.cached():
            out.append(m.weight is m.weight)
        out.append(m.weight is m.weight)
        P.remove_parametrizations(m, "weight")
        out += [repr(m), m.weight is weight, plain(m.weight), state(m)]
        P.remove_parametrizations(m, "bias", leave_parametrized=False)
        out += [repr(m), state(m), type(m) is T.nn.Linear, hasattr(m, "parametrizations")]
        P.register_parametrization(m, "weight", product())
        out += [state(m), plain(m.weight), m.parametrizations.weight.original0.requires_grad]
        out += tries(lambda: P.remove_parametrizations(m, "weight", leave_parametrized=False))
        P.remove_parametrizations(m, "weight")
        return [*out, state(m), type(m.weight).__name__]

    same(program, TOL)


def test_registration_errors():
    def program(T):
        P, _ = modules_of(T)
        *_, odd = pieces(T)
        first = [
            odd(lambda x: 1),
            odd(lambda x: x.double()),
            odd(lambda x: x.sum()),
            odd(inverse=lambda x: 3),
            odd(inverse=lambda x: [x, 1]),
            odd(inverse=lambda x: x.double()),
        ]
        second = [*first[:4], odd(inverse=lambda x: x.sum())]

        def again(p):
            m = P.register_parametrization(T.nn.Linear(2, 2), "bias", odd())
            return P.register_parametrization(m, "bias", p)

        return [
            *tries(*[lambda p=p: P.register_parametrization(T.nn.Linear(2, 2), "bias", p) for p in first]),
            *tries(*[lambda p=p: again(p) for p in second]),
            *tries(
                lambda: P.register_parametrization(T.nn.Linear(2, 2), "w", odd()),
                lambda: P.remove_parametrizations(T.nn.Linear(2, 2), "weight"),
                lambda: P.ParametrizationList([], T.ones(2)),
                lambda: pickle.dumps(again(odd())),
            ),
        ]

    same(program)


def test_unsafe_buffers_copies_and_transfer():
    def program(T):
        P, _ = modules_of(T)
        symmetric, twice, _, odd = pieces(T)
        out, m = [], T.nn.BatchNorm1d(2)
        P.register_parametrization(m, "running_var", twice())
        P.register_parametrization(m, "weight", odd(lambda x: x.double().sum()), unsafe=True)
        out += [state(m), [n for n, _ in m.named_buffers()], plain(m.weight)]
        T.manual_seed(1)
        a = P.register_parametrization(T.nn.Linear(2, 2).eval(), "weight", symmetric())
        out.append(a.parametrizations.weight[0].training)
        b = copy.deepcopy(a)
        b.weight = T.ones(2, 2)
        out += [plain(a.weight), plain(b.weight), type(b).__name__]
        c = P.transfer_parametrizations_and_params(a, T.nn.Linear(2, 2))
        out += [plain(c.weight), c.parametrizations.weight.original is a.parametrizations.weight.original]
        c.load_state_dict(b.state_dict())
        return [*out, plain(c.weight)]

    same(program, TOL)


def test_a_copy_is_independent():
    P, _ = modules_of(ft)
    a = P.register_parametrization(ft.nn.Linear(2, 2), "weight", pieces(ft)[0]())
    b = copy.deepcopy(a)
    with P.cached():
        assert a.weight is not b.weight
    P.remove_parametrizations(a, "weight")
    assert b.weight.shape == (2, 2) and P.is_parametrized(b) and not P.is_parametrized(a)


@pytest.mark.parametrize("dim", [0, 1, -1, None])
@pytest.mark.parametrize("old", [False, True])
def test_weight_norm(dim, old):
    def program(T):
        _, parametrizations = modules_of(T)
        norm = T.nn.utils.weight_norm if old else parametrizations.weight_norm
        T.manual_seed(0)
        m = norm(T.nn.Conv1d(2, 3, 2), dim=dim)
        out = [repr(m), state(m), plain(m.weight), [n for n, _ in m.named_parameters()]]
        opt = T.optim.SGD(m.parameters(), lr=0.1)
        for _ in range(2):
            opt.zero_grad()
            m(T.arange(8.0).view(1, 2, 4)).pow(2).sum().backward()
            out += [plain(p.grad) for p in m.parameters()]
            opt.step()
        out.append(state(m))
        if old:
            out.append(tries(lambda: norm(m)))
            T.nn.utils.remove_weight_norm(m)
            out.append(tries(lambda: T.nn.utils.remove_weight_norm(m)))
        return [*out, state(m)]

    same(program, 2e-4)  # two steps with gradients in the hundreds


def test_weight_norm_loads_the_older_form():
    def program(T):
        _, parametrizations = modules_of(T)
        T.manual_seed(0)
        old = T.nn.utils.weight_norm(T.nn.Linear(2, 3))
        new = parametrizations.weight_norm(T.nn.Linear(2, 3))
        return str(new.load_state_dict(old.state_dict())), state(new), plain(new.weight)

    same(program, TOL)


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("kind", ["linear", "conv", "dim 1"])
def test_spectral_norm(old, kind):
    def program(T):
        _, parametrizations = modules_of(T)
        norm = T.nn.utils.spectral_norm if old else parametrizations.spectral_norm
        T.manual_seed(0)
        m = T.nn.Conv1d(3, 2, 2) if kind == "conv" else T.nn.Linear(4, 3)
        x = T.linspace(-1, 1, 12).view((1, 3, 4) if kind == "conv" else (3, 4))
        m = norm(m, n_power_iterations=2, dim=1 if kind == "dim 1" else None)
        out = [repr(m), state(m), [n for n, _ in m.named_parameters()], [n for n, _ in m.named_buffers()]]
        for training in (True, True, False):
            m.train(training).zero_grad()
            m(x).pow(2).sum().backward()
            out += [plain(p.grad) for p in m.parameters()] + [state(m)]
        if old:
            out += [dict(m.state_dict()._metadata), tries(lambda: norm(m))]
            T.nn.utils.remove_spectral_norm(m)
            out.append(tries(lambda: T.nn.utils.remove_spectral_norm(m)))
        return [*out, state(m), plain(m.weight)]

    same(program, TOL)


def test_spectral_norm_errors_vectors_and_old_state():
    def program(T):
        _, parametrizations = modules_of(T)
        T.manual_seed(0)
        out = []
        for norm in (T.nn.utils.spectral_norm, parametrizations.spectral_norm):
            out += tries(
                lambda n=norm: n(T.nn.Linear(2, 2), n_power_iterations=0),
                lambda n=norm: n(T.nn.Linear(2, 2), "w"),
                lambda n=norm: n(T.nn.Linear(2, 2, bias=False), "bias"),
                lambda n=norm: n(T.nn.LazyLinear(2)),
            )[: 3 if norm is parametrizations.spectral_norm else 4]
        out += tries(lambda: parametrizations.spectral_norm(T.nn.Linear(2, 2), dim=3))
        m = parametrizations.spectral_norm(T.nn.Linear(2, 3), "bias")
        out += [plain(m.bias), state(m)]
        m = T.nn.utils.spectral_norm(T.nn.Linear(2, 3))
        m(T.ones(1, 2))
        before = state(m)
        old = m.state_dict()
        old["weight"] = m.weight.detach()
        del old["weight_v"]
        old._metadata[""].pop("spectral_norm")
        out += [str(m.load_state_dict(old)), before, state(m)]
        del old["weight_u"]
        return [*out, *tries(lambda: m.load_state_dict(old))]

    same(program, 1e-4)  # a pseudo-inverse in float32


@pytest.mark.parametrize(
    ("shape", "orthogonal_map", "trivial"),
    [
        ((3, 3), None, True),
        ((4, 2), "matrix_exp", True),
        ((2, 4), "matrix_exp", False),
        ((3, 3), "cayley", False),
        ((2, 4), "cayley", True),
        ((3, 3), "householder", True),
        ((4, 2), None, False),
        ((2, 4), None, True),
    ],
)
def test_orthogonal(shape, orthogonal_map, trivial):
    def program(T):
        _, parametrizations = modules_of(T)
        T.manual_seed(0)
        m = parametrizations.orthogonal(
            T.nn.Linear(*shape).double(), orthogonal_map=orthogonal_map, use_trivialization=trivial
        )
        out = [repr(m), state(m), plain(m.weight)]
        opt = T.optim.SGD(m.parameters(), lr=0.1)
        for _ in range(2):
            opt.zero_grad()
            m(T.arange(shape[0] * 2.0, dtype=T.float64).view(2, -1)).pow(2).sum().backward()
            out += [plain(p.grad) for p in m.parameters()]
            opt.step()
        return [*out, plain(m.weight), tries(lambda: setattr(m, "weight", T.ones(1)))]

    same(program, 1e-9)


def test_orthogonal_errors():
    def program(T):
        _, parametrizations = modules_of(T)
        O, linear = parametrizations.orthogonal, T.nn.Linear(2, 2)
        cayley = O(T.nn.Linear(2, 2), orthogonal_map="cayley", use_trivialization=False)
        return tries(
            lambda: O(linear, "w"),
            lambda: O(linear, "bias"),
            lambda: O(linear, orthogonal_map="qr"),
            lambda: O(T.nn.Linear(2, 2, dtype=T.complex64), orthogonal_map="householder"),
            lambda: setattr(cayley, "weight", T.eye(2)),
        )

    same(program)


@pytest.mark.parametrize(
    "which", ["weight_norm", "spectral_norm", "orthogonal", "old weight", "old spectral"]
)
def test_compiled_training_is_eager_training(which):
    def run(compiled):
        _, parametrizations = modules_of(ft)
        ft.manual_seed(0)
        layer = ft.nn.Linear(4, 4)
        if which.startswith("old"):
            import warnings

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                old = {"weight": ft.nn.utils.weight_norm, "spectral": ft.nn.utils.spectral_norm}
                layer = old[which.split()[1]](layer)
        else:
            layer = getattr(parametrizations, which)(layer)
        net = ft.nn.Sequential(layer, ft.nn.Tanh(), ft.nn.Linear(4, 1))
        opt = ft.optim.SGD(net.parameters(), lr=0.05)
        x, traces = ft.linspace(-1, 1, 32).view(8, 4), itertools.count()

        def step(x):
            next(traces)
            opt.zero_grad()
            loss = (net(x) - 1).pow(2).mean()
            loss.backward()
            opt.step()
            return loss

        fn = ft.compile(step) if compiled else step
        losses = [float(fn(x).detach()) for _ in range(4)]
        assert not compiled or next(traces) <= 2
        return losses, plain(dict(net.state_dict()))

    (losses, values), (compiled_losses, compiled_values) = run(False), run(True)
    assert losses == pytest.approx(compiled_losses, rel=1e-5)
    for key, (_, value) in values.items():
        torch.testing.assert_close(
            torch.tensor(compiled_values[key][1]), torch.tensor(value), rtol=1e-4, atol=1e-5
        )


def test_torch_checkpoints_load():
    _, theirs = modules_of(torch)
    _, ours = modules_of(ft)
    for name in ("weight_norm", "spectral_norm", "orthogonal"):
        source = getattr(theirs, name)(torch.nn.Linear(3, 3)).eval()
        target = getattr(ours, name)(ft.nn.Linear(3, 3)).eval()
        target.load_state_dict(to_ours(dict(source.state_dict())))
        torch.testing.assert_close(
            torch.tensor(target.weight.tolist()), source.weight.detach(), rtol=1e-5, atol=1e-6
        )
