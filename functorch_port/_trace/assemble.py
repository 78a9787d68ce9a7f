"""From the `Draft` of a trace to a `Program`: its inputs in order, its outputs, and the function to call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Literal, Var, jaxpr_as_fun

from .._array import joint, offloaded, placed
from .._array.joint import Joint, Part
from .._array.placed import brought, sharding_of
from .._array.sizes import size_key
from .._array.storage import Storage
from .._base import lowering
from .._base.jaxprs import mesh_of_processes, operations, pruned, rewritten, uses
from .._tensor.tensor import Tensor
from .across import order_of
from .draft import Draft
from .effects import Effects, functions_of
from .ends import Ends, padded_to
from .executable import Executable
from .guards import Guards
from .inputs import Inputs, Numbers, Stale, values_of
from .overlay import Overlay
from .pending import Pending, pays
from .places import Arguments
from .program import Program
from .results import Results
from .rows import Rows
from .sizes import Sizes
from .stages import Recording, Stage
from .stops import settled
from .whole import Whole, whole_of

__all__ = ["assemble"]


@dataclass
class _Sources:
    """Where the inputs in use come from, by kind, each with its position in the jaxpr, in the program's order."""

    donated: list[tuple[Any, Any]] = field(default_factory=list)
    cells: list[tuple[Any, Any]] = field(default_factory=list)
    args: list[tuple[Any, Any]] = field(default_factory=list)
    grads: list[tuple[Any, Any]] = field(default_factory=list)
    numbers: list[tuple[Any, Any]] = field(default_factory=list)

    def positions(self) -> list[Any]:
        return [position for pairs in vars(self).values() for _, position in pairs]

    def of(self, kind: str) -> list[Any]:
        return [source for source, _ in getattr(self, kind)]


