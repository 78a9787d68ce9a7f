"""One traced call: the pure program, what it reads and writes, and the guards under which it may be run again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import repeat
from operator import attrgetter, is_, is_not
from typing import TYPE_CHECKING, Any, cast

import jax
import jax.numpy as jnp

from .._array import storage
from .._array.donation import Before, lent, own
from .._array.storage import Storage
from .._run import fork
from .._run.opnode import with_history
from .._run.sparse import SparseTensor
from .._tensor.node import accumulator
from .._tensor.tensor import Tensor, wrap
from .._tensor.tree import LEAF, Structure, builder
from .guards import Guards
from .handles import Made, Output
from .overlay import same_table
from .pending import Pending
from .places import Places
from .source import Source
from .stages import ProgramNode, Stage, hooks_of, run_recorded
from .tree import by_identity, cell_of

if TYPE_CHECKING:
    from . import checking

__all__ = ["Program", "Stale", "aval", "grads_of"]


_MISSING = object()


class Stale(Exception):
    """An input has another shape or dtype than the program was traced for."""


_value = attrgetter("_value")


def _nothing(_: Any) -> None:
    """Write nothing."""


def grads_of(tensors: Sequence[Any]) -> list[Any]:
    """Their gradients, computed if they are pending."""
    grads = [t._kept_grad for t in tensors]
    return grads if set(map(type, grads)) == {Tensor} else [t._grad for t in tensors]


def aval(value: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


class Program:
    """A traced function: ``jaxpr`` from inputs to outputs, where both come from and go to, and its guards."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []
        #: tensors that existed before (or the position of an argument) and have a new history after the call
        self.changed: list[Output] = []
        #: the tensors of `made` that have a history
        self.histories: list[Output] = []
        self.out_tree: Structure = LEAF
        self.cells: list[Storage] = []
        #: Storages, and `Bundle`s of small ones
        self.donated: list[Any] = []
        self.twins: dict[Storage, list[Storage]] = {}
        self.arg_inputs: list[int] = []
        #: those of them that are no Tensors
        self.arrays: list[int] = []
        #: of which types these and the numbers of the call are, which JAX keeps a way of calling for; () for its own
        self.kind: tuple[Any, ...] = ()
        self.grad_inputs: list[Any] = []
        #: `Gradients` of the members of a `Bundle`
        self.joined_grads: list[Any] = []
        self.number_inputs: list[tuple[Any, Any, Any]] = []
        self.held_numbers: dict[int, tuple[Any, Any]] = {}
        #: What the places of the numbers held when they were last compared, and the numbers by key; and those for whose
        #: inputs there are arrays, with these. Most calls come with the numbers of the call before.
        self.seen: tuple[list[Any], dict[Any, Any]] = ([_MISSING], {})
        self.held: tuple[dict[Any, Any], list[Any]] = ({}, [])
        self.draws: list[Callable[[], Any]] = []
        self.draw_inputs: list[int] = []
        self.cell_writes: list[tuple[Storage, int, int]] = []
        self.bundle_writes: list[tuple[Any, Any, int]] = []
        self.arg_writes: list[tuple[int, int, int]] = []
        #: how many writes to a Storage (or to an argument's) are not counted by it
        self.apart_writes: list[tuple[Any, int]] = []
        self.grad_writes: list[tuple[Any, str, Any]] = []
        self.number_writes: list[tuple[dict[Any, Any], Any, Callable[[dict[Any, Any]], Any]]] = []
        self.fill: list[tuple[Storage, int]] = []
        self.flag_writes: list[tuple[Any, bool]] = []
        self.detached: list[Any] = []
        self.mode_writes: list[tuple[Any, bool]] = []
        #: for `jax.jit`
        self.compiler_options: dict[str, Any] | None = None
        #: whether nothing has 64 bits: then the call does without the context for that, a tenth of a small one's time
        self.is_narrow = False
        self.places: Places | None = None
        #: of the Python values that the function read
        self.guards: Guards = cast(Any, None)
        self.made: Made = None  # type: ignore[assignment]
        #: tensors (or positions of arguments) whose gradients from before come out
        self.old_grads: list[Any] = []
        #: hooks to register after a call on tensors (or arguments), and how
        self.hook_writes: list[tuple[Any, str, Any]] = []
        #: the hooks that ran in the function's own backward passes, of tensors; and of arguments
        self.grad_hooks: list[tuple[Tensor, tuple[Any, ...]]] = []
        self.given_hooks: list[tuple[int, tuple[Any, ...]]] = []
        self.states: set[Storage] = set()
        #: positions of arguments, with the Storage of one that is also a variable of the function
        self.bound: list[tuple[int, Storage | None]] = []
        self.pending: Pending | None = None
        #: the checks of values that are made before a call, and those that the program makes (see `checking`)
        self.before: list[checking.Before] = []
        self.within: checking.Within | None = None
        self.packs: list[Any] = []
        self.kept: list[Storage] = []
        self.reusable = True
        #: whether the function changes a container that it was given
        self.changes_containers = False
        self.why_once = ""
        #: where gradients of the results lead to
        self.boundary: list[tuple[str, Any]] = []
        #: what stands in the way of second derivatives across the edge
        self.why_no_second = ""
        #: the parts of the walk there, the oldest first
        self.stages: list[Stage] = []
        self.epoch = -1
        self.calls = 0
        #: the list that it is in
        self.programs: Any = None
        #: see `write_functions`
        self.numbers_now: Callable[[], list[Any]] = list
        self.values_now: Callable[[], list[Any]] = list
        self.versions_now: Callable[[], list[int]] = list
        self.put: Callable[[Sequence[Any]], None] = _nothing
        self.count: Callable[[Sequence[int]], None] = _nothing
        #: found by the first call: whether more than Storages and gradients is written, whether the result is one leaf
        self.writes_more = True
        self.returns_one = False
        self.build_result: Callable[[list[Any]], Any] = list
        #: whether a call writes into arguments or gradients that were there
        self.writes_over = True
        #: found by the first call: whether one tensor is computed from Storages and arguments, and nothing else done
        self.is_pass = False

    # ---------------------------------------------------------------- guards

    def bind(self, leaves: Sequence[Any], variables: Collection[Storage]) -> None:
        """Note which arguments are variables of the function too: the program is for these very tensors only."""
        cells = [(i, cell_of(leaf)) for i, leaf in enumerate(leaves)]
        plain = [(i, cell) for i, cell in cells if cell is not None and not by_identity(leaves[i])]
        self.bound = [(i, cell if cell in variables else None) for i, cell in plain]

    def numbers(self, leaves: Sequence[Any]) -> dict[Any, Any] | str:
        """The values of the number inputs by key, or the reason why the program does not fit them."""
        places = self.numbers_now()
        if not self.arg_numbers and all(map(is_, places, self.seen[0])):
            return self.seen[1]
        env: dict[Any, Any] = {}
        for value, (name, (_, key, index, expected)) in zip(places, self.number_guards.items(), strict=True):
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
        self.seen = places, env
        return env

    def write_functions(self) -> None:
        """What every call does for each number and Storage: read numbers, values and versions, and write these."""
        source = Source()
        numbers = [
            f"{source.name(t)}.get({source.literal(key)})" for t, key, _, _ in self.number_guards.values()
        ]
        cells = [(source.name(cell), index, steps) for cell, index, steps in self.cell_writes]
        members = [(source.name(m), steps) for b, _, steps in self.bundle_writes for m in b.members]
        counted = [*((cell, steps) for cell, _, steps in cells), *members]
        versions = [f"{cell}.version" for cell, _ in counted]
        counts = [f"{cell}.version = versions[{k}] + {steps}" for k, (cell, steps) in enumerate(counted)]
        values = [f"{source.name(cell)}._value" for cell in (*self.donated, *self.cells)]
        self.values_now = source.function("values()", [f"return [{', '.join(values)}]"])
        self.numbers_now = source.function("numbers()", [f"return [{', '.join(numbers)}]"])
        self.versions_now = source.function("now()", [f"return [{', '.join(versions)}]"])
        self.put = source.function(
            "put(outs)", [f"{cell}._value = outs[{index}]" for cell, index, _ in cells]
        )
        self.count = source.function("count(versions)", counts)

    def _shared(self, leaves: Sequence[Any]) -> str:
        """Empty, or which argument is a variable of the function as it was not when that was traced."""
        for i, cell in self.bound:
            given = leaves[i]._storage
            if given is not cell and (cell is not None or given in self.states):
                return f"argument {i} {'was' if cell is not None else 'is'} also a variable of the function"
        return ""

    def is_ready(self, leaves: Sequence[Any]) -> bool:
        """Whether `run_pass` may be called, if it `is_pass`: a model without gradients needs no further guard."""
        return self.epoch == storage.epoch and not self._shared(leaves) and self.guards.match()

    def matches(self, leaves: Sequence[Any]) -> str:
        """Empty if the program may be run now, else the reason why not."""
        why = self._shared(leaves)
        if why:
            return why
        guards = self.guards
        if not guards.holds() or (guards.epoch != storage.attributes and not guards.match()):
            return guards.reason()
        for tensor, missing in self.grad_guards:
            if (tensor._kept_grad is None) is not missing:
                return f"a gradient {'appeared' if missing else 'is gone'}"
        for pack in self.packs:
            if not pack.tight and not pack.tighten():
                return "something else looks at the state of an optimizer"
        for first, others in self.twins.items():
            if any(map(is_not, map(_value, others), repeat(first._value))):
                return "the step counts of an optimizer's parameters, equal so far, are not any more"
        if self.places is not None:
            why = self.places.matches(leaves, self.states)
            if why:
                return why
        if self.given_hooks:
            given = leaves if self.places is None else [*leaves, *self.places.tensors]
            if not all(_has_hooks(given[i], hooks) for i, hooks in self.given_hooks):
                return "the hooks of a tensor changed"
        if self.epoch != storage.epoch:
            why = self._verify()
            if why:
                return why
            self.epoch = storage.epoch
        return ""

    def _verify(self) -> str:
        """The guards on structure, checked only after something structural changed somewhere."""
        for instance, training, tables in self.table_guards:
            if getattr(instance, "training", None) is not training:
                return f"{type(instance).__name__}.training changed to {instance.training}"
            for key, table in tables.items():
                if not same_table(instance.__dict__[key], table):
                    return f"{type(instance).__name__}{key} changed"
        for cls, table, before in self.shared_guards:
            if not same_table(table, before):
                return f"a hook of all {cls.__name__.lower()}s was added or removed"
        for tensor, flag, cell in self.tensor_guards:
            if flag is not None and tensor._requires_grad is not flag:
                return f"requires_grad of a tensor of shape {tuple(tensor.shape)} changed to {tensor._requires_grad}"
            if cell is not None and tensor._storage is not cell:
                return f"the data of a tensor of shape {tuple(tensor.shape)} was replaced"
        if not all(_has_hooks(*pair) for pair in self.grad_hooks):
            return "the hooks of a tensor changed"
        if not all(pack.is_intact() for pack in self.packs):
            return "the data of an optimizer's state was replaced"
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

    def inputs(self, leaves: Sequence[Any], env: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
        """The arrays to donate, and the other arrays and numbers in order."""
        kept = self.values_now()
        donated = []
        if self.donated:
            donated = kept[: self.gives]
            del kept[: self.gives]
            own(donated)
        for i in self.arg_inputs:
            leaf = leaves[i]
            if leaf.__class__ is Tensor and leaf._view is None:
                kept.append(leaf._storage._value)
            else:
                kept.append(leaf._value if isinstance(leaf, Tensor) else leaf)
        if self.grad_inputs:
            kept += [g._storage._value if g._view is None else g._value for g in grads_of(self.grad_inputs)]
        if self.joined_grads:
            kept += map(_value, self.joined_grads)
        kind: tuple[Any, ...] = ()
        if self.number_inputs:
            numbers = self.held[1] if env is self.held[0] else self._numbers(env)
            kind = () if env is self.held[0] else tuple(map(type, numbers))
            kept += numbers
        if self.arrays:
            kind += tuple([type(leaves[i]) for i in self.arrays])
        self.kind = kind
        if self.draws:
            with storage.x64():
                drawn = [draw() for draw in self.draws]  # all of them, in order: each moves the stream on
                kept += [jax.device_put(drawn[i].reshape(drawn[i].shape or (1,))) for i in self.draw_inputs]
        return donated, kept

    def _numbers(self, env: dict[Any, Any]) -> list[Any]:
        """The number inputs."""
        found = [self._number(k, env[name]) for k, name in enumerate(self.number_inputs)]
        if all(isinstance(x, jax.Array) for x in found):
            self.held = env, found
        return found

    def _number(self, position: int, value: Any) -> Any:
        """A number input. One that stays becomes an array, which a jitted call takes several times as fast."""
        seen, array = self.held_numbers.get(position, (None, None))
        if seen is not value:
            self.held_numbers[position] = value, None
            if not storage.is_guarded():
                return value
            array = None
        if array is None:
            with storage.x64(), jax.transfer_guard_host_to_device("allow"):
                array = jnp.asarray(value)
            self.held_numbers[position] = value, array
        return array

    def avals(self) -> tuple[list[Any], list[Any]]:
        """Shapes and dtypes of what ``pure(donated, kept)`` and ``jit`` take."""
        return self.input_avals[: len(self.donated)], self.input_avals[len(self.donated) :]

    @property
    def gives(self) -> int:
        """How many of the inputs are donated: fewer while gradients are pending, which may need them."""
        return len(self.donated) if self.pending is None else self.pending.safe

    def lower(self, platforms: Sequence[str] | None = None, **options: Any) -> Any:
        """What a call runs, lowered: ``.compile()`` tells its cost and memory, ``.as_text()`` its operations.

        Args:
            platforms: names of JAX's, such as ``("tpu",)``, which need not be here; that of the program unless given.
            options: for `jax.jit`, such as ``in_shardings`` and ``out_shardings`` on other devices than these.
        """
        with storage.x64():
            if self.pending is not None:
                traced = self.pending.trace(**options)
            elif platforms is None and not options:
                traced = self.jit.trace(*self.avals())
            else:
                traced = jax.jit(self.pure, donate_argnums=0, **options).trace(*self.avals())
            return traced.lower(lowering_platforms=platforms)

    def run_pass(self, leaves: Sequence[Any]) -> Tensor:
        """As `run`, where `is_ready`: a call then costs 3 us beside its program instead of 5."""
        for check in self.before:
            check(leaves)
        kept = [cell._value for cell in self.cells]
        for i in self.arg_inputs:
            kept.append(leaves[i]._value)
        self.calls += 1
        return wrap(self.jit([], kept)[self.outputs[0].index])

    def run(self, leaves: Sequence[Any], env: dict[Any, Any], first: bool = False) -> Any:
        """Run the compiled program on the current state and the call's arguments, and write the new state back.

        If an exception comes between, the state is that before the call, or that after it if the program has run.
        """
        if not storage.others():
            return self._run(leaves, env, first)
        with lent(self.donated):
            return self._run(leaves, env, first)

    def _run(self, leaves: Sequence[Any], env: dict[Any, Any], first: bool) -> Any:
        if self.places is not None:
            leaves = [*leaves, *self.places.tensors]
        if self.old_grads:
            leaves = [*leaves, *grads_of([leaves[t] if type(t) is int else t for t in self.old_grads])]
        for check in self.before:
            leaf = leaves[check.first] if check.first.__class__ is int else None
            if (
                leaf.__class__ is not Tensor
                or leaf._view is not None
                or leaf._storage._value is not check.good()
            ):
                check(leaves)
        results: list[Any] = []
        given: list[Any] = []
        versions = self.versions_now()
        before = self._before(leaves) if self.draws or self.flag_writes or self.writes_over else None
        refusal = None
        try:
            given += self.inputs(leaves, env)
            if self.is_narrow and self.pending is None:
                self.call.into(results, tuple(given), self.kind)
            else:
                with storage.x64():
                    if self.pending is None:
                        self.call.into(results, tuple(given), self.kind)
                    else:
                        self.pending.run(results, given[0], given[1], self.kind)
            refusal = None if self.within is None else self._refusal(results[0], given)
            if refusal is None:
                nodes, made = self._write(results[0], versions, given, leaves, env, first)
        except BaseException:
            if not results or self._refusal(results[0], given) is not None:
                self._undo(before)
                raise
            self.calls += 1
            try:
                self._write_again(before, results[0], versions, given, leaves, env, first)
            except BaseException:
                self._write_again(before, results[0], versions, given, leaves, env, first)
            raise
        if refusal is not None:
            self._undo(before)
            raise refusal
        self.calls += 1
        if first:
            self.made.settle()
            if self.places is not None:
                self.places.settle()
        outs = results[0]
        if self.returns_one:
            result = self._leaf(self.outputs[0], outs, leaves, env, nodes, made)
        else:
            result = self.build_result([self._leaf(o, outs, leaves, env, nodes, made) for o in self.outputs])
        for target, how, hook in self.hook_writes if not first else ():
            register = getattr(leaves[target] if type(target) is int else target, how)
            register(*([] if hook is None else [hook]))
        return result

    def _refusal(self, outs: Sequence[Any], given: Sequence[Any]) -> Exception | None:
        """The error of a check that failed. The program then gave back what it was given for good, as it was."""
        failed = None if self.within is None else self.within.failed(outs)
        if failed is None:
            return None
        for cell, index, _ in self.cell_writes:
            if cell in self.donated:
                cell._value = outs[index]
        for bundle, index, _ in self.bundle_writes:
            bundle.put(outs[index])
        return self.within.error(failed, [*outs[: len(self.donated)], *given[1]])  # type: ignore[union-attr]

    # what an exception in the middle needs

    def _before(self, leaves: Sequence[Any]) -> Any:
        """What `_undo` puts back, of what few programs write."""
        tensors = [leaves[i] for i, _, _ in self.arg_writes]
        grads = [leaves[t] if type(t) is int else t for t, kind, _ in self.grad_writes if kind == "slot"]
        written = Before([*tensors, *(t._grad for t in grads if t._grad is not None)])
        flagged = [leaves[t] if type(t) is int else t for t, _ in self.flag_writes]
        generators = {id(draw.generator): draw.generator for draw in self.draws}.values()
        streams = [(g.stream, g.stream.get()) for g in generators]
        return written, [(t, t._requires_grad) for t in flagged], streams

    def _undo(self, before: Any) -> None:
        """The program has not run: what came before that is taken back."""
        if before is not None:
            written, flags, streams = before
            written.undo()
            for tensor, flag in flags:
                tensor._requires_grad = flag
            for stream, state in streams:
                stream.set(state)

    def _write_again(self, before: Any, *call: Any) -> None:
        """The program has run: what was written of its results is written once more, and all the rest."""
        if before is not None:
            before[0].undo()
        self._write(*call)

    def _write(
        self,
        outs: Sequence[Any],
        versions: Sequence[int],
        given: Sequence[Any],
        leaves: Sequence[Any],
        env: dict[Any, Any],
        first: bool,
    ) -> tuple[Any, Sequence[Tensor]]:
        """Write the results back; returns the nodes of the call on the tape, and the tensors left in places.

        To write twice is to write once, but for the versions that `_before` looks after.

        Args:
            versions: those before the call, of the Storages that it writes. The trace has counted for the first call.
        """
        if self.pending is not None:
            self.pending.note(*given)
        self.put(outs)
        for bundle, index, _ in self.bundle_writes:
            bundle.put(outs[index])
        if not first:
            self.count(versions)
        grad_writes = self.grad_writes if self.pending is None else self.pending.others
        made: Sequence[Tensor] = []
        if first or self.writes_more or grad_writes:
            made = self._write_rest(outs, leaves, env, first, grad_writes)
        if not self.boundary:
            return None, made
        return self._record(outs, leaves, made, self._edges(leaves), [*given[0], *given[1]]), made

    def _write_rest(
        self,
        outs: Sequence[Any],
        leaves: Sequence[Any],
        env: dict[Any, Any],
        first: bool,
        grad_writes: Sequence[tuple[Any, str, Any]],
    ) -> Sequence[Tensor]:
        """What most programs do not write; returns the tensors that were made otherwise than as a value."""
        for i, index, steps in self.arg_writes:
            tensor = leaves[i]
            if tensor._view is None:
                tensor._storage._value = outs[index]
                if not first:
                    tensor._storage.version += steps
            else:
                tensor._set_value(outs[index])
        for target, steps in self.apart_writes if not first else ():
            (leaves[target]._storage if type(target) is int else target).apart += steps
        if first:
            for cell, index in self.fill:
                cell._value = outs[index]
            self.fill = []
        made = self.made.make(outs, leaves, first) if self.made.handles else []
        if self.places is not None:
            self.places.leave(leaves, made)
        for target, kind, what in grad_writes:
            tensor = leaves[target] if type(target) is int else target
            if kind == "none":
                tensor._grad = None
            elif kind == "new":
                tensor._grad = wrap(outs[what])
            elif kind == "sparse":
                indices, values, *rest = what
                tensor._grad = SparseTensor._make(wrap(outs[indices]), wrap(outs[values]), *rest)
            elif kind == "slot":
                cell = tensor._grad._storage
                cell._value = outs[what]
                if not first:
                    cell.version += 1
            elif kind == "place":
                tensor._grad = made[what]
            elif kind == "given":
                tensor._grad = leaves[what]
            else:
                tensor._grad = what
        for table, key, rule in self.number_writes:
            table[key] = rule(env)
        self.guards.write(env)
        for tensor, flag in self.flag_writes:
            (leaves[tensor] if type(tensor) is int else tensor)._requires_grad = flag
        for tensor in self.detached:
            target = leaves[tensor] if type(tensor) is int else tensor
            target._grad_fn, target._output_nr, target._requires_grad = None, 0, False
        for module, mode in self.mode_writes:
            module.__dict__["training"] = mode
        if first:
            rest = (
                self.arg_writes,
                self.apart_writes,
                self.places,
                self.number_writes,
                self.flag_writes,
                self.detached,
            )
            self.writes_more = any([*rest, self.mode_writes, self.made.handles, self.guards.writes])
            self.returns_one = self.out_tree == LEAF
            self.build_result = builder(self.out_tree)
            self.writes_over = bool(self.arg_writes) or any(kind == "slot" for _, kind, _ in self.grad_writes)
            self.is_pass = self._is_pass(leaves)
        return made

    def _is_pass(self, leaves: Sequence[Any]) -> bool:
        out = self.outputs[0] if self.returns_one else None
        if out is None or out.kind != "tensor" or out.value is not None or out.version:
            return False
        if not self.is_narrow or self.call.needs:
            return False
        if not all(isinstance(leaves[i], Tensor) for i in self.arg_inputs):
            return False
        guards = (self.number_guards, self.arg_numbers, self.predicates, self.grad_guards, self.guards.flags)
        inputs = (self.donated, self.grad_inputs, self.joined_grads, self.number_inputs, self.draws)
        writes = (
            self.cell_writes,
            self.bundle_writes,
            self.grad_writes,
            self.writes_more,
            self.kept,
            self.hook_writes,
        )
        others = (self.guards.slots[0], self.packs, self.twins, self.pending, self.within)
        return not any([*guards, *inputs, *writes, *others])

    def _leaf(
        self,
        out: Output,
        outs: Sequence[Any],
        leaves: Sequence[Any],
        env: dict[Any, Any],
        nodes: Any,
        made: Sequence[Tensor],
    ) -> Any:
        if out.kind == "tensor":
            tensor = _output(outs, out, nodes)
            if out.value is not None:
                shared = made[out.value] if type(out.value) is int else out.value
                tensor._storage = shared._storage
            return tensor
        if out.kind == "place":
            return made[out.value]
        if out.kind == "arg":
            return leaves[out.value]
        if out.kind == "array":
            return outs[out.index]
        if out.kind == "number":
            return out.value(env)
        return out.value

    # ----------------------------------------------- gradients across the edge

    def _edges(self, leaves: Sequence[Any]) -> list[Any]:
        """Where gradients go from here. A tensor that the call makes has its edge later."""
        for tensor, flag in self.flag_writes:
            if flag:  # `requires_grad_()` comes before what is recorded of it, False after what was
                (leaves[tensor] if type(tensor) is int else tensor)._requires_grad = True
        return [
            None if kind == "made" else _edge(leaves[what] if kind == "arg" else what)
            for kind, what in self.boundary
        ]

    def _record(
        self,
        outs: Sequence[Any],
        leaves: Sequence[Any],
        made: Sequence[Tensor],
        boundary: list[Any],
        values: list[Any],
    ) -> list[ProgramNode]:
        """The call as an operation on the tape: its outputs have gradients to tensors outside."""
        for i, (kind, what) in enumerate(self.boundary):
            if kind == "made":
                boundary[i] = _edge(made[what])
        nodes: list[ProgramNode] = []
        for stage in self.stages:
            edges = [
                None if e is None else boundary[e[1]] if e[0] is None else (nodes[e[0]], e[1])
                for e in stage.edges
            ]
            nodes.append(ProgramNode(self, stage, edges, outs, values, boundary, nodes))
        for out in self.histories:
            if out.requires_grad:
                _give_history(made[out.value], out, nodes)
        for number in self.made.retaining:
            made[number].retain_grad()
        for out in self.changed:
            if out.requires_grad:
                target = leaves[out.value] if type(out.value) is int else out.value
                target._continue_from(_output(outs, out, nodes))
        return nodes

    def residuals_of(self, node: ProgramNode) -> Sequence[Tensor]:
        """What the walk of ``node`` takes from the forward pass, with its history, for a second derivative."""
        if any(kind == "made" for kind, _ in self.boundary):
            raise NotImplementedError(
                "create_graph=True through a compiled function that returns a leaf made inside it which requires grad: "
                "make the leaf outside, or do not compile the function"
            )
        if self.why_no_second:
            raise NotImplementedError(
                f"create_graph=True through a compiled function with {self.why_no_second}: do not compile the "
                "function, or differentiate inside of it"
            )
        which = node.stage.residuals

        def residuals(*values: Any) -> tuple[Any, ...]:
            outs = self.pure(list(values[: len(self.donated)]), list(values[len(self.donated) :]))
            return tuple([outs[i] for i in which])

        edges = dict(zip(self.boundary_inputs, node.boundary, strict=True))
        inputs = [with_history(v, edges[i]) if i in edges else v for i, v in enumerate(node.values)]
        return run_recorded(residuals, inputs, len(which))


fork.leads_to_jax(Program, "run_pass")


def _has_hooks(tensor: Tensor, hooks: tuple[Any, ...]) -> bool:
    now = hooks_of(tensor)
    return len(now) == len(hooks) and not any(map(is_not, now, hooks))


def _edge(tensor: Tensor) -> Any:
    return (accumulator(tensor), 0) if tensor.grad_fn is None else (tensor._grad_fn, tensor._output_nr)


def _output(outs: Sequence[Any], out: Output, nodes: Any) -> Tensor:
    """One of the program's arrays as a Tensor, with its history."""
    tensor = wrap(outs[out.index])
    if out.version:
        tensor._storage.version = out.version
    if out.requires_grad and nodes is not None:
        _give_history(tensor, out, nodes)
    return tensor


def _give_history(tensor: Tensor, out: Output, nodes: Sequence[Any]) -> None:
    tensor._requires_grad, tensor._grad_fn, tensor._output_nr = True, nodes[out.stage], out.number
