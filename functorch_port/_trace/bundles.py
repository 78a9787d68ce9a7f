"""Small state of a program in a few arrays, where a call waits for its program.

A call of a jitted function takes some time for every array that it is given or makes: for thousands of small parameters
that is longer than their update. So a program that updates very many small arrays takes them together, in one array for
some of them, and gives them back so. Nobody sees it: the Storages stay their owners, and whoever asks one for its value
has that array taken apart.

Cutting and joining an array in the program costs something too, so it is not worth it for few. Where calls run ahead of
the device, what they cost is hidden.

Gradients that such a program is given and only reads, as ``compile(optimizer.step)`` does, are joined by numpy for the
call, like the parameters that they belong to.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import prod
from operator import attrgetter
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array import tracing
from .._array.donation import on_one_cpu
from .._array.flat import flat, joined
from .._array.storage import Storage
from .._array.value import Value
from .._base.tuning import tuning
from .._tensor.tensor import Tensor
from .inputs import Stale, grads_of

__all__ = ["Bundle", "Gradients", "Joint", "bundled", "cut", "join", "joined_gradients"]


class Bundle:
    """Storages whose arrays a program takes and gives back as one.

    Args:
        members: with arrays of one dtype, on one device.
    """

    def __init__(self, members: Sequence[Storage]) -> None:
        self.members = tuple(members)
        self.kinds = [_kind(m.array()) for m in members]
        self.shapes = tuple([shape for shape, _, _ in self.kinds])
        self.joined: Any = None
        self.parts = [Part(self, number) for number in range(len(self.members))]
        #: what the members got when they were taken apart, and how often they were
        self.pieces: list[Any] = []
        self.cuts = 0

    @property
    def aval(self) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((sum(map(prod, self.shapes)),), self.kinds[0][1])

    # between calls

    def array(self) -> Any:
        """The members' arrays in one, as a `Storage` gives its own."""
        if not self._is_together() and not self._is_as_cut():
            self._join()
        return self.joined

    held = property(array)

    def _is_together(self) -> bool:
        held = list(map(_held, self.members))
        return set(map(type, held)) == {Part} and all([part.bundle is self for part in held])  # noqa: C419 (faster)

    def _is_as_cut(self) -> bool:
        """Whether nobody wrote to a member since all were taken apart."""
        held = map(_content, self.members)
        return bool(self.pieces) and all(
            piece() is mine for piece, mine in zip(self.pieces, held, strict=True)
        )

    def _join(self) -> None:
        arrays = [m.array() for m in self.members]
        if [_kind(a) for a in arrays] != self.kinds:
            raise Stale
        self.put(joined(arrays))

    def put(self, joined: Any) -> None:
        """New values of all members."""
        self.joined, self.pieces = joined, []
        for number, member in enumerate(self.members):
            if getattr(member.held, "bound", False):
                member.put(cut(np.array(joined), self.shapes)[number])
            else:
                member.put(self.parts[number])

    def take_apart(self) -> None:
        """Give the members values of their own: on the host, which needs no program, until it is seen to come often."""
        self.cuts += 1
        if self.cuts <= tuning.bundle_cuts:
            pieces = cut(np.array(self.joined), self.shapes)  # of a copy: the next call gives the array away
        else:
            with tracing.outside():
                pieces = _cut_by_program(self.joined, self.shapes)
        for member, piece in zip(self.members, pieces, strict=True):
            held = member.held
            if held.__class__ is Part and held.bundle is self:
                member.held, member.form = piece, None
        self.pieces = list(map(weakref.ref, pieces))


_held = attrgetter("held")


