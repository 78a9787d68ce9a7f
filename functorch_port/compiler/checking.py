"""The checks of values that a compiled function makes at every call: those that eager mode makes (`core.refusal`).

What is given to a call (targets, token ids, slices of them) is checked before the program runs, by numpy on the host,
where on a CPU it can be read in place. What the program computes is checked in it: it returns an array of flags, and
if one is set, what it was given to overwrite comes back as it was. Either way a check that fails leaves all state alone.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from ..core import host, storage
from ..core.donation import on_one_cpu
from ..core.refusal import Check, unknown
from ..core.storage import Storage
from ..core.tensor import Tensor
from .assemble import _live
from .overlay import Overlay
from .places import Given
from .program import Program, aval

__all__ = ["Before", "Within", "are_on", "outputs", "sort_out"]

#: elements of integers, and of others, that are checked on the host
_MOST_INTEGERS, _MOST_OTHERS = 1 << 20, 1 << 13
#: microseconds that computing what is to be checked may take there, by the estimate of `core.host`
_MOST_TIME = 500.0


def are_on(wanted: bool | None) -> bool:
    """Whether a program is to make checks: as it was asked for, as the environment says, or on a CPU."""
    if wanted is not None:
        return wanted
    setting = os.environ.get("FUNCTORCH_PORT_CHECKS")
    return jax.default_backend() == "cpu" if setting is None else setting.lower() not in ("0", "false", "off")


class Before:
    """The checks of what is given to a call."""

    def __init__(self) -> None:
        #: a Storage, or the number of an argument
        self.sources: list[Storage | int] = []
        #: the check, the numbers of its sources, and from their numpy arrays to its values (None: they are its values)
        self.checks: list[tuple[Check, list[int], Callable[..., Any] | None]] = []
        #: the arrays that were found to be good last
        self.good: list[Any] = []

    def add(self, check: Check, sources: Sequence[Storage | int], compute: Callable[..., Any] | None) -> None:
        self.sources += [s for s in sources if s not in self.sources]
        self.checks.append((check, [self.sources.index(s) for s in sources], compute))

    def __call__(self, leaves: Sequence[Any]) -> None:
        """Raise for what eager mode would refuse."""
        cells = [leaves[s] if s.__class__ is int else s for s in self.sources]
        cells = [c._storage if isinstance(c, Tensor) and c._view is None else c for c in cells]
        values = [c if isinstance(c, jax.Array) else c._value for c in cells]
        if _same(self.good, values):
            return
        hosts = [_on_host(cell, value) for cell, value in zip(cells, values, strict=True)]
        for check, numbers, compute in self.checks:
            given = [hosts[n] for n in numbers]
            if compute is not None:
                given = host.quiet.run(compute, *given)
            found = check.bad(*given)
            if found is not False and np.any(found):
                raise check.error(*given)
        self.good = [weakref.ref(value) for value in values]


def _same(good: Sequence[Any], values: Sequence[Any]) -> bool:
    return len(good) == len(values) and all(ref() is value for ref, value in zip(good, values, strict=True))


def _on_host(cell: Any, value: Any) -> Any:
    """The value as a numpy array."""
    known = cell.on_host() if isinstance(cell, Storage) else None
    return np.asarray(value) if known is None else known


class Within:
    """The checks that a program makes of what it computes.

    Attributes:
        count: how many.
        index: which output has their flags.
        place: from the inputs of a call to inputs and constants of the jaxpr.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.checks: list[tuple[Check, Any]] = []
        self.place: Callable[[Sequence[Any]], tuple[list[Any], list[Any]]] | None = None

    @property
    def count(self) -> int:
        return len(self.checks)

    def failed(self, outs: Sequence[Any]) -> int | None:
        """The first check that failed, given the program's outputs; None if all is well."""
        flags = np.asarray(outs[self.index])
        return int(flags.argmax()) if flags.any() else None

    def error(self, number: int, given: Sequence[Any]) -> Exception:
        """What to raise for a check that failed, with the values it failed for, from the inputs of the call."""
        check, closed = self.checks[number]

        def compute(given: Sequence[Any]) -> list[Any]:
            values, consts = self.place(given)  # type: ignore[misc]
            return jaxpr_as_fun(closed.replace(consts=consts))(*values)

        try:
            with storage.x64():
                values = jax.jit(compute)(list(given))
            return check.error(*map(np.asarray, values))
        except Exception:  # computed apart from the rest, rounding differs: nothing may be wrong with these values
            return unknown(check.error, check.values)()


