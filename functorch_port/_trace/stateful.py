"""Objects with state that a trace looks after by itself: modules and optimizers, whose classes are registered here.

A trace finds every tensor without knowing who holds it, and compares plain Python objects by what is read of them
(`reads`). Of some classes it has to know more: which of their attributes have guards of their own, which tables of
hooks and parts decide what they do, and how their tensors are called in messages. That is a `Kind`. A new one is
registered where its class is defined, say a class ``Ema`` that keeps averages in a dict ``shadow``::

    register(Kind(Ema, guards="shadow".__eq__, tensors=Ema.named_averages, tables=("shadow",)))

Its methods tell the trace in progress which instance is at work, as ``Module.__call__`` and ``Optimizer.step`` do::

    if tracing.overlay:
        tracing.overlay.note_stateful(self)

and call `tracing.bump_epoch` where they change a table, as guards on tables are compared only after that. What
``steps`` is also a `Stepping`: it makes its state before a trace, and may join some of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .._array.storage import Storage
from .._tensor.tensor import Tensor

__all__ = ["Kind", "Stepping", "fields_of", "kind_of", "kinds", "register", "tables_of"]


@dataclass(frozen=True)
class Kind:
    """What a trace knows of the instances of a class.

    Attributes:
        cls: the class.
        guards: whether an attribute of that name has a guard of its own, so that its value is not compared.
        tensors: the tensors of an instance: what each is ("parameter", or nothing), its name after that of the
            instance, and the tensor.
        tables: names of dicts in ``__dict__`` whose entries decide what an instance does.
        shared: such tables that all instances have in common.
        method: which method a call runs, if a call depends on attributes. They are compared, also those of our own
            classes, but only if one was set since: ``__setattr__`` counts names that are in `tracing.watched`.
        steps: whether it is a `Stepping`, whose numbers are inputs of a program.
        compiled: what `compile` makes of an instance; None: what it makes of a function.
    """

    cls: type
    guards: Callable[[str], bool]
    tensors: Callable[[Any], Iterator[tuple[str, str, Tensor]]]
    tables: tuple[str, ...] = ()
    shared: tuple[dict[Any, Any], ...] = ()
    method: str | None = None
    steps: bool = False
    compiled: Callable[..., Any] | None = None


class Stepping(Protocol):
    """What takes steps, and is entered in `alive.optimizers`.

    Attributes:
        param_groups: dicts with ``"params"`` and hyperparameters.
        state: a dict for every parameter.
    """

    param_groups: list[dict[str, Any]]
    state: dict[Any, Any]
    _premade: dict[Any, dict[str, Any]]

    def _enter_trace(self, join: bool, described: bool = False) -> None:
        """Make in ``_premade`` the state that a first step would; with ``join`` have small state joined."""

    def _count_cells(self) -> list[list[tuple[Storage, ...]]]:
        """Of every group, for every parameter, the Storages that count its steps."""


_kinds: list[Kind] = []


def register(kind: Kind) -> None:
    """Have traces look after the instances of a class."""
    _kinds.append(kind)
    _kinds.sort(key=lambda known: known.steps)


def kinds() -> Sequence[Kind]:
    """Those registered; what steps comes last, as its tensors are mostly parameters, which have names in a module."""
    return _kinds


def kind_of(value: Any) -> Kind | None:
    """The kind of an object; None if it is a plain one."""
    return next((kind for kind in _kinds if isinstance(value, kind.cls)), None)


def tables_of(instance: Any) -> dict[str, dict[Any, Any]]:
    """Copies of the tables of an instance, by their names."""
    kind, fields = kind_of(instance), fields_of(instance) or {}
    return {} if kind is None else {name: dict(fields[name]) for name in kind.tables if name in fields}


def fields_of(owner: Any) -> dict[str, Any] | None:
    """The ``__dict__`` of an object, without a trace taking note that somebody looked at it; None if it has none."""
    try:
        return object.__getattribute__(owner, "__dict__")  # type: ignore[no-any-return]
    except AttributeError:
        return None
