"""Fusion of a layer with the batch norm after it, for evaluation."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from ..._tensor.tensor import Tensor
from .._module import Module
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

M = TypeVar("M", bound=Module)


def _check(layer: Module, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")


def _statistics(bn: Any) -> tuple[Any, ...]:
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    return bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias


def _fused(
    w: Tensor,
    b: Tensor | None,
    statistics: tuple[Tensor, Tensor, float, Tensor | None, Tensor | None],
    shape: list[int],
) -> tuple[Parameter, Parameter]:
    mean, var, eps, bn_w, bn_b = statistics
    bias_dtype = w.dtype if b is None else b.dtype
    trained = b is not None and b.requires_grad
    scale = (var + eps).rsqrt() if bn_w is None else (var + eps).rsqrt() * bn_w
    shift = -mean if b is None else b - mean
    bias = shift * scale if bn_b is None else shift * scale + bn_b
    return (
        Parameter((w * scale.reshape(shape).to(w.dtype)).to(w.dtype), w.requires_grad),
        Parameter(bias.to(bias_dtype), trained),
    )


def fuse_conv_bn_eval(conv: M, bn: Module, transpose: bool = False) -> M:
    """Fuse a convolution and the batch norm after it, both in evaluation mode, into one convolution.

    Args:
        conv: the convolution.
        bn: the batch norm, with running statistics.
        transpose: whether the convolution is a transposed convolution.

    Raises:
        AssertionError: if a module is in training mode, or the batch norm has no running statistics.

    Example:
        >>> import functorch_port as torch
        >>> conv, bn = torch.nn.Conv1d(2, 3, 1).eval(), torch.nn.BatchNorm1d(3).eval()
        >>> x = torch.ones(1, 2, 4)
        >>> torch.allclose(torch.nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-6)
        True

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.fuse_conv_bn_eval.html
    """
    _check(conv, bn)
    fused: Any = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, *_statistics(bn), transpose=transpose
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the convolution fused with a batch norm.

    Args:
        conv_w, conv_b: the convolution's weight, and bias or None.
        bn_rm, bn_rv, bn_eps: running mean, running variance and eps of the batch norm.
        bn_w, bn_b: its weight and bias, or None.
        transpose: whether the convolution is a transposed convolution.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.fuse_conv_bn_weights.html
    """
    shape = ([1, -1] if transpose else [-1, 1]) + [1] * (conv_w.ndim - 2)
    return _fused(conv_w, conv_b, (bn_rm, bn_rv, bn_eps, bn_w, bn_b), shape)


def fuse_linear_bn_eval(linear: M, bn: Module) -> M:
    """Fuse a linear layer and the batch norm after it, both in evaluation mode, into one linear layer.

    Args:
        linear: the layer.
        bn: the batch norm, with running statistics and ``linear.out_features`` features, or one.

    Raises:
        AssertionError: if a module is in training mode, there are no running statistics, or the numbers of features
            do not match.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.fuse_linear_bn_eval.html
    """
    _check(linear, bn)
    fused: Any = copy.deepcopy(linear)
    out, features = fused.out_features, bn.num_features
    if features not in (out, 1):
        raise AssertionError(
            f"To fuse, linear.out_features == bn.num_features or bn.num_features == 1, "
            f"got linear.out_features={out} and bn.num_features={features}"
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, *_statistics(bn))
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the linear layer fused with a batch norm.

    Args:
        linear_w, linear_b: the layer's weight, and bias or None.
        bn_rm, bn_rv, bn_eps: running mean, running variance and eps of the batch norm.
        bn_w, bn_b: its weight and bias.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.fuse_linear_bn_weights.html
    """
    return _fused(linear_w, linear_b, (bn_rm, bn_rv, bn_eps, bn_w, bn_b), [-1, 1])
