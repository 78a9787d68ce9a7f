"""Deformable convolution, which is not supported."""

from __future__ import annotations

from typing import Any, NoReturn

from ...nn import Module

__all__ = ["DeformConv2d", "deform_conv2d"]


def deform_conv2d(*args: Any, **kwargs: Any) -> NoReturn:
    """Not supported.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "torchvision.ops.deform_conv2d is not supported: sample the input at the offsets by"
        " torch.nn.functional.grid_sample, once for each place of the kernel, and multiply by its weights"
    )


class DeformConv2d(Module):
    """Not supported.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        deform_conv2d()
