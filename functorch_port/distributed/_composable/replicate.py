"""`replicate`: data parallelism without a wrapper."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from ..._array import tracing
from ...nn._module import Module
from ...nn.parallel._border import run
from ...nn.parallel.distributed import DistributedDataParallel
from ..fsdp._unit import unit_of

__all__ = ["DDP", "replicate"]

_classes: dict[type, type] = {}


class DDP:
    """What the modules have that `replicate` was called with."""

    def set_requires_gradient_sync(self, requires_gradient_sync: bool) -> None:
        """Changes nothing: gradients are added up over the devices in each backward pass."""

    def register_comm_hook(self, *args: Any, **kwargs: Any) -> None:
        """Not supported.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("register_comm_hook is not supported: XLA adds up the gradients")


def replicate(module: Module, ignored_modules: Iterable[Module] | None = None, **kwargs: Any) -> Module:
    """Data parallelism as that of `DistributedDataParallel`, in place and without a wrapper.

    Args:
        module: the module; its class becomes a subclass of its own, ``DDPLinear`` for ``Linear``.
        ignored_modules: modules whose parameters stay where they are.
        kwargs: those of `DistributedDataParallel`.

    Raises:
        RuntimeError: `fully_shard` was called with the module.
    """
    if unit_of(module) is not None:
        raise RuntimeError("Cannot apply `replicate()` on a Module already managed by `fully_shard`")
    left = {id(p) for m in ignored_modules or () for p in (*m.parameters(), *m.buffers())}
    tensors = [*module.named_parameters(), *module.named_buffers()]
    module._ddp_params_and_buffers_to_ignore = [n for n, t in tensors if id(t) in left]  # type: ignore[assignment]
    kwargs.pop("device_id", None)
    made = DistributedDataParallel(module, **kwargs)
    module.__dict__["_replicated_on"] = made.devices, made.axes
    cls = type(module)
    if cls not in _classes:
        members = {"__deepcopy__": _no_deepcopy, "__module__": cls.__module__, "forward": _split(cls.forward)}
        _classes[cls] = type(f"DDP{cls.__name__}", (DDP, cls), members)
    module.__class__ = _classes[cls]
    tracing.bump_epoch()
    return module


def _no_deepcopy(*args: Any, **kwargs: Any) -> NoReturn:
    raise AssertionError("DDP does not support deepcopy. Please use state dict for serialization.")


def _split(forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def with_parts(self: Any, *args: Any, **kwargs: Any) -> Any:
        devices, axes = self.__dict__["_replicated_on"]
        return run(functools.partial(forward, self), devices, axes, args, kwargs)

    return with_parts
