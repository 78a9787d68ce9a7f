"""`ZeroRedundancyOptimizer`: every device has the parameters, and a part of the optimizer's state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from ..._array import placed, tracing
from ..._array.placed import sharding_of
from ..._base import meshes
from ..._tensor.tensor import Tensor
from ...interchange._tree import changed
from ...nn.parallel._batch import replicate, row
from ...nn.parallel._border import check_group
from ...optim.optimizer import Optimizer, typename

__all__ = ["ZeroRedundancyOptimizer"]

_classes: dict[type, type] = {}


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer of another class whose state is split over the devices (ZeRO-1).

    An entry that is like its parameter is split along the first dimension that all devices can share equally, and lies
    on each of them if there is none. A step computes a part of the new parameter on each device, and gathers them. The
    optimizer is an instance of ``optimizer_class``, too.

    Args:
        params: parameters, as for every optimizer; those that lie on one device are put on all. In several processes
            those of a `DistributedDataParallel`.
        optimizer_class: the class.
        process_group: must be None, or the group of all processes.
        parameters_as_bucket_view: how PyTorch communicates; XLA has its own ways.
        overlap_with_ddp: must be False: XLA overlaps communication.
        defaults: arguments of the class.

    Raises:
        NotImplementedError: for what must be None or False, and parameters that each process has for itself.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.optim import ZeroRedundancyOptimizer
        >>> net = torch.nn.Linear(8, 8)
        >>> isinstance(ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=0.1), torch.optim.Adam)
        True

    Reference: https://docs.pytorch.org/docs/stable/distributed.optim.html
    """

    _whole: Any = None

    def __new__(cls, params: Any = None, optimizer_class: Any = None, *args: Any, **kwargs: Any) -> Any:
        if optimizer_class is None:  # a copy, or one from a pickle
            return super().__new__(cls)
        if optimizer_class not in _classes:
            members = {"_init_state": _init_state} if hasattr(optimizer_class, "_init_state") else {}
            _classes[optimizer_class] = type(cls.__name__, (cls, optimizer_class), members)
        return super().__new__(_classes[optimizer_class])

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        check_group(process_group, "ZeroRedundancyOptimizer")
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer: overlap_with_ddp=True is not supported: leave it out, XLA overlaps "
                "communication with computation"
            )
        if isinstance(params, Tensor):
            raise TypeError(f"`params` argument should be an iterable of Tensors, but got {typename(params)}")
        params = list(params)
        if not params:
            raise ValueError("ZeroRedundancyOptimizer got an empty parameter list")
        if not all(isinstance(p, Tensor | dict | tuple) for p in params):
            raise TypeError("`params` argument should be an iterable of Tensors or dicts")
        self.parameters_as_bucket_view = parameters_as_bucket_view
        super().__init__(params, **defaults)
        tensors = [p for group in self.param_groups for p in group["params"]]
        if jax.process_count() > 1 and any(sharding_of(p._storage) is None for p in tensors):
            raise NotImplementedError(
                "ZeroRedundancyOptimizer of parameters that each process has for itself is not supported: make it "
                "after DistributedDataParallel(model), which puts them on the devices of all"
            )
        replicate(tensors, row(jax.devices()))
        self.register_step_post_hook(_after_step)

    @property
    def optim(self) -> Optimizer:
        """The optimizer of the other class, which is this one."""
        return self

    def consolidate_state_dict(self, to: int = 0) -> None:
        """In several processes, have the next `state_dict` of one of them give tensors of its own, for a file.

        All call this, then that one calls `state_dict`. Elsewhere a state dict has tensors on the mesh, which
        `distributed.checkpoint` takes. In one process nothing changes.
        """
        if jax.process_count() > 1:
            whole = changed(super().state_dict(), _whole)
            self._whole = whole if jax.process_index() == to else None

    def state_dict(self) -> Any:
        """As of every optimizer; see `consolidate_state_dict`."""
        whole, self._whole = self._whole, None
        return super().state_dict() if whole is None else whole

    def _enter_trace(self, join: bool, described: bool = False) -> None:
        super()._enter_trace(join, described)
        self._split_state()

    def load_state_dict(self, state_dict: Any) -> None:
        super().load_state_dict(state_dict)
        self._split_state()

    def _split_state(self) -> None:
        """Split what is not yet."""
        for param, state in self.state.items():
            if isinstance(param, Tensor):
                _split(param, state)


def _after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    if not tracing.overlay:
        optimizer._split_state()


def _whole(value: Any) -> Any:
    is_split = isinstance(value, Tensor) and sharding_of(value._storage) is not None
    return value.detach().full_tensor() if is_split else value  # type: ignore[attr-defined]


def _init_state(self: Any, param: Tensor, group: dict[str, Any]) -> dict[str, Any] | None:
    """The initial state, split when it is made."""
    state = super(type(self), self)._init_state(param, group)
    if state is not None:
        _split(param, state)
    return state  # type: ignore[no-any-return]


def _split(param: Tensor, state: dict[str, Any]) -> None:
    own = sharding_of(param._storage) if param._view is None else None
    if own is None or not isinstance(state, dict):
        return
    for entry in state.values():
        if isinstance(entry, Tensor) and entry.dim() and entry.shape == param.shape and entry._view is None:
            wanted = _parts(own, entry)
            if sharding_of(entry._storage) != wanted:
                placed.place(entry._storage, wanted)


def _parts(own: NamedSharding, entry: Tensor) -> NamedSharding:
    """How an entry lies whose parameter lies so: split over the axes that the parameter is the same along."""
    spec = [meshes.axes_of(entry) for entry in own.spec]
    spec += [()] * (entry.dim() - len(spec))
    free = [axis for axis in own.mesh.axis_names if not any(axis in axes for axes in spec)]
    for d, axes in enumerate(spec):
        if free and entry.shape[d] % int(np.prod([own.mesh.shape[a] for a in (*axes, *free)])) == 0:
            spec[d] = (*axes, *free)
            return NamedSharding(own.mesh, meshes.spec_of(spec))
    return own
