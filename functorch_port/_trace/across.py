"""Programs in which each process computes with tensors of its own, beside some that are the same in all.

A function that calls a module under `DistributedDataParallel`, or a collective of `torch.distributed`, is traced as its
process runs it: with the sizes of that process. `of_all` makes of the trace a program of all processes, by
`jax.shard_map`. What a process has for itself is a row of a global array there (`Rows`). What is placed on the devices
of all is the same in all, and has to stay so: `_made_of` follows each value through the program, and what would make it
differ is refused.

A function that calls a fully sharded module computes with tensors that are split over the processes, too. XLA splits
these as it likes, so that program is made by `jax.vmap` (see `crossings`), and values are refused as above.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import ref

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._array import placed
from .._array.storage import Storage
from .._base import agreement, inside, meshes
from .._base.jaxprs import is_literal, pruned, uses, walk
from .._base.meshes import OWN, PROCESS
from .._tensor.tensor import Tensor
from .comparing import differ_in_sum
from .crossings import ENTER, PART
from .places import Arguments
from .rows import Rows, StageRows, axes_of, batched, mapped, of_parts

if TYPE_CHECKING:
    from .draft import Draft
    from .overlay import Overlay

__all__ = ["INPUTS", "Across", "name_of", "of_all", "order_of", "text_of"]

#: what has the same result in all processes
_REDUCED = frozenset({"psum", "psum_invariant", "pmax", "pmin", "all_gather", "all_gather_invariant"})


@dataclass
class Across:
    """What a trace knows of the processes.

    Attributes:
        mesh: made by `meshes.of_processes`.
        averaged: Storages whose gradients are means over the processes; and whether they are to be that now.
        first: those that get what the first process has for them.
        partial: tensors whose gradient is no mean yet.
        crosses: whether tensors of each become parts of tensors that are split over all (see `crossings`).
    """

    mesh: Mesh
    averaged: dict[Storage, bool] = field(default_factory=dict)
    first: dict[Storage, None] = field(default_factory=dict)
    partial: set[Tensor] = field(default_factory=set)
    crosses: bool = False

    def mean(self, value: Any) -> Any:
        """The mean of what the processes have."""
        return lax.pmean(value, PROCESS)

    def of_first(self, value: Any) -> Any:
        """What the first process has."""
        here = lax.axis_index(PROCESS) == 0
        return lax.psum(jnp.where(here, value, jnp.zeros_like(value)), PROCESS).astype(value.dtype)

    def arriving(self, tensor: Tensor, old: Any, value: Any) -> Any:
        """The gradient of a tensor, where ``value`` is added to ``old``, or to none."""
        total = value if old is None else old + value
        sync = self.averaged.get(tensor._storage)
        if sync is None:
            return total
        if not sync:
            self.partial.add(tensor)
            return total
        if tensor in self.partial:
            self.partial.discard(tensor)
            return self.mean(total)
        value = self.mean(value)
        return value if old is None else old + value


def text_of(jaxpr: Any) -> str:
    """What tells a program from others, the same in all processes."""
    # inputs that nothing uses, and their order, are those of the objects that happen to be alive
    needed, live = pruned(jaxpr.jaxpr)
    return _text(jaxpr.replace(jaxpr=needed), [k for k, is_used in enumerate(live) if is_used], set())


#: what a process has for itself in a program of all, where that is compared
INPUTS = (
    "what is of one process among the inputs of a compiled function that computes with tensors of all (a number, as "
    "lr; or a batch: make it global before the call with DTensor.from_local(x, mesh, [Shard(0)]), or call "
    "DistributedDataParallel's module): it"
)
# ---------------------------------------------------------------- which values are the same


#: the bits of what differs between processes in any case, and of what is made of tensors of all; then those of inputs
_ANY, _ALL, _FIRST = 1, 2, 4


class _MadeOf:
    """Of what each value of a program is made: bits.

    Attributes:
        crosses: whether values of each process become parts of what all have.
        split: the bits of what is of a process for good: arguments, and draws.
        left: the bits of what became a part again.
        exchanges: whether the processes do.
    """

    def __init__(self, crosses: bool, split: int) -> None:
        self.crosses, self.split, self.left, self.exchanges = crosses, split, 0, False

    def outputs(self, jaxpr: Any, bits: Sequence[int]) -> list[int]:
        """Those of the outputs, from those of constants and inputs."""
        return walk(jaxpr, bits, self._rule, lambda value, aval: 0)

    def _rule(self, eqn: Any, ins: list[int]) -> list[int]:
        name = eqn.primitive.name
        if name == "optimization_barrier":
            return ins
        total = 0
        for bits in ins:
            total |= bits
        if eqn.primitive is PART:
            if not ins[0] & _ALL and max(eqn.params["of"]):
                raise NotImplementedError(_NO_BATCH)
            self.left |= ins[0]
            return [_ANY]
        if eqn.primitive is ENTER and total & _ALL and not total & self.split:
            raise NotImplementedError(_GLOBAL)
        if PROCESS in axes_of(eqn.params):
            self.exchanges |= name != "axis_index"
            total = 0 if name in _REDUCED else total | _ANY
        elif self.crosses and name == "sharding_constraint":
            total |= _ALL
        return [total] * len(eqn.outvars)


_NO_BATCH = (
    "a compiled function of several processes: a fully sharded module returns a tensor with as many rows as all the "
    "batches have, which is not made of them, so it is not known whether a process is to have a part of it. Make it "
    "outside of the module"
)
_GLOBAL = (
    "a compiled function of several processes: a tensor that is computed of global ones is given to a fully sharded "
    "module, which may be all batches or one. Give the module the batch of this process, make all "
    "arguments global before the call with DTensor.from_local(x, mesh, [Shard(0)]), or call the function uncompiled"
)
# ---------------------------------------------------------------- the program of all


def of_all(
    draft: Draft,
    overlay: Overlay,
    closed: Any,
    cells: Sequence[Storage],
    names: Sequence[Any],
    arrays: Sequence[int],
    arguments: Arguments,
) -> tuple[Any, Rows]:
    """The program of all processes for a trace of one.

    Raises:
        NotImplementedError: a tensor that is split over the processes is part of it, or what is the same in all
            processes would get values of one.
    """
    across: Across = overlay.across
    mesh = across.mesh
    jaxpr, live = pruned(closed.jaxpr)
    closed = closed.replace(jaxpr=jaxpr)
    used, order = _used(jaxpr, live), order_of(jaxpr)
    kinds = _kinds(cells, names, arrays, arguments, live, across.crosses)
    drawn = {id(array) for _, array in overlay.draws}
    bits = [_ANY if id(c) in drawn else _ALL * meshes.is_global(c) for c in closed.consts]
    bits += [
        _FIRST << k if kind in ("row", "split") else _ALL * (kind == "global") for k, kind in enumerate(kinds)
    ]
    making = _MadeOf(
        across.crosses, _ANY | sum(_FIRST << k for k, kind in enumerate(kinds) if kind == "split")
    )
    made_of = making.outputs(jaxpr, bits)
    targets = _targets(draft, arguments)
    changes = {i: change for i, change in _changes(draft, across, targets).items() if made_of[i] & ~_ALL}
    shared = _shared(draft, made_of, cells, kinds, targets, changes, making.left)
    for k in shared:
        kinds[k] = "same"
    same = _ALL | sum(_FIRST << k for k in shared)
    is_row = [bool(bits & ~same) and i not in targets for i, bits in enumerate(made_of)]
    within = range(0) if draft.within is None else range(draft.within.index, len(made_of))
    for i in within:
        is_row[i] = False
    numbers = range(len(cells), len(cells) + len(names))
    watched = [k for k in used if k in shared or k in numbers]
    flag = -1
    if watched:
        flag = within.start if within else len(made_of)
        is_row.insert(flag, False)
        order.insert(flag, len(order))
        if draft.within is not None:
            draft.within.index += 1
    kept = {*targets, *(i for stage in draft.stages for i in stage.residuals)}
    if across.crosses:
        own = {i for cell, i, _ in draft.cells if not placed.is_shared(cell)}
        kept |= {i for i, bits in enumerate(made_of) if bits & _ALL and not is_row[i] and i not in own}
    outs = ["kept" if i in kept else "row" if row else "same" for i, row in enumerate(is_row)]
    new = _spread(overlay, closed, across, kinds, used, order, is_row, changes, within, drawn, watched, flag)
    tensors = [None if kind == "made" else _tensor(kind, what, arguments) for kind, what in draft.boundary]
    is_global = [t is not None and _is_of_all(t) for t in tensors]
    boundary = [None if t is None else placed.sharding_of(t._storage) for t in tensors]
    for stage in draft.stages:
        stage.rows = StageRows(
            mesh, [is_row[i] for i in stage.residuals], is_global, boundary if across.crosses else None
        )
    shardings = None
    if across.crosses:  # JAX could not name some of those that XLA chooses
        shardings = [
            _where(mesh, aval.shape, targets.get(i), is_row[i], outs[i])
            for i, aval in enumerate(new.out_avals)
        ]
    return new, Rows(
        mesh,
        kinds,
        outs,
        order,
        _text(closed, used, drawn),
        {k: name_of(k, cells, names) for k in watched},
        flag,
        shardings,
        across.crosses or making.exchanges or bool(changes or within or watched),
    )


def _where(mesh: Mesh, shape: Sequence[int], target: Storage | None, is_row: bool, out: str) -> NamedSharding:
    """Where an output is to lie."""
    if target is not None:
        return placed.sharding_of(target)  # type: ignore[return-value]
    axes = ((PROCESS,),) if is_row else () if out == "same" else ((PROCESS, OWN), (PROCESS,))
    for names in axes:
        if shape and shape[0] % math.prod(mesh.shape[name] for name in names) == 0:
            return NamedSharding(mesh, PartitionSpec(names))
    return NamedSharding(mesh, PartitionSpec())


def _is_of_all(tensor: Tensor) -> bool:
    cell = tensor._storage
    return placed.sharding_of(cell) is not None or meshes.is_global(cell.aval())


def _kinds(
    cells: Sequence[Storage],
    names: Sequence[Any],
    arrays: Sequence[int],
    arguments: Arguments,
    live: list[bool],
    crosses: bool,
) -> list[str]:
    kinds = []
    for cell, is_used in zip(cells, live):
        value = cell.array() if is_used else None
        if not placed.is_shared(cell) and not meshes.is_global(value):
            kinds.append("split" if cell in arguments.cells else "row")
            continue
        if value is not None and not value.is_fully_replicated and not crosses:
            raise NotImplementedError(
                f"{_told(cell)} is split over the processes, and the compiled function computes with tensors of one "
                "process, too: make these global before the call with DTensor.from_local(x, mesh, [Shard(0)]), or use "
                "what is split outside of the function, as the step of ZeroRedundancyOptimizer"
            )
        kinds.append("global")
    kinds += ["same"] * len(names)
    return kinds + ["global" if meshes.is_global(arguments.leaves[i]) else "split" for i in arrays]


def _targets(draft: Draft, arguments: Arguments) -> dict[int, Storage]:
    """The outputs that go to what is the same in all processes."""
    found = {i: cell for cell, i, _ in draft.cells if placed.is_shared(cell)}
    found |= {i: cell for cell, i in draft.fill if placed.is_shared(cell)}
    for target, i in (*draft.grads.computed, *draft.grads.in_place):
        tensor = arguments.leaves[target] if type(target) is int else target
        if placed.is_shared(tensor._storage):
            found[i] = tensor._storage
    return found


def _changes(draft: Draft, across: Across, targets: dict[int, Storage]) -> dict[int, Callable[[Any], Any]]:
    """What is done at the end to outputs that are to be the same in all processes."""
    found: dict[int, Callable[[Any], Any]] = {}
    grads = {t._grad._storage for t in across.partial if t._grad is not None}
    for i, cell in targets.items():
        if cell in across.first:
            found[i] = across.of_first
        elif cell in grads:
            found[i] = across.mean
    for target, i in draft.grads.computed:
        if target in across.partial:
            found[i] = across.mean
    return found


def _shared(
    draft: Draft,
    made_of: Sequence[int],
    cells: Sequence[Storage],
    kinds: Sequence[str],
    targets: dict[int, Storage],
    changes: dict[int, Any],
    left: int,
) -> list[int]:
    """The inputs of single processes that have to be the same, as values that are the same are made of them."""
    written = {cell: i for cell, i, _ in draft.cells}
    wanted = [(made_of[i], _told(cell) + _AND_WRITTEN) for i, cell in targets.items() if i not in changes]
    wanted.append((left, _AND_COMPUTED))
    shared: dict[int, None] = {}
    while wanted:
        bits, told = wanted.pop()
        own = [k for k in range(len(kinds)) if bits & (_FIRST << k)]
        if bits & _ANY or any(kinds[k] == "split" for k in own):
            raise NotImplementedError(told)
        for k in own:
            if k not in shared:
                shared[k] = None
                if cells[k] in written:
                    wanted.append((made_of[written[cells[k]]], _told(cells[k]) + _AND_WRITTEN))
    return list(shared)


_AND_WRITTEN = (
    " is the same in all processes, and would get values of one: reduce them before (torch.distributed.all_reduce), or "
    "compute them in a module under DistributedDataParallel, or in a fully sharded one"
)
_AND_COMPUTED = (
    "a compiled function of several processes: what a fully sharded module computes is the same in all, but for the "
    "batches, and would get values of one. A tensor that has not as many rows as the first argument is not joined with "
    "those of the others: make it global before the call with DTensor.from_local(x, mesh, [Replicate()]), have it as a "
    "buffer of the module, or call the function uncompiled"
)


def _told(cell: Storage) -> str:
    value = cell.held
    return f"{inside.owner_of(cell) or 'a tensor'} of shape {tuple(value.shape)}"


def name_of(k: int, cells: Sequence[Storage], names: Sequence[Any]) -> Callable[[], str]:
    """An input of a program, as errors name it. To find who holds a tensor takes long: that waits for an error."""
    if k < len(cells):
        cell = ref(cells[k])
        return lambda: "an argument" if (held := cell()) is None else _told(held)
    name = names[k - len(cells)]
    found = name[1] if isinstance(name, tuple) and len(name) > 1 else None
    told = f"argument {found}" if isinstance(found, int) else f"the number {found!r}"
    return lambda: "a number" if found is None else told


def _used(jaxpr: Any, live: Sequence[bool]) -> list[int]:
    """The inputs in use, in the order of their first use: that of the trace is the garbage collector's, and programs of
    several processes are to be the same.
    """
    first = {variable: k for k, variable in enumerate(uses(jaxpr))}
    return sorted([k for k, there in enumerate(live) if there], key=lambda k: first.get(jaxpr.invars[k], -1))


def order_of(jaxpr: Any) -> list[int]:
    """Of each output where it stands if they are sorted by where they are computed."""
    made = {v: k for k, v in enumerate(uses(jaxpr))}
    made |= {v: k + len(made) for k, v in enumerate([v for eqn in jaxpr.eqns for v in eqn.outvars])}
    at = [-1 if is_literal(v) else made[v] for v in jaxpr.outvars]
    ranks = {k: rank for rank, k in enumerate(sorted(range(len(at)), key=at.__getitem__))}
    return [ranks[k] for k in range(len(at))]


def _text(closed: Any, used: Sequence[int], drawn: set[int]) -> str:
    """What tells a program from others, the same in all processes."""
    jaxpr, order = closed.jaxpr, order_of(closed.jaxpr)
    outs = [v for _, v in sorted(zip(order, jaxpr.outvars, strict=True), key=lambda pair: pair[0])]
    ins = [jaxpr.invars[k] for k in _used(jaxpr, [k in used for k in range(len(jaxpr.invars))])]
    consts = [np.asarray(c) for c in closed.consts if id(c) not in drawn and not meshes.is_global(c)]
    text = re.sub(r"0x[0-9a-fA-FX]+", "", str(jaxpr.replace(invars=ins, outvars=outs)))
    told = [
        f"constant {k}: {c.dtype}{[*c.shape]} {agreement.digest([c]).hex()}" for k, c in enumerate(consts)
    ]
    return "\n".join([text, *told])


def _spread(
    overlay: Overlay,
    closed: Any,
    across: Across,
    kinds: Sequence[str],
    used: Sequence[int],
    order: Sequence[int],
    is_row: Sequence[bool],
    changes: dict[int, Callable[[Any], Any]],
    within: range,
    drawn: set[int],
    watched: Sequence[int],
    flag: int,
) -> Any:
    """The program of all; it has the inputs of that of one, and rows of global arrays among them."""
    enters = [k in used and kind in ("row", "split") for k, kind in enumerate(kinds)]
    draws = [i for i, const in enumerate(closed.consts) if id(const) in drawn]
    consts = [
        np.asarray(c) if isinstance(c, jax.Array) and not meshes.is_global(c) else c for c in closed.consts
    ]
    mesh, crosses = across.mesh, across.crosses
    parts, over = (closed, batched) if crosses else (of_parts(closed), mapped)

    def one(*given: Any) -> list[Any]:
        held = list(consts)
        for i, value in zip(draws, given):
            held[i] = value
        values: list[Any] = [np.zeros(a.shape, a.dtype) for a in closed.in_avals]  # nothing uses the others
        for k, value in zip(used, given[len(draws) :]):
            values[k] = value
        index = () if crosses else given[-1:]
        found = list(jaxpr_as_fun(parts.replace(consts=held))(*values, *index))
        for i, change in changes.items():
            found[i] = change(found[i])
        for i in within:
            found[i] = lax.psum(found[i].astype(kind), PROCESS) > 0
        if watched:
            found.insert(
                flag,
                jnp.zeros(len(watched), bool)
                if crosses
                else differ(*[values[k] for k in watched], *index)[0],
            )
        return [found[i] for i in at]

    def differ(*values: Any) -> list[Any]:
        return [differ_in_sum(values[:-1], values[-1], mesh.shape[PROCESS], kind)]

    # that of the gradients: then XLA adds all up in one piece
    kind = jnp.result_type(
        *[a.dtype for a in closed.out_avals if jnp.issubdtype(a.dtype, jnp.floating)], jnp.float32
    )

    at = sorted(range(len(order)), key=order.__getitem__)
    run = over(mesh, one, [*[True] * len(draws), *(enters[k] for k in used)], [is_row[i] for i in at])

    def whole(*given: Any) -> list[Any]:
        inputs = given[len(draws) :]
        found = run(*given[: len(draws)], *(inputs[k] for k in used))
        found = [found[rank] for rank in order]
        if crosses and watched:  # XLA would take for granted that they are the same
            each = mapped(mesh, differ, [False] * len(watched), [False])
            (found[flag],) = each(*[inputs[k] for k in watched])
        return found

    def aval(kind: Any, row: bool) -> Any:
        shape = (mesh.shape[PROCESS], *kind.shape) if row else kind.shape
        return jax.ShapeDtypeStruct(shape, kind.dtype, weak_type=getattr(kind, "weak_type", False))

    avals = [aval(closed.consts[i], True) for i in draws]
    stand_ins = {id(closed.consts[i]): np.zeros(a.shape, a.dtype) for i, a in zip(draws, avals)}
    overlay.draws = [(draw, stand_ins.get(id(array), array)) for draw, array in overlay.draws]
    traced = jax.make_jaxpr(whole)(*avals, *map(aval, closed.in_avals, enters))
    ins, count = traced.jaxpr.invars, len(draws)
    jaxpr = traced.jaxpr.replace(constvars=[*ins[:count], *traced.jaxpr.constvars], invars=ins[count:])
    return ClosedJaxpr(jaxpr, [*(stand_ins[id(closed.consts[i])] for i in draws), *traced.consts])


def _tensor(kind: str, what: Any, arguments: Arguments) -> Tensor:
    found: Tensor = arguments.leaves[what] if kind == "arg" else what
    return found
