"""`DTensor`, and tensors and modules that are distributed over a mesh.

A tensor on a mesh is an ordinary `Tensor` with the whole value, whose `Storage` keeps a sharding (`_array.placed`). So
every operation takes it, and XLA does the communication. `DTensor` is the name under which ``isinstance`` finds such
tensors, and its methods are there on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
from jax.sharding import Mesh, NamedSharding

from ..._array import placed, tracing
from ..._array.placed import sharding_of
from ..._base import agreement, meshes
from ..._run.call import Op
from ..._run.registry import ops
from ..._tensor import creation
from ..._tensor.attributes import OF_MESHES
from ..._tensor.registered import function
from ..._tensor.tensor import Tensor, attach, wrap
from ...nn._module import Module
from ...nn.parallel import _border
from ...nn.parameter import Parameter
from ..device_mesh import OWN, DeviceMesh, mesh_of
from .placement_types import Partial, Placement, Replicate, placements_of, sharding_for

__all__ = [
    "DTensor",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "ones",
    "rand",
    "randn",
    "zeros",
]

_constrain = Op(ops["_constrain"])


def _declared(tensor: Tensor) -> NamedSharding | None:
    return sharding_of(tensor._storage) if tensor._view is None else None


def found_sharding(tensor: Tensor) -> NamedSharding | None:
    """How a tensor lies on a mesh: as it was declared, or as the program that computed it has left it."""
    if tensor._sparse:  # which has no Storage of its own
        return None
    declared = _declared(tensor)
    if declared is not None:
        return declared
    value = tensor._look()
    have = getattr(value, "sharding", None) if isinstance(value, jax.Array) else None
    return have if isinstance(have, NamedSharding) and len(have.device_set) > 1 else None


def moved(
    tensor: Tensor,
    sharding: NamedSharding,
    back: NamedSharding | None,
    mesh: DeviceMesh | None = None,
    **dtypes: Any,
) -> Tensor:
    """The tensor with a sharding on a mesh, its gradient with another; the dtypes are those of `_constrain`."""
    placed.check(tensor.shape, sharding)
    if is_own(tensor):
        tensor = whole(tensor, mesh_of(cast(Mesh, sharding.mesh)))
    out = _constrain.run((tensor, sharding, back), dtypes)
    cell = out._storage
    cell.held = placed.Placed(cell.array(), sharding, mesh)
    return out  # type: ignore[no-any-return]


def is_own(tensor: Tensor) -> bool:
    """Whether a tensor is of this process, and there are others. In a trace it is not: one program is of all."""
    if jax.process_count() == 1 or tracing.overlay:
        return False
    value = tensor._look()
    return not isinstance(value, jax.core.Tracer | jax.ShapeDtypeStruct) and not meshes.is_global(value)


def check_alone(mesh: DeviceMesh) -> None:
    """Refuse a mesh that is a part of a larger one, on the rest of which it is not known how a tensor lies.

    Raises:
        NotImplementedError: the mesh is such a part.
    """
    rest = [n for axis, n in mesh.jax_mesh.shape.items() if axis not in mesh.axes and axis != OWN]
    if any(n > 1 for n in rest):
        raise NotImplementedError(
            f"a tensor of one process alone meets parameters on {mesh}, a part of {dict(mesh.jax_mesh.shape)}: "
            "say how it lies there by DTensor.from_local(x, mesh, placements) before"
        )


def entered(tensor: Tensor, mesh: DeviceMesh, placements: Sequence[Placement]) -> Tensor:
    """In several processes, the global tensor of which this process has a part that lies so; others stay.

    Raises:
        NotImplementedError: the mesh is a part of a larger one, so it is not known how the tensor lies on the rest.
        ValueError: processes have other numbers for the same part.
    """
    if not is_own(tensor):
        return tensor
    check_alone(mesh)
    return _border.joined(tensor, sharding_for(mesh, placements, tensor.dim()), mesh)


def whole(tensor: Tensor, mesh: DeviceMesh) -> Tensor:
    """In several processes, the global tensor that each of them has; others stay.

    Raises:
        NotImplementedError: as `entered`.
        ValueError: it is not the same in all processes.
    """
    return entered(tensor, mesh, [Replicate()] * mesh.ndim)


def gathered(tensor: Tensor, mesh: DeviceMesh) -> Tensor:
    """The tensor, whole on all devices: then a process computes with its own copy (see `_run.crossing`)."""
    everywhere = sharding_for(mesh, None, tensor.dim())
    return _constrain.run((tensor, everywhere, None), {})  # type: ignore[no-any-return]


def laid(
    tensor: Tensor,
    mesh: DeviceMesh,
    placement: Placement,
    back: Placement | None = None,
    is_distributed: bool = False,
) -> Tensor:
    """The tensor with a placement on a mesh of one dimension, its gradient with another, or with any one.

    Where the mesh is a part of a larger one, the other dimensions of that are left as they are.

    Args:
        is_distributed: whether the result is to be found as a `DTensor`, however it lies.
    """
    tensor = entered(tensor, mesh, [placement if back is None else back])
    sharding = sharding_for(mesh, [placement], tensor.dim())
    placed.check(tensor.shape, sharding)
    before = None if back is None else sharding_for(mesh, [back], tensor.dim())
    out = _constrain.run((tensor, sharding, before), {"axes": mesh.axes})
    if is_distributed:
        cell = out._storage
        value = cell.array()
        if isinstance(value, jax.core.Tracer):
            free = jax.sharding.PartitionSpec.UNCONSTRAINED
            spec = [axes or free for axes in (*sharding.spec, *[None] * tensor.dim())][: tensor.dim()]
            sharding = NamedSharding(sharding.mesh, jax.sharding.PartitionSpec(*spec))
        else:
            sharding = value.sharding
        cell.held = placed.Placed(value, sharding, mesh)
    return out  # type: ignore[no-any-return]


def constrained_along(
    tensor: Tensor, mesh: DeviceMesh, placements: Sequence[Placement], back: Sequence[Placement]
) -> Tensor:
    """The tensor with placements on a mesh, its gradient with others; along other axes as they lie."""
    sharding = sharding_for(mesh, placements, tensor.dim())
    before = _gradient(mesh, back, tensor.dim())
    return _constrain.run((tensor, sharding, before), {"axes": mesh.axes})  # type: ignore[no-any-return]


class _Kind(type):
    def __instancecheck__(cls, thing: Any) -> bool:
        sharding = found_sharding(thing) if isinstance(thing, Tensor) else None
        if sharding is None or not sharding.is_fully_replicated:
            return sharding is not None
        return _declared(thing) is not None


class DTensor(metaclass=_Kind):
    """A tensor on a mesh. ``isinstance(x, DTensor)`` is true of every `Tensor` that is split over several devices, or
    was placed on them.

    Such a tensor is the whole one: its shape is that of all parts together. Tensors on several devices have these
    besides what others have: ``device_mesh``, ``placements``, ``to_local()``, ``full_tensor()`` and ``redistribute()``.

    Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.html#torch.distributed.tensor.DTensor
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a DTensor is made by distribute_tensor or DTensor.from_local")

    @staticmethod
    @agreement.telling("DTensor.from_local")
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Any = None,
        stride: Any = None,
        grad_placements: Any = None,
    ) -> Tensor:
        """The tensor of which each process has a part.

        Args:
            local_tensor: the part of this process: of all its devices together.
            device_mesh: the mesh.
            placements: how the parts make up the whole, for each dimension of the mesh.
            run_check: accepted: parts that are to be equal are compared anyway.
            shape, stride: those of the whole, which parts of one size have anyway.
            grad_placements: how the gradient lies; in several processes as the tensor does.

        Raises:
            RuntimeError: one of ``shape`` and ``stride`` is given without the other.
            NotImplementedError: ``shape`` is that of parts of different sizes, ``stride`` is not that of a contiguous
                tensor, or ``grad_placements`` are others than ``placements`` in several processes.
            ValueError: the processes have parts of different shapes, dtypes or placements, or of different values where
                they are to be the same.
        """
        mesh = mesh_of(device_mesh)
        sharding = sharding_for(mesh, placements, local_tensor.dim())
        if tracing.overlay and jax.process_count() > 1:
            raise NotImplementedError(
                "DTensor.from_local in a compiled function of several processes: make the tensor before the call"
            )
        back = sharding if grad_placements is None else _gradient(mesh, grad_placements, local_tensor.dim())
        if jax.process_count() == 1:
            made = moved(local_tensor, sharding, back, mesh)
        elif back == sharding:
            made = _border.joined(local_tensor, sharding, mesh)
        else:
            raise NotImplementedError(
                f"DTensor.from_local(grad_placements={list(grad_placements)}) in several processes: the gradient lies "
                "as the tensor does, with the sum over the processes in it"
            )
        _check_geometry(made, shape, stride)
        return made


