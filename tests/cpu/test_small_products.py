"""Small products by machine code of our own: the numbers of every shape, and all that JAX does with an operation."""

from __future__ import annotations

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from by_onednn import agree, agree_transformed, draw, run

import functorch_port as ft
from functorch_port._base import lowering
from functorch_port._cpu.native import ffi, onednn, products
from functorch_port.ops import _product

pytestmark = pytest.mark.skipif(not ffi.available(), reason="needs llvmlite")

NAME = "functorch_port.small_product"


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [
        (16, 64, 64),
        (16, 64, 10),
        (1, 5, 3),
        (7, 33, 17),
        (15, 16, 16),
        (19, 100, 50),
        (3, 1, 40),
        (2, 700, 8),
    ],
    ids=str,
)
def test_every_shape(monkeypatch, rows, inner, columns, left, right, lanes):
    """With the vectors of other processors too, which LLVM makes of the ones that there are."""
    monkeypatch.setattr(ffi, "lanes", lambda: lanes)
    a = draw((inner, rows) if left else (rows, inner), 0)
    b = draw((columns, inner) if right else (inner, columns), 1)
    planned = products.plan(rows, inner, columns, left, right)
    given = jax.jit(lambda *given: onednn.call(planned, (rows, columns), *given))(a, b)
    x, y = (a.T if left else a).astype(np.float64), (b.T if right else b).astype(np.float64)
    assert np.max(np.abs(given - x @ y) / (np.abs(x) @ np.abs(y))) < 1e-6


CASES = {
    "mm": (lambda T, a, b: T.mm(a, b), (12, 30), (30, 18)),
    "mm of a transpose": (lambda T, a, b: T.mm(a.t(), b), (30, 12), (30, 18)),
    "matmul by a matrix": (lambda T, a, b: a @ b, (2, 8, 30), (30, 18)),
    "addmm": (lambda T, c, a, b: T.addmm(c, a, b, beta=0.5, alpha=2), (18,), (12, 30), (30, 18)),
    "linear": (lambda T, x, w, b: T.nn.functional.linear(x, w, b).relu(), (2, 8, 30), (18, 30), (18,)),
    "linear without bias": (lambda T, x, w: T.nn.functional.linear(x, w), (16, 30), (18, 30)),
}


@pytest.mark.parametrize("case", CASES)
def test_as_pytorch(case):
    """Values, gradients, and those of a function of the gradients."""
    fn, *shapes = CASES[case]
    arrays = [draw(shape, k) for k, shape in enumerate(shapes)]
    agree(*(run(T, fn, *arrays) for T in (ft, torch)))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_transformations_of_jax(left, right):
    a, b = jnp.asarray(draw((24, 24), 0)), jnp.asarray(draw((24, 24), 1))

    def ours(a, b):
        return _product.multiply_p.bind(a, b, left=left, right=right, precision=None)

    def plain(a, b):
        a, b = (x.T if flip else x for x, flip in ((a, left), (b, right)))
        return a @ b

    lowering.ready()  # as an operation asks for it, which is left out here
    assert NAME in jax.jit(ours).lower(a, b).as_text()
    agree_transformed(ours, plain, a, b)


def test_a_training_step_has_them_only_on_a_cpu():
    model = ft.nn.Sequential(ft.nn.Linear(32, 24), ft.nn.Tanh(), ft.nn.Linear(24, 16))

    @ft.compile
    def step(x):
        loss = model(x).square().mean()
        loss.backward()
        return loss

    step(ft.randn(12, 32))
    (program,) = step.programs()
    words = re.findall(r"small_product.*?words = dense<\[(.*?)\]>", program.lower().as_text())
    called = {each.replace(", ", ".") for each in words}
    forward, weights, input = (
        {"12.32.24.0.1", "12.24.16.0.1"},
        {"24.12.32.1.0", "16.12.24.1.0"},
        {"12.16.24.0.0"},
    )
    assert called == forward | weights | input
    there = program.lower(("tpu",)).as_text()
    assert NAME not in there
    assert there.count("stablehlo.dot_general") == 5


def test_which_are_small():
    def by_us(x, y, dtype=np.float32):
        given = jax.ShapeDtypeStruct(x, dtype), jax.ShapeDtypeStruct(y, dtype)
        return NAME in jax.jit(partial(_product.multiply)).lower(*given).as_text()

    assert by_us((16, 16), (16, 16))
    assert by_us((2, 8, 16), (16, 16))
    assert not by_us((16, 16), (16, 15))
    assert not by_us((3, 64), (64, 64))
    assert not by_us((2, 16, 16), (2, 16, 16))
    assert not by_us((128, 128), (128, 64))
    assert not by_us((16, 16), (16, 16), np.float16)