def assemble(
    draft: Draft,
    overlay: Overlay,
    closed: Any,
    cells: list[Storage],
    names: list[Any],
    arrays: list[int],
    arg_numbers: list[tuple[Any, int, Any]],
    arguments: Arguments,
    keep_grads: bool,
    sizes: Sizes | None = None,
    ends: Ends | None = None,
    rows: Rows | None = None,
) -> Program:
    """Keep the inputs that matter, sort them by where they come from, and make the program.

    Args:
        sizes: those that are inputs.
        ends: where outputs of the jaxpr end that have padding.
        rows: which of its inputs and outputs are of a process itself.
    """
    twins = _read_twins(overlay)
    grad_of = {g._storage: t for t, g in overlay.grad_reads.items() if g is not None and g._view is None}
    gone: set[int] = set()
    if overlay.local and not draft.boundary and rows is None:
        closed, cells, gone = _take_joined(draft, closed, cells, {*twins, *arguments.cells, *grad_of})
        closed = closed.replace(jaxpr=_simplified(closed.jaxpr))
    if not overlay.rebinds:  # for JAX users, who may differentiate it
        learned = [cell in overlay.learned for cell in cells]
        learned += [False] * (len(closed.jaxpr.invars) - len(cells))
        closed = closed.replace(jaxpr=settled(closed.jaxpr, learned))
    jaxpr, live = pruned(closed.jaxpr)
    closed = closed.replace(jaxpr=jaxpr)
    own = () if rows is None else [cell for cell, kind in zip(cells, rows.ins) if kind != "global"]
    sources = _sort_inputs(draft, jaxpr, live, cells, names, arrays, twins, arguments, grad_of, own)
    _sort_writes(draft, arguments.cells, grad_of)
    if rows is None:
        gone |= _take_inputs(draft, jaxpr, sources, len(cells))
    place = {id(array): i for i, (_, array) in enumerate(overlay.draws)}
    drawn = [k for k, c in enumerate(closed.consts) if id(c) in place]
    unread = _unread_gradients(draft)
    mesh = mesh_of_processes(jaxpr) if placed.several and rows is None else None
    if (
        rows is not None
        or mesh is not None
        or (
            keep_grads and unread and (draft.within is not None or not pays([tensor for tensor, _ in unread]))
        )
    ):
        unread = []
    indices = [index for _, index in unread]
    _, needed = pruned(jaxpr, [keep_grads and k in indices for k in range(len(jaxpr.outvars))])
    if unread and keep_grads:  # the donated inputs that pending gradients need come last
        sources.donated.sort(key=lambda pair: needed[pair[1]])
    states = {*sources.of("donated"), *sources.of("cells"), *(cell for cell, _, _ in draft.cells)}
    states.update(*(joint.members for joint, _ in draft.joints))
    more_flags = 0 if draft.within is None else draft.within.count - 1  # become one output with the first
    outputs = sorted({*range(len(closed.jaxpr.outvars) - more_flags)} - gone)
    places = _places(draft, arguments)
    whole = None if mesh is None else whole_of(mesh, draft, arguments, places, cells, names, arrays)
    if whole is not None:
        places |= dict.fromkeys(whole.outs, whole.everywhere)
    several = placed.several  # whose programs are to be the same
    ranks = rows.order if rows else order_of(jaxpr) if several else range(len(jaxpr.outvars))
    out_order = _sort_outputs(draft, sources.of("donated"), outputs, indices, ranks)
    returned = len(out_order) - len(unread)
    kept = out_order if keep_grads else out_order[:returned]
    if rows is not None:
        rows = rows.moved(sources.positions(), len(drawn), kept)
    if whole is not None:
        whole = whole.moved(sources.positions(), len(drawn), kept)
    executable = _executable(draft, closed, sources, drawn, kept, places, rows, whole, overlay.xla)
    targets = [tensor for tensor, _ in unread]
    if unread and keep_grads:
        _leave_pending(draft, executable, targets, sources, needed)
    elif unread:  # the gradients are no outputs: ``.grad`` is None after a call
        draft.grads = draft.grads.without(targets)
        draft.grads.missing.extend((tensor, None) for tensor in targets)
    draft.fill = [(cell, i) for cell, i in draft.fill if i < returned]
    numbers = Numbers(
        draft.number_places,
        arg_numbers,
        overlay.fixed,
        overlay.predicates,
        sources.of("numbers"),
        () if sizes is None else sizes.numbers(),
        next((s.mesh for s in map(sharding_of, sources.of("donated")) if s is not None), None),
    )
    inputs = Inputs(
        donated=sources.of("donated"),
        cells=sources.of("cells"),
        args=sources.of("args"),
        arrays=[i for position, i in enumerate(arrays, len(cells) + len(names)) if live[position]],
        grads=sources.of("grads"),
        numbers=numbers,
        draws=[draw for draw, _ in overlay.draws],
        taken=[place[id(closed.consts[k])] for k in drawn],
        places=draft.places,
        old_grads=draft.old_grads,
        has_more=bool(draft.places or draft.old_grads),
        values_now=values_of([*sources.of("donated"), *sources.of("cells")]),
        lengths=[] if sizes is None else sizes.lengths(sources.args, jaxpr.invars),
    )
    return Program(
        inputs,
        executable,
        Results.of(draft.outputs, draft.tree),
        _effects(draft),
        _guards(draft, overlay, twins, states),
        _recording(draft, overlay, inputs, executable) if draft.boundary else None,
        draft.before,
        draft.within,
        None if ends is None else ends.moved(out_order),
        rows,
        whole,
    )


def _places(draft: Draft, arguments: Arguments) -> dict[int, Any]:
    """The outputs that are written to Storages which are placed, with their shardings."""
    by_position = {i: cell for cell, i in arguments.cells.items()}
    written = [(cell, index) for cell, index, _ in draft.cells]
    written += [(by_position[i], index) for i, index, _ in draft.args]
    made = [(t._storage, index) for t, index in draft.grads.computed if isinstance(t, Tensor)]
    written += [(cell, i) for cell, i in (*made, *draft.fill) if offloaded.is_on_hosts(sharding_of(cell))]
    return {index: sharding for cell, index in written if (sharding := sharding_of(cell)) is not None}


