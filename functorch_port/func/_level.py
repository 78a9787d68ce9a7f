"""`Level`, the context in which a transform runs a function, and the conversion between Tensors and arrays.

Inside a transform there is no tape: operations run as plain JAX on the transform's tracers. Tensors created inside may
be written to; Tensors from outside may only be read. On the outer tape a transform is one operation: if an argument or
a captured tensor requires grad, it is run a second time as a pure function of all of them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array import tracing
from .._array.refusal import Check, first_of, refuse, some
from .._array.storage import Storage
from .._array.symbolic import SymNumber
from .._base import config
from .._base import inside as inside_jax
from .._base.modes import OfThread
from .._random import keyed
from .._run.opnode import edges_of, node_class
from .._run.results import recorded, unrecorded
from .._run.run import run
from .._tensor import grad_mode, saved
from .._tensor.interop import not_known
from .._tensor.plan import Plan
from .._tensor.pullback import conj, pullback_of
from .._tensor.tensor import Tensor, wrap
from ._session import Session

__all__ = [
    "Keyed", "Level", "OutOfOrder", "Source", "arrays_of", "conj", "inside", "refuse_collected", "rehearsed", "run_in",
    "standing_in", "through",
]  # fmt: skip

_grad = grad_mode.state
Arrays = Sequence[Any]

CAPTURED = (
    "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place "
    "operation that would mutate a captured Tensor. This is not supported; please rewrite the function being "
    "transformed to explicitly accept the mutated Tensor(s) as inputs."
)
LEAF = "a leaf Variable that requires grad is being used in an in-place operation."
LEAF_UNRECORDED = (
    "no_grad(): an argument that is being differentiated (grad, vjp, jacrev) cannot be written to in place; compute "
    "the new value outside of the function, or write to a clone() of the argument"
)
ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a "
    "Tensor, please try to rewrite what you're doing with other operations. If error is occurring somewhere "
    "inside PyTorch internals, please file a bug report."
)
BRANCH = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
    "support that yet, please file an issue at https://github.com/pytorch/pytorch/issues ."
)
GIVEN = (
    "an argument of a branch or of a round (torch.cond, while_loop, scan) is written to in place; write to a clone() "
    "of it and return that"
)
MADE_AROUND = (
    "a branch or a round writes in place to a tensor that was made in a round or a transform around it; pass it as an "
    "argument, write to a clone() of it, and return that"
)
CONDITION = "the condition of a while_loop writes to a tensor or draws random numbers; do so before it and in its body"
HANDED_ON = (
    "a branch or a round (torch.cond, while_loop, scan) returns or is given a tensor that it also writes to from "
    "outside; use a clone() of it"
)
RECORDED = (
    "a branch or a round (torch.cond, while_loop, scan) that is differentiated writes to a tensor from outside; do so "
    "under torch.no_grad(), and not to one that requires grad"
)
DRAWN = (
    "random numbers in a branch or a round (torch.cond, while_loop, scan, map) that is a part of a program: how often "
    'it runs is not known when PyTorch\'s stream is drawn from. Draw them before it, or compile without rng="torch"'
)
RANDOM = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
    "'different' randomness flags on vmap or perform the randomness operation out of vmap"
)
NO_GRAD = (
    "no_grad() is not supported inside jvp, jacfwd or linearize inside a reverse-mode derivative (grad, vjp, jacrev): "
    "compute what is to be constant outside and pass it as an argument, or use detach()"
)
REQUIRES_GRAD = (
    "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) "
    "inside of a function being transformed by a functorch transform. This is unsupported, please attempt to "
    "use the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside "
    "of a function being transformed instead."
)
RETAIN_GRAD = REQUIRES_GRAD.replace("(or perhaps using torch.autograd.functional.* APIs) ", "").replace(
    "requires_grad_()", "retain_grad()"
)
SAVED_HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your use "
    "case."
)
BACKWARD = (
    "backward() called inside a functorch transform. This is not supported, please use functorch.grad or "
    "functorch.vjp instead or call backward() outside of functorch transforms."
)


class Level:
    """One transform in progress (see `tracing.overlay`). It passes reads and notes on to the outer overlay.

    Attributes:
        outer: the outer overlay: another level, a trace of `compile`, or None.
        mapped: for `vmap`, (number of examples, index of the example, randomness).
        mode: for a derivative, ``"forward"`` or ``"reverse"``.
        is_of_func: whether this is a transform of `torch.func`, and not a part of control flow.
        is_reverse: whether neither this level nor one around it maps, or differentiates forward, which a kernel cannot.
        checks: collected checks whose values do not outlive the level; None if they do.
        leaves: Storages differentiated in reverse mode, which must not be written to.
        recorded: Storages that were written to with gradients enabled.
    """

    rng = "torch"  # random arrays are asked for through `host_draw`
    transforms = True
    rebinds = False
    local = False
    across = None

    def __init__(
        self,
        mapped: tuple[int, Any, str] | None = None,
        mode: str | None = None,
        checks: list[Check] | None = None,
    ) -> None:
        self.outer = tracing.current()
        self.checks = checks
        self.mapped, self.mode = mapped, mode
        self.is_of_func = mapped is not None or mode is not None
        around = not isinstance(self.outer, Level) or self.outer.is_reverse
        self.is_reverse = mapped is None and mode != "forward" and around
        self.session = self.outer.session if isinstance(self.outer, Level) else _state.session
        self.own: weakref.WeakSet[Storage] = weakref.WeakSet()
        self.leaves: weakref.WeakSet[Storage] = weakref.WeakSet()
        self.recorded: weakref.WeakSet[Storage] = weakref.WeakSet()

    def differentiated_forward(self) -> bool:
        """As `differentiated_forward`, of this level and those around it."""
        return differentiated_forward()

    @property
    def kernels(self) -> bool:
        """As `Overlay.kernels`."""
        return self.is_reverse and (self.outer is None or self.outer.kernels)

    # ------------------------------------------------------- Storage's hooks

    def device(self) -> Any:
        return self.session.device

    def variable_of(self, value: Any) -> str | None:
        return None if self.outer is None else self.outer.variable_of(value)

    def read(self, cell: Storage) -> Any:
        if cell in self.own:
            return cell.array()
        found = self.session.substitutes.get(cell)
        if found is not None:
            return found
        return cell.array() if self.outer is None else self.outer.read(cell)

    def write(self, cell: Storage, value: Any) -> None:
        if cell not in self.own:
            cell.version -= 1
            raise RuntimeError(CAPTURED)
        if cell in self.leaves:
            raise RuntimeError(LEAF) if _grad.enabled else NotImplementedError(LEAF_UNRECORDED)
        if _grad.enabled:
            self.recorded.add(cell)
        cell.put(value)

    def created(self, cell: Storage) -> None:
        self.own.add(cell)

    def is_outside(self, tensor: Tensor) -> bool:
        if tensor._storage in self.own:
            return False
        return self.outer is None or self.outer.is_outside(tensor)

    # -------------------------------------------------------- Tensor's hooks

    def get_grad(self, tensor: Tensor) -> Tensor | None:
        return tensor._grad if self.outer is None else self.outer.get_grad(tensor)

    def set_grad(self, tensor: Tensor, grad: Tensor | None) -> None:
        if tensor._storage not in self.own:
            raise RuntimeError(CAPTURED)
        tensor._grad = grad

    def note_flag(self, tensor: Tensor, old: bool) -> None:
        raise RuntimeError(REQUIRES_GRAD)

    def refuse_retain_grad(self) -> None:
        raise RuntimeError(RETAIN_GRAD)

    def note_inputs(self, dyn: Sequence[Any]) -> None:
        for a in dyn:
            if isinstance(a, Tensor) and a._requires_grad and a._storage not in self.own:
                self.session.captured.setdefault(a if a._base is None else a._base)
        if self.outer is not None:
            self.outer.note_inputs(dyn)

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the outer trace, if there is one."""
        if name.startswith("__"):
            raise AttributeError(name)
        if self.outer is not None:
            return getattr(self.outer, name)
        if name.startswith(("note_", "guard_")):
            return lambda *args, **kwargs: None
        raise AttributeError(name)

    def data_dependent(self, name: str, instead: str) -> str:
        return (
            f"{name.lstrip('_')}() has an output whose shape depends on values, which a transformed function cannot "
            f"have. Call it outside, or use {instead}."
        )

    def concrete(self, value: Any, what: str) -> Any:
        """A tracer's value as a numpy array, where the transform knows it (`grad` does, `vmap` does not)."""
        try:
            return np.asarray(lax.stop_gradient(value))
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
            if all(level.mapped is None for level in _levels(self)):
                raise RuntimeError(not_known(what)) from None
            raise RuntimeError(BRANCH if what == "bool(tensor)" else ITEM) from None

    def note_check(self, check: Check) -> None:
        """Defer a check of values that are not known here, or do it where a derivative knows them."""
        if self.session.dry:
            return
        values = [lax.stop_gradient(v) if isinstance(v, jax.core.Tracer) else v for v in check.values]
        if self.checks is None and self.mapped is not None and isinstance(self.mapped[1], jax.core.Tracer):
            return  # columns with random numbers of their own: the values do not come out
        if self.checks is not None:
            self.checks.append(Check(check.bad, check.error, values))
        elif self.outer is not None:
            self.outer.note_check(Check(check.bad, check.error, values))
        elif not any(isinstance(v, jax.core.Tracer) for v in values):
            refuse(check.bad, check.error, *values)

    # ------------------------------------------------------------- operations

    def run_op(self, plan: Plan, dyn: Sequence[Any]) -> Any:
        """Run one operation as plain JAX. Under `no_grad` inside the function its result is a `constant`."""
        values = [self.value_of(a) for a in dyn]
        traced = any(isinstance(v, jax.core.Tracer) for v in values)
        if plan.eager and traced:  # such an op has no gradient
            try:
                values = [
                    v if not hasattr(v, "dtype") else jnp.asarray(self.concrete(v, plan.name)) for v in values
                ]
            except RuntimeError:
                raise RuntimeError(self.data_dependent(plan.name, plan.eager)) from None
            traced = False
        self.note_inputs(dyn)
        if plan.check is not None:
            plan.check(*values)
        with tracing.x64(), config.precise():
            out = (plan.fn if self._in_compile() else plan.jit)(*values)
            if not _grad.enabled:
                out = jax.tree.map(self.constant, out)
        return unrecorded(plan, out)

    def constant(self, value: Any) -> Any:
        """A result under `no_grad`: a constant for reverse mode. Forward mode still differentiates it.

        Raises:
            NotImplementedError: in forward mode inside reverse mode, where the two conflict.
        """
        modes = [level.mode for level in _levels(self) if level.mode is not None]
        if "forward" not in modes:
            return lax.stop_gradient(value)
        if "reverse" not in modes or not isinstance(value, jax.core.Tracer):
            return value
        if not jnp.issubdtype(value.dtype, jnp.inexact):
            return value
        if "reverse" in modes[modes.index("forward") :]:
            raise NotImplementedError(NO_GRAD)
        try:
            return _stop_reverse(value)
        except TypeError:  # forward mode alone comes here
            return value

    def value_of(self, a: Any) -> Any:
        """The array of an operation's argument; other arguments are returned unchanged."""
        if not isinstance(a, Tensor):
            return a.array if isinstance(a, SymNumber) else a
        value = a._value
        if (
            a._requires_grad is False
            and a._storage in self.session.substitutes
            and a._storage not in self.own
        ):
            return lax.stop_gradient(value)  # `detach()` of a captured tensor, made outside
        return value

    def _in_compile(self) -> bool:
        return in_compile(self)

    @property
    def differentiates(self) -> bool:
        """Whether a derivative is being taken."""
        return any(level.mode is not None for level in _levels(self))

    # ------------------------------------------------------------- randomness

    def host_draw(self, draw: Any) -> Any:
        """Random numbers: the same for every example, or the slice of the numbers drawn for all examples."""
        sizes: list[tuple[int, Any]] = []
        for level in _levels(self):
            if isinstance(level, Body | Keyed):
                break
            if level.mapped is not None:
                size, index, randomness = level.mapped
                if randomness == "error":
                    raise RuntimeError(RANDOM)
                if randomness == "different":
                    sizes.insert(0, (size, index))
        shape = (*(n for n, _ in sizes), *draw.shape)
        params = {k: self._constant(v, draw.kind) for k, v in draw.params.items()}
        drawn = type(draw)(draw.generator, draw.kind, shape, draw.dtype, params)
        if isinstance(level, Body | Keyed):
            array = level.draw(drawn)
        elif self.session.dry:
            array = jnp.zeros(shape, draw.dtype.np)
        else:
            if self.session.in_jax:
                inside_jax.may_draw(draw.generator)
            array = self.session.random(lambda: _draw(drawn, level.outer))
        for _, index in sizes:
            array = lax.dynamic_index_in_dim(array, index, 0, keepdims=False)
        return array

    def _constant(self, param: Any, kind: str) -> Any:
        """A parameter of a distribution as a constant outside all levels: draws pass no gradients to it."""
        if not isinstance(param, jax.core.Tracer):
            return param
        param = lax.stop_gradient(param)
        if self._in_compile() and all(level.mapped is None for level in _levels(self)):
            return param
        try:
            return np.asarray(param)
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
            raise NotImplementedError(
                f"vmap: {kind} numbers whose parameters are mapped over, or traced by another JAX transform, are not "
                "supported. Draw them outside and pass them in"
            ) from None


