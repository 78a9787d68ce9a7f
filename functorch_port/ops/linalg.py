"""Matrix products, `einsum`, and the decompositions of `torch.linalg`."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core import bind, config, dtypes
from ..core.promotion import cast, promote
from ..core.registry import Array, Arrays, Scalar, TensorOnly, TensorsOnly, composite, op, return_type_of
from ..core.tensor import Tensor
from ._common import (
    Dims,
    broadcast_shapes,
    c_name,
    check_expand,
    is_inexact,
    type_name,
    wide,
    wrap_dim,
)
from .reduction import sqrt_flat_at_zero, vector_norm, vector_norm_of

LinAlgError = type(
    "LinAlgError", (RuntimeError,), {"__doc__": "A matrix is singular, or a decomposition failed."}
)

# products


def product(a: jax.Array, b: jax.Array) -> jax.Array:
    """``a @ b`` of equal types, accumulated in float32 for half precision, at the chosen precision for float32."""
    out = jnp.matmul(a, b, precision=config.matmul_precision(), preferred_element_type=wide(a.dtype))
    return out.astype(a.dtype)


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
    """The matrix product, with PyTorch's rules for vectors and batches."""
    if 0 in (input.ndim, other.ndim):
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {input.ndim}D and {other.ndim}D"
        )
    _check_matmul(input, other)
    _check_types(
        "dot" if input.ndim == other.ndim == 1 else "bmm" if min(input.ndim, other.ndim) > 2 else "mm",
        input,
        other,
    )
    return product(input, other)


def _matmul_dunder(name: str, swap: bool) -> None:
    """``a @ b`` leaves to Python what is not a matrix: numbers above all."""

    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(other, Tensor):
            other = NotImplemented if isinstance(other, int | float | complex) else bind._operand(other)
            if not isinstance(other, Tensor):
                return NotImplemented
        return bind.function("matmul")(other, self) if swap else bind.function("matmul")(self, other)

    method.__name__ = method.__qualname__ = name
    composite(name, where="method")(method)


_matmul_dunder("__matmul__", swap=False)
_matmul_dunder("__rmatmul__", swap=True)


def _check_matmul(a: jax.Array, b: jax.Array) -> None:
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


def _scale(x: jax.Array, factor: Any) -> jax.Array:
    """``factor * x``; a plain 1, the default, costs nothing."""
    return x if isinstance(factor, int) and factor == 1 else x * cast(factor, x.dtype)


def _plus_product(
    input: jax.Array, result: jax.Array, beta: Any, alpha: Any, out: np.dtype[Any]
) -> jax.Array:
    """``beta * input + alpha * result`` in the wide type; input counts for nothing (not even nan) if beta is 0."""
    check_expand(input.shape, result.shape)
    scaled = _scale(result, alpha)
    if isinstance(beta, (int, float)) and beta == 0:
        return scaled.astype(out)
    own = _scale(input.astype(result.dtype), beta)
    if not isinstance(beta, (int, float)):
        own = jnp.where(beta == 0, jnp.zeros((), own.dtype), own)
    return (own + scaled).astype(out)


def _wide_product(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, precision=config.matmul_precision(), preferred_element_type=wide(a.dtype))


def _check_self_type(input: jax.Array, mat: jax.Array) -> None:
    if input.dtype != mat.dtype:
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {type_name(input)} and {type_name(mat)}"
        )


@op(inplace=True)
def addmm(input: TensorOnly, mat1: TensorOnly, mat2: TensorOnly, *, beta: Scalar = 1, alpha: Scalar = 1):
    """``beta * input + alpha * mat1 @ mat2``."""
    for name, x in (("mat1", mat1), ("mat2", mat2)):
        if x.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {x.ndim}-D tensor")
    _check_mm(mat1, mat2)
    _check_types("mm", mat1, mat2)
    _check_self_type(input, mat2)
    return _plus_product(input, _wide_product(mat1, mat2), beta, alpha, mat1.dtype)


@op(inplace=True)
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


@op(inplace=True)
def addbmm(input: TensorOnly, batch1: TensorOnly, batch2: TensorOnly, *, beta: Scalar = 1, alpha: Scalar = 1):
    """``beta * input + alpha * (the sum of the products of two batches)``."""
    _check_batches(batch1, batch2)
    summed = jnp.einsum(
        "bij,bjk->ik",
        batch1,
        batch2,
        precision=config.matmul_precision(),
        preferred_element_type=wide(batch1.dtype),
    )
    return _plus_product(input, summed, beta, alpha, batch1.dtype)


@op(inplace=True)
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


