"""`local_map`: a function that runs on each part of tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from ...._array import tracing
from ...._array.placed import sharding_of
from ...._array.refusal import Check
from ...._base.meshes import within
from ...._base.tuning import tuning
from ...._tensor.tensor import Tensor, wrap
from ...._tensor.tree import flatten, unflatten
from ...._trace.compiled import compile
from ....func._level import Level, _draw, arrays_of, current_session, refuse_collected, through
from ....ops.collectives import reduced
from ...device_mesh import DeviceMesh, mesh_of, on_parts
from .._api import constrained_along, found_sharding
from .._api import device_mesh as mesh_on
from ..placement_types import Partial, Placement, Replicate, Shard, placements_of, spec_for

__all__ = ["local_map"]

Placements = Sequence[Placement] | None

#: stands for a tensor among the arguments
_PART = object()


def local_map(
    func: Callable[..., Any] | None = None,
    out_placements: Any = None,
    in_placements: tuple[Placements, ...] | None = None,
    in_grad_placements: tuple[Placements, ...] | None = None,
    device_mesh: DeviceMesh | None = None,
    *,
    redistribute_inputs: bool = False,
) -> Any:
    """A function of whole tensors that calls ``func`` on each part of them: `jax.shard_map`.

    One program serves all parts. In ``func``, tensors are parts; `torch.distributed._functional_collectives` exchanges
    them. Gradients are those of the function of whole tensors. Eagerly, too, the call is compiled.

    Args:
        func: takes and returns pytrees of tensors and other values.
        out_placements: how the parts of each result make up the whole, on each dimension of the mesh: `Shard`;
            `Replicate`, if all are equal; or `Partial`, if they are summands. None for what is no tensor.
        in_placements: for each argument, how it is split. None: as it is placed already.
        in_grad_placements: how the gradients of the arguments are to lie.
        device_mesh: the mesh; by default that of the first argument that is on one.
        redistribute_inputs: whether an argument may have been placed in another way.

    Raises:
        AssertionError: there are not as many placements as arguments or results.
        ValueError: an argument was placed in another way, without ``redistribute_inputs``.
        NotImplementedError: in a compiled function, without ``device_mesh`` and ``in_placements``, for arguments that
            it has computed: how they lie is not known there.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.tensor import Partial, Shard
        >>> from functorch_port.distributed.tensor.experimental import local_map
        >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
        >>> dot = local_map(torch.dot, [Partial()], ([Shard(0)], [Shard(0)]), device_mesh=mesh)
        >>> dot(torch.ones(4), torch.ones(4))
        tensor(4.)

    Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.html#torch.distributed.tensor.experimental.local_map
    """
    if func is None:
        return functools.partial(
            local_map,
            out_placements=out_placements,
            in_placements=in_placements,
            in_grad_placements=in_grad_placements,
            device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs,
        )
    several = isinstance(out_placements, tuple) and not _is_one(out_placements)
    described = [
        _fixed(p)
        for p in (out_placements if several else (out_placements,), in_placements, in_grad_placements)
    ]
    mapped = _mapped(func, *described, device_mesh, redistribute_inputs)

    @functools.wraps(func)
    def on_whole(*args: Any, **kwargs: Any) -> Any:
        return mapped(args, kwargs)

    return on_whole


def _fixed(placements: Any) -> Any:
    return None if placements is None else tuple([None if p is None else tuple(p) for p in placements])


def _is_one(placements: tuple[Any, ...]) -> bool:
    return bool(placements) and all(isinstance(p, Placement) for p in placements)


class _Mapped:
    """A function and how its arguments and results lie."""

    def __init__(
        self,
        func: Callable[..., Any],
        outs: tuple[Placements, ...],
        ins: tuple[Placements, ...] | None,
        grads: tuple[Placements, ...] | None,
        mesh: DeviceMesh | None,
        may_move: bool,
    ) -> None:
        self.func, self.outs, self.ins, self.grads, self.may_move = func, outs, ins, grads, may_move
        self.mesh = None if mesh is None else mesh_of(mesh)
        #: the function compiled for arguments that lie in some way
        self.compiled: dict[Any, Any] = {}

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, _ = flatten(args)
        if self.ins is not None and len(self.ins) != len(leaves):
            raise AssertionError(
                f"in_placements length {len(self.ins)} does not match the number of input args {len(leaves)}!"
            )
        mesh = self.mesh or next(
            (mesh_on(x) for x in leaves if isinstance(x, Tensor) and found_sharding(x)), None
        )
        if mesh is None:
            if tracing.overlay:
                raise NotImplementedError(
                    "local_map in a compiled function needs device_mesh=: how its arguments lie is not known there"
                )
            return self.func(*args, **kwargs)
        places = tuple([self._place(i, x, mesh) for i, x in enumerate(leaves)])
        if tracing.overlay or tracing.in_jax():
            return self._run(mesh, places, args, kwargs)
        key = mesh, places
        if key not in self.compiled:
            self.compiled[key] = compile(functools.partial(_call, self, mesh, places), rng="torch")
        return self.compiled[key](args, kwargs)

    def _place(self, i: int, x: Any, mesh: DeviceMesh) -> tuple[Placement, ...] | None:
        """How an argument is to lie; None if it is no tensor."""
        want = None if self.ins is None else self.ins[i]
        if not isinstance(x, Tensor):
            if want is not None:
                raise AssertionError(f"Non-Tensor input {x} expects None placements but received {want}!")
            return None
        declared = sharding_of(x._storage) if x._view is None else None
        if want is None:
            if self.ins is not None and declared is not None:
                raise AssertionError(f"DTensor input {x} expects placements but received {want}!")
            found = found_sharding(x)
            if found is None and self.ins is None and isinstance(x._look(), jax.core.Tracer):
                raise NotImplementedError(
                    "local_map in a compiled function needs in_placements=: how an argument that the function has "
                    "computed lies is not known there"
                )
            return (Replicate(),) * mesh.ndim if found is None else placements_of(found, mesh)
        placements = tuple(want)
        if declared is not None and not self.may_move and declared.mesh == mesh.jax_mesh:
            have = placements_of(declared, mesh)
            if have != _counted(placements, x.dim()):
                raise ValueError(
                    f"arg {x} in local_map has a mismatched placements: "
                    f"arg placements is {have} but the input "
                    f"placements is {placements}! "
                    "If redistribute_inputs is wanted, set "
                    "redistribute_inputs=True to local_map."
                )
        return _counted(placements, x.dim())

    def _run(
        self, mesh: DeviceMesh, places: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        leaves, tree = flatten(args)
        given: list[Tensor] = []
        for i, (x, place) in enumerate(zip(leaves, places, strict=True)):
            if place is None:
                continue
            back = None if self.grads is None else self.grads[i]
            given.append(x if back is None else constrained_along(x, mesh, place, back))
        ins = tuple([spec_for(mesh, place) for place in places if place is not None])
        outs = [_out_spec(mesh, placements) for placements in self.outs if placements is not None]
        # the tape keeps what is below, and is not to keep the tensors
        others = [_PART if isinstance(x, Tensor) else x for x in leaves]
        result: list[Any] = []
        draws: list[Any] = []
        around = tracing.current()

        def compute(values: list[Any]) -> list[Any]:
            session, checks = current_session(), list[Check]()
            if session.dry:
                draws.clear()
            # taken here: within, a key would be one of the inner program
            drawn = (
                [] if session.dry else [session.random(functools.partial(_draw, d, around)) for d in draws]
            )

            def part(*arrays: Any) -> Any:
                level = _Part(checks, draws, mesh.size(), [x[0] for x in arrays[len(values) :]])
                with tracing.overlaid(level):
                    checks.clear()
                    tensors = [wrap(x) for x in arrays[: len(values)]]
                    made = self._on_part(mesh, tensors, others, tree, kwargs, result)
                return tuple(made), [[v[None] for v in row] for row in arrays_of(checks)]

            each = PartitionSpec(mesh.axes)
            run = jax.shard_map(
                part,
                mesh=within(mesh.jax_mesh),
                in_specs=(*ins, *[each for _ in drawn]),
                out_specs=(tuple(outs), each),
                axis_names=set(mesh.axes),
                check_vma=False,  # a loop's zeros would have to be marked as different on each part
            )
            made, rows = run(*values, *drawn)
            refuse_collected(checks, rows)
            return list(made)

        tensors = iter(through("local_map", compute, given))
        values, out_tree = result
        return unflatten(out_tree, [next(tensors) if v is None else v[0] for v in values])

    def _on_part(
        self,
        mesh: DeviceMesh,
        tensors: list[Tensor],
        others: list[Any],
        tree: Any,
        kwargs: Any,
        result: list[Any],
    ) -> list[Any]:
        it = iter(tensors)
        args = unflatten(tree, [next(it) if x is _PART else x for x in others])
        with on_parts(mesh):
            outs, out_tree = flatten(self.func(*args, **kwargs))
        if len(outs) != len(self.outs):
            raise AssertionError(
                "local_map requires one PlacementType be provided for each output value,"
                f" received {len(self.outs)} out_placements but"
                f" {len(outs)} is expected!"
            )
        arrays = []
        for out, placements in zip(outs, self.outs, strict=True):
            if not isinstance(out, Tensor):
                if placements is not None:
                    raise AssertionError(
                        f"Non-tensor output {out} expects None placements but received {placements}!"
                    )
                continue
            if placements is None:
                raise AssertionError("local_map: a Tensor that is returned needs placements, not None")
            value = out._value
            for axis, placement in zip(mesh.axes, placements, strict=True):
                if isinstance(placement, Partial):
                    value = reduced(value, axis, placement.reduce_op)
            arrays.append(value)
        result[:] = [[None if isinstance(out, Tensor) else (out,) for out in outs], out_tree]
        return arrays


class _Part(Level):
    """The level in which the function runs on a part. Each part has random numbers of its own.

    Attributes:
        draws: what is drawn, noted in a dry run: numbers for all parts.
        drawn: this part's numbers.
    """

    def __init__(self, checks: list[Check], draws: list[Any], count: int, drawn: list[Any]) -> None:
        super().__init__(checks=checks)
        self.draws, self.count, self.drawn, self.taken = draws, count, drawn, 0

    def host_draw(self, draw: Any) -> Any:
        if any(isinstance(p, jax.core.Tracer) for p in draw.params.values()):
            raise NotImplementedError(
                f"local_map: {draw.kind} numbers whose parameters are tensors; draw them outside, and pass them"
            )
        if self.session.dry:
            shape = (self.count, *draw.shape)
            self.draws.append(type(draw)(draw.generator, draw.kind, shape, draw.dtype, draw.params))
            return jnp.zeros(draw.shape, draw.dtype.np)
        if self.taken == len(self.drawn):
            raise NotImplementedError(
                "local_map within a transform (grad, vmap, ...): the function must not draw random numbers"
            )
        self.taken += 1
        return self.drawn[self.taken - 1]


@functools.lru_cache(tuning.cached_facts)
def _mapped(*how: Any) -> _Mapped:
    """The same one where a function calls `local_map` again and again, which keeps what was compiled."""
    return _Mapped(*how)


def _call(mapped: _Mapped, mesh: DeviceMesh, places: Any, args: Any, kwargs: Any) -> Any:
    return mapped._run(mesh, places, args, kwargs)


def _counted(placements: Sequence[Placement], ndim: int) -> tuple[Placement, ...]:
    """Placements with dimensions counted from the first."""
    return tuple([Shard(p.dim % ndim) if isinstance(p, Shard) else p for p in placements])


def _out_spec(mesh: DeviceMesh, placements: Sequence[Placement]) -> PartitionSpec:
    if any(isinstance(p, Shard) and p.dim < 0 for p in placements):
        raise NotImplementedError(
            f"local_map(out_placements={list(placements)}): count the dimensions of results from the first one"
        )
    return spec_for(mesh, [Replicate() if isinstance(p, Partial) else p for p in placements])