class Body(Level):
    """A branch or a round of control flow in a compiled program: it may write to tensors from outside.

    What it writes is in `Session.state`, which `part` takes and returns; a random key is written so too.

    Attributes:
        given: Storages of its arguments, which must not be written to.
    """

    given: Sequence[Storage] = ()

    def read(self, cell: Storage) -> Any:
        found = None if cell in self.own else self.session.state.get(cell)
        return super().read(cell) if found is None else found

    def write(self, cell: Storage, value: Any) -> None:
        if cell in self.own:
            if cell in self.given:
                raise RuntimeError(GIVEN)
            cell.put(value)
            return
        cell.version -= 1  # the whole counts as one write, see `through`
        levels = list(_levels(self))
        if any(cell in level.own for level in levels):
            raise NotImplementedError(MADE_AROUND)
        if not (self._in_compile() and all(isinstance(level, Body) for level in levels)):
            raise RuntimeError(CAPTURED)
        session = self.session
        if any(cell in lent for lent in session.lent):
            raise RuntimeError(HANDED_ON)
        session.written.setdefault(cell)
        session.written_recorded |= _grad.enabled and jnp.issubdtype(value.dtype, jnp.inexact)
        session.state[cell] = value

    def draw(self, draw: Any) -> Any:
        """Random numbers from the generator's key, which moves on as often as this runs."""
        overlay = self.outer
        while isinstance(overlay, Level):
            overlay = overlay.outer
        if overlay is None or overlay.rng == "torch" or any(not isinstance(lv, Body) for lv in _levels(self)):
            raise NotImplementedError(DRAWN)
        with tracing.overlaid(self):
            return keyed.draw(draw.kind, draw.generator.split_key(), draw.shape, draw.dtype, **draw.params)


