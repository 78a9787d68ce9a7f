"""Elementwise operations against torch: values, types, gradients (at edges and ties too), errors."""

import math

import numpy as np
import pytest
import torch
from compare import case, check_case, sample

import functorch_port as ft

f32, f64, bf16, f16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
i8, u8, i32, i64, b8, c64, c128 = (
    torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool, torch.complex64, torch.complex128,
)  # fmt: skip
T = torch.tensor
nan, inf = math.nan, math.inf
X, Y, Z = sample(2, 3), sample(2, 3, seed=1), sample(2, 3, seed=2)
POS = sample(2, 3, low=0.2, high=0.9)
EDGE = T([0.0, -0.0, 1.0, -1.0, 2.0, 0.5])
ODD = T([nan, inf, -inf, 0.0, -0.0, 1.5])


def least(dtype: torch.dtype) -> torch.Tensor:
    """Numbers with the least one, which has no absolute value."""
    info = torch.iinfo(dtype)
    return T([0, 1, -1, 3, 5, 96, -100, info.max, info.min, info.min + 1], dtype=dtype)


BINARY = "add sub mul div true_divide floor_divide remainder fmod maximum minimum fmax fmin atan2 pow xlogy".split()
COMPARE = "eq ne lt le gt ge".split()
LOGIC = "logical_and logical_or logical_xor".split()
BRANCHES = "acos asin atan acosh asinh atanh sqrt rsqrt log log1p".split()
BITS = "bitwise_and bitwise_or bitwise_xor".split()

binary = [
    *(case(f"torch.{n}", X.abs() + 0.1, Y) for n in BINARY),
    *(case(f"torch.{n}", sample(2, 1, 3), sample(4, 1, seed=1)) for n in BINARY if n not in ("pow", "xlogy")),
    *(case(f"torch.{n}", sample(3, dtype=f32), T(1.5, dtype=f64)) for n in BINARY if n != "pow"),
    *(case(f"torch.{n}", sample(0, 3), sample(3)) for n in BINARY),
    *(case(f"torch.{n}", X, sample(4)) for n in BINARY),
    *(
        case(f"torch.{n}", sample(5, dtype=i32) + 3, T([1, 2, 3, -2, -3], dtype=i64))
        for n in BINARY
        if n != "pow"
    ),
    *(case(f"torch.{n}", T([7, -7, 7, -7]), T([2, 2, -2, -2])) for n in BINARY if n != "pow"),
    *(case(f"torch.{n}", ODD, T([1.0, 2.0, -1.0, 0.0, 3.0, nan]), _grad=False) for n in BINARY),
    *(
        case(f"torch.{n}", sample(9, dtype=bf16, low=0.3), sample(9, dtype=bf16, low=0.3, seed=3))
        for n in BINARY
    ),
    *(case(f"torch.{n}", X, Y) for n in COMPARE + LOGIC),
    *(case(f"torch.{n}", T([1, 2, 0]), T([1.0, 2.5, 0.0])) for n in COMPARE + LOGIC),
    *(case(f"torch.{n}", ODD, ODD) for n in COMPARE + LOGIC),
    *(case(f"operator.{n}", T([1, 2, 3]), 2.5) for n in COMPARE),
    *(case(f"operator.{n}", 2, T([1, 2, 3])) for n in COMPARE),
    *(case(f"torch.{n}", T([5, 12, -7]), T([3, 10, 9])) for n in BITS),
    *(case(f"torch.{n}", T([True, False]), T([True, True])) for n in BITS),
    *(case(f"torch.{n}", T([1.0]), T([1])) for n in BITS),
    *(case(f"operator.{n}", T([5, 12]), 3) for n in ("and_", "or_", "xor", "lshift", "rshift")),
    *(case(f"operator.{n}", 6, T([1, 2])) for n in ("and_", "or_", "xor", "lshift", "rshift")),
    case("operator.and_", T([True]), 1),
    case("torch.bitwise_not", T([5, 0, -1])),
    case("operator.invert", T([True, False])),
    case("torch.bitwise_not", T([1.0])),
    case("torch.bitwise_left_shift", T([1, 2]), T([3, 70])),
    case("torch.bitwise_right_shift", T([-8, 8]), T([1, 70])),
    case("torch.gcd", T([4, 9, 0]), T([6, 6, 5])),
    case("torch.lcm", T([4, 9, 0]), T([6, 6, 5])),
    *(case(f"torch.{n}", T([-1.5 + 0.5j, -1 - 2j, 0.3 - 0.4j, 2 + 1j], dtype=c128)) for n in BRANCHES),
    case("torch.angle", T([0j, 1 + 1j, -1 + 0j, -2j])),
    case("torch.lcm", T([[4, 9, 0]], dtype=u8), T([[[6]], [[5]]], dtype=u8)),
    *(case("torch.gcd", least(d)[:, None], least(d)) for d in (i8, i32, i64)),
    case(
        "torch.lcm", least(i8)[:, None], least(i8)
    ),  # of int32, PyTorch divides by -1, which ends the process
]

