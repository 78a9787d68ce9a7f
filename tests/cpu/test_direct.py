"""Primitives on numpy arrays, at once: the numbers of their formulas and of PyTorch, with and without llvmlite."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from functorch_port._array import tracing
from functorch_port._base import lowering
from functorch_port._base.tuning import tuning
from functorch_port._cpu.native import direct, dnnl, ffi, kernels, numpy_convolution
from functorch_port.ops._cells import CELLS
from functorch_port.ops._convolution import Convolution, convolution_p
from functorch_port.ops._product import multiply_p
from functorch_port.ops._recurrence import cotangents_p, forward_p, tangents_p
from functorch_port.ops._rows import FORMULAS

at_once = direct.of
needs_llvmlite = pytest.mark.skipif(not ffi.compiles(), reason="needs llvmlite")
needs_onednn = pytest.mark.skipif(
    not ffi.compiles() or dnnl.library() is None, reason="needs oneDNN and llvmlite"
)
TOLERANCE = {"float32": 1e-5, "float64": 1e-13}


def draw(shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def formula(primitive, arrays, **params):
    with tracing.x64():
        made = jax.jit(lambda *a: lowering.formula_of(primitive)(*a, **params))(*arrays)
    return jax.tree.map(np.asarray, made)


def agree(got, want, tolerance=None):
    """Value, shape and dtype; and a NaN is where one is wanted."""
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    largest = np.abs(want[np.isfinite(want)]).max(initial=1e-30)
    np.testing.assert_allclose(got, want, rtol=0, atol=(tolerance or TOLERANCE[want.dtype.name]) * largest)


# ------------------------------------------------------------------ convolutions

# input, weight, strides, pads, dilations, groups
CONVOLUTIONS = [
    ((2, 3, 8, 9), (4, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((5, 8, 8, 9), (4, 4, 3, 2), (2, 1), ((1, 0), (2, 1)), (2, 1), 2),
    ((4, 8, 9, 9), (8, 1, 3, 2), (1, 2), ((0, 0), (2, 0)), (1, 2), 8),
    ((4, 8, 9, 9), (16, 1, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 8),
    ((4, 8, 9, 9), (6, 8, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    ((4, 8, 9, 9), (6, 8, 1, 1), (2, 3), ((0, 0), (0, 0)), (1, 1), 1),
    ((4, 8, 8, 9), (8, 2, 3, 2), (1, 2), ((-1, 0), (2, -1)), (1, 1), 4),
    ((3, 16, 20, 20), (16, 16, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((4, 32, 24, 24), (32, 32, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((1, 64, 8, 8), (128, 64, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((4, 8, 19), (8, 4, 3), (2,), ((1, 1),), (2,), 2),
    ((4, 8, 19), (8, 4, 3), (2,), ((3, -1),), (2,), 2),
    ((2, 4, 6, 7, 5), (6, 2, 3, 2, 1), (2, 1, 1), ((1, 1), (0, 1), (1, 0)), (1, 2, 1), 2),
    ((2, 3, 5), (4, 3, 5), (1,), ((0, 0),), (1,), 1),
    ((0, 3, 5), (4, 3, 5), (1,), ((0, 0),), (1,), 1),
    ((2, 0, 5), (4, 0, 5), (1,), ((0, 0),), (1,), 1),
]
KINDS = ["forward", "input", "weight"]


def geometry(case):
    return Convolution(*case, None)


def arrays_of(how, kind, dtype="float32"):
    shapes = {"input": how.input, "weight": how.weight, "output": how.output}
    first, second = {
        "forward": ("input", "weight"),
        "input": ("output", "weight"),
        "weight": ("input", "output"),
    }[kind]
    return draw(shapes[first], dtype, 1), draw(shapes[second], dtype, 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolution_as_its_formula(case, kind, dtype):
    how = geometry(case)
    a, b = arrays_of(how, kind, dtype)
    if a.size and b.size:
        want = formula(convolution_p, (a, b), kind=kind, how=how)
    else:
        want = np.zeros({"forward": how.output, "input": how.input, "weight": how.weight}[kind], dtype)
    agree(at_once(convolution_p)((a, b), kind=kind, how=how), want)
    agree(numpy_convolution.convolve(kind, how, a, b), want)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("x", "w", "stride", "padding", "dilation", "groups"),
    [
        ((2, 4, 11, 10), (6, 2, 3, 3), 2, 1, 1, 2),
        ((2, 4, 21), (6, 4, 3), 1, 2, 2, 1),
        ((2, 4, 7, 6, 5), (4, 4, 3, 3, 3), 1, 1, 1, 1),
    ],
)
def test_convolution_as_pytorch(x, w, stride, padding, dilation, groups, dtype):
    n = len(x) - 2
    how = Convolution(x, w, (stride,) * n, ((padding, padding),) * n, (dilation,) * n, groups, None)
    run = torch.nn.functional
    convolve = (run.conv1d, run.conv2d, run.conv3d)[n - 1]
    given = [torch.tensor(draw(shape, dtype, k), requires_grad=True) for k, shape in enumerate((x, w))]
    y = convolve(*given, None, stride, padding, dilation, groups)
    slope = draw(how.output, dtype, 3)
    of_x, of_w = torch.autograd.grad(y, given, torch.tensor(slope))
    a, b = (t.detach().numpy() for t in given)
    agree(direct.convolution((a, b), kind="forward", how=how), y.detach().numpy())
    agree(direct.convolution((slope, b), kind="input", how=how), of_x.numpy())
    agree(direct.convolution((a, slope), kind="weight", how=how), of_w.numpy())


SMALL, LARGE = geometry(CONVOLUTIONS[0]), geometry(CONVOLUTIONS[8])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", [SMALL, LARGE], ids=["small", "large"])
def test_a_nan_stays_where_it_is(how, kind):
    a, b = arrays_of(how, kind)
    a[(0,) * a.ndim] = np.nan
    got, want = (
        f((a, b), kind=kind, how=how)
        for f in (direct.convolution, lambda arrays, **params: formula(convolution_p, arrays, **params))
    )
    assert np.isnan(got).any()
    agree(got, want)


@pytest.mark.parametrize("how", [SMALL, LARGE], ids=["small", "large"])
def test_views_of_numpy(how):
    a, b = arrays_of(how, "forward")
    want = direct.convolution((a, b), kind="forward", how=how)
    lain = np.asfortranarray(a), np.ascontiguousarray(b[..., ::-1])[..., ::-1]
    np.testing.assert_array_equal(direct.convolution(lain, kind="forward", how=how), want)
    shifted = np.empty(a.size + 1, a.dtype)[1:].reshape(a.shape)  # 4 bytes off what an allocator gives
    shifted[...] = a
    np.testing.assert_array_equal(direct.convolution((shifted, b), kind="forward", how=how), want)


def test_what_does_not_fit_is_an_error():
    a, b = arrays_of(SMALL, "forward")
    with pytest.raises(ValueError, match="do not fit"):
        direct.convolution((a[:1], b), kind="forward", how=SMALL)
    with pytest.raises(NotImplementedError):
        direct.convolution((a.astype(int), b.astype(int)), kind="forward", how=SMALL)


def test_threads_of_python():
    """Several plans and the same one at a time, and a few of them with helpers."""
    cases = [geometry(case) for case in CONVOLUTIONS[:9]] * 8
    arrays = {how: arrays_of(how, "weight") for how in cases}
    want = {how: direct.convolution(arrays[how], kind="weight", how=how) for how in arrays}
    direct.forget()
    with ThreadPoolExecutor(6) as pool:
        made = pool.map(lambda how: direct.convolution(arrays[how], kind="weight", how=how), cases)
        for how, got in zip(cases, made, strict=True):
            np.testing.assert_array_equal(got, want[how])


@needs_onednn
def test_plans_that_are_forgotten_are_destroyed(monkeypatch):
    direct.convolution(arrays_of(SMALL, "input"), kind="input", how=SMALL)  # engine and attributes stay
    direct.forget()
    gc.collect()
    made, gone = [], []
    make, leave = dnnl.make, dnnl.Owner.__del__
    monkeypatch.setattr(dnnl, "make", lambda *args: made.append(args[0]) or make(*args))

    def destroy(owner):
        gone.extend(owner.made)
        leave(owner)

    monkeypatch.setattr(dnnl.Owner, "__del__", destroy)
    for n in (1, 2, 3):
        how = SMALL._replace(input=(n, *SMALL.input[1:]))
        direct.convolution(arrays_of(how, "input"), kind="input", how=how)
    assert made and not gone
    direct.forget()
    gc.collect()
    assert len(gone) == len(made)


def test_a_child_process_computes_too():
    program = """
