"""One traced call: a pure program, where its inputs come from and its outputs go, and the guards for the next call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._array import placed, tracing
from .._array.donation import lent
from .._array.placed import is_shared
from .._array.value import OTHERS, arrays_of
from .._base import agreement, meshes
from .._run import fork
from .._tensor.tensor import Tensor, wrap
from .across import INPUTS, text_of
from .comparing import before_call
from .effects import Effects, FirstCall, Undo
from .ends import Ends
from .executable import Executable
from .guards import Guards
from .inputs import Inputs
from .results import Computed, Results
from .rows import Rows, own_copies
from .stages import Recording
from .whole import Whole

if TYPE_CHECKING:
    from . import checking

__all__ = ["Program", "Unclear"]


class Unclear(Exception):
    """A check of values failed in a program that serves many sizes: the error is what one for these sizes raises."""


class Program:
    """A traced function. A call asks the ``guards`` whether it may be run, gathers the ``inputs``, gives them to the
    ``executable``, and makes the ``effects`` and ``results`` of what that returns.

    Attributes:
        recording: how a call is recorded on the tape, if its outputs are differentiated outside.
        before: the checks of values that are made before a call.
        within: those that the program makes.
        ends: where the results end that have padding.
        rows: which inputs and results are of this process, where it is one of several that run the program together.
        whole: how it computes on the devices of several processes with what is the same in all.
        calls: how often it was run, but in the short way.
        quick: the short way of a call, if there is one; known after the first call.
    """

    def __init__(
        self,
        inputs: Inputs,
        executable: Executable,
        results: Results,
        effects: Effects,
        guards: Guards,
        recording: Recording | None = None,
        before: Sequence[checking.Before] = (),
        within: checking.Within | None = None,
        ends: Ends | None = None,
        rows: Rows | None = None,
        whole: Whole | None = None,
    ) -> None:
        self.inputs, self.executable, self.results = inputs, executable, results
        self.effects, self.guards, self.recording = effects, guards, recording
        self.before, self.within, self.ends, self.rows = before, within, ends, rows
        self.whole = whole
        several = whole if rows is None else rows
        self.flags = None if several is None else several.flags
        self.calls, self._text = 0, ""
        self.quick: Pass | None = None
        self._undoes = Undo.is_needed(effects, inputs.draws)

    def lower(self, platforms: Sequence[str] | None = None, **options: Any) -> Any:
        """What a call runs, lowered (see `Executable.lower`)."""
        return self.executable.lower(platforms, **options)

    def run(self, leaves: Sequence[Any], env: dict[Any, Any], first: FirstCall | None = None) -> Any:
        """Run the compiled program on the current state and the call's arguments, and write the new state back.

        If an exception comes between, the state is that before the call, or that after it if the program has run.

        Args:
            env: the Python numbers by name.
            first: for the call that the program was traced for.
        """
        if not tracing.others():
            return self._run(leaves, env, first)
        with lent(self.inputs.donated):
            return self._run(leaves, env, first)

    def _run(self, leaves: Sequence[Any], env: dict[Any, Any], first: FirstCall | None) -> Any:
        inputs, executable, effects = self.inputs, self.executable, self.effects
        if inputs.has_more:
            leaves = inputs.all_leaves(leaves)
        for check in self.before:
            leaf = leaves[check.first] if check.first.__class__ is int else None
            if (
                leaf.__class__ is not Tensor
                or leaf._view is not None
                or leaf._storage.held is not check.good()
            ):
                check(leaves)
        results: list[Any] = []
        given: tuple[list[Any], list[Any]] = ([], [])
        versions = effects.versions_now()
        undo = Undo(effects, leaves, inputs.draws) if self._undoes else None
        pending = executable.pending
        refusal = None
        try:
            donated, kept, kind = inputs.gather(
                leaves, env, executable.count if pending is None else pending.safe
            )
            if self.rows is not None:
                kept = self.rows.enter(kept, len(donated))
            elif placed.several:
                donated, kept = self._of_all(donated, kept, leaves, env)
            given = donated, kept
            if pending is None and executable.is_narrow:
                executable.call.into(results, given, kind)
            else:
                with tracing.x64():
                    if pending is None:
                        executable.call.into(results, given, kind)
                    else:
                        pending.run(results, donated, kept, kind)
            if self.rows is not None:
                results[0] = self.rows.leave(results[0])
            elif self.whole is not None:
                results[0] = self.whole.leave(results[0])
            if self.ends is not None:
                results[0] = self.ends.cut(results[0], env)
            refusal = None if self.within is None else self._refusal(results[0], given)
            if refusal is None:
                nodes, made = self._write(results[0], versions, given, leaves, env, pending, first)
        except BaseException:
            if not results or self._refusal(results[0], given) is not None:
                if undo is not None:
                    undo()
                raise
            self.calls += 1
            try:
                self._write_again(undo, results[0], versions, given, leaves, env, pending, first)
            except BaseException:
                self._write_again(undo, results[0], versions, given, leaves, env, pending, first)
            raise
        if refusal is not None:
            if undo is not None:
                undo()
            raise refusal
        self.calls += 1
        if self.flags is not None:
            self.flags.check()
        if first is not None:
            if self._is_pass(leaves):
                self.quick = Pass(self)
            effects.made.release()
            if effects.places is not None:
                effects.places.release()
        outs, outputs = results[0], self.results.outputs
        build = self.results.build
        if build is None:
            result = outputs[0].make(outs, leaves, env, nodes, made)
        else:
            result = build([out.make(outs, leaves, env, nodes, made) for out in outputs])
        for target, how, hook in effects.hooks if first is None else ():
            register = getattr(leaves[target] if type(target) is int else target, how)
            register(*([] if hook is None else [hook]))
        return result

    def _of_all(
        self, donated: list[Any], kept: list[Any], leaves: Sequence[Any], env: dict[Any, Any]
    ) -> tuple[list[Any], list[Any]]:
        """The inputs for a program that takes tensors on the devices of several processes, or computes there: all run
        it together. But if it only takes tensors, which are the same in all, and writes to none of them, this process
        runs it for itself.
        """
        whole = self.whole
        if (
            whole is None
            and not self._writes_to_all(donated, leaves)
            and (own := own_copies(kept)) is not None
        ):
            return donated, own
        if not self._text:
            self._text = text_of(self.executable.jaxpr)

        def inputs() -> dict[str, list[Any]]:
            values = [np.asarray(v) for v in (*donated, *kept) if not meshes.is_global(v)]
            values += [np.asarray(env[name]) for name in self.inputs.numbers.inputs]
            return {INPUTS: sorted(values, key=lambda v: agreement.digest([v]))} if values else {}

        before_call(self._text, inputs, compares=whole is not None)
        return (donated, kept) if whole is None else (whole.enter(donated), whole.enter(kept))

    def _writes_to_all(self, donated: list[Any], leaves: Sequence[Any]) -> bool:
        """Whether what is on the devices of all is written to."""
        effects = self.effects
        targets = [target for writes in effects.grads or () for target, _ in writes]
        targets += [i for i, _, _ in effects.args]
        written = [(leaves[t] if t.__class__ is int else t)._storage for t in targets]
        cells = (*written, *(cell for cell, _, _ in effects.cells))
        return any(map(is_shared, cells)) or any(map(meshes.is_global, donated))

    def _refusal(self, outs: Sequence[Any], given: tuple[Sequence[Any], Sequence[Any]]) -> Exception | None:
        """The error of a check that failed. The program then gave back what it was given for good, as it was."""
        within = self.within
        failed = None if within is None else within.failed(outs)
        if within is None or failed is None:
            return None
        donated = self.inputs.donated
        for cell, index, _ in self.effects.cells:
            if cell in donated:
                cell.put(outs[index])
        return (
            Unclear() if self.ends is not None else within.error(failed, [*outs[: len(donated)], *given[1]])
        )

    def _write_again(self, undo: Undo | None, *call: Any) -> None:
        """The program has run: what was written of its results is written once more, and all the rest."""
        if undo is not None:
            undo.written.undo()
        self._write(*call)

    def _write(
        self,
        outs: Sequence[Any],
        versions: Sequence[int],
        given: tuple[list[Any], list[Any]],
        leaves: Sequence[Any],
        env: dict[Any, Any],
        pending: Any,
        first: FirstCall | None,
    ) -> tuple[Any, Sequence[Tensor]]:
        """Write the results back; returns the nodes of the call on the tape, and the tensors that were made.

        To write twice is to write once, but for the versions that `Undo` looks after.

        Args:
            versions: those before the call, of the Storages that it writes. The trace has counted for the first call.
        """
        effects = self.effects
        if pending is None:
            grads = effects.grads
        else:
            pending.note(*given)
            grads = pending.others
        effects.put(outs)
        if first is None:
            effects.count(versions)
        made: Sequence[Tensor] = ()
        if grads is not None or effects.has_more or first is not None:
            made = effects.apply(outs, leaves, env, grads, first)
        recording = self.recording
        if recording is None:
            return None, made
        return recording.record(outs, leaves, made, [*given[0], *given[1]], effects.flags), made

    def _is_pass(self, leaves: Sequence[Any]) -> bool:
        """Whether one tensor is computed from Storages and arguments, and nothing else done."""
        inputs, effects, guards, executable = self.inputs, self.effects, self.guards, self.executable
        out = self.results.outputs[0] if self.results.build is None else None
        if type(out) is not Computed or out.shared is not None or out.version:
            return False
        if (
            placed.several
            or not executable.is_narrow
            or executable.call.needs
            or executable.pending is not None
        ):
            return False
        if not all(isinstance(leaves[i], Tensor) for i in inputs.args):
            return False
        given = (inputs.donated, inputs.grads, inputs.numbers, inputs.draws)
        written = (effects.cells, effects.grads, effects.has_more, effects.hooks)
        compared = (
            guards.gradients,
            guards.values.flags,
            guards.values.slots[0],
            guards.joints,
            guards.twins,
        )
        return not any((*given, *written, *compared, self.within, self.recording, self.rows))


class Pass:
    """A call that only computes a tensor, as that of a model without gradients, in fewer steps.

    Attributes:
        allows: whether it may be run for certain arguments (see `Guards.allow_pass`).
        calls: how often it was run.
    """

    __slots__ = ("allows", "args", "before", "calls", "cells", "index", "jit")

    def __init__(self, program: Program) -> None:  # to keep it would make a circle, and programs are large
        self.before, self.allows, self.calls = program.before, program.guards.allow_pass, 0
        self.cells, self.args = program.inputs.cells, program.inputs.args
        self.jit, self.index = program.executable.jit, program.results.outputs[0].index

    def run(self, leaves: Sequence[Any]) -> Tensor:
        for check in self.before:
            check(leaves)
        kept = [cell.held for cell in self.cells]
        if not OTHERS.isdisjoint(map(type, kept)):
            kept = arrays_of(self.cells, kept)
        for i in self.args:
            kept.append(leaves[i]._value)
        self.calls += 1
        return wrap(self.jit([], kept)[self.index])


fork.leads_to_jax(Pass, "run")
