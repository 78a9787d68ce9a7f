"""One traced call: the pure program, what it reads and writes, and the guards under which it may be run again."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal, jaxpr_as_fun

from ..autograd.node import AccumulateGrad, Node, accumulator
from ..autograd.node import _sequence as node_sequence
from ..core import storage
from ..core.storage import Storage
from ..core.symbolic import SymNumber
from ..core.tensor import Tensor, wrap
from .overlay import MODULE_TABLES, Overlay, is_concrete, is_number, number_slots
from .slots import Slot, find

__all__ = ["Program", "trace"]


class Stale(Exception):
    """An input has another shape or dtype than the program was traced for."""


def prepare_state() -> tuple[list[Any], list[Any]]:
    """The optimizers and modules alive now, with lazy state made: keys of generators, and first states of optimizers.

    One pass over the garbage collector's list, per trace.
    """
    optimizer_class = _loaded("functorch_port.optim.optimizer", "Optimizer")
    module_class = _loaded("functorch_port.nn.module", "Module")
    generator_class = _loaded("functorch_port.core.generator", "Generator")
    optimizers, modules = [], []
    for o in gc.get_objects():
        kind = type(o)
        if issubclass(kind, module_class):
            modules.append(o)
        elif issubclass(kind, optimizer_class):
            if "param_groups" in o.__dict__:
                _premake(o)
                optimizers.append(o)
        elif kind is generator_class:
            _ = o.key_storage
    return optimizers, modules


def _premake(optimizer: Any) -> None:
    """The state that a lazy first step would make, where the general rule then gives the first step's numbers."""
    make = getattr(optimizer, "_init_state", None)
    if make is None:
        return
    for group in optimizer.param_groups:
        for p in group["params"]:
            if not optimizer.state.get(p) and p not in optimizer._premade:
                with storage.x64():
                    state = make(p, group)
                if state is not None:
                    optimizer._premade[p] = state


def live_cells() -> list[Storage]:
    """The Storages alive now that hold a concrete array."""
    cells = []
    for o in gc.get_objects():
        if type(o) is Storage:
            if is_concrete(o._value):
                cells.append(o)
    return cells


class _Never:
    pass


def _loaded(module: str, name: str) -> type:
    return getattr(sys.modules.get(module), name, _Never)


_LEAF = jax.tree_util.tree_structure(0)


