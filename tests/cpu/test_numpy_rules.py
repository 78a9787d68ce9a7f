"""Each primitive of JAX written in numpy: the numbers of XLA, at several sizes by one trace with symbols."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from functorch_port._array import tracing
from functorch_port._base.quiet import quiet
from functorch_port._cpu import numpy_programs as host
from functorch_port._cpu.numpy_programs import packed
from functorch_port._cpu.numpy_programs.helpers import summed_rows
from functorch_port._tensor.family import Family

pytestmark = pytest.mark.cpu

F = [
    np.nan,
    np.inf,
    -np.inf,
    -0.0,
    0.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    0.49999997,
    1.0,
    -1.0,
    -3.0,
    3e9,
    -3e9,
    1e20,
    300.0,
]


def compared(fn: Any, *calls: Sequence[Any], rtol: float = 3e-6, atol: float = 1e-6) -> None:
    """Compare ``fn`` through the writer with its compiled form, for several lists of arguments, all of one family.

    ``fn`` may be a dict of functions, by their names.
    """
    names = list(fn) if isinstance(fn, dict) else [""]
    all_of = (lambda *args: tuple([f(*args) for f in fn.values()])) if isinstance(fn, dict) else fn
    plan = SimpleNamespace(family=Family(lambda numbers: all_of), numbers=())
    for args in calls:
        found = host.bound(plan, args)
        if found is None:
            assert not isinstance(fn, dict), [name for name in names if _is_missing(fn[name], args)]
            raise AssertionError("it is not written in numpy")
        ours = quiet.run(found.run, *args)
        same_again(plan, args, ours)
        with tracing.x64():
            theirs = jax.jit(all_of)(*args)
        assert isinstance(theirs, tuple) == isinstance(ours, tuple)
        ours, theirs = ours if isinstance(ours, tuple) else (ours,), jax.tree.leaves(theirs)
        for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            b, name = np.asarray(b), names[k] if len(names) == len(ours) else str(k)
            assert (a.dtype, a.shape) == (b.dtype, b.shape), name
            loose = max(rtol, 0.01 * (a.dtype.itemsize == 2 and a.dtype.kind in "fV"))
            if a.dtype == ml_dtypes.bfloat16:
                a, b = a.astype(np.float32), b.astype(np.float32)
            np.testing.assert_allclose(a, b, loose, max(atol, loose / 10), err_msg=name)
    if len(calls) > 2:
        known = next(iter(plan.family._known.values()))
        assert known.traces[-1].symbols, "sizes are no symbols"


def same_again(plan: Any, args: Sequence[Any], given: Any) -> None:
    """A program that was written to the disk and read is the same."""
    traced, sizes = plan.family.find(args, ())
    again = packed.unpack(marshal.loads(marshal.dumps(packed.pack(traced.backend))))
    assert again.facts(*sizes) == traced.backend.facts(*sizes)
    assert bits(quiet.run(again.run, *sizes, *args)) == bits(given)


def bits(given: Any) -> list[Any]:
    return [(x.shape, x.dtype, x.tobytes()) for x in (given if isinstance(given, tuple) else (given,))]


def _is_missing(fn: Callable[..., Any], args: Sequence[Any]) -> bool:
    return host.bound(SimpleNamespace(family=Family(lambda numbers: fn), numbers=()), args) is None


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    x = np.random.default_rng(sum(shape)).standard_normal(shape) * 3
    return x.astype(dtype) if np.dtype(dtype).kind != "c" else (x + 1j * x[::-1] - 0.5j).astype(dtype)


def special(n: int, dtype: Any = np.float32) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.resize(np.array(F), n).astype(dtype)


def integers(n: int, dtype: Any) -> np.ndarray:
    info = np.iinfo(dtype)
    values = [0, 1, 2, 3, 5, 7, 31, 100, info.max, info.max - 1, info.min, info.min + 1]
    if info.min:
        values += [-1, -2, -7, -100]
    return np.resize(np.array(values, dtype), n)


SIZES = 18, 19, 25
KINDS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("old", ["float32", "float64", "bfloat16", "float16", "int8", "int64", "uint64"])
def test_conversions(old: str) -> None:
    kinds = ["bool", *KINDS, "float16", "bfloat16", "float32", "float64", "complex64"]
    make = integers if "int" in old else special
    compared(
        {new: lambda x, new=new: lax.convert_element_type(x, jnp.dtype(new)) for new in kinds},
        *[[make(n, jnp.dtype(old))] for n in SIZES],
    )


@pytest.mark.parametrize("kind", KINDS)
def test_integers_in_pairs(kind: str) -> None:
    fns = [lax.div, lax.rem, lax.shift_left, lax.shift_right_logical, lax.max, lax.mul, lax.sub]
    fns += [lax.shift_right_arithmetic] * (kind[0] == "i")
    pairs = [np.meshgrid(integers(n, kind), integers(n, kind)) for n in (14, 15, 16)]
    compared({fn.__name__: fn for fn in fns}, *[[a.reshape(-1), b.reshape(-1)] for a, b in pairs])


OF_INTEGERS: dict[str, Callable[..., Any]] = {
    "not": lax.bitwise_not,
    "clz": lax.clz,
    "population_count": lax.population_count,
    "sign": lax.sign,
    "neg": lax.neg,
    "power 5": lambda x: lax.integer_pow(x, 5),
    "power 0": lambda x: lax.integer_pow(x, 0),
    "power 2": lambda x: lax.integer_pow(x, 2),
    "sum": lambda x: x.sum(),
    "sort": jnp.sort,
    "max": lambda x: x.max(),
    "xor": lambda x: lax.reduce(x, x.dtype.type(0), lax.bitwise_xor, (0,)),
    "or": lambda x: lax.reduce(x, x.dtype.type(0), lax.bitwise_or, (0,)),
    "and": lambda x: lax.reduce(x, np.invert(x.dtype.type(0)), lax.bitwise_and, (0,)),
    "dot": lambda x: lax.dot_general(x, x, (((0,), (0,)), ((), ())), preferred_element_type=np.int64),
    "outer": lambda x: x[:, None] @ x[None],
    "cumsum": jnp.cumsum,
    "cummax": lambda x: lax.cummax(x, reverse=True),
    "top_k": lambda x: lax.top_k(x, 2)[1],
    "choice": lambda x: lax.select_n((x % x.dtype.type(3)).astype(np.int32), x, x + 1, x - 1),
    "no elements": lambda x: x[:0].sum() + jnp.max(x[:0], initial=5),
}


@pytest.mark.parametrize("kind", KINDS)
def test_integers(kind: str) -> None:
    compared(OF_INTEGERS, *[[integers(n, kind)] for n in SIZES])


OF_FLOATS: dict[str, Callable[..., Any]] = {
    "round": lax.round,
    "round to even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "exp2": lax.exp2,
    "cbrt": lax.cbrt,
    "erfc": lax.erfc,
    "sign": lax.sign,
    "floor": lax.floor,
    "neg": lax.neg,
    "abs": lax.abs,
    "is_finite": lax.is_finite,
    "logistic": lax.logistic,
    "exp": lax.exp,
    "tanh": lax.tanh,
    "sqrt": lax.sqrt,
    "square": lax.square,
    **{f"power {k}": lambda x, k=k: lax.integer_pow(x, k) for k in (-3, -2, -1, 0, 1, 2, 3, 4, 7)},
    "as bfloat16": lambda x: lax.reduce_precision(x, 8, 7),
    "as float16": lambda x: lax.reduce_precision(x, 5, 10),
    "argmax": lambda x: lax.argmax(x, 0, np.int32),
    "argmin": lambda x: lax.argmin(jnp.where(x == x, x, 0), 0, np.int32),
    "maximum": lambda x: lax.max(x, x[::-1]),
    "rem": lambda x: lax.rem(x, x[::-1]),
    "atan2": lambda x: lax.atan2(x, x[::-1]),
    "clamp": lambda x: lax.clamp(x.dtype.type(-1), x, x.dtype.type(2)),
    "div": lambda x: x / x[::-1],
    "compare": lambda x: x > 0.5,
    "masked": lambda x: jnp.where(x > 0, x, 0),
    "masked by -0": lambda x: jnp.where(x > 0, x, -0.0),
    "put": lambda x: jnp.where(x > 0, 1, x),
    "pad": lambda x: jnp.pad(x, (2, 3), constant_values=7),
    "cummax": lax.cummax,
    "cummin": lambda x: lax.cummin(x, reverse=True),
    "max": lambda x: x.max(),
    "min": lambda x: jnp.where(x == x, x, 0).min(),
    "sum": lambda x: jnp.where(abs(x) < 1e3, x, 0).sum(),
    "stack": lambda x: jnp.stack([x, x]),
    "sort": lax.sort,
    "argsort": jnp.argsort,
    "top_k": lambda x: lax.top_k(x, 2)[0],
    "indices of top_k": lambda x: lax.top_k(x, 2)[1],
    "cumsum": lambda x: lax.cumsum(jnp.where(abs(x) < 1e3, x, 0), reverse=True),
    "bits": lambda x: lax.bitcast_convert_type(x, np.uint16 if x.dtype.itemsize == 2 else np.uint32),
}


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
def test_floats(kind: str) -> None:
    compared(OF_FLOATS, *[[special(n, jnp.dtype(kind))] for n in SIZES])
    compared({"nextafter": lambda x: lax.nextafter(x, x[::-1])}, [special(18)])
    if not kind.endswith("16"):
        fewer = lambda x: lax.reduce_precision(x, jnp.finfo(x.dtype).nexp, 6)
        compared({"fewer bits": fewer}, *[[special(n, jnp.dtype(kind))] for n in SIZES])


def test_special_functions() -> None:
    x = np.concatenate([[np.nan, np.inf, 1e-3, 1e3], np.linspace(0.1, 20.0, 21)])
    for dtype in (np.float32, np.float64):
        compared(
            {
                "lgamma": lambda x: lax.lgamma(x),
                "lgamma below 0": lambda x: lax.lgamma(-x),
                "digamma": lambda x: lax.digamma(x),
                "digamma below 0": lambda x: lax.digamma(-x - 0.05),
                "erf_inv": lambda x: lax.erf_inv(jnp.sin(x)),
                "igamma": lambda x: lax.igamma(lax.min(x, x.dtype.type(1e4)), x[::-1]),
                "igammac": lambda x: lax.igammac(lax.min(x, x.dtype.type(1e4)), x[::-1]),
                "i0e": lax.bessel_i0e,
                "i1e": lambda x: lax.bessel_i1e(-x),
                "betainc": lambda x: lax.betainc(
                    lax.min(x, x.dtype.type(1e2)), lax.min(x[::-1], x.dtype.type(1e2)), lax.logistic(x)
                ),
                "zeta": lambda x: lax.zeta(lax.min(x + 1, x.dtype.type(99)), x[::-1] % 9 + 1),
                "polygamma": lambda x: lax.polygamma(jnp.floor(lax.rem(x, x.dtype.type(3))), x + 1),
            },
            *[[x[:n].astype(dtype)] for n in (25, 24, 23)],
            rtol=2e-4 if dtype == np.float32 else 1e-9,
            atol=1e-5 if dtype == np.float32 else 1e-10,
        )


@pytest.mark.parametrize("kind", ["complex64", "complex128"])
def test_complex_numbers(kind: str) -> None:
    names = "abs conj real imag neg exp log sin cos tan sinh cosh tanh sqrt rsqrt sign square log1p expm1 logistic"
    fns = {name: getattr(lax, name) for name in names.split()}
    fns |= {
        "mul": lambda z: z * z[::-1],
        "div": lambda z: z / z[::-1],
        "pow": lambda z: z ** z[::-1],
        "complex": lambda z: lax.complex(z.real, z.real + 1),
        "eq": lambda z: (z == z[::-1]) | (z != z),
        "sum": lambda z: z.sum(),
        "prod": lambda z: z.prod(),
        "cumsum": jnp.cumsum,
        "product": lambda z: z[:, None] @ z[None],
        "masked": lambda z: jnp.where(z.real > 0, z, 0),
        "power": lambda z: lax.integer_pow(z, -3),
        "fft": lambda z: lax.fft(z, "FFT", (z.shape[0],)),
        "ifft": lambda z: lax.fft(z, "IFFT", (z.shape[0],)),
        "rfft": lambda z: lax.fft(z.real, "RFFT", (z.shape[0],)),
        "irfft": lambda z: lax.fft(z, "IRFFT", (2 * z.shape[0] - 2,)),
        "astype": lambda z: z.astype(bool),
        "sort": lax.sort,
    }
    compared(fns, *[[floats(n, dtype=kind)] for n in (6, 9, 12)], rtol=2e-5, atol=2e-5)


def _at(n: int, k: int, shape: tuple[int, ...], dtype: Any = np.int32) -> np.ndarray:
    """Indices, some of them out of bounds."""
    return np.random.default_rng(n).integers(-2, n + 2, (*shape, k)).astype(dtype)


MODES = [lax.GatherScatterMode.CLIP, lax.GatherScatterMode.FILL_OR_DROP]


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_gathers(mode: Any, dtype: str) -> None:
    def of(d: Any, extent: Callable[[Any], Any]) -> Callable[..., Any]:
        return lambda x, one, two: lax.gather(
            x, two if len(d.start_index_map) == 2 else one, d, extent(x), mode=mode
        )

    dims = lax.GatherDimensionNumbers
    fns = {
        "rows": of(dims((1, 2), (0,), (0,)), lambda x: (1, *x.shape[1:])),
        "columns": of(dims((0, 1), (2,), (2,)), lambda x: (*x.shape[:2], 1)),
        "elements": of(dims((1,), (0, 1), (0, 1)), lambda x: (1, 1, x.shape[2])),
        "elements of the others": of(dims((0,), (0, 2), (2, 0)), lambda x: (1, x.shape[1], 1)),
        "blocks": of(dims((1, 2, 3), (), (0, 2)), lambda x: (2, x.shape[1], 3)),
        "blocks first": of(dims((0, 2, 3), (), (1, 2)), lambda x: (1, 2, 2)),
        "cut": of(dims((0, 2), (0,), (0,)), lambda x: (1, 2, 3)),
        "beside": of(dims((1, 2), (), (1,), (0,), (0,)), lambda x: (1, 2, x.shape[2])),
        "beside, elements": of(dims((1,), (1,), (1,), (0,), (0,)), lambda x: (1, 1, x.shape[2])),
    }
    calls = [[floats(n, 4, 7).astype(jnp.dtype(dtype)), _at(6, 1, (n,)), _at(6, 2, (n,))] for n in (5, 8, 9)]
    compared(fns, *calls)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "complex64"])
def test_scatters(mode: Any, dtype: str) -> None:
    def of(fn: Any, d: Any, shape: Callable[[Any], Any]) -> Callable[..., Any]:
        def run(x: Any, one: Any, two: Any) -> Any:
            at = two if len(d.scatter_dims_to_operand_dims) == 2 else one
            made = shape(x)
            count = lax.iota(np.int32, made[0] * made[1] * made[2]).reshape(made)
            return fn(x, at, (count % 7 - 3).astype(x.dtype), d, mode=mode)

        return run

    dims = lax.ScatterDimensionNumbers
    kinds = [lax.scatter, lax.scatter_add, lax.scatter_mul, lax.scatter_sub]
    kinds += [lax.scatter_min, lax.scatter_max] * (dtype != "complex64")
    fns = {}
    for fn in kinds:
        name = fn.__name__
        fns |= {
            f"{name} rows": of(fn, dims((1, 2), (0,), (0,)), lambda x: (x.shape[0], *x.shape[1:])),
            f"{name} columns": of(fn, dims((0, 1), (2,), (2,)), lambda x: (*x.shape[:2], x.shape[0])),
            f"{name} elements": of(fn, dims((1, 2), (0,), (0, 1)), lambda x: (x.shape[0], 2, x.shape[2])),
            f"{name} cut": of(fn, dims((0, 2), (2,), (2, 0)), lambda x: (3, x.shape[0], 2)),
            f"{name} beside": of(
                fn, dims((1, 2), (), (1,), (0,), (0,)), lambda x: (x.shape[0], 2, x.shape[2])
            ),
        }
    calls = [
        [floats(n, 4, 7).round().astype(jnp.dtype(dtype)), _at(6, 1, (n,)), _at(6, 2, (n,))]
        for n in (5, 8, 9)
    ]
    compared(fns, *calls)


def test_large_scatters() -> None:
    at = np.random.default_rng(0).integers(0, 50, (3000, 1))
    dims = lax.ScatterDimensionNumbers((), (0,), (0,))
    compared(lambda x, at, u: lax.scatter_add(x, at, u, dims), [floats(50), at, floats(3000)], atol=1e-4)


def test_sorting() -> None:
    def by(keys: int, stable: bool = True) -> Callable[..., Any]:
        return lambda x, y: lax.sort((x, y, x[::-1]), num_keys=keys, is_stable=stable, dimension=0)

    ints = np.random.default_rng(0).integers(0, 3, (9, 4))
    for n in (7, 8, 9):
        compared(by(1), [ints[:n], floats(n, 4)])
        compared(by(2), [ints[:n], special(4 * n).reshape(n, 4)])
        compared(by(1), [special(4 * n).reshape(n, 4), floats(n, 4)])
    compared(lambda x: lax.top_k(x, 3)[1], [special(36).reshape(4, 9)], [special(40).reshape(4, 10)])
    compared(lambda x: lax.cumlogsumexp(x, 0, reverse=True), *[[floats(n, 3)] for n in (4, 5, 6)])


def test_windows() -> None:
    def pool(op: Any, start: float, window: Any, strides: Any, pads: Any, base: Any, steps: Any) -> Any:
        return lambda x: lax.reduce_window(x, x.dtype.type(start), op, window, strides, pads, base, steps)

    fns = {}
    for name, op, start in (("max", lax.max, -np.inf), ("min", lax.min, np.inf), ("sum", lax.add, 0.0)):
        fns |= {
            f"{name} plain": pool(op, start, (2, 3), (1, 2), "VALID", None, None),
            f"{name} padded": pool(op, start, (2, 3), (2, 1), ((1, 0), (1, 2)), None, None),
            f"{name} dilated": pool(op, start, (2, 2), (1, 2), ((0, 3), (2, 2)), (2, 1), (3, 2)),
            f"{name} cut": pool(op, start, (2, 2), (1, 1), ((-1, 0), (0, -1)), None, None),
        }
    x = special(12 * 7).reshape(12, 7)
    compared(fns, *[[x[:n]] for n in (10, 11, 12)])
    whole = {
        f"{name} {part}": lambda x, fn=fn, pads=pads, strides=strides: jax.grad(
            lambda x: (fn(x, -np.inf, lax.max, (2, 3), strides, pads) ** 2).sum()
        )(x)
        for name, fn in (("max", lax.reduce_window),)
        for part, pads, strides in (("plain", "VALID", (1, 2)), ("padded", ((1, 0), (2, 1)), (2, 1)))
    }
    whole["tangent"] = lambda x: jax.jvp(
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (1, 1), "VALID"), (x,), (x * 2,)
    )[1]
    compared(whole, *[[floats(n, 6)] for n in (7, 8, 9)])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bfloat16", "complex64"])
def test_convolutions(dtype: str) -> None:
    def convolve(x: Any, k: Any, **how: Any) -> Any:
        return lax.conv_general_dilated(x, k, dimension_numbers=("NHWC", "HWIO", "NHWC"), **how)

    fns = {
        "plain": lambda x, k: convolve(x, k, window_strides=(1, 2), padding=((1, 2), (0, -1))),
        "dilated": lambda x, k: convolve(
            x, k, window_strides=(1, 1), padding=((2, 3), (3, 2)), lhs_dilation=(2, 1), rhs_dilation=(1, 2)
        ),
    }
    kind = jnp.dtype(dtype)
    calls = [[floats(n, 7, 6, 4).astype(kind), floats(3, 2, 4, 5).astype(kind)] for n in (8, 9, 10)]
    compared(fns, *calls, rtol=1e-4, atol=1e-3)
    grouped = lambda x, k: convolve(x, k, window_strides=(1, 1), padding="VALID", feature_group_count=2)
    compared(
        grouped, [floats(2, 7, 6, 4).astype(kind), floats(3, 2, 2, 6).astype(kind)], rtol=1e-4, atol=1e-3
    )


def test_branches_and_loops() -> None:
    def newton(x: Any) -> Any:
        def step(state: Any) -> Any:
            k, y = state
            return k + 1, (y + x / y) / 2

        return lax.while_loop(
            lambda state: (state[0] < 20) & (abs(state[1] ** 2 - x).max() > 1e-6), step, (0, x)
        )

    def scanned(x: Any) -> Any:
        rows = jnp.stack([x, x * 2, -x])
        return lax.scan(lambda c, row: (c + row, (c * row, row.sum())), x, rows, reverse=True)

    fns = {
        "while": lambda x: newton(abs(x) + 1)[1],
        "steps": lambda x: newton(abs(x) + 1)[0],
        "fori": lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i] * i, jnp.zeros((), x.dtype)),
        "scan": lambda x: scanned(x)[0],
        "rows of scan": lambda x: scanned(x)[1][0],
        "numbers of scan": lambda x: scanned(x)[1][1],
        "scan of its elements": lambda x: lax.scan(lambda c, e: (c * 0.5 + e, c), x.dtype.type(1), x)[1],
        "cond": lambda x: lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, x),
        "switch": lambda x: lax.switch(x.shape[0] % 3, [jnp.sin, jnp.cos, lambda x: x], x),
        "switch at run time": lambda x: lax.switch(
            x[0].astype(np.int32), [lambda x: x[::-1], jnp.cos, lambda x: jnp.ones_like(x)], x
        ),
        "derivative of a scan": lambda x: jax.grad(lambda x: scanned(x)[0].sum() + scanned(x)[1][1].prod())(
            x
        ),
        "custom": lambda x: jax.nn.relu(x) + jax.nn.silu(x),
    }
    for dtype in (np.float32, np.float64):
        compared(fns, *[[floats(n, dtype=dtype)] for n in (5, 6, 7)], rtol=2e-5)


def _positive(x: Any) -> Any:
    return x @ x.swapaxes(-1, -2).conj() + 2 * jnp.eye(x.shape[-1], dtype=x.dtype)


def _solve(left: bool, lower: bool, turned: bool, conjugate: bool, unit: bool, a: Any) -> Any:
    return lax.linalg.triangular_solve(
        _positive(a),
        a,
        left_side=left,
        lower=lower,
        transpose_a=turned,
        conjugate_a=conjugate,
        unit_diagonal=unit,
    )


FACTORS: dict[str, Callable[..., Any]] = {
    "cholesky": lambda a: lax.linalg.cholesky(_positive(a)),
    "no cholesky": lambda a: lax.linalg.cholesky(_positive(a).at[0, 1, 1].set(-5), symmetrize_input=False),
    "solve": partial(_solve, True, True, False, False, False),
    "solve transposed": partial(_solve, True, False, True, False, True),
    "solve adjoint from the right": partial(_solve, False, True, True, True, False),
    "solve conjugate from the right": partial(_solve, False, False, False, True, True),
    "lu": lambda a: lax.linalg.lu(a)[0],
    "pivots": lambda a: lax.linalg.lu(a)[1],
    "permutation": lambda a: lax.linalg.lu(a)[2],
    "permutation of tall": lambda a: lax.linalg.lu(a[..., :2])[2],
    "permutation of pivots": lambda a: lax.linalg.lu_pivots_to_permutation(lax.linalg.lu(a)[1], 3),
    "q": lambda a: lax.linalg.qr(a[..., :2])[0],
    "r": lambda a: lax.linalg.qr(a[..., :2])[1],
    "q of wide": lambda a: lax.linalg.qr(a[..., :2, :], full_matrices=False)[0],
    "raw": lambda a: jnp.linalg.qr(a, mode="raw")[0],
    "tau": lambda a: jnp.linalg.qr(a, mode="raw")[1],
    "householder": lambda a: lax.linalg.householder_product(jnp.tril(a), a[..., 0] / 9),
    "eigenvectors": lambda a: lax.linalg.eigh(_positive(a))[0],
    "eigenvalues": lambda a: lax.linalg.eigh(_positive(a), lower=False)[1],
    "u": lambda a: lax.linalg.svd(a)[0],
    "s": lambda a: lax.linalg.svd(a[..., :2], full_matrices=False)[1],
    "vh": lambda a: lax.linalg.svd(a[..., :2], full_matrices=False)[2],
    "singular values": lambda a: lax.linalg.svd(a, compute_uv=False),
    "eig": lambda a: lax.linalg.eig(a)[0],
    "left": lambda a: lax.linalg.eig(a)[1],
    "right": lambda a: lax.linalg.eig(a)[2],
    "linear system": lambda a: jnp.linalg.solve(_positive(a), a[0, :, 0]),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_factorizations(dtype: str) -> None:
    calls = [[floats(n, 3, 3, dtype=dtype)] for n in (2, 4, 5)]
    compared(FACTORS, *calls, rtol=1e-3, atol=3e-4 if dtype[-2:] in ("32", "64") else 1e-9)


VECTORS: dict[str, Callable[..., Any]] = {
    "eigh": lambda a: lax.linalg.eigh(a + a.conj().mT, symmetrize_input=False)[0],
    "svd": lambda a: lax.linalg.svd(a)[0],
    "eig": lambda a: lax.linalg.eig(a)[2],
    "qr": lambda a: lax.linalg.qr(a, full_matrices=False)[0],
}


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_vectors_have_the_signs_that_xla_finds(dtype: str) -> None:
    """A compiled backward pass factorizes again: with other signs it would take the gradients for those of others."""
    numbers = np.random.default_rng(0)
    drawn = [numbers.standard_normal((2, *[8 + 3 * (n % 3)] * 2)) for n in range(12)]
    compared(
        VECTORS, *[[(x + 1j * x.mT if dtype[0] == "c" else x).astype(dtype)] for x in drawn], rtol=0, atol=0
    )


def test_fourier_transforms() -> None:
    fns = {
        "fft2": lambda x: jnp.fft.fft2(x),
        "rfftn": lambda x: jnp.fft.rfftn(x),
        "irfft2": lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x)),
        "odd": lambda x: jnp.fft.irfft(jnp.fft.rfft(x), 7),
        "hfft": lambda x: jnp.fft.hfft(jnp.fft.ihfft(x)),
    }
    compared(fns, *[[floats(n, 4, 6)] for n in (3, 5, 8)], rtol=1e-4, atol=1e-4)


def test_what_is_not_kept_is_not_small(tuned: Callable[..., None]) -> None:
    """Complex numbers do not stay in numpy for good."""
    tuned(numpy_elements=4096)
    plan = SimpleNamespace(family=Family(lambda numbers: lambda x: lax.complex(x, x)), numbers=())
    assert not host.bound(plan, [floats(3)]).is_small  # type: ignore[union-attr]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (6,), (5,), (3, 4)])
def test_sums_of_rows_are_added_one_by_one(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(0)
    at, rows = rng.integers(0, 7, 300).astype(np.int32), rng.standard_normal((300, *shape, 2)).astype(dtype)
    rows[::9], rows[::17] = np.inf, -0.0
    rows = rows[..., 0]
    want = np.zeros((7, *shape), dtype)
    for place, row in zip(at, rows):
        want[place] += row
    got = summed_rows(at, rows, 7)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, want)