import os, sys
import numpy as np
from functorch_port._cpu.native import direct
from functorch_port.ops._convolution import Convolution
how = Convolution((4, 32, 24, 24), (32, 32, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, None)
whole = Convolution((1, 64, 8, 8), (128, 64, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, None)
def run():
    return [direct.convolution((np.ones(h.input, "f"), np.ones(h.weight, "f")), kind="forward", how=h).sum()
            for h in (how, whole)]
want = run()
child = os.fork()
if not child:
    os._exit(0 if run() == want else 3)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], check=True, timeout=120, env=_environment()
    )


def _environment(**more):
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **more}


def test_without_llvmlite():
    tests = f"{__file__}::test_convolution_as_pytorch"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests],
        capture_output=True,
        text=True,
        timeout=300,
        env=_environment(FUNCTORCH_PORT_KERNELS="0", ONE_IN="1"),
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout


# ------------------------------------------------------------------ products

PRODUCTS = [
    ((64, 784), (784, 512)),
    ((33, 700), (700, 301)),
    ((16, 512), (512, 4096)),
    ((2048, 300), (300, 20)),
    ((96, 64, 64), (96, 64, 64)),
    ((2, 3, 256, 64), (2, 3, 64, 256)),
    ((4, 128, 128), (128, 384)),
]