def _is_leaf(x: Any) -> bool:
    return isinstance(x, Tensor | SymNumber)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Leaves and structure of arguments or results; Tensors are leaves."""
    return jax.tree_util.tree_flatten(tree, is_leaf=_is_leaf)


def _aval(value: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


class _Output:
    """How one leaf of the result is made after a call."""

    __slots__ = ("index", "kind", "requires_grad", "value")

    def __init__(self, kind: str, index: int = -1, value: Any = None, requires_grad: bool = False) -> None:
        self.kind, self.index, self.value, self.requires_grad = kind, index, value, requires_grad


class Program:
    """A traced function: ``jaxpr`` from inputs to outputs, where both come from and go to, and its guards."""

    def __init__(self) -> None:
        self.outputs: list[_Output] = []
        self.out_tree: Any = None
        self.cells: list[Storage] = []
        self.donated: list[Storage] = []
        self.arg_inputs: list[int] = []
        self.grad_inputs: list[Any] = []
        self.number_inputs: list[tuple[Any, Any, Any]] = []
        self.held_numbers: dict[int, tuple[Any, Any]] = {}
        self.draws: list[Callable[[], Any]] = []
        self.draw_inputs: list[int] = []
        self.cell_writes: list[tuple[Storage, int, int]] = []
        self.arg_writes: list[tuple[int, int, int]] = []
        self.grad_writes: list[tuple[Any, str, Any]] = []
        self.number_writes: list[tuple[dict[Any, Any], Any, Callable[[dict[Any, Any]], Any]]] = []
        self.fill: list[tuple[Storage, int]] = []
        self.flag_writes: list[tuple[Tensor, bool]] = []
        self.mode_writes: list[tuple[Any, bool]] = []
        self.slot_inputs: list[tuple[Slot, int]] = []
        self.slot_writes: list[tuple[Slot, Any, list[int]]] = []
        self.kept: list[Storage] = []
        self.reusable = True
        self.why_once = ""
        self.boundary: list[tuple[str, Any]] = []
        self.epoch = -1
        self.calls = 0

    # ---------------------------------------------------------------- guards

    def numbers(self, leaves: Sequence[Any]) -> dict[Any, Any] | str:
        """The values of the number inputs by key, or the reason why the program does not fit them."""
        env: dict[Any, Any] = {}
        for name, (table, key, index, expected) in self.number_guards.items():
            value = table.get(key)
            if index is not None:
                value = value[index] if type(value) is tuple and len(value) > index else None
            if type(value) is not type(expected) or (name in self.fixed and value != expected):
                return f"{key!r} changed from {expected!r} to {value!r}"
            env[name] = value
        for name, i, expected in self.arg_numbers:
            env[name] = leaves[i]
            if name in self.fixed and leaves[i] != expected:
                return f"argument {i} changed from {expected!r} to {leaves[i]!r}"
        for predicate, outcome in self.predicates:
            if predicate(env) != outcome:
                return "a number changed on which the function branches"
        return env

    def matches(self) -> str:
        """Empty if the program may be run now, else the reason why not."""
        for tensor, missing in self.grad_guards:
            if (tensor._grad is None) is not missing:
                return f"a gradient {'appeared' if missing else 'is gone'}"
        for table, key, expected in self.flag_guards:
            value = table.get(key, _Never)
            if value is not expected and not (type(value) is type(expected) and value == expected):
                return f"{key!r} changed from {expected!r} to {value!r}"
        for table, key, tensor in self.slot_guards:
            if table.get(key) is not tensor:
                return f"optimizer state {key!r} was replaced"
        for slot, _, _ in self.slot_writes:
            if not all(isinstance(t, Tensor) and t._view is None for t in slot.tensors()):
                return f"something else is kept under {slot.key!r}"
        if self.epoch != storage.epoch:
            why = self._verify()
            if why:
                return why
            self.epoch = storage.epoch
        return ""

    def _verify(self) -> str:
        """The guards on structure, checked only after something structural changed somewhere."""
        for module, training, tables in self.module_guards:
            if module.training is not training:
                return f"{type(module).__name__}.training changed to {module.training}"
            for key, table in zip(MODULE_TABLES, tables, strict=True):
                current = module.__dict__[key]
                if list(current) != list(table) or any(current[k] is not table[k] for k in table):
                    return f"{type(module).__name__}{key} changed"
        for tensor, flag, cell in self.tensor_guards:
            if tensor._requires_grad is not flag:
                return f"requires_grad of a tensor of shape {tuple(tensor.shape)} changed to {tensor._requires_grad}"
            if tensor._storage is not cell:
                return f"the data of a tensor of shape {tuple(tensor.shape)} was replaced"
        for optimizer, groups, tables in self.optimizer_guards:
            current = [[id(p) for p in g["params"]] for g in optimizer.param_groups]
            if current != groups or any(
                a is not b for a, b in zip(optimizer.param_groups, tables[0], strict=False)
            ):
                return f"the parameter groups of {type(optimizer).__name__} changed"
            if any(optimizer.state.get(p) is not t for p, t in tables[1]):
                return f"the state of {type(optimizer).__name__} was replaced"
        return ""

    # ----------------------------------------------------------------- calls

    def inputs(
        self, leaves: Sequence[Any], env: dict[Any, Any], first: bool = False
    ) -> tuple[list[Any], list[Any]]:
        """The arrays to donate, and the other arrays and numbers in order."""
        donated = [cell._value for cell in self.donated]
        for i, value in enumerate(donated):
            if getrefcount(value) > _ALONE:  # somebody else can still see it
                donated[i] = value.copy()
        kept = [cell._value for cell in self.cells]
        kept += [leaves[i]._value if isinstance(leaves[i], Tensor) else leaves[i] for i in self.arg_inputs]
        kept += [tensor._grad._value for tensor in self.grad_inputs]
        kept += [(slot.old if first else slot.tensors())[i]._value for slot, i in self.slot_inputs]
        kept += [self._number(k, env[name]) for k, name in enumerate(self.number_inputs)]
        if self.draws:
            with storage.x64():
                drawn = [draw() for draw in self.draws]  # all of them, in order: each moves the stream on
                kept += [jnp.asarray(drawn[i]).reshape(drawn[i].shape or (1,)) for i in self.draw_inputs]
        return donated, kept

    def _number(self, position: int, value: Any) -> Any:
        """A number input. One that stays becomes an array, which a jitted call takes several times as fast."""
        seen, array = self.held_numbers.get(position, (None, None))
        if seen is not value:
            self.held_numbers[position] = value, None
            return value
        if array is None:
            with storage.x64():
                array = jnp.asarray(value)
            self.held_numbers[position] = value, array
        return array

    def avals(self) -> tuple[list[Any], list[Any]]:
        """Shapes and dtypes of what ``pure(donated, kept)`` and ``jit`` take."""
        return self.input_avals[: len(self.donated)], self.input_avals[len(self.donated) :]

    def run(self, leaves: Sequence[Any], env: dict[Any, Any], first: bool = False) -> Any:
        """Run the compiled program on the current state and the call's arguments, and write the new state back."""
        donated, kept = self.inputs(leaves, env, first)
        with storage.x64():
            if self.boundary:
                outs, node = self._run_recorded(donated, kept, leaves)
            else:
                outs, node = self.jit(donated, kept), None
        self.calls += 1
        return self._write_back(outs, leaves, env, node, first)

    def _write_back(
        self, outs: Sequence[Any], leaves: Sequence[Any], env: dict[Any, Any], node: Any, first: bool
    ) -> Any:
        for cell, index, steps in self.cell_writes:
            cell._value = outs[index]
            if not first:
                cell.version += steps
        for i, index, steps in self.arg_writes:
            tensor = leaves[i]
            if tensor._view is None:
                tensor._storage._value = outs[index]
                if not first:
                    tensor._storage.version += steps
            else:
                tensor._set_value(outs[index])
        if first:
            for cell, index in self.fill:
                cell._value = outs[index]
            self.fill = []
        for target, kind, what in self.grad_writes:
            tensor = leaves[target] if type(target) is int else target
            if kind == "none":
                tensor._grad = None
            elif kind == "new":
                tensor._grad = wrap(outs[what])
            elif kind == "slot":
                tensor._grad._set_value(outs[what])
            else:
                tensor._grad = what
        if not first:
            for slot, tree, indices in self.slot_writes:
                slot.set(jax.tree_util.tree_unflatten(tree, [wrap(outs[i]) for i in indices]))
        for table, key, rule in self.number_writes:
            table[key] = rule(env)
        for tensor, flag in self.flag_writes:
            tensor._requires_grad = flag
        for module, mode in self.mode_writes:
            module.__dict__["training"] = mode
        results = [self._leaf(o, outs, leaves, env, node) for o in self.outputs]
        return results[0] if self.out_tree == _LEAF else jax.tree_util.tree_unflatten(self.out_tree, results)

    def _leaf(
        self, out: _Output, outs: Sequence[Any], leaves: Sequence[Any], env: dict[Any, Any], node: Any
    ) -> Any:
        if out.kind == "tensor":
            tensor = wrap(outs[out.index])
            if out.requires_grad and node is not None:
                tensor._requires_grad, tensor._grad_fn, tensor._output_nr = True, node, out.index
            return tensor
        if out.kind == "arg":
            return leaves[out.value]
        if out.kind == "array":
            return outs[out.index]
        if out.kind == "number":
            return out.value(env)
        return out.value

    # ----------------------------------------------- gradients across the edge

    def _run_recorded(
        self, donated: list[Any], kept: list[Any], leaves: Sequence[Any]
    ) -> tuple[Sequence[Any], Node | None]:
        """The program as one operation on the tape: its outputs have gradients to tensors outside."""
        tensors = [leaves[what] if kind == "arg" else what for kind, what in self.boundary]
        if not any(t.requires_grad for t in tensors):
            return self.jit(donated, kept), None
        values = [*donated, *kept]
        diff = [values[i] for i in self.boundary_inputs]
        outs, pull = self.forward(diff, values)
        edges = tuple(
            (accumulator(t), 0) if t.grad_fn is None else (t._grad_fn, t._output_nr) for t in tensors
        )
        return outs, ProgramNode(self, edges, outs, pull, values)

    def _flat(self, values: Sequence[Any]) -> Any:
        return self.pure(list(values[: len(self.donated)]), list(values[len(self.donated) :]))


