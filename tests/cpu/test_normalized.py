"""Layer and group norm row by row: PyTorch's numbers and derivatives, and XLA's where there is no loop of ours."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port._base.tuning import tuning
from functorch_port._cpu.native import ffi
from functorch_port.ops._normalized import normalized

pytestmark = [
    pytest.mark.skipif(not ffi.available(), reason="needs llvmlite"),
    pytest.mark.usefixtures("both_ways"),
]

SHAPES = [
    ((6, 40), (40,)),
    ((3, 5, 4, 8), (4, 8)),
    ((64, 1000), (1000,)),
    ((2, 16), (16,)),
    ((300, 129), (129,)),
]


def normalizers(text: str) -> int:
    """How many of our loops a program's text calls."""
    return text.count("functorch_port.normalize") + text.count("functorch_port.slope_of_normalize")


def run(T, shape, last, dtype, weighted):
    rng = np.random.default_rng(0)
    x = T.tensor((rng.standard_normal(shape) * 3 + 5).astype(dtype), requires_grad=True)
    params = [T.tensor(rng.standard_normal(last).astype(dtype), requires_grad=True) for _ in range(2)]
    out = T.nn.functional.layer_norm(x, last, *(params if weighted else ()))
    slope = T.tensor(rng.standard_normal(shape).astype(dtype), requires_grad=True)
    inputs = [x, *(params if weighted else ())]
    grads = T.autograd.grad(out, inputs, slope, create_graph=True)
    again = T.autograd.grad(
        sum((g * g).sum() for g in grads), [slope, *inputs[:2]]
    )  # not of the bias: it is linear
    return [a.detach().numpy() for a in (out, *grads, *again)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float64", 1e-12)])
@pytest.mark.parametrize(("shape", "last"), SHAPES)
def test_layer_norm_to_second_order(shape, last, dtype, tolerance, weighted):
    for got, want in zip(*(run(T, shape, last, dtype, weighted) for T in (ft, torch)), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, tolerance, tolerance * np.abs(want).max())


@pytest.mark.parametrize("last", [(40,), (5, 40)])
def test_one_loop_forward_and_one_backward(last):
    @jax.jit
    def both(x, slope):
        dims = tuple(range(3 - len(last), 3))
        out, vjp = jax.vjp(lambda x: normalized(x, dims, 1e-5)[0], x)
        return out, vjp(slope)

    x = jnp.ones((4, 5, 40))
    assert normalizers(both.lower(x, x).as_text()) == 2


@pytest.mark.parametrize(
    ("shape", "dtype", "dims"),
    [
        ((4, 8), "float32", (1,)),
        ((4, 40), "bfloat16", (1,)),
        ((40, 4), "float32", (0,)),
        ((0, 40), "float32", (1,)),
    ],
    ids=["short", "half", "columns", "empty"],
)
def test_left_to_xla(shape, dtype, dims):
    lowered = jax.jit(lambda x: normalized(x, dims, 1e-5)).lower(jax.ShapeDtypeStruct(shape, dtype))
    assert not normalizers(lowered.as_text())


def test_other_platforms_and_vmap_have_xla():
    x = jax.ShapeDtypeStruct((6, 40), np.float32)
    traced = jax.jit(lambda x: normalized(x, (1,), 1e-5)).trace(x)
    assert normalizers(traced.lower().as_text()) == 1
    assert not normalizers(traced.lower(lowering_platforms=("tpu",)).as_text())
    mapped = jax.jit(jax.vmap(lambda x: normalized(x, (1,), 1e-5)))
    assert not normalizers(mapped.lower(jax.ShapeDtypeStruct((3, 6, 40), np.float32)).as_text())


def test_rows_shared_among_threads():
    """More than one thread's worth, and a last part that is shorter."""
    x = np.random.default_rng(1).standard_normal((3 * tuning.row_chunk // 48 + 7, 48)).astype(np.float32)
    out, mean, var = jax.jit(lambda x: normalized(x, (1,), 0.0))(jnp.asarray(x))
    exact = x.astype(np.float64)
    np.testing.assert_allclose(mean[:, 0], exact.mean(1), 1e-5, 1e-6)
    np.testing.assert_allclose(var[:, 0], exact.var(1), 1e-5)
    want = (exact - exact.mean(1, keepdims=True)) / exact.std(1, keepdims=True)
    np.testing.assert_allclose(out, want, 1e-5, 1e-5)


def test_nan_and_infinity_stay_in_their_rows():
    x = np.random.default_rng(2).standard_normal((4, 32)).astype(np.float32)
    x[1, 3], x[2, 5] = np.nan, np.inf
    got, want = (
        T.nn.functional.layer_norm(T.tensor(x, requires_grad=True), (32,)).detach().numpy()
        for T in (ft, torch)
    )
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got[[0, 3]], want[[0, 3]], 1e-5, 1e-6)