def _gradient(mesh: DeviceMesh, placements: Sequence[Placement], ndim: int) -> NamedSharding:
    """How a gradient lies. It is a sum that has been made, so `Partial` says of it what `Replicate` does."""
    return sharding_for(mesh, [Replicate() if isinstance(p, Partial) else p for p in placements], ndim)


def _check_geometry(made: Tensor, shape: Any, stride: Any) -> None:
    if shape is None and stride is None:
        return
    if shape is None or stride is None:
        raise RuntimeError(
            f"Found shape:{shape}, stride:{stride}. Please pass both shape and stride at the same time."
        )
    if tuple(shape) != made.shape or tuple(stride) != made.stride():
        raise NotImplementedError(
            f"DTensor.from_local(shape={tuple(shape)}, stride={tuple(stride)}): parts of one size make up a contiguous "
            f"tensor of shape {tuple(made.shape)}. Pad the parts to one size"
        )


def device_mesh(self: Tensor) -> DeviceMesh:
    return _mesh_of(self, _of(self, "device_mesh"))


def _mesh_of(tensor: Tensor, sharding: NamedSharding) -> DeviceMesh:
    """The mesh that a tensor was declared on; the whole one where that is not known."""
    held = tensor._storage.held
    mesh: DeviceMesh | None = held.mesh if held.__class__ is placed.Placed else None
    return mesh_of(cast(Mesh, sharding.mesh)) if mesh is None else mesh


