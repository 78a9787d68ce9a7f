"""The keyword ``out``: what may be written to, and the writing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .._tensor import grad_mode
from .._tensor.errors import C_NAMES
from .._tensor.tensor import Tensor
from .inplace import PARTIAL_OVERLAP

__all__ = ["write_out"]

_grad = grad_mode.state

#: operations that may not write to anything they read, not even to the same elements
_APART = frozenset({"gather", "take", "index_select", "kthvalue", "cat", "masked_select"})
#: operations that do not cast to the type of ``out``
_SAME_TYPE = frozenset({"gather", "aminmax", "argmax", "argmin", "diag", "msort", "norm"})
#: operations by element that give the type of their input
_AS_INPUT = frozenset({
    "abs", "bitwise_not", "ceil", "conj_physical", "fix", "floor", "frac", "hardshrink", "neg", "round", "sgn", "sign",
    "trunc",
})  # fmt: skip
_BOOLEAN = frozenset({"isneginf", "isposinf", "signbit"})
_FOURIER = re.compile("i?[rh]?fft[2n]?")


def write_out(out: Any, result: Any, name: str, inputs: Sequence[Any] = ()) -> Any:
    """Write the results of the operation called ``name``, which has read ``inputs``, to ``out``."""
    if isinstance(out, tuple | list):
        for target, value in zip(out, result, strict=True):
            write_out(target, value, name, inputs)
        return type(result)(*out) if hasattr(result, "_fields") else tuple(out)
    if not isinstance(out, Tensor):
        raise TypeError(f"argument 'out' must be Tensor, not {type(out).__name__}")
    if _grad.enabled and (out._requires_grad or result._requires_grad):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of "
            "the arguments requires grad."
        )
    if out.dtype is not result.dtype:
        _check_type(out, result, name, inputs)
    for read in inputs:
        if isinstance(read, Tensor) and read._storage is out._storage:
            _check_memory(out, result, name, read)
    out._assign_out(result)
    return out


def _check_type(out: Tensor, result: Tensor, name: str, inputs: Sequence[Any]) -> None:
    mine, theirs = result.dtype, out.dtype
    if name in _AS_INPUT and isinstance(inputs[0], Tensor) and inputs[0].dtype is mine:
        raise RuntimeError(f"Found dtype {theirs.scalar_name} but expected {mine.scalar_name}")
    if name in _BOOLEAN:
        raise RuntimeError(f"{name} does not support non-boolean outputs.")
    if name == "nan_to_num":
        raise RuntimeError(
            f"nan_to_num: dtype of out: {theirs.scalar_name} should be same as input: {mine.scalar_name}"
        )
    if _FOURIER.fullmatch(name) and not (theirs.is_complex if mine.is_complex else theirs.is_floating_point):
        shown = {"ifft2": "fftn", "ifftn": "fftn"}.get(name, name.replace("2", "n"))  # sic
        wanted = "complex" if mine.is_complex else "floating point"
        raise RuntimeError(f"{shown} expects a {wanted} output tensor, but got {theirs.scalar_name}")
    if name in _SAME_TYPE:
        names = [C_NAMES.get(d.name, d.name) for d in (mine, theirs)]
        raise RuntimeError(f"Expected out tensor to have dtype {names[0]}, but got {names[1]} instead")
    if name in ("amax", "amin"):
        raise RuntimeError(
            f"Expected the dtype for input and out to match, but got {mine.scalar_name} for input's dtype and "
            f"{theirs.scalar_name} for out's dtype."
        )
    if name in ("complex", "polar"):
        raise RuntimeError(
            f"Expected object of scalar type {mine.scalar_name} but got scalar type {theirs.scalar_name} for argument "
            "'out'"
        )


def _check_memory(out: Tensor, result: Tensor, name: str, read: Tensor) -> None:
    """Refuse to write over what is being read, where both share a Storage."""
    if name in _APART:
        (begin, end), (start, stop) = _span(out), _span(read)
        if out.shape != result.shape:  # it will be resized
            end = begin + result.numel()
        if begin < stop and start < end:
            raise RuntimeError(PARTIAL_OVERLAP)
    elif read is not out:
        out._check_shared(read, apart=False)


def _span(tensor: Tensor) -> tuple[int, int]:
    """The first element in the Storage, and the one after the last."""
    strides, offset = tensor._layout()
    shape = tensor.shape
    if 0 in shape:
        return offset, offset
    return offset, offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
