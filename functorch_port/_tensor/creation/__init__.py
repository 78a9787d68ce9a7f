"""Creation of tensors: from data, filled, and ranges."""

from .arguments import _into, _shape, finish, place
from .filled import (
    empty,
    empty_like,
    empty_permuted,
    empty_strided,
    eye,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from .from_data import as_tensor, asarray, from_dlpack, from_jax, from_numpy, legacy, scalar_tensor, tensor
from .ranges import arange, linspace, logspace, range

__all__ = [
    "arange", "as_tensor", "asarray", "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "from_dlpack",
    "from_jax", "from_numpy", "full", "full_like",
    "linspace", "logspace", "ones", "ones_like", "range", "scalar_tensor", "tensor",
    "zeros", "zeros_like",
]  # fmt: skip