def placements(self: Tensor) -> tuple[Placement, ...]:
    return placements_of(_of(self, "placements"), device_mesh(self))


def _of(tensor: Tensor, name: str) -> NamedSharding:
    sharding = found_sharding(tensor)
    if sharding is None:
        text = f"{type(tensor).__name__!r} object has no attribute {name!r}"
        if isinstance(tensor._look(), jax.core.Tracer):
            text += ": in a compiled function it is not known how a tensor lies that was computed there"
        raise AttributeError(text)
    return sharding


def _computed(tensor: Tensor) -> NamedSharding | None:
    """In a compiled function, the mesh (with any sharding) of a tensor that it has computed of what lies on one."""
    overlay: Any = tracing.current()
    if (
        overlay is None
        or overlay.transforms
        or overlay.across is not None
        or found_sharding(tensor) is not None
    ):
        return None
    return next((s for s in map(sharding_of, (*overlay.tracers, *overlay.missed)) if s is not None), None)


@agreement.telling("redistribute")
def _redistribute(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    async_op: bool = False,
    forward_dtype: Any = None,
    backward_dtype: Any = None,
) -> Tensor:
    """The same tensor placed in another way. The gradient goes back to the first one.

    Args:
        async_op: accepted: XLA orders communication.
        forward_dtype: that of the result, to which it is converted before it moves.
        backward_dtype: to which a gradient is converted before it moves.

    Raises:
        RuntimeError: without placements; the processes give different ones.
        NotImplementedError: the mesh has other devices than that of the tensor.
    """
    if placements is None:
        raise RuntimeError("placements is needed for redistribute!")
    named = {"forward_dtype": forward_dtype, "backward_dtype": backward_dtype}
    dtypes = {name: dtype.np for name, dtype in named.items() if dtype is not None}
    computed = _computed(tensor)
    own = computed or _of(tensor, "redistribute")
    mesh = _mesh_of(tensor, own) if device_mesh is None else mesh_of(device_mesh)
    sharding = sharding_for(mesh, placements, tensor.dim())
    if [*mesh.jax_mesh.devices.flat] != [*own.mesh.devices.flat]:
        raise NotImplementedError(f"Cross device mesh comm not supported yet! {meshes.mixed(own, sharding)}")
    agreement.alike("redistribute", {"tensor": _described(tensor, sharding)})
    return moved(tensor, sharding, own if computed is None else None, mesh, **dtypes)