class ProgramNode(Node):
    """The node of a compiled function whose outputs are differentiated outside."""

    __slots__ = ("avals", "program", "pull", "values")

    def __init__(
        self, program: Program, edges: tuple[Any, ...], outs: Sequence[Any], pull: Any, values: Sequence[Any]
    ) -> None:
        super().__init__(edges, len(outs))
        self.program, self.pull, self.values = program, pull, values
        self.avals = [_aval(o) for o in outs]

    def name(self) -> str:
        return "CompiledFunctionBackward"

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        if self.pull is None:
            from ..autograd.node import FREED

            raise RuntimeError(FREED)
        with storage.x64():
            return self.program.backward(self.pull, list(grads), tuple(self.avals))

    def apply_recorded(self, grads: Sequence[Any]) -> Sequence[Any]:
        from ..core.dispatch import Plan, _with_history, run

        program, count = self.program, len(self.values)
        where = program.boundary_inputs
        mask = tuple(i in where for i in range(count))
        plan = Plan(
            lambda *values: tuple(program._flat(values)), "compiled_function", "CompiledFunctionBackward0"
        )
        by_input = dict(zip(where, self.edges, strict=True))
        holes = tuple(g is None for g in grads)
        inputs = [_with_history(v, by_input[i]) if i in by_input else v for i, v in enumerate(self.values)]
        found = run(plan.backward(mask, holes), [*inputs, *(g for g in grads if g is not None)])
        ordered = dict(zip([i for i, m in enumerate(mask) if m], found, strict=True))
        return [ordered[i] for i in where]

    def release(self) -> None:
        self.pull = self.values = None  # type: ignore[assignment]


