"""Every matrix product of a program has float32's precision, those inside of JAX's own functions and derivatives too.

A CPU computes all of them so; a GPU rounds to TF32 and a TPU to bfloat16 what does not ask for more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import functorch_port as ft

#: operations that multiply matrices, in themselves or in their derivatives
NAMES = (
    "matmul baddbmm cdist matrix_exp cholesky_solve ormqr linalg.cholesky linalg.det linalg.eig linalg.eigh "
    "linalg.lstsq linalg.lu_solve linalg.matrix_power linalg.multi_dot linalg.pinv linalg.qr linalg.solve_triangular "
    "linalg.svd nn.functional.linear nn.functional.conv2d nn.functional.conv_transpose2d "
    "nn.functional.scaled_dot_product_attention nn.functional.interpolate"
).split()
ENTRIES = {op.name: op for op in op_db if op.name in NAMES and op.supports_autograd}


def products(jaxpr: Any) -> Iterator[Any]:
    """The precision of every matrix product and convolution in a jaxpr, of all that it calls too."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in ("dot_general", "conv_general_dilated"):
            yield equation.params["precision"]
        for inner in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")
        ):
            if hasattr(inner, "jaxpr") or hasattr(inner, "eqns"):
                yield from products(getattr(inner, "jaxpr", inner))


def jaxpr_of(op: Any) -> Any:
    """The operation and its gradient on the first sample that has matrices."""
    sample = max(
        list(op.sample_inputs("cpu", torch.float32, requires_grad=True))[:6],
        key=lambda s: s.input.numel() if isinstance(s.input, torch.Tensor) else 1,
    )
    fn = ft
    for part in op.name.split("."):
        fn = getattr(fn, part)
    leaves, structure = jax.tree.flatten((sample.input, sample.args, sample.kwargs))
    where = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor) and x.is_floating_point()]
    others = [ft.tensor(x.detach().numpy()) if isinstance(x, torch.Tensor) else x for x in leaves]

    def total(*arrays: Any) -> Any:
        full = list(others)
        for i, a in zip(where, arrays, strict=True):
            full[i] = a
        first, args, kwargs = jax.tree.unflatten(structure, full)
        out = fn(first, *args, **kwargs)
        parts = [
            t
            for t in jax.tree.leaves(out, is_leaf=lambda t: isinstance(t, ft.Tensor))
            if isinstance(t, ft.Tensor)
        ]
        return sum(t.abs().sum() for t in parts if t.is_floating_point() or t.is_complex())

    def both(*arrays: Any) -> Any:
        tensors = [ft.from_jax(a) for a in arrays]
        grads = ft.func.grad(total, argnums=tuple(range(len(tensors))))(*tensors)
        return [g.jax() for g in grads]

    return jax.make_jaxpr(both)(*[jax.numpy.asarray(leaves[i].detach().numpy()) for i in where])


@pytest.mark.parametrize("name", list(ENTRIES))
def test_as_precise_as_float32(name: str) -> None:
    seen = list(products(jaxpr_of(ENTRIES[name]).jaxpr))
    highest = (jax.lax.Precision.HIGHEST, jax.lax.Precision.HIGHEST)
    assert all(precision in (highest, jax.lax.Precision.HIGHEST) for precision in seen), seen


def test_there_are_products() -> None:
    """So that the test above looks at something."""
    counts = [
        len(list(products(jaxpr_of(ENTRIES[n]).jaxpr))) for n in ("matmul", "linalg.pinv", "linalg.eigh")
    ]
    assert all(counts), counts


def test_less_where_it_is_asked_for() -> None:
    ft.set_float32_matmul_precision("medium")
    try:
        seen = list(products(jaxpr_of(ENTRIES["linalg.eigh"]).jaxpr))
    finally:
        ft.set_float32_matmul_precision("highest")
    assert seen and all(p in (None, (jax.lax.Precision.DEFAULT,) * 2) for p in seen), seen
