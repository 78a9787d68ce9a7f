"""Every family of `torch.distributions` against PyTorch's in float64: values, samples of the same seed, errors."""

from __future__ import annotations

import warnings

import pytest
import torch
from nn_programs import same, tries
from torch.distributions.kl import _KL_REGISTRY
from twins import plain

import functorch_port as ft


@pytest.fixture(autouse=True)
def validating():
    """PyTorch's own test helpers, which other tests import, switch the checks off."""
    torch.distributions.Distribution.set_default_validate_args(True)


A, B = "t([0.7, 2.5])", "t([1.3, 0.4])"
MATRIX = "t([[2.0, 0.3], [0.3, 1.0]])"
LOWER = "t([[1.5, 0.0], [0.4, 0.8]])"

#: constructor, and values to try it on
FAMILIES = [
    (f"Beta({A}, {B})", [0.3, 0.8]),
    (f"Gamma({A}, {B})", [0.3, 1.8]),
    (f"Chi2({A})", [0.3, 1.8]),
    (f"InverseGamma(t([1.7, 2.5]), {B})", [0.3, 1.8]),
    ("Dirichlet(t([[0.7, 1.2], [2.5, 3.0]]))", [0.3, 0.7]),
    ("FisherSnedecor(t([1.5, 3.0]), t([5.0, 3.0]))", [0.3, 1.8]),
    (f"StudentT(t([1.5, 3.0]), {A}, {B})", [0.3, -1.8]),
    (f"Cauchy({A}, {B})", [0.3, -1.8]),
    (f"HalfCauchy({A})", [0.3, 1.8]),
    (f"HalfNormal({A})", [0.3, 1.8]),
    (f"LogNormal({A}, {B})", [0.3, 1.8]),
    (f"Gumbel({A}, {B})", [0.3, -1.8]),
    (f"Weibull({A}, {B})", [0.3, 1.8]),
    (f"Pareto({A}, {B})", [0.9, 3.8]),
    ("Kumaraswamy(t([0.7, 2.5]), t([1.3, 1.4]))", [0.3, 0.8]),
    (f"VonMises({A}, t([1.3, 7.0]))", [0.3, -1.8]),
    ("ContinuousBernoulli(t([0.2, 0.5]))", [0.3, 0.8]),
    ("ContinuousBernoulli(logits=t([0.2, 3.5]))", [0.3, 0.8]),
    ("Geometric(t([0.2, 0.5]))", [0.0, 3.0]),
    ("Geometric(logits=t([0.2, -0.5]))", [0.0, 3.0]),
    ("Binomial(t([3.0, 40.0]), t([0.2, 0.6]))", [1.0, 3.0]),
    ("Binomial(5, logits=t([0.2, -0.5]))", [1.0, 3.0]),
    ("NegativeBinomial(t([3.0, 4.5]), t([0.2, 0.6]))", [1.0, 3.0]),
    ("Multinomial(4, t([[1.0, 2.0], [1.0, 1.0]]))", [1.0, 3.0]),
    ("OneHotCategoricalStraightThrough(t([[1.0, 2.0], [1.0, 1.0]]))", [0.0, 1.0]),
    ("RelaxedBernoulli(t(0.7), t([0.2, 0.6]))", [0.3, 0.8]),
    ("RelaxedOneHotCategorical(t(0.7), t([[1.0, 2.0], [1.0, 1.0]]))", [0.3, 0.7]),
    ("LogisticNormal(t([0.7, 2.5]), t([1.3, 0.4]))", [0.2, 0.3, 0.5]),
    (f"MultivariateNormal({A}, covariance_matrix={MATRIX})", [0.3, -1.8]),
    (f"MultivariateNormal(t([[0.7, 2.5]] * 3), precision_matrix={MATRIX})", [0.3, -1.8]),
    (f"MultivariateNormal({A}, scale_tril={LOWER})", [0.3, -1.8]),
    (f"LowRankMultivariateNormal({A}, t([[1.0], [0.5]]), {B})", [0.3, -1.8]),
    (f"Wishart(t(4.5), covariance_matrix={MATRIX})", [[1.5, 0.2], [0.2, 0.8]]),
    ("LKJCholesky(3, t(1.5))", [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]]),
    (f"Independent(D.Normal({A}, {B}), 1)", [0.3, -1.8]),
    (f"MixtureSameFamily(D.Categorical(t([0.3, 0.7])), D.Normal({A}, {B}))", 0.3),
    (f"TransformedDistribution(D.Normal({A}, {B}), [D.AffineTransform(1.0, -2.0), D.SigmoidTransform()])", [0.3, 0.8]),
]  # fmt: skip

