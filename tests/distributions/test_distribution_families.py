"""Every family of `torch.distributions` against PyTorch's in float64: values, samples of the same seed, errors."""

from __future__ import annotations

import warnings

import jax
import pytest
import scipy.special
import torch
from nn_programs import same, tries
from torch.distributions.kl import _KL_REGISTRY
from twins import plain

import functorch_port as ft
from functorch_port.ops._beta import beta_slope
from functorch_port.ops.gamma_samples import _gamma


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
    (f"Wishart(t([4.5, 1.2]), scale_tril={LOWER})", [[1.5, 0.2], [0.2, 0.8]]),
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
    d = made(ft, f"Wishart(t(4.5), covariance_matrix={MATRIX})")
    ft.manual_seed(0)
    with pytest.warns(UserWarning, match="Singular sample detected"):  # as in PyTorch: none is
        drawn = d.sample((2000,))
    assert drawn.shape == (2000, 2, 2) and bool(d.support.check(drawn).all())
    assert float((drawn.mean(0) - d.mean).abs().max()) < 0.3  # three standard errors
    with pytest.warns(UserWarning, match="Singular sample detected"):
        assert list(d.expand((2,)).rsample((3,)).shape) == [3, 2, 2, 2]


@pytest.mark.parametrize("text", [text for text, _ in FAMILIES], ids=IDS)
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


def test_gradients_of_beta_and_dirichlet_samples():
    """PyTorch's derivative of a beta number is right to three digits; the next test looks at more of them."""

    def program(T):
        out = []
        a = T.tensor([2.0, 0.3, 20.0], requires_grad=True)
        b = T.tensor([3.0, 0.8, 7.0], requires_grad=True)
        T.manual_seed(0)
        T.distributions.Beta(a, b).rsample((3,)).square().sum().backward()
        T.distributions.Dirichlet(a).rsample((2,)).square().sum().backward()
        out += [plain(a.grad), plain(b.grad)]
        T.distributions.Dirichlet(a[:1]).rsample().sum().backward()
        return [*out, plain(a.grad)]

    same(program, 2e-3)
    a = ft.tensor([2.0, 3.0, 5.0], requires_grad=True)
    ft.manual_seed(0)
    ft.distributions.Dirichlet(a).rsample((4000,))[:, 0].mean().backward()
    # the mean is a_0 / sum(a): its derivatives, from 4,000 samples
    assert a.grad.tolist() == pytest.approx([0.08, -0.02, -0.02], abs=4e-3)


