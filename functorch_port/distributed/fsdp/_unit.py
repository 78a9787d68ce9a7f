"""A unit of fully sharded data parallelism: its parameters are split over devices, and gathered while it runs.

What a gather does is declared, as all else: `_constrain` with the whole value in the forward pass, and the part of each
device in the backward pass. XLA makes an all-gather and a reduce-scatter of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from ..._array import offloaded, placed, tracing
from ..._array.placed import sharding_of
from ..._base import agreement, contexts, meshes
from ..._base.dtypes import dtype as DType
from ..._run.call import Op
from ..._run.opnode import edge_of
from ..._run.registry import ops
from ..._tensor import grad_mode, stand_ins, tree
from ..._tensor.node import Node
from ..._tensor.tensor import Tensor, wrap
from ...nn._module import Module
from ...nn.modules._scan import is_stacked
from ...nn.parallel import _border
from ...nn.parallel._batch import of_first, replicate, split
from ...utils.checkpoint import state as checkpointing
from ..device_mesh import OWN, DeviceMesh
from ..tensor.placement_types import Shard
from ._policies import MixedPrecisionPolicy
from ._reshard import Regathered

__all__ = ["ATTRIBUTE", "Unit", "unit_of"]

#: the attribute of a module that is a unit
ATTRIBUTE = "_fsdp_unit"
_constrain = Op(ops["_constrain"])


class _Thread(threading.local):
    #: into how many parts the batch is split of the unit that runs; None if none runs
    parts: int | None = None


_thread = _Thread()


class Unit:
    """The parameters below a module that no unit below it has.

    Attributes:
        root: whether no unit above it has been made.
        reshard: whether the whole parameters are let go of after the forward pass; None: unless it is the root.
    """

    def __init__(
        self,
        module: Module,
        mesh: DeviceMesh,
        shard_axes: Sequence[str],
        data_axes: Sequence[str],
        policy: MixedPrecisionPolicy,
        reshard: bool | None,
        ignored: set[Any],
        cast_root_inputs: bool = False,
    ) -> None:
        self.mesh, self.policy = mesh, policy
        #: a dict, whose content a trace compares
        self.options: dict[str, bool | None] = {"reshard": reshard}
        own = [OWN] if OWN in mesh.jax_mesh.axis_names else []
        self.shard_axes, self.data_axes = tuple(shard_axes), (*data_axes, *own)
        #: in several processes, where their batches lie
        self.border = None
        if jax.process_count() > 1:
            self.border = _border.border_of(mesh.jax_mesh, self.data_axes)
        self.ignored, self.root = ignored, True
        self.cast_root_inputs = cast_root_inputs
        self.members = [*_members(module)]
        for part in module.modules():
            inner = unit_of(part)
            if inner is not None:
                inner.root = False

    # ---------------------------------------------------------------- parameters

    def slots(self) -> Iterator[tuple[dict[str, Any], str, Tensor]]:
        """Where the parameters are: the tables of the modules, the names in them, and the parameters."""
        for module in self.members:
            for name, param in module._parameters.items():
                if param is not None and param not in self.ignored:
                    yield module._parameters, name, param

    def place(self, choose: Callable[[Any], Any] | None, agree: bool = False, on_hosts: bool = False) -> None:
        """Split the parameters (and keep them in the hosts' memory, ``on_hosts``), and have every device hold the
        buffers.

        In several processes each keeps its own part of a parameter. What several have, those of the first process
        have; with ``agree`` everything.
        """
        names = {id(p): f"{name}" for _, name, p in self.slots()}
        params = {id(p): p for _, _, p in self.slots()}.values()
        for param in params:
            if not param.dim():
                raise ValueError(
                    "fully_shard doesn't support scalar parameters. "
                    f"Change {names[id(param)]} to a 1D tensor with numel equal to 1."
                )
        chosen = [(p, self._sharding(p, choose)) for p in params]
        buffers = [b for m in self.members for b in m._buffers.values() if b is not None]
        things: dict[str, Any] = {"sync_module_states": agree}
        for k, (p, sharding) in enumerate(chosen):
            where = "as it lies" if sharding is None else meshes.described(sharding)
            things[f"parameter {k} ({names[id(p)]})"] = f"{p.dtype} of shape {list(p.shape)}, {where}"
        for k, b in enumerate(buffers):
            things[f"buffer {k}"] = f"{b.dtype} of shape {list(b.shape)}"
        agreement.alike("a unit of fully_shard", things)
        for param, sharding in chosen:
            if sharding is not None:
                sharding = offloaded.of_hosts(sharding) if on_hosts else sharding
                if param._view is not None:  # in another memory format
                    param.data = param.detach().contiguous().clone()
                is_first = sharding_of(param._storage) is None
                if self.border is not None and is_first and not param.is_meta:
                    axes = [name for entry in sharding.spec for name in meshes.axes_of(entry)]
                    if agree or _border.different(self.jax_mesh, axes) < jax.process_count():
                        param._storage.put(placed.from_process(0, param._storage.look()))
                placed.place(param._storage, sharding, self.mesh if is_first else None)
        of_first(buffers)
        replicate(buffers, self.jax_mesh)

    @property
    def jax_mesh(self) -> Any:
        return self.mesh.jax_mesh

    def size(self, axes: Sequence[str]) -> int:
        return int(np.prod([self.jax_mesh.shape[axis] for axis in axes]))

    def _sharding(self, param: Tensor, choose: Callable[[Any], Any] | None) -> NamedSharding | None:
        """The sharding of a parameter; None if another unit has chosen it."""
        own = sharding_of(param._storage) if param._view is None else None
        if own is not None and own.mesh != self.jax_mesh:
            raise ValueError(
                f"a parameter lies on the mesh {dict(own.mesh.shape)}, and fully_shard was given one of "
                f"{dict(self.jax_mesh.shape)}: use dimensions of one mesh, as init_device_mesh(type, (2, 4), "
                'mesh_dim_names=("dp", "tp"))["dp"]'
            )
        spec = [meshes.axes_of(entry) for entry in (() if own is None else own.spec)]
        spec += [()] * (param.dim() - len(spec))
        if any(axis in entry for entry in spec for axis in self.shard_axes):
            return None
        chosen = None if choose is None else choose(param)
        if chosen is not None and not isinstance(chosen, Shard):
            raise NotImplementedError(
                f"shard_placement_fn returned {chosen!r}: only Shard(dim) and None are supported"
            )
        fits = lambda d: param.shape[d] % self.size((*spec[d], *self.shard_axes)) == 0
        is_layered = any(param is p for m in self.members if is_stacked(m) for p in m._parameters.values())
        dims = [*range(is_layered, param.dim())]  # a loop takes one layer at a time
        if chosen is not None:
            first = chosen.dim % param.dim()
            if first and not fits(first):
                raise NotImplementedError(
                    f"FSDP does not support uneven sharding on dim {first}: {param.size()} "
                    f"(world size: {self.size(self.shard_axes)})"
                )
            dims.insert(0, first)
        d = next((d for d in dims if fits(d)), None)
        if d is not None:
            spec[d] = (*spec[d], *self.shard_axes)
        kind = None if own is None else own.memory_kind
        return NamedSharding(self.jax_mesh, meshes.spec_of(spec), memory_kind=kind)

    # ---------------------------------------------------------------- forward

    def run(self, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """``call`` with the parameters gathered; in several processes each gives its batch, and gets its result."""
        if self.border is not None and _thread.parts is None:
            return _border.across(partial(self._run, call), args, kwargs, self.border)
        return self._run(call, *args, **kwargs)

    def _run(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.border is not None:
            _refuse_own(self.ignored)
        outer, since = _thread.parts, 0
        args, kwargs, parts = self._inputs(args, kwargs, outer)
        if self._lets_go() and grad_mode.is_grad_enabled() and not checkpointing.within:
            since = Node(()).seq
        inside = partial(self._inside, parts)
        is_own = outer is None and self.border is None
        in_parts = contexts.state.having(
            parts=parts if is_own else contexts.state.parts,
            around=inside,
            split=(self.jax_mesh, tuple(self.data_axes) if parts > 1 else ()),
        )
        with inside() as gathered, in_parts:
            out = call(*args, **kwargs)
        if since:
            Regathered(gathered).begin(out, since)
        if self.policy.output_dtype is not None:
            out = cast(out, self.policy.output_dtype)
        return out

    @property
    def reshard(self) -> bool | None:
        return self.options["reshard"]

    @reshard.setter
    def reshard(self, value: bool | None) -> None:
        self.options["reshard"] = value
        tracing.bump_epoch()

    def _lets_go(self) -> bool:
        if tracing.overlay and tracing.overlay.reads is not None:
            tracing.overlay.reads.add(self.options, "reshard_after_forward")
        return not self.root if self.reshard is None else self.reshard

    def _inputs(self, args: Any, kwargs: Any, outer: int | None) -> tuple[Any, Any, int]:
        """The inputs, converted and split as those of the unit around are (None: there is none)."""
        policy, root = self.policy, outer is None
        if policy.param_dtype is not None and (
            policy.cast_forward_inputs or (self.cast_root_inputs and root)
        ):
            args, kwargs = cast((args, kwargs), policy.param_dtype)
        if outer == 1:
            return args, kwargs, outer
        (args, kwargs), parts = split((args, kwargs), self.jax_mesh, self.data_axes, declared=root)
        return args, kwargs, parts if outer is None else outer

    @contextmanager
    def _inside(self, parts: int) -> Iterator[list[tuple[Tensor, Any]]]:
        """This unit runs, with its parameters gathered."""
        before, _thread.parts = _thread.parts, parts
        try:
            with self._gathered() as gathered:
                yield gathered
        finally:
            _thread.parts = before

    @contextmanager
    def _gathered(self) -> Iterator[list[tuple[Tensor, Any]]]:
        """The parameters, whole, in place of those that are split; gives the whole ones and how to make one again."""
        whole: dict[int, Tensor] = {}
        made: list[tuple[Tensor, Any]] = []
        before = [*self.slots()]
        for _, _, param in before:
            if id(param) not in whole:
                again = self._gather_of(param)
                whole[id(param)] = param if again is None else again(_late(param))
                if again is not None:
                    kept = param._value if tracing.overlay else offloaded.kept(param)
                    made.append((whole[id(param)], (again, kept)))
        standing = [whole[id(param)] for _, _, param in before]
        swap = stand_ins.Swap(self.members, [(table, name) for table, name, _ in before])
        after: list[Any] = []
        try:
            with stand_ins.put(swap, standing) as after:
                yield made
        finally:
            for (table, name), put, now in zip(swap.slots, standing, after):
                if now is not put:  # what the module has put there itself stays
                    table[name] = now

    def _gather_of(self, param: Tensor) -> Callable[[Tensor], Tensor] | None:
        """How a parameter is gathered; None if there is nothing to do."""
        own = sharding_of(param._storage) if param._view is None else None
        policy = self.policy
        dtype = policy.param_dtype if param.is_floating_point() else None
        if dtype == param.dtype:
            dtype = None
        if own is None:
            return None if dtype is None else lambda p: p.to(dtype)
        spec = [tuple([a for a in meshes.axes_of(entry) if a not in self.shard_axes]) for entry in own.spec]
        target = NamedSharding(own.mesh, meshes.spec_of(spec))
        reduce = policy.reduce_dtype if param.is_floating_point() else None
        if target == own and dtype is None and reduce is None:
            return None
        dtypes = [None if kind is None else kind.np for kind in (dtype, reduce)]
        return lambda p: _constrain.run((p, target, own, None, *dtypes), {})


def _refuse_own(params: set[Any]) -> None:
    """Refuse parameters that each of several processes has for itself.

    Raises:
        NotImplementedError: they have no gradient of their own in what all compute together.
    """
    for param in params:
        if param.requires_grad and not placed.is_shared(param._storage) and not _border.is_global(param):
            raise NotImplementedError(
                f"an ignored parameter of shape {list(param.shape)} requires a gradient, which would be of all "
                "processes: make it global with distribute_tensor(param, mesh, [Replicate()]), or call "
                "requires_grad_(False)"
            )


def _late(param: Tensor) -> Tensor:
    """A parameter, in a recomputation behind what that waits for: XLA would keep the first gather instead."""
    if not checkpointing.waits:
        return param
    late = wrap(jax.lax.optimization_barrier((param._value, *checkpointing.waits))[0])
    late._requires_grad = param.requires_grad
    late._grad_fn, late._output_nr = edge_of(param) or (None, 0)
    return late


def cast(value: Any, dtype: DType) -> Any:
    """Floating-point tensors in nested containers, converted."""
    return tree.map(
        lambda leaf: leaf.to(dtype) if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf, value
    )


def unit_of(module: Module) -> Unit | None:
    """The unit that a module is."""
    return module.__dict__.get(ATTRIBUTE)


def _members(module: Module) -> Iterator[Module]:
    """A module and those below it that belong to no unit below it."""
    seen: set[Module] = set()

    def walk(part: Module) -> Iterator[Module]:
        if part in seen or (part is not module and unit_of(part) is not None):
            return
        seen.add(part)
        for child in part.children():
            yield from walk(child)
        yield part

    return walk(module)
