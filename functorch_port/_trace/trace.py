"""Tracing: run a function once with tracers in place of all state, and note what it did."""

from __future__ import annotations

import gc
import types
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from operator import is_
from typing import Any

import jax
import numpy as np

from .._array import storage
from .._array.storage import Storage
from .._array.symbolic import SymNumber, plain_math, symbolic_math
from .._base import alive, inside, modes
from .._tensor.node import FREED
from .._tensor.node import _sequence as node_sequence
from .._tensor.overriding import is_overriding
from .._tensor.tensor import Tensor, wrap
from .._tensor.tree import flatten, flatten_call, unflatten
from .._tensor.view import View, laid_out
from . import checking
from .assemble import assemble
from .guards import Guards
from .handles import Made, Output
from .overlay import Overlay, is_concrete, is_number, number_slots
from .places import Given, Places
from .program import Program, aval
from .reads import Reads
from .slots import Slot, find
from .stages import Root, collect_backward, hooks_of, takes
from .stateful import Pack, Stepping, tables_of
from .variables import Variable

__all__ = ["trace"]


def trace(
    fn: Callable[..., Any],
    leaves: list[Any],
    tree: Any,
    rng: str = "jax",
    watched: Sequence[Slot] = (),
    keep_grads: bool = True,
    join: bool = True,
    lifted: Sequence[Variable] = (),
    begun: list[Overlay] | None = None,
    checks: bool = False,
) -> tuple[Program, Overlay]:
    """Run ``fn`` once with tracers in place of all state, and turn what happened into a `Program`.

    With ``join`` the program counts an optimizer's steps once where parameters have the same count, and has the state
    of small parameters together (see `optim.packed`). With ``checks`` it makes the checks of values that eager mode
    makes (see `checking`).
    The Python code of ``fn`` runs exactly once. If it raises, everything is put back as it was. ``begun`` gets what
    can put it back later. Only one thread at a time traces: a trace takes in all state, and puts numbers of its own in
    place of the optimizers'.
    """
    begun = [] if begun is None else begun
    before = modes.now()
    with storage.turn:
        collects = gc.isenabled()
        gc.disable()  # so that all that the trace makes is of the youngest generation; see `_kept_cells`
        try:
            with jax.transfer_guard_host_to_device("allow"):  # constants of programs come from the host
                return _trace(fn, leaves, tree, rng, watched, keep_grads, join, lifted, begun, checks)
        except BaseException:  # it may have come while a part of the trace was ending
            modes.put_back(before)
            plain_math()
            for overlay in begun:
                overlay.reads.stop()
            raise
        finally:
            if collects:
                gc.enable()


def _trace(
    fn: Callable[..., Any],
    leaves: list[Any],
    tree: Any,
    rng: str,
    watched: Sequence[Slot],
    keep_grads: bool,
    join: bool,
    lifted: Sequence[Variable],
    begun: list[Overlay],
    checks: bool,
) -> tuple[Program, Overlay]:
    cells, optimizers, tightened = prepare_state(join)
    twins = _join_counts(optimizers) if join else {}
    call_leaves = _prepare(leaves)
    cells += [new._storage for new, old in zip(call_leaves, leaves, strict=True) if new is not old]
    # the collector does not list what was frozen (gc.freeze), and optimizers are known without it
    extra = _unlisted(twins, cells)
    while True:
        overlay = Overlay(rng, watched, (leaves, call_leaves), kernels=join, checks=checks)
        overlay.reads = Reads(overlay, [(id(s.container), s.key) for s in overlay.watched], lifted)
        begun.append(overlay)
        overlay.twins = twins
        overlay.packs = {cell: pack for o in optimizers for pack in o._packs for cell in pack.cells}
        try:
            program = _trace_once(
                fn, leaves, call_leaves, tree, cells + extra, optimizers, overlay, keep_grads
            )
        except BaseException:
            overlay.undo()
            for optimizer in optimizers:
                optimizer._loosen()
            raise
        if not overlay.missed:
            _apart.update(_diverged(overlay))
            for optimizer in optimizers:
                optimizer._premade.clear()
            _keep_packs(program, overlay, optimizers, tightened)
            for pending in overlay.promises:
                pending.fill()
            return program, overlay
        overlay.undo()  # a Storage the collector does not list (gc.freeze): take it in and start again
        extra += overlay.missed