@op(inplace=True)
def addr(input: TensorOnly, vec1: TensorOnly, vec2: TensorOnly, *, beta: Scalar = 1, alpha: Scalar = 1):
    """``beta * input + alpha * outer(vec1, vec2)``."""
    for name, x in (("vec1", vec1), ("vec2", vec2)):
        if x.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {x.ndim}-D")
    x, a, b = promote(input, vec1, vec2)
    return _plus_product(x, a[:, None] * b, beta, alpha, x.dtype)


@op("outer", "ger", node="MulBackward0")
def outer(input: TensorOnly, vec2: TensorOnly):
    """All products of an element of one vector with one of the other."""
    for name, x in (("self", input), ("vec2", vec2)):
        if x.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {x.ndim}-D")
    a, b = promote(input, vec2)
    return a[:, None] * b


@op(node="ViewBackward0")
def inner(input: TensorOnly, other: TensorOnly):
    """Inner products over the last dimensions."""
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
    """Products summed over several dimensions of both."""
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
        if a.shape[wrap_dim(i, a.ndim)] != b.shape[wrap_dim(j, b.ndim)]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and second has size "
                f"{b.shape[j]} in dim {j}"
            )
    _check_types("mm", a, b)
    return _contract(a, b, (left, right))


# einsum


def _letter(index: int) -> str:
    return chr(ord("A") + index) if index < 26 else chr(ord("a") + index - 26)


