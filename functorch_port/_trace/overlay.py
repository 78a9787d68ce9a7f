"""What a trace sees of the program's state, and how to undo what the traced Python code did to it.

While a function is traced, `tracing.overlay` is an `Overlay`. Storages that existed before keep their real
values: reads
give the tracer that stands for them, writes go to a table. Storages made during the trace simply hold tracers. Python
structure that the function may change (gradients, optimizer dicts, module dicts, flags) is remembered when
first touched,
so that a failed trace can be undone and a finished one replayed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array.placed import sharding_of
from .._array.refusal import Check
from .._array.sizes import Symbols
from .._array.storage import Storage
from .._array.symbolic import SymNumber
from .._base import inside
from .._tensor.cells import device_of
from .._tensor.node import Node
from .._tensor.tensor import Tensor
from .names import variable_of
from .pending import Pending
from .slots import Slot, find
from .stateful import fields_of, kind_of, tables_of

__all__ = ["Overlay", "same_table"]

_NUMBER = (int, float)


def is_number(x: Any) -> bool:
    """A plain Python number that may become an input of the program (a bool is a flag, not a number)."""
    return type(x) in _NUMBER


def is_concrete(value: Any) -> bool:
    """Whether a Storage's value is an array that a program may take as an input."""
    if isinstance(value, np.ndarray):
        return True
    return isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer) and not value.is_deleted()


def is_described(value: Any) -> bool:
    """Whether it says what a Storage's value would be, on the meta device."""
    return isinstance(value, jax.ShapeDtypeStruct)


def _is_traced(value: Any) -> bool:
    return isinstance(value, jax.core.Tracer)