def _effects(draft: Draft) -> Effects:
    others = (draft.args, draft.uncounted, draft.number_writes, draft.flags, draft.detached, draft.modes)
    return Effects(
        cells=draft.cells,
        joints=draft.joints,
        args=draft.args,
        uncounted=draft.uncounted,
        grads=draft.grads if any(draft.grads) else None,
        numbers=draft.number_writes,
        values=draft.values,
        flags=draft.flags,
        detached=draft.detached,
        modes=draft.modes,
        hooks=draft.hooks,
        made=draft.made,
        places=draft.places,
        has_more=any((*others, draft.places, draft.made.handles, draft.values.writes)),
        **functions_of(draft.cells, draft.joints),
    )


def _guards(
    draft: Draft, overlay: Overlay, twins: dict[Storage, list[Storage]], states: set[Storage]
) -> Guards:
    return Guards(
        values=draft.values,
        gradients=draft.grad_guards,
        joints=[joint for joint, _ in draft.joints],
        twins=twins,
        places=draft.places,
        argument_hooks=draft.argument_hooks,
        states=states,
        tensors=draft.tensor_guards,
        tables=draft.table_guards,
        shared=list(overlay.shared.values()),
        hooks=draft.hook_guards,
        optimizers=draft.optimizers,
    )


def _recording(draft: Draft, overlay: Overlay, inputs: Inputs, executable: Executable) -> Recording:
    for stage in draft.stages:
        _differentiable(stage)
    at = {cell: k for k, cell in enumerate([*inputs.donated, *inputs.cells])}
    args = {i: len(at) + k for k, i in enumerate(inputs.args)}
    return Recording(
        boundary=draft.boundary,
        inputs=[
            None if kind == "made" else args.get(what) if kind == "arg" else at.get(what._storage)
            for kind, what in draft.boundary
        ],
        stages=draft.stages,
        changed=draft.changed,
        histories=draft.histories,
        retaining=draft.made.retaining,
        pure=executable.pure,
        donated=len(inputs.donated),
        why_no_second=_why_no_second(draft, overlay),
    )


def _read_twins(overlay: Overlay) -> dict[Storage, list[Storage]]:
    """The first of Storages that were joined to one input, with the others; those that the trace looked at."""
    found: dict[Storage, list[Storage]] = {}
    for cell, first in overlay.twins.items():
        if cell in overlay.env:
            found.setdefault(first, []).append(cell)
    return found


def _sort_inputs(
    draft: Draft,
    jaxpr: Any,
    live: list[bool],
    cells: list[Storage],
    names: list[Any],
    arrays: list[int],
    twins: Collection[Storage],
    arguments: Arguments,
    grad_of: dict[Storage, Any],
    own: Collection[Storage] = (),
) -> _Sources:
    """Where each input in use comes from. What is a process's own is not given away: its row is.

    Storages and numbers come in the order of their first use: the trace has them in that of the garbage collector, and
    the same program is to be found in the cache of another process.
    """
    order = {variable: k for k, variable in enumerate(uses(jaxpr))}
    first_use = lambda pair: order.get(jaxpr.invars[pair[1]], len(order))
    written = {cell for cell, _, _ in draft.cells}
    found = _Sources()
    for position, cell in enumerate(cells):
        if not live[position]:
            continue
        if cell in twins:
            found.cells.append((cell, position))  # others hold the array too: it is not to be given away
        elif cell in arguments.cells:
            found.args.append((arguments.cells[cell], position))
        elif cell in grad_of:
            found.grads.append((grad_of[cell], position))
        elif cell in written and not draft.boundary and cell not in own:
            found.donated.append((cell, position))
        else:
            found.cells.append((cell, position))
    found.numbers += [(name, k) for k, name in enumerate(names, len(cells)) if live[k]]
    for pairs in (found.donated, found.cells, found.args, found.grads, found.numbers):
        pairs.sort(key=first_use)
    found.args += [(i, k) for k, i in enumerate(arrays, len(cells) + len(names)) if live[k]]
    return found


def _sort_writes(draft: Draft, by_cell: dict[Storage, int], grad_of: dict[Storage, Any]) -> None:
    """Tell the Storages that are written from those of arguments and of gradients."""
    cells, draft.cells = draft.cells, []
    for cell, index, steps in cells:
        if cell in by_cell:
            draft.args.append((by_cell[cell], index, steps))
        elif cell in grad_of:
            draft.grads.in_place.append((grad_of[cell], index))
        else:
            draft.cells.append((cell, index, steps))


