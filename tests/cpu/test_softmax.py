"""Softmax and its logarithm row by row: PyTorch's numbers and derivatives, and XLA's where there is no loop of ours."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port._base.tuning import tuning
from functorch_port._cpu.native import ffi
from functorch_port.ops._softmax import log_softmax, softmax

pytestmark = [
    pytest.mark.skipif(not ffi.available(), reason="needs llvmlite"),
    pytest.mark.usefixtures("both_ways"),
]

NAMES = ["softmax", "log_softmax"]


def loops(lowered) -> list[str]:
    """Our loops that a program calls."""
    return re.findall(r"@functorch_port\.(\w+)\.", lowered.as_text())


def run(T, name, x, dtype, dim=-1):
    rng = np.random.default_rng(0)
    dtype = getattr(T, dtype)
    x = T.tensor(x, dtype=dtype, requires_grad=True)
    slope = T.tensor(rng.standard_normal(x.shape), dtype=dtype, requires_grad=True)
    out = getattr(T.nn.functional, name)(x, dim)
    (grad,) = T.autograd.grad(out, x, slope, create_graph=True)
    again = T.autograd.grad((grad * grad).sum(), [x, slope])
    return [a.detach().double().numpy() for a in (out, grad, *again)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("float64", 1e-13)])
@pytest.mark.parametrize(
    ("shape", "dim"), [((6, 40), -1), ((3, 5, 17), 2), ((64, 1000), 1), ((7, 16), 1), ((300, 129), 0)]
)
def test_to_second_order(name, dtype, tolerance, shape, dim):
    x = np.random.default_rng(1).standard_normal(shape) * 4
    for got, want in zip(*(run(T, name, x, dtype, dim) for T in (ft, torch)), strict=True):
        np.testing.assert_allclose(got, want, tolerance, 4 * tolerance * np.abs(want).max())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types_to_second_order(name, dtype):
    """PyTorch rounds the first derivative and takes the second one of that."""
    x = np.random.default_rng(1).standard_normal((6, 40)) * 2
    eps = float(torch.finfo(getattr(torch, dtype)).eps)
    exact = run(torch, name, torch.tensor(x).to(getattr(torch, dtype)).double().numpy(), "float64")
    for k, (got, want) in enumerate(zip(run(ft, name, x, dtype), exact, strict=True)):
        np.testing.assert_allclose(got, want, 4 * eps, (4 if k < 2 else 16) * eps * np.abs(want).max())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [16, 45, 256])
def test_what_is_not_finite_stays_in_its_row(name, length):
    x = np.random.default_rng(2).standard_normal((9, length)) * 3
    x[1, 3], x[2, 5], x[3], x[4, 7], x[5, 2] = np.nan, np.inf, -np.inf, -np.inf, -np.nan
    x[6], x[6, 9], x[7] = -200, 0, -0.0
    x[8] = np.linspace(-110, 0, length)  # results between 0 and the smallest normal number among them
    exact = run(torch, name, x.astype(np.float32).astype(float), "float64")
    for got, want, true in zip(*(run(T, name, x, "float32") for T in (ft, torch)), exact, strict=True):
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        # as near to the exact numbers of the row as PyTorch's, which depend on the processor
        finite = np.isfinite(want) & np.isfinite(true)
        error = np.where(finite, np.abs(np.where(finite, want, 0) - np.where(finite, true, 0)), 0)
        np.testing.assert_array_equal(got[~finite], want[~finite])
        bound = 1e-6 + 1e-5 * np.abs(want) + 2 * error.max(-1, keepdims=True)
        assert np.all(np.abs(got[finite] - want[finite]) <= bound[finite])


def test_numbers_are_as_good_as_those_of_float64():
    x = np.random.default_rng(3).standard_normal((50, 333)).astype(np.float32) * 10
    exact = x.astype(np.float64)
    exact = np.exp(exact - exact.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    got = ft.tensor(x).softmax(1).numpy()
    size = np.spacing(exact.astype(np.float32))
    # the difference from the largest number, up to 80, is rounded before its exponential is taken
    assert (np.abs(got - exact) <= 3 * size + 2**-18 * exact).all()
    smallest = ft.tensor(np.append(np.zeros(31, np.float32), np.float32(-100))).reshape(1, 32).softmax(1)
    np.testing.assert_allclose(smallest[0, -1].item(), np.exp(-100.0) / 31, atol=2e-45)


def test_one_loop_forward_and_one_backward():
    @jax.jit
    def both(x, slope):
        out, vjp = jax.vjp(lambda x: softmax(x, 2)[0], x)
        logarithm, log_vjp = jax.vjp(lambda x: log_softmax(x, 2), x)
        return out, *vjp(slope), logarithm, *log_vjp(slope)

    x = jnp.ones((4, 5, 40))
    assert sorted(loops(both.lower(x, x))) == [
        "log_softmax", "slope_of_log_softmax_back", "slope_of_softmax", "softmax",
    ]  # fmt: skip


def test_attention_weights_are_such_a_loop_and_masked_rows_are_zeros():
    q = np.random.default_rng(4).standard_normal((2, 3, 20, 16)).astype(np.float32)
    mask = np.random.default_rng(5).random((2, 3, 20, 20)) < 0.7
    mask[1, 2, 4] = False
    found = []
    for T in (ft, torch):
        given = [T.tensor(q * size, requires_grad=True) for size in (1, 3, 2)]
        out = T.nn.functional.scaled_dot_product_attention(*given, attn_mask=T.tensor(mask))
        grads = T.autograd.grad((out * out).sum(), given)
        found.append([out.detach().numpy(), *(g.numpy() for g in grads)])
    assert not found[0][0][1, 2, 4].any()
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, 1e-5, 1e-5 * np.abs(want).max())
    attend = ft.compile(lambda x: ft.nn.functional.scaled_dot_product_attention(x, x, x))
    attend(ft.tensor(q))
    assert loops(attend.programs()[0].lower()) == ["softmax"]


@pytest.mark.parametrize(
    ("shape", "dtype", "dim"),
    [((4, 8), "float32", 1), ((40, 20), "float32", 0), ((0, 40), "float32", 1), ((4, 40), "float64", 1)],
    ids=["short", "columns", "empty", "double"],
)
def test_left_to_xla(shape, dtype, dim):
    with jax.enable_x64(True):
        assert not loops(jax.jit(lambda x: softmax(x, dim)).lower(jax.ShapeDtypeStruct(shape, dtype)))


def test_other_platforms_and_vmap_have_xla():
    x = jax.ShapeDtypeStruct((6, 40), np.float32)
    traced = jax.jit(lambda x: softmax(x, 1)).trace(x)
    assert loops(traced.lower()) == ["softmax"]
    assert not loops(traced.lower(lowering_platforms=("tpu",)))
    mapped = jax.jit(jax.vmap(lambda x: softmax(x, 1)))
    assert not loops(mapped.lower(jax.ShapeDtypeStruct((3, 6, 40), np.float32)))


def test_rows_shared_among_threads():
    x = np.random.default_rng(6).standard_normal((3 * tuning.row_chunk // 48 + 7, 48)).astype(np.float32)
    got, summed = jax.jit(lambda x: softmax(x, 1))(jnp.asarray(x))
    e = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(got, e / e.sum(1, keepdims=True), 2e-6)
    np.testing.assert_allclose(summed, np.log(e.sum(1, keepdims=True)), 1e-6)