# --------------------------------------------------------------------- tracing


def trace(
    fn: Callable[..., Any], leaves: list[Any], tree: Any, rng: str = "jax", watched: Sequence[Slot] = ()
) -> tuple[Program, Overlay]:
    """Run ``fn`` once with tracers in place of all state, and turn what happened into a `Program`.

    The Python code of ``fn`` runs exactly once. If it raises, everything is put back as it was.
    """
    optimizers, modules = prepare_state()
    call_leaves = _prepare(leaves)
    cells = live_cells()
    extra: list[Storage] = []
    modes = {m: m.training for m in modules}
    while True:
        overlay = Overlay(rng, watched)
        try:
            program = _trace_once(fn, leaves, call_leaves, tree, cells + extra, optimizers, modes, overlay)
        except BaseException:
            overlay.undo()
            for module, mode in modes.items():
                module.__dict__["training"] = mode
            raise
        if not overlay.missed:
            for optimizer in optimizers:
                optimizer._premade.clear()
            return program, overlay
        overlay.undo()  # a Storage the collector does not list (gc.freeze): take it in and start again
        extra += overlay.missed


def _prepare(leaves: list[Any]) -> list[Any]:
    """Arguments as the traced function sees them: a view becomes a tensor of its own, as its position must
    not be burned in.
    """
    out = []
    for leaf in leaves:
        if isinstance(leaf, Tensor) and leaf._view is not None:
            proxy = wrap(leaf._value)
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
    modes: dict[Any, bool],
    overlay: Overlay,
) -> Program:
    program = Program()
    slots = {
        (id(t), k, i): (t, k, i, t[k] if i is None else t[k][i])
        for o in optimizers
        for t, k, i in number_slots(o)
    }
    arg_numbers = {("arg", i): leaf for i, leaf in enumerate(leaves) if type(leaf) is float}
    arrays = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
    names = [*slots, *arg_numbers]
    plain = {**{n: s[3] for n, s in slots.items()}, **arg_numbers}
    start = next(node_sequence)

    def run(cell_values: list[Any], number_values: list[Any], array_values: list[Any]) -> list[Any]:
        overlay.tracers = dict(zip(cells, cell_values, strict=True))
        overlay.numbers = {n: (plain[n], v) for n, v in zip(names, number_values, strict=True)}
        given = list(call_leaves)
        for name in arg_numbers:
            given[name[1]] = SymNumber(
                plain[name], overlay.numbers[name][1], frozenset({name}), lambda env, n=name: env[n]
            )
        for i, value in zip(arrays, array_values, strict=True):
            given[i] = value
        previous, storage.overlay = storage.overlay, overlay
        try:
            args, kwargs = jax.tree_util.tree_unflatten(tree, given)
            result = fn(*args, **kwargs)
            del args, kwargs, given
            return _collect(program, overlay, result, call_leaves, start)
        finally:
            storage.overlay = previous

    with storage.x64():
        number_avals = [
            jax.ShapeDtypeStruct((), np.result_type(type(plain[n])), weak_type=True) for n in names
        ]
        closed = jax.make_jaxpr(run)(
            [_aval(c._value) for c in cells], number_avals, [_aval(leaves[i]) for i in arrays]
        )
    _settle(program, overlay, slots, modes, call_leaves)
    _assemble(program, overlay, closed, cells, names, arrays, call_leaves)
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

    def add(self, value: Any) -> int:
        self.arrays.append(value)
        return len(self.arrays) - 1

    def add_tensor(self, tensor: Tensor) -> int:
        index = self.add(tensor._value)
        if tensor._view is None:
            self.of_cell[tensor._storage] = index
        return index


