"""The matrix product, as a primitive whose derivatives are primitives of the same kind."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad

from .._base import config, lowering

__all__ = ["multiply", "multiply_p", "sizes"]


def multiply(
    a: jax.Array, b: jax.Array, transposed: bool = False, wide: Any = None, precision: Any = None
) -> jax.Array:
    """``a @ b``, or ``a @ b.mT`` if ``transposed``.

    Args:
        a, b: the matrices, of one dtype.
        wide: the dtype of the accumulator and the result; by default theirs.
        precision: by default that of ``set_float32_matmul_precision``.
    """
    precision = config.matmul_precision() if precision is None else precision
    if _is_batched(a, b) and lowering.has_way(multiply_p, a, b, transposed):
        if b.ndim == 2:
            x, y = a.reshape(-1, a.shape[-1]), b
        else:
            x, y = (v.reshape(-1, *v.shape[-2:]) for v in (a, b))
        out = multiply_p.bind(x, y, left=False, right=transposed, precision=precision)
        return out.reshape(*a.shape[:-1], out.shape[-1])
    if a.ndim and a.shape[-1] == 1 and a.dtype in (np.float32, np.float64):
        return not_merged_p.bind(_by_dot(a, b, transposed, wide, precision))
    return _by_dot(a, b, transposed, wide, precision)


def _by_dot(a: jax.Array, b: jax.Array, transposed: bool, wide: Any, precision: Any) -> jax.Array:
    if transposed and b.ndim == 2:
        how: Any = (((a.ndim - 1,), (1,)), ((), ()))
        return lax.dot_general(a, b, how, precision, wide)
    b = jnp.swapaxes(b, -1, -2) if transposed else b
    return jnp.matmul(a, b, precision=precision, preferred_element_type=wide)


def _is_batched(a: Any, b: Any) -> bool:
    """Whether this is one product, or a batch of products of equal shapes."""
    return min(a.ndim, b.ndim) >= 2 and (b.ndim == 2 or a.shape[:-2] == b.shape[:-2])


def _by_xla(a: Any, b: Any, *, left: bool, right: bool, precision: Any) -> jax.Array:
    first = a.ndim - 2
    batch = tuple(range(first))
    return lax.dot_general(a, b, (((first + 1 - left,), (first + int(right),)), (batch, batch)), precision)


#: Of (rows, inner) and (inner, columns), or of a batch of each; ``left`` and ``right`` with the last two swapped.
multiply_p = Primitive("multiply")


def sizes(a: Any, b: Any, left: bool, right: bool) -> tuple[int, int, int]:
    """The numbers of rows, of inner elements and of columns."""
    (first, second), other = a.shape[-2:], b.shape[-2 if right else -1]
    return (second, first, other) if left else (first, second, other)


@multiply_p.def_abstract_eval
def _shape(a: Any, b: Any, *, left: bool, right: bool, precision: Any) -> Any:
    rows, _, columns = sizes(a, b, left, right)
    return jax.core.ShapedArray((*a.shape[:-2], rows, columns), a.dtype)


def _to_left(slope: Any, a: Any, b: Any, *, left: bool, right: bool, precision: Any) -> Any:
    bind = partial(multiply_p.bind, precision=precision)
    return bind(b, slope, left=right, right=True) if left else bind(slope, b, left=False, right=not right)


def _to_right(slope: Any, a: Any, b: Any, *, left: bool, right: bool, precision: Any) -> Any:
    bind = partial(multiply_p.bind, precision=precision)
    return bind(slope, a, left=True, right=left) if right else bind(a, slope, left=not left, right=False)


ad.defbilinear(multiply_p, _to_left, _to_right)


lowering.define(multiply_p, _by_xla)


#: Rounds products of single numbers: XLA would fuse ``a * b - c`` and not round the product. If attention puts all
#: weight on one key, its derivative is ``g - g``, which must be 0; with heads of size 1, ``g`` is such a product. It is
#: a primitive since its formula, a choice, has no transpose.
not_merged_p = Primitive("not_merged")
not_merged_p.def_abstract_eval(lambda x: x)
ad.deflinear(not_merged_p, lambda slope: [not_merged_p.bind(slope)])


def _chosen(x: jax.Array) -> jax.Array:
    return jnp.where(x != x, jnp.asarray(jnp.nan, x.dtype), x)


lowering.define(not_merged_p, _chosen)
