"""Helpers of the operations: checks of dimensions and broadcasting, and arithmetic in a wider dtype."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array import tracing
from .._array.refusal import outside, refuse
from .._base import dtypes, lowering
from .._base.promotion import cast, result_dtype, scalar_type

Dims = int | tuple[int, ...] | None

FLOAT32 = np.dtype(np.float32)
INT64 = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)

#: number of spatial dimensions -> the layouts of a convolution's input, weight and output
LAYOUTS = {1: ("NCH", "OIH", "NCH"), 2: ("NCHW", "OIHW", "NCHW"), 3: ("NCDHW", "OIDHW", "NCDHW")}


def wrap_dim(dim: int, ndim: int) -> int:
    """``dim`` as a non-negative number; a 0-dim tensor has the dimensions 0 and -1, as in PyTorch."""
    size = max(ndim, 1)
    if not -size <= dim < size:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-size}, {size - 1}], but got {dim})"
        )
    return dim % size


def wrap_dims(dim: Dims, ndim: int) -> tuple[int, ...]:
    """The dimensions of a reduction; None and () mean all."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    dims = tuple(wrap_dim(d, ndim) for d in ((dim,) if isinstance(dim, int) else dim))
    for d in dims:
        if dims.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return dims if ndim else ()


def at_least_1d(x: jax.Array) -> jax.Array:
    """A 0-dim array as a vector, so that functions along a dimension need no special case."""
    return x.reshape(1) if x.ndim == 0 else x


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The common shape, or PyTorch's error that names the sizes and the dimension."""
    out = tuple(shapes[0])
    for shape in shapes[1:]:
        out = _broadcast_pair(out, tuple(shape))
    return out