def _collect(program: Program, overlay: Overlay, result: Any, leaves: list[Any], start: int) -> list[Any]:
    """After the function returned: everything the program must compute."""
    outs = _Outs()
    out_leaves, program.out_tree = flatten(result)
    _collect_result(program, overlay, out_leaves, leaves, start, outs)
    _collect_gradients(program, overlay, leaves, outs)
    _cut_histories([*out_leaves, *overlay.histories, *overlay.grads.values()], start)
    overlay.edges.clear()
    _collect_slots(program, overlay, outs)
    _collect_cells(program, overlay, _kept_cells(overlay, result, out_leaves), outs)
    return outs.arrays


def _collect_result(
    program: Program, overlay: Overlay, out_leaves: list[Any], leaves: list[Any], start: int, outs: _Outs
) -> None:
    arg_ids = {id(t): i for i, t in enumerate(leaves) if isinstance(t, Tensor)}
    arg_cells = {t._storage for t in leaves if isinstance(t, Tensor)}
    roots = []
    for leaf in out_leaves:
        if isinstance(leaf, Tensor):
            node = leaf.grad_fn
            live = (
                leaf._requires_grad
                and node is not None
                and node.seq >= start
                and not getattr(node, "freed", False)
            )
            if id(leaf) in arg_ids:
                program.outputs.append(_Output("arg", value=arg_ids[id(leaf)]))
            elif leaf._storage not in overlay.inside and leaf._storage not in arg_cells and not live:
                program.outputs.append(_Output("same", value=leaf))
            else:
                program.outputs.append(_Output("tensor", outs.add_tensor(leaf), requires_grad=live))
                if live:
                    roots.append(node)
        elif isinstance(leaf, SymNumber):
            program.outputs.append(_Output("number", value=leaf.rule))
        elif isinstance(leaf, jax.Array):
            program.outputs.append(_Output("array", outs.add(leaf)))
        else:
            program.outputs.append(_Output("same", value=leaf))
    by_position = {id(t): i for i, t in enumerate(leaves) if isinstance(t, Tensor) and not by_identity(t)}
    program.boundary = _boundary(roots, start, overlay, by_position)


def _collect_gradients(program: Program, overlay: Overlay, leaves: list[Any], outs: _Outs) -> None:
    arg_ids = {id(t): i for i, t in enumerate(leaves) if isinstance(t, Tensor)}
    for tensor, grad in overlay.grads.items():
        target = arg_ids.get(id(tensor), tensor)
        if grad is None:
            program.grad_writes.append((target, "none", None))
        elif not overlay.is_outside(grad):
            program.grad_writes.append((target, "new", outs.add_tensor(grad)))
        elif grad is not overlay.grad_reads.get(tensor):
            program.grad_writes.append((target, "keep", grad))


def _cut_histories(tensors: Sequence[Any], start: int) -> None:
    """Results leave the trace without a history, so that the graph and the tracers it holds can go."""
    for tensor in tensors:
        if isinstance(tensor, Tensor) and tensor._grad_fn is not None and tensor._grad_fn.seq >= start:
            tensor._grad_fn, tensor._requires_grad = None, False


def _collect_slots(program: Program, overlay: Overlay, outs: _Outs) -> None:
    """Watched places whose tensors were replaced."""
    for slot in overlay.watched:
        if slot.replaced():
            indices = [
                outs.of_cell[t._storage] if t._storage in outs.of_cell else outs.add_tensor(t)
                for t in slot.tensors()
            ]
            program.slot_writes.append((slot, slot.tree, indices))