IDS = [f"{i}-{text.split('(')[0]}" for i, (text, _) in enumerate(FAMILIES)]


def scope(T):
    return {"t": lambda v: T.tensor(v, dtype=T.float64), "D": T.distributions, "T": T}


def made(T, text):
    return eval(f"D.{text}", scope(T))


def kinds(*calls):
    """As `tries`, but of an error only its type."""
    return [v[0] if isinstance(v, tuple) and v and str(v[0]).endswith("Error") else v for v in tries(*calls)]


def no_nan(value):
    if isinstance(value, (list, tuple)):
        return [no_nan(v) for v in value]
    return "nan" if isinstance(value, float) and value != value else value


@pytest.mark.parametrize(("text", "value"), FAMILIES, ids=IDS)
def test_values(text, value):
    def program(T):
        d, x = made(T, text), T.tensor(value, dtype=T.float64)
        wide = d.expand((3, *d.batch_shape)) if len(d.batch_shape) < 2 else d
        # PyTorch's categorical shows what it has computed besides what it was given
        shown = repr(d).replace(
            "(probs: torch.Size([2]), logits: torch.Size([2]))", "(probs: torch.Size([2]))"
        )
        out = [shown, repr(d.support), d.has_rsample, d.has_enumerate_support]
        out += [list(s) for s in (d.batch_shape, d.event_shape, wide.batch_shape, wide.event_shape)]
        out += kinds(lambda: d.log_prob(x), lambda: wide.log_prob(x), d.entropy)
        out += [] if "Multinomial" in text else kinds(wide.entropy)  # PyTorch's is lost when expanded
        out += kinds(*(lambda n=n: getattr(d, n) for n in ("mean", "variance", "stddev", "mode")))
        out += kinds(lambda: wide.mean, lambda: d.cdf(x), lambda: d.icdf(T.full_like(x, 0.3)))
        out += kinds(lambda: d.enumerate_support(), lambda: d.support.check(x))
        return no_nan(out)

    same(program, 1e-12 if "Multinomial" not in text else 2e-7)  # whose entropy has a float32 term in PyTorch


def test_wishart_samples():
    """PyTorch draws again what it takes for singular, which is what is not; so only the mean is compared."""
    d = made(ft, f"Wishart(t(4.5), covariance_matrix={MATRIX})")
    ft.manual_seed(0)
    drawn = d.sample((2000,))
    assert drawn.shape == (2000, 2, 2) and bool(d.support.check(drawn).all())
    assert float((drawn.mean(0) - d.mean).abs().max()) < 0.3  # three standard errors
    assert list(d.expand((2,)).rsample((3,)).shape) == [3, 2, 2, 2]


@pytest.mark.parametrize(
    "text",
    [text for text, _ in FAMILIES if "Wishart" not in text],
    ids=[i for i in IDS if "Wishart" not in i],
)
def test_samples(text):
    def program(T):
        d = made(T, text)
        T.manual_seed(0)
        out = [plain(d.sample()), plain(d.sample((3, 2)))]
        out += kinds(lambda: d.expand((2, *d.batch_shape)).sample(), lambda: d.rsample((2,)))
        return out

    same(program, 1e-11)  # powers and logarithms of the C library and of XLA


