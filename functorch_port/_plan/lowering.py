"""A step that is not run: traced with described state, and lowered for devices that need not be here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from .._array.offloaded import is_on_hosts
from .._array.placed import sharding_of
from .._base import alive, contexts, meshes
from .._tensor import tree
from .._tensor.tensor import Tensor
from .._trace.compiled import Compiled, compile, compiled_of
from .._trace.names import name_cells, variables_cells
from ..distributed.device_mesh import DeviceMesh
from ..profiler._eager_memory import INPUTS, OTHER
from ..profiler._owners import GRADIENTS, NO_MODULE, Owner, owners
from .topology import BadTopology, device_of, devices_of

__all__ = ["Argument", "Lowered", "lowered"]


class Argument(NamedTuple):
    """An input of the program, or a gradient that it returns.

    Attributes:
        cause: what it is: parameters, buffers, gradients, optimizer state, inputs.
        module: whose it is, as ``model/layer1/conv``.
        name: as a reader of the source would write it.
        shape, dtype: of all parts together.
        part: the shape of the part that one device has.
        nbytes: those of one device.
        on_hosts: whether it is in the memory of the hosts, which a CPU does not tell from its own.
    """

    cause: str
    module: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    part: tuple[int, ...]
    nbytes: int

    @property
    def text(self) -> str:
        """Dtype and shape."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def is_whole(self) -> bool:
        """Whether each device has all of it."""
        return self.part == self.shape

    on_hosts: bool


class Lowered(NamedTuple):
    """A program that is ready to be compiled.

    Attributes:
        program: a `jax.stages.Lowered`.
        jaxpr: what it computes, before it is split over devices.
        inputs: what it is given.
        returned: gradients that it returns.
        mesh: a `jax.sharding.Mesh`.
        options: of the compiler, that the user has given; None without any.
        once: why it serves the first call alone; empty if it serves others, too.
    """

    program: Any
    jaxpr: Any
    inputs: list[Argument]
    returned: list[Argument]
    mesh: Any
    options: dict[str, Any] | None
    once: str


@contextmanager
def _keys_of(platform: str) -> Iterator[None]:
    """Generators have the keys that they would have on a platform: JAX's are longer on a TPU."""
    cells = [generator.key_storage for generator in alive.generators] if platform == "tpu" else []
    before = [(cell.held, cell.form) for cell in cells]
    try:
        for cell in cells:
            cell.held, cell.form = np.zeros(4, np.uint32), None
        yield
    finally:
        for cell, (held, form) in zip(cells, before, strict=True):
            cell.held, cell.form = held, form


def lowered(
    step: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    topology: str | None,
    mesh: DeviceMesh | None,
    tell: Callable[[str], None] = lambda phase: None,
) -> Lowered:
    """Trace a step and lower its program.

    Args:
        step: compiled by `compile`, or a function to compile.
        args, kwargs: those of a call.
        topology: its first device is used if nothing lies on a mesh.
        mesh: where that lies that was placed nowhere.
        tell: is told what is done next.

    Raises:
        BadTopology: tensors lie on other devices than those of the mesh.
    """
    compiled = compiled_of(step) or compile(step)
    if not isinstance(compiled, Compiled):
        compiled = compiled_of(compiled) or Compiled(step)
    on = _mesh(compiled, args, mesh, topology)
    tell("tracing")
    where = device_of(on.devices.flat[0])
    with (
        _keys_of(where.type),
        contexts.state.having(platform=where.type),
        compiled.described(tuple(args), kwargs, where) as traced,
    ):
        executable = traced.program.executable
        everywhere = NamedSharding(on, PartitionSpec())
        known = _known(compiled, traced)
        avals = []
        for one, aval in zip(known, executable.input_avals, strict=True):
            sharding = everywhere if one.sharding is None else one.sharding
            _check(one, sharding, on)
            avals.append(
                jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding)
            )
        inputs = [one.argument(aval) for one, aval in zip(known, avals, strict=True)]
        if executable.pending is not None:  # then a call keeps the old parameters, for who reads gradients
            old = slice(executable.pending.safe, executable.count)
            inputs += [one.as_gradient(aval) for one, aval in zip(known[old], avals[old], strict=True)]
        tell("lowering")
        made = executable.lower(avals=avals)
        returned, why = _returned(traced, known), traced.first.why_once
        return Lowered(made, executable.jaxpr, inputs, returned, on, executable.xla, why)


