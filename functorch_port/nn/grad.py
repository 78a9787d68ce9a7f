"""``torch.nn.grad``: gradients of convolutions.

Reference: https://docs.pytorch.org/docs/stable/nn.functional.html#convolution-functions
"""

from __future__ import annotations

from typing import Any

from .._tensor.creation import zeros
from .._tensor.grad_mode import enable_grad, is_grad_enabled
from .._tensor.tensor import Tensor
from ..autograd import grad
from . import functional as F

__all__ = [
    "conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight",
]  # fmt: skip


def _gradient(
    conv: Any, sizes: tuple[Any, Any], given: Tensor, grad_output: Tensor, options: tuple
) -> Tensor:
    """The gradient with respect to the tensor whose size is in ``sizes``; ``given`` is the other tensor."""
    with enable_grad():
        tensors = [
            given if size is None else zeros(size, dtype=given.dtype, requires_grad=True) for size in sizes
        ]
        out = conv(*tensors, None, *options)
    wanted = tensors[0 if sizes[1] is None else 1]
    return grad(out, wanted, grad_output, create_graph=is_grad_enabled())[0]


def conv1d_input(
    input_size: Any,
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of `nn.functional.conv1d` with respect to its input.

    Args:
        input_size: the input's shape.
        weight: the convolution's weight.
        grad_output: the gradient of the output.
        stride, padding, dilation, groups: those of the convolution.
    """
    options = (stride, padding, dilation, groups)
    return _gradient(F.conv1d, (tuple(input_size), None), weight, grad_output, options)


def conv1d_weight(
    input: Tensor,
    weight_size: Any,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of `nn.functional.conv1d` with respect to its weight.

    Args:
        input: the convolution's input.
        weight_size: the weight's shape.
        grad_output: the gradient of the output.
        stride, padding, dilation, groups: those of the convolution.
    """
    options = (stride, padding, dilation, groups)
    return _gradient(F.conv1d, (None, tuple(weight_size)), input, grad_output, options)


def conv2d_input(
    input_size: Any,
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of `nn.functional.conv2d` with respect to its input.

    Args:
        input_size: the input's shape.
        weight: the convolution's weight.
        grad_output: the gradient of the output.
        stride, padding, dilation, groups: those of the convolution.
    """
    options = (stride, padding, dilation, groups)
    return _gradient(F.conv2d, (tuple(input_size), None), weight, grad_output, options)


def conv2d_weight(
    input: Tensor,
    weight_size: Any,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of `nn.functional.conv2d` with respect to its weight.

    Args:
        input: the convolution's input.
        weight_size: the weight's shape.
        grad_output: the gradient of the output.
        stride, padding, dilation, groups: those of the convolution.
    """
    options = (stride, padding, dilation, groups)
    return _gradient(F.conv2d, (None, tuple(weight_size)), input, grad_output, options)


def conv3d_input(
    input_size: Any,
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of `nn.functional.conv3d` with respect to its input.

    Args:
        input_size: the input's shape.
        weight: the convolution's weight.
        grad_output: the gradient of the output.
        stride, padding, dilation, groups: those of the convolution.
    """
    options = (stride, padding, dilation, groups)
    return _gradient(F.conv3d, (tuple(input_size), None), weight, grad_output, options)


def conv3d_weight(
    input: Tensor,
    weight_size: Any,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of `nn.functional.conv3d` with respect to its weight.

    Args:
        input: the convolution's input.
        weight_size: the weight's shape.
        grad_output: the gradient of the output.
        stride, padding, dilation, groups: those of the convolution.
    """
    options = (stride, padding, dilation, groups)
    return _gradient(F.conv3d, (None, tuple(weight_size)), input, grad_output, options)
