"""Activation functions; `inplace=True` changes the input itself."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..._array import tracing
from ..._base import dtypes
from ..._random.generator import draw
from ..._run.bind import function
from ..._tensor.creation import empty_like, tensor, zeros_like
from ..._tensor.tensor import Tensor, wrap
from ._common import require_tensor, write

_relu, _relu6, _hardtanh = function("relu"), function("relu6"), function("hardtanh")
_leaky_relu, _elu, _selu, _celu = function("leaky_relu"), function("elu"), function("selu"), function("celu")
_silu, _mish, _hardswish, _hardsigmoid = (
    function("silu"),
    function("mish"),
    function("hardswish"),
    function("hardsigmoid"),
)
_threshold, _rrelu = function("threshold"), function("rrelu_with_noise")
_softmax, _log_softmax = function("softmax"), function("log_softmax")

relu_, elu_, selu_, celu_ = function("relu_"), function("elu_"), function("selu_"), function("celu_")
leaky_relu_, hardtanh_, threshold_ = function("leaky_relu_"), function("hardtanh_"), function("threshold_")
gelu, softplus, softsign, logsigmoid = (
    function("gelu"),
    function("softplus"),
    function("softsign"),
    function("logsigmoid"),
)
tanhshrink, hardshrink, softshrink = function("tanhshrink"), function("hardshrink"), function("softshrink")
prelu, glu = function("prelu"), function("glu")


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(input, 0)``.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.functional.relu(torch.tensor([-1., 2.]))
        tensor([0., 2.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.relu.html
    """
    require_tensor("relu", "input", 1, input)
    return relu_(input) if inplace else _relu(input)


def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-input))``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.sigmoid.html
    """
    return input.sigmoid()  # type: ignore[attr-defined]


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.tanh.html
    """
    return input.tanh()  # type: ignore[attr-defined]


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(input, 0), 6)``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.relu6.html
    """
    return write(input, _relu6(input)) if inplace else _relu6(input)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` clamped to ``[min_val, max_val]``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.hardtanh.html
    """
    return hardtanh_(input, min_val, max_val) if inplace else _hardtanh(input, min_val, max_val)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``input`` where it is positive, else ``negative_slope * input``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.leaky_relu.html
    """
    return leaky_relu_(input, negative_slope) if inplace else _leaky_relu(input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` where it is positive, else ``alpha * (exp(input) - 1)``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.elu.html
    """
    return elu_(input, alpha) if inplace else _elu(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Scaled `elu`, with the constants that keep mean 0 and variance 1.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.selu.html
    """
    return selu_(input) if inplace else _selu(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` where it is positive, else ``alpha * (exp(input / alpha) - 1)``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.celu.html
    """
    return celu_(input, alpha) if inplace else _celu(input, alpha)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * sigmoid(input)``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.silu.html
    """
    return write(input, _silu(input)) if inplace else _silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * tanh(softplus(input))``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.mish.html
    """
    return write(input, _mish(input)) if inplace else _mish(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * relu6(input + 3) / 6``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.hardswish.html
    """
    return write(input, _hardswish(input)) if inplace else _hardswish(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``relu6(input + 3) / 6``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.hardsigmoid.html
    """
    return write(input, _hardsigmoid(input)) if inplace else _hardsigmoid(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``input`` where it is above ``threshold``, else ``value``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.threshold.html
    """
    return threshold_(input, threshold, value) if inplace else _threshold(input, threshold, value)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """`leaky_relu` with a slope per element, drawn from ``[lower, upper]`` in training; else their mean.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.rrelu.html
    """
    out = rrelu_values(input, lower, upper, training)
    return write(input, out) if inplace else out


def rrelu_(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    generator: Any = None,
) -> Tensor:
    """In-place version of `rrelu`, with slopes drawn from ``generator``."""
    return write(input, rrelu_values(input, lower, upper, training, generator))


def rrelu_values(input: Tensor, lower: float, upper: float, training: bool, generator: Any = None) -> Tensor:
    """`rrelu` with slopes drawn from ``generator``."""
    for name, bound in (("lower", lower), ("upper", upper)):
        if not math.isfinite(bound):
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {bound}")
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return _leaky_relu(input, (lower + upper) / 2)
    return _rrelu(input, _slopes(input, lower, upper, generator))


def _slopes(input: Tensor, lower: float, upper: float, generator: Any) -> Tensor:
    """A slope per element. In eager mode one is drawn only where the input is not positive, as in PyTorch."""
    if tracing.overlay:
        return wrap(draw(generator, "uniform", tuple(input.shape), input.dtype, low=lower, high=upper))
    below = np.asarray(input._look()) <= 0
    slopes = np.ones(below.shape)
    slopes[below] = draw(generator, "uniform", (int(below.sum()),), dtypes.float64, low=lower, high=upper)
    return tensor(slopes, dtype=input.dtype)


def _implicit_dim(name: str, ndim: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel + 1,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``exp(input)`` divided by its sum along ``dim``.

    Args:
        input: scores.
        dim: the dimension that sums to 1.
        dtype: cast the input to this dtype first.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html
    """
    if dim is None:
        dim = _implicit_dim("softmax", input.ndim, _stacklevel)
    return _softmax(input, dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """The logarithm of `softmax`.

    Args:
        input: scores.
        dim: the dimension whose exponentials sum to 1.
        dtype: cast the input to this dtype first.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html
    """
    if dim is None:
        dim = _implicit_dim("log_softmax", input.ndim, _stacklevel)
    return _log_softmax(input, dim, dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """`softmax` of ``-input``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmin.html
    """
    if dim is None:
        dim = _implicit_dim("softmin", input.ndim, _stacklevel)
    return _softmax(-input, dim, dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Sample from the Gumbel-softmax (relaxed categorical) distribution.

    Args:
        logits: unnormalized log-probabilities.
        tau: temperature.
        hard: return one-hot vectors, with the gradient of the soft sample (straight-through).
        dim: the dimension of the classes.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.gumbel_softmax.html
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    gumbels = -empty_like(logits).exponential_().log()
    soft = _softmax((logits + gumbels) / tau, dim, None)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    sharp = zeros_like(logits).scatter_(dim, index, 1.0)
    return sharp - soft.detach() + soft
