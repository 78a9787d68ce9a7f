"""Operations on sparse tensors (``torch.sparse``)."""

from __future__ import annotations

from typing import Any

from .core.bind import function
from .core.tensor import Tensor

__all__ = ["mm", "sum"]

_mm = function("mm")


def mm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """The product of a sparse matrix and a dense one.

    Args:
        mat1: (n, m), sparse (or dense).
        mat2: (m, p), dense.

    Returns:
        Dense, (n, p); differentiable with respect to the values of ``mat1`` and to ``mat2``.

    Raises:
        RuntimeError: if the shapes do not fit.
        NotImplementedError: if both are sparse.

    Example:
        >>> import functorch_port as torch
        >>> a = torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
        >>> torch.sparse.mm(a, torch.ones(3, 2))
        tensor([[3., 3.],
                [4., 4.]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.sparse.mm.html
    """
    return _mm(mat1, mat2)


def sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum of all elements of a sparse tensor.

    Args:
        input: sparse.
        dim: must be None; for a sum over some dimensions use ``to_dense``.
        dtype: of the result.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.sparse.sum.html
    """
    return function("sum")(input, dim, dtype=dtype)