def _kept_cells(overlay: Overlay, result: Any, out_leaves: list[Any]) -> set[Storage]:
    """Storages made in the trace whose tensors something outside still holds, other than the result,
    ``.grad`` and slots.
    """
    gc.collect()
    grads = [g for g in overlay.grads.values() if g is not None]
    slots = [slot for slot in overlay.watched if slot.replaced()]
    accounted = [
        t
        for t in (*out_leaves, *grads, *(t for slot in slots for t in slot.tensors()))
        if isinstance(t, Tensor)
    ]
    held = {t._storage for t in accounted}
    kept = {cell for cell in overlay.inside if cell not in held}
    aliases = [
        t for t in (ref() for ref in overlay.made.values()) if t is not None and t._storage in overlay.inside
    ]
    candidates = [
        t for t in {id(t): t for t in (*accounted, *aliases)}.values() if t._storage in overlay.inside
    ]
    ours = {id(x) for x in (out_leaves, grads, accounted, aliases, candidates, overlay.grads)} | _containers(
        result
    )
    places = {(id(slot.container), slot.key) for slot in slots}
    for slot in find(candidates, ours):
        if (id(slot.container), slot.key) not in places:
            kept |= {t._storage for t in slot.tensors() if t._storage in overlay.inside}
    return kept


def _containers(tree: Any) -> set[int]:
    """The lists, tuples and dicts that make up the result."""
    found, stack = set(), [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, list | tuple | dict):
            found.add(id(item))
            stack.extend(item.values() if isinstance(item, dict) else item)
    return found


def _collect_cells(program: Program, overlay: Overlay, kept: set[Storage], outs: _Outs) -> None:
    """The values of Storages that were written, and of those made inside that live on."""
    for cell in list(overlay.inside):
        if cell not in outs.of_cell:
            outs.of_cell[cell] = outs.add(cell._value)
        program.fill.append((cell, outs.of_cell[cell]))
    if kept:
        program.kept = list(kept)
        program.reusable = False
        shape = tuple(program.kept[0]._value.shape)
        program.why_once = f"a tensor of shape {shape} made inside was kept in a Python object outside"
    for cell in overlay.written:
        value = overlay.env[cell]
        if value is not overlay.tracers.get(cell):
            program.cell_writes.append((cell, outs.add(value), cell.version - overlay.written[cell]))


def _boundary(
    roots: list[Node], start: int, overlay: Overlay, arg_ids: dict[int, int]
) -> list[tuple[str, Any]]:
    """The tensors outside that gradients of the outputs lead to."""
    found: dict[int, tuple[str, Any]] = {}
    seen: set[Node] = set(roots)
    stack = list(roots)
    while stack:
        node = stack.pop()
        for edge in node.edges:
            if edge is None:
                continue
            target = edge[0]
            if isinstance(target, AccumulateGrad) or target.seq < start:
                tensor = overlay.edges.get((id(target), edge[1]))
                if tensor is not None and overlay.is_outside(tensor):
                    i = arg_ids.get(id(tensor))
                    found[id(tensor)] = ("tensor", tensor) if i is None else ("arg", i)
            elif target not in seen:
                seen.add(target)
                stack.append(target)
    return list(found.values())


def _settle(
    program: Program, overlay: Overlay, slots: dict[Any, Any], modes: dict[Any, bool], leaves: list[Any]
) -> None:
    """Plain numbers back in place, and the guards."""
    given = [t for t in leaves if isinstance(t, Tensor) and not by_identity(t)]
    arg_ids = {id(t) for t in given}
    program.number_guards = {}
    program.flag_guards, program.slot_guards, program.optimizer_guards = [], [], []
    for optimizer, snapshot in overlay.optimizers.items():
        program.number_writes += snapshot.settle()
        before = {id(d): items for _, d, items in snapshot.state}
        for name in snapshot.symbols:
            program.number_guards[name] = slots[name]
        for group in optimizer.param_groups:
            program.flag_guards += [
                (group, k, v) for k, v in group.items() if k != "params" and not _dynamic(v)
            ]
        for p, table in optimizer.state.items():
            if not isinstance(table, dict):
                continue
            known = before.get(id(table))
            for key, value in table.items():
                if isinstance(value, Tensor):
                    program.slot_guards.append((table, key, value))
                if (known is None or key not in known) and is_number(value):
                    program.reusable, program.why_once = (
                        False,
                        f"optimizer state {key!r} was made by this call",
                    )
            del p
        groups = [[id(p) for p in g["params"]] for g in optimizer.param_groups]
        tables = (list(optimizer.param_groups), list(optimizer.state.items()))
        program.optimizer_guards.append((optimizer, groups, tables))
    changed = {(id(t), k) for t, k, _ in program.number_writes}
    program.flag_guards = [g for g in program.flag_guards if (id(g[0]), g[1]) not in changed]
    program.grad_guards = [(t, g is None) for t, g in overlay.grad_reads.items() if id(t) not in arg_ids]
    program.tensor_guards = [
        (t, flag, t._storage)
        for t, flag in overlay.tensors.items()
        if id(t) not in arg_ids and t._storage not in overlay.inside
    ]
    arg_cells = {t._storage for t in given}
    program.tensor_guards = [g for g in program.tensor_guards if g[2] not in arg_cells]
    program.flag_writes = [
        (t, t._requires_grad) for t, old in overlay.flags.items() if t._requires_grad is not old
    ]
    program.module_guards = []
    for module in overlay.modules:
        d = module.__dict__
        members = tuple(dict(d[k]) for k in MODULE_TABLES)
        program.module_guards.append((module, modes.get(module, module.training), members))
    program.mode_writes = [(m, m.training) for m, mode in modes.items() if m.training is not mode]