def test_generalized_pareto():
    """In float32: PyTorch's own formulas do not take another type."""

    def program(T):
        t = T.tensor
        d = T.distributions.GeneralizedPareto(t([1.3, 0.4, 0.1]), t([0.7, 2.5, 1.0]), t([0.0, 0.3, -0.5]))
        x = t([1.5, 3.8, 0.7])
        T.manual_seed(0)
        out = [
            repr(d),
            repr(d.support),
            d.log_prob(x),
            d.cdf(x),
            d.icdf(d.cdf(x)),
            d.log_survival_function(x),
        ]
        out += [d.mean, d.variance, d.mode, d.entropy(), d.rsample((4,)), d.expand((2, 3)).sample()]
        return no_nan(plain(out))

    same(program, 3e-6)


def test_float32_samples():
    def program(T):
        D, t = T.distributions, T.tensor
        T.manual_seed(3)
        out = [D.Gamma(t([0.1, 0.9, 1.0, 30.0]), 2.0).sample((5,)), D.Beta(0.5, 0.5).sample((4,))]
        out += [D.Binomial(t([10.0, 100.0, 1000.0]), t([0.9, 0.5, 0.3])).sample((4,))]
        out += [D.Dirichlet(t([0.01, 0.02, 3.0])).sample((4,)), D.StudentT(3.0).sample((3,)), T.rand(1)]
        return plain(out)

    same(program, 2e-6)


def test_gradients_of_samples():
    def program(T):
        out = []
        for text in (
            "Gumbel(a, b)",
            "Weibull(a, b)",
            "Kumaraswamy(a, b)",
            "HalfNormal(a)",
            "LogisticNormal(a, b)",
        ):
            a = T.tensor([0.7, 2.5], dtype=T.float64, requires_grad=True)
            b = T.tensor([1.3, 0.4], dtype=T.float64, requires_grad=True)
            T.manual_seed(0)
            d = eval(f"T.distributions.{text}")
            (d.rsample((3,)).square().sum() + d.log_prob(d.sample()).sum()).backward()
            out += [plain(a.grad), plain(b.grad)]
        return out

    same(program, 1e-10)


def test_gradients_of_gamma_samples():
    """PyTorch's derivative of a gamma number is a fit with four digits; JAX's is exact."""

    def program(T):
        out = []
        for alpha in (0.3, 0.9, 2.0, 12.0):
            a = T.tensor(alpha, dtype=T.float64, requires_grad=True)
            T.manual_seed(0)
            T.distributions.Gamma(a, 2.0).rsample((6,)).square().sum().backward()
            out.append(a.grad.item())
        return out

    same(program, 2e-3)
    a = ft.tensor([2.0, 3.0, 5.0], requires_grad=True)
    ft.manual_seed(0)
    ft.distributions.Dirichlet(a).rsample((4000,))[:, 0].mean().backward()
    # the mean is a_0 / sum(a): its derivatives, from 4,000 samples
    assert a.grad.tolist() == pytest.approx([0.08, -0.02, -0.02], abs=4e-3)


def distribution(T, name):
    given = {
        "Bernoulli": "t([0.2, 0.6])", "Beta": "t([1.7, 2.5]), t([1.3, 0.4])", "Binomial": "3, t([0.2, 0.6])",
        "Categorical": "t([[1.0, 2.0], [1.0, 1.0]])", "ContinuousBernoulli": "t([0.2, 0.5])",
        "Dirichlet": "t([[0.7, 1.2], [2.5, 3.0]])", "Exponential": "t([1.2, 0.6])",
        "Gamma": "t([1.7, 2.5]), t([1.3, 0.4])",
        "Geometric": "t([0.2, 0.6])", "HalfNormal": "t([1.2, 0.6])",
        "Independent": "D.Normal(t([0.7, 2.5]), t(1.0)), 1",
        "LowRankMultivariateNormal": "t([0.7, 2.5]), t([[1.0], [0.5]]), t([1.3, 0.4])",
        "MultivariateNormal": "t([0.7, 2.5]), scale_tril=t([[1.5, 0.0], [0.4, 0.8]])",
        "OneHotCategorical": "t([[1.0, 2.0], [1.0, 1.0]])", "Pareto": "t([0.3, 1.0]), t([2.5, 1.5])",
        "Poisson": "t([1.2, 0.6])",
        "TransformedDistribution": "D.Normal(t([0.7, 2.5]), t(1.0)), D.ExpTransform()",
        "Uniform": "t([0.1, 0.2]), t([0.4, 0.9])",
    }  # fmt: skip
    return made(T, f"{name}({given.get(name, 't([0.7, 2.5]), t([1.3, 0.4])')})")


