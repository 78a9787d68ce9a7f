"""`torch.distributions` against PyTorch's: densities, samples of the same seed, errors."""

from __future__ import annotations

import pytest
import torch
from nn_programs import same, tries
from twins import plain

import functorch_port as ft


@pytest.fixture(autouse=True)
def validating():
    """PyTorch's own test helpers, which other tests here import, switch the checks off."""
    torch.distributions.Distribution.set_default_validate_args(True)


MADE = [
    ("Normal(T.tensor([0., 1.]), T.tensor([1., 2.]))", [0.3, -1.0]),
    ("Normal(0., 1.)", 0.7),
    ("LogNormal(T.tensor([0., 1.]), 0.5)", [0.3, 1.0]),
    ("Uniform(T.tensor([0., -1.]), T.tensor([1., 2.]))", [0.25, 1.5]),
    ("Exponential(T.tensor([1., 2.5]))", [0.25, 1.5]),
    ("Laplace(T.tensor([0., 1.]), T.tensor([1., 2.]))", [0.3, -1.0]),
    ("Bernoulli(T.tensor([0.2, 0.5]))", [1.0, 0.0]),
    ("Bernoulli(logits=T.tensor([-0.3, 2.]))", [1.0, 0.0]),
    ("Categorical(T.tensor([[1., 2., 1.], [0., 1., 3.]]))", [1, 2]),
    ("Categorical(logits=T.tensor([0.1, -2., 0.4]))", 2),
    ("OneHotCategorical(T.tensor([1., 2., 1.]))", [0.0, 1.0, 0.0]),
    ("Poisson(T.tensor([1., 4.5]))", [2.0, 3.0]),
]


@pytest.mark.parametrize(("text", "value"), MADE)
def test_values_and_samples(text, value):
    def program(T):
        d = eval(f"T.distributions.{text}")
        x = T.tensor(value)
        T.manual_seed(0)
        out = [repr(d), list(d.batch_shape), list(d.event_shape), plain(d.log_prob(x))]
        for name in ("mean", "variance", "stddev", "mode"):
            out.append(tries(lambda n=name: getattr(d, n))[0] if name != "mode" else None)
        out += [plain(d.sample()), plain(d.sample((3,))), plain(d.expand((2, *d.batch_shape)).sample())]
        out += [plain(d.rsample((2,))) if d.has_rsample else None]
        out += [plain(d.enumerate_support()) if d.has_enumerate_support else None]
        if "Poisson" not in text:
            out += [plain(d.entropy()), plain(T.distributions.kl_divergence(d, d)), plain(d.perplexity())]
        if d.has_rsample:
            out += [plain(d.cdf(x)), plain(d.icdf(T.full_like(x, 0.3)))]
        return out

    def comparable(T):
        return [None if str(v) in ("['torch.float32', nan]",) else v for v in map(_no_nan, program(T))]

    same(comparable, 2e-5)


def _no_nan(value):
    if isinstance(value, (list, tuple)):
        return [_no_nan(v) for v in value]
    return "nan" if isinstance(value, float) and value != value else value


def test_gradients():
    def program(T):
        D = T.distributions
        w = T.tensor([0.5, 1.5], requires_grad=True)
        (D.Normal(w, w).log_prob(T.tensor([0.1, 0.2])).sum() + D.Categorical(logits=w).entropy()).backward()
        T.manual_seed(0)
        D.Normal(w, 1.0).rsample().sum().backward()
        D.kl_divergence(D.Normal(w, w), D.Normal(0.0, 1.0)).sum().backward()
        return plain(w.grad)

    same(program, 1e-5)


def test_errors():
    def program(T):
        D = T.distributions
        return tries(
            lambda: D.Normal(0.0, -1.0),
            lambda: D.Normal(T.zeros(2), T.tensor([1.0, -1.0])),
            lambda: D.Categorical(),
            lambda: D.Categorical(probs=T.ones(1), logits=T.ones(1)),
            lambda: D.Categorical(probs=T.tensor(1.0)),
            lambda: D.Categorical(probs=T.zeros(2)),
            lambda: D.Categorical(T.ones(3)).log_prob(T.tensor(5)),
            lambda: D.Bernoulli(logits=T.zeros(2)).log_prob(T.tensor([0.0, 0.5])),
            lambda: D.Uniform(1.0, 0.0),
            lambda: D.Normal(0.0, 1.0).log_prob(3),
            lambda: D.Normal(T.zeros(2), 1.0).log_prob(T.ones(3)),
            lambda: repr(D.constraints.positive),
            lambda: repr(D.constraints.interval(0, 1)),
            lambda: D.constraints.simplex.check(T.tensor([[0.5, 0.5], [0.5, 0.6]])),
            lambda: D.constraints.real_vector.check(T.tensor([[0.5, float("nan")], [0.5, 0.6]])),
            lambda: D.constraints.positive_definite.check(T.eye(2)),
            lambda: D.constraints.lower_triangular.check(T.ones(2, 2)),
            lambda: D.constraints.dependent.check(T.ones(1)),
        )

    same(program)


def test_compiled():
    @ft.compile
    def loss(w):
        return ft.distributions.Normal(w, 1.0).log_prob(ft.zeros(2)).sum()

    assert float(loss(ft.ones(2))) == pytest.approx(-2.8378770664)


def test_expand_of_a_programs_class():
    def program(T):
        D = T.distributions

        class Plain(D.Normal):
            pass

        class Shifted(D.Normal):
            arg_constraints = {**D.Normal.arg_constraints, "shift": D.constraints.real_vector}

            def __init__(self, loc, scale, shift, validate_args=None):
                self.shift = shift
                super().__init__(loc, scale, validate_args=validate_args)

            def log_prob(self, value):
                return super().log_prob(value - self.shift.sum(-1))

        class Expanding(Shifted):
            def expand(self, batch_shape, _instance=None):
                new = self._get_checked_instance(Expanding, _instance)
                new.shift = self.shift.expand((*batch_shape, 2)) + 1
                return super().expand(batch_shape, _instance=new)

        class Further(Expanding):
            def __init__(self, loc):
                super().__init__(loc, 2.0, T.ones(2))

            def expand(self, batch_shape, _instance=None):
                return super().expand(batch_shape, self._get_checked_instance(Further, _instance))

        class Alone(D.Distribution):
            arg_constraints = {"a": D.constraints.real}

            def __init__(self, a):
                self.a = a
                super().__init__(a.shape)

        class OfGamma(D.Gamma):
            def __init__(self):
                super().__init__(T.ones(1), T.ones(1))

        zero, x = T.zeros(1), T.tensor([0.5, 1.0, -1.0])
        made = Plain(zero, 1.0), Expanding(zero, 1.0, T.ones(2)), Further(zero)
        wide = [d.expand((2, 3)) for d in made]
        return [
            *[(type(d).__name__, plain(d.log_prob(x)), tuple(d.batch_shape)) for d in wide],
            plain(wide[1].shift),
            *tries(
                lambda: Shifted(zero, 1.0, T.ones(2)).expand((2, 3)),
                lambda: Alone(zero).expand((3,)),
                lambda: OfGamma().expand((3,)),
            ),
        ]

    same(program)