def _full_tensor(tensor: Tensor, *, grad_placements: Any = None) -> Tensor:
    """The whole on every device, as an ordinary tensor; in several processes each has it for itself.

    Args:
        grad_placements: how the gradient of the whole lies, which changes nothing: it goes where the tensor lies.

    Raises:
        NotImplementedError: `Partial` gradients in several processes.
    """
    computed = _computed(tensor)
    own = computed or _of(tensor, "full_tensor")
    if any(isinstance(p, Partial) for p in grad_placements or ()) and jax.process_count() > 1:
        raise NotImplementedError(
            "full_tensor(grad_placements=[Partial()]): the whole tensor has one gradient, that of what all processes "
            "compute together. Use redistribute(mesh, [Replicate()]).to_local(grad_placements=[Partial()])"
        )
    everywhere = NamedSharding(own.mesh, jax.sharding.PartitionSpec())
    if jax.process_count() > 1 and not tracing.overlay and not tensor.is_meta:
        return _border.own_part(tensor, everywhere)
    back = own if computed is None else None
    return _constrain.run((tensor, everywhere, back), {})  # type: ignore[no-any-return]


def _to_local(tensor: Tensor, *, grad_placements: Any = None) -> Tensor:
    """The part of this process: of all its devices together. In `compile` it is the whole tensor still.

    Args:
        grad_placements: ``[Partial()]`` has the gradients of the processes added up, where all have the whole. Others
            are to be those of the tensor.

    Raises:
        NotImplementedError: for other ``grad_placements`` in several processes; in `compile` in several processes,
            where the tensor is split over them.
    """
    if _computed(tensor) is not None:
        return tensor.view_as(tensor)
    own = _of(tensor, "to_local")
    if tracing.overlay and not own.is_fully_addressable and not own.is_fully_replicated:
        raise NotImplementedError(
            "to_local() of a tensor that is split over the processes, in a compiled function: call it after that"
        )
    if jax.process_count() == 1 or tracing.overlay:
        return tensor.view_as(tensor)
    if grad_placements is None:
        return _border.own_part(tensor, own)
    given, have = list(grad_placements), list(placements(tensor))
    if given == [Partial()] and have == [Replicate()]:
        everywhere = NamedSharding(meshes.of_processes(own.mesh.devices.flat), jax.sharding.PartitionSpec())
        return _border.own_part(tensor, everywhere, adds=True)
    if given != have:
        raise NotImplementedError(
            f"to_local(grad_placements={given}) of a tensor that lies as {have}: give the same placements, or "
            "[Partial()] where all processes have the whole"
        )
    return _border.own_part(tensor, own)


class _Method:
    """A method that only tensors on a mesh have."""

    def __init__(self, fn: Callable[..., Any], name: str) -> None:
        self.fn, self.name = fn, name

    def __get__(self, tensor: Any, owner: Any = None) -> Any:
        if tensor is None:
            return self.fn
        if _computed(tensor) is None:
            _of(tensor, self.name)
        return self.fn.__get__(tensor)


attach(device_mesh=property(device_mesh), placements=property(placements))  # type: ignore[arg-type]
for _name, _fn in {"redistribute": _redistribute, "full_tensor": _full_tensor, "to_local": _to_local}.items():
    _fn.__name__ = _name
    _fn.__qualname__ = f"DTensor.{_name}"
    setattr(Tensor, _name, _Method(cast(Any, _fn), _name))
OF_MESHES |= {"device_mesh", "placements", "redistribute", "full_tensor", "to_local"}


@agreement.telling("distribute_tensor")
def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Tensor:
    """A tensor on a mesh with the values of this one.

    Args:
        tensor: a leaf, or a tensor without a history.
        device_mesh: a `DeviceMesh` or a `jax.sharding.Mesh`; that of the ``with`` block unless given.
        placements: one for each dimension of the mesh; by default each device has the whole.
        src_data_rank: in several processes, whose values count; None: each has the right ones already. Those that
            several processes are to have are compared then.

    Raises:
        RuntimeError: the tensor has a history.
        ValueError: the placements are not as many as the dimensions of the mesh; the tensor is distributed already in
            another way; a dimension is not divisible.
        RuntimeError: the processes give different tensors or placements, or one of them has failed.

    Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.html#torch.distributed.tensor.distribute_tensor
    """
    mesh = mesh_of(device_mesh)
    if not tensor.is_leaf:
        raise RuntimeError(
            "`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!"
        )
    sharding = sharding_for(mesh, placements, tensor.dim())
    have = sharding_of(tensor._storage) if tensor._view is None else None
    if have is not None and not have.is_equivalent_to(sharding, tensor.dim()):
        raise ValueError(
            f"Cannot distribute a DTensor with placements {tensor.placements} to a different placements "
            f"{list(placements or ())}. do you want to call `redistribute` instead?"
        )
    placed.check(tensor.shape, sharding)
    there = " there already" if have is not None else f" with the values of rank {src_data_rank}"
    agreement.alike("distribute_tensor", {"tensor": _described(tensor, sharding) + there})
    if have is not None:
        return tensor
    value = _agreed(tensor._aval() if tensor.is_meta else tensor._look(), src_data_rank)
    made = wrap(placed.Placed(placed.brought(value, sharding), sharding, mesh))
    if src_data_rank is None:
        placed.compare_parts(made._value)
    made._requires_grad = tensor.requires_grad
    return made


