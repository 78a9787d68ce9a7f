"""Memory formats of convolution weights: accepted and ignored, as XLA chooses the layout of every array."""

from __future__ import annotations

from typing import Any, TypeVar

from .._module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

M = TypeVar("M", bound=Module)


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Return the module unchanged: XLA chooses the layout of its arrays.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.convert_conv2d_weight_memory_format.html
    """
    return module


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Return the module unchanged: XLA chooses the layout of its arrays.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.convert_conv3d_weight_memory_format.html
    """
    return module
