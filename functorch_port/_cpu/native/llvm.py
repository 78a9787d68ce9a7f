"""Operations for each element, jaxprs of 0-dim values, and functions of numpy's, in LLVM's language."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn

from ..._base.jaxprs import inlined, uses, walk
from ..elements import ELEMENTS

__all__ = [
    "Lines", "Unknown", "Value", "constant", "element", "element_type", "evaluate", "float_type", "from_ordered",
    "number", "ordered", "vectors", "whole",
]  # fmt: skip

_LOGICAL = frozenset({"and", "or", "xor"})
_CONVERSIONS = {"i1": "uitofp", "i32": "sitofp", "i64": "sitofp"}
_SAME = frozenset({"broadcast_in_dim", "copy", "stop_gradient"})
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


def evaluate(lines: Lines, closed: ClosedJaxpr, values: Sequence[str]) -> list[str]:
    """Add the instructions for a jaxpr of 0-dim values; returns the names of its results.

    A product and the sum that it is the first term of, and nothing else, become one multiply-add.
    """
    jaxpr = inlined(closed.jaxpr)
    used = uses(jaxpr)
    products: dict[int, list[str]] = {}

    def rule(eqn: JaxprEqn, operands: list[str]) -> list[str]:
        name = eqn.primitive.name
        if name == "add" and (product := products.get(id(eqn.invars[0]))):
            # rounded once, where the processor has it
            return [_call(lines, "fmuladd", *product, operands[1], kind=element_type(eqn.outvars[0].aval))]
        if name == "mul" and used[eqn.outvars[0]] == 1:
            products[id(eqn.outvars[0])] = operands
        return [element(lines, eqn, operands)]

    held = map(number, closed.consts, [v.aval for v in jaxpr.constvars])
    return walk(jaxpr, (*held, *values), rule, number)


def element(lines: Lines, eqn: JaxprEqn, operands: Sequence[str]) -> str:
    """Add the instructions for an element of an operation's result, from those of its operands."""
    kinds = [element_type(x.aval) for x in (*eqn.invars, *eqn.outvars)]
    return instruction(lines, eqn.primitive.name, operands, kinds)


def instruction(lines: Lines, primitive: str, operands: Sequence[str], kinds: Sequence[str]) -> str:
    """Add the instructions for a primitive of JAX's; ``kinds`` are the operands' types and the result's."""
    kind, made = kinds[0], kinds[-1]
    name = ELEMENTS[primitive].llvm if primitive in ELEMENTS else None
    if name and (kind == "i1" if name in _LOGICAL else kind in _SUFFIX):
        if name[0] == "@":
            return _call(lines, name[1:], *operands, kind=kind)
        return lines.add(f"{name} {kind} {', '.join(operands)}")
    if kind == "float" and primitive in _FUNCTIONS:
        return _FUNCTIONS[primitive](lines, operands[0])
    if kind in _SUFFIX and primitive in ("square", "one_minus_square"):
        square = lines.add(f"fmul {kind} {operands[0]}, {operands[0]}")
        return square if primitive == "square" else lines.add(f"fsub {kind} {constant(1, kind)}, {square}")
    if kind in _SUFFIX and primitive == "rsqrt":
        return lines.add(f"fdiv {kind} {constant(1, kind)}, {_call(lines, 'sqrt', *operands, kind=kind)}")
    if primitive == "select_n" and kind == "i1" and len(operands) == 3:
        which, if_false, if_true = operands
        return lines.add(f"select i1 {which}, {made} {if_true}, {made} {if_false}")
    if primitive in _SAME or (primitive == "convert_element_type" and kind == made):
        return operands[0]
    if primitive == "convert_element_type" and made in _SUFFIX:
        how = _CONVERSIONS.get(kind) or ("fpext" if made == "double" else "fptrunc")
        return lines.add(f"{how} {kind} {operands[0]} to {made}")
    raise Unknown(primitive)


#: tanh(x) / x as a quotient of polynomials of the square of x, highest power first: XLA's and Eigen's for float32
_TANH_ABOVE = (
    -2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08, 1.48572235717979e-05,
    6.37261928875436e-04, 4.89352455891786e-03,
)  # fmt: skip
_TANH_BELOW = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)
#: below what tanh is x, and above what it is 1, in float32
_TANH_ENDS = (0.0004, 7.90531110763549805)


def _tanh(lines: Lines, x: str) -> str:
    """Add the instructions for the hyperbolic tangent of a float, with an error of some units in the last place."""

    square = lines.add(f"fmul float {x}, {x}")
    above = lines.add(f"fmul float {x}, {_polynomial(lines, _TANH_ABOVE, square)}")
    quotient = lines.add(f"fdiv float {above}, {_polynomial(lines, _TANH_BELOW, square)}")
    size = _call(lines, "fabs", x)
    for comparison, bound, value in (
        ("olt", _TANH_ENDS[0], x),
        ("ogt", _TANH_ENDS[1], _call(lines, "copysign", constant(1, "float"), x)),
    ):
        there = lines.add(f"fcmp {comparison} float {size}, {constant(bound, 'float')}")
        quotient = lines.add(f"select i1 {there}, float {value}, float {quotient}")
    return quotient  # a NaN is none of those


#: (exp(r) - 1 - r) / r^2 for r within half of log(2), highest power first, fitted to 3e-9 of exp(r)
_EXP = (0.00138143, 0.00836885, 0.0416684, 0.1666652, 0.49999993)
#: log(2) in two parts, the first one of so few bits that its multiples up to 256 are exact
_LOG2 = (0.693359375, -2.12194440054690583e-4)
#: below what exp(x) is 0, and above what it is infinite, in float32
_EXP_ENDS = (-104.0, 89.0)
#: added to a float it leaves the nearest whole number in the last bits
_SHIFTS = 12582912.0


def _exp(lines: Lines, x: str) -> str:
    """Add the instructions for the exponential function of a float, with an error of one unit in the last place."""
    low, high = (constant(end, "float") for end in _EXP_ENDS)
    for comparison, end in (("olt", low), ("ogt", high)):  # false for a NaN, which stays
        beyond = lines.add(f"fcmp {comparison} float {x}, {end}")
        x = lines.add(f"select i1 {beyond}, float {end}, float {x}")
    shifts = constant(_SHIFTS, "float")
    shifted = _call(lines, "fmuladd", x, constant(1 / np.log(2), "float"), shifts)
    times = lines.add(f"fsub float {shifted}, {shifts}")
    less = lines.add(f"fneg float {times}")
    rest = x
    for part in _LOG2:
        rest = _call(lines, "fmuladd", less, constant(part, "float"), rest)
    square = lines.add(f"fmul float {rest}, {rest}")
    result = _call(lines, "fmuladd", _polynomial(lines, _EXP, rest), square, rest)
    result = lines.add(f"fadd float {result}, {constant(1, 'float')}")
    bits = lines.add(f"bitcast float {shifted} to i32")
    both = lines.add(f"sub i32 {bits}, {_bits(_SHIFTS) - 2 * 127}")
    half = lines.add(f"ashr i32 {both}, 1")
    for biased in (half, lines.add(f"sub i32 {both}, {half}")):  # in two steps, as 2^-150 is no float
        exponent = lines.add(f"shl i32 {biased}, 23")
        factor = lines.add(f"bitcast i32 {exponent} to float")
        result = lines.add(f"fmul float {result}, {factor}")
    return result


def _logistic(lines: Lines, x: str) -> str:
    """Add the instructions for ``1 / (1 + exp(-x))``."""
    one = constant(1, "float")
    power = _exp(lines, lines.add(f"fneg float {x}"))
    return lines.add(f"fdiv float {one}, {lines.add(f'fadd float {one}, {power}')}")


_FUNCTIONS = {"exp": _exp, "logistic": _logistic, "tanh": _tanh}


def _bits(value: float) -> int:
    return int(np.float32(value).view(np.int32))


def _call(lines: Lines, name: str, *values: str, kind: str = "float") -> str:
    return lines.add(f"call {kind} @llvm.{name}.{_SUFFIX[kind]}({', '.join(f'{kind} {v}' for v in values)})")


def _polynomial(lines: Lines, coefficients: Sequence[float], at: str) -> str:
    first, *rest = [constant(c, "float") for c in coefficients]
    for c in rest:
        first = _call(lines, "fmuladd", first, at, c)
    return first


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


def number(value: Any, aval: Any) -> str:
    """A number of a jaxpr."""
    return constant(value, element_type(aval))


def constant(value: Any, kind: str) -> str:
    """A number of that type."""
    if kind not in _SUFFIX:
        return str(int(value))
    number = float(np.float32(value)) if kind == "float" else float(value)
    return f"0x{struct.pack('>d', number).hex().upper()}"  # LLVM writes a float with the digits of the double


def vectors(width: int) -> str:
    """The definition of ``!0``, for a branch back to the start of a loop that is to be taken so many times at once:
    it is not unrolled before there are vectors, or there would be none.
    """
    return f"""!0 = distinct !{{!0, !1, !2}}
!1 = !{{!"llvm.loop.unroll.disable"}}
!2 = !{{!"llvm.loop.vectorize.width", i32 {width}}}"""


# ------------------------------------------------------------ floats as whole numbers in their order

_WHOLE = {"float": "i32", "double": "i64"}


def whole(kind: str) -> str:
    """The type of whole numbers of a float's size."""
    return _WHOLE[kind]


def ordered(lines: Lines, value: str, kind: str) -> str:
    """A whole number for a float, in the order of the floats; a NaN's is the largest one."""
    made = whole(kind)
    number = _turned(lines, lines.add(f"bitcast {kind} {value} to {made}"), made)
    is_nan = lines.add(f"fcmp uno {kind} {value}, {value}")
    return lines.add(f"select i1 {is_nan}, {made} {_most(made)}, {made} {number}")


def from_ordered(lines: Lines, number: str, kind: str) -> str:
    """The float that `ordered` has made a number of."""
    made = whole(kind)
    return lines.add(f"bitcast {made} {_turned(lines, number, made)} to {kind}")


def _turned(lines: Lines, number: str, made: str) -> str:
    """Negative floats are larger the smaller their bits are: turn all but their sign, there and back."""
    sign = lines.add(f"ashr {made} {number}, {int(made[1:]) - 1}")
    turns = lines.add(f"and {made} {sign}, {_most(made)}")
    return lines.add(f"xor {made} {number}, {turns}")


def _most(made: str) -> int:
    return (1 << int(made[1:]) - 1) - 1


# ------------------------------------------------------------------------ functions of numpy's

#: numpy's functions -> jaxpr primitives, of floats
_OF_FLOATS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "negative": "neg", "maximum": "max", "sqrt": "sqrt",
    "less": "lt",
}  # fmt: skip
#: numpy's functions -> LLVM's instruction for integers with a sign, or for which that makes no difference
_OF_INTEGERS = {
    "add": "add", "subtract": "sub", "bitwise_and": "and", "bitwise_or": "or", "right_shift": "ashr",
    "not_equal": "icmp ne",
}  # fmt: skip


class Value(np.lib.mixins.NDArrayOperatorsMixin):
    """One number of a formula that is written with numpy's operators and functions: they add its instructions.

    Reference: NEP 13 and NEP 18, numpy's protocols for other arrays than its own.
    """

    def __init__(self, lines: Lines, name: str, dtype: Any) -> None:
        self.lines, self.name, self.dtype = lines, name, np.dtype(dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            return NotImplemented
        dtype = np.result_type(*(x.dtype if isinstance(x, Value) else x for x in operands))
        kind, name = _kind(dtype), ufunc.__name__
        result = np.dtype(bool) if name in ("less", "not_equal") else dtype
        given = [self._operand(x, dtype) for x in operands]
        if kind in _SUFFIX and name in _OF_FLOATS:
            kinds = [kind] * len(given) + [_kind(result)]
            return Value(self.lines, instruction(self.lines, _OF_FLOATS[name], given, kinds), result)
        if kind not in _SUFFIX and name in _OF_INTEGERS and (name, dtype.kind) != ("right_shift", "u"):
            return self._made(f"{_OF_INTEGERS[name]} {kind} {', '.join(given)}", result)
        return NotImplemented

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is not np.where or kwargs or len(args) != 3:
            return NotImplemented
        condition, *both = args
        dtype = np.result_type(*(x.dtype if isinstance(x, Value) else x for x in both))
        if_true, if_false = (self._operand(x, dtype) for x in both)
        given = [self._operand(condition, np.dtype(bool)), if_false, if_true]
        return Value(
            self.lines, instruction(self.lines, "select_n", given, ["i1", *[_kind(dtype)] * 3]), dtype
        )

    def astype(self, dtype: Any) -> Value:
        """The number as another type: a float, or an integer that a float is cut off to."""
        to = np.dtype(dtype)
        kinds = [_kind(self.dtype), _kind(to)]
        if to == self.dtype:
            return self
        if to.kind == "f" and self.dtype.kind != "u":
            return Value(self.lines, instruction(self.lines, "convert_element_type", [self.name], kinds), to)
        if to.kind == "i" and self.dtype.kind == "f":
            return self._made(f"fptosi {kinds[0]} {self.name} to {kinds[1]}", to)
        raise Unknown(f"{self.dtype} to {to}")

    def view(self, dtype: Any) -> Value:
        """The same bits as another type of that size."""
        return self._made(f"bitcast {_kind(self.dtype)} {self.name} to {_kind(np.dtype(dtype))}", dtype)

    def fma(self, factor: Any, summand: Any) -> Value:
        """``self * factor + summand``, rounded once."""
        kind = _kind(self.dtype)
        given = [self._operand(x, self.dtype) for x in (self, factor, summand)]
        return Value(self.lines, _call(self.lines, "fma", *given, kind=kind), self.dtype)

    def _made(self, instruction: str, dtype: Any) -> Value:
        return Value(self.lines, self.lines.add(instruction), dtype)

    def _operand(self, x: Any, dtype: np.dtype[Any]) -> str:
        return x.astype(dtype).name if isinstance(x, Value) else constant(x, _kind(dtype))


def _kind(dtype: np.dtype[Any]) -> str:
    name = dtype.name.removeprefix("u")
    if name not in _TYPES:
        raise Unknown(dtype)
    return _TYPES[name]
