"""`torch.nn.utils.stateless`, the deprecated module of `functional_call`."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from typing import Any

from ..._tensor.tensor import Tensor
from ...func._functional_call import functional_call as call
from ...func._functional_call import swapped
from .._module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Deprecated: use `torch.func.functional_call`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.stateless.functional_call.html
    """
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future "
        "version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


def _reparametrize_module(
    module: Module, parameters_and_buffers: dict[str, Tensor], tie_weights: bool = False, strict: bool = False
) -> AbstractContextManager[None]:
    """``with _reparametrize_module(module, tensors):`` the module has these in place of its own, by name."""
    return swapped(module, parameters_and_buffers, tie_weights, strict)
