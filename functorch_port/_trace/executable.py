"""The pure function of a program, compiled: from the arrays of its inputs to those of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from .._array import tracing
from .._array.donation import Donating
from .._base import lowering

if TYPE_CHECKING:
    from .pending import Pending

__all__ = ["Executable"]


class Executable:
    """A pure function ``pure(donated, kept)`` with its compiled form.

    Attributes:
        jaxpr: what it computes.
        donated: where the inputs come from that it overwrites.
        input_avals: shapes and dtypes of all inputs.
        xla: the options that the user gave.
        compiler_options: for `jax.jit`, those among them.
        is_narrow: whether nothing has 64 bits: then a call does without the context for that, a tenth of a small one's
            time.
        shardings: of the outputs, where XLA is not to choose them.
        call: the compiled function.
        pending: what computes the gradients that a call leaves out, until somebody has read one.
    """

    def __init__(
        self,
        pure: Callable[..., Any],
        jit: Callable[..., Any],
        jaxpr: Any,
        donated: Sequence[Any],
        input_avals: Sequence[Any],
        xla: dict[str, Any] | None,
        is_narrow: bool,
        shardings: Sequence[Any] | None = None,
    ) -> None:
        self.pure, self.jaxpr, self.donated, self.input_avals = pure, jaxpr, donated, input_avals
        self.xla, self.is_narrow = xla, is_narrow
        self.compiler_options = _options(jaxpr, xla)
        self.call = self.donating(jit, 0, **({} if shardings is None else {"out_shardings": shardings}))
        self.jit: Any = self.call.jit
        self.count = len(donated)
        self.pending: Pending | None = None

    def donating(self, fn: Callable[..., Any], *given: int, **how: Any) -> Donating:
        """A function that computes this or a part of it, compiled; ``how`` for `jax.jit`."""
        jaxpr, xla, now = (
            self.jaxpr,
            self.xla,
            self.compiler_options,
        )  # it does not hold the Executable, which holds it

        def compiled(options: dict[str, Any] | None) -> Any:
            return jax.jit(fn, donate_argnums=given, compiler_options=options, **how)

        def often() -> Any:
            options = _options(jaxpr, xla, often=True)
            return None if options == now else compiled(options)

        return Donating(compiled(now), given, often)

    def avals(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Shapes and dtypes of what ``pure(donated, kept)`` and ``jit`` take."""
        return self.input_avals[: self.count], self.input_avals[self.count :]

    def lower(
        self, platforms: Sequence[str] | None = None, avals: Sequence[Any] | None = None, **options: Any
    ) -> Any:
        """What a call runs, lowered: ``.compile()`` tells its cost and memory, ``.as_text()`` its operations.

        Args:
            platforms: names of JAX's, such as ``("tpu",)``, which need not be here; that of the program unless given.
            avals: of all inputs, in place of those that the program has, for devices that need not be here.
            options: for `jax.jit`, such as ``in_shardings`` and ``out_shardings`` on other devices than these.
        """
        with tracing.x64():
            if self.pending is not None:
                traced = self.pending.trace(avals, compiler_options=self.xla, **options)
            elif platforms is None and avals is None and not options:
                traced = self.jit.trace(*self.avals())
            else:
                if avals is None:
                    avals = [a.update(sharding=None) for a in self.input_avals]  # not those of here
                jitted = jax.jit(self.pure, donate_argnums=0, compiler_options=self.xla, **options)
                traced = jitted.trace(avals[: self.count], avals[self.count :])
            return traced.lower(lowering_platforms=platforms)


def _options(jaxpr: Any, xla: dict[str, Any] | None, often: bool = False) -> dict[str, Any] | None:
    """What `jax.jit` is told: what a platform has to say of the program, and the user, who has the last word."""
    own = lowering.compiler_options(jaxpr.jaxpr, often)
    return own if xla is None else {**(own or {}), **xla}
