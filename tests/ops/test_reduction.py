"""Reductions, scans, norms and order statistics against torch."""

import math

import numpy as np
import pytest
import torch
from compare import case, check_case, sample

import functorch_port as ft

f32, f64, bf16, f16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
T = torch.tensor
nan, inf = math.nan, math.inf
X = sample(3, 4)
CUBE = sample(2, 3, 4)
TIES = T([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
NAN = T([[1.0, nan, 3.0], [2.0, 5.0, 0.0]])
INT = T([[3, 1, 2], [5, 5, 0]])

SUMS = "sum mean prod nansum nanmean".split()
DIMS = [{}, {"dim": 0}, {"dim": -1}, {"dim": 1, "keepdim": True}]
MULTI = [{"dim": (0, 2)}, {"dim": (-1, 0), "keepdim": True}, {"dim": ()}]

sums = [
    *(case(f"torch.{n}", X, **k) for n in SUMS for k in DIMS),
    *(case(f"torch.{n}", CUBE, **k) for n in SUMS if n != "prod" for k in MULTI),
    *(case(f"torch.{n}", INT) for n in SUMS),
    *(case(f"torch.{n}", T([True, False])) for n in SUMS),
    *(case(f"torch.{n}", T([1, 2], dtype=torch.int8)) for n in SUMS),
    *(case(f"torch.{n}", NAN, dim=1) for n in SUMS),
    *(case(f"torch.{n}", torch.zeros(0, 3)) for n in SUMS),
    *(case(f"torch.{n}", torch.zeros(0, 3), dim=0) for n in SUMS),
    *(case(f"torch.{n}", T(2.0)) for n in SUMS),
    *(case(f"torch.{n}", T(2.0), dim=0) for n in SUMS),
    *(case(f"torch.{n}", X, dim=2) for n in SUMS),
    *(case(f"torch.{n}", X, dim=(0, 0)) for n in ("sum", "mean")),
    # torch rounds every step of a bfloat16 product, we round once
    *(case(f"torch.{n}", sample(300, dtype=bf16, low=0.9, high=1.1)) for n in SUMS if n != "prod"),
    *(case(f"torch.{n}", sample(300, dtype=f16, low=0.9, high=1.1)) for n in ("sum", "mean")),
    *(case(f"torch.{n}", X.float(), dtype=f64) for n in SUMS),
    case("torch.sum", INT, dtype=torch.int32),
    *(
        case(f"torch.{n}", T([300.0, -3.7, 2.5, -1.5]), *a, dtype=d, _grad=False)
        for n, a in (("sum", ()), ("prod", ()), ("nansum", ()), ("cumsum", (0,)), ("cumprod", (0,)))
        for d in (torch.uint8, torch.int8, torch.int32, torch.int64)
    ),
    case("torch.sum", T([1e20, 1.0]), dtype=torch.int64, _grad=False),
    case("torch.mean", INT, dtype=f64),
    case("torch.mean", X, dtype=torch.int64),
    case("Tensor.sum", X, 0, True),
    case("Tensor.sum", X, axis=1, keepdims=True),
    case("torch.sum", sample(2, 2, dtype=torch.complex128)),
    case("torch.prod", T([2.0, 0.0, 3.0])),
    case("torch.prod", T([2.0, 0.0, 0.0])),
    case("torch.prod", T([[2.0, 0.0], [0.0, 0.0]]), dim=1),
    case("torch.count_nonzero", T([[0, 1], [2, 0]])),
    case("torch.count_nonzero", X, dim=0),
    case("torch.count_nonzero", CUBE, dim=(0, 1)),
]

VARS = "var std var_mean std_mean".split()
variance = [
    *(
        case(f"torch.{n}", X, **k)
        for n in VARS
        for k in (*DIMS, {"unbiased": False}, {"correction": 0}, {"dim": 0, "correction": 2})
    ),
    *(case(f"torch.{n}", X, False) for n in VARS),
    *(case(f"torch.{n}", X, 0, False) for n in VARS),
    *(case(f"torch.{n}", X, 1, True, True) for n in VARS),
    *(case(f"torch.{n}", CUBE, dim=(0, 2)) for n in VARS),
    *(case(f"torch.{n}", INT) for n in VARS),
    *(case(f"torch.{n}", sample(50, dtype=bf16)) for n in VARS),
    *(case(f"torch.{n}", sample(5, dtype=torch.complex128), _grad=False) for n in ("var", "std")),
    *(case(f"torch.{n}", T([1.0, 1.0, 1.0])) for n in VARS),
    *(case(f"torch.{n}", T([1.0]), _grad=False) for n in VARS),
    *(case(f"torch.{n}", X.float() + 10, _tol=1e-5) for n in VARS),
]

extrema = [
    *(
        case(f"torch.{n}", x)
        for n in ("max", "min", "amax", "amin", "aminmax", "argmax", "argmin")
        for x in (X, TIES, INT, T(2.0))
    ),
    *(
        case(f"torch.{n}", NAN, _grad=False)
        for n in ("max", "min", "amax", "amin", "aminmax", "argmax", "argmin")
    ),
    *(
        case(f"torch.{n}", x, 0)
        for n in ("max", "min", "amax", "amin", "argmax", "argmin")
        for x in (X, TIES, NAN, INT, T(2.0))
        if x is not NAN or n[0] != "a"
    ),
    *(
        case(f"torch.{n}", TIES, dim=-1, keepdim=True)
        for n in ("max", "min", "amax", "amin", "aminmax", "argmax", "argmin")
    ),
    *(case(f"torch.{n}", T([True, False])) for n in ("max", "min", "amax", "amin", "argmax")),
    *(case(f"torch.{n}", T([True, False]), 0) for n in ("max", "min")),
    *(
        case(f"torch.{n}", torch.zeros(0))
        for n in ("max", "min", "amax", "amin", "argmax", "argmin", "aminmax")
    ),
    *(case(f"torch.{n}", torch.zeros(2, 0), 1) for n in ("max", "min", "amax", "argmax")),
    *(case(f"torch.{n}", torch.zeros(0, 2), 1) for n in ("max", "min", "amax", "argmax")),
    *(case(f"torch.{n}", X, 5) for n in ("max", "amax", "argmax")),
    *(case(f"torch.{n}", CUBE, (0, 2)) for n in ("amax", "amin")),
    *(case(f"torch.{n}", X, sample(3, 4, seed=1)) for n in ("max", "min")),
    case("torch.max", X, other=sample(4)),
    case("Tensor.max", X, 1),
    case("Tensor.max", X, dim=1, keepdim=True),
    case("Tensor.argmax", X, 1, True),
    case("torch.argmax", X, keepdim=True),
    case("torch.aminmax", X, dim=1),
    *(
        case(f"torch.{n}", x, **k)
        for n in ("all", "any")
        for x in (X > 0, X, INT)
        for k in (*DIMS, {"dim": (0, 1)})
    ),
    case("torch.all", T([1, 0], dtype=torch.uint8)),
    case("torch.any", T([1, 0], dtype=torch.uint8), dim=0),
    case("torch.all", torch.zeros(0)),
    case("torch.any", torch.zeros(0)),
]

order = [
    *(
        case(f"torch.{n}", x)
        for n in ("median", "nanmedian")
        for x in (X, TIES, NAN, INT, T(2.0), torch.zeros(0))
    ),
    *(case(f"torch.{n}", x, 0) for n in ("median", "nanmedian") for x in (X, NAN, INT, T(2.0))),
    *(case(f"torch.{n}", X, -1, True) for n in ("median", "nanmedian", "mode")),
    case("torch.median", T([1.0, 1, 1, 1]), 0),
    case("torch.median", torch.zeros(2, 0), 1),
    case("torch.mode", T([1, 2, 2, 3, 3])),
    case("torch.mode", T([[3.0, 1, 1], [2, 5, 5]]), 1),
    case("torch.mode", T([[3.0, 1, 1], [2, 5, 5]]), 0),
    case("torch.mode", T(1.0)),
    case("torch.mode", torch.ones(0)),
    case("torch.mode", torch.ones(2, 0), 0),
    case("torch.quantile", X, 1.5),
    case("torch.nanquantile", X, T([1.5], dtype=f64)),
    *(case(f"torch.{n}", X, q) for n in ("quantile", "nanquantile") for q in (0.0, 0.3, 1.0)),
    *(
        case("torch.quantile", X, 0.35, dim=1, interpolation=i)
        for i in ("linear", "lower", "higher", "midpoint", "nearest", "best")
    ),
    case("torch.quantile", X, T([0.1, 0.5], dtype=f64), dim=0, keepdim=True),
    case("torch.quantile", X, T([0.1, 0.5], dtype=f64), dim=-1),
    case("torch.quantile", X, T([0.1, 0.5], dtype=f64)),
    case("torch.quantile", X, 0.5, keepdim=True),
    case("torch.quantile", NAN, 0.5, dim=1, _grad=False),
    case("torch.nanquantile", NAN, 0.5, dim=1),
    case("torch.quantile", X, 1.5, _text="any"),
    case("torch.quantile", INT, 0.5),
    case("torch.quantile", X, T([0.5], dtype=f32)),
]

norms = [
    *(case("torch.norm", X, p) for p in (1, 2, 3, 1.5, 0.5, 0, inf, -inf, -1, "fro", "nuc")),
    *(case("torch.norm", X, p, 1) for p in (1, 2, 3, 1.5, 0, inf, "fro")),
    *(case("torch.norm", T([0.0, 0.0]), p) for p in (1, 2, 3, 1.5, inf)),
    *(case("torch.norm", T([2.0, -2.0, 1.0, 0.0]), p) for p in (1, 2, 3, 1.5, 0.5, inf, -inf)),
    case("torch.norm", INT),
    case("torch.norm", X, dtype=f32),
    case("torch.norm", X, "best"),
    case("Tensor.norm", X, p=2, dim=0, keepdim=True),
    case("Tensor.norm", CUBE, 2, (0, 1)),
    case("torch.norm", sample(200, dtype=bf16)),
    case("torch.linalg.vector_norm", CUBE, 3, dim=(0, 1), keepdim=True),
    case("torch.linalg.vector_norm", INT),
    case("torch.linalg.vector_norm", sample(3, dtype=torch.complex128)),
    case("torch.dist", X, X + 1, 3),
    case("torch.dist", X, X),
    case("torch.renorm", X * 3, 2, 0, 1.0),
    case("torch.logsumexp", X, 0),
    case("torch.logsumexp", X, (0, 1), True),
    case("torch.logsumexp", T([[0.0, -inf], [1.0, 1.0]]), 1),
    case("torch.logsumexp", T([-inf, -inf]), 0, _grad=False),
    case("torch.logsumexp", T([inf, 0.0]), 0, _grad=False),
    case("torch.logsumexp", INT, 0),
    case("torch.logsumexp", X.float() + 100, 1, _tol=2e-5),  # torch rounds x - logsumexp(x) at 100,
]

scans = [
    *(
        case(f"torch.{n}", X, d)
        for n in ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin")
        for d in (0, -1)
    ),
    *(case(f"torch.{n}", T(2.0), 0) for n in ("cumsum", "cumprod", "logcumsumexp", "cummax")),
    *(case(f"torch.{n}", torch.zeros(0, 2), 0) for n in ("cumsum", "cumprod")),
    *(case(f"torch.{n}", T([1, 2, 3], dtype=torch.int8), 0) for n in ("cumsum", "cumprod", "cummax")),
    *(case(f"torch.{n}", X, 2) for n in ("cumsum", "cummax")),
    *(case(f"torch.{n}", sample(300, dtype=bf16, low=0.99, high=1.01), 0) for n in ("cumsum", "cumprod")),
    case("torch.cumsum", X.float(), 0, dtype=f64),
    case("torch.cumprod", T([2.0, 0, 3, 0, 1]), 0),
    case("torch.cummax", T([1.0, 1, 3, 3, 2]), 0),
    case("torch.cummin", T([1.0, 1, 3, 3, 2]), 0),
    case("torch.cummax", T([1.0, nan, 3, nan, 2]), 0, _grad=False),
    case("Tensor.cumsum_", X, 0),
    case("torch.diff", X),
    case("torch.diff", X, 2, 0),
    case("torch.diff", X, prepend=sample(3, 1), append=sample(3, 2)),
    case("torch.diff", T([True, False])),
    case("torch.diff", X, dim=0, append=sample(4)),
    case("torch.diff", X, dim=0, prepend=sample(1, 3)),
    case("torch.trapezoid", X),
    case("torch.trapezoid", X, sample(3)),
    case("torch.cumulative_trapezoid", X, sample(3)),
    case("torch.trapezoid", sample(2, 3, 4), X),
    case("torch.trapezoid", sample(2, 3, 4), X, dim=1),
    case("torch.cumulative_trapezoid", sample(2, 3, 4), X, dim=1),
    case("torch.trapezoid", sample(0), _grad=False),
    case("torch.trapezoid", X, dx=0.5),
    case("torch.trapezoid", X, T([0.0, 1, 3, 4], dtype=f64)),
]


@pytest.mark.parametrize("case", [*sums, *variance, *extrema, *order, *norms, *scans], ids=str)
def test_like_torch(case):
    check_case(case)


@pytest.mark.parametrize("shape", [(50, 16, 20), (16_000,), (7,)])
@pytest.mark.parametrize("name", ["max", "min", "amax", "amin", "aminmax"])
def test_nan_in_large_arrays(name, shape):
    x = np.ones(shape, np.float32)
    x.flat[5] = np.nan
    for dim in ((), (0,)):
        theirs, ours = (
            getattr(lib, name)(lib.tensor(x), **({"dim": dim[0]} if dim else {})) for lib in (torch, ft)
        )
        pairs = zip(theirs, ours, strict=True) if isinstance(theirs, tuple) else [(theirs, ours)]
        for a, b in pairs:
            np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("dim", [None, 0, 1, (0, 2)])
def test_equal_numbers_have_no_variance(name, dim):
    """Not even by rounding: the standard deviation's gradient is 0 there, and not huge."""
    values = np.random.default_rng(0).standard_normal((1, 1, 1)).repeat(3, 0).repeat(7, 1).repeat(2, 2)
    for dtype in (np.float32, np.float64):
        results = []
        for lib in (torch, ft):
            x = lib.tensor(values.astype(dtype), requires_grad=True)
            y = getattr(x, name)(dim, correction=0)
            y.sum().backward()
            results.append((y.detach().numpy(), x.grad.numpy()))
        for theirs, ours in zip(*results, strict=True):
            np.testing.assert_array_equal(theirs, 0)
            np.testing.assert_array_equal(ours, 0)
