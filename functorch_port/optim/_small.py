"""Small parameters, whose state is joined: a call of a program takes some time for each of its arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, TypeAlias

from .._array.donation import is_one_cpu
from .._array.joint import Joint, default_sharding, kind_of
from .._array.offloaded import is_on_hosts
from .._base.tuning import tuning
from .._tensor.tensor import Tensor
from ._scalars import host_number

__all__ = ["Entry", "by_numbers", "chunks", "join_state", "place_of"]

#: parameter, gradient, state
Entry: TypeAlias = tuple[Tensor, Tensor, dict[str, Any]]


def place_of(tensor: Tensor) -> Any:
    """The sharding of a tensor's array, or what that has once it leaves the host."""
    return _place(kind_of(tensor._storage))


def _place(kind: tuple[Any, ...]) -> Any:
    return default_sharding() if kind[2] is None else kind[2]


def by_numbers(names: Sequence[str], entries: Iterable[Entry]) -> list[list[Entry]]:
    """The entries, those with equal numbers together."""
    found: dict[Any, list[Entry]] = {}
    for entry in entries:
        values = [host_number(entry[2][name]._look()) for name in names]
        found.setdefault(tuple([(v.dtype, v) for v in values]), []).append(entry)
    return list(found.values())


def chunks(entries: Sequence[Entry], slots: Sequence[str]) -> tuple[list[list[int]], list[int]]:
    """Places of small parameters whose state can be joined, in chunks for a joint each, and those of the others."""
    places: dict[Any, list[int]] = {}
    for i, (param, grad, state) in enumerate(entries):
        tensors = [param, *(state[k] for k in slots)]
        kinds = [kind_of(t._storage) for t in tensors]
        shape, sharding = kinds[0][0], _place(kinds[0])
        fits = prod(shape) <= tuning.joint_elements and len(sharding.device_set) == 1
        fits = fits and all([kind[0] == shape and _place(kind) == sharding for kind in kinds])  # noqa: C419 (faster)
        fits = fits and not is_on_hosts(sharding)
        key = (sharding, grad.dtype, *(kind[1] for kind in kinds)) if fits else None
        places.setdefault(key, []).append(i)
    loose = places.pop(None, [])
    found = []
    for where in places.values():
        if len(where) >= tuning.joint_least:
            found += [where[i : i + tuning.joint_members] for i in range(0, len(where), tuning.joint_members)]
        else:
            loose += where
    return found, sorted(loose)


def join_state(optimizer: Any) -> None:
    """Have the state of small parameters joined for a trace; if they are very many, the parameters, too."""
    found: list[list[Entry]] = []
    for group in optimizer.param_groups:
        kind = optimizer._kind_of(group)
        if kind is None:
            continue
        slots = kind.used()
        states = [(p, p, optimizer.state.get(p) or optimizer._premade.get(p) or {}) for p in group["params"]]
        whole = [entry for entry in states if _fits(entry, kind.entries())]
        for entries in by_numbers(kind.numbers, whole):
            some = [[entries[i] for i in where] for where in chunks(entries, slots)[0]]
            for k in slots:
                for chunk in some:
                    Joint.of([state[k]._storage for _, _, state in chunk])
            found += some
    if sum(map(len, found)) >= tuning.joint_parameters:
        for chunk in found:
            if is_one_cpu(place_of(chunk[0][0])):
                Joint.of([p._storage for p, _, _ in chunk])


def _fits(entry: Entry, names: Sequence[str]) -> bool:
    param, _, state = entry
    tensors = [param, *map(state.get, names)]
    return param.requires_grad and all(isinstance(t, Tensor) and t._view is None for t in tensors)