def _from_sublists(parts: Sequence[Any]) -> tuple[str, list[Any]]:
    """``einsum(a, [0, 1], b, [1, 2], [0, 2])`` as an equation and its operands."""

    def term(sublist: Sequence[Any]) -> str:
        return "".join("..." if i is Ellipsis else _letter(i) for i in sublist)

    operands, terms = (
        list(parts[0 : len(parts) // 2 * 2 : 2]),
        [term(s) for s in parts[1 : len(parts) // 2 * 2 : 2]],
    )
    equation = ",".join(terms)
    return (equation + "->" + term(parts[-1]) if len(parts) % 2 else equation), operands


def _check_einsum(equation: str, shapes: Sequence[tuple[int, ...]]) -> None:
    terms = equation.split("->")[0].split(",")
    if len(terms) > len(shapes):
        raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
    if len(terms) < len(shapes):
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    seen: dict[str, int] = {}
    for i, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        head, dots, tail = term.partition("...")
        if (not dots and len(term) != len(shape)) or len(head) + len(tail) > len(shape):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(head) + len(tail)}) "
                + ("is more than" if dots or len(term) > len(shape) else "does not match")
                + f" the number of dimensions ({len(shape)}) for operand {i}"
                + ("" if dots or len(term) > len(shape) else " and no ellipsis was given")
            )
        sizes = [*zip(head, shape, strict=False), *zip(tail, shape[len(shape) - len(tail) :], strict=True)]
        for letter, size in sizes:
            if seen.setdefault(letter, size) != size and 1 not in (seen[letter], size):
                raise RuntimeError(
                    f"einsum(): subscript {letter} has size {size} for operand {i} which does not broadcast with "
                    f"previously seen size {seen[letter]}"
                )
            seen[letter] = max(seen[letter], size)


@op("_einsum", where="", node="ViewBackward0")
def _einsum(equation: str, operands: Arrays):
    """Products of operands summed over the subscripts that the output lacks."""
    equation = equation.replace(" ", "")
    _check_einsum(equation, [x.shape for x in operands])
    arrays = promote(*operands)
    out = jnp.einsum(
        equation, *arrays, precision=config.matmul_precision(), preferred_element_type=wide(arrays[0].dtype)
    )
    return out.astype(arrays[0].dtype)


@composite(where="torch")
def einsum(*args: Any) -> Tensor:
    """Products summed by Einstein's convention: ``einsum("ij,jk->ik", a, b)``, or operands with lists of subscripts."""
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    if isinstance(args[0], Tensor):
        equation, operands = _from_sublists(args)
    else:
        equation = args[0]
        operands = list(args[1]) if len(args) == 2 and isinstance(args[1], list | tuple) else list(args[1:])
    return bind.function("_einsum")(equation, operands)


@op(node="UnsafeViewBackward0")
def kron(input: TensorOnly, other: TensorOnly):
    """The Kronecker product."""
    return jnp.kron(*promote(input, other))


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
    """The cross product along a dimension of size 3 (the first such one by default)."""
    if dim is None:
        warnings.warn(
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly or "
            "simply use torch.linalg.cross.\nThe default value of dim will change to agree with that of "
            "linalg.cross in a "
            "future release.",
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
def cdist(x1: TensorOnly, x2: TensorOnly, p: float = 2.0, compute_mode: str | None = None):
    """The p-norm distances between all rows of two (batches of) matrices; the gradient at distance 0 is 0."""
    for name, x in (("X1", x1), ("X2", x2)):
        if x.ndim < 2:
            raise RuntimeError(
                f"{name} must have at least two dimensions.".replace(
                    "X", "cdist only supports at least 2D tensors, X", 1
                )
                if False
                else f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D"
            )
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
    difference = a[..., :, None, :] - b[..., None, :, :]  # (B, P, R, M)
    return vector_norm_of(difference, p, (difference.ndim - 1,), False)


@op()
def trace(input: TensorOnly):
    """The sum of a matrix's diagonal."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return jnp.trace(input).astype(input.dtype if is_inexact(input.dtype) else np.int64)


def _chain(matrices: Sequence[jax.Array]) -> jax.Array:
    """A product of many matrices, in the cheapest order."""
    return (
        matrices[0]
        if len(matrices) == 1
        else jnp.linalg.multi_dot(matrices, precision=config.matmul_precision())
    )


@op(where="linalg", node="MmBackward0")
def multi_dot(tensors: TensorsOnly):
    """The product of two or more matrices, in the cheapest order."""
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    return _chain(tensors)


@composite(where="torch")
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices, in the cheapest order."""
    return bind.function("multi_dot")(list(matrices)) if len(matrices) > 1 else matrices[0]


# norms of matrices


def _matrix_norm(x: jax.Array, ord: float | str, dim: tuple[int, int], keepdim: bool) -> jax.Array:
    a, b = (wrap_dim(d, x.ndim) for d in dim)
    if a == b:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord == "fro":
        return vector_norm_of(x, 2, (a, b), keepdim)
    if ord == "nuc" or ord in (2, -2):
        values = jnp.linalg.svd(jnp.moveaxis(x, (a, b), (-2, -1)), compute_uv=False)
        out = (
            jnp.sum(values, -1) if ord == "nuc" else jnp.max(values, -1) if ord == 2 else jnp.min(values, -1)
        )
        return jnp.expand_dims(out, tuple(sorted((a, b)))) if keepdim else out
    if ord not in (1, -1, math.inf, -math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    summed, other = (a, b) if abs(ord) == 1 else (b, a)
    sums = vector_norm_of(x, 1, (summed,), True)
    out = (jnp.max if ord > 0 else jnp.min)(sums, axis=other, keepdims=True)
    return out if keepdim else jnp.squeeze(out, (a, b))


def _check_matrix_norm(A: jax.Array, name: str = "linalg.matrix_norm") -> None:
    if not is_inexact(A.dtype):
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {type_name(A)}"
        )
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")


@op(where="linalg", node="LinalgVectorNormBackward0")
def matrix_norm(
    A: TensorOnly,
    ord: Any = "fro",
    dim: tuple[int, int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
):
    """The norm of matrices: "fro", "nuc", inf, -inf, 1, -1, 2 or -2."""
    _check_matrix_norm(A)
    return _matrix_norm(A if dtype is None else A.astype(dtype.np), ord, dim, keepdim)


@op("norm", where="linalg", node="LinalgVectorNormBackward0")
def linalg_norm(
    A: TensorOnly,
    ord: Any = None,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
):
    """A vector norm over one dimension, a matrix norm over two; without ``ord`` the 2-norm of all elements."""
    dims = (dim,) if isinstance(dim, int) else dim
    as_matrix = isinstance(ord, str) or (
        ord is not None and (len(dims) == 2 if dims is not None else A.ndim == 2)
    )
    if isinstance(ord, str) and not (len(dims) == 2 if dims is not None else A.ndim == 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
            if dims is None
            else f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dims))}"
        )
    if ord is not None and dims is None and A.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
        )
    if as_matrix:
        return matrix_norm(A, ord, (-2, -1) if dims is None else dims, keepdim, dtype=dtype)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@op(node="LinalgVectorNormBackward0")
def norm(
    input: TensorOnly,
    p: Any = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
):
    """The p-norm over ``dim``, or the nuclear norm of a matrix."""
    if p == "nuc":
        return matrix_norm(input, "nuc", (0, 1) if dim is None else dim, keepdim, dtype=dtype)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"linalg.matrix_norm: Order {p} not supported.")
    return vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


# decompositions and systems


def _check_square(name: str, A: jax.Array) -> None:
    _check_linalg(name, A)
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices"
        )