def _keep_packs(
    program: Program, overlay: Overlay, optimizers: Sequence[Stepping], tightened: Sequence[Pack]
) -> None:
    """Let the program have the packs that it looks at; what was put together for nothing goes apart again."""
    packs = [pack for optimizer in optimizers for pack in optimizer._packs]
    program.packs += [pack for pack in packs if not overlay.env.keys().isdisjoint(pack.cells)]
    for pack in set(tightened).difference(program.packs):
        pack.loosen()  # nobody can have made a view of what the function did not look at


def _unlisted(twins: dict[Storage, Storage], cells: Iterable[Storage]) -> list[Storage]:
    """The first ones of twins that the collector has not listed."""
    listed = set(cells)
    return [first for first in dict.fromkeys(twins.values()) if first not in listed]


def prepare_state(together: bool) -> tuple[list[Storage], list[Stepping], list[Pack]]:
    """The Storages and optimizers alive now, with lazy state made: keys of generators, first states of
    optimizers, gradients that are pending. With ``together`` the optimizers put state together; which was not together
    before comes last.
    """
    optimizers = [o for o in alive.optimizers if "param_groups" in o.__dict__ and not _is_of_jax(o)]
    tightened = [pack for optimizer in optimizers for pack in optimizer._enter_trace(together)]
    for generator in alive.generators:
        _ = generator.key_storage
    promised = [t._storage for pending in alive.pendings for t in pending.promise()]
    concrete = [cell for cell in alive.alive(Storage) if is_concrete(_value_of(cell))]
    return [*concrete, *promised], optimizers, tightened


def _value_of(cell: Storage) -> Any:
    """What a Storage holds; None if nothing, or if it was put off and another thread has used it up meanwhile."""
    try:
        return getattr(cell, "_value", None)
    except RuntimeError as error:
        if str(error) != FREED:
            raise
        return None


def _is_of_jax(optimizer: Any) -> bool:
    """Whether it was made inside a transform of JAX, whose tracers its parameters hold."""
    params = (p for group in optimizer.param_groups for p in group["params"])
    return any(isinstance(p._storage.aval(), jax.core.Tracer) for p in params)


#: Storages that a trace gave different values, although they had one before
_apart: weakref.WeakSet[Storage] = weakref.WeakSet()


def _join_counts(optimizers: Sequence[Stepping]) -> dict[Storage, Storage]:
    """Storages that hold the same array, of parameters whose steps are counted alike -> the first of them.

    Equal values become one array first.
    """
    twins: dict[Storage, Storage] = {}
    for rows in (rows for optimizer in optimizers for rows in optimizer._count_cells()):
        _share_arrays([cell for row in rows for cell in row if is_concrete(cell._value)])
        alike: dict[Any, list[tuple[Storage, ...]]] = {}
        for row in rows:
            if _apart.isdisjoint(row):
                alike.setdefault(tuple([id(cell._value) for cell in row]), []).append(row)
        for first, *others in alike.values():
            if others:
                twins.update((cell, first[i]) for row in (first, *others) for i, cell in enumerate(row))
    return twins


def _diverged(overlay: Overlay) -> list[Storage]:
    """Twins that do not have one value any more."""
    after: dict[Storage, set[int]] = {}
    for cell, first in overlay.twins.items():
        if cell in overlay.env:
            after.setdefault(first, set()).add(id(overlay.env[cell]))
    return [cell for cell, first in overlay.twins.items() if len(after.get(first, ())) > 1]


def _share_arrays(cells: Sequence[Storage]) -> None:
    """One array for the Storages whose arrays are equal."""
    arrays = {id(cell._value): cell._value for cell in cells}
    if len(arrays) < 2:
        return
    same: dict[Any, Any] = {}
    for array, value in zip(list(arrays.values()), jax.device_get(list(arrays.values())), strict=True):
        key = (array.dtype, array.shape, array.sharding, array.committed, value.tobytes())
        arrays[id(array)] = same.setdefault(key, array)
    for cell in cells:
        cell._value = arrays[id(cell._value)]


