"""Grouped matrix products, and the scaled ones, which are not supported."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ..._base.dtypes import dtype as DType
from ..._run.bind import function
from ..._tensor.tensor import Tensor

_grouped_mm = function("_grouped_mm")


class ScalingType(Enum):
    """The elements that share a scale in `scaled_mm`."""

    __module__ = "functorch_port.nn.functional"  # PyTorch's, which pickles say

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(Enum):
    """The order of the scales in memory in `scaled_mm`."""

    __module__ = "functorch_port.nn.functional"  # PyTorch's, which pickles say

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: DType | None = None,
) -> Tensor:
    """Multiply G pairs of matrices; a 2-D operand holds its G groups one after the other.

    Args:
        mat_a: (G, M, K), or (M, K) with groups of rows (or of columns, if ``mat_b`` is 2-D too).
        mat_b: (G, K, N), or (K, N) with groups of columns (or of rows, if ``mat_a`` is 2-D too).
        offs: int32, (G): the end of each group; required if an operand is 2-D. Elements past the last end are
            ignored, and their part of the result is zero.
        bias: not supported, as in PyTorch.
        out_dtype: must be the dtype of ``mat_a``.

    Shape:
        (M, N), or (G, M, N) if both operands are 3-D or both are 2-D.

    Raises:
        RuntimeError: if types or shapes do not match, or a bias is given.

    Example:
        >>> import functorch_port as torch
        >>> rows, experts = torch.ones(3, 2), torch.tensor([[[1.], [1.]], [[5.], [5.]]])
        >>> torch.nn.functional.grouped_mm(rows, experts, offs=torch.tensor([1, 3], dtype=torch.int32)).flatten()
        tensor([ 2., 10., 10.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.grouped_mm.html
    """
    return _grouped_mm(mat_a, mat_b, offs, bias, out_dtype)


def scaled_mm(mat_a: Tensor, mat_b: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Not supported: there are no scaled matrix products here.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(_SCALED.format("scaled_mm", "a @ b"))


def scaled_grouped_mm(mat_a: Tensor, mat_b: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Not supported: there are no scaled matrix products here.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(_SCALED.format("scaled_grouped_mm", "grouped_mm(a, b, offs=offs)"))


_SCALED = (
    "nn.functional.{} is not supported. Apply the scales yourself, a = mat_a.bfloat16() * scale_a and "
    "b = mat_b.bfloat16() * scale_b, and use {}."
)
