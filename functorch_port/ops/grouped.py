"""Matrix products of groups of rows, with one matrix per group."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .._base import config
from .._base.dtypes import dtype as DType
from .._run.registry import TensorOnly, op
from ._common import type_name, wide
from .products import product

_TYPES = ("float32", "bfloat16", "float16")


def _check(mat_a: jax.Array, mat_b: jax.Array, offs: jax.Array | None, bias: jax.Array | None) -> None:
    for name, x in (("mat_a", mat_a), ("mat_b", mat_b)):
        if x.dtype.name not in _TYPES:
            raise RuntimeError(
                f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {type_name(x)}"
            )
    for name, x in (("mat_a", mat_a), ("mat_b", mat_b)):
        if x.ndim not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    if mat_a.shape[-1] != mat_b.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    if (offs is not None) != (2 in (mat_a.ndim, mat_b.ndim)):
        raise RuntimeError(
            "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
        )
    if offs is not None and offs.ndim != 1:
        raise RuntimeError("offs has to be 1D")
    if offs is not None and offs.dtype.name != "int32":
        raise RuntimeError("Offsets have to be int32")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    counts = [x.shape[0] for x in (mat_a, mat_b) if x.ndim == 3]
    if len(set(counts)) > 1:
        raise RuntimeError("batched dimension has to match")
    if offs is not None and counts and counts[0] != offs.shape[0]:
        raise RuntimeError("matrix batch sizes have to match")


def _rows_times(rows: jax.Array, matrices: jax.Array, ends: jax.Array) -> jax.Array:
    """(M, K) times (G, K, N) to (M, N): rows up to the first end use the first matrix, ...; the rest is 0."""
    sizes = jnp.diff(ends, prepend=ends.dtype.type(0))
    # products of half precision are exact in one pass, and a TPU refuses more
    precision = config.matmul_precision() if rows.dtype == jnp.float32 else jax.lax.Precision.DEFAULT
    out = jax.lax.ragged_dot(
        rows, matrices, sizes, precision=precision, preferred_element_type=wide(rows.dtype)
    )
    return out.astype(rows.dtype)


@op("_grouped_mm", where="torch")
def grouped_mm(
    self: TensorOnly,
    mat2: TensorOnly,
    offs: TensorOnly | None = None,
    bias: TensorOnly | None = None,
    out_dtype: DType | None = None,
):
    """The products of groups; see `nn.functional.grouped_mm`."""
    _check(self, mat2, offs, bias)
    if out_dtype is not None and out_dtype.np != self.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    if offs is None:
        return product(self, mat2)
    if self.ndim == 2 and mat2.ndim == 3:
        return _rows_times(self, mat2, offs)
    if self.ndim == 3:
        return _rows_times(mat2.T, self.mT, offs).T
    group = jnp.searchsorted(offs, jnp.arange(self.shape[1]), side="right")  # of every column
    inside = group == jnp.arange(offs.shape[0])[:, None]
    return product(jnp.where(inside[:, None], self, 0), mat2[None])
