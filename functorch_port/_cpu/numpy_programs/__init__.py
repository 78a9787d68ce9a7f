"""Operations on the host: the jaxpr of a plan written out as a Python function of numpy arrays.

Calling a compiled program costs 15 to 25 µs on a CPU whatever it does; numpy adds two small arrays in one. So what was
made on the host (from Python data, or by an operation on such values) and is small stays there, until something
asks for the `jax.Array`. What is larger runs here until it is compiled (see `tiers`). There is no second definition of
any operation: the pure function is traced as for `jax.jit`, and its primitives are looked up in tables (`elements`,
`rules`). Whatever is not in them is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..._array import fits, tracing
from ..._array.value import HOST
from ..._base import collector, device, dtypes, settings
from ..._base.quiet import quietly
from ..._base.sizes import apart
from ..._base.tuning import tuning
from ..._tensor.avals import NUMBERS
from . import packed
from .program import Program
from .values import KEPT, Unsupported

if TYPE_CHECKING:
    from ..._tensor.family import Traced

__all__ = [
    "Bound",
    "bound",
    "enabled",
    "function",
    "is_only_cpu",
    "keeps",
    "kind_of",
    "may_keep",
    "on_cpu",
    "run",
]


#: the integers that an operation takes: numpy takes any
LEAST, MOST = -(2**63), 2**64 - 1


def _cpu_is_default() -> bool:
    return not settings.PLAIN and device.platform() == "cpu"


def on_cpu() -> bool:
    """Whether new arrays come to be on a CPU without being told to."""
    return jax.config.jax_default_device is None and _cpu_is_default()


@cache
def _only_cpu() -> set[Any]:
    """The CPU, if JAX computes on one alone."""
    return set(jax.devices()) if _cpu_is_default() and jax.device_count() == 1 else set()


def is_only_cpu(devices: Any) -> bool:
    """Whether these are the CPU on which JAX computes, and there is no second one."""
    return bool(devices) and devices == _only_cpu()


@cache
def _can_be_in_numpy() -> bool:
    """Numpy has the types, and the CPU is what JAX computes on."""
    return tracing.X64 and _cpu_is_default()


def enabled() -> bool:
    """Whether small values live on the host."""
    return tuning.numpy_elements > 0 and _can_be_in_numpy()


def keeps(array: Any) -> bool:
    """Whether a new array with this size and dtype is to stay on the host for good."""
    return array.size <= tuning.numpy_elements and may_keep(array)


def may_keep(array: Any) -> bool:
    """Whether a new array may stay on the host until a compiled program needs it."""
    return array.dtype in KEPT and not tracing.overlay and enabled() and jax.config.jax_default_device is None


def kind_of(values: Sequence[Any]) -> tuple[tuple[Any, ...], bool]:
    """What a program for arrays and numbers depends on: shapes, dtypes and types; and whether all are on the host."""
    kind: list[Any] = []
    on_host = True
    for v in values:
        cls = v.__class__
        if cls in NUMBERS:
            if cls is int and not LEAST <= v <= MOST:
                fits.fits(v, dtypes.int64.np)
            kind.append(cls)
        else:
            if cls not in HOST:
                on_host = False
            kind.append(v.shape)
            kind.append(v.dtype)
    return tuple(kind), on_host


class Bound:
    """A program for arguments of certain shapes and dtypes. There is one for each shape, so it is a single object.

    Attributes:
        function, sizes: what is run: a function of the sizes, which are what the symbols are, and of the arguments.
        time: microseconds that it takes, by an estimate.
        is_small: whether it costs less than the call of a compiled program, which is never made then.
        left: microseconds that it may lose before that is made (see `tiers`).
        traced: the trace.
    """

    __slots__ = ("function", "is_small", "left", "sizes", "time", "traced")

    def __init__(self, program: Program, traced: Traced, sizes: tuple[int, ...]) -> None:
        self.function, self.traced, self.sizes = program.run, traced, sizes
        self.time, elements, products = program.facts(*sizes)
        self.left = tuning.price(1, 1.0)  # sequences come first
        self.is_small = (
            program.is_kept
            and elements <= tuning.numpy_elements
            and self.time <= tuning.numpy_time
            and products <= tuning.numpy_products
        )

    def run(self, *values: Any) -> Any:
        """The results."""
        return self.function(*self.sizes, *values)

    @property
    def loss(self) -> float:
        """Microseconds that a run takes longer than a compiled program, which has its call and half the arithmetic, by
        an estimate.
        """
        return max(0.5 * self.time - tuning.numpy_time, 0.0)

    def agrees(self, outs: Any) -> bool:
        """Whether the results are what they should be, which is looked at when a trace's program has run first."""
        traced = self.traced
        if not traced.is_tried:
            traced.is_tried = _agree(outs, traced.shapes(self.sizes))
            traced.backend = traced.is_tried and traced.backend
        return traced.is_tried


