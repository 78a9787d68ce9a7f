"""A hash of a tensor's elements."""

from __future__ import annotations

import numpy as np
from jax import lax

from .._run.registry import TensorOnly, op
from ._common import Dims, not_implemented, wrap_dims


@op(differentiable=False)
def hash_tensor(input: TensorOnly, dim: Dims = (), *, keepdim: bool = False, mode: int = 0):
    """The exclusive or over ``dim`` of the bits of the elements, as float64, int64 or uint64."""
    if mode != 0:
        raise RuntimeError("Unknown hash_tensor mode")
    not_implemented("xor_sum_cpu", input, kinds="c")
    if input.size == 0:
        if dim is None or dim == ():
            raise RuntimeError(
                "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
                "with the 'dim' argument."
            )
    dims = wrap_dims(dim, input.ndim)
    for d in dims:
        if input.ndim and input.shape[d] == 0:
            raise IndexError(f"hash_tensor: Expected reduction dim {d} to have non-zero size.")
    kind = input.dtype.kind
    wide = np.float64 if kind in "fV" else np.uint64 if kind in "bu" else np.int64
    bits = lax.bitcast_convert_type(input.astype(wide), np.uint64)
    out = lax.reduce(bits, np.uint64(0), lax.bitwise_xor, dims)
    return lax.expand_dims(out, sorted(dims)) if keepdim and input.ndim else out
