"""`CausalBias`: a causal mask aligned to the upper left or the lower right corner."""

from __future__ import annotations

import warnings
from enum import IntEnum
from typing import Any

from ..._base import dtypes
from ..._run.bind import function
from ..._tensor.creation import ones
from ..._tensor.overriding import disabled
from ..._tensor.tensor import Tensor, bare

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """The corner to which the diagonal of a causal mask is aligned, if the mask is not square.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.attention.bias.CausalVariant.html
    """

    __module__ = "functorch_port.nn.attention.bias"  # PyTorch's, which pickles say

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A causal mask for `scaled_dot_product_attention`: a bool Tensor that knows its alignment.

    Args:
        variant: the corner to which the diagonal is aligned.
        seq_len_q: number of queries.
        seq_len_kv: number of keys.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.attention.bias.causal_lower_right(1, 3)
        tensor([[True, True, True]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.attention.bias.CausalBias.html
    """

    __module__ = "functorch_port.nn.attention.bias"  # PyTorch's, which pickles say

    __torch_function__ = disabled  # type: ignore[assignment]

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            warnings.warn(
                "Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!",
                stacklevel=2,
            )
        self = bare(cls)
        offset = seq_len_kv - seq_len_q if variant is CausalVariant.LOWER_RIGHT else 0
        mask = function("tril")(ones(seq_len_q, seq_len_kv, dtype=dtypes.bool_), offset)
        self._storage, self._view, self._requires_grad = mask._storage, mask._view, False
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        return self  # type: ignore[return-value]

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        """`__new__` does everything."""

    def _materialize(self, device: Any = None) -> Tensor:
        """The mask as an ordinary bool Tensor."""
        mask = Tensor._wrap(self._value)
        return mask if device is None else mask.to(device)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return repr(self._materialize())


def causal_upper_left(*size: int) -> CausalBias:
    """A causal mask aligned to the upper left: query ``i`` attends to keys ``0`` to ``i``.

    Args:
        *size: the number of queries and the number of keys.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.attention.bias.causal_upper_left.html
    """
    return _of_size("causal_upper_left", CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> CausalBias:
    """A causal mask aligned to the lower right: the last query attends to all keys.

    Args:
        *size: the number of queries and the number of keys.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.attention.bias.causal_lower_right.html
    """
    return _of_size("causal_lower_right", CausalVariant.LOWER_RIGHT, size)


def _of_size(name: str, variant: CausalVariant, size: tuple[int, ...]) -> CausalBias:
    if len(size) != 2:
        raise AssertionError(f"{name} only supports 2D tensors")
    return CausalBias(variant, *size)
