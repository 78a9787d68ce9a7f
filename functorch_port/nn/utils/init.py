"""Modules without initialization."""

from __future__ import annotations

import inspect
from typing import Any

from .._module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Create a module without initializing its parameters; no random numbers are drawn.

    Args:
        module_cls: the class of the module; its constructor must accept ``device``.
        args, kwargs: arguments of the constructor; ``device`` (default: the CPU) is the device of the result.

    Raises:
        RuntimeError: if ``module_cls`` is not a module class, or does not accept ``device``.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.utils.skip_init(torch.nn.Linear, 5, 1).weight.shape
        torch.Size([1, 5])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.skip_init.html
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    final = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=final)