def _prepare(leaves: list[Any]) -> list[Any]:
    """Arguments as the traced function sees them: a view becomes a tensor of its own with the same strides, as its
    position must not be burned in.
    """
    out = []
    for leaf in leaves:
        if isinstance(leaf, Tensor) and leaf._view is not None:
            proxy = wrap(leaf._value)
            if type(leaf) is not Tensor and is_overriding(type(leaf)):
                proxy = proxy._as(type(leaf))
            if not leaf.is_contiguous():
                value, strides = leaf._value, leaf._strides()
                proxy._view = View(None, laid_out(strides), (), value, value)
            proxy._requires_grad, proxy._grad_fn, proxy._output_nr = (
                leaf.requires_grad,
                leaf.grad_fn,
                leaf._output_nr,
            )
            leaf = proxy
        out.append(leaf)
    return out


def _trace_once(
    fn: Callable[..., Any],
    leaves: list[Any],
    call_leaves: list[Any],
    tree: Any,
    cells: list[Storage],
    optimizers: list[Any],
    overlay: Overlay,
    keep_grads: bool,
) -> Program:
    program = Program()
    slots = {
        (id(t), k, i): (t, k, i, t[k] if i is None else t[k][i])
        for o in optimizers
        for t, k, i in number_slots(o)
    }
    reads = overlay.reads
    lifted = {("variable", *one.id): one for one in reads.lifted}
    slots |= {name: (one, one.variable.key, None, one.variable.get()) for name, one in lifted.items()}
    arg_numbers = {("arg", i): leaf for i, leaf in enumerate(leaves) if type(leaf) is float}
    arrays = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
    names = [*slots, *arg_numbers]
    plain = {**{n: s[3] for n, s in slots.items()}, **arg_numbers}
    start = next(node_sequence)
    given = Given(fn, call_leaves, (leaves, call_leaves))

    def symbol(name: Any) -> SymNumber:
        return SymNumber(plain[name], overlay.numbers[name][1], frozenset({name}), lambda env: env[name])

    def run(cell_values: list[Any], number_values: list[Any], array_values: list[Any]) -> list[Any]:
        overlay.tracers = dict(zip(cells, cell_values, strict=True))
        overlay.tracers.update({twin: overlay.tracers[first] for twin, first in overlay.twins.items()})
        overlay.numbers = {n: (plain[n], v) for n, v in zip(names, number_values, strict=True)}
        arguments = list(call_leaves)
        for name in arg_numbers:
            arguments[name[1]] = symbol(name)
        for i, value in zip(arrays, array_values, strict=True):
            arguments[i] = value
        overlay.top = inside.top_trace(None)
        with storage.overlaid(overlay):
            args, kwargs = unflatten(tree, arguments)
            reads.lift([symbol(name) for name in lifted])
            try:
                reads.start(fn, leaves)
                with symbolic_math():
                    result = fn(*args, **kwargs)
            finally:
                reads.stop()
            why = reads.finish(overlay.optimizers)
            if why:
                program.reusable, program.why_once = False, why
            left, structure = flatten_call(args, kwargs)
            program.changes_containers = structure != tree or not all(map(is_, left, arguments))
            out_leaves, program.out_tree = flatten(result)
            del args, kwargs, arguments, left, result
            return [*_collect(program, overlay, out_leaves, given, start), *checking.outputs(overlay)]

    # tracers are in the overlay on purpose
    with storage.x64(), jax.check_tracer_leaks(False):
        number_avals = [
            jax.ShapeDtypeStruct((), np.result_type(type(plain[n])), weak_type=True) for n in names
        ]
        closed = jax.make_jaxpr(run)(
            [aval(c._value) for c in cells], number_avals, [aval(leaves[i]) for i in arrays]
        )
    _settle(program, overlay, slots, given)
    closed = checking.sort_out(program, overlay, closed, cells, arrays, given)
    assemble(program, overlay, closed, cells, names, arrays, given, keep_grads)
    given.clear()  # JAX may keep `run`, and with it what it refers to
    program.arg_numbers = [(n, n[1], plain[n]) for n in arg_numbers]
    program.fixed = overlay.fixed
    program.predicates = overlay.predicates
    program.epoch = storage.epoch
    return program


