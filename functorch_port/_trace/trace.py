"""Tracing: run a function once with tracers in place of all state, and note what it did."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import is_
from typing import Any

import jax
import numpy as np

from .._array import tracing
from .._array.joint import Part
from .._array.sizes import NeedsSize, SmallSize, size_key
from .._array.storage import Storage
from .._array.symbolic import SymNumber, plain_math, symbolic_math
from .._base import alive, collector, inside, meshes, modes
from .._base.sizes import evaluated
from .._tensor.node import FREED
from .._tensor.node import _sequence as node_sequence
from .._tensor.overriding import is_overriding
from .._tensor.tensor import Tensor, wrap
from .._tensor.tree import flatten, flatten_call, unflatten
from .._tensor.view import View, laid_out
from . import checking
from . import padding_rules as _rules  # noqa: F401
from .across import of_all
from .assemble import assemble
from .collect import collect, collect_guards
from .draft import Draft
from .effects import FirstCall
from .ends import Ends, shape_now
from .inputs import aval
from .overlay import Overlay, is_concrete, is_described, number_slots
from .padded import pad_stage, padded, small_sizes
from .places import Arguments
from .program import Program
from .reads import Reads
from .sizes import Sizes
from .slots import Slot
from .stateful import Stepping
from .variables import Variable

__all__ = ["forget_described", "trace"]


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
    sizes: Sizes | None = None,
    described: Any = None,
    xla: dict[str, Any] | None = None,
) -> tuple[Program, FirstCall, Overlay]:
    """Run ``fn`` once with tracers in place of all state, and turn what happened into a `Program`.

    It has to be run for the `FirstCall` next.

    With ``join`` the program counts an optimizer's steps once where parameters have the same count, and has the state
    of small parameters joined (see `_array.joint`). With ``checks`` it makes the checks of values that eager mode
    makes (see `checking`). With ``sizes`` it serves all calls in whose arguments those are within limits. With
    ``described``, a device, the program is for that one, and what is on the meta device stands for what would be there.
    ``xla`` has options for its compiler.
    The Python code of ``fn`` runs exactly once. If it raises, everything is put back as it was. ``begun`` gets what
    can put it back later. Only one thread at a time traces: a trace takes in all state, and puts numbers of its own in
    place of the optimizers'. So ``fn`` must not wait for a thread that needs `tracing.turn`.
    """
    begun = [] if begun is None else begun
    before = modes.now()
    # all that the trace makes is to be of the youngest generation; see `_kept_cells`
    with tracing.turn, collector.stopped():
        try:
            with jax.transfer_guard_host_to_device("allow"):  # constants of programs come from the host
                return _trace(
                    fn,
                    leaves,
                    tree,
                    rng,
                    watched,
                    keep_grads,
                    join,
                    lifted,
                    begun,
                    checks,
                    sizes,
                    described,
                    xla,
                )
        except BaseException:  # it may have come while a part of the trace was ending
            modes.put_back(before)
            plain_math()
            for overlay in begun:
                overlay.reads.stop()
            raise


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
    sizes: Sizes | None,
    described: Any,
    xla: dict[str, Any] | None,
) -> tuple[Program, FirstCall, Overlay]:
    cells, optimizers = prepare_state(join, described is not None)
    twins = _join_counts(optimizers) if join else {}
    call_leaves = _prepare(leaves)
    cells += [new._storage for new, old in zip(call_leaves, leaves, strict=True) if new is not old]
    # the collector does not list what was frozen (gc.freeze), and optimizers are known without it
    extra = _unlisted(twins, cells)
    while True:
        overlay = Overlay(rng, watched, (leaves, call_leaves), local=join, checks=checks, described=described)
        overlay.reads = Reads(overlay, [(id(s.container), s.key) for s in overlay.watched], lifted)
        begun.append(overlay)
        overlay.twins, overlay.xla = twins, xla
        try:
            program, first = _trace_once(
                fn, leaves, call_leaves, tree, cells + extra, optimizers, overlay, keep_grads, sizes
            )
        except BaseException:
            overlay.undo()
            raise
        if not overlay.missed:
            _once_different.update(_diverged(overlay))
            for optimizer in optimizers:
                optimizer._premade.clear()
            for pending in overlay.promises:
                pending.fill()
            return program, first, overlay
        overlay.undo()  # a Storage the collector does not list (gc.freeze): take it in and start again
        extra += overlay.missed


def _unlisted(twins: dict[Storage, Storage], cells: Iterable[Storage]) -> list[Storage]:
    """The first ones of twins that the collector has not listed."""
    listed = set(cells)
    return [first for first in dict.fromkeys(twins.values()) if first not in listed]


def prepare_state(join: bool, described: bool = False) -> tuple[list[Storage], list[Stepping]]:
    """The Storages and optimizers alive now, with lazy state made: keys of generators, first states of
    optimizers, gradients that are pending. With ``join`` the optimizers have small state joined. Those on the meta
    device are among them if they are to be ``described``.
    """
    optimizers = [o for o in alive.optimizers if "param_groups" in o.__dict__ and not _is_of_jax(o)]
    for optimizer in optimizers:
        optimizer._enter_trace(join and not described, described)
    known = [generator.key_storage for generator in alive.generators]
    known += [t._storage for o in optimizers for t in _tensors_of(o)]
    promised = [t._storage for pending in alive.pendings for t in pending.promise()]
    counts = (lambda value: is_concrete(value) or is_described(value)) if described else is_concrete
    concrete = [cell for cell in alive.alive(Storage) if counts(_value_of(cell))]
    listed = set(concrete)  # the collector does not list what was frozen (gc.freeze)
    hidden = [cell for cell in dict.fromkeys(known) if cell not in listed and counts(_value_of(cell))]
    return [*concrete, *promised, *hidden], optimizers


def _tensors_of(optimizer: Stepping) -> Iterator[Tensor]:
    """The parameters of an optimizer, and its state."""
    for group in optimizer.param_groups:
        yield from (p for p in group["params"] if not p._sparse)
    for state in optimizer.state.values():
        yield from (t for t in state.values() if isinstance(t, Tensor) and not t._sparse)


def forget_described() -> None:
    """Have optimizers make their state anew that was made for parameters on the meta device."""
    for optimizer in alive.optimizers:
        premade = optimizer.__dict__.get("_premade") or {}
        for param in [p for p in premade if p.is_meta]:
            del premade[param]


def _value_of(cell: Storage) -> Any:
    """What a Storage holds; None if nothing, or if it is lazy and another thread has used it up meanwhile."""
    held = getattr(cell, "held", None)  # nothing, if an interrupt came while it was made
    if held is None:
        return None
    if held.__class__ is Part:
        cell = held.joint.cell
    try:
        return cell.kept()
    except RuntimeError as error:
        if str(error) != FREED:
            raise
        return None


def _is_of_jax(optimizer: Any) -> bool:
    """Whether it was made inside a transform of JAX, whose tracers its parameters hold."""
    params = (p for group in optimizer.param_groups for p in group["params"])
    return any(isinstance(p._storage.aval(), jax.core.Tracer) for p in params)


#: Storages that a trace gave different values, although they had one before
_once_different: weakref.WeakSet[Storage] = weakref.WeakSet()


def _join_counts(optimizers: Sequence[Stepping]) -> dict[Storage, Storage]:
    """Storages that hold the same array, of parameters whose steps are counted alike -> the first of them.

    Equal values become one array first.
    """
    twins: dict[Storage, Storage] = {}
    for rows in (rows for optimizer in optimizers for rows in optimizer._count_cells()):
        _share_arrays([cell for row in rows for cell in row if is_concrete(cell.array())])
        groups: dict[Any, list[tuple[Storage, ...]]] = {}
        for row in rows:
            if _once_different.isdisjoint(row):
                groups.setdefault(tuple([id(cell.array()) for cell in row]), []).append(row)
        for first, *others in groups.values():
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
    arrays = {id(cell.array()): cell.array() for cell in cells}
    if len(arrays) < 2:
        return
    same: dict[Any, Any] = {}
    for array, value in zip(list(arrays.values()), jax.device_get(list(arrays.values())), strict=True):
        key = (array.dtype, array.shape, array.sharding, array.committed, value.tobytes())
        arrays[id(array)] = same.setdefault(key, array)
    for cell in cells:
        cell.put(arrays[id(cell.array())])


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
    sizes: Sizes | None,
) -> tuple[Program, FirstCall]:
    draft = Draft()
    symbols = None if sizes is None else sizes.symbols(leaves)
    known = {} if symbols is None else {size_key(name): n for name, n in symbols.now.items()}
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
    names = [*slots, *arg_numbers, *known]
    plain = {**{n: s[3] for n, s in slots.items()}, **arg_numbers, **known}
    start = next(node_sequence)
    arguments = Arguments(fn, call_leaves, (leaves, call_leaves))

    def symbol(name: Any) -> SymNumber:
        return SymNumber(plain[name], overlay.numbers[name][1], frozenset({name}), lambda env: env[name])

    def run(cell_values: list[Any], number_values: list[Any], array_values: list[Any]) -> list[Any]:
        overlay.tracers = dict(zip(cells, cell_values, strict=True))
        overlay.tracers.update({twin: overlay.tracers[first] for twin, first in overlay.twins.items()})
        overlay.symbols = symbols
        overlay.numbers = {n: (plain[n], v) for n, v in zip(names, number_values, strict=True)}
        if symbols is not None:
            symbols.tracers = {name: overlay.numbers[size_key(name)][1] for name in symbols.now}
        args_now = list(call_leaves)
        for name in arg_numbers:
            args_now[name[1]] = symbol(name)
        for i, value in zip(arrays, array_values, strict=True):
            args_now[i] = value
        overlay.top = inside.top_trace(None)
        with tracing.overlaid(overlay):
            args, kwargs = unflatten(tree, args_now)
            reads.lift([symbol(name) for name in lifted])
            try:
                reads.start(fn, leaves)
                overlay.fn = fn
                with symbolic_math():
                    result = fn(*args, **kwargs)
            finally:
                reads.stop()
                overlay.fn = None  # which may hold all there is
            draft.why_once = reads.finish(overlay.optimizers)
            left, structure = flatten_call(args, kwargs)
            draft.changes_containers = structure != tree or not all(map(is_, left, args_now))
            out_leaves, draft.tree = flatten(result)
            del args, kwargs, args_now, left, result
            return [*collect(draft, overlay, out_leaves, arguments, start), *checking.outputs(overlay)]

    # tracers are in the overlay on purpose
    with tracing.x64(), jax.check_tracer_leaks(False):
        number_avals = [
            jax.ShapeDtypeStruct((), np.result_type(type(plain[n])), weak_type=True) for n in names
        ]
        avals = [aval(c.aval()) for c in cells]
        if sizes is not None and symbols is not None:
            avals = sizes.avals(avals, cells, call_leaves, symbols)
        axes = [(meshes.PROCESS, jax.process_count())] if jax.process_count() > 1 else None
        closed = jax.make_jaxpr(run, axis_env=axes)(avals, number_avals, [aval(leaves[i]) for i in arrays])
        traced, ends = closed, None
        if symbols is not None:
            if any(size_key(name) in overlay.fixed for name in symbols.now):
                raise NeedsSize("a size is asked for as a plain number")
            if symbols.guarded:  # else the program keeps the symbols
                small = small_sizes(closed, symbols)
                if any(evaluated(n, symbols.now) < 2 for n in small):
                    raise SmallSize("a size in the function is 0 or 1")
                if small:
                    overlay.guard_predicate(lambda env: all(n > 1 for n in shape_now(small, env)), True)
                at = {name: len(cells) + names.index(size_key(name)) for name in symbols.now}
                closed, layouts = padded(
                    closed, symbols, at, {i for stage in draft.stages for i in stage.residuals}
                )
                for stage in draft.stages:
                    pad_stage(stage, closed.out_avals, layouts, symbols)
                ends = Ends(layouts)
            symbols.tracers = {}
    collect_guards(draft, overlay, optimizers, slots, arguments)
    before = symbols is None or symbols.guarded
    closed = checking.sort_out(draft, overlay, closed, cells, arrays, arguments, traced, before)
    numbers = [(n, n[1], plain[n]) for n in arg_numbers]
    rows = None
    if overlay.across is not None:
        with tracing.x64():
            closed, rows = of_all(draft, overlay, closed, cells, names, arrays, arguments)
    program = assemble(
        draft, overlay, closed, cells, names, arrays, numbers, arguments, keep_grads, sizes, ends, rows
    )
    arguments.clear()  # JAX may keep `run`, and with it what it refers to
    return program, FirstCall(draft.fill, draft.kept, draft.why_once, draft.changes_containers)
