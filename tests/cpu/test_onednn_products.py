"""Products by oneDNN: PyTorch's numbers to any order, and all that JAX does with an operation."""

from __future__ import annotations

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from by_onednn import agree, agree_transformed, draw, run, sent_to
from counting import xla_compilations

import functorch_port as ft
from functorch_port._cpu.native import onednn
from functorch_port.ops import _product

pytestmark = pytest.mark.skipif(not onednn.available(), reason="needs oneDNN and llvmlite")

_plan_product = onednn.plan_product  # tests have another in its place


@pytest.fixture(autouse=True)
def everything_by_onednn(monkeypatch):
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
    side = 128 if batch == 1 else 64
    a = jnp.asarray(draw((batch, side, side), 0))
    b = jnp.asarray(draw((batch, side, side), 1))
    how = {"left": left, "right": right, "precision": None}

    def ours(a, b):
        return _product.multiply_p.bind(a, b, **how)

    def plain(a, b):
        a, b = (jnp.swapaxes(x, 1, 2) if flip else x for x, flip in ((a, left), (b, right)))
        return a @ b

    agree_transformed(ours, plain, a, b)


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


def test_small_ones_stay_with_xla():
    assert by_onednn((128, 128), (128, 64))
    assert not by_onednn((128, 128), (128, 63))
    assert by_onednn((2, 64, 128), (2, 128, 64))
    assert not by_onednn((2, 63, 128), (2, 128, 64))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize(
    ("batch", "rows", "inner", "columns"),
    [
        (1, 1031, 40, 37),
        (1, 37, 40, 1031),
        (2, 1536, 24, 40),  # transposes are copied
        (3, 210, 111, 90),
        (5, 64, 64, 64),
        (1, 1, 70_000, 17),
        (1, 9, 130_000, 1),
        (1, 37, 300, 1031),  # deep enough for oneDNN's matmul where the second one is transposed
        (1, 1031, 300, 37),
        (9, 40, 48, 56),
    ],
    ids=str,
)
def test_parts_make_the_whole(monkeypatch, tuned, batch, rows, inner, columns, left, right):
    """Uneven ones too, of rows or columns, and with more cores than there are."""
    monkeypatch.setattr(onednn, "cores", lambda: 7)
    tuned(product_part=1)
    _plan_product.cache_clear()
    a = draw((batch, inner, rows) if left else (batch, rows, inner), 0)
    b = draw((batch, columns, inner) if right else (batch, inner, columns), 1)
    given = jax.jit(partial(_product.multiply_p.bind, left=left, right=right, precision=None))(a, b)
    x, y = (np.swapaxes(a, 1, 2) if left else a), (np.swapaxes(b, 1, 2) if right else b)
    wanted = x.astype(np.float64) @ y.astype(np.float64)
    scale = np.abs(x.astype(np.float64)) @ np.abs(y.astype(np.float64))  # what rounding is relative to
    assert np.max(np.abs(given - wanted) / scale) < 1e-6
    _plan_product.cache_clear()


TRANSPOSED = {
    "the second": (lambda a, b: a @ b.mT, True),
    "the first": (lambda a, b: a.mT @ b, True),
    "both": (lambda a, b: a.mT @ b.transpose(-1, -2), True),
    "of another's result": (lambda a, b: a @ (2 * b).mT, True),
    "for another too": (lambda a, b: (a @ b.mT) * b.mT, False),
    "back": (lambda a, b: a @ b.mT.mT, True),
}


@pytest.mark.parametrize("case", TRANSPOSED)
@pytest.mark.parametrize("batch", [(), (6,), (2, 3)], ids=str)
def test_transposes_are_not_copied(case, batch):
    fn, never = TRANSPOSED[case]
    a, b = (draw((*batch, 128, 128), k) for k in range(2))
    step = ft.compile(ft.no_grad()(fn))
    wanted = fn(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    np.testing.assert_allclose(step(ft.tensor(a), ft.tensor(b)).numpy(), wanted, rtol=0, atol=1e-4)
    text = step.programs()[0].lower().compile().as_text()
    text = re.sub("metadata={.*?}", "", text[text.index("ENTRY") :])
    assert "functorch_port.product" in text
    assert ("transpose" in text or "copy" in text) != never


def by_onednn(x, y, dtype=np.float32):
    given = jax.ShapeDtypeStruct(x, dtype), jax.ShapeDtypeStruct(y, dtype)
    return (
        "functorch_port.product" in jax.jit(lambda *given: _product.multiply(*given)).lower(*given).as_text()
    )  # traced anew