def _check_linalg(name: str, A: jax.Array) -> None:
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if not is_inexact(A.dtype):
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {type_name(A)}"
        )
    if A.dtype.itemsize < 4:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {type_name(A)}")


def _concrete(x: Tensor) -> np.ndarray | None:
    value = x._value
    return None if isinstance(value, jax.core.Tracer | jax.ShapeDtypeStruct) else np.asarray(value)


def _batch_text(matrices: np.ndarray, bad: int) -> str:
    return f"(Batch element {bad}): " if matrices.ndim > 2 else ""


def _first_bad(matrices: np.ndarray, probe: Any) -> tuple[int, int] | None:
    """The first matrix of a batch for which ``probe`` gives a number that is not 0, and that number."""
    for i, matrix in enumerate(matrices.reshape(-1, *matrices.shape[-2:])):
        found = probe(matrix)
        if found:
            return i, found
    return None


def _zero_pivot(matrix: np.ndarray) -> int:
    """The first zero on the diagonal of U in the LU decomposition, counted from 1; 0 if there is none."""
    work = matrix.astype(np.complex128 if matrix.dtype.kind == "c" else np.float64)
    for k in range(len(work)):
        pivot = k + int(np.argmax(np.abs(work[k:, k])))
        if work[pivot, k] == 0:
            return k + 1
        work[[k, pivot]] = work[[pivot, k]]
        work[k + 1 :] -= np.outer(work[k + 1 :, k] / work[k, k], work[k])
    return 0


def _bad_minor(matrix: np.ndarray) -> int:
    """The order of the first leading minor that is not positive definite, 0 if there is none."""
    for k in range(1, len(matrix) + 1):
        try:
            np.linalg.cholesky(matrix[:k, :k])
        except np.linalg.LinAlgError:
            return k
    return 0


def _raise_if_singular(name: str, A: Tensor, out: Tensor) -> None:
    """A singular matrix leaves no finite result; only then is it looked at more closely."""
    result, matrices = _concrete(out), _concrete(A)
    if result is None or matrices is None or np.isfinite(result).all():
        return
    found = _first_bad(matrices, _zero_pivot)
    if found is None:
        return
    batch = _batch_text(matrices, found[0])
    if name == "linalg.solve":
        raise LinAlgError(
            f"torch.linalg.solve: {batch}The solver failed because the input matrix is singular."
        )
    raise LinAlgError(
        f"{name}: {batch}The diagonal element {found[1]} is zero, the inversion could not be completed "
        "because the input "
        "matrix is singular."
    )


@op("_inv", where="", node="LinalgInvExBackward0")
def _inv(A: TensorOnly):
    """The inverse."""
    _check_square("linalg.inv", A)
    return jnp.linalg.inv(A)


def _inverse(A: Tensor, name: str = "linalg.inv") -> Tensor:
    """The inverse of (a batch of) square matrices."""
    out = bind.function("_inv")(A)
    _raise_if_singular(name, A, out)
    return out


@composite("inverse")
def inverse(input: Tensor) -> Tensor:
    """The inverse of (a batch of) square matrices."""
    return _inverse(input)


@composite("inv", where="linalg")
def inv(A: Tensor) -> Tensor:
    """The inverse of (a batch of) square matrices."""
    return _inverse(A)


@op("_solve", where="", node="LinalgSolveExBackward0")
def _solve(A: TensorOnly, B: TensorOnly, left: bool):
    """X in ``A X = B``, or in ``X A = B``."""
    _check_square("linalg.solve", A)
    vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"linalg.solve: Expected A and B to have the same dtype, but found A of type {type_name(A)} and B of type "
            f"{type_name(B)} instead"
        )
    if vector:
        return jnp.linalg.solve(A, B[..., None])[..., 0]
    if not left:
        return jnp.swapaxes(jnp.linalg.solve(jnp.swapaxes(A, -2, -1), jnp.swapaxes(B, -2, -1)), -2, -1)
    if A.shape[-1] != B.shape[-2]:
        raise RuntimeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation AX = B ({_shape_text(A)} and "
            f"{_shape_text(B)})"
        )
    return jnp.linalg.solve(A, B)


