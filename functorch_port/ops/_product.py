"""Products of matrices, as XLA computes them or oneDNN: a primitive whose derivatives are primitives of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, mlir

from .._base import config
from .._base import lowering as primitives
from .._cpu.native import onednn, products
from .._cpu.native.onednn import Product

__all__ = ["multiply"]

#: multiply-adds below which the way to oneDNN costs more than it gains
LEAST = 1 << 20
#: multiply-adds, and rows, from which on a smaller product is one of `_cpu.native.products`
LEAST_SMALL, LEAST_ROWS = 1 << 12, 4


def multiply(a: jax.Array, b: jax.Array, transposed: bool = False, wide: Any = None) -> jax.Array:
    """``a @ b``, or with ``transposed`` that of ``b`` with its last two dimensions swapped.

    In programs for a CPU it is oneDNN's, or a small one of `_cpu.native.products`, where that is installed and faster.

    Args:
        a, b: of one dtype.
        wide: the dtype to accumulate in, and of the result; by default theirs.
    """
    if _is_ours(a, b, transposed):
        if b.ndim == 2:
            x, y = a.reshape(-1, a.shape[-1]), b
        else:
            x, y = (v.reshape(-1, *v.shape[-2:]) for v in (a, b))
        out = _multiply_p.bind(x, y, left=False, right=transposed, precision=config.matmul_precision())
        return out.reshape(*a.shape[:-1], out.shape[-1])
    if a.ndim and a.shape[-1] == 1 and a.dtype in (np.float32, np.float64):
        return _rounded_p.bind(_by_dot(a, b, transposed, wide))
    return _by_dot(a, b, transposed, wide)


def _by_dot(a: jax.Array, b: jax.Array, transposed: bool, wide: Any) -> jax.Array:
    if transposed and b.ndim == 2:
        how: Any = (((a.ndim - 1,), (1,)), ((), ()))
        return lax.dot_general(a, b, how, config.matmul_precision(), wide)
    b = jnp.swapaxes(b, -1, -2) if transposed else b
    return jnp.matmul(a, b, precision=config.matmul_precision(), preferred_element_type=wide)


def _is_ours(a: Any, b: Any, transposed: bool) -> bool:
    if min(a.ndim, b.ndim) < 2 or (b.ndim > 2 and a.shape[:-2] != b.shape[:-2]):
        return False
    work = prod(a.shape) * b.shape[-2 if transposed else -1]
    if work >= LEAST:
        return onednn.takes(a, b)
    return b.ndim == 2 and _is_small(prod(a.shape[:-1]), work) and products.takes(a, b)


def _is_small(rows: int, work: int) -> bool:
    return LEAST_SMALL <= work < LEAST and rows >= LEAST_ROWS


def _by_xla(a: Any, b: Any, *, left: bool, right: bool, precision: Any) -> jax.Array:
    first = a.ndim - 2
    batch = tuple(range(first))
    return lax.dot_general(a, b, (((first + 1 - left,), (first + int(right),)), (batch, batch)), precision)


#: Of (rows, inner) and (inner, columns), or of a batch of each; ``left`` and ``right`` with the last two swapped.
_multiply_p = Primitive("multiply")


def _sizes(a: Any, b: Any, left: bool, right: bool) -> tuple[int, int, int]:
    """Rows, inner and columns."""
    (first, second), other = a.shape[-2:], b.shape[-2 if right else -1]
    return (second, first, other) if left else (first, second, other)


@_multiply_p.def_abstract_eval
def _shape(a: Any, b: Any, *, left: bool, right: bool, precision: Any) -> Any:
    rows, _, columns = _sizes(a, b, left, right)
    return jax.core.ShapedArray((*a.shape[:-2], rows, columns), a.dtype)


def _to_left(slope: Any, a: Any, b: Any, *, left: bool, right: bool, precision: Any) -> Any:
    bind = partial(_multiply_p.bind, precision=precision)
    return bind(b, slope, left=right, right=True) if left else bind(slope, b, left=False, right=not right)


def _to_right(slope: Any, a: Any, b: Any, *, left: bool, right: bool, precision: Any) -> Any:
    bind = partial(_multiply_p.bind, precision=precision)
    return bind(slope, a, left=True, right=left) if right else bind(a, slope, left=not left, right=False)


ad.defbilinear(_multiply_p, _to_left, _to_right)


def _on_cpu(avals: Sequence[Any], results: Sequence[Any], *, left: bool, right: bool, precision: Any) -> Any:
    (result,) = results

    def rule(context: Any, *operands: Any) -> Any:
        (a, of_a, flipped_a), (b, of_b, flipped_b) = map(_behind_transpose, operands, avals)
        sizes = _sizes(avals[0], avals[1], left, right)
        given = (*sizes, left != flipped_a, right != flipped_b)
        batch = prod(result.shape[:-2])
        if batch == 1 and prod(sizes) < LEAST:
            planned = products.plan(*given)
        else:
            planned = onednn.plan_product(Product(batch, *given))

        def product(x: jax.Array, y: jax.Array) -> jax.Array:
            flips = (flipped_a, flipped_b)
            shapes = (_swapped(v.shape) if f else v.shape for v, f in zip(avals, flips, strict=True))
            return onednn.call(planned, result.shape, *map(jnp.reshape, (x, y), shapes))

        lower = mlir.lower_fun(product, multiple_results=False)
        return lower(context.replace(avals_in=[of_a, of_b]), a, b)

    return rule


def _swapped(shape: Sequence[int]) -> tuple[int, ...]:
    *batch, rows, columns = shape
    return *batch, columns, rows


def _behind_transpose(value: Any, aval: Any) -> tuple[Any, Any, bool]:
    """What is transposed, in the program that is being written, to make this value of (..., rows, columns): oneDNN
    takes it as it is. Then its value, its aval, and whether it is that. ``q @ k.mT`` of (24, 256, 64) takes 1.0 ms, and
    2.4 with a copy.
    """
    maker = _maker(value, "stablehlo.reshape")
    source = maker.operands[0] if maker else value
    shape, flipped = source.type.shape, False
    if shape[-2:] != list(aval.shape[-2:]):
        return value, aval, False
    last = len(shape) - 1
    while maker := _maker(source, "stablehlo.transpose"):
        if list(maker.attributes["permutation"]) != [*range(last - 1), last, last - 1]:
            break
        source, flipped = maker.operands[0], not flipped
    return source, jax.core.ShapedArray(tuple(source.type.shape), aval.dtype), flipped


def _maker(value: Any, name: str) -> Any:
    """The operation that makes a value, if it is called so; it has none if it is an argument."""
    owner = value.owner
    return owner if getattr(owner, "name", "") == name else None


primitives.define(_multiply_p, _by_xla, _on_cpu, each=True)


# ------------------------------------------------------------------ products of one number each

#: What it is given, rounded, in programs for a CPU: XLA would compute ``a * b - c`` in one there, and not round the
#: product. Where all the weight of attention is on one place its derivative is ``g - g``, and with heads of one number
#: ``g`` is a product: it has to be 0.
_rounded_p = Primitive("rounded")
_rounded_p.def_abstract_eval(lambda x: x)
ad.deflinear2(_rounded_p, lambda slope, x: [slope])


def _not_merged(x: jax.Array) -> jax.Array:
    return jnp.where(x != x, jnp.asarray(jnp.nan, x.dtype), x)


primitives.define(
    _rounded_p, lambda x: x, lambda avals, results: mlir.lower_fun(_not_merged, multiple_results=False)
)
