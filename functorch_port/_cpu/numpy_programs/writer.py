"""A jaxpr written out as the source of a Python function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

import jax
import numpy as np

from ..._array import tracing
from ..._base import lowering, sizes
from ..._base.jaxprs import inlined, pruned, walk
from ..elements import ELEMENTS
from .helpers import HELPERS
from .primitives import RULES
from .values import DTYPES, Unsupported, Value

__all__ = ["Program", "Writer"]


def _folds(shape: Any) -> bool:
    """Whether a constant of this shape is computed when the program is written, and kept."""
    return sizes.is_known(tuple(shape)) and math.prod(shape) <= 1 << 14


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


class Program(NamedTuple):
    """What was written.

    Attributes:
        run: a function of the symbols and then the arrays and numbers, to an array or a tuple of them.
        facts: a function of the symbols: microseconds that it takes, by an estimate, the elements of its largest array,
            and the multiply-adds of its largest product.
    """

    run: Callable[..., Any]
    facts: Callable[..., tuple[float, int, int]]


class Writer:
    """Writes a jaxpr as the source of a Python function, one line per primitive.

    Args:
        closed: the jaxpr. Some sizes in it may be symbols.
        kind: of what the function gives, an array or a tuple of them.

    Raises:
        Unsupported: for what is not written in numpy.
    """

    def __init__(self, closed: Any, kind: type) -> None:
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
        if all(a.weak_type for a in closed.in_avals):
            raise Unsupported("numbers alone")
        self.outs = [self._whole(out) for out in self._run(closed, inputs)]
        self.kind = kind

    def program(self, symbols: int) -> Program:
        """The program, with so many symbols."""
        live = {out.line for out in self.outs if out.line is not None}
        for number in reversed(range(len(self.lines))):
            if number in live:
                live |= self.lines[number].needs
        names = [f"n{k}" for k in range(symbols)]
        results = ", ".join(self._array(out) for out in self.outs)
        source = [
            f"def program({', '.join([*names, *self.inputs])}):",
            *self._body(live),
            f"    return ({results},)" if issubclass(self.kind, tuple | list) else f"    return {results}",
            f"def facts({', '.join(names)}):",
            f"    return {self._facts(live)}",
        ]
        made: dict[str, Any] = {}
        exec(compile("\n".join(source), "<host program>", "exec"), made)
        return Program(*[self._closed(made[name].__code__) for name in ("program", "facts")])

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
        if (formula := lowering.formula_of(eqn.primitive)) is not None:
            given = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in ins]
            with tracing.x64():
                return self._run(jax.make_jaxpr(partial(formula, **eqn.params))(*given), ins)
        if name == "cond" and ins[0].const is not None:
            return self._run(eqn.params["branches"][int(ins[0].const)], ins[1:])
        for var in eqn.outvars:
            self._checked(var.aval)
        outs = self._primitive(name, eqn, ins)
        if len(outs) == 1 and outs[0].const is None and outs[0].text not in self.made:
            self.made[outs[0].text] = name, ins, eqn.params
        return outs

    def _called(self, how: lowering.AtOnce, eqn: Any, ins: list[Value]) -> list[Value]:
        """A primitive that something else computes."""
        arrays = [self._whole(v) for v in ins]
        params = ", ".join(f"{name}={self._parameter(value)}" for name, value in eqn.params.items())
        text = f"{self._named(how.way)}(({', '.join(map(self._array, arrays))},), {params})"
        for var in eqn.outvars:
            self._checked(var.aval)
        avals = [var.aval for var in eqn.outvars]
        if not eqn.primitive.multiple_results:
            return [self._emit(text, avals[0], avals[0].shape, arrays, how.time)]
        made = self._emit(text, avals[0], avals[0].shape, arrays, how.time)
        return [
            self._emit(f"{made.text}[{k}]", aval, aval.shape, [made], 0.1) for k, aval in enumerate(avals)
        ]

    def _parameter(self, value: Any) -> str:
        """Text of a parameter, in which sizes may be symbols."""
        if sizes.is_symbol(value):
            return sizes.text(value)
        if not (isinstance(value, tuple) and sizes.has_symbols(value)):
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
        if element is not None:
            if any(v.aval.dtype.kind not in element.kinds for v in ins):
                raise Unsupported(name)
            shape = sizes.broadcast(*[v.shape for v in ins])
            operands = [self._operand(v, shape) for v in ins]
            made = self._emit(element.numpy.format(*operands), aval, shape, ins, 0.9)
            if shape and made.const is None and made.line == len(self.lines) - 1:
                over = {
                    v.line: element.into(operands, v.text)
                    for v in ins
                    if v.line is not None and v.shape == shape and v.aval.dtype == aval.dtype
                }
                self.lines[made.line].over = {m: text for m, text in over.items() if text}
            return [made]
        rule = RULES.get(name)
        if rule is None:
            raise Unsupported(name)
        found = rule(self, eqn, ins)
        return found if isinstance(found, list) else [found]

    def _emit(
        self, text: str, aval: Any, shape: Any, needs: Sequence[Value], once: float, *each: Any
    ) -> Value:
        """A line that computes a value; at once if it does not depend on the arguments.

        Args:
            once, each: what it costs (see `costs`), besides 0.4 ns for each element of the result.
        """
        if needs and _folds(shape) and all(v.const is not None for v in needs):
            with np.errstate(all="ignore"):
                return self._constant_like(eval(text, self.names), aval)
        known = self.seen.get((text, aval.dtype))
        if known is not None:
            return Value(known.text, aval, shape, None, known.line)
        lines = {v.line for v in needs if v.line is not None}
        name = f"v{len(self.lines)}"
        self.lines.append(Line(name, text, lines))
        self.costs.append((once if shape else min(once, 0.5), [(tuple(shape), 0.4e-3), *each]))
        made = self.seen[text, aval.dtype] = Value(name, aval, shape, None, len(self.lines) - 1)
        return made

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