@composite(where="linalg")
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The solution X of ``A X = B`` (or ``X A = B``)."""
    out = bind.function("_solve")(A, B, left)
    _raise_if_singular("linalg.solve", A, out)
    return out


@op(where="linalg", node="LinalgSolveTriangularBackward0")
def solve_triangular(
    A: TensorOnly, B: TensorOnly, *, upper: bool, left: bool = True, unitriangular: bool = False
):
    """The solution X of ``A X = B`` (or ``X A = B``) with a triangular A."""
    _check_square("linalg.solve_triangular", A)
    batch = broadcast_shapes(A.shape[:-2], B.shape[:-2])
    A, B = (jnp.broadcast_to(x, batch + x.shape[-2:]) for x in (A, B))
    return lax.linalg.triangular_solve(A, B, left_side=left, lower=not upper, unit_diagonal=unitriangular)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _hermitian(A: jax.Array, lower: bool) -> jax.Array:
    """The matrix of which one triangle is given; its gradient is spread over both, as PyTorch does."""
    low = A if lower else jnp.conj(jnp.swapaxes(A, -2, -1))
    return jnp.tril(low) + jnp.conj(jnp.swapaxes(jnp.tril(low, -1), -2, -1))


@_hermitian.defjvp
def _hermitian_jvp(lower: bool, primals: Any, tangents: Any) -> Any:
    (A,), (dA,) = primals, tangents
    return _hermitian(A, lower), (dA + jnp.conj(jnp.swapaxes(dA, -2, -1))) / 2


@op("_cholesky", where="", node="LinalgCholeskyExBackward0")
def _cholesky(A: TensorOnly, upper: bool = False):
    """The Cholesky factor."""
    _check_square("linalg.cholesky", A)
    lower = lax.linalg.cholesky(_hermitian(A, True), symmetrize_input=False)
    return jnp.conj(jnp.swapaxes(lower, -2, -1)) if upper else lower


def _checked_cholesky(A: Tensor, upper: bool = False) -> Tensor:
    out = bind.function("_cholesky")(A, upper)
    result, matrices = _concrete(out), _concrete(A)
    if result is not None and matrices is not None and not np.isfinite(result).all():
        found = _first_bad(matrices, _bad_minor)
        if found is not None:
            raise LinAlgError(
                f"linalg.cholesky: {_batch_text(matrices, found[0])}The factorization could not be completed "
                "because the "
                f"input is not positive-definite (the leading minor of order {found[1]} is not positive-definite)."
            )
    return out


@composite("cholesky", where="linalg")
def linalg_cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The triangular factor of positive-definite matrices."""
    return _checked_cholesky(A, upper)


@composite("cholesky")
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The triangular factor of positive-definite matrices."""
    return _checked_cholesky(input, upper)


@op()
def cholesky_solve(input: TensorOnly, L: TensorOnly, upper: bool = False):
    """The solution X of ``A X = input``, given A's Cholesky factor."""
    lower = jnp.conj(jnp.swapaxes(L, -2, -1)) if upper else L
    half = lax.linalg.triangular_solve(lower, input, left_side=True, lower=True)
    return lax.linalg.triangular_solve(
        lower, half, left_side=True, lower=True, transpose_a=True, conjugate_a=True
    )


@op(where="torch method linalg", node="LinalgDetBackward0")
def det(A: TensorOnly):
    """The determinant."""
    _check_square("linalg.det", A)
    return jnp.linalg.det(A)


def _slogdet(A: jax.Array) -> tuple[jax.Array, jax.Array]:
    _check_square("linalg.slogdet", A)
    sign, logdet = jnp.linalg.slogdet(A)
    return sign, logdet


@op(returns=("sign", "logabsdet"), node="LinalgSlogdetBackward0")
def slogdet(input: TensorOnly):
    """The determinant's sign and the logarithm of its absolute value."""
    return _slogdet(input)


@op(
    "slogdet",
    where="linalg",
    return_type="linalg_slogdet",
    returns=("sign", "logabsdet"),
    node="LinalgSlogdetBackward0",
)
def linalg_slogdet(A: TensorOnly):
    """The determinant's sign and the logarithm of its absolute value."""
    return _slogdet(A)


@op(node="AddBackward0")
def logdet(input: TensorOnly):
    """The logarithm of the determinant, nan if that is negative."""
    sign, logabsdet = _slogdet(input)
    return jnp.where(sign == -1, math.nan, logabsdet).astype(logabsdet.dtype)


