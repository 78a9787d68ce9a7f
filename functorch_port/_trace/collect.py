"""What a traced function did, from the notes of its trace: all that its program must compute, write and compare."""

from __future__ import annotations

import gc
import types
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

import jax

from .._array.sizes import NeedsSize, SymSize
from .._array.storage import Storage
from .._array.symbolic import SymNumber
from .._base.sizes import is_symbolic_dim
from .._tensor.tensor import Tensor
from .._tensor.view import View
from .draft import Draft
from .handles import Made
from .overlay import Overlay, is_number
from .places import Arguments, Places
from .results import Argument, Array, Changed, Computed, Constant, Left, Number, Output
from .slots import Slot, find
from .stages import Root, collect_backward, hooks_of, takes
from .stateful import Stepping, tables_of
from .value_guards import ValueGuards

__all__ = ["collect", "collect_guards"]


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
            self.of_cell[cell] = self.add(cell.array())
        return self.of_cell[cell]


def collect(
    draft: Draft, overlay: Overlay, out_leaves: list[Any], arguments: Arguments, start: int
) -> list[Any]:
    """After the function returned: everything the program must compute."""
    outs = _Outs()
    places = Places(overlay, arguments.leaves)
    arguments.add(places)
    arguments.add_gradients(overlay, out_leaves)
    draft.old_grads = arguments.old_grads
    made = draft.made = Made(overlay, arguments, outs, partial(_is_live, start=start))
    places.keep(arguments, made)
    if places.slots or places.arg_data:
        draft.places = places
    _collect_result(draft, overlay, out_leaves, arguments, outs, start)
    _collect_gradients(draft, overlay, arguments, outs)
    _cut_histories([*out_leaves, *overlay.grads.values(), *made.traced], start, overlay.inside)
    _restore_histories(draft, overlay, arguments, start)
    overlay.edges.clear()
    draft.why_once = places.changes() or draft.why_once
    kept = _kept_cells(overlay, out_leaves, places, made, arguments, outs)
    _collect_cells(draft, overlay, kept, arguments, outs)
    if kept:
        _give_what_is_kept(draft, kept, outs)
    outs.tensors.clear()
    places.finish()
    made.finish()
    overlay.restore_data()
    return outs.arrays


def _collect_result(
    draft: Draft, overlay: Overlay, out_leaves: list[Any], arguments: Arguments, outs: _Outs, start: int
) -> None:
    made = draft.made
    roots: list[Root] = []
    shared = _shared(out_leaves, overlay, made)
    for leaf in out_leaves:
        out: Output
        if isinstance(leaf, Tensor):
            out = _tensor_output(leaf, overlay, arguments, made, outs, shared, _is_live(leaf, start))
            if out.requires_grad:
                roots.append(Root(out, leaf))
        elif isinstance(leaf, SymNumber):
            out = Number(leaf.rule)
        elif isinstance(leaf, jax.Array):
            out = Array(outs.add(leaf))
        else:
            if isinstance(leaf, tuple) and any(type(n) is SymSize for n in leaf):
                raise NeedsSize("the function returns a shape")
            out = Constant(leaf)
        draft.outputs.append(out)
    taken_in = []
    for tensor in overlay.histories:  # tensors outside that a recorded in-place operation changed
        if tensor._base not in overlay.histories and _is_live(tensor, start):
            target = arguments.ids.get(id(tensor), tensor)
            draft.changed.append(Changed(outs.add_tensor(tensor), target))
            taken_in.append(Root(draft.changed[-1], tensor))
        elif tensor._base is None and overlay.histories[tensor][0] and not tensor._requires_grad:
            draft.detached.append(arguments.ids.get(id(tensor), tensor))
    draft.histories = [out for out, _ in made.histories]
    roots += [Root(out, tensor) for out, tensor in made.histories]
    if roots or taken_in:
        collect_backward(draft, overlay, roots, taken_in, arguments, outs.add, start)


def _shared(out_leaves: list[Any], overlay: Overlay, made: Made) -> set[Storage]:
    """The Storages of several results, or of results and gradients."""
    counts = Counter(t._storage for t in out_leaves if isinstance(t, Tensor))
    grads = {g._storage for g in overlay.grads.values() if g is not None}
    return {cell for cell, count in counts.items() if count > 1 or cell in grads} | made.at.keys()


