"""Linear layers."""

from __future__ import annotations

import math
from typing import Any

from ..._tensor.creation import empty
from ..._tensor.grad_mode import no_grad
from ..._tensor.tensor import Tensor
from .. import functional as F
from .. import init
from .._module import Module
from ..parameter import Parameter
from .lazy import LazyModuleMixin, _wait_for_shapes

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Return the input; any arguments of the constructor are ignored.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.Identity(54, unused=0.1)(torch.ones(2))
        tensor([1., 1.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Identity.html
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """Affine map ``y = x @ weight.T + bias``.

    Args:
        in_features: size of the input's last dimension.
        out_features: size of the output's last dimension.
        bias: whether to add a bias.
        device, dtype: of the parameters.

    Shape:
        (..., in_features) to (..., out_features).

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.Linear(20, 30)(torch.ones(128, 20)).size()
        torch.Size([128, 30])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html
    """

    __constants__ = ["in_features", "out_features"]

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly from ``[-1/sqrt(in_features), 1/sqrt(in_features)]``."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """`Linear`; the class of the output projection in `MultiheadAttention`."""


class Bilinear(Module):
    """Bilinear map ``y[k] = x1 @ weight[k] @ x2 + bias[k]``.

    Args:
        in1_features, in2_features: sizes of the inputs' last dimensions.
        out_features: size of the output's last dimension.
        bias: whether to add a bias.
        device, dtype: of the parameters.

    Shape:
        (..., in1_features) and (..., in2_features) to (..., out_features).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Bilinear.html
    """

    __constants__ = ["in1_features", "in2_features", "out_features"]

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly from ``[-1/sqrt(in1_features), 1/sqrt(in1_features)]``."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        sizes = f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias is not None}"


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` that takes ``in_features`` from the first input.

    Args:
        out_features: size of the output's last dimension.
        bias: whether to add a bias.
        device, dtype: of the parameters.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyLinear.html
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        _wait_for_shapes(self, {"weight": True, "bias": bias}, device, dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:  # the shapes came from a state dict
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to in_features from "
                    f"self.weight: {self.weight.shape[-1]}"
                )
            self.in_features = input.shape[-1]
