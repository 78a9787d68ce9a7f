"""The largest and smallest numbers, and where they are, row by row: PyTorch's values and gradients, NaN and ties."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port._cpu.native import ffi
from functorch_port.ops import _extremes

pytestmark = [
    pytest.mark.skipif(not ffi.available(), reason="needs llvmlite"),
    pytest.mark.usefixtures("both_ways"),
]

DIMS = [((6, 40), (1,)), ((3, 5, 4, 8), (2, 3)), ((300, 129), (1,)), ((2, 16), (0, 1)), ((1, 70_001), (1,))]


def numbers(shape, dtype, kind):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(dtype)
    if kind == "ties":
        x = np.round(x)
    if kind == "infinite":
        x.reshape(-1)[::7] = np.inf
        x.reshape(-1)[3::11] = -np.inf
    if kind == "nan":  # the first, one in the middle, the last, and two with their signs
        for at, value in ((0, np.nan), (x.size // 2, -np.nan), (x.size // 2 + 3, np.nan), (-1, -np.nan)):
            x.reshape(-1)[at] = value
    if kind == "zeros":
        x = np.where(x > 0, 0.0, -0.0).astype(dtype)
    if kind == "nothing but -inf":
        x[...] = -np.inf
    return x


def loops(fn, *given):
    """How many of our loops the program of a function calls."""
    return jax.jit(fn).lower(*given).as_text().count("stablehlo.custom_call @functorch_port.")


@pytest.mark.parametrize("kind", ["plain", "ties", "infinite", "nan", "zeros", "nothing but -inf"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "dims"), DIMS)
def test_as_pytorch(shape, dims, dtype, kind):
    x = numbers(shape, dtype, kind)

    def found(T):
        t = T.tensor(x)
        last = t.reshape(-1, int(np.prod([shape[d] for d in dims])))
        several = [t.amax(dims), t.amin(dims, keepdim=True), t.max(), t.min(), last.argmax(), last.argmin()]
        return [*several, last.argmax(1), last.argmin(1, keepdim=True), *last.max(1), *last.min(1)]

    for ours, theirs in zip(found(ft), found(torch), strict=True):
        assert str(ours.dtype) == str(theirs.dtype)
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("kind", ["plain", "ties", "nan"])
@pytest.mark.parametrize("name", ["amax", "amin"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("bfloat16", 2e-2)])
@pytest.mark.parametrize(("shape", "dims"), DIMS)
def test_gradients_to_second_order(shape, dims, dtype, tolerance, name, kind):
    x = numbers(shape, "float64", kind)

    def found(T):
        t = T.tensor(x, dtype=getattr(T, dtype), requires_grad=True)
        out = getattr(t * t, name)(dims)
        (first,) = T.autograd.grad((out * out).sum(), t, create_graph=True)
        (second,) = T.autograd.grad((first * first).sum(), t)
        return out, first, second

    for ours, theirs in zip(found(ft), found(torch), strict=True):
        np.testing.assert_allclose(ours.detach().double(), theirs.detach().double(), tolerance)


def test_each_is_one_loop():
    x = jnp.ones((4, 5, 40))
    for fn in (_extremes.largest, _extremes.smallest):
        assert loops(lambda x, fn=fn: fn(x, (2,)), x) == 1
        assert loops(lambda x, fn=fn: fn(x, (0, 1, 2)), x) == 1
    for fn in (_extremes.argmax, _extremes.argmin):
        assert loops(lambda x, fn=fn: fn(x, 2, np.int32), x) == 1


@pytest.mark.parametrize(
    ("shape", "dtype", "dims"),
    [
        ((4, 8), "float32", (1,)),
        ((4, 40), "bfloat16", (1,)),
        ((4, 40), "int32", (1,)),
        ((40, 4), "float32", (0,)),
    ],
    ids=["short", "half", "integers", "columns"],
)
def test_left_to_xla(shape, dtype, dims):
    x = jax.ShapeDtypeStruct(shape, dtype)
    assert not loops(lambda x: _extremes.largest(x, dims), x)
    assert not loops(lambda x: _extremes.argmax(x, *dims, np.int32), x)


def test_places_beyond_what_float32_holds_are_left_to_xla():
    assert not loops(
        lambda x: _extremes.argmax(x, 0, np.int32), jax.ShapeDtypeStruct(((1 << 24) + 1,), np.float32)
    )
    assert loops(lambda x: _extremes.argmax(x, 0, np.int32), jax.ShapeDtypeStruct((1 << 24,), np.float32))


def test_other_platforms_have_xlas_own():
    traced = jax.jit(lambda x: (_extremes.largest(x, (1,)), _extremes.argmax(x, 1, np.int32))).trace(
        jnp.ones((4, 40))
    )
    text = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert "functorch_port" not in text
    assert "stablehlo.maximum" in text


def test_under_vmap_and_in_a_compiled_function():
    x = numbers((3, 4, 40), "float32", "nan")
    t = ft.tensor(x)
    for fn in (lambda t: t.amax(-1), lambda t: t.argmin(-1), lambda t: t.max(-1).values):
        want = fn(torch.tensor(x)).numpy()
        np.testing.assert_array_equal(ft.func.vmap(fn)(t).numpy(), want)
        np.testing.assert_array_equal(ft.compile(fn)(t).numpy(), want)
