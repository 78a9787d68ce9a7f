"""Softmax and log-softmax."""

from __future__ import annotations

from typing import Any

import jax

from functorch_port._base.dtypes import dtype as DType
from functorch_port._run.registry import Array, op
from functorch_port.ops._common import not_implemented, wide, wrap_dim


def _start(kernel: str, input: Any, dim: int, dtype: DType | None) -> tuple[jax.Array, int, Any]:
    """(the input in the dtype to compute in, dim, the dtype of the result)."""
    if dtype is not None:
        input = input.astype(dtype.np)
    dim = wrap_dim(dim, input.ndim)
    not_implemented(kernel, input, kinds="biuc")
    return input.astype(wide(input.dtype)), dim, input.dtype


@op(where="torch method F special")
def softmax(input: Array, dim: int, dtype: DType | None = None):
    """``exp(input)`` divided by its sum along ``dim``."""
    x, dim, result = _start("softmax_lastdim_kernel_impl", input, dim, dtype)
    if not x.ndim:
        return softmax(input.reshape(1), 0, dtype).reshape(())
    from ._softmax import softmax as along

    return along(x, dim)[0].astype(result)


@op(where="torch method F special")
def log_softmax(input: Array, dim: int, dtype: DType | None = None):
    """The logarithm of `softmax`, computed without under- or overflow."""
    x, dim, result = _start("log_softmax_lastdim_kernel_impl", input, dim, dtype)
    if not x.ndim:
        return log_softmax(input.reshape(1), 0, dtype).reshape(())
    from ._softmax import log_softmax as along

    return along(x, dim).astype(result)
