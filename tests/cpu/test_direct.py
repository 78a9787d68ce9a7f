"""Primitives on numpy arrays, at once: the numbers of their formulas and of PyTorch, with and without llvmlite."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest
import torch

from functorch_port._array import tracing
from functorch_port._base import lowering
from functorch_port._cpu.native import direct, dnnl, ffi, numpy_convolution
from functorch_port.ops._convolution import Convolution, convolution_p

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
    agree(direct.of(convolution_p)((a, b), kind=kind, how=how), want)
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
        env=_environment(FUNCTORCH_PORT_KERNELS="0"),
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout
