"""Jaxprs of 0-dim values in LLVM's language, for `kernels` and `rows`."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jax.extend.core import Jaxpr, Literal

__all__ = ["Lines", "Unknown", "constant", "element_type", "evaluate", "float_type", "instruction", "type_of"]

#: jaxpr primitives -> LLVM's instruction for floats
_ARITHMETIC = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
#: jaxpr primitives -> LLVM's intrinsic
_INTRINSICS = {"sqrt": "sqrt", "abs": "fabs", "max": "maximum", "min": "minimum", "fmuladd": "fmuladd"}
#: jaxpr primitives -> LLVM's comparison of floats: false beside a NaN, but for `ne`
_COMPARISONS = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_CONVERSIONS = {"i1": "uitofp", "i32": "sitofp", "i64": "sitofp"}
_SAME = frozenset({"copy", "stop_gradient"})
_TYPES = {"float32": "float", "float64": "double", "bool": "i1", "int32": "i32", "int64": "i64"}
_SUFFIX = {"float": "f32", "double": "f64"}


class Unknown(Exception):
    """What there is no instruction for."""


class Lines:
    """Instructions, whose results are named by a letter and a number."""

    def __init__(self, letter: str) -> None:
        self.letter = letter
        self.lines: list[str] = []
        self.count = 0

    def add(self, instruction: str) -> str:
        self.count += 1
        name = f"%{self.letter}{self.count}"
        self.lines.append(f"{name} = {instruction}")
        return name

    def __str__(self) -> str:
        return "\n".join(f"  {line}" for line in self.lines)


def evaluate(lines: Lines, jaxpr: Jaxpr, consts: Iterable[Any], values: Sequence[str]) -> list[str]:
    """Add the instructions for a jaxpr of 0-dim values; returns the names of its results.

    A product and the sum that it is the first term of, and nothing else, become one multiply-add.
    """
    env = dict(zip(jaxpr.invars, values, strict=True))
    env.update((var, constant(c, type_of(var.aval))) for var, c in zip(jaxpr.constvars, consts, strict=True))

    def name(x: Any) -> str:
        return constant(x.val, type_of(x.aval)) if isinstance(x, Literal) else env[x]

    products: dict[Any, tuple[str, str]] = {}
    uses = Counter(x for eqn in jaxpr.eqns for x in eqn.invars if not isinstance(x, Literal))
    uses.update(x for x in jaxpr.outvars if not isinstance(x, Literal))
    for eqn in jaxpr.eqns:
        operands = list(map(name, eqn.invars))
        inner = eqn.params.get("jaxpr")
        if inner is not None:
            env.update(zip(eqn.outvars, evaluate(lines, inner.jaxpr, inner.consts, operands), strict=True))
            continue
        kinds = [type_of(x.aval) for x in (*eqn.invars, *eqn.outvars)]
        primitive, result = eqn.primitive.name, eqn.outvars[0]
        first = eqn.invars[0]
        if (
            primitive == "add" and not isinstance(first, Literal) and first in products
        ):  # one multiply-add, rounded once, where the processor has it
            primitive, operands, kinds = "fmuladd", [*products[first], operands[1]], [*kinds, kinds[-1]]
        env[result] = instruction(lines, primitive, operands, kinds)
        if primitive == "mul" and uses[result] == 1:
            products[result] = (operands[0], operands[1])
    return list(map(name, jaxpr.outvars))


def instruction(lines: Lines, primitive: str, operands: Sequence[str], kinds: Sequence[str]) -> str:
    """Add the instruction for a primitive of JAX's; ``kinds`` are the operands' types and the result's."""
    kind, made = kinds[0], kinds[-1]
    both = ", ".join(operands)
    if made in _SUFFIX and primitive in _ARITHMETIC:
        return lines.add(f"{_ARITHMETIC[primitive]} {made} {both}")
    if made in _SUFFIX and primitive in _INTRINSICS:
        typed = ", ".join(f"{made} {x}" for x in operands)
        return lines.add(f"call {made} @llvm.{_INTRINSICS[primitive]}.{_SUFFIX[made]}({typed})")
    if made in _SUFFIX and primitive == "rsqrt":
        return instruction(
            lines, "div", [constant(1, made), instruction(lines, "sqrt", operands, kinds)], kinds
        )
    if made in _SUFFIX and primitive == "neg":
        return lines.add(f"fneg {made} {both}")
    if kind in _SUFFIX and primitive in _COMPARISONS:
        return lines.add(f"fcmp {_COMPARISONS[primitive]} {kind} {both}")
    if primitive == "select_n" and kind == "i1" and len(operands) == 3:
        which, if_false, if_true = operands
        return lines.add(f"select i1 {which}, {made} {if_true}, {made} {if_false}")
    if primitive in _SAME or (primitive == "convert_element_type" and kind == made):
        return operands[0]
    if primitive == "convert_element_type" and made in _SUFFIX:
        how = _CONVERSIONS.get(kind) or ("fpext" if made == "double" else "fptrunc")
        return lines.add(f"{how} {kind} {both} to {made}")
    raise Unknown(primitive)


def type_of(aval: Any) -> str:
    """LLVM's type of a 0-dim value."""
    if aval.shape:
        raise Unknown(aval)
    return element_type(aval)


def element_type(aval: Any) -> str:
    """LLVM's type of an array's elements."""
    kind = _TYPES.get(aval.dtype.name)
    if kind is None:
        raise Unknown(aval)
    return kind


def float_type(aval: Any) -> str:
    """LLVM's type of an array's elements, which are floats."""
    kind = element_type(aval)
    if kind not in _SUFFIX:
        raise Unknown(aval)
    return kind


def constant(value: Any, kind: str) -> str:
    """A number of that type."""
    if kind not in _SUFFIX:
        return str(int(value))
    number = float(np.float32(value)) if kind == "float" else float(value)
    return f"0x{struct.pack('>d', number).hex().upper()}"  # LLVM writes a float with the digits of the double