class Source:
    """The one generator of which the draws in a loop ask numbers. These come from a key of it, in any order.

    Args:
        generator: the generator; None until a dry run has noted it, or if nothing is drawn.
        in_order: whether numbers must come from PyTorch's stream, one after the other.
    """

    def __init__(self, generator: Any = None, in_order: bool = False) -> None:
        self.generator, self.in_order = generator, in_order

    def note(self, generator: Any) -> None:
        """Note which generator is asked.

        Raises:
            OutOfOrder: it cannot be asked here.
        """
        if self.in_order or self.generator not in (None, generator):
            raise OutOfOrder
        self.generator = generator


class OutOfOrder(NotImplementedError):
    """Random numbers that one key cannot give."""

    def __init__(self) -> None:
        super().__init__(
            "random numbers of several generators in a loop that is a part of a program: they come from a key of one"
        )


class Keyed(Level):
    """A level whose random numbers come from a key: it gives the same ones when it runs again.

    Attributes:
        source: where the key is from; it notes the draws of a dry run.
        key: a JAX key; None in a dry run, or if nothing is drawn.
    """

    def __init__(
        self, source: Source, key: Any, checks: list[Check] | None = None, mode: str | None = None
    ) -> None:
        super().__init__(mode=mode, checks=checks)
        self.source, self.key, self.taken = source, key, 0

    def split_key(self) -> Any:
        """A key of its own for one draw, or for a loop."""
        self.taken += 1
        return jax.random.fold_in(self.key, self.taken)

    def draw(self, draw: Any) -> Any:
        """Random numbers from the key."""
        if self.session.dry:
            self.source.note(draw.generator)
            return jnp.zeros(draw.shape, draw.dtype.np)
        if self.key is None or draw.generator is not self.source.generator:
            raise OutOfOrder
        return keyed.draw(draw.kind, self.split_key(), draw.shape, draw.dtype, **draw.params)


