"""Gradients that a compiled training step leaves behind: computed only if somebody looks at them.

After a step that makes gradients and uses them up, ``.grad`` is full, as in PyTorch, and is hardly ever read before
the next step drops it. Returning it would cost a write of every gradient, and more than that in the call. So the
program runs without these outputs, and ``.grad`` holds a `Pending`: the inputs of the call, which for that reason are
not donated. Whoever reads ``.grad`` gets the gradients computed from them, and from then on the program returns them.

Memory is that of returned gradients: the parameters before the call are kept, and the next call but one writes there.
So the call goes through twice the parameters' memory. Where that is what a step of large ones waits for, such gradients
are returned at once (see `pays`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any
from weakref import ref

import jax
import jax.numpy as jnp

from .._array import tracing
from .._array.donation import is_one_cpu, own
from .._array.joint import kind_of
from .._array.offloaded import is_on_hosts
from .._base import alive
from .._base.tuning import tuning
from .._tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from .executable import Executable as Program

__all__ = ["Pending", "pays"]


def pays(tensors: Sequence[Tensor]) -> bool:
    """Whether to leave the gradients of these parameters pending."""
    kinds = [kind_of(t._storage) for t in tensors]
    places = [place for _, _, place, _ in kinds if place is not None]
    # on several devices memory is scarce, and one process cannot ask alone
    if any(len(place.device_set) > 1 or is_on_hosts(place) for place in places):
        return False
    return sum(prod(shape) for shape, *_ in kinds) < tuning.pending_elements * len(kinds) or not all(
        map(is_one_cpu, places)
    )


class Pending:
    """What stands in the ``.grad`` of the parameters that a program stepped.

    Args:
        program: gives the gradients last when called as ``pure(donated, kept)``.
        needed: which of its inputs they depend on; the last ones of those that are donated.
        targets: the parameters.
        others: what a call does to other gradients.
    """

    __slots__ = (
        "__weakref__", "avals", "call", "compute", "donated", "given", "lean", "needed", "others", "program",
        "promised", "safe", "targets",
    )  # fmt: skip

    def __init__(
        self,
        program: Program,
        needed: list[int],
        targets: list[Tensor],
        others: list[Any],
    ) -> None:
        pure, avals, count = program.pure, program.input_avals, len(targets)

        def lean(donated: list[Any], old: list[Any], kept: list[Any]) -> list[Any]:
            del old  # its memory is for the new values of the inputs that are kept
            return pure(donated, kept)[:-count]

        def gradients(values: list[Any]) -> list[Any]:
            full: list[Any] = [jnp.zeros(a.shape, a.dtype) for a in avals]  # nothing depends on the others
            for k, value in zip(needed, values, strict=True):
                full[k] = value
            return pure(full, [])[-count:]

        self.program = ref(program)  # which holds this
        self.needed, self.targets, self.others = needed, targets, others
        self.avals, self.donated = avals, len(program.donated)
        self.safe = min([self.donated, *needed])
        self.lean = lean
        self.call = program.donating(lean, 0, 1, keep_unused=True)
        self.compute = jax.jit(gradients)
        self.given: list[Any] = []
        self.promised: list[Tensor] = []
        alive.pendings.enter(self)

    def promise(self) -> list[Tensor]:
        """The gradients without values, for a trace that may read them: they come with `fill`."""
        if not self.promised and self.given and any(t._kept_grad is self for t in self.targets):
            self.promised = [wrap(jax.ShapeDtypeStruct(t._value.shape, t._value.dtype)) for t in self.targets]
        return self.promised

    def trace(self, avals: Sequence[Any] | None = None, **options: Any) -> Any:
        """What a call runs, traced; ``options`` for `jax.jit`, ``avals`` in place of the program's."""
        jitted = jax.jit(self.lean, donate_argnums=(0, 1), keep_unused=True, **options)
        avals, safe = self.avals if avals is None else avals, self.safe
        return jitted.trace(avals[:safe], avals[safe : self.donated], avals[safe:])

    def run(self, results: list[Any], donated: list[Any], kept: list[Any], kind: Any) -> None:
        """Run the program without the gradients, as `Donating.into`."""
        old = own(self.given[self.safe : self.donated] or kept[: self.donated - self.safe])
        self.call.into(results, (donated, old, kept), kind)

    def note(self, donated: list[Any], kept: list[Any]) -> None:
        """From now on the gradients of the call that was given these are pending."""
        self.given, self.promised = [*donated, *kept], []
        for tensor in self.targets:
            tensor._kept_grad = self  # type: ignore[assignment]

    def fill(self) -> None:
        """Compute the gradients, unless another thread has."""
        with tracing.turn:
            if self.given:
                self._fill()

    def _fill(self) -> None:
        program = self.program()
        if program is not None:
            program.pending = None  # somebody reads gradients here: return them from now on
        with tracing.outside():
            grads = self.compute([self.given[k] for k in self.needed])
            tensors = self.promised or [wrap(grad) for grad in grads]
            for target, tensor, grad in zip(self.targets, tensors, grads, strict=True):
                tensor._storage.put(grad)
                if target._kept_grad is self:
                    target._kept_grad = tensor
        self.given = []
