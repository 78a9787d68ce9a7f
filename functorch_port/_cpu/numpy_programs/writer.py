"""A jaxpr written out as the source of a Python function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import Var

from ..._array import tracing
from ..._array.value import HOST
from ..._base import lowering, sizes
from ..._base.jaxprs import inlined, pruned, walk
from ..elements import ELEMENTS
from .helpers import HELPERS
from .program import Program
from .values import DTYPES, KEPT, LOW, Unsupported, Value

__all__ = ["Rules", "Writer"]


_FLOAT32 = np.dtype(np.float32)


class Rules(NamedTuple):
    """How primitives are written.

    Attributes:
        each: by the name of a primitive, ``(writer, eqn, values) -> value``, or values.
        moving: those that only move elements, or look at their types themselves: they take float16 and bfloat16 as
            they are.
    """

    each: Mapping[str, Callable[..., Any]]
    moving: frozenset[str]


def _folds(shape: Any) -> bool:
    """Whether a constant of this shape is computed when the program is written, and kept."""
    return sizes.is_known(tuple(shape)) and math.prod(shape) <= 1 << 14


class Symbol(NamedTuple):
    """A parameter that is one of the symbols."""

    name: str


def _has_symbols(value: Any) -> bool:
    return isinstance(value, Symbol) or (
        any(map(_has_symbols, value)) if isinstance(value, tuple) else sizes.is_symbolic_dim(value)
    )


@dataclass
class Line:
    """A line that computes a value.

    Attributes:
        name, text: of the value, and its expression.
        needs: numbers of other lines.
        over: None if it may give, or keep, a look at another value; else for numbers of lines the expression that
            overwrites what these have given.
    """

    name: str
    text: str
    needs: set[int]
    over: dict[int, str] | None = None


class Writer:
    """Writes a jaxpr as the source of a Python function, one line per primitive.

    Args:
        closed: the jaxpr. Some sizes in it may be symbols.
        kind: of what the function gives, an array or a tuple of them.
        symbols: how many symbols there are.
        rules: for what is none of `ELEMENTS`.

    Raises:
        Unsupported: for what is not written in numpy.
    """

    def __init__(self, closed: Any, kind: type, symbols: int, rules: Rules) -> None:
        self.rules = rules
        self.symbols = tuple([Symbol(f"n{k}") for k in range(symbols)])
        self.names: dict[str, Any] = dict(HELPERS)
        self.lines: list[Line] = []
        #: of each line microseconds beside those for each element, and shapes with microseconds for each element
        self.costs: list[tuple[float, list[tuple[Any, float]]]] = []
        #: the shapes of all arrays, and of the multiply-adds of products
        self.shapes: set[tuple[Any, ...]] = set()
        self.products: list[tuple[Any, ...]] = []
        #: what was computed already
        self.seen: dict[tuple[str, Any], Value] = {}
        #: by the text of a value the primitive that it comes from, with its arguments and parameters
        self.made: dict[str, tuple[str, list[Value], Any]] = {}
        inputs = [Value(f"a{k}", self._checked(a), a.shape) for k, a in enumerate(closed.in_avals)]
        self.inputs = [value.text for value in inputs]
        self.outs = [self._whole(out) for out in self._run(closed, inputs)]
        self.kind = kind
        self.is_kept = all(aval.dtype in KEPT for aval in (*closed.in_avals, *closed.out_avals))

    def program(self) -> Program:
        """The program."""
        live = {out.line for out in self.outs if out.line is not None}
        for number in reversed(range(len(self.lines))):
            if number in live:
                live |= self.lines[number].needs
        names = [symbol.name for symbol in self.symbols]
        results = ", ".join(map(self._result, self.outs))
        source = [
            f"def program({', '.join([*names, *self.inputs])}):",
            *self._body(live),
            f"    return ({results},)" if issubclass(self.kind, tuple | list) else f"    return {results}",
            f"def facts({', '.join(names)}):",
            f"    return {self._facts(live)}",
        ]
        made: dict[str, Any] = {}
        exec(compile("\n".join(source), "<host program>", "exec"), made)
        run, facts = [self._closed(made[name].__code__) for name in ("program", "facts")]
        return Program(run, facts, self.is_kept)

    def _body(self, live: set[int]) -> list[str]:
        """The lines. Some overwrite a value of elements that only such lines use, and none later. What no later line
        needs is deleted, so that its memory is free.
        """
        last: dict[int, int] = {}
        outs = {out.line for out in self.outs}
        kept = set(outs)
        for n in sorted(live):
            for need in self.lines[n].needs:
                last[need] = n
                if self.lines[n].over is None:
                    kept.add(need)
        body = []
        for n in sorted(live):
            line = self.lines[n]
            free = [
                text
                for m, text in (line.over or {}).items()
                if last[m] == n and m not in kept and self.lines[m].over is not None
            ]
            body.append(f"    {line.name} = {free[0] if free else line.text}")
            done = [self.lines[m].name for m in sorted(line.needs) if last[m] == n and m not in outs]
            if done:
                body.append(f"    del {', '.join(done)}")
        return body

    def _closed(self, code: Any) -> FunctionType:
        """A function that holds what its code names; most of the names are of what is computed already."""
        return FunctionType(code, {name: self.names[name] for name in code.co_names if name in self.names})

    def _result(self, out: Value) -> str:
        text, of_host = self._array(out), out.aval.dtype.type in HOST
        return text if out.shape or of_host else f"np.asarray({text})"

    def _facts(self, live: set[int]) -> str:
        once = sum(self.costs[n][0] for n in live)
        each: dict[str, float] = {}
        for n in live:
            for shape, cost in self.costs[n][1]:
                size = sizes.text(math.prod(shape))
                each[size] = each.get(size, 0.0) + cost
        time = " + ".join([f"{once:.1f}", *[f"{cost:.3g} * {size}" for size, cost in each.items()]])
        sets = [{sizes.text(math.prod(s)) for s in shapes} for shapes in (self.shapes, self.products)]
        largest, products = (f"max({', '.join(['0', '0', *sorted(found)])})" for found in sets)
        return f"({time}, {largest}, {products})"

    # ------------------------------------------------------------- building

    def _checked(self, aval: Any) -> Any:
        if aval.dtype not in DTYPES:
            raise Unsupported(str(aval))
        self.shapes.add(tuple(aval.shape))
        return aval

    def _constant(self, value: Any, aval: Any) -> Value:
        value = np.asarray(value, aval.dtype)
        name = f"c{len(self.names)}"
        self.names[name] = value if value.shape else value[()]
        text = name
        if not value.shape and value.dtype.kind in "if" and np.isfinite(value):
            text = repr(value.item())  # a Python number is cheaper, and takes the dtype of what it meets
            text = f"({text})" if text[0] == "-" else text
        return Value(text, aval, value.shape, self.names[name])

    def _held(self, value: Any, aval: Any) -> Value:
        """A number or array of the program."""
        return self._constant(value, self._checked(aval))

    def _run(self, closed: Any, inputs: Sequence[Value]) -> list[Value]:
        jaxpr, _ = pruned(inlined(closed.jaxpr))
        held = map(self._held, closed.consts, [v.aval for v in jaxpr.constvars])
        return walk(jaxpr, (*held, *inputs), self._operation, self._held)

    def _operation(self, eqn: Any, ins: list[Value]) -> list[Value]:
        name = eqn.primitive.name
        if (how := lowering.at_once(eqn.primitive)) is not None:
            return self._called(how, eqn, ins)
        if name not in ELEMENTS and (formula := lowering.formula_of(eqn.primitive)) is not None:
            given = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in ins]
            with tracing.x64():
                return self._run(jax.make_jaxpr(partial(formula, **eqn.params))(*given), ins)
        for var in eqn.outvars:
            self._checked(var.aval)
        avals = [x.aval for x in (*ins, *eqn.outvars)]
        is_low = name not in self.rules.moving and any(aval.dtype in LOW for aval in avals)
        if is_low and name == "nextafter":
            raise Unsupported(name)
        outs = self._in_float32(name, eqn, ins) if is_low else self._primitive(name, eqn, ins)
        if len(outs) == 1 and outs[0].const is None and outs[0].text not in self.made:
            self.made[outs[0].text] = name, ins, eqn.params
        return outs

    def converted(self, x: Value, aval: Any) -> Value:
        """A value in another dtype, as XLA converts it."""
        old, new = x.aval.dtype, aval.dtype
        if old == new and (not x.aval.weak_type or x.line is not None):
            return x.like(aval)
        if old.kind == "c" and new.kind not in "bc":
            half = x.aval.update(dtype=np.dtype(f"f{old.itemsize // 2}"))
            return self.converted(self._look(f"{self._array(x)}.real", half, x.shape, [x]), aval)
        if old in LOW and new not in (_FLOAT32, np.float64, np.bool_):
            return self.converted(self.converted(x, x.aval.update(dtype=_FLOAT32)), aval)
        array, dtype = self._array(x), self._dtype(new)
        if old.kind == "f" and new.kind in "iu":
            return self._emit(f"_to_integers({array}, {dtype})", aval, x.shape, [x], 4.0, (x.shape, 3e-3))
        text = f"{array}.astype({dtype})" if x.shape else f"{dtype}.type({array})"
        return self._emit(text, aval, x.shape, [x], 0.3)

    def _in_float32(self, name: str, eqn: Any, ins: list[Value]) -> list[Value]:
        """An operation on float16 or bfloat16: in float32, and rounded."""

        def wide(aval: Any) -> Any:
            return aval.update(dtype=_FLOAT32) if aval.dtype in LOW else aval

        ins = [self.converted(v, wide(v.aval)) for v in ins]
        found = self._primitive(name, eqn.replace(outvars=[Var(wide(v.aval)) for v in eqn.outvars]), ins)
        return [self.converted(v, var.aval) for v, var in zip(found, eqn.outvars, strict=True)]

    def _called(self, by: lowering.AtOnce, eqn: Any, ins: list[Value]) -> list[Value]:
        """A primitive that something else computes."""
        for var in eqn.outvars:
            self._checked(var.aval)
        return self._call(by.way, eqn, ins, by.time, as_tuple=True, **eqn.params)

    def _call(
        self,
        fn: Callable[..., Any],
        eqn: Any,
        ins: list[Value],
        once: float,
        *each: Any,
        as_tuple: bool = False,
        **how: Any,
    ) -> list[Value]:
        """The results of ``fn(*arrays, **how)``, or of ``fn(arrays, **how)``; what it costs as for `_emit`. Sizes in
        ``how`` may be symbols.
        """
        arrays = [self.converted(v, v.aval.update(weak_type=False)) for v in map(self._whole, ins)]
        each_array = "".join([f"{self._array(v)}, " for v in arrays])
        given = [
            f"({each_array})" if as_tuple else each_array.removesuffix(", "),
            *[f"{name}={self._parameter(value)}" for name, value in how.items()],
        ]
        text = f"{self._named(fn)}({', '.join(given)})"
        avals = [var.aval for var in eqn.outvars]
        if not eqn.primitive.multiple_results:
            return [self._emit(text, avals[0], avals[0].shape, arrays, once, *each)]
        made = self._line(text, (1,), arrays, once, each)
        return [self._look(f"{made.text}[{k}]", aval, aval.shape, [made]) for k, aval in enumerate(avals)]

    def _inner(self, closed: Any) -> tuple[Callable[..., Any], tuple[float, list[tuple[Any, float]]]]:
        """A program within this one, as a function of the symbols and the arrays to a tuple.

        Also what it costs: microseconds, and shapes with microseconds for each element.
        """
        inner = Writer(closed, tuple, len(self.symbols), self.rules)
        self.shapes |= inner.shapes
        self.products += inner.products
        once = sum(cost for cost, _ in inner.costs)
        return inner.program().run, (once, [part for _, each in inner.costs for part in each])

    def _parameter(self, value: Any) -> str:
        """Text of a parameter, in which sizes may be symbols."""
        if isinstance(value, Symbol):
            return value.name
        if sizes.is_symbolic_dim(value):
            return sizes.text(value)
        if not (isinstance(value, tuple) and _has_symbols(value)):
            return self._named(value)
        parts = f"({', '.join(map(self._parameter, value))},)"
        return f"{self._named(type(value))}._make({parts})" if hasattr(value, "_make") else parts

    def _named(self, value: Any) -> str:
        """A name for any object."""
        name = f"o{len(self.names)}"
        self.names[name] = value
        return name

    def _primitive(self, name: str, eqn: Any, ins: list[Value]) -> list[Value]:
        aval = eqn.outvars[0].aval
        element = ELEMENTS.get(name)
        if name == "max" and any(
            v.const is not None and v.const.ndim == 0 and v.const == -np.inf for v in ins
        ):
            return [next(v for v in ins if v.const is None or v.const.ndim or v.const != -np.inf)]
        if element is not None and all(v.aval.dtype.kind in element.kinds for v in ins):
            shape = sizes.broadcast(*[v.shape for v in ins])
            operands = [self._operand(v, shape) for v in ins]
            made = self._emit(element.numpy.format(*operands), aval, shape, ins, 0.5)
            if shape and made.const is None and made.line == len(self.lines) - 1:
                over = {
                    v.line: element.into(operands, v.text)
                    for v in ins
                    if v.line is not None and v.shape == shape and v.aval.dtype == aval.dtype
                }
                self.lines[made.line].over = {m: text for m, text in over.items() if text}
            return [made]
        rule = self.rules.each.get(name)
        if rule is None:
            raise Unsupported(name)
        found = rule(self, eqn, ins)
        return found if isinstance(found, list) else [found]

    def _look(self, text: str, aval: Any, shape: Any, needs: Sequence[Value]) -> Value:
        """A line that gives a look at another value: it costs the same for any number of elements."""
        return self._added(text, aval, shape, needs, 0.2, ())

    def _emit(
        self, text: str, aval: Any, shape: Any, needs: Sequence[Value], once: float, *each: Any
    ) -> Value:
        """A line that computes a value.

        Args:
            once, each: what it costs (see `costs`), besides 0.4 ns for each element of the result.
        """
        return self._added(text, aval, shape, needs, once, ((tuple(shape), 0.4e-3), *each))

    def _added(
        self, text: str, aval: Any, shape: Any, needs: Sequence[Value], once: float, each: Sequence[Any]
    ) -> Value:
        """A line, or what it gives if that does not depend on the arguments."""
        if needs and _folds(shape) and all(v.const is not None for v in needs):
            with np.errstate(all="ignore"):
                return self._constant_like(eval(text, self.names), aval)
        known = self.seen.get((text, aval.dtype))
        if known is None:
            known = self.seen[text, aval.dtype] = self._line(text, shape, needs, once, each)
        return Value(known.text, aval, shape, None, known.line)

    def _line(self, text: str, shape: Any, needs: Sequence[Value], once: float, each: Sequence[Any]) -> Value:
        """As `_added`, of anything."""
        lines = {v.line for v in needs if v.line is not None}
        name = f"v{len(self.lines)}"
        self.lines.append(Line(name, text, lines))
        self.costs.append((once if shape else min(once, 0.5), [*each]))
        return Value(name, None, shape, None, len(self.lines) - 1)

    def _constant_like(self, value: Any, aval: Any) -> Value:
        if np.ndim(value) and value.dtype != aval.dtype:
            raise Unsupported("dtype of a constant")
        return self._constant(value, aval)

    def _operand(self, value: Value, shape: Any) -> str:
        """Text for the argument of a ufunc: beside an array numpy takes a 0-dim array faster than a Python number."""
        if not shape or value.const is None or np.ndim(value.const):
            return value.text
        const = np.array(value.const)
        name = f"z{const.dtype.name}{const.tobytes().hex()}"
        self.names[name] = const
        return name

    def _array(self, value: Value) -> str:
        """Text of an array or numpy scalar: constants are written as Python numbers elsewhere."""
        if value.const is not None:
            name = f"k{len(self.names)}"
            self.names[name] = value.const
            return name
        return value.text

    def _whole(self, value: Value) -> Value:
        """The value with all the elements its shape says."""
        if value.shape == tuple(value.aval.shape):
            return value
        if value.const is not None and _folds(value.aval.shape):
            whole = np.broadcast_to(value.const, value.aval.shape)
            return self._constant(np.ascontiguousarray(whole), value.aval)
        shape = sizes.text(tuple(value.aval.shape))
        text = f"_full({self._array(value)}, {shape}, {self._dtype(value.aval.dtype)})"
        return self._emit(text, value.aval, value.aval.shape, [value], 1.2)

    def _dtype(self, dtype: Any) -> str:
        name = f"d{dtype.name}"
        self.names[name] = dtype
        return name