#: a, b, x, and by 40 digits of numerical integration less dI_x(a, b)/da, divided by the density and by 1 - x
SLOPES = [
    (0.001, 0.001, 0.5, 250346.81347747162),
    (0.001, 0.01, 5.3866543193917655e-194, 2.886763898375301e-188),
    (0.001, 1.0, 1.11640970303468e-123, 3.1606434909776188e-118),
    (0.001, 1000000.0, 2.6030229730926385e-280, 1.6382803704760668e-274),
    (0.01, 0.001, 1.7932614609879883e-74, 4.675296807395391e-70),
    (0.01, 0.01, 2.4799886641342642e-68, 5.100132305065169e-64),
    (0.01, 0.3, 7.080463391461071e-42, 6.908695840261579e-38),
    (0.01, 1.0, 3.101401199231192e-13, 8.932578881244894e-10),
    (0.01, 2.5, 4.334197282485085e-58, 5.669756990109004e-54),
    (0.01, 50.0, 1.0942103692276266e-46, 1.1091551401267963e-42),
    (0.01, 1000.0, 2.185251558586918e-37, 1.6814585689323836e-33),
    (0.01, 1000000.0, 3.7325689323639054e-33, 2.2504335862256496e-29),
    (0.3, 0.3, 0.060367715420042226, 0.8600277830255045),
    (0.3, 1.0, 0.0014857884242170123, 0.032298560513923893),
    (0.3, 2.5, 2.5442584935985386e-07, 1.2021219828028862e-05),
    (0.3, 50.0, 0.0010027102688727329, 0.009927280531886235),
    (0.3, 1000.0, 2.1750243732522145e-05, 0.0002707188717701775),
    (0.3, 1000000.0, 2.3518719044322397e-07, 1.3314780989332675e-06),
    (1.0, 0.3, 0.998786406704835, 1.359148733121999),
    (1.0, 1.0, 0.11422803113954877, 0.2797835232182502),
    (1.0, 2.5, 0.17246527039420395, 0.2779747851510378),
    (1.0, 50.0, 0.012048682407269081, 0.0178663563249201),
    (1.0, 1000.0, 0.0013737789120950663, 0.001372302265631534),
    (1.0, 1000000.0, 4.233206313229419e-06, 2.2168277231781247e-06),
    (2.5, 0.3, 0.5418225439778661, 0.32681355955314956),
    (2.5, 1.0, 0.5839622651594403, 0.3020152456599473),
    (2.5, 2.5, 0.7126769236536888, 0.27342335487355235),
    (2.5, 50.0, 0.01187227813705439, 0.009375729345104906),
    (2.5, 1000.0, 0.002762226658829523, 0.0011219454570004473),
    (2.5, 1000000.0, 4.462975373057264e-06, 1.4081196557657908e-06),
    (50.0, 0.3, 0.998337126209952, 0.020123573327838165),
    (50.0, 1.0, 0.9968702527357746, 0.019968669825107022),
    (50.0, 2.5, 0.9218749124270956, 0.01892086581820147),
    (50.0, 50.0, 0.521360748165329, 0.01027933201295745),
    (50.0, 1000.0, 0.043159165089175736, 0.0009096280316732706),
    (50.0, 1000000.0, 6.238435767085548e-05, 1.1184125029383456e-06),
    (1000.0, 0.3, 0.9999999943730058, 0.001000350043815091),
    (1000.0, 1.0, 0.9994359052804994, 0.000999717899591478),
    (1000.0, 2.5, 0.9988825883237402, 0.0009986926426345086),
    (1000.0, 50.0, 0.9488604507329587, 0.0009510786163353803),
    (1000.0, 1000.0, 0.5035757933005982, 0.0005019510934295127),
    (1000.0, 1000000.0, 0.0009503342672188489, 9.744252810237807e-07),
    (1000000.0, 0.3, 0.9999994098711826, 1.0000000549354422e-06),
    (1000000.0, 1.0, 0.999998840994547, 9.999994204970495e-07),
    (1000000.0, 2.5, 0.9999974054800073, 9.99997952741179e-07),
    (1000000.0, 50.0, 0.9999426394309578, 9.999468209124287e-07),
    (1000000.0, 1000.0, 0.9990175533759519, 9.990097753162676e-07),
    (1000000.0, 1000000.0, 0.5001498958545719, 5.00075107136745e-07),
]  # fmt: skip
#: concentration, sample, its derivative
GAMMA_SLOPES = [
    (0.01, 2.9710339999411078e-30, 2.0033015945311837e-26),
    (0.01, 9.876823140133633e-13, 2.6748935737310995e-09),
    (0.3, 0.014593261089985087, 0.2000526743802904),
    (0.3, 0.0014748629935203313, 0.03125766433389533),
    (1.0, 0.49870741454689305, 0.8057852751255107),
    (1.0, 0.45650219449415447, 0.7657734133870626),
    (2.5, 1.9339649035555457, 0.9368831514141945),
    (2.5, 2.523312162568507, 1.0736540060167679),
    (10.0, 12.157177498788519, 1.1193594943936704),
    (10.0, 13.96124393283239, 1.1958577032115205),
    (50.0, 48.0238057937151, 0.9832451527943195),
    (50.0, 48.664974229674314, 0.9898240721458595),
    (1000.0, 1016.476301063943, 1.0083613225179116),
    (1000.0, 992.027498224071, 0.9961691299049691),
    (1000000.0, 1000072.8081619022, 1.0000365698702292),
    (1000000.0, 1000540.4677113525, 1.0002703518963163),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "within"), [("float64", 2e-12), ("float32", 1e-4)])
def test_derivatives_are_exact(dtype, within):
    """Of samples by their parameters, also where PyTorch has the wrong sign (1 and 1e6: -1.5e-8, not 2.2e-6)."""
    a, b, x, exact = ft.tensor(SLOPES, dtype=ft.float64).unbind(1)
    a, b, x = (v.to(getattr(ft, dtype)) for v in (a, b, x))
    with jax.enable_x64(True):
        slopes = beta_slope(a.jax(), b.jax(), x.jax()) / (1 - x.jax())
    fits = (x > 1e-37) & (x < 1 - 1e-4) if dtype == "float32" else x > 0
    assert float((ft.from_jax(slopes) / exact - 1).abs()[fits].max()) < within


def test_derivatives_of_gamma_samples_are_exact():
    """In float32, too, where JAX's own are 6 % off for a concentration of a million."""
    for dtype, within in ((ft.float64, 1e-9), (ft.float32, 1e-5)):
        a, x, exact = (v.to(dtype) for v in ft.tensor(GAMMA_SLOPES, dtype=ft.float64).unbind(1))
        with jax.enable_x64(True):
            _, slopes = jax.jvp(_gamma, (a.jax(), x.jax()), (a.jax() * 0 + 1, x.jax() * 0))
        assert float((ft.from_jax(slopes) / exact - 1).abs().max()) < within


def test_small_concentrations():
    """Gamma numbers too small for float32 are kept in float64 until they are divided by their sum."""

    def program(T):
        T.manual_seed(0)
        drawn = T.distributions.Beta(0.01, 0.01).sample((1000,))
        return [int((drawn == 0.5).sum()), plain(drawn.sort().values[::50]), plain(T.rand(1))]

    same(program, 1e-6)
    ft.manual_seed(0)
    assert not (ft.compile(lambda: ft.distributions.Beta(0.01, 0.01).sample((1000,)))() == 0.5).any()