def _tensor_output(
    leaf: Tensor,
    overlay: Overlay,
    arguments: Arguments,
    made: Made,
    outs: _Outs,
    shared: set[Storage],
    live: bool,
) -> Output:
    """How a tensor of the result is made: most hold a Storage of their own; see `handles` for the others."""
    if leaf._sparse or not overlay.rebinds:
        return _value_output(leaf, overlay, arguments, outs, live)
    if live and made.made.get(id(leaf), made.left) < made.left:  # what is kept in places has no history
        return Computed(outs.add_tensor(leaf), True, made.number(leaf._alias()))
    known = not any(map(is_symbolic_dim, leaf._value.shape))  # else a view cannot be made again
    special = (leaf._view is not None and known) or leaf._own_count is not None or leaf._kept_grad is not None
    special |= (
        type(leaf) is not Tensor
        or bool(leaf._storage.apart)
        or (leaf._requires_grad and leaf._grad_fn is None)
        or leaf._retains_grad
    )
    if leaf._storage in overlay.inside and leaf._storage not in shared and not special:
        out = Computed(outs.add_tensor(leaf), live)
        out.version = leaf._storage.version
        return out
    kind, what = made.content(leaf, history=True)
    return {"made": Left, "argument": Argument, "as it is": Constant}[kind](what)


def _value_output(leaf: Tensor, overlay: Overlay, arguments: Arguments, outs: _Outs, live: bool) -> Output:
    """A tensor of the result where only values come out."""
    if id(leaf) in arguments.ids:
        return Argument(arguments.ids[id(leaf)])
    if live or not overlay.is_outside(leaf):
        return Computed(outs.add_tensor(leaf), live)
    return Constant(leaf)


def _is_live(tensor: Tensor, start: int) -> bool:
    """Whether the tensor has a history from within the trace that can still be walked."""
    node = tensor.grad_fn
    if not tensor._requires_grad or node is None or node.seq < start:
        return False
    return bool(node.remaking) or not getattr(node, "freed", False)


def _collect_gradients(draft: Draft, overlay: Overlay, arguments: Arguments, outs: _Outs) -> None:
    made, grads = draft.made, draft.grads
    for tensor, grad in list(overlay.grads.items()):
        target = arguments.ids.get(id(tensor), tensor)
        if grad is None:
            grads.missing.append((target, None))
        elif grad._sparse:
            grads.sparse.append((target, _sparse_parts(overlay, tensor, outs)))
        elif made.holds(grad) or (
            overlay.rebinds and not overlay.is_outside(grad) and _is_special(grad, overlay)
        ):
            grads.made.append((target, made.number(grad)))
        elif not overlay.is_outside(grad):
            grads.computed.append((target, outs.add_tensor(grad)))
        elif arguments.own.get(id(grad), 0) >= arguments.count:
            grads.argument.append((target, arguments.own[id(grad)]))
        elif grad is not overlay.grad_reads.get(tensor):
            if id(grad) in arguments.own:
                grads.argument.append((target, arguments.own[id(grad)]))
            else:
                grads.same.append((target, grad))


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