numbers = [
    *(
        case(f"operator.{n}", X, s)
        for n in ("add", "sub", "mul", "truediv", "floordiv", "mod")
        for s in (2, 0.7, -1.3)
    ),
    *(
        case(f"operator.{n}", s, X)
        for n in ("add", "sub", "mul", "truediv", "floordiv", "mod")
        for s in (2, 0.7)
    ),
    *(
        case(f"operator.{n}", T([5, -5]), s)
        for n in ("add", "sub", "mul", "truediv", "floordiv", "mod")
        for s in (3, 1.5)
    ),
    *(case(f"operator.{n}", sample(4, dtype=bf16), 0.7) for n in ("mul", "truediv")),
    *(case(f"operator.{n}", T([True, False]), s) for n in ("add", "mul") for s in (2, 0.5, True)),
    *(case("operator.pow", POS, s) for s in (0, 1, 2, 3, 0.5, -1, -2, -0.5, 2.7, -1.3, True)),
    *(case("operator.pow", T([2, -3]), s) for s in (0, 2, 3, 5, 0.5, -1, 2.0)),
    *(case("operator.pow", s, X) for s in (2, 2.5)),
    case("operator.pow", 2, T([3, -1])),
    case("torch.pow", T([1, -1, 2]), T([-1, -3, -2])),
    case("torch.pow", T([2, 3]), T([2.0, 0.5])),
    case("torch.pow", T([0.0, 0.0, 2.0]), T([0.0, 1.0, 0.0])),
    case("torch.pow", T([True]), 2),
    case("torch.pow", T([True]), T([True])),
    case("torch.square", T([True, False])),
    case("torch.float_power", T([2, 3]), 2),
    case("torch.float_power", X.abs().float(), T([0.5, 1.0, 2.0])),
    case("operator.add", T([1], dtype=i8), 300),
    case("operator.sub", T([1], dtype=u8), 2),
    case("operator.eq", T([255], dtype=u8), -1),
    case("operator.sub", T(True), T(True)),
    case("operator.sub", T(True), 1),
    case("operator.neg", T(True)),
    case("operator.neg", X),
    case("operator.pos", X),
    case("torch.positive", T(True)),
    case("operator.abs", X),
    case("torch.add", X, Y, alpha=0.3),
    case("torch.sub", X, Y, alpha=2),
    case("torch.add", T([1]), T([2]), alpha=1.5),
    case("torch.add", T([1.0]), T([2.0]), alpha=True),
    case("torch.add", T([True]), T([True]), alpha=True),
    case("torch.rsub", X, 3, alpha=2),
    case("torch.rsub", X, Y),
    *(case("torch.div", X, Y, rounding_mode=m) for m in (None, "floor", "trunc", "up")),
    *(case("torch.div", T([7, -7]), T([2, 2]), rounding_mode=m) for m in (None, "floor", "trunc")),
    *(
        case("torch.div", T([7.0, -7.0, 0.0]), T([0.0, 0.0, 0.0]), rounding_mode=m)
        for m in ("floor", "trunc")
    ),
    *(case(f"torch.{n}", T([1, 2]), T([1, 0])) for n in ("floor_divide", "remainder", "fmod")),
    *(case(f"torch.{n}", T([1, 2]), 0) for n in ("floor_divide", "remainder", "fmod")),
    case("torch.div", T([1]), T([0]), rounding_mode="floor"),
    case("torch.div", T([1]), T([0])),
    case("operator.add", X, "a"),
    case("operator.add", X, None),
    case("operator.mul", X, [1]),
]