class _Outs:
    """The arrays the program must compute, and which Storages they are the values of."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self.of_cell: dict[Storage, int] = {}
        self.tensors: dict[int, Tensor] = {}

    def add(self, value: Any) -> int:
        self.arrays.append(value)
        return len(self.arrays) - 1

    def add_tensor(self, tensor: Tensor) -> int:
        index = self.add(tensor._value)
        self.tensors[index] = tensor
        if tensor._view is None:
            self.of_cell[tensor._storage] = index
        return index

    def add_cell(self, cell: Storage) -> int:
        if cell not in self.of_cell:
            self.of_cell[cell] = self.add(cell._value)
        return self.of_cell[cell]


def _collect(
    program: Program, overlay: Overlay, out_leaves: list[Any], given: Given, start: int
) -> list[Any]:
    """After the function returned: everything the program must compute."""
    outs = _Outs()
    places = Places(overlay, given.leaves)
    given.add(places)
    given.add_gradients(overlay, out_leaves)
    program.old_grads = given.old_grads
    made = program.made = Made(overlay, given, outs, partial(_is_live, start=start))
    places.keep(given, made)
    if places.slots or places.arg_data:
        program.places = places
    _collect_result(program, overlay, out_leaves, given, outs, start)
    _collect_gradients(program, overlay, given, outs)
    _cut_histories([*out_leaves, *overlay.grads.values(), *made.traced], start, overlay.inside)
    _restore_histories(program, overlay, given, start)
    overlay.edges.clear()
    why = places.changes()
    if why:
        program.reusable, program.why_once = False, why
    kept = _kept_cells(overlay, out_leaves, places, made, given, outs)
    _collect_cells(program, overlay, kept, given, outs)
    if kept:
        _give_what_is_kept(program, kept, outs)
    outs.tensors.clear()
    places.finish()
    made.finish()
    overlay.restore_data()
    return outs.arrays


def _collect_result(
    program: Program, overlay: Overlay, out_leaves: list[Any], given: Given, outs: _Outs, start: int
) -> None:
    made = program.made
    roots: list[Root] = []
    shared = _shared(out_leaves, overlay, made)
    for leaf in out_leaves:
        if isinstance(leaf, Tensor):
            program.outputs.append(
                _tensor_output(leaf, overlay, given, made, outs, shared, _is_live(leaf, start))
            )
            if program.outputs[-1].requires_grad:
                roots.append(Root(program.outputs[-1], leaf))
        elif isinstance(leaf, SymNumber):
            program.outputs.append(Output("number", value=leaf.rule))
        elif isinstance(leaf, jax.Array):
            program.outputs.append(Output("array", outs.add(leaf)))
        else:
            program.outputs.append(Output("same", value=leaf))
    taken_in = []
    for tensor in overlay.histories:  # tensors outside that a recorded in-place operation changed
        if tensor._base not in overlay.histories and _is_live(tensor, start):
            target = given.ids.get(id(tensor), tensor)
            program.changed.append(Output("history", outs.add_tensor(tensor), target, requires_grad=True))
            taken_in.append(Root(program.changed[-1], tensor))
        elif tensor._base is None and overlay.histories[tensor][0] and not tensor._requires_grad:
            program.detached.append(given.ids.get(id(tensor), tensor))
    program.histories = [out for out, _ in made.histories]
    roots += [Root(out, tensor) for out, tensor in made.histories]
    if roots or taken_in:
        collect_backward(program, overlay, roots, taken_in, given, outs.add, start)


def _shared(out_leaves: list[Any], overlay: Overlay, made: Made) -> set[Storage]:
    """The Storages of several results, or of results and gradients."""
    counts = Counter(t._storage for t in out_leaves if isinstance(t, Tensor))
    grads = {g._storage for g in overlay.grads.values() if g is not None}
    return {cell for cell, count in counts.items() if count > 1 or cell in grads} | made.at.keys()


def _tensor_output(
    leaf: Tensor, overlay: Overlay, given: Given, made: Made, outs: _Outs, shared: set[Storage], live: bool
) -> Output:
    """How a tensor of the result is made: most hold a Storage of their own; see `handles` for the others."""
    if leaf.is_sparse or not overlay.rebinds:
        return _value_output(leaf, overlay, given, outs, live)
    if live and made.made.get(id(leaf), made.left) < made.left:  # what is kept in places has no history
        return Output("tensor", outs.add_tensor(leaf), made.number(leaf.detach()), requires_grad=True)
    special = leaf._view is not None or leaf._own_count is not None or leaf._kept_grad is not None
    special |= (
        type(leaf) is not Tensor
        or bool(leaf._storage.apart)
        or (leaf._requires_grad and leaf._grad_fn is None)
        or leaf._retains_grad
    )
    if leaf._storage in overlay.inside and leaf._storage not in shared and not special:
        out = Output("tensor", outs.add_tensor(leaf), requires_grad=live)
        out.version = leaf._storage.version
        return out
    kind, what = made.content(leaf, history=True)
    return Output({"made": "place", "given": "arg", "as it is": "same"}[kind], value=what)


def _value_output(leaf: Tensor, overlay: Overlay, given: Given, outs: _Outs, live: bool) -> Output:
    """A tensor of the result where only values come out."""
    if id(leaf) in given.ids:
        return Output("arg", value=given.ids[id(leaf)])
    if live or not overlay.is_outside(leaf):
        return Output("tensor", outs.add_tensor(leaf), requires_grad=live)
    return Output("same", value=leaf)


def _is_live(tensor: Tensor, start: int) -> bool:
    """Whether the tensor has a history from within the trace that can still be walked."""
    node = tensor.grad_fn
    return (
        tensor._requires_grad and node is not None and node.seq >= start and not getattr(node, "freed", False)
    )


def _collect_gradients(program: Program, overlay: Overlay, given: Given, outs: _Outs) -> None:
    made = program.made
    for tensor, grad in list(overlay.grads.items()):
        target = given.ids.get(id(tensor), tensor)
        if grad is None:
            program.grad_writes.append((target, "none", None))
        elif grad.is_sparse:
            program.grad_writes.append((target, "sparse", _sparse_parts(overlay, tensor, outs)))
        elif made.holds(grad) or (
            overlay.rebinds and not overlay.is_outside(grad) and _is_special(grad, overlay)
        ):
            program.grad_writes.append((target, "place", made.number(grad)))
        elif not overlay.is_outside(grad):
            program.grad_writes.append((target, "new", outs.add_tensor(grad)))
        elif given.own.get(id(grad), 0) >= given.count:
            program.grad_writes.append((target, "given", given.own[id(grad)]))
        elif grad is not overlay.grad_reads.get(tensor):
            kind, what = ("given", given.own[id(grad)]) if id(grad) in given.own else ("keep", grad)
            program.grad_writes.append((target, kind, what))


def _is_special(grad: Tensor, overlay: Overlay) -> bool:
    """Whether a gradient made in the trace looks at a Storage that is not."""
    return grad._storage not in overlay.inside


def _sparse_parts(overlay: Overlay, tensor: Tensor, outs: _Outs) -> tuple[Any, ...]:
    """Where the outputs have the indices and values of a sparse gradient, and what else it is made from.

    The trace's own one is let go of.
    """
    grad: Any = overlay.grads[tensor]
    overlay.grads[tensor] = None
    return outs.add(grad._ids._value), outs.add(grad._vals._value), grad._size, grad._coalesced, grad._loose


def _cut_histories(tensors: Iterable[Any], start: int, inside: Collection[Storage] = ()) -> None:
    """Results leave the trace without a history, so that the graph and the tracers it holds can go.

    So do those of which a result is a view, if their Storages were made ``inside``.
    """
    for tensor in tensors:
        while isinstance(tensor, Tensor):
            if tensor._grad_fn is not None and tensor._grad_fn.seq >= start:
                tensor._grad_fn, tensor._requires_grad = None, False
            tensor = tensor._base if tensor._storage in inside else None


def _restore_histories(program: Program, overlay: Overlay, given: Given, start: int) -> None:
    """Tensors outside have the history from before, which the call's own then continues."""
    continued = {id(given.leaves[o.value] if type(o.value) is int else o.value) for o in program.changed}
    for tensor, history in overlay.histories.items():
        if id(tensor) in continued:
            tensor._requires_grad, tensor._grad_fn, tensor._output_nr = history[:3]
        else:
            _cut_histories([tensor], start)