@op("qr", where="linalg", return_type="linalg_qr", returns=("Q", "R"), node="LinalgQrBackward0")
def linalg_qr(A: TensorOnly, mode: str = "reduced"):
    """The QR decomposition."""
    _check_linalg("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    if mode == "r":
        return jnp.zeros((0,), A.dtype), jnp.linalg.qr(A, mode="r")
    q, r = jnp.linalg.qr(A, mode=mode)
    return q, r


@op(returns=("Q", "R"), node="LinalgQrBackward0")
def qr(input: TensorOnly, some: bool = True):
    """The QR decomposition."""
    return linalg_qr(input, "reduced" if some else "complete")


@op("svd", where="linalg", return_type="linalg_svd", returns=("U", "S", "Vh"), node="LinalgSvdBackward0")
def linalg_svd(A: TensorOnly, full_matrices: bool = True):
    """The singular value decomposition ``U diag(S) Vh``."""
    _check_linalg("linalg.svd", A)
    u, s, vh = jnp.linalg.svd(A, full_matrices=full_matrices)
    return u, s, vh


@op(returns=("U", "S", "V"), node="LinalgSvdBackward0")
def svd(input: TensorOnly, some: bool = True, compute_uv: bool = True):
    """The singular value decomposition ``U diag(S) V^H``."""
    u, s, vh = linalg_svd(input, not some)
    if not compute_uv:
        u, vh = jnp.zeros_like(u), jnp.zeros_like(vh)
    return u, s, jnp.conj(jnp.swapaxes(vh, -2, -1))


@op(where="linalg", node="LinalgSvdBackward0")
def svdvals(A: TensorOnly):
    """The singular values, in falling order."""
    _check_linalg("linalg.svdvals", A)
    return jnp.linalg.svd(A, compute_uv=False)


@op(
    where="linalg",
    return_type="linalg_eigh",
    returns=("eigenvalues", "eigenvectors"),
    node="LinalgEighBackward0",
)
def eigh(A: TensorOnly, UPLO: str = "L"):
    """Eigenvalues and eigenvectors of symmetric or Hermitian matrices, of which one triangle is read."""
    _check_square("linalg.eigh", A)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    values, vectors = jnp.linalg.eigh(_hermitian(A, UPLO.upper() == "L"), symmetrize_input=False)
    return values, vectors


@op(where="linalg", node="LinalgEighBackward0")
def eigvalsh(A: TensorOnly, UPLO: str = "L"):
    """Eigenvalues of symmetric or Hermitian matrices."""
    return eigh(A, UPLO)[0]


@op(
    where="linalg",
    return_type="linalg_eig",
    returns=("eigenvalues", "eigenvectors"),
    node="LinalgEigBackward0",
)
def eig(A: TensorOnly):
    """Eigenvalues and eigenvectors of square matrices (on the CPU)."""
    _check_square("linalg.eig", A)
    values, vectors = jnp.linalg.eig(A)
    return values, vectors


@op(where="linalg", node="LinalgEigBackward0")
def eigvals(A: TensorOnly):
    """Eigenvalues of square matrices (on the CPU)."""
    _check_square("linalg.eigvals", A)
    return jnp.linalg.eigvals(A)


@op("pinv", where="linalg", node="LinalgPinvBackward0")
def pinv(A: TensorOnly, rcond: float | None = None, hermitian: bool = False):
    """The pseudo-inverse."""
    _check_linalg("linalg.pinv", A)
    tolerance = max(A.shape[-2:]) * float(jnp.finfo(A.dtype).eps) if rcond is None else rcond
    return jnp.linalg.pinv(A, rtol=tolerance, hermitian=hermitian)


op("pinverse", node="LinalgPinvBackward0")(pinv)


@op(where="linalg", differentiable=False)
def matrix_rank(A: TensorOnly, tol: float | None = None, hermitian: bool = False):
    """How many singular values are not negligible."""
    _check_linalg("linalg.matrix_rank", A)
    values = jnp.linalg.svd(A, compute_uv=False)
    limit = (
        max(A.shape[-2:]) * float(jnp.finfo(A.dtype).eps) * jnp.max(values, -1, keepdims=True)
        if tol is None
        else tol
    )
    return jnp.sum(values > limit, -1).astype(np.int64)


@op("matrix_power", where="torch method linalg", node="MmBackward0")
def matrix_power(A: TensorOnly, n: int):
    """A matrix multiplied by itself ``n`` times; the inverse for negative ``n``."""
    _check_square("linalg.matrix_power", A)
    return jnp.linalg.matrix_power(A, n)


@op("matrix_exp", where="torch method linalg", node="LinalgMatrixExpBackward0")
def matrix_exp(A: TensorOnly):
    """The matrix exponential."""
    _check_square("linalg.matrix_exp", A)
    return jax.scipy.linalg.expm(A)


@op(
    where="linalg",
    return_type="linalg_lstsq",
    returns=("solution", "residuals", "rank", "singular_values"),
    node="LinalgLstsqBackward0",
)
def lstsq(A: TensorOnly, B: TensorOnly, rcond: float | None = None, *, driver: str | None = None):
    """The least-squares solution of ``A X = B``; singular values only with the drivers "gelsd" and "gelss"."""
    _check_linalg("torch.linalg.lstsq", A)
    vector = B.ndim == A.ndim - 1
    columns = B[..., None] if vector else B
    inverse = pinv(A, rcond)
    solution = product(inverse, columns)
    rows, unknowns = A.shape[-2:]
    empty = jnp.zeros((0,), A.dtype)
    overdetermined = rows > unknowns and driver in ("gels", "gelsd", "gelss")
    residuals = jnp.sum(jnp.abs(product(A, solution) - columns) ** 2, -2) if overdetermined else empty
    rank = jnp.zeros((0,), np.int64) if driver == "gels" else matrix_rank(A)
    values = jnp.linalg.svd(A, compute_uv=False) if driver in ("gelsd", "gelss") else empty
    return solution[..., 0] if vector else solution, residuals, rank, values


@op(
    "lu_factor",
    where="linalg",
    return_type="linalg_lu_factor",
    returns=("LU", "pivots"),
    node="LinalgLuFactorExBackward0",
)
def lu_factor(A: TensorOnly, *, pivot: bool = True):
    """The LU decomposition in one matrix, and the row exchanges (counted from 1)."""
    _check_linalg("torch.linalg.lu_factor", A)
    if not pivot:
        raise NotImplementedError("linalg.lu_factor without pivoting is not supported: leave pivot=True")
    factors, pivots, _ = lax.linalg.lu(A)
    return factors, (pivots + 1).astype(np.int32)


@op("lu", where="linalg", return_type="linalg_lu", returns=("P", "L", "U"), node="LinalgLuBackward0")
def lu(A: TensorOnly, *, pivot: bool = True):
    """The LU decomposition with row exchanges: ``A = P L U``."""
    _check_linalg("torch.linalg.lu", A)
    if not pivot:
        raise NotImplementedError("linalg.lu without pivoting is not supported: leave pivot=True")
    p, l, u = jax.scipy.linalg.lu(A)
    return p, l, u


@op("lu_solve", where="linalg", node="LinalgLuSolveBackward0")
def lu_solve(LU: TensorOnly, pivots: TensorOnly, B: TensorOnly, *, left: bool = True, adjoint: bool = False):
    """The solution X of ``A X = B``, given A's `lu_factor`."""
    if not left:
        raise NotImplementedError("linalg.lu_solve with left=False is not supported: transpose the system")
    batch = broadcast_shapes(LU.shape[:-2], B.shape[:-2])
    factors, right = (jnp.broadcast_to(x, batch + x.shape[-2:]) for x in (LU, B))
    order = lax.linalg.lu_pivots_to_permutation(pivots - 1, LU.shape[-1])
    order = jnp.broadcast_to(order, (*batch, LU.shape[-1]))[..., None]
    solve = functools.partial(lax.linalg.triangular_solve, factors, left_side=True)
    if adjoint:
        half = solve(right, lower=False, transpose_a=True, conjugate_a=True)
        full = solve(half, lower=True, unit_diagonal=True, transpose_a=True, conjugate_a=True)
        return jnp.take_along_axis(full, jnp.argsort(order, axis=-2), axis=-2)
    exchanged = jnp.take_along_axis(right, order, axis=-2)
    return solve(solve(exchanged, lower=True, unit_diagonal=True), lower=False)


@op("cholesky_inverse")
def cholesky_inverse(input: TensorOnly, upper: bool = False):
    """The inverse of A, given its Cholesky factor."""
    identity = jnp.broadcast_to(jnp.eye(input.shape[-1], dtype=input.dtype), input.shape)
    return cholesky_solve(identity, input, upper)


def _info(matrices: np.ndarray, result: np.ndarray, probe: Any) -> np.ndarray:
    """LAPACK's ``info`` of every matrix of a batch: 0, or where the decomposition failed."""
    batch = matrices.shape[:-2]
    finite = np.isfinite(result).reshape(*batch, -1).all(-1)
    flat = matrices.reshape(-1, *matrices.shape[-2:])
    found = [0 if ok else probe(m) for m, ok in zip(flat, finite.reshape(-1), strict=True)]
    return np.asarray(found, np.int32).reshape(batch)


def _with_info(
    name: str, first: str, out: Tensor, A: Tensor, probe: Any, check_errors: bool, strict: Any
) -> Any:
    if check_errors:
        strict()
    result, matrices = _concrete(out), _concrete(A)
    if result is None or matrices is None:
        raise RuntimeError(
            f"linalg.{name} looks at values: inside a compiled function use linalg.{name[:-3]}"
        )
    info = A.new_tensor(_info(matrices, result, probe), dtype=dtypes.int32)  # type: ignore[attr-defined]
    return return_type_of(f"linalg_{name}", (first, "info"))(out, info)


@composite("inv_ex", where="linalg")
def inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """The inverse, and whether there is one, without an error."""
    out = bind.function("_inv")(A)
    return _with_info(
        "inv_ex", "inverse", out, A, _zero_pivot, check_errors, lambda: _inverse(A, "linalg.inv_ex")
    )


@composite("cholesky_ex", where="linalg")
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """The Cholesky factor (nan if there is none), and whether there is one, without an error."""
    out = bind.function("_cholesky")(A, upper)
    return _with_info(
        "cholesky_ex", "L", out, A, _bad_minor, check_errors, lambda: _checked_cholesky(A, upper)
    )


@composite("solve_ex", where="linalg")
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """The solution of ``A X = B``, and whether A is regular, without an error."""
    out = bind.function("_solve")(A, B, left)
    return _with_info("solve_ex", "result", out, A, _zero_pivot, check_errors, lambda: solve(A, B, left=left))


@op("vecdot", where="linalg", node="SumBackward1")
def vecdot(x: TensorOnly, y: TensorOnly, *, dim: int = -1):
    """Inner products of vectors along ``dim``, the first ones conjugated."""
    broadcast_shapes(x.shape, y.shape)
    return jnp.sum(jnp.conj(x) * y, axis=dim)


@op("cond", where="linalg", node="DivBackward0")
def linalg_cond(A: TensorOnly, p: Any = None):
    """The condition number: the norm of A times that of its inverse; the quotient of singular values by default."""
    if p in (None, 2, -2):
        _check_linalg("linalg.cond", A)
        values = jnp.linalg.svd(A, compute_uv=False)
        high, low = values[..., 0], values[..., -1]
        return low / high if p == -2 else high / low
    _check_square("linalg.cond", A)
    return _matrix_norm(A, p, (-2, -1), False) * _matrix_norm(jnp.linalg.inv(A), p, (-2, -1), False)


@op("tensorinv", where="linalg", node="ViewBackward0")
def tensorinv(A: TensorOnly, ind: int = 2):
    """The inverse of a tensor as a map from its last dimensions to its first ``ind``."""
    rows, columns = math.prod(A.shape[:ind]), math.prod(A.shape[ind:])
    if rows != columns:
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{columns} != {rows}"
        )
    return jnp.linalg.inv(A.reshape(rows, columns)).reshape(A.shape[ind:] + A.shape[:ind])