FLOATS = (
    "sin cos tan asin acos atan sinh cosh tanh asinh atanh exp exp2 expm1 log log2 log10 log1p sqrt rsqrt "
    "reciprocal square sigmoid erf erfc "
    "erfinv lgamma digamma sinc deg2rad rad2deg logit i0 abs neg sign floor ceil round trunc frac sgn angle "
    "nan_to_num positive"
).split()
# torch computes trigamma, the derivative of digamma, by a series that is good to 4e-10
LOOSE = {"digamma": 1e-9}
unary = [
    *(case(f"torch.{n}", POS, _tol=LOOSE.get(n)) for n in FLOATS),
    *(case(f"torch.{n}", POS.float(), _grad=False) for n in FLOATS),
    *(
        case(f"torch.{n}", sample(5, low=0.2, high=0.9, dtype=bf16), _grad=n in ("exp", "erf"))
        for n in FLOATS
    ),
    *(case(f"torch.{n}", T([1, 2, 3])) for n in FLOATS if n not in ("logit", "erfinv", "atanh")),
    *(
        case(f"torch.{n}", T([True, False]))
        for n in FLOATS
        if n not in ("logit", "erfinv", "atanh", "nan_to_num", "lgamma")
    ),
    *(case(f"torch.{n}", T(0.5)) for n in ("sin", "abs", "round")),
    *(case(f"torch.{n}", torch.zeros(0)) for n in ("sin", "abs", "round")),
    *(case(f"torch.{n}", ODD, _grad=False) for n in FLOATS),
    *(
        case(f"torch.{n}", EDGE)
        for n in "abs sign sgn sqrt square sinc relu tanh sigmoid floor ceil round trunc frac".split()
    ),
    *(case(f"torch.{n}", POS + 1) for n in ("acosh", "mish") if n != "mish"),
    *(
        case(f"torch.{n}", sample(3, dtype=c128))
        for n in "abs neg exp log sin cos sqrt reciprocal square sgn angle conj tanh sigmoid".split()
    ),
    case("torch.abs", T([0j, 3 + 4j])),
    case("torch.sgn", T([0j, 3 + 4j])),
    case("torch.sign", T([1j])),
    *(
        case(f"torch.{n}", ODD)
        for n in "isnan isinf isfinite isposinf isneginf signbit isreal logical_not".split()
    ),
    *(case(f"torch.{n}", T([1, 0, -3])) for n in "isnan isinf isfinite signbit logical_not".split()),
    case("torch.round", T([0.5, 1.5, 2.5, -0.5])),
    case("torch.round", T([1.2345, -17.55]), decimals=2),
    case("torch.round", T([1234.5, -1755.0]), decimals=-2),
    case("torch.round", T([25]), decimals=-1),
    case("torch.round", T([2.5 + 1j])),
    case("torch.round", T([2.5 + 1j]), decimals=1),
    *(case(f"torch.{n}", T([2.5 + 1j])) for n in ("floor", "ceil", "trunc", "frac")),
    case("torch.logit", T([0.3, 0.0, 1.0]), eps=0.1),
    case("torch.nan_to_num", ODD, nan=1.0, posinf=2.0, neginf=-2.0),
    case("torch.nan_to_num", ODD),
    case("torch.polygamma", 1, POS, _tol=1e-9),
    case("torch.polygamma", 0, POS, _tol=1e-9),
    case("torch.mvlgamma", POS + 2, 3),
    case("torch.frexp", T([1.0, 0.3, -6.0, 0.0])),
    *(case(f"torch.{n}", T([1])) for n in ("frac", "logit") if n == "frac"),
    *(
        case(f"Tensor.{n}_", POS)
        for n in "sin exp sqrt abs neg sigmoid tanh reciprocal round square clamp_min".split()
        if n != "clamp_min"
    ),
]

