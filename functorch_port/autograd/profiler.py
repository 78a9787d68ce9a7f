"""`torch.autograd.profiler`: which operations a program runs, and how long they take.

While a profile is made, each eager operation of the calling thread runs at once, and is waited for: its time is from
the call to the end of the computation, on whatever device. So nothing waits or is fused, and the steps of a program
take longer than without a profile. A compiled function is one entry, its results waited for. What runs in a trace or
in a transform of `func` is not noted.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._array import tracing
from .._array.value import computed
from .._base import flops, scopes, watch
from .._base.bounded import Bounded
from .._base.jaxprs import pruned
from .._base.tuning import tuning
from .._tensor.avals import aval_of, avals_of
from .._tensor.tensor import Tensor
from .._tensor.tree import tensors
from . import _op_names
from .profiler_util import EventList, FunctionEvent, FunctionEventAvg

__all__ = ["emit_nvtx", "profile", "record_function"]


def _profiler_enabled() -> bool:
    return watch.state.profile is not None


def kineto_available() -> bool:
    """Whether PyTorch's tracing library is there: it is not."""
    return False


class record_function:
    """Name a region of code; it appears in a `profile`, in traces made with `jax.profiler`, and in compiled programs.

    A context manager, or a decorator. In a trace of `compile` it becomes a `jax.named_scope`, so XLA's ``op_name`` has
    the name.

    Args:
        name: of the region.
        args: a text beside it, in the chrome trace.

    Example:
        >>> import functorch_port as torch
        >>> with torch.autograd.profiler.profile() as prof:
        ...     with torch.autograd.profiler.record_function("double"):
        ...         y = torch.ones(2) * 2
        >>> [event.name for event in prof.function_events]
        ['double', 'aten::mul']

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.profiler.record_function.html
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        self._region: Any = (
            scopes.named(self.name) if tracing.overlay else jax.profiler.TraceAnnotation(self.name)
        )
        self._region.__enter__()
        self._profile = None if tracing.overlay else watch.state.profile
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exc: Any) -> None:
        if self._profile is not None:
            self._profile.note(self.name, self._start, annotation=True, text=self.args)
        self._region.__exit__(*exc)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return fn(*args, **kwargs)

        return wrapper


class profile:
    """Context in which the calling thread's eager operations are noted, each run at once and waited for.

    Args:
        enabled: False notes nothing.
        record_shapes: also the shapes of tensors.
        with_flops: also the operations of products of matrices and convolutions.
        profile_memory: also the bytes of the arrays that a call gives, which were not there before.
        with_stack: also where in the user's code the call is.
        use_cuda, use_device, use_kineto: of no effect: times are those of the computation on whatever device.
        with_modules, experimental_config, use_cpu: refused.

    Attributes:
        function_events: an `EventList`, once the context has ended.

    Raises:
        RuntimeError: another profile is being made, or this one has not ended.

    Example:
        >>> import functorch_port as torch
        >>> with torch.autograd.profiler.profile() as prof:
        ...     y = torch.ones(2) * 3 + 1
        >>> [event.name for event in prof.function_events]
        ['aten::mul', 'aten::add']

    Reference: https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.profiler.profile
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
    ) -> None:
        if with_modules:
            raise NotImplementedError(
                "profile(with_modules=True): name regions with record_function; a compiled program has the modules' "
                "names (functorch_port.viz.program)"
            )
        if experimental_config is not None:
            raise NotImplementedError("profile(experimental_config=...): it is about PyTorch's Kineto")
        if not use_cpu:
            raise NotImplementedError("profile(use_cpu=False): the events are those of the host's calls")
        self.enabled, self.record_shapes, self.with_flops = enabled, record_shapes, with_flops
        self.profile_memory, self.with_stack = profile_memory, with_stack
        self.function_events: EventList | None = None
        self._noted: list[FunctionEvent] = []
        self._thread = threading.get_ident()

    def __enter__(self) -> profile:
        if self.enabled:
            if watch.state.profile is not None:
                raise RuntimeError("Profiler is already enabled on this thread.")
            watch.begin()
            watch.state.profile, self._thread = self, threading.get_ident()
            self._began, self._base = time.perf_counter(), time.time_ns()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.enabled:
            if self._thread != threading.get_ident():
                raise RuntimeError(
                    "a profile is stopped by the thread that started it, and this is another one"
                )
            watch.state.profile = None
            self._count()  # now, as it would be a part of the times
            events = sorted(self._noted, key=lambda e: (e.time_range.start, -e.time_range.end))
            self.function_events = EventList(
                events, profile_memory=self.profile_memory, with_flops=self.with_flops, base=self._base
            )
            self.function_events._populate_cpu_children()

    def _count(self) -> None:
        """Count the FLOPs of what has been noted."""
        for event in self._noted:
            if event.counted is not None:
                event.own_flops, event.counted = _flops(*event.counted), None

    # ------------------------------------------------------- what operations call (see `watch`)

    def note(self, name: str, start: float, *, annotation: bool = False, **more: Any) -> FunctionEvent:
        """An operation or a region has ended that began at ``start``."""
        end = time.perf_counter()
        event = FunctionEvent(
            len(self._noted),
            name,
            threading.get_ident(),
            1e6 * (start - self._began),
            1e6 * (end - self._began),
            is_user_annotation=annotation,
            stack=list(_stack()) if self.with_stack else [],
            **more,
        )
        self._noted.append(event)
        return event

    def run_op(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One operation."""
        if tracing.overlay:
            return self._apart(op.run, args, kwargs)
        named = {name: value for name, value in kwargs.items() if name != "out"}
        counted = self._apart(_op_and_kinds, op, args, named) if self.with_flops else None
        shapes = [_shape(a) for a in (*args, *named.values())] if self.record_shapes else None
        start = time.perf_counter()
        made: list[Any] = []
        try:
            out = self._apart(op.run, args, kwargs)
            made = waited_for(out)
            return out
        finally:
            event = self.note(_op_names.aten(op.spec, args), start, input_shapes=shapes)
            event.counted = counted
            event.own_memory = _new_bytes(made, (*args, *kwargs.values())) if self.profile_memory else 0

    def in_place(self) -> None:
        """The last operation was in place."""
        if tracing.overlay or not self._noted:
            return
        last = self._noted[-1]
        if not last.is_user_annotation and not last.name.endswith("_"):
            last.name += "_"

    def at_node(self, node: Any, run: Callable[..., Any]) -> Callable[..., Any]:
        """What runs a node of a backward pass, noted as PyTorch does."""
        if tracing.overlay:
            return run

        def noted(*args: Any) -> Any:
            counted = self._apart(_node_and_kinds, node, args[0]) if self.with_flops else None
            shapes = (
                [_shape(g) for g in args[0]] if self.record_shapes and isinstance(args[0], list) else None
            )
            made: list[Any] = []
            outer = inner = time.perf_counter()
            try:
                out = run(*args)
                made = waited_for(out)
                return out
            finally:
                event = self.note(node.name(), inner, input_shapes=shapes)
                event.counted = counted
                if self.profile_memory:
                    event.own_memory = _new_bytes(made, args[0] if isinstance(args[0], list) else ())
                self.note(f"autograd::engine::evaluate_function: {node.name()}", outer)

        return noted

    def naming(self, name: str, run: Callable[..., Any], optimizer: Any) -> Callable[..., Any]:
        """The step of an optimizer, which runs as a region; the parameters are waited for."""

        def noted(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return run(*args, **kwargs)
            finally:
                for group in optimizer.param_groups:
                    waited_for(group["params"])
                self.note(name, start, annotation=True)

        return noted

    def run_compiled(self, compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a compiled function, whose results and state are waited for."""
        start = time.perf_counter()
        before, ran = _calls(compiled), []
        try:
            out = self._apart(compiled, *args, **kwargs)
            ran = [program for program, calls in _calls(compiled).items() if calls != before.get(program, 0)]
            waited_for(tensors(out))
            for program in ran:
                jax.block_until_ready([cell.look() for cell in program.inputs.donated])
            return out
        finally:
            owner = getattr(compiled._fn, "__self__", None)  # of a module that was compiled
            name = type(owner).__name__ if owner is not None else _name_of(compiled._fn)
            event = self.note(f"Torch-Compiled Region: {name}", start)
            if self.with_flops and ran:
                event.counted = [program.executable for program in ran], None

    def _apart(self, run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A call of which nothing is noted."""
        watch.state.profile = None
        try:
            return run(*args, **kwargs)
        finally:
            watch.state.profile = self

    # ------------------------------------------------------- what users look at

    def _events(self) -> EventList:
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.function_events

    def table(self, *args: Any, **kwargs: Any) -> str:
        """See `EventList.table`."""
        return self._events().table(*args, **kwargs)

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """The sums of events that are called alike."""
        return self._events().key_averages(*args, **kwargs)

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events."""
        return self._events().total_average()

    def export_chrome_trace(self, path: str) -> None:
        """Write the events to a file for ``chrome://tracing`` and Perfetto; gzipped if its name ends in ``.gz``."""
        self._events().export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """See `EventList.export_stacks`."""
        self._events().export_stacks(path, metric)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events."""
        return self._events().self_cpu_time_total

    def __str__(self) -> str:
        return (
            "<unfinished torch.autograd.profile>"
            if self.function_events is None
            else str(self.function_events)
        )

    __repr__ = __str__


# ------------------------------------------------------------------ of one call


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def waited_for(out: Any) -> list[Any]:
    """Compute what is still lazy among results, Tensors or arrays, and wait for it; the arrays."""
    many = _flat([out])
    values = [t._peek() if _is_tensor(t) else t for t in many]
    return list(jax.block_until_ready([v for v in computed(values) if isinstance(v, jax.Array | np.ndarray)]))


def _new_bytes(made: Sequence[Any], args: Iterable[Any]) -> int:
    """Bytes of results that do not share their memory with an argument."""
    before = {address(a) for a in _arrays_in(args)}
    return sum({address(a): a.nbytes for a in made if address(a) not in before}.values())


def _arrays_in(args: Iterable[Any]) -> list[Any]:
    values = computed([t._storage.look() if _is_tensor(t) else t for t in _flat(args)])
    return [
        v for v in values if isinstance(v, np.ndarray) or (isinstance(v, jax.Array) and not v.is_deleted())
    ]


def _flat(values: Iterable[Any]) -> list[Any]:
    """What is in them, with the parts of sparse tensors in place of these."""
    found: list[Any] = []
    for value in values:
        if isinstance(value, list | tuple):
            found += _flat(value)
        else:
            found += dense_parts(value) if _is_tensor(value) else [value]
    return found


def dense_parts(tensor: Tensor) -> list[Tensor]:
    """A tensor itself; of a sparse one its positions and its values."""
    return [tensor._indices(), tensor._values()] if tensor._sparse else [tensor]


def whole(array: np.ndarray) -> np.ndarray:
    """The array that this one is a part of, or itself."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def address(array: Any) -> Any:
    """Where an array has its memory."""
    if isinstance(array, np.ndarray):
        return whole(array).__array_interface__["data"][0]
    return tuple(shard.data.unsafe_buffer_pointer() for shard in array.addressable_shards)


#: a plan, and shapes and dtypes of its arguments; None for what has no product
Counted = tuple[Any, list[Any] | None] | None


def _op_and_kinds(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Counted:
    try:
        plan, dyn = op.found(args, kwargs)
        return None if plan.eager else (plan, _kinds([a._look() if _is_tensor(a) else a for a in dyn]))
    except Exception:  # the operation raises it itself, or is another one on sparse tensors
        return None


def _calls(compiled: Any) -> dict[Any, int]:
    """How often a compiled function's programs have run, those of `functional_call` among them."""
    own = [compiled, *compiled._standing.values()]
    return {
        program: program.calls + (0 if program.quick is None else program.quick.calls)
        for one in own
        for program in one.programs()
    }


def _name_of(fn: Any) -> str:
    """A function's name; that of a `functools.partial` is the function's, and other objects have their class's."""
    fn = fn.func if isinstance(fn, functools.partial) else fn
    return getattr(fn, "__qualname__", type(fn).__name__)


def _node_and_kinds(node: Any, grads: Any) -> Counted:
    found = node.pullback()
    if found is None:
        stage = getattr(node, "stage", None)  # of a compiled function
        return None if stage is None else ([stage], None)
    source, values = found
    holes = tuple([g is None for g in grads])
    mask = source.reached(node.mask, holes, values)
    given = [*values, *(g._look() if _is_tensor(g) else g for g in grads if g is not None)]
    return (source.backward(mask, holes), _kinds(given)) if True in mask else None


def _kinds(values: Sequence[Any]) -> list[Any]:
    return [aval_of(v) if hasattr(v, "dtype") else v for v in values]


def _flops(plan: Any, kinds: Sequence[Any] | None) -> int:
    """Operations of a plan for such arguments; or of a list of programs, of compiled functions or backward passes."""
    if kinds is None:
        return sum(map(_flops_of_program, plan))
    key = plan, avals_of(kinds)
    if key not in _known:
        with tracing.x64():
            _known[key] = flops.by_scope(pruned(jax.make_jaxpr(plan.fn)(*kinds).jaxpr)[0]).total()
    return _known[key]


def _flops_of_program(program: Any) -> int:
    if program not in _of_programs:
        try:
            _of_programs[program] = flops.by_scope(program.jaxpr).total()
        except NotImplementedError as error:
            warnings.warn(f"{error}: those of a compiled function are missing", stacklevel=4)
            _of_programs[program] = 0
    return _of_programs[program]


_of_programs: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_known: Bounded[Any, int] = Bounded(tuning.cached_plans)


def _shape(value: Any) -> list[Any]:
    if isinstance(value, list | tuple) and value and all(map(_is_tensor, value)):
        return [list(t.shape) for t in value]
    return list(value.shape) if hasattr(value, "shape") else []


_PACKAGE = str(Path(__file__).parents[1])


def _stack() -> Iterator[str]:
    """Where the call is, in the user's code: the innermost function first."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            yield f"{code.co_filename}({frame.f_lineno}): {code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]


class emit_nvtx:
    """Not available: use `jax.profiler.trace`, which sees the compiled programs too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("autograd.profiler.emit_nvtx: use jax.profiler.trace(folder)")


emit_itt = emit_nvtx
