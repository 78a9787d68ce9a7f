"""The way from a Python call to a plan and the arrays it runs on: arguments, defaults, errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import jax
import numpy as np

from .._array import executor, fits, placed, placing, tracing
from .._array.sizes import SymSize
from .._array.symbolic import SymNumber
from .._array.value import HOST
from .._base import config, dtypes, inside, watch
from .._base.bounded import Bounded
from .._base.layout import SparseOperand
from .._base.size import Size
from .._base.tuning import tuning
from .._tensor import errors, grad_mode, kept, saved
from .._tensor.avals import NUMBERS
from .._tensor.family import Family
from .._tensor.overriding import noticed
from .._tensor.plan import Plan
from .._tensor.tensor import Tensor, wrap
from .._tensor.view import View
from . import autocast
from .arguments import arguments_of
from .opnode import show_saved
from .out import write_out
from .registry import ARRAY, ARRAYS, SCALAR, STATIC, OpSpec, ops
from .results import attach_view, laid_as
from .run import run

__all__ = ["Op", "caller"]

_grad = grad_mode.state
_T, _OPEN, _CLOSE = object(), object(), object()
_REALS = frozenset({int, float})
_FLOAT32 = np.dtype(np.float32)


class Op:
    """A registered operation as a function of Tensors."""

    def __init__(self, spec: OpSpec) -> None:
        self.spec = spec
        self.kinds = spec.kinds[: spec.positional]
        self.positional = spec.positional
        self.kind_of = dict(zip(spec.params, spec.kinds, strict=True))
        self.plans: Bounded[Any, Plan] = Bounded(tuning.cached_plans)
        self.families: Bounded[Any, Family] = Bounded(tuning.cached_plans)
        self.__name__ = spec.name
        self.__doc__ = spec.fn.__doc__
        self.__wrapped__ = spec.fn
        self.call = caller(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(*args, **kwargs)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call with these arguments."""
        spec = self.spec
        out = kwargs.pop("out", None) if kwargs else None
        if watch.on:
            args, kwargs = autocast.cast_inputs(spec.name, args, kwargs)
            if watch.state.profile is not None:
                return watch.state.profile.run_op(
                    self, args, kwargs if out is None else {**kwargs, "out": out}
                )
            if watch.state.level is not None:
                return watch.state.level.run_op(self, args, kwargs, out)
        plan, dyn = self.found(args, kwargs)
        result = self.of(plan, dyn, args, kwargs)
        return result if out is None else write_out(out, result, spec.name, dyn)

    def of(self, plan: Plan, dyn: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call of which `found` is known."""
        spec = self.spec
        try:
            result = run(plan, dyn)
        except SparseOperand:
            from . import sparse

            return sparse.run(spec.name, args, kwargs)
        except BaseException as error:
            inside.repair()
            new = errors.told(error, spec.name, Tensor, args, kwargs, dyn)
            if new is error:
                raise
            raise new from error
        if spec.view and type(result) is Tensor and result._view is None:
            value, cell = result._peek(), dyn[0]._storage
            base = cell.host() if value.__class__ in HOST else cell.peek()
            extra = tuple(map(placing.as_array, dyn[1:]))
            attach_view(result, dyn[0], View(dyn[0]._view, plan, extra, base, value, _grad.enabled))
        if spec.order is not None:
            for a in dyn:
                if isinstance(a, Tensor) and a._view is not None:
                    result = laid_as(spec.order, dyn, result)
                    break
        if spec.after is not None and (kwargs or dyn[0]._view is not None):
            return spec.after(result, *args, **kwargs)
        return result

    def in_order(self, kwargs: dict[str, Any]) -> bool:
        """Whether these keyword arguments come in the order in which a program has them."""
        places = [self.spec.params.index(name) for name in kwargs]
        return places == sorted(places)

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """What a call with these arguments would run."""
        return self.found(args, kwargs)[0]

    def found(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Plan, list[Any]]:
        """The plan of a call with these arguments, and what it runs on."""
        sig: list[Any] = [dtypes._default, config.key]
        dyn: list[Any] = []
        try:
            if len(args) > self.positional:
                raise TypeError
            for a, kind in zip(args, self.kinds):
                _scan(a, kind, sig, dyn)
            for name, a in kwargs.items():
                sig.append(name)
                _scan(a, self.kind_of[name], sig, dyn)
            spelling = tuple(sig)
            plan = self.plans.get(spelling)
        except (TypeError, KeyError):
            return self._bind(args, kwargs)
        if plan is None:
            plan, bound = self._bind(args, kwargs)
            if [id(a) for a in dyn] == [id(a) for a in bound] and self.in_order(kwargs):
                self.plans[spelling] = plan
            dyn = bound
        return plan, dyn

    # The slow way: once per new signature, and for calls that need their arguments put in order.

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Plan, list[Any]]:
        takes = arguments_of(self.spec)
        bound = takes.by_name(args, kwargs)
        sig: list[Any] = [dtypes._default, config.key, None]
        dyn: list[Any] = []
        slots: dict[str, Any] = {}
        for name, value in bound.items():
            kind = self.kind_of[name]
            sig.append(name)
            if kind is STATIC:
                value = bound[name] = _static(value)
            takes.check(name, value, len(args))
            start = len(dyn)
            try:
                _scan(value, kind, sig, dyn)
            except TypeError:
                raise TypeError(takes.wrong(name, value)) from None
            if kind is ARRAYS:
                slots[name] = _slots(value, start)
            elif len(dyn) > start:
                slots[name] = start
        try:
            plan = self.plans.get(tuple(sig))
        except TypeError as error:
            raise TypeError(f"{takes.label}(): {error}") from None
        if plan is None:
            static = {n: v for n, v in bound.items() if n not in slots}
            plan = self.plans[tuple(sig)] = self._plan(slots, static)
        return plan, dyn

    def _plan(self, slots: dict[str, Any], static: dict[str, Any]) -> Plan:
        spec = self.spec
        family, numbers = self._family(slots, static)
        node = spec.node if isinstance(spec.node, str) else spec.node(static)
        plan = Plan(None, spec.name, node, spec, family=family, numbers=numbers)
        show_saved(plan.node, tuple(spec.params))
        plan.named = lambda values: {**{n: _fill(s, values) for n, s in slots.items()}, **static}
        plan.saves, plan.slots = {} if spec.name in saved.RULES else None, slots
        plan.tensors = frozenset(s for n, s in slots.items() if self.kind_of[n] is ARRAY)
        checks: list[Callable[..., None]] = []
        if spec.check is not None:
            check = spec.check
            checks.append(lambda *values: check(**{n: _fill(s, values) for n, s in slots.items()}, **static))
        arrays = [s for n, s in slots.items() if self.kind_of[n] is ARRAY]
        for name in spec.fits.keys() & slots.keys():
            checks.append(_fitting(spec.fits[name], slots[name], arrays))
        plan.check = checks[0] if len(checks) == 1 else _all_of(checks) if checks else None
        if spec.edges is not None:
            named = [(e[2:-1], True) if e.startswith("t(") else (e, False) for e in spec.edges]
            plan.edge_order = tuple((slots[n], t) for n, t in named if n in slots)
        elif spec.view:
            plan.edge_order = ((0, False),)
        return plan

    def _family(self, slots: dict[str, Any], static: dict[str, Any]) -> tuple[Family, tuple[int, ...]]:
        """The plans whose static arguments differ in whole numbers only, and those of this one."""
        numbers: list[int] = []
        form = {name: _without_numbers(value, numbers) for name, value in static.items()}
        key = (dtypes._default, config.key, tuple(slots.items()), _typed(tuple(form.items())))
        family = self.families.get(key)
        if family is None:
            fn = self.spec.fn

            def of(numbers: Sequence[Any]) -> Callable[..., Any]:
                left = iter(numbers)
                whole = {name: _with_numbers(value, left) for name, value in form.items()}

                def pure(*values: Any) -> Any:
                    return fn(**{n: _fill(s, values) for n, s in slots.items()}, **whole)

                pure.__name__ = pure.__qualname__ = self.spec.name
                return pure

            family = self.families[key] = Family(of, self._name(slots, form))
        return family, tuple(numbers)

    def _name(self, slots: dict[str, Any], form: dict[str, Any]) -> str | None:
        """What the functions of a family are, exactly (see `kept`); None for what is not the library's own."""
        own = own_name(self.spec)
        try:
            static = {name: kept.text(value) for name, value in form.items()}
        except kept.Unwritten:
            return None
        return own and f"{own} {slots} {static} {dtypes._default} {config.key}"


def own_name(spec: OpSpec) -> str | None:
    """What no other operation is called, in any process; None for one that is not of `ops`."""
    module = spec.fn.__module__
    if not module.startswith(_OPS) or not inspect.unwrap(spec.fn).__code__.co_filename.startswith(_FOLDER):
        return None
    keys = spec.name, f"{module.rpartition('.')[2]}.{spec.name}"
    return next((f"{module} {key}" for key in keys if ops.get(key) is spec), None)


#: the operations' package, and where it is
_OPS = f"{__name__.partition('.')[0]}.ops."
_FOLDER = str(Path(__file__).parents[1] / "ops")


def caller(op: Op, name: str = "", module: str = "") -> FunctionType:
    """An operation as a plain function, which Python calls faster than an object.

    With a ``name`` it is a public one: arguments that it refuses may override it.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return op.run(args, kwargs)
        except Exception:
            if not (name and noticed(args, kwargs)):
                raise
        return call(*args, **kwargs)  # it has other code now

    if executor.current.caller is not None:
        call = executor.current.caller(op, name)
    call.__name__ = call.__qualname__ = name or op.__name__
    call.__module__ = module or __name__
    call.__doc__ = op.__doc__
    call.__wrapped__ = op.spec.fn  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


_SYMBOLIC = (SymNumber, SymSize, tuple, Size)


def _scan(a: Any, kind: str, sig: list[Any], dyn: list[Any]) -> None:
    """Add one argument to the signature and, if it is dynamic, to the flat list."""
    if kind is STATIC:
        if type(a) is list:
            a = tuple(a)
        if tracing.overlay and type(a) in _SYMBOLIC:
            a = _static(a)  # the signature outlives the trace
        sig.append(type(a))
        sig.append(repr(a) if type(a) is float and not a else a)  # 0.0 equals -0.0
    elif isinstance(a, Tensor):
        sig.append(_T)
        dyn.append(a)
    elif a is None:
        sig.append(None)
    elif type(a) is bool and kind is not ARRAYS:
        sig.append(bool)
        sig.append(a)  # static: JAX has no weakly typed bools, so a traced one would count as a 0-dim tensor
    elif type(a) in NUMBERS:
        sig.append(type(a))
        dyn.append(a)
    elif kind is ARRAYS and isinstance(a, list | tuple):
        sig.append(_OPEN)
        for item in a:
            _scan(item, ARRAYS, sig, dyn)
        sig.append(_CLOSE)
    elif isinstance(a, SymNumber):
        sig.append(a.value.__class__)
        dyn.append(a)
    elif isinstance(a, np.generic):
        _scan(a.item(), kind, sig, dyn)
    elif isinstance(a, jax.Array):
        sig.append(_T)
        dyn.append(wrap(placed.taken(a)))
    elif kind is SCALAR and isinstance(a, int | float | complex):
        sig.append(type(a))
        dyn.append(a)
    else:
        raise TypeError


_NUMBER = kept.NUMBER


def _without_numbers(value: Any, numbers: list[int]) -> Any:
    """A static argument with a mark in place of each whole number, which is added to ``numbers``."""
    if type(value) is int:
        numbers.append(value)
        return _NUMBER
    return tuple([_without_numbers(v, numbers) for v in value]) if type(value) is tuple else value


def _typed(form: Any) -> Any:
    """The same as a key: Python has 1 equal True and 1.0, and 0.0 equal -0.0."""
    if type(form) is tuple:
        return tuple(map(_typed, form))
    return type(form), repr(form) if type(form) is float and not form else form


def _with_numbers(value: Any, numbers: Iterator[Any]) -> Any:
    """The inverse."""
    if value is _NUMBER:
        return next(numbers)
    return tuple([_with_numbers(v, numbers) for v in value]) if type(value) is tuple else value


def _slots(value: Any, start: int) -> Any:
    if value is None:
        return None
    slots, at = [], start
    for item in value:
        slots.append(None if item is None else at)
        at += item is not None
    return tuple(slots)


def _fill(slot: Any, values: Sequence[Any]) -> Any:
    if slot is None:
        return None
    return tuple(_fill(s, values) for s in slot) if isinstance(slot, tuple) else values[slot]


def _fitting(how: fits.How, slot: int, arrays: Sequence[int]) -> Callable[..., None]:
    """The check that the number in a slot fits beside arrays, or numbers in their places."""
    first = arrays[0]
    if not how.common:
        return lambda *values: fits.check(how, values[slot], values[first])

    def check(*values: Any) -> None:
        value = values[slot]
        # most are small, which every dtype holds, but that an unsigned one holds no negative fraction
        if type(value) in _REALS and -128 < value < 128:
            if value >= 0 or getattr(values[first], "dtype", None) is _FLOAT32:
                return
        fits.check(how, value, *[values[s] for s in arrays])

    return check


def _all_of(checks: Sequence[Callable[..., None]]) -> Callable[..., None]:
    def check(*values: Any) -> None:
        for one in checks:
            one(*values)

    return check


def _static(value: Any) -> Any:
    """A static argument in hashable form."""
    if isinstance(value, list | tuple):
        return tuple(_static(v) for v in value)
    if isinstance(value, Tensor):
        return value.item() if value.ndim == 0 else tuple(value.tolist())
    if isinstance(value, SymNumber):
        return value.dim if type(value) is SymSize else value.concrete()
    if isinstance(value, np.generic):
        return value.item()
    return dtypes.PYTHON.get(value, value) if isinstance(value, type) else value