def bound(plan: Any, values: Sequence[Any]) -> Bound | None:
    """A plan as a program for values like these; None if it must be compiled."""
    try:
        traced, sizes = plan.family.find(values, plan.numbers)
        if traced.backend is None:
            traced.backend = _program(plan, traced, sizes, values)
        program = traced.backend
    except Exception:  # the compiled form raises an error of the operation again, in its own words
        return None
    if program is False:
        return None
    traced.tell()
    return Bound(program, traced, sizes)


def _program(plan: Any, traced: Traced, sizes: tuple[int, ...], values: Sequence[Any]) -> Program | bool:
    """The program of a trace, from the disk or written; False if it must be compiled."""
    if traced.kept is not None and not callable(traced.kept):
        return traced.kept and packed.unpack(traced.kept)
    closed, program = plan.family.closed(traced, values, plan.numbers), None
    try:
        program = _written(closed, traced.shapes(sizes), traced.symbols)
        traced.keep(partial(packed.pack, program))
    except Unsupported:
        traced.keep(False)
    traced.closed = None
    return program or False


def function(
    fn: Callable[..., Any], args: Sequence[Any], most: int, time: float
) -> Callable[..., Any] | None:
    """``fn`` for numpy arrays of these shapes and dtypes (and numbers), or None if it must be compiled.

    That is so with arrays of more than ``most`` elements, and if it would take more than ``time`` microseconds.
    """
    try:
        avals = [jax.ShapeDtypeStruct(a.shape, a.dtype) if hasattr(a, "dtype") else a for a in args]
        with tracing.x64():
            closed, results = jax.make_jaxpr(fn, return_shape=True)(*avals)
        program = _written(closed, results, 0)
    except Exception:
        return None
    cost, elements, products = program.facts()
    is_small = program.is_kept and cost <= time and elements <= most and products <= tuning.numpy_products
    given = [np.asarray(a) if hasattr(a, "dtype") else a for a in args]
    return program.run if is_small and _agree(run(program.run, given), results) else None


@collector.stopped()
def _written(closed: Any, results: Any, symbols: int) -> Program:
    """The program of a jaxpr.

    Raises:
        Unsupported: if there can be none.
    """
    from .rules import program as written  # none may ever be needed, and it takes 15 ms to import

    if len(results if isinstance(results, tuple | list) else (results,)) != len(closed.out_avals):
        raise Unsupported("some of the results are None")
    if all(a.weak_type for a in closed.in_avals):
        raise Unsupported("numbers alone")
    return apart(written, closed, type(results), symbols)


def _agree(outs: Any, wanted: Any) -> bool:
    return outs is not None and all(
        out.shape == aval.shape and out.dtype == aval.dtype
        for out, aval in zip(
            *[x if isinstance(x, tuple | list) else (x,) for x in (outs, wanted)], strict=True
        )
    )


def run(program: Callable[..., Any], args: Sequence[Any], sizes: Sequence[int] = ()) -> Any:
    """The results of a program; None if a number does not fit (the compiled form says it better)."""
    try:
        return quietly(program, *sizes, *args)
    except Exception:
        return None