GRADIENTS = {
    "Gamma": lambda D, a: D.Gamma(a, 2.0).rsample().square().sum(),
    "Beta": lambda D, a: D.Beta(a, a + 1).rsample().square().sum(),
    "Dirichlet": lambda D, a: D.Dirichlet(a).rsample().square().sum(),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_samples_in_transforms(name):
    def loss(a):
        return GRADIENTS[name](ft.distributions, a)

    a = ft.tensor([2.0, 0.5, 7.0], dtype=ft.float64, requires_grad=True)
    ft.manual_seed(0)
    (eager,) = ft.autograd.grad(loss(a), a)
    assert eager.abs().min() > 1e-4
    ft.manual_seed(0)
    assert ft.func.grad(loss)(a.detach()).tolist() == pytest.approx(eager.tolist(), rel=1e-12)
    ft.manual_seed(0)
    _, slope = ft.func.jvp(loss, (a.detach(),), (ft.tensor([1.0, 0.0, 0.0], dtype=ft.float64),))
    assert slope.item() == pytest.approx(eager[0].item(), rel=1e-12)
    with pytest.raises(NotImplementedError, match="numbers whose parameters are mapped over"):
        ft.func.vmap(loss, randomness="different")(ft.ones(2, 3))
    with pytest.raises(NotImplementedError, match=r'numbers in a function compiled with rng="torch"'):
        ft.compile(loss, rng="torch")(a)


def test_gradients_of_compiled_samples():
    """Of other numbers than eager ones, by the same formula."""

    @ft.compile
    def drawn(a, b):
        x = ft.distributions.Beta(a, b).rsample()
        return (x, *ft.autograd.grad(x.sum(), (a, b)))

    a, b = (ft.tensor(v, dtype=ft.float64, requires_grad=True) for v in ([2.0, 0.3, 20.0], [3.0, 0.8, 7.0]))
    x, by_a, by_b = (v.detach().numpy() for v in drawn(a, b))
    a, b = a.detach().numpy(), b.detach().numpy()
    chance, h = scipy.special.betainc(a, b, x), 1e-5
    quantile = scipy.special.betaincinv
    assert by_a == pytest.approx(
        (quantile(a + h, b, chance) - quantile(a - h, b, chance)) / (2 * h), rel=1e-6
    )
    assert by_b == pytest.approx(
        (quantile(a, b + h, chance) - quantile(a, b - h, chance)) / (2 * h), rel=1e-6
    )


def test_counts_in_transforms():
    """What PyTorch draws eagerly; its own binomial numbers do not work there."""

    def draws(T, rate):
        return T.poisson(rate) + T.binomial(T.full_like(rate, 5.0), rate / 10)

    def program(T):
        T.manual_seed(0)
        rate = T.tensor([2.0, 7.0])
        return plain(draws(T, rate) if T is torch else T.func.grad(lambda r: (r * draws(T, r)).sum())(rate))

    same(program)


def test_what_else_differed():
    def program(T):
        D, out = T.distributions, []

        def slopes(value, *of):
            return [plain(g) for g in T.autograd.grad(value.sum(), of)]

        t = lambda v: T.tensor(v, requires_grad=True)  # noqa: E731
        low, high = t([0.0, 1.0]), t([2.0, 3.0])
        out += [repr(D.Uniform(low, high).support), plain(D.Uniform(low, high).mode)]
        out += [plain(D.HalfNormal(2.0).log_prob(T.tensor(0.5, dtype=T.float64)))]
        out += [plain(D.HalfCauchy(2.0).log_prob(T.tensor(0.5, dtype=T.float64)))]
        c = t([0.3, 1.0, 2.5])
        pareto = D.GeneralizedPareto(0.0, 1.0, c)
        out += [slopes(pareto.mean.nan_to_num(), c), slopes(pareto.variance.nan_to_num(), c)]
        rate, scale = t([0.1, 1.0]), t([1.0, 2.0])
        x = T.tensor([100.0, 17.0])
        out += [
            slopes(1e4 * D.Exponential(rate).cdf(x), rate),
            slopes(1e4 * D.Weibull(scale, 2.0).cdf(4 * scale), scale),
        ]
        out += [slopes(1e4 * D.Pareto(scale, rate * 20).cdf(x), scale, rate)]
        alpha = t([0.5, 1.0, 1.7, 3.0])
        for q in (D.Exponential(rate[:1]), D.Gamma(2.0, rate[:1]), D.Normal(rate[:1], 1.0)):
            value = D.kl_divergence(D.Pareto(scale[1:], alpha), q)
            out += [slopes(value.masked_fill(value == float("inf"), 0.0), scale, alpha, rate)]
        return out

    def comparable(T):
        return no_nan(program(T))

    same(comparable, 1e-5)


def test_broadcast_tensors_gives_back_what_has_the_shape():
    x = ft.ones(2, requires_grad=True)
    same_one, other = ft.broadcast_tensors(x, ft.ones(()))
    assert same_one is x and tuple(other.shape) == (2,)


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
            lambda: D.Normal("a", 1.0),
            lambda: D.Normal(0.0, 1.0).sample(2),
            lambda: D.CorrCholeskyTransform()(T.zeros(2)),
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
