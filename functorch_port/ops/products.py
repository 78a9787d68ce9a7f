"""Products of vectors and matrices."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array.fits import ALPHA, FACTOR, OWN
from .._base import config
from .._base.promotion import cast, promote
from .._run import bind
from .._run.registry import Array, Scalar, TensorOnly, TensorsOnly, composite, op
from .._tensor.tensor import Tensor
from ._common import (
    broadcast_shapes,
    c_name,
    check_expand,
    compute,
    is_inexact,
    not_implemented,
    rounded_once,
    type_name,
    wide,
    wrap_dim,
)
from .arithmetic import check_factor
from .distance import length_of


def product(a: jax.Array, b: jax.Array, transposed: bool = False, precision: Any = None) -> jax.Array:
    """``a @ b`` (``a @ b.mT`` if ``transposed``) of equal dtypes.

    Half precision accumulates in float32; float32 has the precision of ``set_float32_matmul_precision``, or the one
    given.
    """
    return _wide_product(a, b, transposed, precision).astype(a.dtype)


def _shape_text(x: jax.Array) -> str:
    return "x".join(map(str, x.shape))


def _check_types(name: str, a: jax.Array, b: jax.Array) -> None:
    if a.dtype != b.dtype:
        if name in ("dot", "vdot"):
            raise RuntimeError(
                f"dot : expected both vectors to have same dtype, but found {type_name(a)} and {type_name(b)}"
            )
        if name == "bmm":
            raise RuntimeError(f"expected scalar type {type_name(a)} but found {type_name(b)}")
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {c_name(a)} != {c_name(b)}")
    if a.dtype.kind == "b":
        kernel = {"dot": "dot", "vdot": "vdot", "bmm": "baddbmm_cpu"}.get(name, "addmm_impl_cpu_")
        raise NotImplementedError(f"\"{kernel}\" not implemented for 'Bool'")


def _check_mm(a: jax.Array, b: jax.Array) -> None:
    if a.shape[-1] != b.shape[-2]:
        rows = math.prod(a.shape[:-1])
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})"
        )


def _check_mv(matrix: jax.Array, vector: jax.Array) -> None:
    if matrix.shape[-1] != vector.shape[0]:
        rows = math.prod(matrix.shape[:-1])
        raise RuntimeError(
            f"size mismatch, got input ({rows}), mat ({rows}x{matrix.shape[-1]}), vec ({vector.shape[0]})"
        )


def _check_dot(a: jax.Array, b: jax.Array) -> None:
    if a.shape != b.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{a.size}] and src [{b.size}] to have the same number of "
            f"elements, but got {a.size} and {b.size} elements respectively"
        )


def _check_bmm(a: jax.Array, b: jax.Array) -> None:
    if b.shape[:2] != (a.shape[0], a.shape[2]):
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, {a.shape[2]}] but got: "
            f"[{b.shape[0]}, {b.shape[1]}]."
        )


@op(where="torch method linalg", node="MmBackward0")
def matmul(input: TensorOnly, other: TensorOnly):
    """The matrix product, or batches of it; a vector is a row on the left, and a column on the right."""
    if 0 in (input.ndim, other.ndim):
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {input.ndim}D and {other.ndim}D"
        )
    check_matmul(input, other)
    _check_types(
        "dot" if input.ndim == other.ndim == 1 else "bmm" if min(input.ndim, other.ndim) > 2 else "mm",
        input,
        other,
    )
    return product(input, other)


def _matmul_dunder(name: str, swap: bool) -> None:
    """The operator ``@``, which returns NotImplemented for numbers and other operands that are no arrays."""

    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(other, Tensor):
            if isinstance(other, int | float | complex):
                return NotImplemented
            self, other = bind.beside(self, other, name)
            if not isinstance(other, Tensor):
                return NotImplemented
        return bind.function("matmul")(other, self) if swap else bind.function("matmul")(self, other)

    method.__name__ = method.__qualname__ = name
    composite(name, where="method")(method)


_matmul_dunder("__matmul__", swap=False)


_matmul_dunder("__rmatmul__", swap=True)


def check_matmul(a: jax.Array, b: jax.Array) -> None:
    if a.ndim == 1 and b.ndim == 1:
        _check_dot(a, b)
    elif b.ndim == 1:
        _check_mv(a, b)
    elif a.ndim <= 2 or b.ndim <= 2:
        _check_mm(a if a.ndim > 1 else a[None], b)
    else:
        broadcast_shapes(a.shape[:-2], b.shape[:-2])
        if a.shape[-1] != b.shape[-2]:
            count = math.prod(broadcast_shapes(a.shape[:-2], b.shape[:-2]))
            raise RuntimeError(
                f"Expected size for first two dimensions of batch2 tensor to be: [{count}, {a.shape[-1]}] but got: "
                f"[{count}, {b.shape[-2]}]."
            )


@op()
def mm(input: TensorOnly, mat2: TensorOnly):
    """The product of two matrices."""
    for name, x in (("self", input), ("mat2", mat2)):
        if x.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix")
    _check_mm(input, mat2)
    _check_types("mm", input, mat2)
    return product(input, mat2)


@op()
def bmm(input: TensorOnly, mat2: TensorOnly):
    """The products of two batches of matrices."""
    for name, x in (("batch1", input), ("batch2", mat2)):
        if x.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    _check_bmm(input, mat2)
    _check_types("bmm", input, mat2)
    return product(input, mat2)


@op()
def mv(input: TensorOnly, vec: TensorOnly):
    """The product of a matrix and a vector."""
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {input.ndim}, {vec.ndim}")
    _check_mv(input, vec)
    _check_types("mv", input, vec)
    return product(input, vec)


@op()
def dot(input: TensorOnly, tensor: TensorOnly):
    """The inner product of two vectors."""
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    _check_types("dot", input, tensor)
    _check_dot(input, tensor)
    return product(input, tensor)


@op()
def vdot(input: TensorOnly, other: TensorOnly):
    """The inner product of two vectors, the first one conjugated."""
    return dot(jnp.conj(input), other)


_FACTORS = {"beta": FACTOR, "alpha": FACTOR}


def _scale(x: jax.Array, factor: Any) -> jax.Array:
    """``factor * x``, and ``x`` itself for a plain 1."""
    return x if isinstance(factor, int) and factor == 1 else x * cast(factor, x.dtype)


def _plus_product(
    input: jax.Array, result: jax.Array, beta: Any, alpha: Any, out: np.dtype[Any]
) -> jax.Array:
    """``beta * input + alpha * result`` in the wide dtype; if ``beta`` is 0, input is ignored, nan too."""
    check_expand(input.shape, result.shape)
    scaled = _scale(result, alpha)
    if isinstance(beta, (int, float)) and beta == 0:
        return scaled.astype(out)
    own = _scale(input.astype(result.dtype), beta)
    if not isinstance(beta, (int, float)):
        own = jnp.where(beta == 0, jnp.zeros((), own.dtype), own)
    return (own + scaled).astype(out)


def _wide_product(a: jax.Array, b: jax.Array, transposed: bool = False, precision: Any = None) -> jax.Array:
    from ._product import multiply

    return multiply(a, b, transposed, wide(a.dtype), precision)


def _check_self_type(input: jax.Array, mat: jax.Array) -> None:
    if input.dtype != mat.dtype:
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {type_name(input)} and {type_name(mat)}"
        )


@op(inplace=True, fits=_FACTORS)
def addmm(input: TensorOnly, mat1: TensorOnly, mat2: TensorOnly, *, beta: Scalar = 1, alpha: Scalar = 1):
    """``beta * input + alpha * mat1 @ mat2``."""
    for name, x in (("mat1", mat1), ("mat2", mat2)):
        if x.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {x.ndim}-D tensor")
    _check_mm(mat1, mat2)
    _check_types("mm", mat1, mat2)
    _check_self_type(input, mat2)
    return _plus_product(input, _wide_product(mat1, mat2), beta, alpha, mat1.dtype)


@op(inplace=True, fits={"beta": OWN, "alpha": OWN})
def addmv(input: TensorOnly, mat: Array, vec: TensorOnly, *, beta: Scalar = 1, alpha: Scalar = 1):
    """``beta * input + alpha * mat @ vec``."""
    if mat.ndim != 2 or vec.ndim != 1 or input.ndim > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {input.ndim}, {mat.ndim}, {vec.ndim}")
    if mat.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({input.size}), mat ({_shape_text(mat)}), vec ({vec.shape[0]})"
        )
    _check_types("mv", mat, vec)
    return _plus_product(input, _wide_product(mat, vec), beta, alpha, mat.dtype)


@op(inplace=True, fits=_FACTORS)
def addbmm(input: TensorOnly, batch1: TensorOnly, batch2: TensorOnly, *, beta: Scalar = 1, alpha: Scalar = 1):
    """``beta * input + alpha * bmm(batch1, batch2).sum(0)``."""
    _check_batches(batch1, batch2)
    summed = jnp.einsum(
        "bij,bjk->ik",
        batch1,
        batch2,
        precision=config.matmul_precision(),
        preferred_element_type=wide(batch1.dtype),
    )
    return _plus_product(input, summed, beta, alpha, batch1.dtype)


@op(inplace=True, fits=_FACTORS)
def baddbmm(
    input: TensorOnly, batch1: TensorOnly, batch2: TensorOnly, *, beta: Scalar = 1, alpha: Scalar = 1
):
    """``beta * input + alpha * bmm(batch1, batch2)``."""
    _check_batches(batch1, batch2)
    return _plus_product(input, _wide_product(batch1, batch2), beta, alpha, batch1.dtype)


def _check_batches(batch1: jax.Array, batch2: jax.Array) -> None:
    for name, x in (("batch1", batch1), ("batch2", batch2)):
        if x.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    _check_bmm(batch1, batch2)
    _check_types("bmm", batch1, batch2)


@op(inplace=True, fits={"beta": ALPHA, "alpha": ALPHA})
def addr(input: TensorOnly, vec1: TensorOnly, vec2: TensorOnly, *, beta: Scalar = 1, alpha: Scalar = 1):
    """``beta * input + alpha * outer(vec1, vec2)``."""
    for name, x in (("vec1", vec1), ("vec2", vec2)):
        if x.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {x.ndim}-D")
    x, a, b = promote(input, vec1, vec2)
    check_factor(beta, x, name="beta")
    check_factor(alpha, x)
    product = compute(lambda a, b: a[:, None] * b, wide(x.dtype), a, b)
    return _plus_product(x, product, beta, alpha, x.dtype)


@op("outer", "ger", node="MulBackward0")
def outer(input: TensorOnly, vec2: TensorOnly):
    """The outer product of two vectors."""
    for name, x in (("self", input), ("vec2", vec2)):
        if x.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {x.ndim}-D")
    a, b = promote(input, vec2)
    return compute(lambda a, b: a[:, None] * b, a.dtype, a, b)


@op(node="ViewBackward0")
def inner(input: TensorOnly, other: TensorOnly):
    """Inner products along the last dimensions of both tensors."""
    if 0 in (input.ndim, other.ndim):
        return jnp.multiply(*promote(input, other))
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and "
            f"{list(other.shape)}"
        )
    _check_types("mm", input, other)
    axes = ((input.ndim - 1,), (other.ndim - 1,))
    return _contract(input, other, axes)


def _contract(a: jax.Array, b: jax.Array, axes: Any) -> jax.Array:
    out = jnp.tensordot(a, b, axes, precision=config.matmul_precision(), preferred_element_type=wide(a.dtype))
    return out.astype(a.dtype)


@op(where="torch", node="ViewBackward0")
def tensordot(a: TensorOnly, b: TensorOnly, dims: Any = 2):
    """The product, summed over the last ``dims`` of ``a`` and the first of ``b``, or over two lists of dimensions."""
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims = (tuple(range(-dims, 0)), tuple(range(dims)))
    left, right = ((d,) if isinstance(d, int) else d for d in dims)
    if len(left) != len(right):
        raise RuntimeError(f"both dimension lists should have same length, got {len(left)} and {len(right)}")
    for i, j in zip(left, right, strict=True):
        sizes = a.shape[wrap_dim(i, a.ndim)], b.shape[wrap_dim(j, b.ndim)]
        if sizes[0] == 1 and sizes[1] != 1:
            b = jnp.sum(b, j, keepdims=True, dtype=b.dtype)
        elif sizes[1] == 1 and sizes[0] != 1:
            a = jnp.sum(a, i, keepdims=True, dtype=a.dtype)
        elif sizes[0] != sizes[1]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and second has size "
                f"{b.shape[j]} in dim {j}"
            )
    _check_types("mm", a, b)
    return _contract(a, b, (left, right))


@op(node="UnsafeViewBackward0")
def kron(input: TensorOnly, other: TensorOnly):
    """The Kronecker product."""
    a, b = promote(input, other)
    return compute(jnp.kron, a.dtype, a, b)


def _cross(input: jax.Array, other: jax.Array, dim: int) -> jax.Array:
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    axis = wrap_dim(dim, input.ndim)
    if input.shape[axis] != 3 or other.shape[axis] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[axis]} and {other.shape[axis]}"
        )
    shape = broadcast_shapes(input.shape, other.shape)
    a, b = (jnp.broadcast_to(x, shape) for x in promote(input, other))

    def rolled(x: jax.Array, by: int) -> jax.Array:
        return jnp.roll(x, -by, axis)

    return rolled(a, 1) * rolled(b, 2) - rolled(a, 2) * rolled(b, 1)


@op(node="LinalgCrossBackward0")
def cross(input: TensorOnly, other: TensorOnly, dim: int | None = None):
    """The cross product along a dimension of size 3 (default: the first one)."""
    if dim is None:
        warnings.warn(
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly "
            "or simply use torch.linalg.cross.\nThe default value of dim will change to agree with that of "
            "linalg.cross in a future release.",
            UserWarning,
            stacklevel=2,
        )
        found = [d for d, n in enumerate(input.shape) if n == 3]
        if not found:
            raise RuntimeError("no dimension of size 3 in input")
        dim = found[0]
    return _cross(input, other, dim)


@op("cross", where="linalg", node="LinalgCrossBackward0")
def linalg_cross(input: TensorOnly, other: TensorOnly, *, dim: int = -1):
    """The cross product along a dimension of size 3."""
    return _cross(input, other, dim)


@op(where="torch")
@rounded_once
def cdist(
    x1: TensorOnly,
    x2: TensorOnly,
    p: float = 2.0,
    compute_mode: Any = "use_mm_for_euclid_dist_if_necessary",
):
    """The p-norm distances between all rows of two (batches of) matrices; the gradient is 0 at distance 0."""
    mode = (
        "use_mm_for_euclid_dist"  # these change the rounding alone, and there is no product of matrices here
    )
    if compute_mode not in (f"{mode}_if_necessary", mode, f"donot_{mode}"):
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for name, x in (("X1", x1), ("X2", x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
        if not is_inexact(x.dtype):
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {type_name(x)}")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    a, b = promote(x1, x2)
    return length_of(a[..., :, None, :] - b[..., None, :, :], p)  # (B, P, R, M) before


@op()
def trace(input: TensorOnly):
    """The sum of a matrix's diagonal."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    not_implemented("trace", input, kinds="b")
    return jnp.trace(input).astype(input.dtype if is_inexact(input.dtype) else np.int64)


def _chain(matrices: Sequence[jax.Array]) -> jax.Array:
    """The product of many matrices in the cheapest order."""
    return (
        matrices[0]
        if len(matrices) == 1
        else jnp.linalg.multi_dot(matrices, precision=config.matmul_precision())
    )


@op(where="linalg", node="MmBackward0")
def multi_dot(tensors: TensorsOnly):
    """The product of two or more matrices in the cheapest order."""
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    return _chain(tensors)


@composite(where="torch")
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices in the cheapest order."""
    return bind.function("multi_dot")(list(matrices)) if len(matrices) > 1 else matrices[0].clone()


@op("vecdot", where="linalg", node="SumBackward1")
def vecdot(x: TensorOnly, y: TensorOnly, *, dim: int = -1):
    """Inner products of vectors along ``dim``, the first ones conjugated."""
    broadcast_shapes(x.shape, y.shape)
    return jnp.sum(jnp.conj(x) * y, axis=dim)


@composite("diagonal", where="linalg")
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonals of matrices, as the last dimension."""
    return bind.function("diagonal")(A, offset, dim1, dim2)