def _why_no_second(draft: Draft, overlay: Overlay) -> str:
    """Why the second derivative would not be that of the tape; empty if it is."""
    if overlay.across is not None:
        return "tensors of several processes"
    if overlay.symbols is not None:
        return "sizes that are numbers of its program (dynamic=True)"
    if overlay.has_functions:
        return "an autograd.Function inside"
    written = {cell for cell, _, _ in draft.cells}
    args = {i for i, _, _ in draft.args}
    for kind, what in draft.boundary:
        if what in args if kind == "arg" else kind != "made" and what._storage in written:
            return "a write inside to a tensor that the result is differentiated by"
    return ""


def _unread_gradients(draft: Draft) -> list[tuple[Tensor, int]]:
    """The gradients that are made and used up inside: (parameter, output). Nobody reads them, as a rule."""
    if draft.boundary or draft.why_once:
        return []
    uses = Counter(_uses(draft))
    stepped = {cell for cell, _, _ in draft.cells}.union(*(joint.members for joint, _ in draft.joints))
    return [
        (target, index)
        for target, index in draft.grads.computed
        if isinstance(target, Tensor) and target._storage in stepped and uses[index] == 1
    ]


def _take_joined(
    draft: Draft, closed: Any, cells: list[Storage], others: Collection[Storage]
) -> tuple[Any, list[Storage], set[int]]:
    """Have the program take each `Joint` whose members it all writes as one array.

    Returns:
        the jaxpr; its Storages, with that of a joint in place of the members; the outputs that are not used any more.
    """
    position = {cell: k for k, cell in enumerate(cells)}
    writes = {cell: (index, steps) for cell, index, steps in draft.cells}
    uses = Counter([*_uses(draft), *(i for _, i in draft.fill)])
    alone = {c for c, (i, _) in writes.items() if c in position and c not in others and uses[i] == 1}
    joints = dict.fromkeys([c.held.joint for c in writes if c.held.__class__ is Part])
    taken: list[Joint] = [
        j
        for j in joints
        if j.is_whole and alone.issuperset(j.members) and len({writes[m][1] for m in j.members}) == 1
    ]
    if not taken:
        return closed, cells, set()
    jaxpr = closed.jaxpr
    old_vars, outvars, cuts, joins = [], list(jaxpr.outvars), [], []
    gone: set[int] = set()
    for whole in taken:
        array = whole.cell.held
        made = [writes[m][0] for m in whole.members]
        steps = writes[whole.members[0]][1]
        old, new = (Var(ShapedArray(array.shape, array.dtype)) for _ in range(2))
        cut, join = joint.operations(whole.shapes, array.dtype)
        cuts.append(cut.replace(invars=[old], outvars=[jaxpr.invars[position[m]] for m in whole.members]))
        joins.append(join.replace(invars=[outvars[i] for i in made], outvars=[new]))
        old_vars.append(old)
        outvars[made[0]] = new
        gone.update(made[1:])
        draft.joints.append((whole, steps))
        draft.cells.append((whole.cell, made[0], steps))
    members = {m for whole in taken for m in whole.members}
    draft.cells = [write for write in draft.cells if write[0] not in members]
    left = [cell for cell in cells if cell not in members]
    invars = [*(jaxpr.invars[position[cell]] for cell in left), *old_vars, *jaxpr.invars[len(cells) :]]
    jaxpr = jaxpr.replace(invars=invars, outvars=outvars, eqns=[*cuts, *jaxpr.eqns, *joins])
    return closed.replace(jaxpr=jaxpr), [*left, *(whole.cell for whole in taken)], gone


def _uses(draft: Draft) -> Iterable[int]:
    """The outputs that something is made from after a call, each once for every use."""
    yield from (out.index for out in (*draft.outputs, *draft.changed))
    yield from (i for _, i, _ in (*draft.cells, *draft.args))
    for stage in draft.stages:
        yield from stage.residuals
    yield from draft.made.outputs()
    yield from draft.grads.outputs()