def flipped(shape, seed):
    """An array of this shape whose last two dimensions lie the other way round."""
    return draw((*shape[:-2], shape[-1], shape[-2]), seed=seed).swapaxes(-1, -2)


@pytest.mark.parametrize("ways", ["plain", "left", "right", "both"])
@pytest.mark.parametrize(("a", "b"), PRODUCTS)
def test_products(monkeypatch, a, b, ways):
    x = (flipped if ways in ("left", "both") else draw)(a, seed=1)
    y = (flipped if ways in ("right", "both") else draw)(b, seed=2)
    want = np.matmul(x.astype("f8"), y.astype("f8")).astype("f4")
    if direct._has_onednn():
        monkeypatch.setattr(np, "matmul", None)
    agree(direct.matmul(x, y), want)
    agree(direct.matmul(x[..., ::-1], np.flip(y, -2)), want)


@pytest.mark.parametrize("ways", ["plain", "left", "right", "both"])
@pytest.mark.parametrize(("a", "b"), PRODUCTS)
def test_products_before_onednn_is_loaded(monkeypatch, tuned, a, b, ways):
    """Numpy's, in parts for which its library wakes no threads."""
    x = (flipped if ways in ("left", "both") else draw)(a, seed=1)
    y = (flipped if ways in ("right", "both") else draw)(b, seed=2)
    want = np.matmul(x.astype("f8"), y.astype("f8")).astype("f4")
    least = x.shape[-1] * min(np.prod(x.shape[:-1] if len(b) == 2 else x.shape[-2:-1]), y.shape[-1])
    parts, matmul = [], np.matmul

    def noted(x, y, **how):
        parts.append(x.shape[-2] * x.shape[-1] * y.shape[-1])
        return matmul(x, y, **how)

    monkeypatch.setattr(np, "matmul", noted)
    monkeypatch.setattr(direct, "_has_onednn", functools.cache(lambda: pytest.fail("it is loaded")))
    monkeypatch.setattr(direct, "_done", 0)
    tuned(products_least=1 << 40, product_by_numpy=1 << 40)
    agree(direct.matmul(x, y), want)
    assert max(parts) <= max(tuning.single_product, least)