@pytest.mark.parametrize("first", sorted({p.__name__ for p, _ in _KL_REGISTRY} - {"ExponentialFamily"}))
def test_divergences(first):
    seconds = sorted(q.__name__ for p, q in _KL_REGISTRY if p.__name__ == first)

    def program(T):
        p = distribution(T, first)
        return no_nan(
            [plain(T.distributions.kl_divergence(p, distribution(T, second))) for second in seconds]
        )

    same(program, 1e-12)


def test_every_name_is_here():
    assert set(torch.distributions.__all__) <= set(ft.distributions.__all__)
    assert set(torch.distributions.constraints.__all__) <= set(ft.distributions.constraints.__all__)
    assert set(torch.distributions.transforms.__all__) == set(ft.distributions.transforms.__all__)


def test_errors():
    def program(T):
        D, t = T.distributions, T.tensor
        return tries(
            lambda: D.Gamma(t([1.0, -1.0]), 1.0),
            lambda: D.Chi2(t(-1.0)),
            lambda: D.Beta(0.0, 1.0),
            lambda: D.Dirichlet(t(1.0)),
            lambda: D.Dirichlet(t([1.0, 0.0])),
            lambda: D.Dirichlet(t([1.0, 1.0])).log_prob(t([0.5, 0.6])),
            lambda: D.Gamma(1.0, 1.0).log_prob(t(-1.0)),
            lambda: D.Geometric(),
            lambda: D.Geometric(t([0.0, 1.0])),
            lambda: D.Binomial(3, t(0.5)).log_prob(t(4.0)),
            lambda: D.Binomial(t([3.0, 4.0]), t(0.5)).enumerate_support(),
            lambda: D.Multinomial(t(3), t([0.5, 0.5])),
            lambda: D.MultivariateNormal(t(0.0), T.eye(2)),
            lambda: D.MultivariateNormal(T.zeros(2)),
            lambda: D.MultivariateNormal(T.zeros(2), T.ones(2)),
            lambda: D.MultivariateNormal(T.zeros(2), scale_tril=T.ones(2)),
            lambda: D.MultivariateNormal(T.zeros(2), -T.eye(2)),
            lambda: D.LowRankMultivariateNormal(T.zeros(2), T.zeros(3, 1), T.ones(2)),
            lambda: D.Wishart(t(0.5), T.eye(2)),
            lambda: D.LKJCholesky(1),
            lambda: D.Independent(D.Normal(0.0, 1.0), 1),
            lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), 3),
            lambda: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(0.0, 1.0)),
            lambda: D.MixtureSameFamily(D.Categorical(T.ones(3)), D.Normal(T.zeros(2), 1.0)),
            lambda: D.kl_divergence(D.Normal(0.0, 1.0), D.VonMises(0.0, 1.0)),
            lambda: D.biject_to(D.constraints.one_hot),
            lambda: D.StickBreakingTransform(3),
            lambda: D.ReshapeTransform((2,), (3,)),
            lambda: D.LogNormal(0.0, -1.0),
            lambda: D.Kumaraswamy(0.0, 1.0),
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(program)


