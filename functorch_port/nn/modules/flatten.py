"""Flatten and unflatten layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._tensor.tensor import Tensor
from .._module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Merge a range of dimensions into one.

    Args:
        start_dim: first dimension to merge.
        end_dim: last dimension to merge.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.Flatten()(torch.ones(32, 1, 5, 5)).size()
        torch.Size([32, 25])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Flatten.html
    """

    __constants__ = ["start_dim", "end_dim"]

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split one dimension into several.

    Args:
        dim: the dimension to split.
        unflattened_size: the sizes of the new dimensions.

    Raises:
        TypeError: if ``dim`` or a size is not an int (named dimensions are not supported).

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.Unflatten(1, (2, 5, 5))(torch.ones(2, 50)).size()
        torch.Size([2, 2, 5, 5])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Unflatten.html
    """

    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError("invalid argument type for dim parameter")
        _require_ints(unflattened_size)
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


def _require_ints(sizes: Any) -> None:
    if not isinstance(sizes, tuple | list):
        raise TypeError(f"unflattened_size must be a tuple of ints, but found type {type(sizes).__name__}")
    for i, size in enumerate(sizes):
        if not isinstance(size, int):
            raise TypeError(
                f"unflattened_size must be tuple of ints, but found element of type {type(size).__name__} at pos {i}"
            )