def _restore_histories(draft: Draft, overlay: Overlay, arguments: Arguments, start: int) -> None:
    """Tensors outside have the history from before, which the call's own then continues."""
    targets = [out.target for out in draft.changed]
    continued = {id(arguments.leaves[target] if type(target) is int else target) for target in targets}
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
    arguments: Arguments,
    outs: _Outs,
) -> set[Storage]:
    """Storages made in the trace whose tensors something outside still holds, other than the result, ``.grad`` and
    places that are state; and those from outside which the function put a tensor over in some other place.
    """
    grads = [g for g in overlay.grads.values() if g is not None]
    accounted = [t for t in (*out_leaves, *grads, *made.traced) if isinstance(t, Tensor)]
    held = {t._storage for t in accounted}
    old, slots = set(map(id, (*places.old, *arguments.passed))), set(places.slots)
    kept: set[Storage] = set()
    for generation in (
        0,
        2,
    ):  # garbage looks kept: what the trace made is young, unless somebody has collected
        gc.collect(generation)
        kept = {cell for cell in overlay.inside if cell not in held}
        aliases = [t for t in (ref() for ref in overlay.made.values()) if t is not None and not t._sparse]
        ours = (
            *(out_leaves, grads, accounted, aliases),
            *(
                places.tensors,
                places.old,
                made.traced,
                places.form.tensors,
                arguments.leaves,
                *arguments.ours,
            ),
            *made.histories,
            *(slot.old for slot in places.slots),
            *(outs.tensors, *overlay.notes()),
        )
        views = [t for t in (*accounted, *aliases) if t._base is not None]
        # views refer to their base, and tensors to their gradient
        escaped = arguments.held_by_others((*ours, *views, *overlay.grads))
        looked_at = set(overlay.inside) | places.free | {t._storage for t in (*aliases, *escaped)}
        left = set(map(id, arguments.leaves[: arguments.count])).difference(
            map(id, (*places.tensors, *escaped))
        )
        candidates = [
            t
            for t in {id(t): t for t in (*accounted, *aliases, *places.tensors, *escaped)}.values()
            if t._storage in looked_at
            and id(t) not in left
            and (id(t) in arguments.ids or not overlay.is_outside(t))
        ]
        for slot in find(candidates, (*ours, views, candidates, escaped, arguments.passed)):
            if slot not in slots:
                before = old if slot in overlay.holders or _is_inner(slot, arguments) else ()
                there = [t for t in slot.tensors() if id(t) not in before]
                kept |= {t._storage for t in there if t._storage in looked_at}
        if not kept:
            break
    return kept


def _is_inner(slot: Slot, arguments: Arguments) -> bool:
    """Whether a place is a variable of a function that the traced one made, which no later call is to set."""
    return type(slot.container) is types.CellType and id(slot.container) not in arguments.closures


def _give_what_is_kept(draft: Draft, kept: set[Storage], outs: _Outs) -> None:
    """The only call of a program that left tensors outside: results and gradients share their memory with those."""
    shared = {i: t for i, t in outs.tensors.items() if t._storage in kept}
    for k, out in enumerate(draft.outputs):
        if type(out) is Computed and out.index in shared:
            tensor = shared[out.index]
            if not out.requires_grad:
                draft.outputs[k] = Constant(tensor)
            elif tensor._view is None:
                out.shared = tensor
    computed, same = draft.grads.computed, draft.grads.same
    same += [(target, shared[i]) for target, i in computed if i in shared]
    computed[:] = [(target, i) for target, i in computed if i not in shared]