def _dynamic(value: Any) -> bool:
    return (
        is_number(value)
        or isinstance(value, Tensor)
        or (type(value) is tuple and any(is_number(v) for v in value))
    )


def _assemble(
    program: Program,
    overlay: Overlay,
    closed: Any,
    cells: list[Storage],
    names: list[Any],
    arrays: list[int],
    leaves: list[Any],
) -> None:
    """Keep the inputs that matter, sort them by where they come from, and make the jitted function."""
    closed, live = _prune(closed)
    by_cell = {t._storage: i for i, t in enumerate(leaves) if isinstance(t, Tensor) and not by_identity(t)}
    grad_of = {g._storage: t for t, g in overlay.grad_reads.items() if g is not None and g._view is None}
    slot_of = {t._storage: (slot, i) for slot, _, _ in program.slot_writes for i, t in enumerate(slot.old)}
    written = {cell for cell, _, _ in program.cell_writes}
    places: dict[str, list[int]] = {
        "donated": [],
        "cell": [],
        "arg": [],
        "grad": [],
        "slot": [],
        "number": [],
    }
    for position, (cell, used) in enumerate(zip(cells, live, strict=False)):
        if not used:
            continue
        if cell in by_cell:
            places["arg"].append(position)
            program.arg_inputs.append(by_cell[cell])
        elif cell in grad_of:
            places["grad"].append(position)
            program.grad_inputs.append(grad_of[cell])
        elif cell in slot_of:
            places["slot"].append(position)
            program.slot_inputs.append(slot_of[cell])
        elif cell in written and not program.boundary:
            places["donated"].append(position)
            program.donated.append(cell)
        else:
            places["cell"].append(position)
            program.cells.append(cell)
    offset = len(cells)
    for k, name in enumerate(names):
        if live[offset + k]:
            places["number"].append(offset + k)
            program.number_inputs.append(name)
    for k, i in enumerate(arrays):
        if live[offset + len(names) + k]:
            places["arg"].append(offset + len(names) + k)
            program.arg_inputs.append(i)
    program.arg_writes = [(by_cell[c], i, n) for c, i, n in program.cell_writes if c in by_cell]
    slot_writes = [(grad_of[c], "slot", i) for c, i, _ in program.cell_writes if c in grad_of]
    program.grad_writes = slot_writes + program.grad_writes
    program.cell_writes = [w for w in program.cell_writes if w[0] not in by_cell and w[0] not in grad_of]
    place = {id(array): i for i, (_, array) in enumerate(overlay.draws)}
    drawn = [k for k, c in enumerate(closed.consts) if id(c) in place]
    program.draws = [draw for draw, _ in overlay.draws]
    program.draw_inputs = [place[id(closed.consts[k])] for k in drawn]
    order = [k for kind in ("donated", "cell", "arg", "grad", "slot", "number") for k in places[kind]]
    _make_functions(program, closed, order, drawn, _sort_outputs(program, len(closed.jaxpr.outvars)))
    if program.boundary:
        at = {cell: k for k, cell in enumerate([*program.donated, *program.cells])}
        base = len(at)
        args = {i: base + k for k, i in enumerate(program.arg_inputs)}
        program.boundary = [
            (kind, what)
            for kind, what in program.boundary
            if (what in args if kind == "arg" else what._storage in at)
        ]
        program.boundary_inputs = [
            args[what] if kind == "arg" else at[what._storage] for kind, what in program.boundary
        ]
        _differentiable(program)