TRANSFORMS = [
    ("ExpTransform()", [0.3, -1.2]),
    ("SigmoidTransform()", [0.3, -1.2]),
    ("TanhTransform()", [0.3, -1.2]),
    ("SoftplusTransform()", [0.3, -1.2]),
    ("AbsTransform()", [0.3, 1.2]),
    ("PowerTransform(t([2.0, -0.5]))", [0.3, 1.2]),
    ("AffineTransform(1.0, -2.0)", [0.3, -1.2]),
    ("AffineTransform(1.0, t([-2.0, 0.5]), event_dim=1)", [0.3, -1.2]),
    ("SoftmaxTransform()", [0.3, -1.2]),
    ("StickBreakingTransform()", [0.3, -1.2]),
    ("CorrCholeskyTransform()", [0.3, -1.2, 0.4]),
    ("LowerCholeskyTransform()", [[0.3, -1.2], [0.4, 0.5]]),
    ("PositiveDefiniteTransform()", [[0.3, -1.2], [0.4, 0.5]]),
    ("ComposeTransform([D.AffineTransform(1.0, 2.0), D.StickBreakingTransform()])", [0.3, -1.2]),
    ("ComposeTransform([])", [0.3, -1.2]),
    ("IndependentTransform(D.ExpTransform(), 1)", [0.3, -1.2]),
    ("ReshapeTransform((4,), (2, 2))", [0.3, -1.2, 0.1, 2.0]),
    ("CatTransform([D.ExpTransform(), D.TanhTransform()], lengths=[1, 2])", [0.3, -1.2, 0.1]),
    ("StackTransform([D.ExpTransform(), D.TanhTransform()])", [0.3, -1.2]),
    ("CumulativeDistributionTransform(D.Normal(t(0.5), t(2.0)))", [0.3, -1.2]),
    ("ExpTransform().inv", [0.3, 1.2]),
]


@pytest.mark.parametrize(("text", "value"), TRANSFORMS, ids=[text.split("(")[0] for text, _ in TRANSFORMS])
def test_transforms(text, value):
    def program(T):
        f, x = made(T, text), T.tensor(value, dtype=T.float64)
        y = f(x)
        shapes = [lambda: list(f.forward_shape(x.shape)), lambda: list(f.inverse_shape(y.shape))]
        other = T.distributions.TanhTransform()
        out = [repr(f), repr(f.inv), f.bijective, f == made(T, text), f == f.inv.inv, f != other]
        out += [plain(y), plain(f.inv(y)), repr(f.domain), repr(f.codomain), f.inv.inv is f]
        out += kinds(lambda: f.log_abs_det_jacobian(x, y), lambda: f.sign, lambda: f.event_dim, *shapes)
        out += kinds(
            lambda: f.inv.log_abs_det_jacobian(y, x), lambda: f.domain.check(x), lambda: f.codomain.check(y)
        )
        cached = tries(lambda: f.with_cache())[0]
        if not isinstance(cached, tuple):
            f = f.with_cache()
            out += [f.inv(f(x)) is x]
        return no_nan(out)

    same(program, 1e-12)


CONSTRAINTS = [
    "real", "positive", "nonnegative", "greater_than(2.0)", "less_than(-1.0)", "unit_interval", "interval(-1.0, 3.0)",
    "half_open_interval(0.0, 2.0)", "simplex", "real_vector", "lower_cholesky", "positive_definite",
    "independent(c.positive, 1)",
    "cat([c.positive, c.real], 0, [1, 1])", "stack([c.positive, c.real], 0)", "corr_cholesky",
]  # fmt: skip


def test_registries():
    def program(T):
        out = []
        for text in CONSTRAINTS:
            constraint = eval(f"c.{text}", {"c": T.distributions.constraints})
            size = (3, 3) if "chol" in text or "definite" in text else (2,)
            x = T.linspace(-1.0, 1.0, 9 if size == (3, 3) else 2, dtype=T.float64).reshape(size)
            x = x[0] if text == "corr_cholesky" else x
            for registry in (T.distributions.biject_to, T.distributions.transform_to):
                out += tries(lambda: repr(registry(constraint)), lambda: registry(constraint)(x))
                out += tries(lambda: constraint.check(registry(constraint)(x)), lambda: constraint.event_dim)
        return out

    same(program, 1e-12)