choosing = [
    case("torch.clamp", T([0.0, 1, 2, 3, 4]), 1, 3),
    case("torch.clamp", T([0.0, 1, 2, 3, 4]), T([1.0, 1, 2, 3, 5]), T([3.0, 3, 2, 2, 5])),
    case("torch.clamp", X, min=0.0),
    case("torch.clamp", X, max=0.5),
    case("torch.clamp", X, None, 0.5),
    case("torch.clip", X, -0.5, 0.5),
    case("torch.clamp", X, Y, Z),
    case("torch.clamp", T([1, 5]), 2),
    case("torch.clamp", T([1, 5]), 2.5),
    case("torch.clamp", T([1, 5]), T([2.5])),
    case("torch.clamp", T([True]), 0, 1),
    case("torch.clamp", X),
    case("torch.clamp", T([1.0, nan]), nan, 2.0, _grad=False),
    case("torch.clamp", X, sample(4)),
    case("torch.clamp_min", T([0.0, 1, 2]), 1),
    case("torch.clamp_max", T([0.0, 1, 2]), 1),
    case("torch.clamp_min", T([0.0, 1, 2]), T([1.0, 1, 1])),
    case("torch.clamp_max", T([0.0, 1, 2]), T([1.0])),
    case("Tensor.clamp_", X, 0, 1),
    *(case(f"torch.{n}", T([1.0, 2, 2]), T([1.0, 3, 1])) for n in ("maximum", "minimum", "fmax", "fmin")),
    *(case(f"torch.{n}", T([1.0, nan]), T([nan, nan]), _grad=False) for n in ("maximum", "fmax")),
    case("torch.where", X > 0, X, Y),
    case("torch.where", X > 0, X, 0.0),
    case("torch.where", X > 0, 1, 2),
    case("torch.where", X > 0, X.float(), Y),
    case("torch.where", X > 0, T(1), 2.5),
    case("torch.where", X > 0),
    case("torch.where", X, X, Y),
    case("torch.where", X > 0, X, sample(4)),
    case("torch.where", sample(3) > 0, X, sample(2, 1)),
    case("Tensor.where", X, Y > 0, 0.0),
    *(case("torch.lerp", X, Y, w) for w in (0.3, 0.7, 1.0)),
    case("torch.lerp", X, Y, POS),
    case("torch.lerp", sample(4, dtype=bf16), sample(4, dtype=bf16, seed=1), 0.3),
    case("torch.lerp", T([1]), T([2]), 0.5),
    case("torch.lerp", T([1.0]), T([2.0]), T([0.5], dtype=f64)),
    case("torch.lerp", T([1.0]), T([2.0], dtype=f64), 0.5),
    case("torch.addcmul", X, Y, Z, value=0.5),
    case("torch.addcmul", X, sample(3), Z),
    case("torch.addcmul", T([1]), T([2]), T([3]), value=2),
    case("torch.addcmul", T([1]), T([2]), T([3.0])),
    case("torch.addcdiv", X, Y, POS, value=0.5),
    case("torch.addcdiv", T([1]), T([2]), T([3])),
    case("torch.addcdiv", T([1]), T([2.0]), T([3]), _grad=False),
    case("Tensor.addcmul_", X, Y, Z, value=-1),
    # the number-first spelling of old code
    case("torch.add", X, 0.5, Y),
    case("Tensor.add_", X, 2, Y),
    case("Tensor.sub_", X, 2, Y),
    case("Tensor.addcmul_", X, 0.5, Y, Z),
    case("Tensor.addcdiv_", X, -1, Y, POS),
    case("torch.heaviside", EDGE, T([0.5])),
    case("torch.heaviside", EDGE, T([1])),
    case("torch.hypot", X, Y),
    case("torch.hypot", T([1]), T([2])),
    case("torch.atan2", T([0.0, 1.0]), T([0.0, 2.0])),
    case("torch.logaddexp", X, Y),
    case("torch.logaddexp2", X, Y),
    case("torch.logaddexp", T([1]), T([1])),
    case("torch.logaddexp", T([inf, -inf]), T([inf, -inf]), _grad=False),
    case("torch.xlogy", T([0.0, 0, 2, 1]), T([0.0, 1, 3, 2])),
    case("torch.xlogy", T([0.0, 1.0]), T([nan, nan]), _grad=False),
    case("torch.xlogy", T([1]), 2),
    case("torch.xlogy", 2, POS),
    case("torch.ldexp", X, T([1.0, 2.0, -3.0])),
    case(
        "torch.ldexp", X, T([1, 2, -3]), _grad=False
    ),  # PyTorch takes the integer 2**-3 as its slope, which is 0
    case("torch.ldexp", T([1, 2, 3], dtype=i8), T([7], dtype=u8)),
    case("torch.copysign", EDGE, T([-1.0, 1, -1, 1, -0.0, 0.0])),
    case("torch.copysign", T([1]), -1.0),
    case("torch.nextafter", X, Y, _grad=False),
    case("torch.isclose", X, X + 1e-9),
    case("torch.isclose", ODD, ODD, equal_nan=True),
    case("torch.isclose", X, X * 1.1, rtol=0.2),
    case("torch.isclose", T([1.0]), T([1])),
    case("torch.allclose", X, X + 1e-9),
    case("torch.allclose", X, Y),
    case("torch.equal", X, X),
    case("torch.equal", X, Y),
    case("torch.equal", X, sample(3)),
    case("torch.polar", POS, X),
    case("torch.complex", X, Y),
    case("torch.complex", X, Y.float()),
]


@pytest.mark.parametrize("case", [*binary, *numbers, *unary, *choosing], ids=str)
def test_like_torch(case):
    check_case(case)


