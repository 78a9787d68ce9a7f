"""`DataParallel`: each of some devices computes with a part of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from ..._base.device import as_device, device, to_jax
from .._module import Module
from ._batch import one_process, replicate, row, run

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Wrapper that has several devices compute with a part of the batch each; parameter names start with ``module.``.

    Without ``device_ids`` these are all, but on a CPU, where it only calls its module, as PyTorch's does.
    `DistributedDataParallel` takes all devices, and `distributed.fsdp.fully_shard` splits the parameters, too.

    Args:
        module: the module; its parameters and buffers are put on the devices in place.
        device_ids: devices, or their numbers.
        output_device: as in PyTorch; results stay where they are.
        dim: must be 0.

    Raises:
        NotImplementedError: for another ``dim``, and in several processes.

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
        self.module, self.dim, self.output_device = module, dim, output_device
        self.device_ids = _all_of(module) if device_ids is None else list(device_ids)
        self.devices = _prepared(module, self.device_ids, dim)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self.devices is None:
            return self.module(*inputs, **kwargs)
        return run(self.module, self.devices, ("data",), inputs, kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call the module as `DataParallel` does.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.data_parallel.html
    """
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*args, **(module_kwargs or {}))


def _all_of(module: Module) -> list[int]:
    """The numbers of the devices of the kind that a module is on; none on a CPU."""
    kind = next((p.device.type for p in module.parameters()), "cpu")
    return [] if kind in ("cpu", "meta") else [*range(len(jax.local_devices()))]


def _prepared(module: Module, device_ids: Sequence[Any], dim: int) -> Any:
    """The devices, with the module on them; None for one device or fewer."""
    if len(device_ids) < 2:
        return None
    one_process("DataParallel")
    if dim != 0:
        raise NotImplementedError(
            f"DataParallel(dim={dim}) is not supported: batches are split along dimension 0"
        )
    kind = next(iter(module.parameters())).device.type
    wanted = [device(kind, d) if isinstance(d, int) else as_device(d) for d in device_ids]
    mesh = row([to_jax(where) for where in wanted])
    replicate([*module.parameters(), *module.buffers()], mesh)
    return mesh
