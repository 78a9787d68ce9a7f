"""From what a trace noted to a `Program`: its inputs in order, its outputs, and the functions to call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

from .._array.donation import Donating
from .._array.loops import wholes_of
from .._array.storage import Storage
from .._base import lowering
from .._base.jaxprs import operations
from .._base.tuning import tuning
from .._tensor.tensor import Tensor
from .bundles import Bundle, Gradients, Joint, bundled, cut, join, joined_gradients
from .overlay import Overlay
from .pending import Pending, pays
from .places import Given
from .program import Program, Stale
from .stages import Stage

__all__ = ["assemble"]


def assemble(
    program: Program,
    overlay: Overlay,
    closed: Any,
    cells: list[Storage],
    names: list[Any],
    arrays: list[int],
    given: Given,
    keep_grads: bool,
) -> None:
    """Keep the inputs that matter, sort them by where they come from, and make the jitted function."""
    if overlay.kernels and not program.boundary:
        closed = closed.replace(jaxpr=_without_stops(closed.jaxpr))
    closed, live = _prune(closed)
    by_cell = given.cells
    grad_of = {g._storage: t for t, g in overlay.grad_reads.items() if g is not None and g._view is None}
    program.twins = _read_twins(overlay)
    positions = _sort_inputs(program, live, cells, names, arrays, by_cell, grad_of)
    program.arg_writes = [(by_cell[c], i, n) for c, i, n in program.cell_writes if c in by_cell]
    grad_of = {cell: tensor for cell, tensor in grad_of.items() if cell not in by_cell}
    slot_writes = [(grad_of[c], "slot", i) for c, i, _ in program.cell_writes if c in grad_of]
    program.grad_writes = slot_writes + program.grad_writes
    program.cell_writes = [w for w in program.cell_writes if w[0] not in by_cell and w[0] not in grad_of]
    place = {id(array): i for i, (_, array) in enumerate(overlay.draws)}
    drawn = [k for k, c in enumerate(closed.consts) if id(c) in place]
    program.draws = [draw for draw, _ in overlay.draws]
    program.draw_inputs = [place[id(closed.consts[k])] for k in drawn]
    unread = _unread_gradients(program)
    if keep_grads and unread and (program.within is not None or not pays([tensor for tensor, _ in unread])):
        unread = []
    indices = [index for _, index in unread]
    needed = _inputs_of(closed.jaxpr, indices if keep_grads else [])
    if unread and keep_grads:
        _needed_last(program, positions["donated"], needed)
    program.states = {*program.donated, *program.cells, *(cell for cell, _, _ in program.cell_writes)}
    if overlay.kernels and not program.boundary:
        _bundle(program, overlay, positions, needed)
    order = [position for kind in positions.values() for position in kind]
    more_flags = 0 if program.within is None else program.within.count - 1  # become one output with the first
    out_order = _sort_outputs(program, len(closed.jaxpr.outvars) - more_flags, indices)
    returned = len(out_order) - len(unread)
    _make_functions(program, closed, order, drawn, out_order if keep_grads else out_order[:returned])
    if unread and keep_grads:
        _leave_pending(program, unread, order, needed)
    elif unread:
        _forget(program, unread)
    program.fill = [(cell, i) for cell, i in program.fill if i < returned]
    if program.boundary:
        program.why_no_second = _why_no_second(program, overlay)
        _find_boundary(program)
        for stage in program.stages:
            _differentiable(stage)


def _read_twins(overlay: Overlay) -> dict[Storage, list[Storage]]:
    """The first of Storages that were joined to one input, with the others; those that the trace looked at."""
    found: dict[Storage, list[Storage]] = {}
    for cell, first in overlay.twins.items():
        if cell in overlay.env:
            found.setdefault(first, []).append(cell)
    return found


def _sort_inputs(
    program: Program,
    live: list[bool],
    cells: list[Storage],
    names: list[Any],
    arrays: list[int],
    by_cell: dict[Storage, int],
    grad_of: dict[Storage, Any],
) -> dict[str, list[int]]:
    """Tell the program where each input in use comes from; returns their positions, in the order of the call."""
    written = {cell for cell, _, _ in program.cell_writes}
    sources: dict[str, list[Any]] = {
        "donated": program.donated,
        "cell": program.cells,
        "arg": program.arg_inputs,
        "grad": program.grad_inputs,
        "joined": program.joined_grads,
        "number": program.number_inputs,
    }
    places: dict[str, list[int]] = {kind: [] for kind in sources}
    program.arrays = [i for position, i in enumerate(arrays, len(cells) + len(names)) if live[position]]

    def add(kind: str, source: Any, position: int) -> None:
        if live[position]:
            places[kind].append(position)
            sources[kind].append(source)

    for position, cell in enumerate(cells):
        if cell in program.twins:
            add("cell", cell, position)  # others hold the array too: it is not to be given away
        elif cell in by_cell:
            add("arg", by_cell[cell], position)
        elif cell in grad_of:
            add("grad", grad_of[cell], position)
        else:
            add("donated" if cell in written and not program.boundary else "cell", cell, position)
    for position, name in enumerate(names, len(cells)):
        add("number", name, position)
    for position, i in enumerate(arrays, len(cells) + len(names)):
        add("arg", i, position)
    return places


def _why_no_second(program: Program, overlay: Overlay) -> str:
    """Why the second derivative would not be that of the tape; empty if it is."""
    if overlay.has_functions:
        return "an autograd.Function inside"
    written = {cell for cell, _, _ in program.cell_writes}
    args = {i for i, _, _ in program.arg_writes}
    for kind, what in program.boundary:
        if what in args if kind == "arg" else kind != "made" and what._storage in written:
            return "a write inside to a tensor that the result is differentiated by"
    return ""


def _find_boundary(program: Program) -> None:
    """Which inputs the tensors are that gradients lead to; None for one whose value is not looked at."""
    at = {cell: k for k, cell in enumerate([*program.donated, *program.cells])}
    args = {i: len(at) + k for k, i in enumerate(program.arg_inputs)}
    program.boundary_inputs = [
        None if kind == "made" else args.get(what) if kind == "arg" else at.get(what._storage)
        for kind, what in program.boundary
    ]


def _unread_gradients(program: Program) -> list[tuple[Tensor, int]]:
    """The gradients that are made and used up inside: (parameter, output). Nobody reads them, as a rule."""
    if program.boundary or not program.reusable:
        return []
    uses = Counter(_uses(program))
    stepped = {cell for cell, _, _ in program.cell_writes}
    return [
        (target, what)
        for target, kind, what in program.grad_writes
        if kind == "new" and isinstance(target, Tensor) and target._storage in stepped and uses[what] == 1
    ]


def _needed_last(program: Program, donated: list[int], needed: list[bool]) -> None:
    """Sort the donated inputs: those which pending gradients need come last."""
    pairs = sorted(zip(donated, program.donated, strict=True), key=lambda pair: needed[pair[0]])
    donated[:] = [position for position, _ in pairs]
    program.donated = [cell for _, cell in pairs]


def _bundle(program: Program, overlay: Overlay, positions: dict[str, list[Any]], needed: list[bool]) -> None:
    """Take small donated inputs together if there are many: those of a pack, and those which pending gradients need.

    Gradients of a bundle's members, if they are only read, come together too. The position of what is together is a
    tuple, of its members' positions; so is the output that a bundle comes from.
    """
    donated = positions["donated"]
    position = dict(zip(program.donated, donated, strict=True))
    writes = {cell: (i, steps) for cell, i, steps in program.cell_writes}
    uses = Counter([*_uses(program), *(i for _, i in program.fill)])
    pack_of = {p._storage: pack for pack in overlay.packs.values() for p in pack.params}
    alike: dict[Any, list[Storage]] = {}
    for cell, (index, steps) in writes.items():  # in the order of the optimizers
        if cell in position and uses[index] == 1:
            alike.setdefault((needed[position[cell]], steps, pack_of.get(cell)), []).append(cell)
    bundle_of: dict[Storage, Bundle] = {}
    together = [
        (cells, len(pack.params) if pack else tuning.bundle_arrays) for (_, _, pack), cells in alike.items()
    ]
    for (_, steps, _), bundles in zip(alike, bundled(together), strict=True):
        for bundle in bundles:
            bundle_of.update(dict.fromkeys(bundle.members, bundle))
            program.bundle_writes.append((bundle, tuple([writes[m][0] for m in bundle.members]), steps))
    program.cell_writes = [write for write in program.cell_writes if write[0] not in bundle_of]
    program.donated = list(dict.fromkeys([bundle_of.get(cell, cell) for cell in program.donated]))
    donated[:] = [
        tuple([position[m] for m in cell.members]) if isinstance(cell, Bundle) else position[cell]
        for cell in program.donated
    ]
    at = {id(t): i for t, i in zip(program.grad_inputs, positions["grad"], strict=True)}
    program.joined_grads = joined_gradients(dict.fromkeys(bundle_of.values()), program.grad_inputs)
    positions["joined"] = [tuple([at.pop(id(t)) for t in some.tensors]) for some in program.joined_grads]
    program.grad_inputs = [t for t in program.grad_inputs if id(t) in at]
    positions["grad"] = list(at.values())


def _uses(program: Program) -> Iterable[int]:
    """The outputs that something is made from after a call, each once for every use."""
    yield from (out.index for out in (*program.outputs, *program.changed))
    yield from (i for _, i, _ in (*program.cell_writes, *program.arg_writes))
    for stage in program.stages:
        yield from stage.residuals
    yield from program.made.outputs()
    for _, kind, what in program.grad_writes:
        if kind in ("new", "slot"):
            yield what
        elif kind == "sparse":
            yield from what[:2]


def _leave_pending(
    program: Program, unread: list[tuple[Tensor, int]], order: list[Any], needed: list[bool]
) -> None:
    """The program returns its last outputs only if somebody reads gradients."""
    inputs = [k for k, position in enumerate(order) if any(needed[p] for p in _each(position))]
    inputs += range(len(order), len(program.input_avals))  # the random draws
    targets = [tensor for tensor, _ in unread]
    others = [write for write in program.grad_writes if not any(write[0] is t for t in targets)]
    program.pending = Pending(program, inputs, targets, others)


def _forget(program: Program, unread: list[tuple[Tensor, int]]) -> None:
    """The gradients are no outputs: ``.grad`` is None after a call."""
    targets = {id(tensor) for tensor, _ in unread}
    program.grad_writes = [
        (t, "none", None) if id(t) in targets else (t, kind, what) for t, kind, what in program.grad_writes
    ]


def _each(position: int | tuple[int, ...]) -> tuple[int, ...]:
    """The positions of a bundle, or the one."""
    return position if isinstance(position, tuple) else (position,)


def _sort_outputs(program: Program, count: int, unread: list[int]) -> list[Any]:
    """Put the new values of donated inputs first, in the inputs' order, and unread gradients last; returns the
    old positions.

    JAX gives a donated input's memory to the first output of its shape. If that is a gradient, XLA has to copy the
    parameter before it may be written over.
    """
    at = {cell: i for cell, i, _ in (*program.cell_writes, *program.bundle_writes)}
    first, last = [at[cell] for cell in program.donated], unread
    taken = {i for index in first for i in _each(index)}
    order = first + sorted({*range(count)} - {*taken, *last}) + last
    new = {old: i for i, old in enumerate(order)}
    for out in (*program.outputs, *program.changed):
        out.index = new.get(out.index, out.index)
    program.cell_writes = [(cell, new[i], steps) for cell, i, steps in program.cell_writes]
    program.bundle_writes = [(bundle, new[i], steps) for bundle, i, steps in program.bundle_writes]
    program.arg_writes = [(k, new[i], steps) for k, i, steps in program.arg_writes]
    program.fill = [(cell, new[i]) for cell, i in program.fill]
    for stage in program.stages:
        stage.residuals = [new[i] for i in stage.residuals]
    if program.within is not None:
        program.within.index = new[program.within.index]
    program.made.move(new)
    program.grad_writes = [
        (target, kind, _moved(kind, what, new)) for target, kind, what in program.grad_writes
    ]
    return order


def _moved(kind: str, what: Any, new: dict[int, int]) -> Any:
    """What a gradient is made from, with the new positions of outputs."""
    if kind == "sparse":
        return (new[what[0]], new[what[1]], *what[2:])
    return new[what] if kind in ("new", "slot") else what


def _make_functions(
    program: Program, closed: Any, order: list[Any], drawn: list[int], out_order: list[Any]
) -> None:
    closed = closed.replace(jaxpr=lowering.rewritten(closed.jaxpr))
    first = len(program.donated) + len(program.cells) + len(program.arg_inputs) + len(program.grad_inputs)
    written = {k: cell for k, cell in enumerate(program.donated) if isinstance(cell, Bundle)}
    read: dict[int, Gradients] = dict(enumerate(program.joined_grads, first))
    joints: dict[int, Joint] = {**written, **read}
    wholes = wholes_of(
        closed.jaxpr, {k: (order[k], out_order[k]) for k in written}, {k: order[k] for k in read}
    )
    total = len(closed.jaxpr.invars)
    within, flag = program.within, -1 if program.within is None else out_order[program.within.index]
    avals = [joints[k].aval if k in joints else closed.jaxpr.invars[p].aval for k, p in enumerate(order)]
    consts, count = list(closed.consts), len(program.donated)

    def pure(donated: list[Any], kept: list[Any], as_fun: Any = jaxpr_as_fun) -> list[Any]:
        given = [*donated, *kept]
        values, held = place(given, wholes.unread)
        run = as_fun(closed.replace(jaxpr=wholes.jaxpr, consts=held))
        outs = run(*values, *(given[k] for k in (*wholes.written, *wholes.read)))
        whole = dict(zip(wholes.written, outs[len(outs) - len(wholes.written) :], strict=True))
        if within is not None:
            outs[flag] = jnp.stack(outs[flag : flag + within.count])
        found = [
            whole[k] if k in whole else join([outs[i] for i in index]) if k in written else outs[index]
            for k, index in enumerate(out_order)
        ]
        if within is not None:  # what is donated stays as it was, if a check fails
            failed = outs[flag].any()
            found[:count] = [jnp.where(failed, old, new) for old, new in zip(given, found[:count])]
        return found

    def place(given: Sequence[Any], unread: Collection[int] = ()) -> tuple[list[Any], list[Any]]:
        """The inputs and constants of the jaxpr, from those of the program."""
        values: list[Any] = [0.0] * total
        for k, (position, value, aval) in enumerate(zip(order, given, avals, strict=False)):
            if np.shape(value) != aval.shape or (hasattr(value, "dtype") and value.dtype != aval.dtype):
                raise Stale
            if k in unread:
                continue
            whose = cut(value, joints[k].shapes) if k in joints else [value]
            for p, mine in zip(_each(position), whose, strict=True):
                values[p] = mine
        held = list(consts)
        for k, value in zip(drawn, given[len(order) :], strict=True):
            held[k] = value
        return values, held

    if within is not None:
        within.place = place
    program.pure = pure
    program.input_avals = [
        jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type)
        for a in (*avals, *(jax.typeof(consts[k]) for k in drawn))
    ]
    program.number_avals = avals[len(avals) - len(program.number_inputs) :]
    as_fun = None if program.boundary else lowering.function_of(closed.jaxpr)
    ours = pure if as_fun is None else partial(pure, as_fun=as_fun)
    program.compiler_options = lowering.compiler_options(closed.jaxpr)
    program.jit = jax.jit(ours, donate_argnums=0, compiler_options=program.compiler_options)
    program.call = Donating(program.jit)
    program.jaxpr = closed
    program.is_narrow = not program.boundary and _is_narrow([closed.jaxpr]) and not any(map(_is_wide, avals))


def _is_wide(aval: Any) -> bool:
    return str(getattr(aval, "dtype", "")) in ("int64", "uint64", "float64", "complex128")


def _is_narrow(params: Iterable[Any]) -> bool:
    """Whether the jaxprs among these parameters of operations compute nothing of 64 bits."""
    return not any(_is_wide(x.aval) for eqn in operations(params) for x in (*eqn.invars, *eqn.outvars))


def _differentiable(stage: Stage) -> None:
    """The jitted walk from gradients (those ``given``; the others are zero)."""
    jaxpr, avals, reached = lowering.rewritten(stage.jaxpr), stage.avals, stage.reached

    def backward(
        residuals: list[Any], grads: list[Any], given: tuple[bool, ...]
    ) -> tuple[list[Any], list[Any]]:
        values = iter(grads)
        full = [
            next(values) if there else jnp.zeros(a.shape, a.dtype)
            for there, a in zip(given, avals, strict=True)
            if a is not None
        ]
        found = iter(jaxpr_as_fun(ClosedJaxpr(jaxpr, residuals))(*full))
        gradients = [next(found) if there else None for there in reached]
        return gradients, list(found)

    stage.backward = jax.jit(backward, static_argnums=2)


def _inputs_of(jaxpr: Any, outputs: list[int]) -> list[bool]:
    """Which inputs some of the outputs depend on."""
    part = jaxpr.replace(outvars=[jaxpr.outvars[i] for i in outputs])
    return _live(part)[1]


def _without_stops(jaxpr: Any) -> Any:
    """The jaxpr without ``stop_gradient``, for a program that JAX does not differentiate: it is to find patterns."""
    source: dict[Any, Any] = {}
    of = lambda x: x if isinstance(x, Literal) else source.get(x, x)
    eqns = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "stop_gradient":
            source[eqn.outvars[0]] = of(eqn.invars[0])
        elif any(not isinstance(x, Literal) and x in source for x in eqn.invars):
            eqns.append(eqn.replace(invars=list(map(of, eqn.invars))))
        else:
            eqns.append(eqn)
    return jaxpr.replace(eqns=eqns, outvars=list(map(of, jaxpr.outvars)))


def _prune(closed: Any) -> tuple[Any, list[bool]]:
    """The jaxpr without operations that no output depends on, and which inputs are left in use."""
    kept, live = _live(closed.jaxpr)
    return closed.replace(jaxpr=closed.jaxpr.replace(eqns=kept)), live


def _live(jaxpr: Any) -> tuple[list[Any], list[bool]]:
    """The operations that the outputs depend on, and which inputs."""
    live = {id(v) for v in jaxpr.outvars if not isinstance(v, Literal)}
    kept = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or any(id(v) in live for v in eqn.outvars):
            kept.append(eqn)
            live.update(id(v) for v in eqn.invars if not isinstance(v, Literal))
    return kept[::-1], [id(v) in live for v in jaxpr.invars]
