"""Convolutions (NCHW data, OIHW weights, as PyTorch lays them out) and the dense layers `linear` and `bilinear`."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax

from functorch_port._array.sizes import sized
from functorch_port._base.config import matmul_precision
from functorch_port._base.layout import convolution_order
from functorch_port._run.registry import Array, op
from functorch_port.ops._common import (
    c_name,
    check_expand,
    not_implemented,
    numel,
    plus_bias,
    rounded_once,
    type_name,
    wide,
)

Ints = int | tuple[int, ...]


# convolution


def _per_dim(value: Ints, n: int, what: str) -> tuple[int, ...]:
    """One number per spatial dimension."""
    values = (value,) if isinstance(value, int) else tuple(value)
    if len(values) == 1:
        return values * n
    if len(values) != n:
        raise RuntimeError(
            f"expected {what} to be a single integer value or a list of {n} values to match the convolution "
            f"dimensions, but got {what}={list(values)}"
        )
    return values


def _padding(padding: Any, stride: tuple[int, ...], reach: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """(low, high) per spatial dimension; ``reach`` is the extent of the dilated kernel minus 1."""
    if isinstance(padding, str):
        if padding == "valid":
            return ((0, 0),) * len(reach)
        if padding != "same":
            raise RuntimeError(f"Invalid padding string: '{padding}'")
        if any(s != 1 for s in stride):
            raise RuntimeError("padding='same' is not supported for strided convolutions")
        return tuple((r // 2, r - r // 2) for r in reach)
    return tuple((p, p) for p in _per_dim(padding, len(reach), "padding"))


def _check_arguments(pads: Any, stride: tuple[int, ...], dilation: tuple[int, ...]) -> None:
    if any(low < 0 for low, _ in pads):
        raise RuntimeError("negative padding is not supported")
    if any(s <= 0 for s in stride):
        raise RuntimeError("non-positive stride is not supported")
    if any(d <= 0 for d in dilation):
        listed = (
            "" if any(d < 0 for d in dilation) else f", but got {[1] * (len(dilation) == 1) + list(dilation)}"
        )
        raise RuntimeError(f"dilation should be greater than zero{listed}")


def _check_types(input: Any, weight: Any, bias: Any) -> None:
    if bias is not None and bias.dtype != input.dtype:
        raise RuntimeError(
            f"Input type ({_cpp_name(input)}) and bias type ({_cpp_name(bias)}) should be the same"
        )
    if input.dtype != weight.dtype:
        raise RuntimeError(f"expected scalar type {type_name(input)} but found {type_name(weight)}")


def _cpp_name(x: Any) -> str:
    return "short int" if x.dtype == np.int16 else c_name(x)


def _check_ranks(name: str, input: Any, weight: Any, same: bool, n: int) -> None:
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input "
            f"of size: {list(input.shape)}"
        )
    if weight.ndim < 3:
        raise RuntimeError("weight should have at least three dimensions")
    if weight.ndim != n + 2 and (same or n == 1):
        rank = f"{weight.ndim}-dimensional"
        raise RuntimeError(
            f"Expected {rank} input for {rank} weight{'' if same else ' '}{list(weight.shape)}, but got "
            f"{n + 2}-dimensional input of size {_batched_shape(input, n)} instead"
        )
    if weight.ndim != n + 2:
        raise RuntimeError(
            f"expected stride to be a single integer value or a list of {weight.ndim - 2} values to match the "
            f"convolution dimensions, but got stride={[1] * n}"
        )


def _batched_shape(input: Any, n: int) -> list[int]:
    return list(input.shape) if input.ndim == n + 2 else [1, *input.shape]


def _check_shapes(input: Any, weight: Any, bias: Any, groups: int, n: int) -> None:
    shape = list(weight.shape)
    given = f"Given groups={groups}, "
    if shape[0] < groups:
        raise RuntimeError(
            f"{given}expected weight to be at least {groups} at dimension 0, but got weight of size {shape} instead"
        )
    if shape[0] % groups:
        raise RuntimeError(
            f"{given}expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size [{shape}] instead"
        )
    channels = input.shape[-n - 1]
    if channels != shape[1] * groups:
        raise RuntimeError(
            f"{given}weight of size {shape}, expected input{_batched_shape(input, n)} to have "
            f"{shape[1] * groups} channels, but got {channels} channels instead"
        )
    if bias is not None and (bias.ndim != 1 or bias.shape[0] != shape[0]):
        raise RuntimeError(
            f"Given weight of size {shape}, expected bias to be 1-dimensional with {shape[0]} elements, "
            f"but got bias of size {list(bias.shape)} instead"
        )
    if 0 in shape[2:]:
        sides = " x ".join(map(str, shape[2:])) + " (TxHxW)"
        plane = [1] * (n == 1) + shape[2:]
        listed = f" kernel_height: {plane[0]} kernel_width: {plane[1]}" if n < 3 else f": {sides}"
        raise RuntimeError(f"kernel size should be greater than zero, but got{listed}")


def _check_fits(sizes: tuple[int, ...], kernel: tuple[int, ...], pads: Any, reach: tuple[int, ...]) -> None:
    padded = [size + low + high for size, (low, high) in zip(sized(sizes), pads, strict=True)]
    extent = [r + 1 for r in reach]
    if any(p < e for p, e in zip(padded, extent, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). "
            f"Kernel size: ({' x '.join(map(str, extent))}). Kernel size can't be greater than actual input size"
        )


def _convolve(
    name: str,
    n: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Ints,
    padding: Any,
    dilation: Ints,
    groups: int,
) -> jax.Array:
    """The convolution over ``n`` spatial dimensions, batched or unbatched."""
    from ._convolution import Convolution, convolve

    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    _check_ranks(name, input, weight, padding == "same", n)
    strides, dilations = _per_dim(stride, n, "stride"), _per_dim(dilation, n, "dilation")
    reach = tuple(max(d * (k - 1), 0) for d, k in zip(dilations, weight.shape[2:], strict=True))
    pads = _padding(padding, strides, reach)
    _check_arguments(pads, strides, dilations)
    _check_shapes(input, weight, bias, groups, n)
    _check_types(input, weight, bias)
    not_implemented("slow_conv3d_cpu" if n == 3 else "slow_conv2d_cpu", input, kinds="b")
    _check_fits(input.shape[-n:], weight.shape[2:], pads, reach)
    batched = input if input.ndim == n + 2 else input[None]
    how = Convolution(batched.shape, weight.shape, strides, pads, dilations, groups, matmul_precision())
    shape = (-1, *(1,) * n)
    if bias is None:
        out = convolve(batched, weight, how)
    elif wide(input.dtype) == input.dtype:
        out = convolve(batched, weight, how) + bias.reshape(shape)
    else:
        out = plus_bias(partial(convolve, how=how), shape, batched, weight, bias)
    return out if input.ndim == n + 2 else out[0]


def _conv_op(n: int) -> Any:
    def conv(
        input: Array,
        weight: Array,
        bias: Array | None = None,
        stride: Ints = 1,
        padding: Any = 0,
        dilation: Ints = 1,
        groups: int = 1,
    ):
        return _convolve(f"conv{n}d", n, input, weight, bias, stride, padding, dilation, groups)

    conv.__name__ = f"conv{n}d"
    conv.__doc__ = (
        f"Convolution over {n} spatial dimension{'s' * (n > 1)}: ``input`` (N, C, ...) and ``weight`` "
        "(O, C / groups, ...) give (N, O, ...)."
    )
    return op(f"conv{n}d", where="torch F", node="ConvolutionBackward0", order=convolution_order)(conv)


conv1d, conv2d, conv3d = _conv_op(1), _conv_op(2), _conv_op(3)


# dense layers


def _matrix_product(x: Any, w: Any, out: Any = None) -> jax.Array:
    """``x @ w.T`` without a transposed copy, in the dtype ``out``."""
    from ._product import multiply

    rows, columns = numel(x.shape[:-1]), x.shape[-1]
    if columns != w.shape[1]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{columns} and {w.shape[1]}x{w.shape[0]})"
        )
    if x.dtype != w.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {c_name(x)} != {c_name(w)}")
    return multiply(x, w, transposed=True, wide=out)


def _check_dense(input: Any, weight: Any) -> None:
    if not input.ndim or not weight.ndim:
        raise RuntimeError(
            f"both arguments to linear need to be at least 1D, but they are {input.ndim}D and {weight.ndim}D"
        )
    if weight.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {weight.ndim}D")


def _linear(input: Any, weight: Any, bias: Any) -> jax.Array:
    _check_dense(input, weight)
    if weight.ndim == 1:
        raise RuntimeError("mat2 must be a matrix, got 1-D tensor")
    for what, value in (("self", bias), ("mat1", input)):
        if value.dtype != weight.dtype:
            raise RuntimeError(
                f"{what} and mat2 must have the same dtype, but got {type_name(value)} and {type_name(weight)}"
            )
    if wide(input.dtype) != input.dtype:
        out = jax.eval_shape(_matrix_product, input, weight)
        check_expand(bias.shape, out.shape)
        return plus_bias(_matrix_product, bias.shape, input, weight, bias)
    out = _matrix_product(input, weight)
    check_expand(bias.shape, out.shape)
    return out + bias


# PyTorch's graph differs by rank and bias, so there is one name for each; `nn.functional.linear` chooses.


@op("_linear_2d", where="", node="AddmmBackward0", edges=("bias", "input", "t(weight)"))
def linear(input: Array, weight: Array, bias: Array):
    """``input @ weight.T + bias`` for a batch of vectors."""
    return _linear(input, weight, bias)


@op("_linear_nd", where="", node="ViewBackward0", edges=("bias", "input", "t(weight)"))
def linear_nd(input: Array, weight: Array, bias: Array):
    """``input @ weight.T + bias`` for any number of leading dimensions."""
    return _linear(input, weight, bias)


@op("_linear_2d_unbiased", where="", node="MmBackward0", edges=("input", "t(weight)"))
def linear_unbiased(input: Array, weight: Array):
    """``input @ weight.T`` for a batch of vectors."""
    _check_dense(input, weight)
    return _matrix_product(input, weight)


@op("_linear_nd_unbiased", where="", node="UnsafeViewBackward0", edges=("input", "t(weight)"))
def linear_nd_unbiased(input: Array, weight: Array):
    """``input @ weight.T`` for any number of leading dimensions."""
    return linear_unbiased(input, weight)


@op("_linear_vector", where="", node="MvBackward0", edges=("input", "t(weight)"))
def linear_vector(input: Array, weight: Array):
    """``input @ weight`` for a vector ``weight``."""
    _check_dense(input, weight)
    rows, columns = numel(input.shape[:-1]), input.shape[-1]
    if columns != weight.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({rows}), mat ({rows}x{columns}), vec ({weight.shape[0]})"
        )
    return lax.dot_general(input, weight, (((input.ndim - 1,), (0,)), ((), ())), precision=matmul_precision())


@op(where="torch F", node="AddBackward0")
@rounded_once
def bilinear(input1: Array, input2: Array, weight: Array, bias: Array | None = None):
    """``input1 @ weight[k] @ input2 + bias[k]`` for every output ``k``."""
    if input1.ndim != input2.ndim:
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}")
    for i, (a, b) in enumerate(zip(input1.shape[:-1], input2.shape[:-1], strict=True)):
        if a != b:
            raise RuntimeError(f"bilinear(): input batch dimensions do not match at dim {i}: got {a} and {b}")
    for i, x in ((1, input1), (2, input2)):
        if x.shape[-1] != weight.shape[i]:
            raise RuntimeError(
                f"bilinear(): input{i} size does not match weight size: got {x.shape[-1]} but expected "
                f"{weight.shape[i]}"
            )
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected {weight.shape[0]}"
        )
    precision = matmul_precision()
    half = lax.dot_general(
        input1, weight, (((input1.ndim - 1,), (1,)), ((), ())), precision=precision
    )  # (..., out, in2)
    batch = tuple(range(input2.ndim - 1))
    out = lax.dot_general(
        half, input2, (((half.ndim - 1,), (input2.ndim - 1,)), (batch, batch)), precision=precision
    )
    return out if bias is None else out + bias