def _mesh(compiled: Compiled, args: Sequence[Any], mesh: DeviceMesh | None, topology: str | None) -> Any:
    """The mesh that is given; else that on which the arguments lie or what the function's variables have; else one of
    the topology's first device.
    """
    if mesh is not None:
        return _of_topology(mesh.jax_mesh, topology)
    given = [leaf._storage for leaf in tree.leaves(args) if isinstance(leaf, Tensor)]
    for sharding in map(sharding_of, (*given, *variables_cells(compiled._fn))):
        if sharding is not None:
            return _of_topology(sharding.mesh, topology)
    found = devices_of(topology) if topology is not None else jax.devices()
    return meshes.mesh_of(found[:1], ("device",))


class _Known(NamedTuple):
    """Whose an input is, what it is called, and where it lies (None: nowhere yet)."""

    owner: Owner
    name: str
    sharding: Any

    def argument(self, aval: Any) -> Argument:
        return _argument(self.owner, self.name, aval, aval.sharding)

    def as_gradient(self, aval: Any) -> Argument:
        return _argument(self.owner._replace(cost=GRADIENTS), f"{self.name}.grad", aval, aval.sharding)


def _argument(owner: Owner, name: str, aval: Any, sharding: Any) -> Argument:
    shape = tuple(aval.shape)
    part = shape if sharding is None else tuple(sharding.shard_shape(shape))
    size = math.prod(part) * np.dtype(aval.dtype).itemsize
    apart = is_on_hosts(sharding) and sharding.mesh.devices.flat[0].platform != "cpu"
    return Argument(*owner, name, shape, str(aval.dtype), part, size, apart)


def _known(compiled: Compiled, traced: Any) -> list[_Known]:
    """What is known of the inputs of a traced call, in their order."""
    inputs, leaves = traced.program.inputs, traced.program.inputs.all_leaves(traced.leaves)
    cells = [*inputs.donated, *inputs.cells]
    whose, names = owners(compiled._fn, cells), name_cells(compiled._fn, cells)
    nobody = Owner(OTHER, NO_MODULE)
    found = [_Known(whose.get(cell, nobody), names[cell], sharding_of(cell)) for cell in cells]
    for i in inputs.args:
        leaf = leaves[i]
        tensor = isinstance(leaf, Tensor) and leaf._view is None
        found.append(
            _Known(Owner(INPUTS, NO_MODULE), f"argument {i}", sharding_of(leaf._storage) if tensor else None)
        )
    for tensor in inputs.grads:
        target = leaves[tensor] if isinstance(tensor, int) else tensor
        cost = whose.get(target._storage, nobody)._replace(cost=GRADIENTS)
        found.append(_Known(cost, "a gradient", sharding_of(target._storage)))
    found += [_Known(Owner(INPUTS, NO_MODULE), _number(name), None) for name in inputs.numbers.inputs]
    found += [_Known(Owner(INPUTS, NO_MODULE), f"argument {i}", None) for i in inputs.arrays]
    found += [_Known(Owner(INPUTS, NO_MODULE), "random numbers", None) for _ in inputs.taken]
    return found


def _number(name: Any) -> str:
    return str(next((part for part in name if isinstance(part, str)), "a number"))


def _returned(traced: Any, known: Sequence[_Known]) -> list[Argument]:
    """The gradients that the program returns."""
    grads = traced.program.effects.grads
    if grads is None:
        return []
    inputs, pending = traced.program.inputs, traced.program.executable.pending
    by_cell = dict(zip([*inputs.donated, *inputs.cells], known))
    later = set() if pending is None else set(map(id, pending.targets))
    found = []
    for target, _ in grads.computed:
        if not isinstance(target, Tensor) or id(target) in later:
            continue
        one = by_cell.get(target._storage)
        owner = Owner(GRADIENTS, NO_MODULE) if one is None else one.owner._replace(cost=GRADIENTS)
        name = "a gradient" if one is None else f"{one.name}.grad"
        found.append(_argument(owner, name, target._storage.held, sharding_of(target._storage)))
    return found


def _check(one: _Known, sharding: Any, mesh: Any) -> None:
    if [*sharding.mesh.devices.flat] != [*mesh.devices.flat]:
        raise BadTopology(
            f"{one.name} lies on {_described(sharding.mesh)}, and the step is planned for {_described(mesh)}: place "
            "everything on one mesh, that which plan gives to build"
        )


def _of_topology(mesh: Any, topology: str | None) -> Any:
    """The mesh, if it is one of the topology's devices."""
    found = [] if topology is None else devices_of(topology)
    if found and {(d.platform, d.id) for d in found} != {(d.platform, d.id) for d in mesh.devices.flat}:
        raise BadTopology(f"{topology} has {len(found)} devices, and the step is on {_described(mesh)}")
    return mesh


def _described(mesh: Any) -> str:
    return f"a mesh {dict(mesh.shape)} of {mesh.devices.flat[0].platform} devices"
