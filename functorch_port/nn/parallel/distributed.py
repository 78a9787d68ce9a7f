"""`DistributedDataParallel`: every device has the model, and a part of the batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import jax
import numpy as np
from jax.sharding import Mesh

from ..._base import agreement, meshes
from .._module import Module
from . import _border, _replicas
from ._batch import of_first, replicate, row, run
from ._join import Join, Joinable, JoinHook

__all__ = ["DistributedDataParallel"]

_HOOKS = "functorch_port.distributed.algorithms.ddp_comm_hooks.default_hooks"


class DistributedDataParallel(Module, Joinable):
    """Wrapper of a module that is on all devices; each computes with its part of the batch.

    In several processes ``model(x)`` takes the batch of each process and gives its result, as in PyTorch: a process
    computes with its own copies of the parameters, and gradients are means over the processes. Under `compile` one
    program of all processes does so. What is global (``DTensor.from_local(x, mesh, [Shard(0)])``) is computed together.

    A single process drives all devices: ``model(x)`` takes the whole batch, splits dimension 0 of the tensors with as
    many rows as the first one over the devices, and gives the whole result. A batch that has no equal parts, as the
    last one may have, is computed by every device. Gradients are those of the whole batch; XLA adds them up over the
    devices in one piece. BatchNorm has the statistics of each device's part (or process's), and the running ones of the
    first, as in PyTorch; SyncBatchNorm has those of the batch. The names of parameters start with ``module.``.

    Args:
        module: the module; its parameters and buffers are put on the devices in place.
        device_ids: must be None or have one device, as in PyTorch, where it is that of the process.
        output_device, dim: as in PyTorch, ``dim`` must be 0.
        broadcast_buffers, forward_sync_buffers: with False each of several processes keeps buffers of its own; with
            the second they begin with the values of the first process.
        init_sync, bucket_cap_mb, check_reduction, gradient_as_bucket_view, bucket_cap_mb_list, batched_grad_copy,
            skip_all_reduce_unused_params: how PyTorch communicates, which changes no number: XLA has its own ways.
        process_group: must be None, or the group of all processes.
        find_unused_parameters, static_graph: nothing to find: parameters without a gradient in any process keep None.
        device_mesh: a mesh of one dimension, by default all devices.
        delay_all_reduce_named_params, param_to_hook_all_reduce, mixed_precision: must be None.

    Raises:
        RuntimeError: no parameter requires a gradient; the processes give different modules, or one of them has failed.
        NotImplementedError: for what must be None, and a group of some processes.

    Example:
        >>> import functorch_port as torch
        >>> ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
        >>> list(ddp.state_dict()), ddp(torch.ones(8, 2)).shape
        (['module.weight', 'module.bias'], torch.Size([8, 1]))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    """

    @agreement.telling("DistributedDataParallel")
    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[int] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        Joinable.__init__(self)
        self.process_group = process_group
        self._divide_by_initial_world_size = True
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        for name, value in (
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
            ("param_to_hook_all_reduce", param_to_hook_all_reduce),
            ("mixed_precision", mixed_precision),
        ):
            if value is not None:
                _refuse(f"{name}=", "use autocast for mixed precision, and let XLA order the communication")
        _border.check_group(process_group, "DistributedDataParallel")
        if dim != 0:
            _refuse(f"dim={dim}", "batches are split along dimension 0")
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient."
            )
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        #: the devices, and the names of the axes that split a batch
        self.devices: Mesh
        self.devices, self.axes = _mesh(device_mesh)
        self.module = module
        self.device_ids = None if device_ids is None else list(device_ids)
        self.output_device, self.dim = output_device, dim
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.forward_sync_buffers = (
            self.broadcast_buffers if forward_sync_buffers is None else forward_sync_buffers
        )
        self.require_backward_grad_sync = True
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        #: in several processes, the devices of each
        self.processes = None
        if jax.process_count() > 1:
            self.processes = self.devices = meshes.of_processes(self.devices.devices.flat)
            self.axes = tuple(self.devices.axis_names)
        params, buffers = dict(module.named_parameters()), dict(module.named_buffers())
        shared = {name: t for name, t in {**params, **buffers}.items() if name not in ignored}
        kinds = {
            name: f"{t.dtype} of shape {list(t.shape)}, requires_grad={t.requires_grad}"
            for name, t in shared.items()
        }
        agreement.alike("DistributedDataParallel", {"init_sync": init_sync, **kinds})
        if init_sync:
            begin_alike = self.forward_sync_buffers or forward_sync_buffers is not None
            of_first([t for name, t in shared.items() if begin_alike or name not in buffers])
        stay_alike = self.forward_sync_buffers or self.processes is None
        #: the names of what is on all devices
        self._shared = [name for name in shared if stay_alike or name not in buffers]
        replicate([shared[name] for name in self._shared], self.devices)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self.processes is not None:
            active = Join.notify_join_context(self) if self._join_config.enable else None
            sync, joining = self.require_backward_grad_sync, None
            if active is not None:
                count = len(self.processes.devices)
                by = count if self._divide_by_initial_world_size else len(active)
                joining = _replicas.Joining(active, by)
            return _replicas.run(self.module, self.processes, sync, joining, inputs, kwargs)
        return run(self.module, self.devices, self.axes, inputs, kwargs)

    def __getstate__(self) -> dict[str, Any]:
        numbers = np.vectorize(lambda device: device.id, otypes=[int])(self.devices.devices)
        devices = {"devices": (numbers, self.devices.axis_names), "processes": self.processes is not None}
        return {**super().__getstate__(), **devices}

    def __setstate__(self, state: dict[str, Any]) -> None:
        numbers, names = state["devices"]
        have = {device.id: device for device in jax.devices()}
        if not {*numbers.flat} <= {*have}:
            raise RuntimeError(
                f"this model was on {numbers.size} devices, of which there are {len(have)} here"
            )
        found = np.vectorize(have.__getitem__, otypes=[object])(numbers)
        devices = meshes.mesh_of(found, names)
        super().__setstate__(
            {**state, "devices": devices, "processes": devices if state["processes"] else None}
        )
        tensors = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}
        replicate([tensors[name] for name in self._shared if name in tensors], self.devices)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Changes nothing but ``require_backward_grad_sync``: gradients are sums over the devices after each backward
        pass, and so are those that several add up.
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """``with ddp.join():`` the processes may have different numbers of batches.

        One that has no more adds zeros to the gradients of the others. At the end all get the model, and the state of
        its optimizers, of one that had most batches.

        Args:
            divide_by_initial_world_size: divide gradients by the number of processes; else by that of those that have
                batches.
            enable: False does nothing.
            throw_on_early_termination: raise an error in all processes when one has no batches left.
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process does that has no batches left (see `join`)."""
        self._divide_by_initial_world_size = kwargs.get("divide_by_initial_world_size", True)
        return _Following(self)

    @property
    def join_device(self) -> Any:
        """The device of the process."""
        return next(self.parameters()).device

    @property
    def join_process_group(self) -> Any:
        """None: all processes."""
        return self.process_group

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """Take ``default_hooks.allreduce_hook``, which is what happens anyway.

        Raises:
            NotImplementedError: for any other hook.
        """
        name = getattr(hook, "__name__", str(hook))
        if (name, getattr(hook, "__module__", "")) != ("allreduce_hook", _HOOKS):
            _refuse(
                f"register_comm_hook({name})", "XLA adds up gradients inside of the products that make them, so no "
                "process has its own to give to a hook. For less communication compute in "
                "torch.autocast(dtype=torch.bfloat16), or have a model of your own in each process with "
                "functorch_port.horovod.DistributedOptimizer(optimizer, compression=Compression.fp16)",
            )  # fmt: skip

    def _set_static_graph(self) -> None:
        warnings.warn(
            "You've set static_graph to be True, no need to set it again." if self.static_graph else
            "_set_static_graph() is not needed: pass static_graph=True", stacklevel=2,
        )  # fmt: skip
        self.static_graph = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, names: Sequence[str]) -> None:
        module._ddp_params_and_buffers_to_ignore = names  # type: ignore[assignment]


class _Following(JoinHook):
    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.ddp = ddp

    def main_hook(self) -> None:
        _replicas.follow(self.ddp.module, self.ddp.processes)  # type: ignore[arg-type]

    def post_hook(self, is_last_joiner: bool) -> None:
        if self.ddp.processes is not None:
            _replicas.finish(self.ddp.module, self.ddp.processes, is_last_joiner)


def _refuse(what: str, instead: str) -> NoReturn:
    raise NotImplementedError(f"DistributedDataParallel: {what} is not supported: {instead}")


def _mesh(mesh: Any) -> tuple[Mesh, tuple[str, ...]]:
    if mesh is None:
        return row(meshes.by_process(jax.devices())), ("data",)
    if mesh.ndim != 1:
        raise RuntimeError(f"Only 1D device mesh is supported, but got {mesh}.")
    return mesh.jax_mesh, tuple(mesh.axes)