def _kept_cells(
    overlay: Overlay,
    out_leaves: list[Any],
    places: Places,
    made: Made,
    given: Given,
    outs: _Outs,
) -> set[Storage]:
    """Storages made in the trace whose tensors something outside still holds, other than the result, ``.grad`` and
    places that are state; and those from outside which the function put a tensor over in some other place.
    """
    grads = [g for g in overlay.grads.values() if g is not None]
    accounted = [t for t in (*out_leaves, *grads, *made.traced) if isinstance(t, Tensor)]
    held = {t._storage for t in accounted}
    old, slots = set(map(id, (*places.old, *given.passed))), set(places.slots)
    kept: set[Storage] = set()
    for generation in (
        0,
        2,
    ):  # garbage looks kept: what the trace made is young, unless somebody has collected
        gc.collect(generation)
        kept = {cell for cell in overlay.inside if cell not in held}
        aliases = [t for t in (ref() for ref in overlay.made.values()) if t is not None and not t.is_sparse]
        ours = (
            *(out_leaves, grads, accounted, aliases),
            *(places.tensors, places.old, made.traced, places.form.tensors, given.leaves, *given.ours),
            *made.histories,
            *(slot.old for slot in places.slots),
            *(outs.tensors, *overlay.notes()),
        )
        views = [t for t in (*accounted, *aliases) if t._base is not None]
        # views refer to their base, and tensors to their gradient
        arguments = given.held_by_others((*ours, *views, *overlay.grads))
        looked_at = overlay.inside | places.free | {t._storage for t in (*aliases, *arguments)}
        left = set(map(id, given.leaves[: given.count])).difference(map(id, (*places.tensors, *arguments)))
        candidates = [
            t
            for t in {id(t): t for t in (*accounted, *aliases, *places.tensors, *arguments)}.values()
            if t._storage in looked_at
            and id(t) not in left
            and (id(t) in given.ids or not overlay.is_outside(t))
        ]
        for slot in find(candidates, (*ours, views, candidates, arguments, given.passed)):
            if slot not in slots:
                before = old if slot in overlay.holders or _is_inner(slot, given) else ()
                there = [t for t in slot.tensors() if id(t) not in before]
                kept |= {t._storage for t in there if t._storage in looked_at}
        if not kept:
            break
    return kept