@pytest.mark.parametrize("limit", ["products_least", "product_by_numpy"])
def test_onednn_is_loaded_for_much_work(monkeypatch, tuned, limit):
    asked = []
    monkeypatch.setattr(direct, "_has_onednn", functools.cache(lambda: bool(asked.append(1))))
    monkeypatch.setattr(direct, "_done", 0)
    tuned(**{limit: 5_000_000})
    x = draw((1000, 40))
    for _ in range(3):
        agree(direct.matmul(x, x.T[:, :100]), x @ x.T[:, :100])
    assert len(asked) == (limit == "products_least")
    direct.matmul(x, x.T[:, :200])
    assert len(asked) == 1


def test_products_that_are_numpys():
    for a, b in (
        ((2, 3), (3, 4)),
        ((0, 3), (3, 4)),
        ((2, 0), (0, 4)),
        ((3,), (3, 4)),
        ((5, 1, 2, 3), (4, 3, 2)),
    ):
        np.testing.assert_array_equal(
            direct.matmul(draw(a), draw(b, seed=1)), np.matmul(draw(a), draw(b, seed=1))
        )
    x = draw((300, 300), "float64")
    np.testing.assert_array_equal(direct.matmul(x, x), x @ x)
    with pytest.raises(ValueError, match="matmul"):
        direct.matmul(draw((2000, 300)), draw((301, 200)))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_products_as_the_primitive(left, right):
    how = {"left": left, "right": right, "precision": None}
    for rows, inner, columns in ((3, 4, 5), (300, 200, 100)):
        a = draw((2, inner, rows) if left else (2, rows, inner))
        b = draw((2, columns, inner) if right else (2, inner, columns), seed=1)
        agree(at_once(multiply_p)([a, b], **how), formula(multiply_p, [a, b], **how))


# ------------------------------------------------------------------ formulas of rows

# how many arrays of full length, of one number for each row, and the parameters
ROWS = {
    "softmax": (1, 0, {"masked": False}),
    "log_softmax": (1, 0, {}),
    "slope_of_softmax": (2, 0, {}),
    "slope_of_log_softmax": (2, 0, {}),
    "slope_of_log_softmax_back": (2, 0, {}),
    "normalize": (1, 0, {"eps": 1e-5}),
    "slope_of_normalize": (2, 1, {"eps": 1e-5}),
    "largest": (1, 0, {}),
    "smallest": (1, 0, {}),
    "place_of_largest": (1, 0, {}),
    "place_of_smallest": (1, 0, {}),
}
PRIMITIVES = {formula.primitive.name: formula.primitive for formula in FORMULAS}


def rows_of(name, shape, dtype="float32"):
    whole, numbers, how = ROWS[name]
    arrays = [draw(shape, dtype, k) for k in range(whole)]
    return [*arrays, *(np.abs(draw((shape[0], 1), dtype, 7)) for _ in range(numbers))], how


def test_every_formula_of_rows_is_here():
    assert {*ROWS} == {*PRIMITIVES}


