"""`memory_breakdown`: what the memory of a training step is used for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .._base import tables
from .._base.device import device_type_of_platform, platform
from .._base.optional import optional
from .._base.units import BYTES, nbytes, unit_of
from .._tensor.tree import tensors
from .._trace.compiled import compiled_of
from . import _compiled_memory as of_compiled
from ._compiled_memory import TEMPORARY
from ._eager_memory import ACTIVATIONS, INPUTS, OTHER, Watcher
from ._owners import BUFFERS, GRADIENTS, PARAMETERS, STATE, Moment

__all__ = ["Breakdown", "memory_breakdown"]

#: the costs in the order in which they are shown, with colours
_COLOURS = {
    PARAMETERS: "#4c78a8",
    GRADIENTS: "#f58518",
    STATE: "#54a24b",
    ACTIVATIONS: "#b279a2",
    TEMPORARY: "#b279a2",
    BUFFERS: "#72b7b2",
    INPUTS: "#bab0ac",
    OTHER: "#e0e0e0",
}


@dataclass
class Breakdown:
    """What `memory_breakdown` found, in bytes. Print it, or `plot` it.

    Attributes:
        moments: by moment the bytes of each cost. A compiled step has one moment, the call.
        modules: by module the bytes of each cost, at the moment when that was largest.
        estimates: by module what its forward pass computes and the backward pass reads. It is an estimate, of a
            compiled step only: XLA may compute some of it again.
        xla: what XLA says of a compiled step's program.
    """

    moments: dict[str, Counter[str]]
    modules: dict[str, Counter[str]]
    estimates: Counter[str] = field(default_factory=Counter)
    xla: dict[str, int] = field(default_factory=dict)

    def __getitem__(self, cost: str) -> int:
        """Bytes of a cost, such as ``"activations"``, at the moment when it is largest."""
        return max(moment[cost] for moment in self.moments.values())

    @property
    def total(self) -> int:
        """Bytes of all, at the moment when that is largest."""
        return max(moment.total() for moment in self.moments.values())

    def __str__(self) -> str:
        return self.table()

    def table(self, modules: int = 20) -> str:
        """The numbers as text.

        Args:
            modules: how many to list at most, those with most memory.
        """
        new = partial(tables.table, "memory_breakdown's table")
        whole = new(title="Memory of the step" if not self.xla else "Memory of the compiled step")
        whole.add_column("")
        for moment in self.moments:
            whole.add_column(moment, justify="right")
        for cost in self._costs():
            whole.add_row(cost, *(_bytes(moment[cost]) for moment in self.moments.values()))
        whole.add_section()
        whole.add_row("total", *(_bytes(moment.total()) for moment in self.moments.values()))
        of_modules = new(title="By module")
        costs = [c for c in self._costs() if any(one[c] for one in self.modules.values())]
        for title in ("", *costs, *(["kept for backward (estimate)"] if self.estimates else [])):
            of_modules.add_column(title, justify="right" if title else "left")
        names = [*self.modules, *(name for name in self.estimates if name not in self.modules)]
        size = lambda name: self.modules.get(name, Counter()).total() + self.estimates[name]
        names.sort(key=size, reverse=True)
        for name in names[:modules]:
            one = self.modules.get(name, Counter())
            more = [_bytes(self.estimates[name])] if self.estimates else []
            of_modules.add_row(name, *(_bytes(one[c]) for c in costs), *more)
        if len(names) > modules:
            of_modules.add_row(f"... and {len(names) - modules} more")
        return tables.text("memory_breakdown's table", whole, of_modules)

    def _costs(self) -> list[str]:
        return [c for c in _COLOURS if any(moment[c] for moment in self.moments.values())]

    def plot(self, path: Any) -> None:
        """Draw the numbers: a bar for each moment, and one for each of the modules that need most.

        Args:
            path: of the picture; its name's ending says the format, as ``.png`` or ``.svg``.
        """
        figure = optional("matplotlib.figure", "memory_breakdown's picture", "viz", "matplotlib").Figure(
            figsize=(9, 4), layout="constrained"
        )
        left, right = figure.subplots(1, 2)
        biggest = sorted(self.modules, key=lambda name: self.modules[name].total())[-12:]
        _bars(left, list(self.moments), list(self.moments.values()), self._costs(), horizontal=False)
        _bars(right, biggest, [self.modules[name] for name in biggest], self._costs(), horizontal=True)
        left.set_title("the step")
        right.set_title("by module")
        left.legend(fontsize=8)
        figure.savefig(path, dpi=100)


def _bars(
    axes: Any, names: Sequence[str], rows: Sequence[Counter[str]], costs: Sequence[str], horizontal: bool
) -> None:
    unit, size = unit_of(max((row.total() for row in rows), default=0), BYTES)
    start = [0.0] * len(rows)
    for cost in costs:
        lengths = [row[cost] / size for row in rows]
        if any(lengths):
            draw = axes.barh if horizontal else axes.bar
            at = {"left" if horizontal else "bottom": list(start)}
            draw(range(len(names)), lengths, color=_COLOURS[cost], label=cost, **at)
            start = [a + b for a, b in zip(start, lengths)]
    (axes.set_yticks if horizontal else axes.set_xticks)(range(len(names)), names, fontsize=8)
    (axes.set_xlabel if horizontal else axes.set_ylabel)(unit)


def _bytes(count: int) -> str:
    return nbytes(count) if count else ""


def memory_breakdown(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Breakdown:
    """Measure what a training step needs memory for: parameters, gradients, optimizer state, activations, the rest.

    The step is run once, with all that it does. An eager step runs its operations one by one, as in a `profile`; the
    bytes are those of the arrays that are alive when backward begins, when it is over, and when the step is. An
    array that the graph keeps belongs to the module whose operation keeps it first. Of a compiled step the state is
    measured, and the rest is what XLA has planned for the program: activations and gradients that are used up in the
    step are in one number, ``temporary``.

    Args:
        step: the function, eager or compiled.
        args, kwargs: what it is called with.

    Returns:
        the numbers: ``str`` gives a table, `Breakdown.plot` a picture.

    Raises:
        NotImplementedError: XLA has no analysis of memory on this platform (compiled steps).

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.profiler import memory_breakdown
        >>> model = torch.nn.Linear(10, 5)
        >>> found = memory_breakdown(lambda x: model(x).sum().backward(), torch.ones(4, 10))
        >>> found["parameters"], found["gradients"]
        (220, 220)
    """
    compiled = compiled_of(step)
    if compiled is not None:
        step(*args, **kwargs)
        program = compiled.programs()[0]
        moment, xla = of_compiled.of_program(compiled._fn, program)
        estimates = of_compiled.kept_for_backward(
            program.executable.jaxpr.jaxpr, device_type_of_platform(platform())
        )
        return Breakdown({"the call": moment.costs}, moment.modules, estimates, xla)
    watcher = Watcher(step, tensors((args, kwargs)))
    with watcher:
        step(*args, **kwargs)
    costs = {name: moment.costs for name, moment in watcher.moments.items()}
    return Breakdown(costs, _largest(watcher.moments.values()))


def _largest(moments: Iterable[Moment]) -> dict[str, Counter[str]]:
    """By module each cost at the moment when it is largest."""
    found: dict[str, Counter[str]] = {}
    for moment in moments:
        for name, costs in moment.modules.items():
            found[name] = found.get(name, Counter()) | costs
    return found