def _is_inner(slot: Slot, given: Given) -> bool:
    """Whether a place is a variable of a function that the traced one made, which no later call is to set."""
    return type(slot.container) is types.CellType and id(slot.container) not in given.closures


def _give_what_is_kept(program: Program, kept: set[Storage], outs: _Outs) -> None:
    """The only call of a program that left tensors outside: results and gradients share their memory with those."""
    shared = {i: t for i, t in outs.tensors.items() if t._storage in kept}
    for out in program.outputs:
        if out.kind == "tensor" and out.index in shared:
            tensor = shared[out.index]
            if not out.requires_grad:
                out.kind, out.value = "same", tensor
            elif tensor._view is None:
                out.value = tensor
    program.grad_writes = [
        (target, "keep", shared[what]) if kind == "new" and what in shared else (target, kind, what)
        for target, kind, what in program.grad_writes
    ]


def _collect_cells(program: Program, overlay: Overlay, kept: set[Storage], given: Given, outs: _Outs) -> None:
    """The values of Storages that were written, and of those made inside that live on."""
    for cell in list(overlay.inside):
        program.fill.append((cell, outs.add_cell(cell)))
    if kept:
        program.kept = sorted(kept, key=lambda cell: cell not in overlay.inside)
        program.reusable = False
        cell = program.kept[0]
        made = "made inside" if cell in overlay.inside else "from outside"
        program.why_once = (
            f"a tensor of shape {tuple(cell._value.shape)} {made} was kept in a Python object outside"
        )
    joined: dict[int, int] = {}  # id of a value that twins share -> output
    for cell in overlay.written:
        value = overlay.env[cell]
        if value is not overlay.tracers.get(cell):
            if cell in overlay.twins:
                index = (
                    joined[id(value)]
                    if id(value) in joined
                    else joined.setdefault(id(value), outs.add(value))
                )
            else:
                index = outs.add(value)
            version, apart = overlay.written[cell]
            program.cell_writes.append((cell, index, cell.version - version))
            if cell.apart != apart:
                program.apart_writes.append((given.cells.get(cell, cell), cell.apart - apart))