def _collect_cells(
    draft: Draft, overlay: Overlay, kept: set[Storage], arguments: Arguments, outs: _Outs
) -> None:
    """The values of Storages that were written, and of those made inside that live on."""
    for cell in list(overlay.inside):
        draft.fill.append((cell, outs.add_cell(cell)))
    if kept:
        draft.kept = sorted(kept, key=lambda cell: cell not in overlay.inside)
        cell = draft.kept[0]
        made = "made inside" if cell in overlay.inside else "from outside"
        draft.why_once = (
            f"a tensor of shape {tuple(cell.array().shape)} {made} was kept in a Python object outside"
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
            draft.cells.append((cell, index, cell.version - version))
            if cell.apart != apart:
                draft.uncounted.append((arguments.cells.get(cell, cell), cell.apart - apart))


def collect_guards(
    draft: Draft,
    overlay: Overlay,
    optimizers: Sequence[Stepping],
    slots: dict[Any, Any],
    arguments: Arguments,
) -> None:
    """After the trace: Python numbers back in place, and the guards."""
    own = arguments.own
    places = set() if draft.places is None else set(draft.places.slots)
    flags, tensors = _collect_optimizers(draft, overlay, slots, places)
    for one in overlay.reads.lifted:
        name = ("variable", *one.id)
        draft.number_places[name] = slots[name]
    excluded = [(id(slot.container), slot.key) for slot in places]
    draft.values = ValueGuards(
        overlay.reads, excluded, overlay.optimizers, overlay.is_outside, flags, tensors
    )
    draft.grad_guards = [(t, g is None) for t, g in overlay.grad_reads.items() if id(t) not in own]
    draft.tensor_guards = _tensor_guards(overlay, arguments, tensors[2])
    _collect_hooks(draft, overlay, arguments)
    draft.flags = [
        (own.get(id(t), t), t._requires_grad)
        for t, old in overlay.flags.items()
        if t._requires_grad is not old
    ]
    draft.table_guards = [
        (instance, overlay.modes.get(instance, getattr(instance, "training", None)), tables_of(instance))
        for instance in overlay.stateful
    ]
    draft.modes = [(m, m.training) for m, mode in overlay.modes.items() if m.training is not mode]


def _collect_optimizers(
    draft: Draft, overlay: Overlay, slots: dict[Any, Any], places: set[Slot]
) -> tuple[list[tuple[Any, Any, Any]], tuple[list[Any], list[Any], list[Any]]]:
    """The numbers of the optimizers that stepped. Returns items of dicts that are compared by value, and columns of the
    items that are tensors.
    """
    flags: list[tuple[Any, Any, Any]] = []
    tensors: tuple[list[Any], list[Any], list[Any]] = ([], [], [])

    def add(*item: Any) -> None:
        for column, value in zip(tensors, item, strict=True):
            column.append(value)

    for optimizer, snapshot in overlay.optimizers.items():
        draft.number_writes += snapshot.restore_numbers()
        before = {id(table): items for _, table, items in snapshot.state}
        for name in snapshot.symbols:
            draft.number_places[name] = slots[name]
        for group in optimizer.param_groups:
            for key, value in group.items():
                if isinstance(value, Tensor):
                    add(group, key, value)
                elif key != "params" and not _is_dynamic(value):
                    flags.append((group, key, value))
        for table in optimizer.state.values():
            if not isinstance(table, dict):
                continue
            known = before.get(id(table), ())
            for key, value in table.items():
                if isinstance(value, Tensor) and Slot(table, key) not in places:
                    add(table, key, value)
                if key not in known and is_number(value):
                    draft.why_once = f"optimizer state {key!r} was made by this call"
        groups = [[id(p) for p in g["params"]] for g in optimizer.param_groups]
        items = (list(optimizer.param_groups), list(optimizer.state.items()))
        draft.optimizers.append((optimizer, groups, items))
    changed = {(id(table), key) for table, key, _ in draft.number_writes}
    return [flag for flag in flags if (id(flag[0]), flag[1]) not in changed], tensors


def _tensor_guards(
    overlay: Overlay, arguments: Arguments, states: Sequence[Tensor]
) -> list[tuple[Tensor, bool | None, tuple[Storage, View | None] | None]]:
    """The tensors from outside, with what of each must stay: ``requires_grad``, and what it looks at.

    ``states`` are those of optimizers, which a step takes without a tensor operation.
    """
    found: list[tuple[Tensor, bool | None, tuple[Storage, View | None] | None]] = []
    for t, flag in overlay.tensors.items():
        if id(t) in arguments.own:
            continue
        if t in overlay.data:
            found.append((t, flag, None))
        elif t._storage not in overlay.inside and t._storage not in arguments.cells:
            found.append((t, flag, (t._storage, t._view)))
    for t in (*overlay.sources, *filter(overlay.is_outside, states)):
        known = t in overlay.tensors or t in overlay.data or id(t) in arguments.own
        if not known and t._storage not in arguments.cells:
            found.append((t, None, (t._storage, t._view)))
    return found


def _collect_hooks(draft: Draft, overlay: Overlay, arguments: Arguments) -> None:
    """The hooks that the function left on arguments and tensors outside, and those that its backward passes ran."""
    passed = set(map(id, arguments.passed))

    def is_ours(item: Any) -> bool:
        return isinstance(item, Tensor) and (id(item) in passed or item._storage in overlay.inside)

    for tensor, how, hook, handle in overlay.tensor_hooks:
        table = handle and handle.hooks_dict_ref()
        if handle is not None and (table is None or handle.id not in table):
            continue
        draft.hooks.append((arguments.own.get(id(tensor), tensor), how, hook))
        if takes(hook, is_ours):
            draft.why_once = "a hook was registered that uses tensors of the call"
    left = {id(hook) for _, _, hook in draft.hooks}
    for tensor in overlay.grads:
        if overlay.is_outside(tensor):
            hooks = tuple([hook for hook in hooks_of(tensor) if id(hook) not in left])
            if id(tensor) in arguments.own:
                draft.argument_hooks.append((arguments.own[id(tensor)], hooks))
            else:
                draft.hook_guards.append((tensor, hooks))


def _is_dynamic(value: Any) -> bool:
    return (
        is_number(value)
        or isinstance(value, Tensor)
        or (type(value) is tuple and any(is_number(v) for v in value))
    )
