"""Special functions against torch, and where torch is less exact, against scipy."""

import math

import numpy as np
import pytest
import torch
from compare import case, check_case, sample, to_numpy, to_ours

import functorch_port as ft

T = torch.tensor
inf, nan = math.inf, math.nan
f64 = torch.float64

SMOOTH = (
    "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammaln", "i0", "i0e", "i1", "i1e",
    "log1p", "log_ndtr", "logit", "ndtr", "ndtri", "psi", "round", "sinc",
)  # fmt: skip
BESSEL = [f"bessel_{kind}{order}" for kind in "jy" for order in (0, 1)]
MODIFIED = [
    f"{kind}{n}"
    for kind in ("modified_bessel_i", "modified_bessel_k", "scaled_modified_bessel_k")
    for n in (0, 1)
]
POLYNOMIALS = [
    *(f"{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in "tuvw"),
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
]  # fmt: skip

WIDE = sample(40, low=-12, high=12)
EDGES = T([0.0, -0.0, -1, 1, 0.5, 2, inf, nan, 30, -30, 1e-30, 1e30], dtype=f64)
#: where torch's derivatives are nan or inexact: at the poles of the gamma function, and at infinity
FINITE = {"digamma": EDGES[3:6], "psi": EDGES[3:6], "gammaln": EDGES[3:6], "log_ndtr": EDGES[2:6]}

# torch's series for these are only good to about 1e-5, in double precision too
loose = {"_tol": 2e-5}
cases = [
    *(case(f"torch.special.{n}", torch.cat([WIDE, FINITE.get(n, EDGES)]), _tol=1e-9) for n in SMOOTH),
    *(case(f"torch.special.{n}", torch.cat([WIDE, EDGES[:11]]), **loose) for n in (*BESSEL, *MODIFIED, "airy_ai")),
    case("torch.special.spherical_bessel_j0", torch.cat([WIDE, EDGES])),
    *(case("torch.polygamma", n, torch.cat([WIDE, T([0.0, -0.0, 0.5, 1])]), _tol=1e-9) for n in range(5)),
    case("torch.polygamma", -1, WIDE),
    case("Tensor.polygamma", WIDE, 2),
    *(case("torch.special.multigammaln", WIDE, p) for p in (1, 3)),
    *(case("torch.special.zeta", T([s], dtype=f64), WIDE, _first=True, _grad=False) for s in (2.0, 3.0, 1.5, 1, 0.5)),
    case("torch.special.zeta", 2.5, WIDE.abs()),
    case("torch.special.zeta", 4, T([0.0, -1, 2, -2.5], dtype=f64)),
    case("torch.special.zeta", T([2, 3]), 2),
    case("torch.special.xlog1py", T([0.0, 0, 1, 2], dtype=f64), T([-2.0, 1, 0, -0.5], dtype=f64)),
    case("torch.special.xlog1py", 2, WIDE.abs()),
    *(case(f"torch.special.{n}", WIDE.abs(), 2 + WIDE.abs().flip(0), _grad=False) for n in ("gammainc", "gammaincc")),
    *(case(f"torch.special.{n}", d) for n in (*SMOOTH[:-2], BESSEL[0], MODIFIED[3], "airy_ai", "spherical_bessel_j0")
      for d in (T([1, 2]), torch.ones(2, dtype=torch.complex64))
      if not d.is_complex() or n not in ("exp2", "expit", "expm1", "log1p", "sinc")),
    *(case(f"torch.special.{n}", T([0.3, 0.8], dtype=torch.float16), _grad=False)
      for n in (*SMOOTH, *BESSEL, *MODIFIED, "airy_ai")),
    *(case(f"torch.special.{n}", WIDE.float()) for n in ("i1e", "erfcx", "log_ndtr", "modified_bessel_i1")),
    *(case(f"torch.special.{n}", x) for n in ("airy_ai", "bessel_j0")
      for x in (3, sample(0, 2), sample(), sample(3, 4).T)),
]  # fmt: skip

POINTS = torch.cat([sample(12, low=-1.2, high=1.2), T([0.0, 1, -1, 0.5, 2.5, -3], dtype=f64)])
DEGREES = T([-1, 0, 1, 2, 3, 6, 7, 8, 9, 15.5, 40], dtype=f64)
polynomials = [
    *(case(f"torch.special.{n}", POINTS[:, None], DEGREES, _tol=1e-9) for n in POLYNOMIALS),  # closed forms
    *(case(f"torch.special.{n}", POINTS.float(), 4, _tol=1e-4) for n in POLYNOMIALS),
    *(case(f"torch.special.{n}", 0.5, T([2, 3])) for n in POLYNOMIALS[::3]),
    *(case(f"torch.special.{n}", T([0.5]), 600) for n in POLYNOMIALS[8:10]),
    *(case(f"torch.special.{n}", T([0.5]).half(), 2) for n in POLYNOMIALS[::3]),
    *(case(f"torch.special.{n}", sample(2), sample(3)) for n in POLYNOMIALS[::5]),
    case("torch.special.legendre_polynomial_p", sample(0), 2),
]


@pytest.mark.parametrize("case", [*cases, *polynomials], ids=str)
def test_like_torch(case):
    check_case(case)


# zeros of the functions make relative errors large: the scale of the wave is allowed for
@pytest.mark.parametrize(("name", "theirs"), [
    ("bessel_j0", "j0"), ("bessel_j1", "j1"), ("bessel_y0", "y0"), ("bessel_y1", "y1"), ("modified_bessel_k0", "k0"),
    ("modified_bessel_k1", "k1"), ("scaled_modified_bessel_k0", "k0e"), ("scaled_modified_bessel_k1", "k1e"),
    ("airy_ai", "airy"), ("erfcx", "erfcx"), ("log_ndtr", "log_ndtr"),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_exactness(name, theirs, dtype):
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(1e-3, 20, 300), np.geomspace(1e-8, 200, 60)]).astype(dtype)
    if name in ("airy_ai", "erfcx", "log_ndtr"):
        x = np.concatenate([x[x < 12], -x[x < 9]])
    right = getattr(special, theirs)(x.astype(np.float64))
    right = right[0] if theirs == "airy" else right
    ours = getattr(ft.special, name)(ft.tensor(x)).numpy()
    assert ours.dtype == dtype
    eps, wavy = np.finfo(dtype).eps, name.startswith(("bessel", "airy"))
    kept = np.abs(right) > np.finfo(dtype).tiny / eps  # smaller numbers are denormal
    x, ours, right = x[kept], ours[kept], right[kept]
    error = np.abs(ours - right) / (np.abs(right) + np.minimum(1, 1 / np.sqrt(np.abs(x))) * wavy)
    # cos(x) and exp(-x) of a rounded x: the error grows with x, and with x**1.5 in the Airy function
    assert np.max(error / (1 + np.abs(x) ** (1.5 if name == "airy_ai" else 1))) < 40 * eps


SECOND = {
    "digamma": lambda lib, x: lib.digamma(x),
    "lgamma": lambda lib, x: lib.lgamma(x),
    "polygamma": lambda lib, x: lib.polygamma(2, x),
    "i0": lambda lib, x: lib.i0(x),
    "i0e": lambda lib, x: lib.special.i0e(x),
    "i1": lambda lib, x: lib.special.i1(x),
    "i1e": lambda lib, x: lib.special.i1e(x),
    "erfcx": lambda lib, x: lib.special.erfcx(x),
    "log_ndtr": lambda lib, x: lib.special.log_ndtr(x),
    "ndtri": lambda lib, x: lib.special.ndtri(lib.sigmoid(x)),
    "zeta": lambda lib, x: lib.special.zeta(3.0, x),
    "logit": lambda lib, x: lib.logit(lib.sigmoid(x), 0.1),
    "sinc": lambda lib, x: lib.sinc(x),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_order(name):
    def run(lib, x):
        x = x.requires_grad_()
        (g,) = lib.autograd.grad(SECOND[name](lib, x).sum(), x, create_graph=True)
        (h,) = lib.autograd.grad((g**2).sum(), x)
        return to_numpy(h)

    x = sample(9, low=-3.7, high=3.9, seed=3)
    np.testing.assert_allclose(run(ft, to_ours(x)), run(torch, x.clone()), rtol=1e-8, atol=1e-10)


def test_no_derivative():
    x = ft.tensor([1.5], requires_grad=True)
    assert (
        not ft.special.bessel_j0(x).requires_grad and not ft.special.legendre_polynomial_p(x, x).requires_grad
    )
    y = ft.special.zeta(x, ft.tensor([2.0]))
    with pytest.raises(NotImplementedError, match="the derivative for 'zeta' is not implemented"):
        y.sum().backward()


def test_two_numbers():
    for lib in (torch, ft):
        for name in ("zeta", "xlogy", "chebyshev_polynomial_t"):
            with pytest.raises(
                TypeError, match=rf"{name}\(\) received an invalid combination.*got \(int, int\)"
            ):
                getattr(lib.special, name)(2, 3)


def test_names():
    skipped = {"Tensor", "torch", "common_args", "multi_dim_common"}
    assert {n for n in dir(torch.special) if n[0] != "_"} - skipped <= set(dir(ft.special))
    assert {n for n in dir(torch.fft) if n[0] != "_"} - {*skipped, "factory_common_args"} <= set(dir(ft.fft))


def _near(low, high):
    return torch.linspace(low, high, 2000)


AS_EXACT = {
    "lgamma": (torch.lgamma, [_near(0.9, 1.1), _near(1.9, 2.1), _near(-10, 10), torch.logspace(-6, 4, 2000)]),
    "digamma": (torch.digamma, [_near(1.3, 1.6), _near(-5, 5), torch.logspace(-3, 4, 2000)]),
    "erfc": (torch.erfc, [_near(-3, 9)]),
    "erfinv": (torch.erfinv, [_near(-0.9999, 0.9999)]),
    "exp2": (torch.exp2, [_near(-120, 120)]),
    "sinh": (torch.sinh, [_near(-2, 2), _near(-80, 80)]),
    "cosh": (torch.cosh, [_near(-80, 80)]),
    "polygamma1": (lambda x: torch.polygamma(1, x), [_near(0.1, 30), _near(-4.9, -0.1)]),
    "polygamma2": (lambda x: torch.polygamma(2, x), [_near(0.1, 30)]),
    "zeta": (lambda x: torch.special.zeta(x, x), [_near(1.1, 20)]),
    "igamma": (lambda x: torch.igamma(x, x * 1.1), [torch.logspace(-2, 2, 300)]),
    "igammac": (lambda x: torch.igammac(x, x * 1.5), [torch.logspace(-2, 1.5, 300)]),
}


@pytest.mark.parametrize("name", AS_EXACT)
def test_float32_is_as_exact_as_torch(name):
    """Both against float64: ours may be off by as much as PyTorch's, or two roundings."""
    function, points = AS_EXACT[name]
    ours = {"polygamma1": lambda x: ft.polygamma(1, x), "polygamma2": lambda x: ft.polygamma(2, x),
            "zeta": lambda x: ft.special.zeta(x, x), "igamma": lambda x: ft.igamma(x, x * 1.1),
            "igammac": lambda x: ft.igammac(x, x * 1.5)}.get(name) or getattr(ft, name)  # fmt: skip
    for x in points:
        exact = function(x.double()) if not name.startswith("igamma") else _exact_igamma(name, x)
        size = exact.abs().clamp_min(1e-37)
        theirs = ((function(x).double() - exact).abs() / size).nan_to_num(0.0, 0.0).max()
        mine = (
            (torch.tensor(np.asarray(ours(ft.tensor(x.numpy())))).double() - exact).abs() / size
        ).nan_to_num(0.0, 0.0)
        assert mine.max() <= max(theirs, 2.4e-7), (mine.max(), theirs, x[mine.argmax()])


def _exact_igamma(name, x):
    """In float64 of the float32 numbers that both libraries get."""
    other = x * (1.1 if name == "igamma" else 1.5)
    return getattr(torch, name)(x.double(), other.double())


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("cotangent", [0.0, 1.0, 1e-30])
def test_gradients_at_a_logarithm_of_zero(name, dtype, cotangent):
    found = []
    for library in (torch, ft):
        kind = getattr(library, dtype)
        x = library.tensor([1.0, 0.0, 2.0, 1e-3, 0.0], dtype=kind, requires_grad=True)
        y = library.tensor([0.0, 0.0, 3.0, 0.0, 2.0], dtype=kind) - float(name == "xlog1py")
        out = getattr(library.special, name)(x, y)
        found.append(library.autograd.grad(out, x, library.full((5,), cotangent, dtype=kind))[0].tolist())
    assert found[1] == pytest.approx(found[0], rel=1e-6)