@needs_llvmlite
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ROWS)
def test_rows_as_their_formula(name, dtype):
    """Among the sizes some are more than one thread's part, and rows whose sums are taken part by part."""
    for shape in ((1, 2), (3, 2), (7, 33), (300, 1000), (2, 9001)):
        arrays, how = rows_of(name, shape, dtype)
        made = at_once(PRIMITIVES[name])(arrays, **how)
        if made is None:  # LLVM has no such function of float64
            assert dtype == "float64" and "soft" in name
            return
        want = formula(PRIMITIVES[name], arrays, **how)
        for got, wanted in zip(made, want, strict=True):
            agree(got, wanted, 2e-5 if dtype == "float32" else 1e-12)


@needs_llvmlite
@pytest.mark.parametrize("name", ["softmax", "largest", "place_of_largest", "normalize"])
def test_rows_keep_a_nan(name):
    (x,), how = rows_of(name, (4, 50))
    x[1, 3], x[2, 7] = np.nan, -np.inf
    got, want = at_once(PRIMITIVES[name])([x], **how), formula(PRIMITIVES[name], [x], **how)
    for a, b in zip(got, want, strict=True):
        agree(a, b, 2e-5)


@needs_llvmlite
def test_sizes_of_rows_compile_nothing(monkeypatch):
    arrays, how = rows_of("softmax", (3, 20))
    at_once(PRIMITIVES["softmax"])(arrays, **how)
    monkeypatch.setattr(ffi, "_compiled", None)
    for shape in ((3, 21), (5, 400), (2, 5000)):
        arrays, how = rows_of("softmax", shape)
        found, *_ = at_once(PRIMITIVES["softmax"])(arrays, **how)
        agree(found, torch.tensor(arrays[0]).softmax(-1).numpy(), 2e-5)


def test_rows_without_a_loop_are_the_callers():
    for shape in ((3, 1), (0, 5)):
        arrays, how = rows_of("normalize", shape)
        assert at_once(PRIMITIVES["normalize"])(arrays, **how) is None
    assert at_once(jax.lax.add_p) is None


# ------------------------------------------------------------------ elementwise updates


def _adam(row, joined, numbers):
    param, mean, square, grad = row
    lr, decay = numbers
    mean, square = mean + (grad - mean) * (1 - decay), square * decay + grad * grad * (1 - decay)
    return [param - lr * mean / (jnp.sqrt(square) + 1e-8), mean, square], joined


def tensors(dtype, shapes=((3, 5), (1000, 300), (), (0, 4))):
    made = [[np.array(draw(shape, dtype, 10 * k + j)) for j in range(4)] for k, shape in enumerate(shapes)]
    return [[p, m, np.abs(s, out=s), g] for p, m, s, g in made]


