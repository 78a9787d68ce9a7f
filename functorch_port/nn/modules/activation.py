"""Activation layers."""

from __future__ import annotations

import warnings
from typing import Any

from ..._tensor.creation import empty
from ..._tensor.tensor import Tensor
from .. import functional as F
from .. import init
from .._module import Module
from ..parameter import Parameter
from ._attention import MultiheadAttention

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _InplaceActivation(Module):
    """An elementwise function without parameters.

    Args:
        inplace: change the input itself.
    """

    __constants__ = ["inplace"]
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""

    def _with_inplace(self, text: str) -> str:
        return text + (", inplace=True" if self.inplace else "")


class ReLU(_InplaceActivation):
    """``max(x, 0)``.

    Args:
        inplace: change the input itself.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.ReLU()(torch.tensor([-1., 2.]))
        tensor([0., 2.])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.ReLU.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class Hardtanh(_InplaceActivation):
    """``x`` clamped to ``[min_val, max_val]``.

    Args:
        min_val, max_val: the limits.
        inplace: change the input itself.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.Hardtanh.html
    """

    __constants__ = ["min_val", "max_val", "inplace"]

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        for new, old, value in (("min_val", "min_value", min_value), ("max_val", "max_value", max_value)):
            if value is not None:
                text = f"keyword argument `{old}` is deprecated and renamed to `{new}`"
                warnings.warn(text, FutureWarning, stacklevel=2)
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"min_val={self.min_val}, max_val={self.max_val}")


class ReLU6(Hardtanh):
    """``min(max(x, 0), 6)``.

    Args:
        inplace: change the input itself.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.ReLU6.html
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class LeakyReLU(_InplaceActivation):
    """``x`` where it is positive, else ``negative_slope * x``.

    Args:
        negative_slope: slope below 0.
        inplace: change the input itself.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LeakyReLU.html
    """

    __constants__ = ["negative_slope", "inplace"]

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"negative_slope={self.negative_slope}")


class ELU(_InplaceActivation):
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``.

    Args:
        alpha: the output tends to ``-alpha`` at minus infinity.
        inplace: change the input itself.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.ELU.html
    """

    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"alpha={self.alpha}")


class CELU(_InplaceActivation):
    """``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)``.

    Args:
        alpha: the output tends to ``-alpha`` at minus infinity.
        inplace: change the input itself.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.CELU.html
    """

    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"alpha={self.alpha}")


class SELU(_InplaceActivation):
    """Scaled `ELU`, with the constants that keep mean 0 and variance 1.

    Args:
        inplace: change the input itself.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.SELU.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class SiLU(_InplaceActivation):
    """``x * sigmoid(x)``.

    Args:
        inplace: change the input itself.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.SiLU.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(_InplaceActivation):
    """``x * tanh(softplus(x))``.

    Args:
        inplace: change the input itself.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.Mish.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class Hardswish(_InplaceActivation):
    """``x * relu6(x + 3) / 6``.

    Args:
        inplace: change the input itself.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.Hardswish.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardsigmoid(_InplaceActivation):
    """``relu6(x + 3) / 6``.

    Args:
        inplace: change the input itself.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.Hardsigmoid.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Threshold(_InplaceActivation):
    """``x`` where it is above the threshold, else ``value``.

    Args:
        threshold: the threshold.
        value: replaces inputs at or below the threshold.
        inplace: change the input itself.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.Threshold.html
    """

    __constants__ = ["threshold", "value", "inplace"]

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"threshold={self.threshold}, value={self.value}")


class RReLU(_InplaceActivation):
    """`LeakyReLU` with a slope drawn per element in training; else the mean slope.

    Args:
        lower, upper: bounds of the uniform distribution of the slopes.
        inplace: change the input itself.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.RReLU.html
    """

    __constants__ = ["lower", "upper", "inplace"]

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"lower={self.lower}, upper={self.upper}")


class PReLU(Module):
    """``x`` where it is positive, else ``weight * x`` with a learned weight.

    Args:
        num_parameters: 1, or the number of channels.
        init: initial value of the weights.
        device, dtype: of the weights.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.PReLU.html
    """

    __constants__ = ["num_parameters"]

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every weight to `init`."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.Sigmoid.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.Tanh.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


class Softsign(Module):
    """``x / (1 + |x|)``.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.Softsign.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)``.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.Tanhshrink.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class LogSigmoid(Module):
    """``log(sigmoid(x))``.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LogSigmoid.html
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class GELU(Module):
    """``x * Phi(x)``, where Phi is the standard normal cumulative distribution function.

    Args:
        approximate: "none" or "tanh" (the tanh approximation).

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.GELU.html
    """

    __constants__ = ["approximate"]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``.

    Args:
        beta: steepness.
        threshold: where ``beta * x`` is above it, the result is ``x``.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.Softplus.html
    """

    __constants__ = ["beta", "threshold"]

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Hardshrink(Module):
    """``x`` where ``|x| > lambd``, else 0.

    Args:
        lambd: the threshold.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.Hardshrink.html
    """

    __constants__ = ["lambd"]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Module):
    """Soft thresholding: ``x`` moved towards 0 by ``lambd``, and 0 where ``|x| <= lambd``.

    Args:
        lambd: the threshold.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.Softshrink.html
    """

    __constants__ = ["lambd"]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class GLU(Module):
    """Gated linear unit: the first half along ``dim`` times the sigmoid of the second half.

    Args:
        dim: the dimension to halve.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.GLU.html
    """

    __constants__ = ["dim"]

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(Module):
    """``exp(x)`` divided by its sum along ``dim``.

    Args:
        dim: the dimension that sums to 1.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmax.html
    """

    __constants__ = ["dim"]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of `Softmax`.

    Args:
        dim: the dimension whose exponentials sum to 1.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LogSoftmax.html
    """

    __constants__ = ["dim"]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmin(Module):
    """`Softmax` of ``-x``.

    Args:
        dim: the dimension that sums to 1.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmin.html
    """

    __constants__ = ["dim"]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax2d(Module):
    """`Softmax` over the channels of (N, C, H, W) or (C, H, W).

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmax2d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)
