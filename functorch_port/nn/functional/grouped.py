"""Matrix products in groups, and of scaled narrow types."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ..._base.dtypes import dtype as DType
from ..._run.bind import function
from ..._tensor.tensor import Tensor

_grouped_mm = function("_grouped_mm")


class ScalingType(Enum):
    """What shares a scale in `scaled_mm`."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(Enum):
    """The order of the scales in memory in `scaled_mm`."""

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
    """A matrix product for every group: of rows, as those of an expert, of columns, or of what is summed over.

    Args:
        mat_a: (G, M, K), or (M, K) with the groups side by side.
        mat_b: (G, K, N), or (K, N) with the groups side by side.
        offs: int32, (G): where each group ends in the matrices without a dimension G; there must be one of those. What
            lies past the last end counts for nothing, and its place in the result is zero.
        bias: not supported, as in PyTorch.
        out_dtype: that of ``mat_a``.

    Shape:
        (M, N), or (G, M, N) if both have three dimensions or neither has.

    Raises:
        RuntimeError: for types and shapes that do not fit, or a bias.

    Example:
        >>> import functorch_port as torch
        >>> rows, experts = torch.ones(3, 2), torch.tensor([[[1.], [1.]], [[5.], [5.]]])
        >>> torch.nn.functional.grouped_mm(rows, experts, offs=torch.tensor([1, 3], dtype=torch.int32)).flatten()
        tensor([ 2., 10., 10.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.grouped_mm.html
    """
    return _grouped_mm(mat_a, mat_b, offs, bias, out_dtype)


def scaled_mm(mat_a: Tensor, mat_b: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Refused: there are no products of narrow types with scales.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(_SCALED.format("scaled_mm", "a @ b"))


def scaled_grouped_mm(mat_a: Tensor, mat_b: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Refused: there are no products of narrow types with scales.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(_SCALED.format("scaled_grouped_mm", "grouped_mm(a, b, offs=offs)"))


_SCALED = (
    "nn.functional.{}: there are no products of narrow types with scales; multiply the scales in, "
    "a = mat_a.bfloat16() * scale_a and b = mat_b.bfloat16() * scale_b, and take {}"
)