def _take_inputs(draft: Draft, jaxpr: Any, sources: _Sources, cells: int) -> set[int]:
    """Have the walk back take what the call was given: as an output it would be a copy, of all weights. Returns the
    outputs that nothing needs any more.
    """
    places = {jaxpr.invars[p]: k for k, p in enumerate(sources.positions()) if p < cells}
    taken = set()
    for stage in draft.stages:
        for n, i in enumerate(stage.residuals):
            k = None if isinstance(jaxpr.outvars[i], Literal) else places.get(jaxpr.outvars[i])
            if k is not None:
                stage.residuals[n] = ~k
                taken.add(i)
    return taken.difference(_uses(draft), (i for _, i in draft.fill))


def _leave_pending(
    draft: Draft, executable: Executable, targets: list[Tensor], sources: _Sources, needed: list[bool]
) -> None:
    """The program returns its last outputs only if somebody reads gradients."""
    order = sources.positions()
    inputs = [k for k, position in enumerate(order) if needed[position]]
    inputs += range(len(order), len(executable.input_avals))  # the random draws
    others = draft.grads.without(targets)
    executable.pending = Pending(executable, inputs, targets, others if any(others) else None)  # type: ignore[arg-type]


def _sort_outputs(
    draft: Draft, donated: list[Any], outputs: list[int], unread: list[int], ranks: Sequence[int]
) -> list[int]:
    """Put the new values of donated inputs first, in the inputs' order, and unread gradients last; the others by their
    ranks. Returns the old positions.

    JAX gives a donated input's memory to the first output of its shape. If that is a gradient, XLA has to copy the
    parameter before it may be written over.
    """
    at = {cell: i for cell, i, _ in draft.cells}
    first, last = [at[cell] for cell in donated], unread
    order = first + sorted({*outputs}.difference(first, last), key=ranks.__getitem__) + last
    new = {old: i for i, old in enumerate(order)}
    for out in (*draft.outputs, *draft.changed):
        out.index = new.get(out.index, out.index)
    draft.cells = [(cell, new[i], steps) for cell, i, steps in draft.cells]
    draft.args = [(k, new[i], steps) for k, i, steps in draft.args]
    draft.fill = [(cell, new[i]) for cell, i in draft.fill]
    for stage in draft.stages:
        stage.residuals = [new.get(i, i) for i in stage.residuals]
    if draft.within is not None:
        draft.within.index = new[draft.within.index]
    draft.made.move(new)
    draft.grads = draft.grads.moved(new)
    return order