def outputs(overlay: Overlay) -> list[Any]:
    """At the end of a trace: for every check its flag and its values."""
    arrays = []
    for check in overlay.checks or ():
        arrays += [check.flag(), *check.values]
        check.values = [aval(v) for v in check.values]
    return arrays


def sort_out(
    program: Program, overlay: Overlay, closed: Any, cells: list[Storage], arrays: list[int], given: Given
) -> Any:
    """Give the program its checks. Returns the jaxpr with the flags of those that it makes itself as last outputs."""
    checks = overlay.checks or []
    if not checks:
        return closed
    outs = closed.jaxpr.outvars
    start = end = len(outs) - sum(1 + len(check.values) for check in checks)
    before, within, flags = Before(), Within(start), []
    places = _readable(program, overlay, cells, arrays, given, len(closed.jaxpr.invars))
    for check in checks:
        flag, values = outs[end], outs[end + 1 : end + 1 + len(check.values)]
        end += 1 + len(values)
        if not _check_before(before, check, closed, values, places):
            within.checks.append((check, closed.replace(jaxpr=_part(closed.jaxpr, values))))
            flags.append(flag)
    program.before = before if before.checks else None
    program.within = within if flags else None
    overlay.checks = None
    return closed.replace(jaxpr=closed.jaxpr.replace(outvars=[*outs[:start], *flags]))


def _readable(
    program: Program,
    overlay: Overlay,
    cells: list[Storage],
    arrays: list[int],
    given: Given,
    count: int,
) -> dict[int, Storage | int]:
    """The inputs that can be read on the host before a call: the position, and where they come from.

    What is given away is none of them: whoever has looked at an array cannot give its memory away.
    """
    written = {cell for cell, _, _ in program.cell_writes} | overlay.packs.keys()
    written |= {g._storage for g in overlay.grad_reads.values() if g is not None}
    found: dict[int, Storage | int] = {}
    for position, cell in enumerate(cells):
        if cell in given.cells:
            found[position] = given.cells[cell]
        elif cell not in written:
            found[position] = cell
    found = {position: source for position, source in found.items() if on_one_cpu(cells[position]._value)}
    return found | {count - len(arrays) + k: i for k, i in enumerate(arrays) if on_one_cpu(given.leaves[i])}


def _check_before(
    before: Before, check: Check, closed: Any, values: Sequence[Any], places: dict[int, Storage | int]
) -> bool:
    """Have a check made before a call, if that can be done, and pays."""
    sizes = [(v.size, _MOST_INTEGERS if v.dtype.kind in "iu" else _MOST_OTHERS) for v in check.values]
    if any(size > most for size, most in sizes):
        return False
    jaxpr = _part(closed.jaxpr, values)
    used = [k for k, there in enumerate(_live(jaxpr)[1]) if there]
    if not used or not places.keys() >= set(used):
        return False
    inputs = [jaxpr.invars[k] for k in used]
    compute = None
    if inputs != list(values):
        kept = {id(x) for eqn in jaxpr.eqns for x in eqn.invars} | set(map(id, values))
        consts = [(v, c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True) if id(v) in kept]
        small = jaxpr.replace(invars=inputs, constvars=[v for v, _ in consts])
        function = jaxpr_as_fun(ClosedJaxpr(small, [c for _, c in consts]))
        examples = [np.zeros(x.aval.shape, x.aval.dtype) for x in inputs]
        compute = host.function(function, examples, _MOST_INTEGERS, _MOST_TIME)
        if compute is None:
            return False
    before.add(check, [places[k] for k in used], compute)
    return True


def _part(jaxpr: Any, values: Sequence[Any]) -> Any:
    """What of the jaxpr computes these values."""
    part = jaxpr.replace(outvars=list(values))
    return part.replace(eqns=_live(part)[0])
