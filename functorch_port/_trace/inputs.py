"""What a program is given at a call: arrays of Storages, arguments and gradients, Python numbers, random draws."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from .._array import offloaded, placing, tracing
from .._array.donation import own
from .._array.placed import brought
from .._array.storage import Storage
from .._array.value import OTHERS, arrays_of
from .._tensor.tensor import Tensor
from .ends import padded_to
from .places import Places
from .source import Source

__all__ = ["Inputs", "Numbers", "Stale", "aval", "grads_of", "values_of"]

_MISSING = object()


class Stale(Exception):
    """An input has another shape or dtype than the program was traced for."""


def grads_of(tensors: Sequence[Any]) -> list[Any]:
    """Their gradients, computed if they are pending."""
    grads = [t._kept_grad for t in tensors]
    return grads if set(map(type, grads)) == {Tensor} else [t._grad for t in tensors]


def aval(value: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


class Numbers:
    """The Python numbers that a program depends on: inputs, or values that must stay.

    Args:
        places: name -> table, key, position in a tuple (or None), and what was there.
        arguments: name, position and value of those among the arguments.
        fixed: the names of those whose value must stay.
        predicates: tests that the function branched on, with their outcomes.
        inputs: the names of those that are inputs.
        sizes: names of those that are sizes of arguments, each with the number of an argument and of its dimension.
        mesh: where the program runs, if that is on several devices.
    """

    __slots__ = (
        "_arrays", "_seen", "arguments", "fixed", "held", "inputs", "mesh", "now", "places", "predicates", "sizes",
    )  # fmt: skip

    def __init__(
        self,
        places: dict[Any, tuple[Any, Any, Any, Any]],
        arguments: Sequence[tuple[Any, int, Any]],
        fixed: Collection[Any],
        predicates: Sequence[tuple[Callable[[dict[Any, Any]], Any], bool]],
        inputs: Sequence[Any],
        sizes: Sequence[tuple[Any, int, int]] = (),
        mesh: Any = None,
    ) -> None:
        self.mesh = mesh
        self.places, self.arguments, self.fixed = places, arguments, fixed
        self.predicates, self.inputs, self.sizes = predicates, inputs, sizes
        source = Source()
        lookups = [f"{source.name(t)}.get({source.literal(key)})" for t, key, _, _ in places.values()]
        self.now: Callable[[], list[Any]] = source.function("now()", [f"return [{', '.join(lookups)}]"])
        # Most calls come with the numbers of the call before. What the places held then, and the numbers by name; those
        # for which there are arrays, with these; and by position what was given, and its array.
        self._seen: tuple[list[Any], dict[Any, Any]] = ([_MISSING], {})
        self.held: tuple[dict[Any, Any], list[Any]] = ({}, [])
        self._arrays: dict[int, tuple[Any, Any]] = {}

    def __bool__(self) -> bool:
        return bool(self.places or self.arguments or self.predicates or self.sizes)

    def check(self, leaves: Sequence[Any]) -> dict[Any, Any] | str:
        """The values by name, or the reason why the program is not for them."""
        found = self.now()
        if not (self.arguments or self.sizes) and all(map(is_, found, self._seen[0])):
            return self._seen[1]
        env: dict[Any, Any] = {}
        for value, (name, (_, key, index, expected)) in zip(found, self.places.items(), strict=True):
            if index is not None:
                value = value[index] if type(value) is tuple and len(value) > index else None
            if type(value) is not type(expected) or (name in self.fixed and value != expected):
                return f"{key!r} changed from {expected!r} to {value!r}"
            env[name] = value
        for name, i, expected in self.arguments:
            env[name] = leaves[i]
            if name in self.fixed and leaves[i] != expected:
                return f"argument {i} changed from {expected!r} to {leaves[i]!r}"
        for name, i, d in self.sizes:
            env[name] = leaves[i].shape[d]
        for predicate, outcome in self.predicates:
            if predicate(env) != outcome:
                return "a number changed on which the function branches"
        self._seen = found, env
        return env

    def convert(self, env: dict[Any, Any]) -> list[Any]:
        """The inputs of these values."""
        found = [self._convert(k, env[name]) for k, name in enumerate(self.inputs)]
        if all(isinstance(x, jax.Array) for x in found):
            self.held = env, found
        return found

    def _convert(self, position: int, value: Any) -> Any:
        """An input. One that stays becomes an array, which a jitted call takes several times as fast."""
        seen, array = self._arrays.get(position, (None, None))
        if seen is not value:
            self._arrays[position] = value, None
            if self.mesh is None and not placing.is_guarded():
                return value
            array = None
        if array is None:
            with tracing.x64(), jax.transfer_guard_host_to_device("allow"):
                if self.mesh is None:
                    array = jnp.asarray(value)
                else:  # else every call would copy it to all devices
                    array = brought(np.asarray(value), NamedSharding(self.mesh, PartitionSpec()))
            self._arrays[position] = value, array
        return array


@dataclass(frozen=True)
class Inputs:
    """Where the arrays that a program takes come from, in its order.

    Attributes:
        donated: Storages that the program overwrites.
        cells: other Storages.
        args: positions of arguments.
        arrays: those of them that are no Tensors.
        grads: tensors whose gradients are taken.
        numbers: the Python numbers.
        draws: random arrays that the host draws at every call, in order.
        taken: which of the draws the program looks at.
        places: places whose tensors count as arguments after those of the call.
        old_grads: tensors (or positions of arguments) whose gradients come after these.
        has_more: whether there are such.
        values_now: what ``donated`` and ``cells`` hold.
        lengths: for each of ``args`` the shape to which it is padded, or None.
    """

    donated: Sequence[Storage]
    cells: Sequence[Storage]
    args: Sequence[int]
    arrays: Sequence[int]
    grads: Sequence[Any]
    numbers: Numbers
    draws: Sequence[Callable[[], Any]]
    taken: Sequence[int]
    places: Places | None
    old_grads: Sequence[Any]
    has_more: bool
    values_now: Callable[[], list[Any]]
    lengths: Sequence[tuple[int, ...] | None] = ()

    def all_leaves(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """The arguments of a call, and what counts as such."""
        if self.places is not None:
            leaves = [*leaves, *self.places.tensors]
        if self.old_grads:
            leaves = [*leaves, *grads_of([leaves[t] if type(t) is int else t for t in self.old_grads])]
        return leaves

    def gather(
        self, leaves: Sequence[Any], env: dict[Any, Any], count: int
    ) -> tuple[list[Any], list[Any], tuple[Any, ...]]:
        """The first ``count`` arrays, to be donated, and the rest; and the types of what may be no array of JAX's, as
        that has a way of calling for each: () if all are.
        """
        kept = self.values_now()
        if not OTHERS.isdisjoint(map(type, kept)):
            kept = arrays_of((*self.donated, *self.cells), kept)
        donated: list[Any] = []
        if count:
            donated = kept[:count]
            del kept[:count]
            own(donated)
        for i in self.args:
            leaf = leaves[i]
            if leaf.__class__ is Tensor and leaf._view is None:
                held = leaf._storage.held
                kept.append(leaf._storage.kept() if held.__class__ in OTHERS else held)
            else:
                kept.append(leaf._value if isinstance(leaf, Tensor) else leaf)
        if self.lengths:
            start = len(kept) - len(self.args)
            for k, shape in enumerate(self.lengths, start):
                if shape is not None:
                    kept[k] = padded_to(kept[k], shape)
        if self.grads:
            kept += map(offloaded.kept, grads_of(self.grads))
        kind: tuple[Any, ...] = ()
        numbers = self.numbers
        if numbers.inputs:
            known, found = numbers.held
            if env is not known:
                found = numbers.convert(env)
                if env is not numbers.held[0]:
                    kind = tuple(map(type, found))
            kept += found
        if self.arrays:
            kind += tuple([type(leaves[i]) for i in self.arrays])
        if self.draws:
            with tracing.x64():
                drawn = [draw() for draw in self.draws]  # all of them, in order: each moves the stream on
                kept += [jax.device_put(drawn[i].reshape(drawn[i].shape or (1,))) for i in self.taken]
        return donated, kept, kind


def values_of(cells: Sequence[Storage]) -> Callable[[], list[Any]]:
    """What Storages hold, as one flat function: `Inputs.values_now`."""
    source = Source()
    values = [f"{source.name(cell)}.held" for cell in cells]
    return source.function("values()", [f"return [{', '.join(values)}]"])
