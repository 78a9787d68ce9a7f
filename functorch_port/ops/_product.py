"""Products of matrices, as XLA computes them or oneDNN: a primitive whose derivatives are primitives of its kind."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad

from ..core import config, onednn
from ..core.onednn import Product

__all__ = ["multiply"]

#: multiply-adds below which the way to oneDNN costs more than it gains
LEAST = 1 << 20


def multiply(a: jax.Array, b: jax.Array, transposed: bool = False, wide: Any = None) -> jax.Array:
    """``a @ b``, or with ``transposed`` that of ``b`` with its last two dimensions swapped.

    It is oneDNN's in programs for a CPU, where that is installed and faster.

    Args:
        a, b: of one dtype.
        wide: the dtype to accumulate in, and of the result; by default theirs.
    """
    if _suits_onednn(a, b, transposed):
        lead = a.shape[:-1] if b.ndim == 2 else a.shape[:-2]
        batch, rows = (1, prod(lead)) if b.ndim == 2 else (prod(lead), a.shape[-2])
        x, y = a.reshape(batch, rows, a.shape[-1]), b.reshape(batch, *b.shape[-2:])
        out = _multiply_p.bind(x, y, left=False, right=transposed, precision=config.matmul_precision())
        return out.reshape(*a.shape[:-1], out.shape[-1])
    if transposed and b.ndim == 2:
        how: Any = (((a.ndim - 1,), (1,)), ((), ()))
        return lax.dot_general(a, b, how, config.matmul_precision(), wide)
    b = jnp.swapaxes(b, -1, -2) if transposed else b
    return jnp.matmul(a, b, precision=config.matmul_precision(), preferred_element_type=wide)


def _suits_onednn(a: Any, b: Any, transposed: bool) -> bool:
    return (
        min(a.ndim, b.ndim) > 1
        and (b.ndim == 2 or a.shape[:-2] == b.shape[:-2])
        and prod(a.shape) * b.shape[-2 if transposed else -1] >= LEAST
        and onednn.takes(a, b)
    )


def _by_xla(a: Any, b: Any, *, left: bool, right: bool, precision: Any) -> jax.Array:
    if len(a) == 1:
        return lax.dot_general(a[0], b[0], (((1 - left,), (int(right),)), ((), ())), precision)[None]
    return lax.dot_general(a, b, (((2 - left,), (1 + right,)), ((0,), (0,))), precision)


#: Of (batch, rows, inner) and (batch, inner, columns), ``left`` and ``right`` with the last two swapped.
_multiply_p = Primitive("multiply")


def _sizes(a: Any, b: Any, left: bool, right: bool) -> tuple[int, int, int]:
    """Rows, inner and columns."""
    (first, second), other = a.shape[1:], b.shape[1 if right else 2]
    return (second, first, other) if left else (first, second, other)


@_multiply_p.def_abstract_eval
def _shape(a: Any, b: Any, *, left: bool, right: bool, precision: Any) -> Any:
    rows, _, columns = _sizes(a, b, left, right)
    return jax.core.ShapedArray((a.shape[0], rows, columns), a.dtype)


def _to_left(slope: Any, a: Any, b: Any, *, left: bool, right: bool, precision: Any) -> Any:
    bind = partial(_multiply_p.bind, precision=precision)
    return bind(b, slope, left=right, right=True) if left else bind(slope, b, left=False, right=not right)


def _to_right(slope: Any, a: Any, b: Any, *, left: bool, right: bool, precision: Any) -> Any:
    bind = partial(_multiply_p.bind, precision=precision)
    return bind(slope, a, left=True, right=left) if right else bind(a, slope, left=not left, right=False)


ad.defbilinear(_multiply_p, _to_left, _to_right)


def _plan(a: Any, b: Any, *, left: bool, right: bool, precision: Any) -> Any:
    return onednn.plan_product(Product(a.shape[0], *_sizes(a, b, left, right), left, right))


onednn.define(_multiply_p, _by_xla, _plan)
