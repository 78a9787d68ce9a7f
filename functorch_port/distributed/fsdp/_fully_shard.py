"""`fully_shard`, which splits the parameters of a module over devices."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, cast

import jax

from ..._array import tracing
from ..._base import agreement
from ..._base.device import from_jax
from ...nn._module import Module
from ...nn.modules._scan import ScanStack
from ...nn.modules.container import ModuleDict, ModuleList
from ..device_mesh import DeviceMesh, current_mesh, init_device_mesh, mesh_of
from ._policies import CPUOffloadPolicy, DataParallelMeshDims, MixedPrecisionPolicy, OffloadPolicy
from ._unit import ATTRIBUTE, Unit, unit_of

__all__ = [
    "FSDPModule",
    "UnshardHandle",
    "axes_of",
    "default_mesh",
    "disable_fsdp_module_new_init",
    "fully_shard",
    "get_cls_to_fsdp_cls",
    "register_fsdp_forward_method",
    "share_comm_ctx",
]

_classes: dict[type, type] = {}
_new_calls_init = True


def get_cls_to_fsdp_cls() -> dict[type, type]:
    """From a module's class to that which `fully_shard` gives it."""
    return _classes


@agreement.telling("fully_shard")
def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Any], Any] | None = None,
    mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(),
    offload_policy: OffloadPolicy = OffloadPolicy(),
    ignored_params: set[Any] | None = None,
    dp_mesh_dims: DataParallelMeshDims | None = None,
) -> Any:
    """Split the parameters of a module over devices, in place; they are whole only while the module runs.

    Gradients and the optimizer's state are split as their parameters. Each call makes a unit of the parameters that no
    module below has as a unit: call it for the layers, then for the model. Called for an `nn.ScanStack` it makes each
    layer a unit, gathered in the loop. A parameter is split along its first dimension whose size is a multiple of the
    number of devices (not along that of a stack's layers), or lies on each of them. The batch that the model is called
    with is split along dimension 0 of its tensors, if it can be, and the unit's inputs stay so.

    Args:
        module: a module, or a list of modules.
        mesh: the devices, by default all of them. With two dimensions parameters are split over the second and are the
            same along the first; the batch is split over both. In several processes each gives its own batch, and
            gradients are means over these.
        reshard_after_forward: whether the backward pass gathers the parameters again. None: except for the model
            itself. A number must be 1 or the size of the mesh.
        shard_placement_fn: gives `Shard` of the dimension to split for a parameter, or None.
        mp_policy: dtypes; see `MixedPrecisionPolicy`.
        offload_policy: whether parameters, gradients and the optimizer's state are kept on the hosts; see
            `CPUOffloadPolicy`.
        ignored_params: parameters that stay as they are. In several processes they must be global, or need no gradient.
        dp_mesh_dims: which dimensions of ``mesh`` are data parallel, where it has others.

    Returns:
        the module; its class is a subclass of `FSDPModule` and its former class, ``FSDPLinear`` for ``Linear``.

    Raises:
        ValueError: a mesh of other than one or two dimensions, a scalar parameter, or a container without a forward.
        AssertionError: the module is a unit already.
        NotImplementedError: a mesh of some of several processes, a ``reshard_after_forward`` between 1 and the size,
            or offloading where there are several processes, without pinning, or from devices that cannot read the
            host's memory.
        RuntimeError: the processes give different modules, or one of them has failed.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.fsdp import fully_shard
        >>> from functorch_port.distributed.device_mesh import init_device_mesh
        >>> net = torch.nn.Linear(2, 1)
        >>> type(fully_shard(net, mesh=init_device_mesh("cpu", (1,)))).__name__
        'FSDPLinear'

    Reference: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
    """
    modules = [module] if isinstance(module, Module) else list(module)
    for part in modules:
        if isinstance(part, ModuleList | ModuleDict) and type(part).forward is Module.forward:
            raise ValueError(f"fully_shard does not support containers that do not implement forward: {part}")
        if unit_of(part) is not None:
            raise AssertionError(
                "Each distinct composable distributed API can only be applied to a module once. fully_shard has "
                f"already been applied to the following module:\n{part}"
            )
    mesh = default_mesh() if mesh is None else mesh_of(mesh)
    replicate_axes, shard_axes = axes_of(mesh, dp_mesh_dims)
    on_hosts = isinstance(offload_policy, CPUOffloadPolicy)
    if on_hosts and not offload_policy.pin_memory:
        raise NotImplementedError(
            "fully_shard(offload_policy=CPUOffloadPolicy(pin_memory=False)) is not supported: devices read pinned "
            "memory. Use CPUOffloadPolicy()"
        )
    ignored = set(ignored_params or ())
    stacks = [part.stacked for part in modules if isinstance(part, ScanStack)]
    layers = [layer for layer in stacks if unit_of(layer) is None]
    data_axes = (*replicate_axes, *shard_axes)
    for part in (*layers, *modules):
        unit = Unit(part, mesh, shard_axes, data_axes, mp_policy, None, ignored)
        unit.reshard = _reshard(reshard_after_forward, unit.size(shard_axes))
        unit.place(shard_placement_fn, on_hosts=on_hosts)
        part.__dict__[ATTRIBUTE] = unit
        part.__class__ = _mixed(type(part))
    tracing.bump_epoch()
    return module