def cut(joined: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Arrays of these shapes out of one that has their elements, one after the other."""
    sizes = list(map(prod, shapes))
    host = isinstance(joined, np.ndarray)
    pieces = np.split(joined, list(accumulate(sizes))[:-1]) if host else lax.split(joined, sizes)
    return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]


_cut_by_program = jax.jit(cut, static_argnums=1)


def join(values: Iterable[Any]) -> Any:
    """The elements of arrays in one, in a program."""
    # the barrier keeps XLA from computing them inside the joining, with a branch for every element and array
    return jnp.concatenate(lax.optimization_barrier([value.ravel() for value in values]))


class Gradients:
    """The gradients of a bundle's members, which a program only reads and takes as one array.

    Args:
        tensors: the members' parameters, whose gradients have one dtype.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors
        grads = [g._look() for g in grads_of(tensors)]
        self.kinds = list(map(_kind_on_host, grads))
        self.shapes = [g.shape for g in grads]

    @property
    def aval(self) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((sum(map(prod, self.shapes)),), self.kinds[0][1])

    def array(self) -> np.ndarray:
        """The gradients in one."""
        arrays = [g._storage.look() if g._view is None else g._value for g in grads_of(self.tensors)]
        if list(map(_kind_on_host, arrays)) != self.kinds:
            raise Stale
        return flat(arrays)


#: what a program takes as one array
Joint: TypeAlias = Bundle | Gradients


class Part(Value):
    """The value of a Storage that is part of a `Bundle`'s array, until somebody asks for it."""

    __slots__ = ("bundle", "number")

    def __init__(self, bundle: Bundle, number: int) -> None:
        self.bundle, self.number = bundle, number

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bundle.shapes[self.number]

    @property
    def dtype(self) -> Any:
        return self.bundle.kinds[0][1]

    def array(self, cell: Storage) -> Any:
        return self._apart(cell).array()

    def host(self, cell: Storage) -> Any:
        return self._apart(cell).host()

    def look(self, cell: Storage) -> Any:
        return self._apart(cell).look()

    def _apart(self, cell: Storage) -> Storage:
        with tracing.turn:  # a call may be using the bundle's array up
            if cell.held is self:
                self.bundle.take_apart()
        return cell


def _content(cell: Storage) -> Any:
    """What a Storage holds, on the host if that is where it was made."""
    there = cell.host()
    return cell.held if there is None else there


def _kind(array: Any) -> tuple[Any, Any, Any]:
    return array.shape, array.dtype, array.sharding


_kind_on_host = attrgetter("shape", "dtype")

_known: weakref.WeakValueDictionary[tuple[Storage, ...], Bundle] = weakref.WeakValueDictionary()


def bundled(alike: Iterable[tuple[Sequence[Storage], int]]) -> list[list[Bundle]]:
    """Bundles for the small ones among Storages that may be together, and so many of them at most.

    Programs that update the same ones share them.
    """
    found = [_chunks(cells, most) for cells, most in alike]
    if sum(len(chunk) for chunks in found for chunk in chunks) < tuning.bundle_least:
        return [[] for _ in found]
    return [list(map(_bundle, chunks)) for chunks in found]


def joined_gradients(bundles: Iterable[Bundle], tensors: Iterable[Tensor]) -> list[Gradients]:
    """The gradients of ``tensors``, those of a bundle's members together if they have one dtype."""
    by_cell = {t._storage: t for t in tensors}
    found = [[by_cell[m] for m in b.members if m in by_cell] for b in bundles]
    return [Gradients(some) for some in found if len({g._look().dtype for g in grads_of(some)}) == 1]


def _chunks(cells: Iterable[Storage], most: int) -> list[tuple[Storage, ...]]:
    by_kind: dict[Any, list[Storage]] = {}
    for cell in cells:
        value = cell.array()
        if on_one_cpu(value) and value.dtype.kind in "biufc" and 0 < value.size <= tuning.bundle_elements:
            by_kind.setdefault((value.dtype, value.sharding, value.committed), []).append(cell)
    chunks = [tuple(some[i : i + most]) for some in by_kind.values() for i in range(0, len(some), most)]
    return [chunk for chunk in chunks if len(chunk) > 1]


def _bundle(members: tuple[Storage, ...]) -> Bundle:
    bundle = _known.get(members)
    if bundle is None or bundle.kinds != [_kind(m.array()) for m in members]:
        bundle = _known[members] = Bundle(members)
    return bundle