def _sort_outputs(program: Program, count: int) -> list[int]:
    """Put the new values of donated inputs first, in the inputs' order; returns the old positions.

    JAX gives a donated input's memory to the first output of its shape. If that is a gradient, XLA has to copy the
    parameter before it may be written over.
    """
    at = {cell: i for cell, i, _ in program.cell_writes}
    first = [at[cell] for cell in program.donated]
    order = first + sorted({*range(count)} - {*first})
    new = {old: i for i, old in enumerate(order)}
    for out in program.outputs:
        out.index = new.get(out.index, out.index)
    program.cell_writes = [(cell, new[i], steps) for cell, i, steps in program.cell_writes]
    program.arg_writes = [(k, new[i], steps) for k, i, steps in program.arg_writes]
    program.fill = [(cell, new[i]) for cell, i in program.fill]
    program.slot_writes = [
        (slot, tree, [new[i] for i in indices]) for slot, tree, indices in program.slot_writes
    ]
    program.grad_writes = [
        (target, kind, new[what] if kind in ("new", "slot") else what)
        for target, kind, what in program.grad_writes
    ]
    return order


def by_identity(tensor: Tensor) -> bool:
    """Whether an argument is this very tensor, a parameter, and not whatever tensor stands in its place."""
    return type(tensor).__name__ == "Parameter" or getattr(tensor, "_is_param", False)


def _make_functions(
    program: Program, closed: Any, order: list[int], drawn: list[int], out_order: list[int]
) -> None:
    total = len(closed.jaxpr.invars)
    avals = [closed.jaxpr.invars[k].aval for k in order]
    consts = list(closed.consts)

    def pure(donated: list[Any], kept: list[Any]) -> list[Any]:
        given = [*donated, *kept]
        values: list[Any] = [0.0] * total
        for k, value, aval in zip(order, given, avals, strict=False):
            if np.shape(value) != aval.shape or (hasattr(value, "dtype") and value.dtype != aval.dtype):
                raise Stale
            values[k] = value
        held = list(consts)
        for k, value in zip(drawn, given[len(order) :], strict=True):
            held[k] = value
        outs = jaxpr_as_fun(closed.replace(consts=held))(*values)
        return [outs[i] for i in out_order]

    program.pure = pure
    program.input_avals = [
        jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type)
        for a in (*avals, *(jax.typeof(consts[k]) for k in drawn))
    ]
    program.number_avals = avals[len(avals) - len(program.number_inputs) :]
    program.jit = jax.jit(pure, donate_argnums=0)
    program.jaxpr = closed


def _differentiable(program: Program) -> None:
    where = program.boundary_inputs

    def forward(diff: list[Any], values: list[Any]) -> Any:
        def of(diff: list[Any]) -> list[Any]:
            full = list(values)
            for i, v in zip(where, diff, strict=True):
                full[i] = v
            return program._flat(full)

        return jax.vjp(of, diff)

    def backward(pull: Any, grads: list[Any], avals: tuple[Any, ...]) -> Any:
        from ..core.dispatch import _conj, _cotangent

        (found,) = pull([_cotangent(a, g) for a, g in zip(avals, grads, strict=True)])
        return [_conj(g) for g in found]

    program.forward = jax.jit(forward)
    program.backward = jax.jit(backward, static_argnums=2)


def _prune(closed: Any) -> tuple[Any, list[bool]]:
    """The jaxpr without operations that no output depends on, and which inputs are left in use."""
    jaxpr = closed.jaxpr
    live = {id(v) for v in jaxpr.outvars if not isinstance(v, Literal)}
    kept = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or any(id(v) in live for v in eqn.outvars):
            kept.append(eqn)
            live.update(id(v) for v in eqn.invars if not isinstance(v, Literal))
    return closed.replace(jaxpr=jaxpr.replace(eqns=kept[::-1])), [id(v) in live for v in jaxpr.invars]


getrefcount = sys.getrefcount


def _measure_alone() -> int:
    """The reference count that `Program.inputs` sees for an array which only its Storage holds."""
    cell = Storage(jax.ShapeDtypeStruct((), np.float32))
    donated = [c._value for c in [cell]]
    for _, value in enumerate(donated):
        return getrefcount(value)
    return 0


_ALONE = _measure_alone()
