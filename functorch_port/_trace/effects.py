"""What a call leaves behind beside its result: new values of Storages, gradients, Python values, flags and hooks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from .._array.donation import Before, Lent
from .._array.joint import Joint
from .._array.placed import Placed, like, sharding_of
from .._array.storage import Storage
from .._array.value import VALUES
from .._run.sparse import SparseTensor
from .._tensor.tensor import Tensor, wrap
from .handles import Made
from .places import Places
from .source import Source
from .value_guards import ValueGuards

__all__ = ["Effects", "FirstCall", "GradWrites", "Target", "Undo", "functions_of"]

#: a tensor (or Storage), or the position of an argument
Target: TypeAlias = Any


@dataclass(frozen=True)
class FirstCall:
    """What only the call that a program was traced for needs.

    Attributes:
        fill: Storages that the trace made, with the program's outputs that are their values.
        kept: those of them that something outside holds, and others that were put in new places.
        why_once: why no later call can run the program; empty if one may.
        changes_containers: whether the function changes a container that it was given.
    """

    fill: list[tuple[Storage, int]]
    kept: list[Storage]
    why_once: str
    changes_containers: bool


class GradWrites(NamedTuple):
    """What is done to the gradients of tensors.

    Attributes:
        in_place: an output of the program is written to the gradient that is there.
        computed: the gradient is an output of the program.
        sparse: it is made of two outputs of the program, and of what else it needs.
        missing: there is none.
        made: it is one of those that `Made` makes, by number.
        argument: it is an argument, by position.
        same: it is this tensor.
    """

    in_place: list[tuple[Target, int]]
    computed: list[tuple[Target, int]]
    sparse: list[tuple[Target, tuple[Any, ...]]]
    missing: list[tuple[Target, None]]
    made: list[tuple[Target, int]]
    argument: list[tuple[Target, int]]
    same: list[tuple[Target, Tensor]]

    @classmethod
    def none(cls) -> GradWrites:
        return cls([], [], [], [], [], [], [])

    def without(self, targets: Collection[Tensor]) -> GradWrites:
        """What is done to gradients of others."""
        ids = set(map(id, targets))
        return GradWrites(*([w for w in writes if id(w[0]) not in ids] for writes in self))  # type: ignore[attr-defined, arg-type]

    def moved(self, new: dict[int, int]) -> GradWrites:
        """The same, with the program's outputs at ``new`` positions."""
        return self._replace(
            in_place=[(target, new[i]) for target, i in self.in_place],
            computed=[(target, new[i]) for target, i in self.computed],
            sparse=[(target, (new[i], new[k], *rest)) for target, (i, k, *rest) in self.sparse],
        )

    def outputs(self) -> list[int]:
        """The outputs that these use."""
        dense = [i for _, i in (*self.in_place, *self.computed)]
        return dense + [i for _, parts in self.sparse for i in parts[:2]]


@dataclass(frozen=True)
class Effects:
    """What a call writes.

    Attributes:
        cells: Storages, the program's output that each gets, and how many writes that counts for.
        joints: those whose arrays are among ``cells``, and how many writes to each member a call counts for.
        args: the same of arguments, by position.
        uncounted: how many writes to a Storage (or to an argument's) are not counted by it.
        grads: gradients; None if it writes none.
        numbers: items of dicts that are Python numbers, with the rule for the new one.
        values: Python values that the function read or set.
        flags: ``requires_grad`` of tensors.
        detached: tensors that have no history any more.
        modes: ``training`` of modules.
        hooks: hooks to register on tensors, and how.
        made: what is made anew at every call.
        places: where some of that is left.
        has_more: whether there is more than Storages and gradients.
        versions_now, put, count: of ``cells`` and ``joints``.
    """

    cells: Sequence[tuple[Storage, int, int]]
    joints: Sequence[tuple[Joint, int]]
    args: Sequence[tuple[int, int, int]]
    uncounted: Sequence[tuple[Target, int]]
    grads: GradWrites | None
    numbers: Sequence[tuple[dict[Any, Any], Any, Callable[[dict[Any, Any]], Any]]]
    values: ValueGuards
    flags: Sequence[tuple[Target, bool]]
    detached: Sequence[Target]
    modes: Sequence[tuple[Any, bool]]
    hooks: Sequence[tuple[Target, str, Any]]
    made: Made
    places: Places | None
    has_more: bool
    versions_now: Callable[[], list[int]]
    put: Callable[[Sequence[Any]], None]
    count: Callable[[Sequence[int]], None]

    def apply(
        self,
        outs: Sequence[Any],
        leaves: Sequence[Any],
        env: dict[Any, Any],
        grads: GradWrites | None,
        first: FirstCall | None,
    ) -> Sequence[Tensor]:
        """Write all but ``cells``; returns the tensors that were made. Done twice it is as done once.

        Args:
            grads: the gradients to write, where others are pending.
            first: of the first call, whose writes the trace has counted.
        """
        made: Sequence[Tensor] = ()
        more = self.has_more or first is not None
        if more:
            for i, index, steps in self.args:
                tensor = leaves[i]
                if tensor._view is None:
                    tensor._storage.put(outs[index])
                    if first is None:
                        tensor._storage.version += steps
                else:
                    tensor._set_value(outs[index])
            if first is None:
                for target, steps in self.uncounted:
                    (leaves[target]._storage if target.__class__ is int else target).apart += steps
            else:
                for cell, index in first.fill:
                    cell.put(outs[index])
            if self.made.handles:
                made = self.made.make(outs, leaves, first is not None)
            if self.places is not None:
                self.places.leave(leaves, made)
        if grads is not None:
            in_place, computed, sparse, missing, remade, argument, same = grads
            for target, index in in_place:
                cell = (leaves[target] if target.__class__ is int else target)._grad._storage
                cell.put(outs[index])
                if first is None:
                    cell.version += 1
            for target, index in computed:
                tensor = leaves[target] if target.__class__ is int else target
                tensor._kept_grad = wrap(like(tensor._storage, outs[index]))
            for target, (index, other, *rest) in sparse:
                grad = SparseTensor._make(wrap(outs[index]), wrap(outs[other]), *rest)
                (leaves[target] if target.__class__ is int else target)._kept_grad = grad
            for target, _ in missing:
                (leaves[target] if target.__class__ is int else target)._kept_grad = None
            for target, number in remade:
                (leaves[target] if target.__class__ is int else target)._kept_grad = made[number]
            for target, position in argument:
                (leaves[target] if target.__class__ is int else target)._kept_grad = leaves[position]
            for target, tensor in same:
                (leaves[target] if target.__class__ is int else target)._kept_grad = tensor
        if more:
            for table, key, rule in self.numbers:
                table[key] = rule(env)
            self.values.write(env)
            for target, flag in self.flags:
                (leaves[target] if target.__class__ is int else target)._requires_grad = flag
            for target in self.detached:
                tensor = leaves[target] if target.__class__ is int else target
                tensor._grad_fn, tensor._output_nr, tensor._requires_grad = None, 0, False
            for module, mode in self.modes:
                module.__dict__["training"] = mode
        return made