def default_mesh() -> DeviceMesh:
    """That of the ``with`` block, or all devices in a row."""
    try:
        return current_mesh()
    except RuntimeError:
        return init_device_mesh(from_jax(jax.devices()[0]).type, (jax.device_count(),))


def axes_of(mesh: DeviceMesh, dims: DataParallelMeshDims | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The axes of a mesh along which parameters are the same, and those that split them."""
    if dims is not None:
        if mesh.mesh_dim_names is None:
            raise ValueError("mesh must have mesh_dim_names when dp_mesh_dims is provided")
        axes = dict(zip(mesh.mesh_dim_names, mesh.axes))
        for name in (*dims.shard_names, *dims.replicate_names):
            if name not in axes:
                raise ValueError(
                    f"Mesh dim name '{name}' not found in mesh.mesh_dim_names {mesh.mesh_dim_names}"
                )
        return tuple([axes[n] for n in dims.replicate_names]), tuple([axes[n] for n in dims.shard_names])
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    if mesh.ndim == 2 and mesh.mesh_dim_names is None:
        raise AssertionError("Please init the 2D mesh for HSDP with mesh_dim_names specified")
    return tuple(mesh.axes[:-1]), tuple(mesh.axes[-1:])


def _reshard(wanted: Any, size: int) -> bool | None:
    if wanted is None or isinstance(wanted, bool):
        return wanted
    if not isinstance(wanted, int):
        raise ValueError(
            "reshard_after_forward should be a bool or an int representing the "
            f"group size to reshard to, not {wanted}"
        )
    if wanted < 1 or wanted > size or size % wanted:
        raise ValueError(
            f"If passing reshard_after_forward as an int, it should be a factor of {size}, not {wanted}"
        )
    if wanted in (1, size):
        return wanted > 1
    raise NotImplementedError(
        f"reshard_after_forward={wanted}: parameters are let go of (True) or kept whole (False) after the forward "
        "pass; for groups of devices that have the whole, use a mesh of two dimensions"
    )


def _no_deepcopy(*args: Any, **kwargs: Any) -> NoReturn:
    raise AssertionError("FSDP does not support deepcopy. Please use state dict for serialization.")


def _mixed(cls: type) -> type:
    if cls not in _classes:
        members = {
            "__deepcopy__": _no_deepcopy,
            "__module__": cls.__module__,
            "forward": _in_unit(cls.forward),  # type: ignore[attr-defined]
        }
        _classes[cls] = type(f"FSDP{cls.__name__}", (FSDPModule, cls), members)
    return _classes[cls]


def _in_unit(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a module that runs with its unit's parameters gathered."""

    @functools.wraps(method)
    def wrapped_method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._get_fsdp_state().run(functools.partial(method, self), args, kwargs)

    return wrapped_method


class FSDPModule:
    """What the modules have that `fully_shard` was called with.

    XLA orders and overlaps the communication of a program and keeps no buffers between programs: methods that tell
    when to communicate, or what to prefetch, check their arguments and change nothing. Gradients are always those of
    the whole batch.

    Reference: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
    """

    _orig_cls_mro_index: int = 2

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A module of the former class, as for a slice of a `Sequential`."""
        former = cls.__mro__[cls._orig_cls_mro_index]
        self = cast(Any, former.__new__)(former)
        if _new_calls_init:
            self.__init__(*args, **kwargs)
        return self

    def _get_fsdp_state(self) -> Unit:
        unit = unit_of(cast(Module, self))
        if unit is None:
            raise AssertionError(f"No FSDP state found on {self}")
        return unit

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Changes nothing: a parameter is the whole one already, of which each device has its part."""
        return UnshardHandle() if async_op else None

    def reshard(self) -> None:
        """Changes nothing: parameters are whole only while the module runs."""

    def reset_iter_state(self) -> None:
        """Changes nothing: an exception leaves nothing behind."""

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Set ``reshard_after_forward`` of this unit, and of those below."""
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(f"reshard_after_forward should be a bool, got {type(reshard_after_forward)}")
        for module in cast(Module, self).modules() if recurse else [self]:
            if isinstance(module, FSDPModule):
                module._get_fsdp_state().reshard = reshard_after_forward

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Changes nothing."""

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Changes nothing: gradients are added up over the devices in each backward pass."""

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Changes nothing: gradients are added up over the devices in each backward pass."""

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Changes nothing: whole parameters are not kept after the backward pass."""

    def set_modules_to_forward_prefetch(self, modules: list[Any]) -> None:
        """Changes nothing: XLA orders the communication."""
        _check_modules(modules)

    def set_modules_to_backward_prefetch(self, modules: list[Any]) -> None:
        """Changes nothing: XLA orders the communication."""
        _check_modules(modules)

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Changes nothing: what the backward pass does not need is not gathered."""

    def set_post_optim_event(self, event: Any) -> None:
        """Changes nothing: there are no streams."""

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Changes nothing: XLA chooses the collectives."""

    def set_reduce_scatter_unused_params(
        self, reduce_scatter_unused_params: bool, *, recurse: bool = True
    ) -> None:
        """Changes nothing: all devices run one program."""

    def set_reduce_scatter_max_input_buffers(self, max_input_buffers: int, *, recurse: bool = True) -> None:
        """Changes nothing: XLA has the buffers."""
        if isinstance(max_input_buffers, bool) or not isinstance(max_input_buffers, int):
            raise TypeError(f"max_input_buffers must be an int, got {type(max_input_buffers).__name__}")
        if max_input_buffers < 1:
            raise ValueError(f"max_input_buffers must be a positive int, got {max_input_buffers}")

    def set_separate_reduce_scatter_group(self, enable: bool = True, *, recurse: bool = True) -> None:
        """Changes nothing: there are no process groups."""

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Changes nothing: XLA has the buffers."""

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Not supported.

        Raises:
            NotImplementedError: always.
        """
        _refuse("set_gradient_divide_factor", "multiply the loss by a number")

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_custom_all_gather(self, comm: Any) -> None:
        """Not supported.

        Raises:
            NotImplementedError: always.
        """
        _refuse("set_custom_all_gather", _COMMUNICATES)

    def set_custom_reduce_scatter(self, comm: Any) -> None:
        """Not supported.

        Raises:
            NotImplementedError: always.
        """
        _refuse("set_custom_reduce_scatter", _COMMUNICATES)

    def set_all_reduce_hook(self, hook: Callable[..., Any], *, stream: Any = None) -> None:
        """Not supported.

        Raises:
            NotImplementedError: always.
        """
        _refuse("set_all_reduce_hook", "change gradients by Tensor.register_hook of the parameters")

    def set_symm_mem_for_comm(self, backend: str = "NCCL") -> None:
        """Not supported.

        Raises:
            NotImplementedError: always.
        """
        _refuse("set_symm_mem_for_comm", _COMMUNICATES)


_COMMUNICATES = "XLA communicates, and its flags (XLA_FLAGS) say how"


def _refuse(name: str, instead: str) -> NoReturn:
    raise NotImplementedError(f"FSDPModule.{name} is not supported: {instead}")


def _check_modules(modules: Iterable[Any]) -> None:
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects FSDPModule but got {type(module)}: {module}")


class UnshardHandle:
    """What ``unshard(async_op=True)`` gives.

    Reference: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
    """

    def wait(self) -> None:
        """There is nothing to wait for."""


@contextmanager
def disable_fsdp_module_new_init() -> Iterator[None]:
    """A module of a class that `fully_shard` has made is not initialised by the class itself."""
    global _new_calls_init
    before, _new_calls_init = _new_calls_init, False
    try:
        yield
    finally:
        _new_calls_init = before


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Have a method of a module run as its forward does, with the unit's parameters gathered.

    Args:
        module: a module; nothing happens unless `fully_shard` was called with it.
        method_name: the name of the method.

    Raises:
        ValueError: the module has no such method.

    Reference: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    method = getattr(module, method_name)

    @functools.wraps(method)
    def wrapped_method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._get_fsdp_state().run(method, args, kwargs)

    setattr(module, method_name, wrapped_method.__get__(module, type(module)))


def share_comm_ctx(modules: Sequence[Any]) -> None:
    """Changes nothing: there are no streams to share.

    Raises:
        ValueError: one is no `FSDPModule`.
    """
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects list of FSDPModules but got {module}")


FSDPModule.__module__ = "functorch_port.distributed.fsdp"