def _levels(overlay: Any) -> Iterator[Level]:
    """The levels in progress, innermost first."""
    while isinstance(overlay, Level):
        yield overlay
        overlay = overlay.outer


@jax.custom_vjp
def _stop_reverse(value: Any) -> Any:
    """The value as a constant for the innermost derivative, which is in reverse mode."""
    return value


_stop_reverse.defvjp(lambda value: (value, None), lambda _, slope: (jnp.zeros_like(slope),))


def in_compile(overlay: Any) -> bool:
    """Whether the outermost overlay is a trace of `compile`."""
    for level in _levels(overlay):
        overlay = level.outer
    return overlay is not None


def differentiated_forward() -> bool:
    """Whether the innermost derivative in progress is in forward mode."""
    modes = (level.mode for level in _levels(tracing.current()) if level.mode is not None)
    return next(modes, None) == "forward"


def _draw(draw: Any, around: Any) -> Any:
    """Draw outside all levels: from PyTorch's stream, or like the outer trace of `compile`."""
    with tracing.x64():
        if around is None:
            return jnp.asarray(draw())
        with tracing.overlaid(around), around.within(inside_jax.top_trace(None)):
            if around.rng == "torch":
                return around.host_draw(draw)
            return keyed.draw(draw.kind, draw.generator.split_key(), draw.shape, draw.dtype, **draw.params)