@needs_llvmlite
@pytest.mark.parametrize("as_vector", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_updates(dtype, as_vector):
    rows, numbers = tensors(dtype), [np.array(x, dtype) for x in (0.1, 0.9)]
    with tracing.x64():
        want = [[np.asarray(x) for x in _adam(row, [], numbers)[0]] for row in rows]
    given = np.array(numbers) if as_vector else numbers
    before = [[x.copy() for x in row] for row in rows]
    made, joined = direct.update(_adam, rows, 3, given)
    assert not joined
    for row, old in zip(rows, before, strict=True):
        for x, y in zip(row, old, strict=True):
            np.testing.assert_array_equal(x, y)
    there, _ = direct.update(_adam, rows, 3, given, in_place=True)
    for row, new, overwritten, wanted in zip(rows, made, there, want, strict=True):
        assert all(a is b for a, b in zip(row, overwritten))
        for x, y, z in zip(new, overwritten, wanted, strict=True):
            agree(x, z.astype(dtype))
            np.testing.assert_array_equal(x, y)


@needs_llvmlite
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_updates_have_the_same_bits_when_they_are_fast(dtype):
    def rule(row, joined, numbers):
        return _adam(row, joined, numbers)

    rows, numbers = tensors(dtype), [np.array(x, dtype) for x in (0.1, 0.9)]
    call, _ = kernels.call_of(rule, rows, 3, numbers)
    first, _ = direct.update(rule, rows, 3, numbers)
    assert call.loop.left > 0
    call.loop.data(tuning.loop_least)
    assert call.loop.left < 0
    again, _ = direct.update(rule, rows, 3, numbers)
    for x, y in zip(sum(first, []), sum(again, []), strict=True):
        np.testing.assert_array_equal(x, y)


@needs_llvmlite
def test_updates_of_joined_arrays_and_of_views():
    def fn(row, joined, numbers):
        return [row[0] + joined[0], row[0] * 2], [joined[0] + 1]

    rows, total = [[draw((3, 4), seed=k)[:, ::2]] for k in range(3)], np.arange(18, dtype=np.float32)
    made, (after,) = direct.update(fn, rows, 1, [], [total])
    for k, ((x,), new) in enumerate(zip(rows, made, strict=True)):
        np.testing.assert_array_equal(new[0], x + total[6 * k : 6 * k + 6].reshape(3, 2))
        np.testing.assert_array_equal(new[1], x * 2)
    np.testing.assert_array_equal(after, total + 1)
    with pytest.raises(ValueError, match="contiguous"):
        direct.update(fn, rows, 1, [], [total], in_place=True)


@needs_llvmlite
def test_updates_in_programs_are_the_same_primitive():
    rows, numbers = tensors("float32", ((4, 5),)), [jnp.float32(0.1), jnp.float32(0.9)]
    made = jax.make_jaxpr(lambda rows: kernels.run(_adam, rows, 3, numbers)[0])(rows)
    if not ffi.available():
        pytest.skip("there are several devices")
    (eqn,) = (eqn for eqn in made.eqns if eqn.primitive is kernels.update_p)
    got = at_once(eqn.primitive)([*map(np.asarray, numbers), *rows[0]], **eqn.params)
    (want,), _ = direct.update(_adam, rows, 3, [*map(np.asarray, numbers)])
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


# ------------------------------------------------------------------ recurrences


@needs_onednn
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", CELLS)
def test_recurrences_as_their_formulas(mode, reverse, masked):
    cell = CELLS[mode]
    for steps, batch, units in ((1, 1, 2), (3, 2, 5), (9, 20, 64)):
        states = [draw((batch, units), seed=k) for k in range(cell.states)]
        x = draw((steps, batch, cell.gates * units), seed=5)
        w = draw((cell.gates * units, units), seed=6) * np.float32(units**-0.5)
        lengths = steps - np.arange(batch) % steps
        mask = np.arange(steps)[:, None, None] < lengths[:, None]
        going = [np.broadcast_to(mask, (steps, batch, units)).astype(np.float32)] if masked else []
        arrays = [x, *going, *states, w]
        for keep in (False, True):
            how = {"mode": mode, "masked": masked, "reverse": reverse, "keep": keep}
            made = at_once(forward_p)(arrays, **how)
            want = formula(forward_p, arrays, **how)
            for got, wanted in zip(made, want, strict=True):
                agree(got, wanted)
        kept = made[: cell.states + cell.kept]
        coefficients = [*kept[: cell.states], *kept[: cell.states], *kept[cell.states :], *going, w]
        alone = [draw((steps, batch, units), seed=8)] * cell.alone
        how = {"mode": mode, "masked": masked, "reverse": reverse}
        for primitive, rest in (
            (tangents_p, [*alone, x, *states]),
            (cotangents_p, [draw((steps, batch, units), seed=9), *states]),
        ):
            given = [*coefficients, *rest]
            made = at_once(primitive)(given, **how)
            for got, wanted in zip(made, formula(primitive, given, **how), strict=True):
                agree(got, wanted, 2e-5)


def test_recurrences_of_float64_are_the_callers():
    arrays = [draw((2, 3, 4), "float64"), draw((3, 4), "float64"), draw((4, 4), "float64")]
    assert at_once(forward_p)(arrays, mode="RNN_TANH", masked=False, reverse=False, keep=False) is None