@op("tensorsolve", where="linalg", node="ViewBackward0")
def tensorsolve(A: TensorOnly, B: TensorOnly, dims: tuple[int, ...] | None = None):
    """The solution X of ``tensordot(A, X, X.ndim) = B``."""
    moved = A if dims is None else jnp.moveaxis(A, dims, range(A.ndim - len(dims), A.ndim))
    shape = moved.shape[B.ndim :]
    return jnp.linalg.solve(moved.reshape(B.size, -1), B.reshape(-1)).reshape(shape)


@composite("diagonal", where="linalg")
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A diagonal of the matrices in two dimensions, as the last dimension."""
    return bind.function("diagonal")(A, offset, dim1, dim2)


@composite("nuclear_norm", where="torch")
def nuclear_norm(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The sum of the singular values."""
    return bind.function("matrix_norm")(input, "nuc", (-2, -1) if dim is None else dim, keepdim)


@composite("frobenius_norm", where="torch")
def frobenius_norm(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The square root of the sum of the squares."""
    return bind.function("vector_norm")(input, 2, dim, keepdim)


# statistics


@op(node="SqueezeBackward0")
def cov(
    input: TensorOnly, *, correction: int = 1, fweights: Array | None = None, aweights: Array | None = None
):
    """The covariance matrix of variables in rows and observations in columns."""
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    if input.dtype.kind == "b":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input if is_inexact(input.dtype) else input.astype(dtypes.get_default_dtype().np)
    return jnp.cov(x, ddof=correction, fweights=fweights, aweights=aweights).astype(x.dtype)


@op(node="ClampBackward1")
def corrcoef(input: TensorOnly):
    """The matrix of correlation coefficients of variables in rows."""
    matrix = cov(input)
    if matrix.ndim == 0:
        return matrix / matrix
    deviation = sqrt_flat_at_zero(jnp.diagonal(matrix))
    return jnp.clip(matrix / deviation[:, None] / deviation[None, :], -1, 1)
