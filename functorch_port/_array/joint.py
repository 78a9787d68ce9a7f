"""Small Storages whose arrays lie in one array, one after the other.

A call of a program takes some time for each array that it is given or returns, and a model has many small ones. So an
optimizer has the state of small parameters joined, and programs that update such state take it as one array. The
Storages stay as they are: each holds a `Part` in place of an array. A read cuts the array, on the host, where nothing
is compiled. A write takes the Storage out, and the next `Joint.join` takes it in again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from .._base.jaxprs import is_literal
from .._base.tuning import tuning
from . import executor, placing, tracing
from .donation import at_once
from .placed import Placed
from .storage import Storage
from .value import HOST, Value

__all__ = ["Joint", "Part", "cut", "default_sharding", "join", "joined_again", "kind_of", "operations"]


class Joint:
    """Storages whose values are parts of one array. They have one dtype, and are in one place.

    Attributes:
        members: the Storages.
        cell: a Storage with the array, of one dimension: numpy's if the members are on the host.
        is_whole: whether each member holds its part.
        writes: how often programs have written to all members, of which `count` has them know.
    """

    __slots__ = (
        "__weakref__",
        "_pieces",
        "cell",
        "is_whole",
        "kinds",
        "members",
        "on_host",
        "parts",
        "writes",
    )

    def __init__(self, members: Sequence[Storage], on_host: bool = False) -> None:
        self.members, self.on_host = tuple(members), on_host
        self.kinds = self._kinds(self._arrays())
        self.cell = Storage(jax.ShapeDtypeStruct((0,), self.kinds[0][1]))  # `join` gives it the array
        self.parts = [Part(self, number) for number in range(len(self.members))]
        self.is_whole = False
        self.writes = 0
        self._pieces: tuple[Any, list[Any], dict[int, Any]] = (lambda: None, [], {})

    @classmethod
    def of(cls, members: Sequence[Storage], on_host: bool = False) -> Joint | None:
        """The one of these Storages, with all of them joined; None where one cannot be."""
        if len(set(members)) < len(members):
            return None
        held = members[0].held
        joint = held.joint if held.__class__ is Part else None
        if joint is None or joint.members != tuple(members):
            joint = cls(members, on_host)
        pairs = zip(joint.members, joint.parts, strict=True)
        joint.is_whole = all([m.held is part for m, part in pairs])  # noqa: C419 (faster)
        return joint if joint.join() else None

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple([shape for shape, *_ in self.kinds])

    def join(self) -> bool:
        """Have each member hold its part; returns False if one has another shape, dtype or place, or is shared."""
        if self.is_whole:
            return True
        arrays = self._arrays()
        if self._kinds(arrays) != self.kinds or any(getattr(m.held, "bound", False) for m in self.members):
            return False
        self.cell.value = self._joined(arrays)
        changes: list[Any] = [
            (m.held.joint, "is_whole", False) for m in self.members if m.held.__class__ is Part
        ]
        changes.append((self, "is_whole", True))
        for member, part in zip(self.members, self.parts, strict=True):
            changes += [(member, "held", part), (member, "form", None)]
        at_once(changes)
        return True

    def _arrays(self) -> list[Any]:
        return [np.asarray(m.look()) if self.on_host else _there(m) for m in self.members]

    def _kinds(self, arrays: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The kinds that the members have once the joined array is where it is to be."""
        found = list(map(_kind, arrays))
        return found if self.on_host else [k if k[2] else (*k[:2], default_sharding(), False) for k in found]

    def _joined(self, arrays: Sequence[Any]) -> Any:
        flat = _flat(arrays)
        if self.on_host or (arrays[0].__class__ is np.ndarray and executor.current.leaves(flat)):
            return flat
        committed = getattr(arrays[0], "committed", False)
        return placing.put(flat, _in_a_row(arrays[0].sharding) if committed else None)

    def count(self, writes: int) -> None:
        """Have the members' versions tell that so many writes have come. Done twice it is as done once."""
        more = writes - self.writes
        for member in self.members if more else ():
            member.version += more
        self.writes = writes

    def piece(self, number: int, on_host: bool) -> Any:
        """A member's value: numpy's array or JAX's."""
        array = _there(self.cell)
        seen, pieces, made = self._pieces
        if seen() is not array:
            pieces, made = cut_on_host(np.array(array), self.shapes), {}
            # a weak reference, as to hold the array would keep it from being donated
            self._pieces = weakref.ref(array), pieces, made
        if on_host:
            return pieces[number]
        if number not in made:
            with jax.ensure_compile_time_eval(), tracing.x64():
                _, _, sharding, committed = self.kinds[number]
                piece = pieces[number]
                made[number] = placing.put(piece.copy(), sharding) if committed else placing.on_device(piece)
        return made[number]


