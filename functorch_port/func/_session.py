"""`Session`: what the levels of one outermost transform share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .._array.storage import Storage
from .._tensor.tensor import Tensor

__all__ = ["Session"]


class Session:
    """The state shared by all levels of one outermost transform.

    Attributes:
        captured: tensors from outside that require grad and were read, in order; for a view, its base.
        substitutes: Storages of those tensors -> the arrays that replace them in the second run.
        draws: the random arrays of the first run, which the second run uses again.
        device: device of the first argument; None if there is none.
        written: Storages from outside that a `Body` writes, in order; found in the dry run.
        written_recorded: whether one of them was written to with gradients enabled, which does not count for integers.
        state: those Storages -> their values now.
        lent: for each transform in progress, the Storages of what it was given.
    """

    def __init__(self, device: Any = None) -> None:
        self.device = device
        self.captured: dict[Tensor, None] = {}
        self.substitutes: dict[Storage, Any] = {}
        self.draws: list[Any] = []
        self.position = 0
        self.dry = False
        self.written: dict[Storage, None] = {}
        self.written_recorded = False
        self.state: dict[Storage, Any] = {}
        self.lent: list[set[Storage]] = []
        #: whether a transform of JAX runs the outermost one
        self.in_jax = False

    def again(self, captured: Sequence[Tensor], arrays: Sequence[Any]) -> None:
        """Start the second run."""
        self.substitutes = {t._storage: a for t, a in zip(captured, arrays)}
        self.position = 0

    @contextmanager
    def lending(self, tensors: Sequence[Tensor]) -> Iterator[None]:
        """Give the tensors' values to a transform."""
        self.lent.append({t._storage for t in tensors})
        try:
            yield
        finally:
            self.lent.pop()

    def random(self, draw: Callable[[], Any]) -> Any:
        if self.position == len(self.draws):
            self.draws.append(draw())
        self.position += 1
        return self.draws[self.position - 1]
