"""State of small parameters in one array per entry, for programs of `compile`.

What a program costs, to compile and to call, grows with the number of its arrays. So before a trace optimizers put
their state together, in a `Pack` for some parameters each; the tensors in ``optimizer.state`` are then views of a
pack's arrays, and `engine.update` applies the rule to all of them at once. Whatever else works on the state finds it
apart (`Optimizer._loosen`), and the next call of the program puts it together again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array import loops
from .._array.donation import at_once
from .._array.storage import Storage
from .._base.alive import alive
from .._base.tuning import tuning
from .._tensor.tensor import Tensor
from .steady import alike, by_numbers, is_free, join, look_away, look_into, type_of

__all__ = ["Pack", "loosen", "pack_state"]


class Pack:
    """Parameters whose state is kept together.

    Attributes:
        params: the parameters.
        names: of the entries of the state, in the rule's order.
        columns: for every entry the tensors.
        cells: for every entry the Storage of the whole.
        tight: whether the tensors look into the cells now.
    """

    def __init__(self, params: list[Tensor], names: list[str], columns: list[list[Tensor]]) -> None:
        self.params, self.names, self.columns = params, names, columns
        self.types = self._types()
        self.cells = [Storage(join(column)) for column in columns]
        self.tight = False
        self._places = {p: i for i, p in enumerate(params)}
        self._ends = np.cumsum([p._value.size for p in params]).tolist()

    def _types(self) -> list[Any]:
        return [type_of(t._value) for t in self.members()]

    def members(self) -> list[Tensor]:
        return [t for column in self.columns for t in column]

    def tighten(self) -> bool:
        """Make the tensors views of the cells; returns whether they are, or could be made so."""
        if self.tight:
            return True
        if not all(map(is_free, self.members())) or self._types() != self.types:
            return False
        changes: list[Any] = [(self, "tight", True)]
        for cell, column in zip(self.cells, self.columns, strict=True):
            cell.value = join(column)
            changes += look_into(cell, column)
        at_once(changes)
        return True

    def loosen(self) -> None:
        """Give every tensor a Storage of its own."""
        changes: list[Any] = [(self, "tight", False)]
        for cell, column in zip(self.cells, self.columns, strict=True):
            changes += look_away(cell, column)
        at_once(changes)

    def is_intact(self) -> bool:
        """Whether every tensor still looks into its cell."""
        pairs = zip(self.cells, self.columns, strict=True)
        return all(t._storage is cell for cell, column in pairs for t in column)

    def is_current(self, state: dict[Any, Any]) -> bool:
        """Whether the optimizer's ``state`` has tensors of this pack, or may come to have."""
        return any(
            not state.get(p) or all(state[p].get(k) is t for k, t in zip(self.names, tensors, strict=True))
            for p, *tensors in zip(self.params, *self.columns, strict=True)
        )

    # in a trace

    def place(self, param: Tensor, state: list[Tensor]) -> int | None:
        """The parameter's place in the pack, if this is its state."""
        i = self._places.get(param)
        if i is None or len(state) != len(self.columns):
            return None
        whose = zip(state, self.columns, self.cells, strict=True)
        return i if all(t is column[i] and t._storage is cell for t, column, cell in whose) else None

    def read(self, places: Sequence[int]) -> list[Any]:
        """For every entry the state of some of the parameters, in a row."""
        if self._is_whole(places):
            return [cell.value for cell in self.cells]
        return [jnp.concatenate([self._cut(cell.value, i) for i in places]) for cell in self.cells]

    def write(self, places: Sequence[int], values: Sequence[Any]) -> None:
        """New state of these parameters."""
        for cell, value in zip(self.cells, values, strict=True):
            if not self._is_whole(places):
                pieces = [self._cut(cell.value, i) for i in range(len(self.params))]
                ends = np.cumsum([pieces[i].size for i in places])[:-1]
                for i, piece in zip(places, jnp.split(value, ends), strict=True):
                    pieces[i] = piece
                value = jnp.concatenate(pieces)
            cell.value = value

    def _is_whole(self, places: Sequence[int]) -> bool:
        return list(places) == list(range(len(self.params)))

    def _cut(self, value: Any, i: int) -> Any:
        return value[self._ends[i - 1] if i else 0 : self._ends[i]]


def pack_state(optimizer: Any) -> list[Pack]:
    """Put an optimizer's state together for a trace, where that can be; returns the packs that were apart."""
    tight = {pack for pack in optimizer._packs if pack.tight}
    kept = [pack for pack in optimizer._packs if pack.is_current(optimizer.state) and pack.tighten()]
    loosen(tight - set(kept))
    optimizer._packs = [*kept, *(pack for pack in _packs_of(optimizer) if pack.tighten())]
    return [pack for pack in optimizer._packs if pack not in tight]


def loosen(packs: Iterable[Pack]) -> None:
    """Give the tensors Storages of their own, but where somebody has made views of them."""
    tight = [pack for pack in packs if pack.tight]
    if not tight:
        return
    members = {id(t) for pack in tight for t in pack.members()}
    shared = {id(getattr(t, "_storage", None)) for t in alive(Tensor) if id(t) not in members}
    for pack in tight:
        if shared.isdisjoint(map(id, pack.cells)):
            pack.loosen()


def _packs_of(optimizer: Any) -> Iterable[Pack]:
    """Packs for parameters whose state is in Storages of its own."""
    most = tuning.pack_parameters if loops.are_available() else tuning.pack_parameters_by_xla
    for group in optimizer.param_groups:
        kind = optimizer._kind_of(group)
        if kind is None:
            continue
        names = [k for k in kind.slots if k is not None]
        states = [(p, optimizer.state.get(p) or optimizer._premade.get(p) or {}) for p in group["params"]]
        found = [(p, p, state) for p, state in states if _fits(p, state, names, kind.numbers)]
        for entries in by_numbers(kind, found):
            params = [p for p, _, _ in entries]
            columns = [[state[k] for _, _, state in entries] for k in names]
            types = [type_of(p._value) for p in params]
            for where in alike(types, columns, [None] * len(params))[0]:
                for i in range(0, len(where), most):
                    some = where[i : i + most]
                    yield Pack([params[j] for j in some], names, [[c[j] for j in some] for c in columns])


def _fits(p: Tensor, state: dict[str, Any], names: Sequence[str], numbers: Sequence[str]) -> bool:
    return (
        p.requires_grad
        and p._view is None
        and isinstance(p._value, jax.Array)
        and all(isinstance(state.get(k), Tensor) for k in numbers)
        and all(is_free(state.get(k)) for k in names)
    )