class Undo:
    """What was before a call where few programs write: arguments, gradients, flags, streams of random numbers."""

    def __init__(self, effects: Effects, leaves: Sequence[Any], draws: Sequence[Any]) -> None:
        in_place = () if effects.grads is None else effects.grads.in_place
        targets = [leaves[t] if t.__class__ is int else t for t, _ in in_place]
        tensors = [leaves[i] for i, _, _ in effects.args]
        self.written = Before([*tensors, *(t._grad for t in targets if t._grad is not None)])
        flagged = [leaves[t] if t.__class__ is int else t for t, _ in effects.flags]
        self.flags = [(t, t._requires_grad) for t in flagged]
        generators = {id(draw.generator): draw.generator for draw in draws}.values()
        self.streams = [(g.stream, g.stream.get()) for g in generators]

    @staticmethod
    def is_needed(effects: Effects, draws: Sequence[Any]) -> bool:
        return bool(draws or effects.flags or effects.args or (effects.grads and effects.grads.in_place))

    def __call__(self) -> None:
        """The program has not run: what came before that is taken back."""
        self.written.undo()
        for tensor, flag in self.flags:
            tensor._requires_grad = flag
        for stream, state in self.streams:
            stream.set(state)


def functions_of(
    cells: Sequence[tuple[Storage, int, int]], joints: Sequence[tuple[Joint, int]]
) -> dict[str, Callable[..., Any]]:
    """`Effects.versions_now`, ``put`` and ``count``: a loop over the Storages would take three times as long."""
    source = Source(Lent=Lent, Placed=Placed)
    known = [(source.name(cell), index, steps) for cell, index, steps in cells]
    there = [sharding_of(cell) for cell, _, _ in cells]
    plain = [one for one, sharding in zip(known, there, strict=True) if sharding is None]
    wholes = [(source.name(joint), steps) for joint, steps in joints]
    versions = ", ".join(
        [*(f"{cell}.version" for cell, _, _ in known), *(f"{joint}.writes" for joint, _ in wholes)]
    )
    held = "".join([f"{cell}.held, " for cell, _, _ in plain])
    puts = [
        f"if {source.name(VALUES)}.isdisjoint(map(type, ({held}))):",
        *[f"    {cell}.held = outs[{index}]" for cell, index, _ in plain],
        "else:",  # a `Value` may have more to do
        *[f"    {cell}.put(outs[{index}])" for cell, index, _ in plain],
    ]
    puts = puts if plain else []
    for (cell, index, _), sharding in zip(known, there, strict=True):
        if sharding is not None:  # the program brings it there
            known_as = source.name(sharding)
            puts += [
                f"held = {cell}.held",
                "held = held.lent if held.__class__ is Lent else held",  # by this thread, whose turn it is
                f"if held.__class__ is Placed and held.sharding is {known_as}:",
                f"    {cell}.held = held.again(outs[{index}])",
                "else:",
                f"    {cell}.put(outs[{index}])",
            ]
    counts = [f"{cell}.version = versions[{k}] + {steps}" for k, (cell, _, steps) in enumerate(known)]
    counts += [
        f"{joint}.count(versions[{k}] + {steps})" for k, (joint, steps) in enumerate(wholes, len(known))
    ]
    return {
        "versions_now": source.function("now()", [f"return [{versions}]"]),
        "put": source.function("put(outs)", puts),
        "count": source.function("count(versions)", counts),
    }
