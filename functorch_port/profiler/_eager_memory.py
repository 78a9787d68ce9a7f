"""The memory of an eager step: the arrays that live Storages and the autograd graph hold, at three moments."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import jax
import numpy as np

from .._array.joint import Part
from .._array.storage import Storage
from .._array.value import computed
from .._base.alive import alive
from .._tensor.tensor import Tensor
from .._tensor.tree import tensors
from ..autograd import profiler
from ..autograd._engine import reach
from ..autograd._task import walks
from ..autograd.function import FunctionCtx
from ..autograd.profiler import address, dense_parts, whole
from ..nn._place import Place
from ._owners import NO_MODULE, Moment, Owner, name_of, nbytes_of, owners

__all__ = ["ACTIVATIONS", "INPUTS", "OTHER", "Watcher"]

ACTIVATIONS, INPUTS, OTHER = "activations", "inputs", "other"


class Watcher(profiler.profile):
    """A profile that takes stock of the memory when backward begins, when it is over, and when the step is.

    Attributes:
        moments: by name what there is at a moment.
    """

    def __init__(self, step: Any, given: Iterable[Any]) -> None:
        super().__init__()
        self._step = step
        self.moments: dict[str, Moment] = {}
        self._inputs = weakref.WeakSet(part._storage for t in given for part in dense_parts(t))
        self._used: weakref.WeakSet[Storage] = weakref.WeakSet()
        self._places: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._old = weakref.WeakSet(_nodes())
        self._module = Place(partial(name_of, step), "/")
        self._walk: int | None = None
        self._before = {id(cell): weakref.ref(cell) for cell in alive(Storage)}

    def __enter__(self) -> Watcher:
        super().__enter__()  # refuses another profile, before there are hooks
        self._module.start()
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        self._module.stop()
        if exc[0] is None:
            self._note("after the step", self._stock())

    def run_op(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._walk is not None and not walks.stack:  # the first operation after a backward pass
            self._after_backward()
        flat = [t for a in (*args, *kwargs.values()) for t in (a if isinstance(a, list | tuple) else (a,))]
        self._used.update(t._storage for t in flat if isinstance(t, Tensor))
        return self._placed(super().run_op(op, args, kwargs))

    def run_compiled(self, compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = super().run_compiled(compiled, args, kwargs)
        for program in compiled.programs()[:1]:
            self._used.update((*program.inputs.donated, *program.inputs.cells))
        return self._placed(out)

    def _placed(self, out: Any) -> Any:
        """Results, of which it is noted which module has made them."""
        path = self._module.now or NO_MODULE
        for tensor in tensors(out):
            if tensor._grad_fn is not None:
                self._places[tensor._grad_fn] = path
        return out

    def at_node(self, node: Any, run: Callable[..., Any]) -> Callable[..., Any]:
        if self._walk != walks.stack[0].number:
            self._walk = walks.stack[0].number
            self._take("when backward begins")
        return super().at_node(node, run)

    def naming(self, name: str, run: Callable[..., Any], optimizer: Any) -> Callable[..., Any]:
        self._after_backward()
        return super().naming(name, run, optimizer)

    def _after_backward(self) -> None:
        if self._walk is not None:
            self._walk = None
            self._take("after backward")

    def _take(self, moment: str) -> None:
        """Take stock."""
        self._note(moment, self._apart(self._stock))

    def _note(self, moment: str, now: Moment) -> None:
        """Of several moments of a name the one that needs most counts."""
        before = self.moments.get(moment)
        if before is None or now.costs.total() > before.costs.total():
            self.moments[moment] = now

    def _stock(self) -> Moment:
        known = owners(self._step, self._used)
        seen: set[Any] = set()
        moment = Moment()

        def add(value: Any, owner: Owner) -> None:
            for place, nbytes in _memory(value):
                if place not in seen:
                    seen.add(place)
                    moment.add(owner, nbytes)

        for cell, owner in known.items():  # small ones may be parts of an array
            moment.add(owner, nbytes_of(cell))
            seen |= {place for place, _ in _memory(cell)}
        for cell in self._inputs:
            add(cell, Owner(INPUTS, NO_MODULE))
        old = [ref() for ref in self._before.values()]
        hidden = {place for one in old if one is not None and one not in known for place, _ in _memory(one)}
        seen |= hidden  # of others, or data from before: the step has not made it
        for node in sorted(_nodes(), key=lambda node: node.seq):
            for value in () if node in self._old else _held_by(node):
                add(value, Owner(ACTIVATIONS, self._places.get(node, NO_MODULE)))
        for cell in alive(Storage):
            add(cell, Owner(OTHER, NO_MODULE))
        return moment


def _nodes() -> list[Any]:
    """The nodes of all graphs that lead to a tensor."""
    return reach([(t._grad_fn, 0) for t in alive(Tensor) if t._grad_fn is not None])[0]


def _held_by(node: Any) -> list[Any]:
    """The arrays and Storages that a node keeps for its backward pass."""
    if isinstance(node, FunctionCtx):
        return [item[1]._storage for item in node._saved or () if isinstance(item[1], Tensor)]
    kept = getattr(node, "kept", None)
    values = [*(getattr(node, "values", None) or ()), *(getattr(node, "residuals", None) or ())]
    return [*values, *kept[1]] if isinstance(kept, tuple) else values


def _memory(value: Any) -> list[tuple[Any, int]]:
    """Where the memory of a Storage or an array is, and how much it is."""
    if isinstance(value, Storage):
        held = value.held
        if isinstance(held, Part):
            return [((id(held.joint), id(value)), int(held.size * held.dtype.itemsize))]
        value = value.look()
    (value,) = computed([value])
    if isinstance(value, np.ndarray):  # of a view all that it keeps in memory
        root = whole(value)
        return [(address(root), root.nbytes)] if root.nbytes else []
    if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer) and not value.is_deleted():
        return [(s.data.unsafe_buffer_pointer(), s.data.nbytes) for s in value.addressable_shards]
    return []