class Overlay:
    """The state of one trace.

    Attributes:
        tracers: Storage -> the tracer that stands for its value.
        numbers: key of a Python number -> (value, tracer).
        twins: Storages that hold one array together with others -> the first of them. They are one input.
        env: Storage -> its current value, for those that were read or written.
        kernels: whether it may have kernels that XLA cannot split over devices.
        taken_on_purpose: the first Storage read whose value was put on its device on purpose.
        written: the pre-existing Storages that were assigned, with `version` and `apart` from before.
        grads: pre-existing Tensor -> what its ``.grad`` is now, for those whose ``.grad`` was assigned.
        grad_reads: pre-existing Tensor -> its ``.grad`` before the trace, for those whose ``.grad`` was read first.
        fixed: keys of numbers whose plain value was asked for.
        predicates: tests on numbers that the function branched on, with their outcomes.
        stateful: modules and optimizers that were used -> copies of their tables from before, by name.
        shared: tables that all instances of a class have in common, with copies.
        modes: module -> whether it was in training mode before, for those whose mode was set.
        watched: the places where the last trace left tensors.
        holders: other places that held these tensors, or arguments, before.
        sources: pre-existing tensors that were looked at through ``detach()``.
        reads: what the function reads besides tensors.
        learned: the Storages of tensors that require grad, of those that operations took.
        local: whether the program stays in this process, so that it may use lowerings of our own.
        checks: what the program is to check of values; None if it checks nothing.
        described: the device that the program is for, if state on the meta device counts, as in `Compiled.described`.
        xla: options for the compiler of the program.
        symbols: of sizes that the program does not know; None if it knows all.
        rebinds: whether tensors may get another Storage, which a program of values alone cannot say.
        data: pre-existing tensors that got one -> the Storage, the view and the base from before.
        across: what is known of other processes, if each computes with tensors of its own (see `across`).
        fn: the function that is traced.
        inside: the Storages that were made in the trace, in their order.
        has_run_backward: whether a backward pass has run, and no forward pass since.
        tensor_hooks: hooks registered on pre-existing tensors: the tensor, how, the hook, its handle.
    """

    transforms = False

    def __init__(
        self,
        rng: str = "jax",
        watched: Sequence[Slot] = (),
        arguments: Sequence[Any] = (),
        local: bool = False,
        checks: bool = False,
        described: Any = None,
    ) -> None:
        self.rng = rng
        self.described = described
        self.rebinds = local
        self.learned: weakref.WeakSet[Storage] = weakref.WeakSet()
        self.local = local and described is None  # what is described is for another machine
        self.checks: list[Check] | None = [] if checks else None
        self.watched = [slot for slot in watched if slot.get() is not None]
        for slot in self.watched:
            slot.watch()
        olds = [slot.old for slot in self.watched]
        tensors = [t for old in olds for t in old if isinstance(t, Tensor)]
        passed = [a for leaves in arguments for a in leaves if watched and isinstance(a, Tensor)]
        several = list({id(t): t for t in (*tensors, *passed)}.values())
        self.holders = set(find(several, (*olds, passed, *arguments), known=tensors))
        self.reads: Any = None
        self.symbols: Symbols | None = None
        self.xla: dict[str, Any] | None = None
        self.across: Any = None
        #: what JAX traces while the function runs, unless that calls a transform of JAX itself (see `_base.inside`)
        self.top: Any = None
        self.has_functions = False
        self.fn: Callable[..., Any] | None = None
        self.tracers: dict[Storage, Any] = {}
        self.numbers: dict[Any, tuple[Any, Any]] = {}
        self.env: dict[Storage, Any] = {}
        self.taken_on_purpose: Storage | None = None
        self.kernels = True
        self.written: dict[Storage, tuple[int, int]] = {}
        self.inside: weakref.WeakKeyDictionary[Storage, None] = weakref.WeakKeyDictionary()
        self.made: dict[int, weakref.ref[Tensor]] = {}
        self.sources: dict[Tensor, None] = {}
        self.missed: list[Storage] = []
        self.twins: dict[Storage, Storage] = {}
        self.promises: set[Pending] = set()
        self.grads: dict[Tensor, Tensor | None] = {}
        self.grad_reads: dict[Tensor, Tensor | None] = {}
        self.fixed: set[Any] = set()
        self.predicates: list[tuple[Callable[[dict[Any, Any]], Any], bool]] = []
        self.tensors: dict[Tensor, bool] = {}
        self.histories: dict[Tensor, tuple[Any, ...]] = {}
        self.flags: dict[Tensor, bool] = {}
        self.stateful: dict[Any, dict[str, dict[Any, Any]]] = {}
        self.shared: dict[int, tuple[type, dict[Any, Any], dict[Any, Any]]] = {}
        self.modes: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self.optimizers: dict[Any, OptimizerSnapshot] = {}
        self.edges: dict[tuple[Node, int], Tensor] = {}
        self.has_run_backward = False
        self.draws: list[tuple[Callable[[], Any], Any]] = []
        self.data: dict[Tensor, tuple[Storage, Any, Any]] = {}
        self.tensor_hooks: list[tuple[Tensor, str, Any, Any]] = []

    @contextmanager
    def within(self, top: Any) -> Iterator[None]:
        """Take what is written for values of this trace although JAX is in ``top``: a transform of ours writes them."""
        before, self.top = self.top, top
        try:
            yield
        finally:
            self.top = before

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Forget at the end what is written, if a walk back is traced, which is a program of its own."""
        top = inside.top_trace(None)
        if top is self.top:
            yield
            return
        env, written = self.env, self.written
        self.env, self.written = dict(env), dict(written)
        try:
            with self.within(top):
                yield
        finally:
            for cell in self.written.keys() - written.keys():
                cell.version, cell.apart = self.written[cell]
            self.env, self.written = env, written

    # ------------------------------------------------------- Storage's hooks

    def device(self) -> Any:
        """Where the program runs: where a tensor is that was put there on purpose (JAX's rule), else where the first is
        that it takes. None if there is none.
        """
        if self.described is not None:
            return self.described
        cell = self.taken_on_purpose
        if cell is None and self.env:
            cell = next(iter(self.env))
        elif cell is None:  # it has taken none yet: any of those that it might
            cells = list(self.tracers or self.missed)
            there = (cell for cell in cells if getattr(cell.held, "committed", False))
            cell = next(there, cells[0] if cells else None)
        sharding = None if cell is None else sharding_of(cell)
        if sharding is not None:  # it may be kept on the hosts
            return device_of(sharding)
        return None if cell is None else cell.device

    def place_of_described(self, cell: Storage) -> Any:
        """The device that a Storage on the meta device stands for one on; None if that is what it is."""
        return self.described if self.takes(cell.array()) and cell not in self.inside else None

    def takes(self, value: Any) -> bool:
        """Whether a Storage with this value is state of the program."""
        return is_concrete(value) or (self.described is not None and is_described(value))

    def read(self, cell: Storage) -> Any:
        if cell in self.env:
            return self.env[cell]
        if cell in self.inside:
            return cell.array()
        tracer = self.tracers.get(cell)
        if tracer is None:
            if self.takes(cell.array()):
                self.missed.append(cell)
            return cell.array()
        self.env[cell] = tracer
        if getattr(cell.held, "committed", False):
            if self.taken_on_purpose is None:
                self.taken_on_purpose = cell
            sharding = sharding_of(cell)
            self.kernels = self.kernels and (sharding is None or len(sharding.device_set) == 1)
        return tracer

    def write(self, cell: Storage, value: Any) -> None:
        if cell in self.inside:
            cell.put(value)
            return
        if inside.top_trace(None) is not self.top:
            inside.may_write(cell, value)
        self.written.setdefault(cell, (cell.version - 1, cell.apart))
        self.env[cell] = value

    def created(self, cell: Storage) -> None:
        self.inside[cell] = None

    def note_backward(self) -> None:
        """A backward pass has run."""
        self.has_run_backward = True

    def begin_forward(self) -> None:
        """Have what follows come after the backward pass that has run: all that the function may still use does.

        Where it computes a batch in parts, these do not depend on each other. XLA would be free to do all forward
        passes first, and to keep what each of them saves.
        """
        self.has_run_backward = False
        made = [cell for cell in self.inside if _is_traced(cell.held)]
        outside = {cell: value for cell, value in self.env.items() if _is_traced(value)}
        values, others = jax.lax.optimization_barrier(([cell.held for cell in made], [*outside.values()]))
        for cell, value in zip(made, values):
            cell.held = value
        self.env.update(zip(outside, others))

    def note_made(self, tensor: Tensor, source: Tensor | None = None) -> None:
        """A tensor made in the trace that shares its Storage: a view, or `detach()` of ``source``."""
        self.made[id(tensor)] = weakref.ref(tensor)
        if source is None:
            return
        if source._requires_grad:
            self.learned.add(source._storage)
        if self.is_outside(source):
            self.sources[source] = None

    def notes(self) -> list[Any]:
        """The containers in which tensors are only because of the trace."""
        before = [items for snapshot in self.optimizers.values() for _, _, items in snapshot.state]
        tables = [
            self.tensors,
            self.sources,
            self.flags,
            self.histories,
            self.grads,
            self.grad_reads,
            self.data,
        ]
        tables += [*self.data.values(), *self.tensor_hooks]
        return [*tables, *before, *(slot.old for slot in self.watched), *self.reads.notes()]

    def is_outside(self, tensor: Tensor) -> bool:
        """Whether the tensor itself existed before the trace."""
        if tensor in self.data:
            return True
        if tensor._storage in self.inside:
            return False
        made = self.made.get(id(tensor))
        return made is None or made() is not tensor

    # -------------------------------------------------------- Tensor's hooks

    def get_grad(self, tensor: Tensor) -> Tensor | None:
        if tensor in self.grads:
            return self.grads[tensor]
        kept: Any = tensor._kept_grad
        if isinstance(kept, Pending):
            self.promises.add(kept)
            grad = kept.promised[[t is tensor for t in kept.targets].index(True)]
            self.grad_reads.setdefault(tensor, grad)
            return grad
        if self.is_outside(tensor):
            if tensor._grad is not None and tensor._grad._sparse:
                raise NotImplementedError(
                    "a compiled function cannot take in a sparse gradient from before the call: call zero_grad() in it "
                    "before backward(), or step outside"
                )
            self.grad_reads.setdefault(tensor, tensor._grad)
        return tensor._grad

    def set_grad(self, tensor: Tensor, grad: Tensor | None) -> None:
        if self.is_outside(tensor):
            if inside.top_trace(None) is not self.top:
                inside.may_rebind(tensor, grad, "gets another gradient")
            self.grads[tensor] = grad
        else:
            tensor._grad = grad

    def note_flag(self, tensor: Tensor, old: bool) -> None:
        """``requires_grad`` of a tensor is about to change."""
        if self.is_outside(tensor):
            self.flags.setdefault(tensor, old)
            self.tensors.setdefault(tensor, old)

    def note_data(self, tensor: Tensor) -> None:
        """A tensor is about to get another Storage."""
        if self.is_outside(tensor):
            self.data.setdefault(tensor, (tensor._storage, tensor._view, tensor._base))

    def note_part(self, tensor: Tensor, name: str) -> None:
        """A part of a sparse tensor is about to be read."""
        if self.is_outside(tensor):
            self.reads.part(tensor, name)

    def note_methods(self, kind: type, names: Iterable[str]) -> None:
        """Methods of a class are about to be called."""
        self.reads.methods(kind, names)

    def note_hook(self, tensor: Tensor, how: str, hook: Any = None, handle: Any = None) -> None:
        """``tensor.<how>(hook)`` was called, and gave the handle."""
        if self.is_outside(tensor):
            self.tensor_hooks.append((tensor, how, hook, handle))

    def note_history(self, tensor: Tensor) -> None:
        """The autograd metadata of a tensor is about to change."""
        if self.is_outside(tensor):
            self.tensors.setdefault(tensor, tensor._requires_grad)
            self.histories.setdefault(
                tensor,
                (
                    tensor._requires_grad,
                    tensor._grad_fn,
                    tensor._output_nr,
                    tensor._version_seen,
                    tensor._hooks,
                ),
            )

    def note_inputs(self, dyn: Sequence[Any]) -> None:
        """Tensors that an operation takes: their ``requires_grad`` is what the trace depends on."""
        for a in dyn:
            if isinstance(a, Tensor):
                if a._requires_grad:
                    self.learned.add(a._storage)
                if a not in self.tensors and self.is_outside(a):
                    self.tensors[a] = a._requires_grad
                    self.reads.tensor(a)

    def note_edges(self, dyn: Sequence[Any], edges: Sequence[Any]) -> None:
        """Where gradients would leave the trace."""
        for a, edge in zip(dyn, edges, strict=True):
            if edge is not None and self.is_outside(a):
                self.edges.setdefault(edge, a)

    def note_function(self) -> None:
        """An `autograd.Function` was recorded, whose derivative is not JAX's."""
        self.has_functions = True

    # ------------------------------------------------------- structure hooks

    def variable_of(self, value: Any) -> str | None:
        """What the traced function calls a value."""
        return None if self.fn is None else variable_of(self.fn, value)

    def note_stateful(self, instance: Any) -> None:
        """A module is called, or an optimizer steps (see `stateful`)."""
        kind = kind_of(instance)
        if kind is None or instance in self.stateful:
            return
        self.stateful[instance] = tables_of(instance)
        for table in kind.shared:
            self.shared.setdefault(id(table), (kind.cls, table, dict(table)))
        if kind.steps:
            snapshot = self.optimizers[instance] = OptimizerSnapshot(instance)
            snapshot.put_symbols(self)  # now that they are put back whatever comes
        if self.reads is not None:
            self.reads.add(instance, type(instance).__name__)

    def note_mode(self, module: Any) -> None:
        """A module's mode is about to be set."""
        if "training" in (fields_of(module) or ()):
            self.modes.setdefault(module, module.training)

    def note_changed(self, module: Any) -> None:
        """A module has just changed for good (a lazy one got its parameters): undoing the trace leaves it so."""
        if module in self.stateful:
            self.stateful[module] = tables_of(module)
            self.reads.keep(module)

    def note_check(self, check: Check) -> None:
        """A check of values that only a call knows."""
        if self.checks is not None:
            self.checks.append(check)

    def guard_numbers(self, sources: frozenset[Any]) -> None:
        self.fixed |= sources

    def guard_predicate(self, predicate: Callable[[dict[Any, Any]], Any], outcome: bool) -> None:
        self.predicates.append((predicate, outcome))

    def host_draw(self, draw: Any) -> Any:
        """A random array from the host's stream, drawn at every call of the compiled program and not yet.

        Raises:
            NotImplementedError: for numbers whose count in the stream depends on what only the program knows.

        The constant that stands for it has at least one dimension, as JAX would write a 0-dim one into the program.
        """
        if draw.unknown:
            raise NotImplementedError(
                f'{draw.kind} numbers in a function compiled with rng="torch": how far they move the stream on depends '
                "on values that only the program knows. Draw them outside and pass them in, or compile without rng"
            )
        with jax.ensure_compile_time_eval():
            stand_in = jnp.zeros(draw.shape or (1,), draw.dtype.np)
        drawn = jax.lax.optimization_barrier(stand_in)
        if not isinstance(drawn, jax.core.Tracer):  # the program would have the zeros
            raise RuntimeError(
                "JAX computes with constants at once in this thread, since an interrupt came where it does so for a "
                "while: random numbers cannot become inputs of a program. Go on in another thread, or start again"
            )
        self.draws.append((draw, stand_in))
        return drawn.reshape(draw.shape)

    def data_dependent(self, name: str, instead: str) -> str:
        return (
            f"{name.lstrip('_')}() has an output whose shape depends on values, which a compiled function cannot have. "
            f"Call it outside, or use {instead}."
        )

    # ---------------------------------------------------------------- undo

    def restore_data(self) -> None:
        """Have the tensors look at the Storages from before."""
        for tensor, (cell, view, base) in self.data.items():
            tensor._storage, tensor._view, tensor._base = cell, view, base

    def undo(self, structure: bool = True) -> None:
        """Put everything back as it was before the trace (without ``structure``: but for state that was made
        up front).
        """
        for slot in self.watched:
            slot.restore()
        self.reads.undo()
        self.restore_data()
        for tensor, _, _, handle in self.tensor_hooks:
            if handle is not None:
                handle.remove()
            else:
                tensor._retains_grad = False
        for cell, (version, apart) in self.written.items():
            cell.version, cell.apart = version, apart
        for tensor, history in self.histories.items():
            tensor._requires_grad, tensor._grad_fn, tensor._output_nr = history[:3]
            if tensor._version_seen != history[3]:
                tensor._version_seen = history[3]
            tensor._hooks = history[4]
        for tensor, flag in self.flags.items():
            tensor._requires_grad = flag
        for snapshot in self.optimizers.values() if structure else ():
            snapshot.undo()
        for module, mode in self.modes.items():
            module.__dict__["training"] = mode
        for instance, tables in self.stateful.items():
            for key, table in tables.items():
                current = instance.__dict__[key]
                if not same_table(current, table):  # tensors compare by value
                    current.clear()
                    current.update(table)


def same_table(a: dict[Any, Any], b: dict[Any, Any]) -> bool:
    """Whether two tables hold the same objects in the same order."""
    return list(a) == list(b) and all(a[k] is b[k] for k in a)


def number_slots(optimizer: Any) -> list[tuple[dict[Any, Any], Any, int | None]]:
    """Where an optimizer keeps Python numbers: (dict, key, position in a tuple or None)."""
    slots: list[tuple[dict[Any, Any], Any, int | None]] = []
    for table in (*optimizer.param_groups, *optimizer.state.values()):
        if not isinstance(table, dict):
            continue
        for key, value in list(table.items()):  # other threads may add entries meanwhile
            if is_number(value):
                slots.append((table, key, None))
            elif type(value) is tuple and value and all(is_number(v) for v in value):
                slots.extend((table, key, i) for i in range(len(value)))
    return slots


class OptimizerSnapshot:
    """An optimizer before the trace touched it; its numbers are symbolic while the trace runs."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.groups = [(g, dict(g), list(g["params"])) for g in optimizer.param_groups]
        self.state = [(p, d, dict(d)) for p, d in optimizer.state.items() if isinstance(d, dict)]
        self.premade = dict(getattr(optimizer, "_premade", None) or {})
        self.symbols: dict[tuple[int, Any, int | None], SymNumber] = {}
        self.tables = {id(t): t for t in (*optimizer.param_groups, *optimizer.state.values())}

    def put_symbols(self, overlay: Overlay) -> None:
        """Have the overlay's symbolic numbers stand where the optimizer's numbers are."""
        by_tuple: dict[tuple[int, Any], list[Any]] = {}
        for table, key, index in number_slots(self.optimizer):
            name = (id(table), key, index)
            found = overlay.numbers.get(name)
            if found is None:
                continue
            symbol = self.symbols[name] = SymNumber(
                found[0], found[1], frozenset({name}), lambda env, n=name: env[n]
            )
            if index is None:
                table[key] = symbol
            else:
                by_tuple.setdefault((id(table), key), list(table[key]))[index] = symbol
        for (table_id, key), items in by_tuple.items():
            self.tables[table_id][key] = tuple(items)

    def restore_numbers(self) -> list[tuple[dict[Any, Any], Any, Callable[[dict[Any, Any]], Any]]]:
        """Put plain numbers back; returns (dict, key, rule) for those that the step changed."""
        changed = []
        for table in (*self.optimizer.param_groups, *self.optimizer.state.values()):
            if not isinstance(table, dict):
                continue
            for key, value in list(table.items()):
                if isinstance(value, SymNumber):
                    mine = self.symbols.get((id(table), key, None))
                    if mine is not value:
                        changed.append((table, key, value.rule))
                    table[key] = value.value if mine is None else mine.value
                elif type(value) is tuple and any(isinstance(v, SymNumber) for v in value):
                    table[key] = tuple(v.value if isinstance(v, SymNumber) else v for v in value)
        return changed

    def undo(self) -> None:
        for group, items, params in self.groups:
            group.clear()
            group.update(items)
            group["params"][:] = params
        self.optimizer.param_groups[:] = [g for g, _, _ in self.groups]
        self.optimizer.state.clear()
        for p, table, items in self.state:
            table.clear()
            table.update(items)
            self.optimizer.state[p] = table
        if getattr(self.optimizer, "_premade", None) is not None:
            self.optimizer._premade = self.premade