class _State(OfThread):
    """The session of the outermost transform running in the current thread."""

    def __init__(self) -> None:
        self.session = Session()


_state = _State()


def current_session() -> Session:
    """The session shared by the levels of the running transform."""
    return _state.session


@contextmanager
def _in_session(session: Session) -> Iterator[None]:
    previous, _state.session = _state.session, session
    try:
        yield
    finally:
        _state.session = previous


# ------------------------------------------------------------------ the border


def inside(
    call: Callable[[list[Tensor]], Any],
    arrays: Arrays,
    mapped: tuple[int, Any, str] | None = None,
    mode: str | None = None,
    checks: list[Check] | None = None,
    leaves: int = 0,
) -> Any:
    """Call ``call`` with ``arrays`` wrapped as Tensors, in a new level; with ``mode``, the level is a derivative.

    Checks of values inside are appended to ``checks``. The first ``leaves`` arrays are differentiated in reverse mode.
    """
    return run_in(Level(mapped, mode, checks), call, arrays, leaves)


def run_in(level: Level, call: Callable[[list[Tensor]], Any], arrays: Arrays, leaves: int = 0) -> Any:
    """As `inside`, in a level that has been made."""
    if level.checks is not None:
        level.checks.clear()  # of an earlier run of the same
    mode = level.mode
    with tracing.overlaid(level), _without_saved_hooks(level):
        tensors = [wrap(a) for a in arrays]
        level.leaves.update([t._storage for t in tensors[:leaves]])
        if mode is None:
            return call(tensors)
        with grad_mode.enable_grad():
            return call(tensors)


@contextmanager
def _without_saved_hooks(level: Level) -> Iterator[None]:
    """Refuse hooks of saved tensors in a reverse-mode derivative, which saves none."""
    if level.mode != "reverse":
        yield
        return
    if saved.state.hooks:
        raise RuntimeError(SAVED_HOOKS)
    before = saved.state.refused
    saved.state.set(refused=SAVED_HOOKS)
    try:
        yield
    finally:
        saved.state.set(refused=before)


def rehearsed(compute: Callable[..., Any], arrays: Arrays) -> tuple[Session, Any]:
    """Run a function of arrays only to see what it captures and draws: the session that knows, and its results."""
    session = Session()
    session.dry = True
    with _in_session(session), tracing.x64():
        return session, jax.eval_shape(compute, *arrays)


@contextmanager
def standing_in(tensors: Sequence[Tensor], arrays: Arrays) -> Iterator[None]:
    """Inside of a transform, have arrays stand for tensors from outside, to differentiate with respect to them."""
    session = current_session()
    before = session.substitutes
    session.substitutes = {**before, **{t._storage: a for t, a in zip(tensors, arrays, strict=True)}}
    try:
        yield
    finally:
        session.substitutes = before


def state_now() -> list[Any]:
    """The values of the Storages from outside that parts of the transform write."""
    return list(current_session().state.values())


def put_state(values: Arrays) -> None:
    """Take over what parts returned."""
    state = current_session().state
    state.update(zip(state, values))


