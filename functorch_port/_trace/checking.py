"""The checks of values that a compiled function makes at every call: those that eager mode makes (`_array.refusal`).

What is given to a call (targets, token ids, slices of them) is checked before the program runs, by numpy on the host,
where on a CPU it can be read in place. What the program computes is checked in it: it returns an array of flags, and
if one is set, what it was given to overwrite comes back as it was. Either way a check that fails leaves state alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from .._array import executor, tracing
from .._array.donation import on_one_cpu
from .._array.refusal import Check, unknown
from .._array.storage import Storage
from .._array.value import Twin
from .._base import contexts, device, settings
from .._base.jaxprs import operations, pruned, uses
from .._base.sizes import is_symbolic_dim
from .._base.tuning import tuning
from .._tensor.tensor import Tensor
from .draft import Draft
from .inputs import aval
from .overlay import Overlay
from .places import Arguments

__all__ = ["Before", "Within", "are_on", "outputs", "sort_out"]


def are_on(wanted: bool | None) -> bool:
    """Whether a program is to make checks: as it was asked for, as the environment says, or on a CPU."""
    if wanted is not None:
        return wanted
    setting = settings.get("CHECKS")
    return (contexts.state.platform or device.platform()) == "cpu" if setting is None else setting


class Before:
    """A check of what is given to a call.

    Args:
        check: what to check.
        sources: Storages, and numbers of arguments.
        compute: from their numpy arrays to the check's values; None if they are its values.
    """

    __slots__ = ("bad", "compute", "error", "first", "good", "sources")

    def __init__(
        self, check: Check, sources: Sequence[Storage | int], compute: Callable[..., Any] | None
    ) -> None:
        self.bad, self.error, self.compute, self.sources = check.bad, check.error, compute, sources
        self.first = sources[0] if len(sources) == 1 else None
        #: a weak reference to the array, if it is one, that was found to be good last
        self.good: Callable[[], Any] = _nothing

    def __call__(self, leaves: Sequence[Any]) -> None:
        """Raise what eager mode would raise."""
        if self.first is None:
            self._refuse([_host_and_array(s, leaves)[0] for s in self.sources])
            return
        cell: Any = self.first
        if cell.__class__ is int:
            cell = leaves[cell]
            if cell.__class__ is Tensor and cell._view is None:
                cell = cell._storage
        if cell.__class__ is Storage:
            held = cell.held
            if (held.made if held.__class__ is Twin else held) is self.good():
                return
        known, array = _host_and_array(cell, leaves)
        self._refuse((known,))
        self.good = ref(array)

    def _refuse(self, given: Sequence[Any]) -> None:
        if self.compute is not None:
            given = self.compute(*given)
        found = self.bad(*given)
        if found is not False and np.any(found):
            raise self.error(*given)


def _nothing() -> None:
    """A weak reference to nothing."""


def _host_and_array(source: Any, leaves: Sequence[Any]) -> tuple[Any, Any]:
    """What a Storage, or an argument, or that of a number, holds: as a numpy array and as that of JAX."""
    if source.__class__ is int:
        source = leaves[source]
    if isinstance(source, Tensor) and source._view is None:
        source = source._storage
    if not isinstance(source, Storage):
        array = source._value if isinstance(source, Tensor) else source
        return np.asarray(array), array
    array, known = source.array(), source.host()
    return np.asarray(array) if known is None else known, array


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
            with tracing.x64():
                values = jax.jit(compute)(list(given))
            return check.error(*map(np.asarray, values))
        except (
            Exception
        ):  # computed apart from the rest, rounding differs: nothing may be wrong with these values
            return unknown(check)()


def outputs(overlay: Overlay) -> list[Any]:
    """At the end of a trace: for every check its flag and its values."""
    arrays = []
    for check in overlay.checks or ():
        arrays += [check.flag(), *check.values]
        check.values = [aval(v) for v in check.values]
    return arrays


def sort_out(
    draft: Draft,
    overlay: Overlay,
    closed: Any,
    cells: list[Storage],
    arrays: list[int],
    arguments: Arguments,
    traced: Any,
    before: bool = True,
) -> Any:
    """Note the checks of a call. Returns the jaxpr with the flags of those that the program makes as last outputs.

    Args:
        traced: the jaxpr as it was traced, maybe with sizes that are not known.
        before: whether checks may be made before the program runs.
    """
    checks = overlay.checks or []
    if not checks:
        return closed
    outs = closed.jaxpr.outvars
    start = end = len(outs) - sum(1 + len(check.values) for check in checks)
    within, flags = Within(start), []
    places = _readable(draft, overlay, cells, arrays, arguments, len(closed.jaxpr.invars))
    for check in checks:
        flag, values = outs[end], outs[end + 1 : end + 1 + len(check.values)]
        known = traced is closed or _is_of_known_sizes(traced.jaxpr, end, values, closed.jaxpr.invars)
        end += 1 + len(values)
        # the first that fails is to be reported: what comes after a check of the program's own is the program's
        known = known and before and not within.checks
        if not known or not _check_before(draft, check, closed, values, places):
            within.checks.append((check, closed.replace(jaxpr=_part(closed.jaxpr, values)[0])))
            flags.append(flag)
    draft.within = within if flags else None
    overlay.checks = None
    return closed.replace(jaxpr=closed.jaxpr.replace(outvars=[*outs[:start], *flags]))


def _readable(
    draft: Draft,
    overlay: Overlay,
    cells: list[Storage],
    arrays: list[int],
    arguments: Arguments,
    count: int,
) -> dict[int, Storage | int]:
    """The inputs that can be read on the host before a call: the position, and where they come from.

    What is given away is none of them: whoever has looked at an array cannot give its memory away.
    """
    written = {cell for cell, _, _ in draft.cells}
    written |= {g._storage for g in overlay.grad_reads.values() if g is not None}
    found: dict[int, Storage | int] = {}
    for position, cell in enumerate(cells):
        if cell in arguments.cells:
            found[position] = arguments.cells[cell]
        elif cell not in written:
            found[position] = cell
    found = {position: source for position, source in found.items() if on_one_cpu(cells[position].array())}
    return found | {
        count - len(arrays) + k: i for k, i in enumerate(arrays) if on_one_cpu(arguments.leaves[i])
    }


def _check_before(
    draft: Draft, check: Check, closed: Any, values: Sequence[Any], places: dict[int, Storage | int]
) -> bool:
    """Have a check made before a call, if that can be done, and pays."""
    sizes = [
        (v.aval.size, tuning.check_integers if v.aval.dtype.kind in "iu" else tuning.check_others)
        for v in values
    ]
    if any(size > most for size, most in sizes):
        return False
    jaxpr, read = _part(closed.jaxpr, values)
    used = [k for k, is_read in enumerate(read) if is_read]
    if not used:
        _check_once(draft, check, closed.replace(jaxpr=jaxpr))
        return True
    if not places.keys() >= set(used):
        return False
    inputs = [jaxpr.invars[k] for k in used]
    compute = None
    if inputs != list(values):
        kept = uses(jaxpr)
        consts = [(v, c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True) if v in kept]
        small = jaxpr.replace(invars=inputs, constvars=[v for v, _ in consts])
        function = jaxpr_as_fun(ClosedJaxpr(small, [c for _, c in consts]))
        examples = [np.zeros(x.aval.shape, x.aval.dtype) for x in inputs]
        compute = executor.current.host_function(function, examples, tuning.check_integers, tuning.check_time)
        if compute is None:
            return False
    draft.before.append(Before(check, [places[k] for k in used], compute))
    return True


def _is_of_known_sizes(jaxpr: Any, flag: int, values: Sequence[Any], inputs: Sequence[Any]) -> bool:
    """Whether a check can be made with arrays as they are given to a call, by a function for certain shapes."""
    part, read = _part(jaxpr, jaxpr.outvars[flag : flag + 1])
    if any(eqn.primitive.name == "dim_as_value" for eqn in operations([part])):
        return False
    given = [k for k, is_read in enumerate(read) if is_read]
    is_open = any(is_symbolic_dim(n) for k in given for n in jaxpr.invars[k].aval.shape)
    return not is_open or [inputs[k] for k in given] == list(values)


def _check_once(draft: Draft, check: Check, closed: Any) -> None:
    """A check of what no input changes: one that fails, fails at every call."""
    with tracing.x64():
        unused = [np.zeros(v.shape, v.dtype) for v in closed.in_avals]
        values = [np.asarray(v) for v in jax.jit(jaxpr_as_fun(closed))(*unused)]
    if np.any(check.bad(*values)):
        draft.before.append(Before(check, [], lambda: values))


def _part(jaxpr: Any, values: Sequence[Any]) -> tuple[Any, list[bool]]:
    """What of the jaxpr computes these values, and which inputs it reads."""
    return pruned(jaxpr.replace(outvars=list(values)))