class Part(Value):
    """What a member of a `Joint` holds."""

    __slots__ = ("joint", "number")
    on_cpu = False

    def __init__(self, joint: Joint, number: int) -> None:
        self.joint, self.number = joint, number

    @property
    def shape(self) -> tuple[int, ...]:
        return self.joint.kinds[self.number][0]  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        return self.joint.kinds[self.number][1]

    @property
    def committed(self) -> bool:
        """As `jax.Array.committed`."""
        return self.joint.kinds[self.number][3]  # type: ignore[no-any-return]

    def array(self, cell: Storage) -> Any:
        return self.joint.piece(self.number, False)

    def host(self, cell: Storage) -> Any:
        return self.joint.piece(self.number, True) if self.joint.on_host else None

    def write(self, cell: Storage, value: Any) -> None:
        self.joint.is_whole = False
        cell.held, cell.form = value, None


def kind_of(cell: Storage) -> tuple[Any, Any, Any, bool]:
    """Shape, dtype, sharding (None: on the host) and whether it is committed there. A `Part` is not cut for it."""
    held = cell.held
    if held.__class__ is Part:
        return held.joint.kinds[held.number]  # type: ignore[no-any-return]
    if held.__class__ is Placed:
        kind = _kind(held.made)  # on the meta device it is nowhere, but for where it is to be
        return kind if kind[2] is not None else (*kind[:2], held.sharding, True)
    return _kind(cell.look())


def _kind(array: Any) -> tuple[Any, Any, Any, bool]:
    there = array.__class__ not in HOST and isinstance(array, jax.Array)  # the first is faster
    return (array.shape, array.dtype, *((array.sharding, array.committed) if there else (None, False)))


@cache
def default_sharding() -> Any:
    """Of what leaves the host."""
    with jax.ensure_compile_time_eval():
        return jax.device_put(np.zeros(())).sharding


def _there(cell: Storage) -> Any:
    """The value where it is, whatever a trace has in its place."""
    found = cell.host()
    return cell.array() if found is None else found


def _flat(arrays: Sequence[Any]) -> np.ndarray:
    """The elements of arrays, numpy's and JAX's, one after the other; nobody is to write to the result."""
    try:  # a fifth of what `numpy.concatenate` takes for small arrays, and half of it for JAX's
        return np.frombuffer(b"".join(arrays), arrays[0].dtype)
    except TypeError:  # one does not lie there in a row
        return np.concatenate(jax.device_get(arrays), None)


def _in_a_row(sharding: Any) -> Any:
    """Where the elements of an array of one device lie. A mesh of it may have axes for dimensions that are gone."""
    if not isinstance(sharding, NamedSharding):
        return sharding
    return NamedSharding(sharding.mesh, PartitionSpec(), memory_kind=sharding.memory_kind)


def cut_on_host(array: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Arrays of these shapes out of one that has their elements."""
    ends = list(accumulate(map(prod, shapes)))[:-1]
    return [piece.reshape(shape) for piece, shape in zip(np.split(array, ends), shapes, strict=True)]


# ---------------------------------------------------------------------- in programs


def joint_cut(array: Any, shapes: tuple[tuple[int, ...], ...]) -> list[Any]:
    pieces = lax.split(array, list(map(prod, shapes)))
    return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def joint_join(arrays: Sequence[Any]) -> Any:
    # The barrier keeps XLA from computing the arrays inside the joining, with a branch for each.
    return jnp.concatenate(lax.optimization_barrier([array.ravel() for array in arrays]))


#: arrays of some shapes out of one, and one out of some, each a single operation of a jaxpr with this name
cut: Callable[[Any, tuple[tuple[int, ...], ...]], list[Any]] = jax.jit(joint_cut, static_argnums=1)
join: Callable[[Sequence[Any]], Any] = jax.jit(joint_join)


@lru_cache(tuning.cached_facts)
def operations(shapes: tuple[tuple[int, ...], ...], dtype: Any) -> tuple[Any, Any]:
    """`cut` and `join` of such arrays as operations of a jaxpr, to be given variables."""
    pieces = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    whole = jax.ShapeDtypeStruct((sum(map(prod, shapes)),), dtype)
    with tracing.outside(), jax.disable_jit(False):
        made = jax.make_jaxpr(cut, static_argnums=1)(whole, shapes), jax.make_jaxpr(join)(pieces)
    return made[0].jaxpr.eqns[0], made[1].jaxpr.eqns[0]


def joined_again(eqn: Any, cuts: dict[Any, Any]) -> Any:
    """The array of which an operation joins all pieces, or None. ``cuts`` notes what cut each piece."""
    name = eqn.params.get("name")
    if name == joint_cut.__name__:
        cuts.update(dict.fromkeys(eqn.outvars, eqn))
    elif name == joint_join.__name__ and not is_literal(eqn.invars[0]):
        cutting = cuts.get(eqn.invars[0])
        if cutting is not None and list(eqn.invars) == list(cutting.outvars):
            return cutting.invars[0]
    return None