def _executable(
    draft: Draft,
    closed: Any,
    sources: _Sources,
    drawn: list[int],
    out_order: list[int],
    places: dict[int, Any],
    rows: Rows | None,
    whole: Whole | None,
    xla: dict[str, Any] | None,
) -> Executable:
    order, donated = sources.positions(), sources.of("donated")
    total = len(closed.jaxpr.invars)
    within, flag = draft.within, -1 if draft.within is None else out_order[draft.within.index]
    avals = [closed.jaxpr.invars[p].aval for p in order]
    consts, count = list(closed.consts), len(donated)
    states = [*donated, *sources.of("cells")]
    shardings = list(map(sharding_of, states))

    def pure(donated: list[Any], kept: list[Any], as_fun: Any = jaxpr_as_fun) -> list[Any]:
        given = [*donated, *kept]
        values, held = place(given)
        outs = as_fun(closed.replace(consts=held))(*values)
        before = [values[position] for position in order[:count]]
        for index, sharding in places.items():
            outs[index] = brought(outs[index], sharding)
        if within is not None:
            outs[flag] = jnp.stack(outs[flag : flag + within.count])
        found = [outs[index] for index in out_order]
        if within is not None:  # what is donated stays as it was, if a check fails
            failed = outs[flag].any()
            found[:count] = [jnp.where(failed, old, new) for old, new in zip(before, found[:count])]
        return [
            jax.device_put(value, places[index]) if offloaded.is_on_hosts(places.get(index)) else value
            for value, index in zip(found, out_order, strict=True)
        ]

    def place(given: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The inputs and constants of the jaxpr, from those of the program."""
        if list(map(sharding_of, states)) != shardings:
            raise Stale
        values: list[Any] = [0.0] * total
        for position, value, aval in zip(order, given, avals, strict=False):
            if np.shape(value) != aval.shape or (hasattr(value, "dtype") and value.dtype != aval.dtype):
                raise Stale
            values[position] = offloaded.to_devices(value)
        for position, sharding in zip(order, shardings, strict=False):
            if offloaded.is_on_hosts(sharding):  # else XLA may gather a value on the hosts
                whole = values[position]
                values[position] = jax.lax.with_sharding_constraint(whole, offloaded.of_devices(sharding))
        held = list(consts)
        for k, value in zip(drawn, given[len(order) :], strict=True):
            held[k] = value
        return values, held

    if within is not None:
        within.place = place
    as_fun = None if draft.boundary else lowering.function_of(closed.jaxpr)
    jit = pure if as_fun is None else partial(pure, as_fun=as_fun)
    return Executable(
        pure,
        jit if whole is None else whole.compared(jit),
        closed,
        donated,
        [
            jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type, sharding=sharding)
            for a, sharding in zip_longest((*avals, *(jax.typeof(consts[k]) for k in drawn)), shardings)
        ],
        xla,
        not draft.boundary and _is_narrow([closed.jaxpr]) and not any(map(_is_wide, avals)),
        None if rows is None else rows.shardings,
    )


def _is_wide(aval: Any) -> bool:
    return str(getattr(aval, "dtype", "")) in ("int64", "uint64", "float64", "complex128")


def _is_narrow(params: Iterable[Any]) -> bool:
    """Whether the jaxprs among these parameters of operations compute nothing of 64 bits."""
    return not any(_is_wide(x.aval) for eqn in operations(params) for x in (*eqn.invars, *eqn.outvars))


def _differentiable(stage: Stage) -> None:
    """The jitted walk from gradients (those ``given``; the others are zero)."""
    jaxpr, avals, reached, consts = stage.jaxpr, stage.avals, stage.reached, stage.consts

    def backward(
        residuals: list[Any], grads: list[Any], given: tuple[bool, ...]
    ) -> tuple[list[Any], list[Any]]:
        values = iter(grads)
        full = [
            next(values) if there else jnp.zeros(a.shape, a.dtype)
            for there, a in zip(given, avals, strict=True)
            if a is not None
        ]
        found = iter(jaxpr_as_fun(ClosedJaxpr(jaxpr, [*residuals, *consts]))(*full))
        gradients = [next(found) if there else None for there in reached]
        return gradients, list(found)

    if stage.rows is not None:
        stage.backward = stage.rows.backward(stage, backward)
        return
    jitted = jax.jit(backward, static_argnums=2)
    stage.backward = jitted if stage.ends is None else partial(_padded_walk, stage, stage.ends, jitted)


def _padded_walk(
    stage: Stage, ends: Ends, walk: Callable[..., Any], residuals: list[Any], grads: list[Any], given: Any
) -> tuple[list[Any], list[Any]]:
    """The walk with arrays that have padding inside of it only."""
    shapes = [a.shape for a, there in zip(stage.avals, given, strict=True) if there]
    found, flags = walk(
        residuals, [padded_to(g, shape) for g, shape in zip(grads, shapes, strict=True)], given
    )
    if ends.layouts:
        sizes = residuals[len(residuals) - len(stage.sizes) :]
        env = {size_key(name): int(n) for name, n in zip(stage.sizes, sizes, strict=True)}
        places = [k for k, there in enumerate(stage.reached) if there]
        cut = ends.cut([found[k] for k in places], env)
        for k, gradient in zip(places, cut, strict=True):
            found[k] = gradient
    return found, flags


def _simplified(jaxpr: Any) -> Any:
    """The jaxpr without ``stop_gradient``, for a program that JAX does not differentiate, so that passes find their
    patterns; and with an array in place of what joins all the pieces that were cut of it.
    """
    cuts: dict[Any, Any] = {}

    def change(eqn: Any) -> Any:
        if eqn.primitive.name == "stop_gradient":
            return eqn.invars[0]
        whole = joint.joined_again(eqn, cuts)
        return eqn if whole is None else whole

    return rewritten(jaxpr, change)
