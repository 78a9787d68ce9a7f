"""JAX's words for tensors on meshes: `shard`, `constrain`, `use_mesh`, `axis_rules`.

A `jax.sharding.PartitionSpec` says for each dimension of a tensor which axes of a mesh split it. PyTorch's names
(`distributed.tensor`, `fully_shard`, ...) say the same by a `Shard` or `Replicate` for each dimension of the mesh.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._array import placed, tracing
from .._array.offloaded import of_hosts
from .._array.storage import Storage
from .._tensor import tree
from .._tensor.tensor import Tensor
from ..nn._module import Module
from ..nn.parallel import _border
from ..optim.optimizer import Optimizer
from .device_mesh import DeviceMesh, mesh_of
from .tensor._api import moved

__all__ = ["axis_rules", "constrain", "from_process_batch", "offload", "shard", "use_mesh"]

T = TypeVar("T", Tensor, Module)
Offloaded = TypeVar("Offloaded", Tensor, Module, Optimizer)


class _Thread(threading.local):
    def __init__(self) -> None:
        self.rules: dict[str, Any] = {}


_thread = _Thread()


def use_mesh(mesh: DeviceMesh | Mesh) -> AbstractContextManager[DeviceMesh]:
    """``with use_mesh(mesh):`` `shard`, `constrain` and PyTorch's functions take this mesh unless one is given.

    Example:
        >>> import jax
        >>> from functorch_port.distributed.sharding import use_mesh
        >>> with use_mesh(jax.make_mesh((1,), ("data",))) as mesh:
        ...     mesh.shape
        (1,)
    """
    return mesh_of(mesh)


@contextmanager
def axis_rules(rules: Mapping[str, Any]) -> Iterator[None]:
    """``with axis_rules({"embed": "model", "heads": None}):`` specs may name logical axes.

    Args:
        rules: a name that is no axis of the mesh -> the axis or axes that it stands for, or None.

    Example:
        >>> import jax
        >>> from jax.sharding import PartitionSpec as P
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.sharding import axis_rules, shard, use_mesh
        >>> with use_mesh(jax.make_mesh((1,), ("model",))), axis_rules({"embed": "model"}):
        ...     shard(torch.zeros(4), P("embed"))
        tensor([0., 0., 0., 0.], mesh={'model': 1}, spec=P('model',))
    """
    before = _thread.rules
    _thread.rules = {**before, **rules}
    try:
        yield
    finally:
        _thread.rules = before


def shard(
    target: T, spec: PartitionSpec | Mapping[str, PartitionSpec], mesh: DeviceMesh | Mesh | None = None
) -> T:
    """Put a tensor, or a module with its parameters and buffers, on a mesh, in place.

    What is written to them later goes to the same places, and gradients and the state of optimizers follow.

    Args:
        target: a tensor or a module.
        spec: of a tensor, a `jax.sharding.PartitionSpec`. Of a module, a dict from patterns to specs: the first whose
            regular expression is found in the name of a parameter or buffer counts; others are the same everywhere.
        mesh: a `jax.sharding.Mesh` or `DeviceMesh`; that of `use_mesh` or `jax.set_mesh` unless given.

    Returns:
        the target.

    Raises:
        ValueError: a pattern is found in no name, a spec names an axis that the mesh has not, or a dimension is not
            divisible; then nothing has moved. Or a value is not the same in all of several processes.

    Example:
        >>> import jax
        >>> from jax.sharding import PartitionSpec as P
        >>> import functorch_port as torch
        >>> net = torch.nn.Linear(4, 8)
        >>> mesh = jax.make_mesh((1,), ("model",))
        >>> torch.distributed.sharding.shard(net, {"weight": P("model", None)}, mesh).weight.placements
        (Shard(dim=0),)
    """
    on = mesh_of(mesh)
    if isinstance(target, Tensor):
        if target._view is not None:
            raise ValueError("a view cannot be put on a mesh: shard the tensor that it is a view of")
        places = {target._storage: _sharding(spec, on)}
    else:
        places = dict(_places(target, spec, on))
    for cell, sharding in places.items():
        placed.check(cell.aval().shape, sharding)
    for cell, sharding in places.items():
        if not sharding.is_fully_addressable:
            placed.agreed("what is placed on the devices of all", cell.look())
        placed.place(cell, sharding)
    return target


def _places(module: Module, rules: Any, mesh: DeviceMesh) -> Iterator[tuple[Storage, NamedSharding]]:
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    unused = dict(rules)
    for name, tensor in tensors.items():
        found = [pattern for pattern in rules if re.search(pattern, name)]
        for pattern in found:
            unused.pop(pattern, None)
        yield tensor._storage, _sharding(rules[found[0]] if found else PartitionSpec(), mesh)
    if unused:
        raise ValueError(
            f"no parameter or buffer has a name in which {', '.join(map(repr, unused))} is found; there are "
            f"{', '.join(tensors)}"
        )


def offload(target: Offloaded) -> Offloaded:
    """Keep a tensor, the parameters of a module, or the state of an optimizer in the memory of the hosts, in place.

    They lie on a mesh, and stay split as they are. Operations and compiled functions move them to the devices where
    they use them, and back what is written to them. Gradients and the state of optimizers that are made later follow
    parameters. Tensors without dimensions stay on the devices. `shard` brings a tensor or a module back.

    Args:
        target: what is kept there. The state of an optimizer that has made no step is made.

    Returns:
        the target.

    Raises:
        ValueError: something does not lie on a mesh; then nothing has moved.
        NotImplementedError: there are several processes, the devices cannot read the host's memory, or the optimizer
            makes its state in its first step.

    Example:
        >>> import jax
        >>> from jax.sharding import PartitionSpec as P
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.sharding import offload, shard
        >>> net = shard(torch.nn.Linear(4, 8), {"weight": P("data")}, jax.make_mesh((1,), ("data",)))
        >>> opt = offload(torch.optim.Adam(net.parameters()))
        >>> opt.state[net.weight]["exp_avg"].is_pinned(), net.weight.is_pinned()
        (True, False)
    """
    places: dict[Storage, Any] = {}
    made: dict[Tensor, dict[str, Any]] = _new_state(target) if isinstance(target, Optimizer) else {}
    for tensor in _tensors_of(target, made):
        sharding = placed.sharding_of(tensor._storage) if tensor._view is None else None
        if sharding is None:
            raise ValueError(
                f"a tensor of shape {list(tensor.shape)} does not lie on a mesh: put it (or the parameter that it "
                "belongs to) there by shard or fully_shard before offload"
            )
        places[tensor._storage] = of_hosts(sharding), tensor._storage.held.mesh
    for cell, (sharding, on) in places.items():
        placed.place(cell, sharding, on)
    if isinstance(target, Optimizer):
        target.state.update(made)
    return target


def _new_state(optimizer: Optimizer) -> dict[Tensor, dict[str, Any]]:
    """The state of the parameters that have none, as a first step makes it."""
    make = getattr(optimizer, "_init_state", None)
    found = {}
    for group in optimizer.param_groups:
        for param in group["params"]:
            if optimizer.state.get(param) or not param.requires_grad:
                continue
            with tracing.x64():
                state = None if make is None else make(param, group)
            if state is None:
                raise NotImplementedError(
                    f"offload of a {type(optimizer).__name__} that makes its state in its first step: take that before"
                )
            found[param] = state
    return {param: state for param, state in found.items() if state}


def _tensors_of(target: Any, made: Mapping[Tensor, Any]) -> Iterator[Tensor]:
    """The tensors that `offload` moves."""
    if isinstance(target, Optimizer):
        tables = [table for table in (*target.state.values(), *made.values()) if isinstance(table, dict)]
        found = [value for table in tables for value in table.values() if isinstance(value, Tensor)]
    else:
        params = [target] if isinstance(target, Tensor) else [*target.parameters()]
        found = [*params, *(p.grad for p in params if p.grad is not None)]
    yield from (tensor for tensor in found if tensor.dim())


def constrain(x: Tensor, spec: PartitionSpec, mesh: DeviceMesh | Mesh | None = None) -> Tensor:
    """``x``, placed in a way: `jax.lax.with_sharding_constraint`. Its gradient is placed the same way.

    Args:
        x: the tensor.
        spec: a `jax.sharding.PartitionSpec`.
        mesh: a `jax.sharding.Mesh` or `DeviceMesh`; that of `use_mesh` or `jax.set_mesh` unless given.

    Raises:
        ValueError: the spec names an axis that the mesh has not, a dimension is not divisible, or the tensor is not
            the same in all of several processes.

    Example:
        >>> import jax
        >>> from jax.sharding import PartitionSpec as P
        >>> import functorch_port as torch
        >>> mesh = jax.make_mesh((1,), ("data",))
        >>> torch.distributed.sharding.constrain(torch.ones(2), P("data"), mesh).placements
        (Shard(dim=0),)
    """
    sharding = _sharding(spec, mesh_of(mesh))
    return moved(x, sharding, sharding)


def from_process_batch(
    batch: Any, spec: PartitionSpec | None = None, mesh: DeviceMesh | Mesh | None = None
) -> Any:
    """The global batch of which each process has loaded a part, say by a `DataLoader` with a `DistributedSampler`.

    Args:
        batch: tensors in nested containers, of equal sizes in all processes; in one process the whole batch.
        spec: how the whole lies; unless given, the rows are split over all axes of the mesh.
        mesh: a `jax.sharding.Mesh` or `DeviceMesh`; that of `use_mesh` or `jax.set_mesh` unless given.

    Raises:
        ValueError: the processes have parts of different shapes, or other numbers where ``spec`` has them have the
            same, or the devices cannot share the rows equally.

    Example:
        >>> import jax
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.sharding import from_process_batch
        >>> mesh = jax.make_mesh((1,), ("data",))
        >>> from_process_batch({"x": torch.ones(2, 3)}, mesh=mesh)["x"].placements
        (Shard(dim=0),)
    """
    on = mesh_of(mesh)
    sharding = _sharding(PartitionSpec(on.axes) if spec is None else spec, on)

    def whole(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or not leaf.dim():
            return leaf
        return (
            moved(leaf, sharding, sharding)
            if jax.process_count() == 1
            else _border.joined(leaf, sharding, on)
        )

    return tree.map(whole, batch)


def _sharding(spec: Any, mesh: DeviceMesh) -> NamedSharding:
    if not isinstance(spec, PartitionSpec):
        raise TypeError(f"a spec is a jax.sharding.PartitionSpec, not {type(spec).__name__}")
    known = mesh.jax_mesh.axis_names

    def axis(name: Any) -> Any:
        if name is None or name in known:
            return name
        if isinstance(name, tuple):
            found = [axis(part) for part in name]
            return tuple([part for part in found if part is not None]) or None
        if name in _thread.rules:
            return axis(_thread.rules[name])
        raise ValueError(
            f"{spec} names {name!r}, which is no axis of the mesh ({', '.join(map(str, known))}) and has no rule in "
            "axis_rules"
        )

    return NamedSharding(mesh.jax_mesh, PartitionSpec(*map(axis, spec)))