def part(
    call: Callable[[list[Tensor]], list[Tensor]], arrays: Arrays, state: Arrays, checks: list[Check]
) -> tuple[list[Any], list[Any]]:
    """As `inside`, for a branch or a round of control flow that takes and returns `state_now`.

    Returns the values of the Tensors that ``call`` returns, and those of the state afterwards.
    """
    session = current_session()
    before = session.state
    cells = list(before)
    session.state = dict(zip(cells, state, strict=True))
    checks.clear()  # of an earlier run of the same
    level = Body(checks=checks)
    try:
        with tracing.overlaid(level):
            tensors = [wrap(a) for a in arrays]
            level.given = [t._storage for t in tensors]
            outs = call(tensors)
            if any(o._storage in session.written for o in outs):
                raise RuntimeError(HANDED_ON)
            return [o._value for o in outs], [session.state[cell] for cell in cells]
    finally:
        session.state = before


def arrays_of(checks: Sequence[Check]) -> list[list[Any]]:
    """The flags and values of checks, for a mapped or repeated function to return."""
    return [[check.flag(), *check.values] for check in checks]


def refuse_collected(checks: Sequence[Check], stacked: Sequence[Arrays]) -> None:
    """Do the checks on the results of `arrays_of` for all examples or iterations, stacked along dimension 0."""
    for check, arrays in zip(checks, stacked):
        refuse(some, first_of(check.error), *arrays)


def through(name: str, compute: Callable[[list[Any]], list[Any]], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Run a transform, a function of arrays, on Tensors as one operation on the outer tape."""
    level = tracing.current()
    if isinstance(level, Level):
        level.note_inputs(tensors)
        with level.session.lending(tensors):
            outs = compute([t._value for t in tensors])
        return [wrap(o if _grad.enabled else level.constant(o)) for o in outs]
    session = Session(tensors[0].device if tensors else None)
    session.in_jax = tracing.in_jax()
    with _in_session(session), tracing.x64(), session.lending(tensors):
        values = [t._value for t in tensors]
        if not tracing.overlay:
            outs = compute(values)
        else:  # only to see what the function captures and writes: nothing of it reaches the program
            session.dry = True
            jax.eval_shape(compute, values)
            session.dry, session.state = False, {}
        captured = list(session.captured)
        recorded = _grad.enabled and (bool(captured) or any(t.requires_grad for t in tensors))
        if not recorded and not tracing.overlay:
            return [wrap(o) for o in outs]
        cells = list(session.written)
        if cells:
            if recorded and (
                session.written_recorded or any(t._storage in session.written for t in captured)
            ):
                raise NotImplementedError(RECORDED)
            compute = _with_state(compute, session)
            tensors = [*tensors, *(wrap(cell.value) for cell in cells)]
        if not recorded:
            results = [wrap(o) for o in compute([t._value for t in tensors])]
        else:
            results = _record(name, compute, tensors, captured, session)
        kept = len(results) - len(cells)
        for cell, result in zip(cells, results[kept:]):
            cell.value = result._value
        return results[:kept]


def _with_state(
    compute: Callable[[list[Any]], list[Any]], session: Session
) -> Callable[[list[Any]], list[Any]]:
    """The same function of arrays and of the values of what is written, which it returns too."""
    cells = list(session.written)

    def whole(values: list[Any]) -> list[Any]:
        session.state = dict(zip(cells, values[-len(cells) :]))
        return [*compute(values[: -len(cells)]), *(session.state[cell] for cell in cells)]

    return whole


def _record(
    name: str,
    compute: Callable[[list[Any]], list[Any]],
    tensors: Sequence[Tensor],
    captured: Sequence[Tensor],
    session: Session,
) -> list[Tensor]:
    """Do the second run as a pure function of arguments and captured tensors, and record it on the tape."""
    count = len(tensors)

    def pure(*flat: Any) -> tuple[Any, ...]:
        with _in_session(session):
            session.again(captured, flat[count:])
            try:
                return tuple(compute(list(flat[:count])))
            finally:
                session.substitutes = {}

    plan = Plan(pure, name, f"{name.title().replace('_', '')}Backward0")
    dyn = [*tensors, *captured]
    if tracing.overlay:
        return list(run(plan, dyn))
    edges, mask = edges_of(dyn)
    values = [t._value for t in dyn]
    out, pullback = pullback_of(pure, mask, values)
    node = node_class(plan.node)(plan, mask, edges, tuple(values), out)
    node.pull = pullback
    return list(recorded(plan, node, out))
