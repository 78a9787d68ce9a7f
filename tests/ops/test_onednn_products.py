"""Products by oneDNN: PyTorch's numbers to any order, and all that JAX does with an operation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from by_onednn import agree, draw, run, sent_to
from counting import xla_compilations

import functorch_port as ft
from functorch_port.core import onednn
from functorch_port.ops import _product

pytestmark = pytest.mark.skipif(not onednn.available(), reason="needs oneDNN and llvmlite")


@pytest.fixture(autouse=True)
def everything_by_onednn(monkeypatch):
    monkeypatch.setattr(_product, "LEAST_OF_ONE", _product.LEAST)  # 2^27 multiply-adds would be slow tests
    with sent_to(monkeypatch, "plan_product"):
        yield


CASES = {
    "mm": (lambda T, a, b: T.mm(a, b), (128, 160), (160, 96)),
    "mm of a transpose": (lambda T, a, b: T.mm(a.t(), b), (160, 128), (160, 96)),
    "bmm": (lambda T, a, b: T.bmm(a, b), (8, 64, 96), (8, 96, 48)),
    "matmul, heads": (lambda T, a, b: a @ b.transpose(-1, -2), (2, 6, 64, 64), (2, 6, 72, 64)),
    "matmul by a matrix": (lambda T, a, b: a @ b, (4, 64, 128), (128, 64)),
    "addmm": (lambda T, c, a, b: T.addmm(c, a, b, beta=0.5, alpha=2), (96,), (128, 160), (160, 96)),
    "baddbmm": (lambda T, c, a, b: T.baddbmm(c, a, b), (8, 64, 48), (8, 64, 96), (8, 96, 48)),
    "linear": (lambda T, x, w, b: T.nn.functional.linear(x, w, b), (4, 64, 128), (96, 128), (96,)),
    "linear without bias": (lambda T, x, w: T.nn.functional.linear(x, w), (256, 128), (96, 128)),
}


@pytest.mark.parametrize("case", CASES)
def test_as_pytorch(case):
    fn, *shapes = CASES[case]
    arrays = [draw(shape, k) for k, shape in enumerate(shapes)]
    agree(*(run(T, fn, *arrays) for T in (ft, torch)))


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    def fn(T, q, k, v):
        return T.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    arrays = [draw((2, 4, 64, 64), k) for k in range(3)]
    slow = torch.nn.attention.SDPBackend.MATH  # the fast one has no second derivative
    with torch.nn.attention.sdpa_kernel(slow):
        theirs = run(torch, fn, *arrays)
    agree(run(ft, fn, *arrays), theirs)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("batch", [1, 6])
def test_transformations_of_jax(batch, left, right):
    a = jnp.asarray(draw((batch, 64, 64), 0))
    b = jnp.asarray(draw((batch, 64, 64), 1))
    how = {"left": left, "right": right, "precision": None}

    def ours(a, b):
        return _product._multiply_p.bind(a, b, **how)

    def plain(a, b):
        a, b = (jnp.swapaxes(x, 1, 2) if flip else x for x, flip in ((a, left), (b, right)))
        return a @ b

    both = [
        lambda f: jax.jit(f)(a, b),
        lambda f: jax.jvp(jax.jit(f), (a, b), (jnp.cos(a), jnp.sin(b)))[1],
        lambda f: jax.jit(jax.grad(lambda a, b: (f(a, b) ** 2).sum(), 0))(a, b),
        lambda f: jax.jit(jax.grad(lambda a, b: (f(a, b) ** 2).sum(), 1))(a, b),
        lambda f: jax.jit(jax.vmap(f, (0, None)))(jnp.stack([a, 2 * a]), b),
        lambda f: jax.jit(jax.vmap(jax.grad(lambda b, a: f(a, b).sum()), (None, 0)))(
            b, jnp.stack([a, 2 * a])
        ),
        lambda f: jax.jit(jax.grad(jax.checkpoint(lambda b: jnp.sin(f(a, b)).sum())))(b),
        lambda f: jax.lax.scan(lambda c, _: (f(c, b) * 0.1, None), a, None, 3)[0],
    ]
    for use in both:
        x, y = use(ours), use(plain)
        np.testing.assert_allclose(x, y, rtol=0, atol=2e-5 * float(jnp.abs(y).max()))


def test_other_platforms_have_xlas_product():
    x, w = jnp.asarray(draw((256, 128), 0)), jnp.asarray(draw((96, 128), 1))

    def value(fn):
        return jax.export.export(jax.jit(jax.grad(lambda w: fn(w).sum())), platforms=["tpu"])(w).mlir_module()

    step = jax.jit(jax.grad(lambda w: _product.multiply(x, w, transposed=True).sum()))
    assert "functorch_port.product" in step.lower(w).as_text()
    there = value(lambda w: _product.multiply(x, w, transposed=True))
    assert "functorch_port.product" not in there
    (line,) = (line for line in there.splitlines() if "stablehlo.dot_general" in line)
    assert "batching_dims" not in line


def test_equal_products_share_a_program():
    x = ft.tensor(draw((256, 128), 0))
    layers = [ft.nn.Linear(128, 64) for _ in range(4)]
    for layer in layers[:3]:  # what comes back often becomes one program
        layer(x).sum().backward()
    with xla_compilations() as compiled:
        layers[3](x).sum().backward()
    assert compiled == [0]


@pytest.mark.parametrize("precision", ["highest", "medium"])
def test_half_types_and_small_ones_stay_with_xla(precision):
    before = ft.get_float32_matmul_precision()
    ft.set_float32_matmul_precision(precision)
    try:
        a, b = ft.tensor(draw((128, 128), 0)), ft.tensor(draw((128, 128), 1))
        np.testing.assert_allclose((a @ b).numpy(), a.numpy() @ b.numpy(), rtol=0, atol=1e-4)
    finally:
        ft.set_float32_matmul_precision(before)
    for x, y in ((a.bfloat16(), b.bfloat16()), (a[:4, :4], b[:4, :4])):
        assert not by_onednn(x.shape, y.shape, x.jax().dtype)


def test_single_ones_are_larger(monkeypatch):
    assert by_onednn((128, 128), (128, 128))
    monkeypatch.undo()
    assert not by_onednn((512, 512), (512, 256))
    assert not by_onednn((2, 256, 512), (512, 256))
    assert by_onednn((512, 512), (512, 512))
    assert by_onednn((2, 256, 512), (512, 512))
    assert by_onednn((2, 256, 512), (2, 512, 256))


def by_onednn(x, y, dtype=np.float32):
    given = jax.ShapeDtypeStruct(x, dtype), jax.ShapeDtypeStruct(y, dtype)
    return (
        "functorch_port.product" in jax.jit(lambda *given: _product.multiply(*given)).lower(*given).as_text()
    )  # traced anew