def _described(tensor: Tensor, sharding: NamedSharding) -> str:
    return f"{tensor.dtype} of shape {list(tensor.shape)} placed by {meshes.described(sharding)}"


def _agreed(value: Any, rank: int | None) -> Any:
    """In several processes, the value that one of them has."""
    if rank is None or jax.process_count() == 1 or isinstance(value, jax.ShapeDtypeStruct):
        return value
    return placed.from_process(rank, value)


def distribute_in_place(
    tensor: Tensor, mesh: DeviceMesh, placements: Sequence[Placement], src_data_rank: int | None = 0
) -> None:
    """Put a tensor on a mesh: what holds it finds it there. On the other dimensions of a larger mesh it stays split."""
    cell, sharding = tensor._storage, sharding_for(mesh, placements, tensor.dim())
    have = sharding_of(cell)
    if have is not None and have.mesh == sharding.mesh:
        spec = _joined(have.spec, sharding.spec, mesh.axes, tensor.dim())
        sharding = NamedSharding(sharding.mesh, spec, memory_kind=have.memory_kind)
    placed.check(tensor.shape, sharding)
    there = " there already" if have is not None else f" with the values of rank {src_data_rank}"
    agreement.alike("the placement of a parameter", {"tensor": _described(tensor, sharding) + there})
    if have is None:
        if not tensor.is_meta and jax.process_count() > 1:
            cell.held = _agreed(tensor._look(), src_data_rank)
    placed.place(cell, sharding, mesh)
    if have is None and src_data_rank is None:
        placed.compare_parts(cell.held.made)


def _joined(have: Any, new: Any, axes: Sequence[str], ndim: int) -> jax.sharding.PartitionSpec:
    """The spec that says of ``axes`` what ``new`` does, and of the others what ``have`` does.

    A dimension is split by ``axes`` first: then each part is whole again once the others have gathered theirs.
    """
    parts = []
    for old, added in zip((*have, *[None] * ndim), (*new, *[None] * ndim), strict=False):
        kept = [name for name in meshes.axes_of(old) if name not in axes]
        parts.append((*meshes.axes_of(added), *kept))
    return meshes.spec_of(parts[:ndim])


@agreement.telling("distribute_module")
def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
    output_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
) -> Module:
    """Put a module on a mesh, in place: parameters and buffers that ``partition_fn`` leaves are the same everywhere.

    Args:
        module: the module.
        device_mesh: the mesh.
        partition_fn: called for every submodule with its name; it may replace parameters by distributed ones.
        input_fn, output_fn: called before and after each call of the module, with the inputs (or the result), which
            they may replace.

    Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.html#torch.distributed.tensor.distribute_module
    """
    mesh = mesh_of(device_mesh)
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        replicate(part, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda mod, inputs: input_fn(mod, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda mod, inputs, outputs: output_fn(mod, outputs, mesh))
    return module


def replicate(module: Module, mesh: DeviceMesh) -> None:
    """Have every device of the mesh hold the parameters and buffers of a module (not those of its submodules)."""
    for key, param in module._parameters.items():
        if param is not None and sharding_of(param._storage) is None:
            module.register_parameter(
                key, Parameter(distribute_tensor(param.data, mesh), param.requires_grad)
            )
    for key, buffer in module._buffers.items():
        if buffer is not None and sharding_of(buffer._storage) is None:
            module._buffers[key] = distribute_tensor(buffer, mesh)


def _made(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def make(
        *size: Any,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        requires_grad: bool = False,
        **kwargs: Any,
    ) -> Tensor:
        made = distribute_tensor(fn(*size, **kwargs), device_mesh, placements, src_data_rank=None)
        return made.requires_grad_(requires_grad)

    make.__name__ = make.__qualname__ = fn.__name__
    make.__doc__ = f"""As `torch.{fn.__name__}`, on a mesh; the last two arguments are those of `distribute_tensor`.

    Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.html
    """
    return make


empty, full, ones, rand, randn, zeros = map(
    _made, (creation.empty, creation.full, creation.ones, function("rand"), function("randn"), creation.zeros)
)
