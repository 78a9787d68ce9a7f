"""`DataParallel` on one device."""

from __future__ import annotations

from typing import Any

from .._module import Module

__all__ = ["DataParallel", "data_parallel"]

_MANY = (
    "nn.DataParallel over several devices is not supported: one process drives all devices here. Shard the batch over "
    "the devices with jax.sharding and call the module itself."
)


def _check(device_ids: Any) -> None:
    if device_ids is not None and len(device_ids) > 1:
        raise NotImplementedError(_MANY)


class DataParallel(Module):
    """Wrapper that calls its module, like PyTorch's without GPUs; parameter names start with ``module.``.

    Args:
        module: the module.
        device_ids: at most one device.
        output_device, dim: accepted and ignored.

    Raises:
        NotImplementedError: for more than one device.

    Example:
        >>> import functorch_port as torch
        >>> list(torch.nn.DataParallel(torch.nn.Linear(1, 1)).state_dict())
        ['module.weight', 'module.bias']

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        _check(device_ids)
        self.module = module
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call the module on one device.

    Raises:
        NotImplementedError: for more than one device.
    """
    _check(device_ids)
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))