def _settle(program: Program, overlay: Overlay, slots: dict[Any, Any], given: Given) -> None:
    """Plain numbers back in place, and the guards."""
    arg_ids = given.own
    places = set() if program.places is None else set(program.places.slots)
    program.number_guards = {}
    program.optimizer_guards = []
    flags: list[tuple[Any, Any, Any]] = []
    slots_of_state: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for optimizer, snapshot in overlay.optimizers.items():
        program.number_writes += snapshot.settle()
        before = {id(d): items for _, d, items in snapshot.state}
        for name in snapshot.symbols:
            program.number_guards[name] = slots[name]
        for group in optimizer.param_groups:
            tensors = [(k, v) for k, v in group.items() if isinstance(v, Tensor)]
            for key, value in tensors:
                for column, item in zip(slots_of_state, (group, key, value), strict=True):
                    column.append(item)
            flags += [(group, k, v) for k, v in group.items() if k != "params" and not _dynamic(v)]
        for p, table in optimizer.state.items():
            if not isinstance(table, dict):
                continue
            known = before.get(id(table))
            for key, value in table.items():
                if isinstance(value, Tensor) and not (places and Slot(table, key) in places):
                    for column, item in zip(slots_of_state, (table, key, value), strict=True):
                        column.append(item)
                if (known is None or key not in known) and is_number(value):
                    program.reusable, program.why_once = (
                        False,
                        f"optimizer state {key!r} was made by this call",
                    )
            del p
        groups = [[id(p) for p in g["params"]] for g in optimizer.param_groups]
        tables = (list(optimizer.param_groups), list(optimizer.state.items()))
        program.optimizer_guards.append((optimizer, groups, tables))
    for one in overlay.reads.lifted:
        name = ("variable", *one.id)
        program.number_guards[name] = slots[name]
    apart = [(id(slot.container), slot.key) for slot in places]
    changed = {(id(t), k) for t, k, _ in program.number_writes}
    flags = [g for g in flags if (id(g[0]), g[1]) not in changed]
    program.guards = Guards(
        overlay.reads, apart, overlay.optimizers, overlay.is_outside, flags, slots_of_state
    )
    program.grad_guards = [(t, g is None) for t, g in overlay.grad_reads.items() if id(t) not in arg_ids]
    program.tensor_guards = [
        (t, flag, t._storage)
        for t, flag in overlay.tensors.items()
        if id(t) not in arg_ids and t._storage not in overlay.inside and t not in overlay.data
    ]
    program.tensor_guards = [g for g in program.tensor_guards if g[2] not in given.cells]
    program.tensor_guards += [
        (t, flag, None) for t, flag in overlay.tensors.items() if t in overlay.data and id(t) not in arg_ids
    ]
    program.tensor_guards += [
        (t, None, t._storage)
        for t in overlay.sources
        if not (t in overlay.tensors or id(t) in arg_ids or t in overlay.data or t._storage in given.cells)
    ]
    _settle_hooks(program, overlay, given)
    program.flag_writes = [
        (arg_ids.get(id(t), t), t._requires_grad)
        for t, old in overlay.flags.items()
        if t._requires_grad is not old
    ]
    program.shared_guards = [*overlay.shared.values()]
    program.table_guards = [
        (instance, overlay.modes.get(instance, getattr(instance, "training", None)), tables_of(instance))
        for instance in overlay.stateful
    ]
    program.mode_writes = [(m, m.training) for m, mode in overlay.modes.items() if m.training is not mode]


def _settle_hooks(program: Program, overlay: Overlay, given: Given) -> None:
    """The hooks that the function left on arguments and tensors outside, and those that its backward passes ran."""
    passed = set(map(id, given.passed))

    def is_ours(item: Any) -> bool:
        return isinstance(item, Tensor) and (id(item) in passed or item._storage in overlay.inside)

    for tensor, how, hook, handle in overlay.tensor_hooks:
        table = handle and handle.hooks_dict_ref()
        if handle is not None and (table is None or handle.id not in table):
            continue
        program.hook_writes.append((given.own.get(id(tensor), tensor), how, hook))
        if takes(hook, is_ours):
            program.reusable, program.why_once = False, "a hook was registered that uses tensors of the call"
    left = {id(hook) for _, _, hook in program.hook_writes}
    for tensor in overlay.grads:
        if overlay.is_outside(tensor):
            hooks = tuple([hook for hook in hooks_of(tensor) if id(hook) not in left])
            if id(tensor) in given.own:
                program.given_hooks.append((given.own[id(tensor)], hooks))
            else:
                program.grad_hooks.append((tensor, hooks))


def _dynamic(value: Any) -> bool:
    return (
        is_number(value)
        or isinstance(value, Tensor)
        or (type(value) is tuple and any(is_number(v) for v in value))
    )