@pytest.mark.parametrize("size", [1, 5000])  # numpy's loops, and XLA's, which take subnormal numbers for 0
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_frexp_and_ldexp_of_the_largest_and_the_smallest_numbers(dtype, size):
    def results(lib):
        kind = getattr(lib, dtype)
        limits = lib.finfo(kind)
        numbers = [
            limits.max,
            -limits.max / 3,
            limits.tiny,
            limits.tiny / 3,
            -limits.tiny / 64,
            0.0,
            -0.0,
            inf,
            nan,
        ]
        x = lib.tensor(numbers * size, dtype=kind)
        mantissa, exponent = lib.frexp(x)
        normal = lib.tensor([limits.max, -limits.max, limits.tiny, 3e-5, 0.0] * size, dtype=kind)
        scaled = lib.ldexp(normal, lib.tensor([-9, -5, 23, 7, 2000] * size))
        return [
            y.double().numpy() if y.is_floating_point() else y.numpy() for y in (mantissa, exponent, scaled)
        ]

    for got, wanted in zip(results(ft), results(torch), strict=True):
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


def test_plus_is_the_tensor_itself_and_not_refuses_floats() -> None:
    for lib in (ft, torch):
        x = lib.ones(2)
        assert +x is x and lib.positive(x) is x
        with pytest.raises(
            TypeError, match=r"~ \(operator.invert\) is only implemented on integer and Boolean"
        ):
            ~x


@pytest.mark.parametrize("size", [3, 5000])  # numpy's loops, and XLA's, which make a / (b * b) of a / b / b
def test_gradient_of_a_quotient_of_small_numbers(size):
    a, b, t = ft.full((size,), 1e-35), ft.full((size,), 1e-35, requires_grad=True), ft.full((size,), 1e-3)

    def slope(t):
        return ft.autograd.grad(((a / b) * t).sum(), b)[0]

    for got in (slope(t), ft.compile(slope)(t)):
        assert got.tolist() == pytest.approx([-1e32] * size, rel=1e-5)


DIVISIONS = {
    "by a number": lambda T, x: x / 3,
    "by a 0-dim tensor": lambda T, x: x / T.tensor(7.0, dtype=x.dtype),
    "by rows": lambda T, x: (lambda y: y / y[:, :1])(x.reshape(-1, 5) + 1),
    "by columns": lambda T, x: (lambda y: y / y[0])(x.reshape(-1, 5) + 1),
    "in place": lambda T, x: x.clone().div_(0.1),
    "of a number": lambda T, x: 7 / (x + 1),
    "whole": lambda T, x: (x / 49).floor(),
    "floor": lambda T, x: T.div(x, 49, rounding_mode="floor"),
    "mean": lambda T, x: x.reshape(-1, 2, 5)[:, :, 0].double().mean(1),
    "pooling": lambda T, x: T.nn.functional.avg_pool1d(x[None, None], 5),
}


@pytest.mark.parametrize("size", [20, 5000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", DIVISIONS)
def test_a_division_is_rounded_once(name, dtype, size):
    """To the last bit: XLA alone makes products with reciprocals."""
    fn = DIVISIONS[name]
    wanted = fn(torch, torch.arange(size, dtype=getattr(torch, dtype))).numpy()
    x = ft.arange(size, dtype=getattr(ft, dtype))
    for got in (fn(ft, x), ft.compile(lambda x: fn(ft, x))(x)):
        np.testing.assert_array_equal(got.numpy(), wanted)


def test_gradients_of_a_division_by_what_is_broadcast():
    def slopes(T, compiled=False):
        x = T.arange(6000, dtype=T.float64).reshape(-1, 3).requires_grad_()
        y = T.tensor([3.0, 7.0, 49.0], dtype=T.float64, requires_grad=True)

        def grads():
            (dx,) = T.autograd.grad((x / y).sum(), x, create_graph=True)
            return [dx.detach(), T.autograd.grad((dx * x).sum(), y)[0]]

        return (ft.compile(grads) if compiled else grads)()

    wanted = slopes(torch)
    for got in (slopes(ft), slopes(ft, compiled=True)):
        np.testing.assert_array_equal(got[0].numpy(), wanted[0].numpy())
        np.testing.assert_allclose(got[1].numpy(), wanted[1].numpy(), rtol=1e-12)
    seconds = ft.func.vmap(ft.func.jacfwd(ft.func.jacrev(lambda a: a / ft.tensor([3.0, 7.0]) / a.sum())))(
        ft.ones(4, 2)
    )
    again = torch.func.vmap(torch.func.jacrev(torch.func.jacrev(lambda a: a / T([3.0, 7.0]) / a.sum())))(
        torch.ones(4, 2)
    )
    np.testing.assert_allclose(seconds.numpy(), again.numpy(), rtol=1e-5, atol=1e-7)
