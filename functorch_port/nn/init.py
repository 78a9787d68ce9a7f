"""torch.nn.init: fill tensors in place without autograd, with PyTorch's random numbers for the same seed.

Reference: https://docs.pytorch.org/docs/stable/nn.init.html
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from functorch_port._array import tracing
from functorch_port._base import dtypes
from functorch_port._random.generator import Generator, draw
from functorch_port._run.bind import publish_functions
from functorch_port._tensor import creation
from functorch_port._tensor.grad_mode import no_grad
from functorch_port._tensor.tensor import Tensor
from functorch_port.ops.random_fills import trunc_normal_fill

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_UNIT_GAINS = {"linear", "sigmoid"} | {f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)}
_GAINS = dict.fromkeys(_UNIT_GAINS, 1) | {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The recommended gain of the weights for a nonlinearity.

    Args:
        nonlinearity: linear, conv*d, sigmoid (1), tanh (5/3), relu (sqrt 2), leaky_relu or selu (3/4).
        param: negative slope of leaky_relu; default 0.01.

    Raises:
        ValueError: for an unknown nonlinearity, or a slope that is not a number.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.init.calculate_gain("tanh")
        1.6666666666666667
    """
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, int | float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Fan-in and fan-out of a weight of shape (out, in, *kernel)."""
    shape = tuple(tensor.shape)
    if len(shape) < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    kernel = math.prod(shape[2:])
    return shape[1] * kernel, shape[0] * kernel


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def _assign(tensor: Tensor, values: Any) -> Tensor:
    """Overwrite ``tensor`` with an array, keeping its dtype and device."""
    if tensor.is_meta:
        return tensor
    with no_grad(), tracing.x64():
        return tensor.copy_(creation.from_jax(jnp.asarray(values).astype(tensor.dtype.np)))


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with numbers from the uniform distribution on [a, b).

    Args:
        tensor: the tensor to fill; it is also returned.
        a: lower bound.
        b: upper bound.
        generator: the random generator; None for the default one.

    Example:
        >>> import functorch_port as torch
        >>> _ = torch.manual_seed(0)
        >>> torch.nn.init.uniform_(torch.empty(3))
        tensor([0.4963, 0.7682, 0.0885])
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill with numbers from a normal distribution.

    Args:
        tensor: the tensor to fill; it is also returned.
        mean: mean.
        std: standard deviation.
        generator: the random generator; None for the default one.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.init.normal_(torch.empty(3, 5), std=0.02)
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill with numbers from a normal distribution truncated to [a, b] (absolute bounds, not multiples of ``std``).

    Args:
        tensor: the tensor to fill; it is also returned.
        mean: mean of the normal distribution before truncation.
        std: its standard deviation.
        a: lower bound.
        b: upper bound.
        generator: the random generator; None for the default one.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.init.trunc_normal_(torch.empty(3, 5), std=0.02)
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
            "incorrect.",
            stacklevel=2,
        )
    with no_grad():
        return trunc_normal_fill(tensor, mean, std, a, b, generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with ``val``.

    Args:
        tensor: the tensor to fill; it is also returned.
        val: the number.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.init.constant_(torch.empty(2), 0.3)
        tensor([0.3000, 0.3000])
    """
    with no_grad():
        return tensor if tensor.is_meta else tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones.

    Args:
        tensor: the tensor to fill; it is also returned.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.init.ones_(torch.empty(2))
        tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros.

    Args:
        tensor: the tensor to fill; it is also returned.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.init.zeros_(torch.empty(2))
        tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity.

    Args:
        tensor: the matrix; it is also returned.

    Raises:
        ValueError: if the tensor is not 2-dimensional.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.init.eye_(torch.empty(2, 3))
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return _assign(tensor, np.eye(*tensor.shape))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weight of a convolution with the Dirac delta: it passes on as many input channels as possible.

    Args:
        tensor: a weight of 3 to 5 dimensions; it is also returned.
        groups: number of groups of the convolution.

    Raises:
        ValueError: for another number of dimensions, or if ``groups`` does not divide the output channels.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.init.dirac_(torch.empty(1, 1, 3))
        tensor([[[0., 1., 0.]]])
    """
    shape = tuple(tensor.shape)
    if len(shape) not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = shape[0] // groups
    channel = np.arange(min(per_group, shape[1]))
    center = tuple(size // 2 for size in shape[2:])
    values = np.zeros(shape)
    for group in range(groups):
        values[(group * per_group + channel, channel, *center)] = 1
    return _assign(tensor, values)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Xavier (Glorot) uniform initialization, with standard deviation ``gain * sqrt(2 / (fan_in + fan_out))``.

    Args:
        tensor: a weight of at least 2 dimensions; it is also returned.
        gain: scaling factor, see `calculate_gain`.
        generator: the random generator; None for the default one.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.init.xavier_uniform_(torch.empty(3, 5))

    Reference: Glorot and Bengio, Understanding the difficulty of training deep feedforward neural networks,
        2010.
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Xavier (Glorot) normal initialization, with standard deviation ``gain * sqrt(2 / (fan_in + fan_out))``.

    Args:
        tensor: a weight of at least 2 dimensions; it is also returned.
        gain: scaling factor, see `calculate_gain`.
        generator: the random generator; None for the default one.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.init.xavier_normal_(torch.empty(3, 5))

    Reference: Glorot and Bengio, Understanding the difficulty of training deep feedforward neural networks,
        2010.
    """
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _xavier_std(tensor: Tensor, gain: float) -> float:
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return gain * math.sqrt(2.0 / float(fan_in + fan_out))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Kaiming (He) uniform initialization, with standard deviation ``gain / sqrt(fan)``.

    Args:
        tensor: a weight of at least 2 dimensions; it is also returned.
        a: negative slope of the leaky_relu after this layer.
        mode: ``"fan_in"`` keeps the variance of activations, ``"fan_out"`` that of gradients.
        nonlinearity: the nonlinearity after this layer, see `calculate_gain`.
        generator: the random generator; None for the default one.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.init.kaiming_uniform_(torch.empty(3, 5), nonlinearity="relu")

    Reference: He et al., Delving deep into rectifiers, 2015.
    """
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Kaiming (He) normal initialization, with standard deviation ``gain / sqrt(fan)``.

    Args:
        tensor: a weight of at least 2 dimensions; it is also returned.
        a: negative slope of the leaky_relu after this layer.
        mode: ``"fan_in"`` keeps the variance of activations, ``"fan_out"`` that of gradients.
        nonlinearity: the nonlinearity after this layer, see `calculate_gain`.
        generator: the random generator; None for the default one.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.init.kaiming_normal_(torch.empty(3, 5), mode="fan_out", nonlinearity="relu")

    Reference: He et al., Delving deep into rectifiers, 2015.
    """
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _is_empty(tensor: Tensor) -> bool:
    if 0 not in tensor.shape:
        return False
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return True


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill with a (semi-)orthogonal matrix times ``gain``; dimensions after the first are flattened to columns.

    Args:
        tensor: a weight of at least 2 dimensions; it is also returned.
        gain: scaling factor.
        generator: the random generator; None for the default one.

    Raises:
        ValueError: if the tensor has fewer than 2 dimensions.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.init.orthogonal_(torch.empty(3, 5))

    Reference: Saxe et al., Exact solutions to the nonlinear dynamics of learning in deep linear networks,
        2013.
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    _check_orthogonal(tensor.dtype)
    rows = tensor.shape[0]
    shape = (rows, tensor.numel() // rows)
    flat = draw(generator, "normal", shape, tensor.dtype)
    with tracing.x64():
        values = _orthonormal(flat) * jnp.asarray(gain, flat.dtype)
    return _assign(tensor, values.reshape(tensor.shape))


def _check_orthogonal(d: dtypes.dtype) -> None:
    if not (d.is_floating_point or d.is_complex):
        raise NotImplementedError(f"\"normal_kernel_cpu\" not implemented for '{d.scalar_name}'")
    if d.itemsize < 4:
        raise NotImplementedError(f"\"geqrf_cpu\" not implemented for '{d.scalar_name}'")


@jax.jit
def _orthonormal(flat: jax.Array) -> jax.Array:
    """The factor Q of the QR decomposition, with the signs that make the diagonal of R positive."""
    wide = flat.shape[0] < flat.shape[1]
    q, r = jnp.linalg.qr(flat.T if wide else flat)
    q = q * jnp.sign(jnp.diagonal(r))
    return q.T if wide else q


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill a matrix with numbers from a normal distribution, and set a fraction of each column to zero.

    Args:
        tensor: the matrix; it is also returned.
        sparsity: the fraction of zeros in each column.
        std: standard deviation of the other elements.
        generator: the random generator of the normal numbers; None for the default one.

    Raises:
        ValueError: if the tensor is not 2-dimensional.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.init.sparse_(torch.empty(4, 2), sparsity=0.5)

    Reference: Martens, Deep learning via Hessian-free optimization, 2010.
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    normal_(tensor, 0.0, std, generator)
    with no_grad(), tracing.x64():
        permutations = [draw(None, "permutation", (rows,), dtypes.int64) for _ in range(columns)]
        if permutations:
            rank = jnp.argsort(jnp.stack(permutations, axis=1), axis=0)  # row i stands at place rank[i]
            _assign(tensor, jnp.where(rank < zeros, 0, tensor._value))
    return tensor


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Generator | None = None) -> Tensor:
    return uniform_(tensor, a, b, generator)


def _no_grad_normal_(tensor: Tensor, mean: float, std: float, generator: Generator | None = None) -> Tensor:
    return normal_(tensor, mean, std, generator)


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    return constant_(tensor, val)


def _no_grad_zero_(tensor: Tensor) -> Tensor:
    return zeros_(tensor)


def _deprecated(new: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The deprecated name without underscore, which warns."""
    name = new.__name__

    @functools.wraps(new)
    def old(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{name[:-1]}` is now deprecated in favor of `nn.init.{name}`.",
            FutureWarning,
            stacklevel=2,
        )
        return new(*args, **kwargs)

    old.__name__ = name[:-1]
    return old


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)

_PUBLISHED = ("constant_", "kaiming_uniform_", "normal_", "uniform_")
globals().update(publish_functions({name: globals()[name] for name in _PUBLISHED}, "torch.nn.init"))