def _broadcast_pair(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    if a == b:
        return a
    ndim = max(len(a), len(b))
    long_a, long_b = (1,) * (ndim - len(a)) + a, (1,) * (ndim - len(b)) + b
    for i in range(ndim - 1, -1, -1):
        if long_a[i] != long_b[i] and 1 not in (long_a[i], long_b[i]):
            raise RuntimeError(
                f"The size of tensor a ({long_a[i]}) must match the size of tensor b ({long_b[i]}) "
                f"at non-singleton dimension {i}"
            )
    return tuple(y if x == 1 else x for x, y in zip(long_a, long_b, strict=True))


def check_broadcast(*args: Any) -> None:
    """Raise PyTorch's error unless the arrays among ``args`` broadcast together."""
    broadcast_shapes(*[a.shape for a in args if hasattr(a, "shape")] or [()])


def check_expand(shape: Sequence[int], target: Sequence[int]) -> None:
    """Raise PyTorch's error unless ``shape`` can be expanded to ``target``."""
    offset = len(target) - len(shape)
    for i in range(len(target) - 1, -1, -1):
        size = shape[i - offset] if i >= offset else 1
        if offset < 0 or (size != target[i] and size != 1):
            raise RuntimeError(
                f"The expanded size of the tensor ({target[i]}) must match the existing size ({size}) at non-singleton "
                f"dimension {i}.  Target sizes: {list(target)}.  Tensor sizes: {list(shape)}"
            )


def wide(np_dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype to compute in: float32 for half precision, which is rounded once, as in PyTorch."""
    return FLOAT32 if np_dtype.kind in "fV" and np_dtype.itemsize < 4 else np_dtype


def compute(fn: Callable[..., jax.Array], np_dtype: np.dtype[Any], *args: Any) -> jax.Array:
    """``fn`` of the arguments, computed in the wide dtype of ``np_dtype`` and rounded to it once."""
    wide_dtype = wide(np_dtype)
    out = fn(*[cast(a, wide_dtype) for a in args])
    return lax.convert_element_type(out, np_dtype) if out.dtype != np_dtype else out


def rounded_once(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a pure function to compute half precision in float32, in its derivatives, too.

    The derivatives add up where elements are copied or broadcast. Arrays of several dtypes are passed on unchanged.
    """

    @functools.wraps(fn)
    def rounded(*args: Any, **kwargs: Any) -> Any:
        arrays = [a for a in (*args, *kwargs.values()) if is_inexact(getattr(a, "dtype", BOOL))]
        kinds = {a.dtype for a in arrays if not getattr(a, "weak_type", False)}
        np_dtype = kinds.pop() if len(kinds) == 1 else FLOAT32
        if wide(np_dtype) == np_dtype:
            return fn(*args, **kwargs)

        def widened(a: Any) -> Any:
            return cast(a, FLOAT32) if getattr(a, "dtype", None) == np_dtype else a

        out = fn(*map(widened, args), **{k: widened(a) for k, a in kwargs.items()})
        return lax.convert_element_type(out, np_dtype)

    return rounded


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def plus_bias(
    product: Callable[..., jax.Array], shape: tuple[int, ...], x: jax.Array, w: jax.Array, bias: jax.Array
) -> jax.Array:
    """``product(x, w, out=dtype) + bias.reshape(shape)``, rounded once to half precision.

    The products of the derivatives are of half precision.
    """
    out = product(x, w, out=wide(x.dtype))
    return (out + bias.astype(out.dtype).reshape(shape)).astype(x.dtype)


@plus_bias.defjvp
def _plus_bias_jvp(
    product: Callable[..., jax.Array], shape: tuple[int, ...], primals: Any, tangents: Any
) -> Any:
    (x, w, bias), (dx, dw, dbias) = primals, tangents
    out = plus_bias(product, shape, x, w, bias)
    moved = compute(lambda d: jnp.broadcast_to(d.reshape(shape), out.shape), x.dtype, dbias)
    return out, product(dx, w, out=x.dtype) + product(x, dw, out=x.dtype) + moved


def elementwise(fn: Callable[..., jax.Array], *args: Any) -> jax.Array:
    """``fn`` of the arguments in their common dtype."""
    check_broadcast(*args)
    np_dtype = result_dtype(*args).np
    return compute(fn, np_dtype, *[cast(a, np_dtype) for a in args])


def elementwise_float(fn: Callable[..., jax.Array], *args: Any) -> jax.Array:
    """`elementwise`, with integers and bools converted to the default float dtype."""
    check_broadcast(*args)
    np_dtype = float_dtype(*args)
    return compute(fn, np_dtype, *[cast(a, np_dtype) for a in args])


def by_double(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``fn`` to compute float32 in float64 on a CPU, where that costs little.

    This is for functions that XLA computes there with errors of several units in the last place.
    """

    def in_double(*args: Any) -> Any:
        return fn(*[a.astype(np.float64) for a in args]).astype(np.float32)

    def computed(*args: Any) -> Any:
        if not tracing.X64 or any(a.dtype != np.float32 for a in args):
            return fn(*args)
        return lowering.by_platform(*args, cpu=in_double, default=fn)

    return computed


def times_infinite(slope: jax.Array, change: jax.Array) -> jax.Array:
    """``slope * change``, and 0 where ``change`` is 0 and the slope -inf; differentiable in both modes."""
    largest = jnp.finfo(slope.dtype).max
    infinite = slope == -jnp.inf  # computed as the product of two largest numbers
    return jnp.where(infinite, largest, 1) * (jnp.where(infinite, -largest, slope) * change)


def predicate(fn: Callable[..., jax.Array], *args: Any) -> jax.Array:
    """A comparison ``fn`` of the arguments in their common dtype."""
    check_broadcast(*args)
    np_dtype = result_dtype(*args).np
    return fn(*[cast(a, np_dtype) for a in args])


def float_dtype(*args: Any) -> np.dtype[Any]:
    """The common dtype of ``args``; the default float dtype if that is an integer dtype or bool."""
    common = result_dtype(*args)
    return common.np if common.is_floating_point or common.is_complex else dtypes.get_default_dtype().np


def is_inexact(np_dtype: np.dtype[Any]) -> bool:
    """Whether the dtype is floating point (ml_dtypes included) or complex."""
    return np_dtype.kind in "fcV"


def type_name(value: Any) -> str:
    """ATen's name of a value's dtype, for error texts: "Float", "Long", ..."""
    return (dtypes.from_np(value.dtype) if hasattr(value, "dtype") else scalar_type(value)).scalar_name


def c_name(value: Any) -> str:
    """The C++ name of an array's dtype, for some error texts: "float", "long int", ..."""
    name = dtypes.from_np(value.dtype).name
    return _C_NAMES.get(name, name)


_C_NAMES = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "int64": "long int", "int32": "int", "int16": "short", "int8": "signed char", "uint8": "unsigned char",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


def not_implemented(kernel: str, *args: Any, kinds: str) -> None:
    """Raise PyTorch's error for a dtype that its kernel lacks; ``kinds`` are the refused numpy kinds."""
    for a in args:
        if hasattr(a, "dtype") and a.dtype.kind in kinds:
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{type_name(a)}'")


def no_complex(text: str, *args: Any, error: type[Exception] = RuntimeError) -> None:
    """Raise PyTorch's error for complex numbers, where it has a special one."""
    if any(getattr(a, "dtype", BOOL).kind == "c" for a in args):
        raise error(text)


def only_single_and_double(kernel: str, *args: Any) -> None:
    """Raise PyTorch's error of a kernel without half precision and complex numbers."""
    for a in args:
        if hasattr(a, "dtype") and (a.dtype.kind == "c" or (is_inexact(a.dtype) and a.dtype.itemsize < 4)):
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{type_name(a)}'")


def numel(shape: Sequence[int]) -> int:
    """The number of elements."""
    return math.prod(shape)


def int32_if_small(index: jax.Array, size: int) -> jax.Array:
    """Indices into ``size`` rows as int32, which is faster on accelerators, if ``size`` fits."""
    return index.astype(jnp.int32) if size < 2**31 and index.dtype.itemsize > 4 else index


def check_index_range(
    index: Any, size: int, message: Callable[[int], Exception], lowest: int | None = None
) -> None:
    """Refuse an index outside of ``[-size, size)``, or below ``lowest``, with ``message(bad index)``."""
    low = -size if lowest is None else lowest

    def error(index: Any) -> Exception:
        return message(int(index[outside(index, low, size)][0]))

    refuse(lambda index: outside(index, low, size), error, index)


def choose(mask: jax.Array, yes: Any, no: Any) -> jax.Array:
    """`jnp.where` of a mask and of arrays of its shape and one dtype, or a number.

    `jnp.where` is jitted: a trace takes half a millisecond more for it, and that of a pullback one.
    """
    like = yes if hasattr(yes, "dtype") else no
    return lax.select(
        mask, *[x if hasattr(x, "dtype") else lax.full(mask.shape, x, like.dtype) for x in (yes, no)]
    )


@jax.custom_jvp
def absolute(x: jax.Array) -> jax.Array:
    """The absolute value of real numbers, with gradient 0 at 0."""
    return jnp.abs(x)


@absolute.defjvp
def _absolute_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    return absolute(x), jnp.where(x == x, jnp.sign(x), 0).astype(x.dtype) * dx


def index_dtype(size: int) -> np.dtype[Any]:
    """The dtype of positions: int32, which is fast on accelerators, unless ``size`` is too large."""
    return np.dtype(np.int32) if size < 2**31 else INT64


def positions(x: jax.Array, axis: int) -> jax.Array:
    """The index of every element along a dimension."""
    return lax.broadcasted_iota(index_dtype(x.shape[axis]), x.shape, axis)


def stable_order(x: jax.Array, axis: int, descending: bool = False) -> jax.Array:
    """The indices that sort along a dimension; nan is the largest value; ties keep their order."""
    keys, places = lax.stop_gradient(x), positions(x, axis)
    if descending:  # reversed before and after, so that ties keep their order
        keys, places = jnp.flip(keys, axis), jnp.flip(places, axis)
    order = lax.sort((keys, places), dimension=axis, is_stable=True, num_keys=1)[1]
    return jnp.flip(order, axis) if descending else order


def take_along(input: jax.Array, index: jax.Array, dim: int) -> jax.Array:
    """``input`` at indices along one dimension that are known to be in range."""
    if input.ndim == 0:
        return input
    return jnp.take_along_axis(input, index, axis=dim, mode="promise_in_bounds")


def add_at(x: jax.Array, at: Any, values: Any, mode: str | None = None) -> jax.Array:
    """``x`` with ``values`` added at index arrays; logical or for bools."""
    places = x.at[at]
    return (places.max if x.dtype == BOOL else places.add)(values, mode=mode)


def multiply_at(x: jax.Array, at: Any, values: Any, mode: str | None = None) -> jax.Array:
    """``x`` multiplied by ``values`` at index arrays; logical and for bools."""
    places = x.at[at]
    return (places.min if x.dtype == BOOL else places.multiply)(values, mode=mode)


def put_at(x: jax.Array, at: Sequence[Any], values: Any, mode: str | None = None) -> jax.Array:
    """``x`` with ``values`` written at index arrays, with ``slice(None)`` for whole dimensions.

    As in PyTorch, each value has a gradient, even if a later one overwrites it.
    """
    whole = tuple(isinstance(index, slice) for index in at)
    return _put_at(
        whole, mode, x, tuple(i for i in at if not isinstance(i, slice)), jnp.asarray(values, x.dtype)
    )


def _positions(whole: Sequence[bool], indices: Sequence[Any]) -> tuple[Any, ...]:
    it = iter(indices)
    return tuple(slice(None) if skip else next(it) for skip in whole)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _put_at(
    whole: tuple[bool, ...], mode: str | None, x: jax.Array, indices: Any, values: jax.Array
) -> jax.Array:
    return x.at[_positions(whole, indices)].set(values, mode=mode)


@_put_at.defjvp
def _put_at_jvp(whole: tuple[bool, ...], mode: str | None, primals: Any, tangents: Any) -> Any:
    (x, indices, values), (dx, _, dvalues) = primals, tangents
    at = _positions(whole, indices)
    kept = jnp.where(jnp.zeros(x.shape, bool).at[at].set(True, mode=mode), 0, dx)
    return _put_at(whole, mode, x, indices, values), kept.at[at].add(dvalues, mode=mode)
