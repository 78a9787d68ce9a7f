"""Conversions, and operations for each element that numpy does not have under one name for all types."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ..._base import sizes
from .values import LOW, Unsupported, Value

if TYPE_CHECKING:
    from .writer import Writer

__all__ = ["ARITHMETIC_RULES"]

_FLOAT32 = np.dtype(np.float32)


# ------------------------------------------------------------------ conversions


def _convert(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    return w.converted(ins[0], eqn.outvars[0].aval)


def _bits(x: Any, dtype: np.dtype, shape: tuple[int, ...]) -> Any:
    return np.ascontiguousarray(x).reshape(-1).view(dtype).reshape(shape)


def _bitcast(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    x, aval = ins[0], eqn.outvars[0].aval
    if np.bool_ in (x.aval.dtype, aval.dtype):
        raise Unsupported("bits of bool")
    if x.aval.dtype.itemsize == aval.dtype.itemsize and not x.aval.weak_type:
        text = f"{w._array(x)}.view({w._dtype(aval.dtype)})"
        return w._emit(text, aval, x.shape, [x], 0.3)
    x = w._whole(x)
    text = f"{w._named(_bits)}({w._array(x)}, {w._dtype(aval.dtype)}, {sizes.text(tuple(aval.shape))})"
    return w._emit(text, aval, aval.shape, [x], 1.5)


def _reduced_precision(x: Any, dtype: np.dtype) -> Any:
    x = np.asarray(x)
    return x.astype(dtype).astype(x.dtype)


def _fewer_bits(x: Any, dropped: int) -> Any:
    """Rounded to a number without its last bits, the even one of two that are as near."""
    x = np.asarray(x)
    word = np.dtype(f"u{x.dtype.itemsize}").type
    bits, one = x.view(word), word(1)
    half = (one << word(dropped - 1)) - one + (bits >> word(dropped) & one)
    return np.where(x == x, (bits + half >> word(dropped) << word(dropped)).view(x.dtype), x)


def _reduce_precision(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    x, aval = ins[0], eqn.outvars[0].aval
    bits = eqn.params["exponent_bits"], eqn.params["mantissa_bits"]
    kind = next((d for d in (*LOW, _FLOAT32, np.dtype(np.float64)) if _form(d) == bits), None)
    if aval.dtype.kind != "f":
        raise Unsupported("reduce_precision")
    if kind is None:
        exponent, mantissa = _form(aval.dtype)
        if exponent != bits[0] or not 0 < bits[1] < mantissa:
            raise Unsupported("reduce_precision")
        text = f"{w._named(_fewer_bits)}({w._array(x)}, {mantissa - bits[1]})"
        return w._emit(text, aval, x.shape, [x], 8.0, (x.shape, 3e-3))
    if kind.itemsize >= aval.dtype.itemsize:
        return x
    text = f"{w._named(_reduced_precision)}({w._array(x)}, {w._dtype(kind)})"
    return w._emit(text, aval, x.shape, [x], 1.5, (x.shape, 3e-3))


def _form(dtype: np.dtype) -> tuple[int, int]:
    """Bits of the exponent and of the mantissa."""
    info = ml_dtypes.finfo(dtype)
    return dtype.itemsize * 8 - 1 - info.nmant, info.nmant


# ------------------------------------------------------------------ integers


def _quotient(a: Any, b: Any) -> Any:
    """Rounded toward zero. Of a division by zero all bits are ones."""
    none = b == 0
    by = np.where(none, a.dtype.type(1), b)
    found = np.floor_divide(a, by)
    found = found + ((found * by != a) & ((a < 0) != (by < 0)))
    return np.where(none, a.dtype.type(0) - a.dtype.type(1), found).astype(a.dtype)[()]


def _remainder(a: Any, b: Any) -> Any:
    """That of `_quotient`; of a division by zero it is what is divided."""
    return np.where(b == 0, a, np.fmod(a, np.where(b == 0, a.dtype.type(1), b)))[()]


def _unsigned(x: Any) -> Any:
    return x.view(f"u{x.dtype.itemsize}")


def _shifted_right(a: Any, b: Any) -> Any:
    return (_unsigned(a) >> _unsigned(b)).view(a.dtype)


def _ones(x: Any) -> Any:
    return np.bitwise_count(_unsigned(x)).astype(x.dtype)


def _leading_zeros(x: Any) -> Any:
    filled, shift = _unsigned(x), 1
    while shift < x.dtype.itemsize * 8:
        filled = filled | (filled >> filled.dtype.type(shift))
        shift *= 2
    return (8 * x.dtype.itemsize - np.bitwise_count(filled)).astype(x.dtype)


# ------------------------------------------------------------------ other numbers


def _complex(real: Any, imaginary: Any) -> Any:
    out = np.empty(
        np.broadcast_shapes(np.shape(real), np.shape(imaginary)), np.result_type(real, np.complex64)
    )
    out.real, out.imag = real, imaginary
    return out[()]


def _part(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    """The real or the imaginary part, which is a look at the number."""
    (x,), aval = ins, eqn.outvars[0].aval
    return w._emit(f"{w._array(x)}.{eqn.primitive.name}", aval, x.shape, [x], 0.2)


def _to_nearest(x: Any) -> Any:
    """Halves are rounded away from zero."""
    whole = np.trunc(x)
    return whole + np.copysign((np.absolute(x - whole) >= 0.5).astype(x.dtype), x)


def _power(x: Any, *, y: int) -> Any:
    result, n = None, abs(y)
    while n:
        if n & 1:
            result = x if result is None else result * x
        n >>= 1
        x = x * x if n else x
    return 1 / result if y < 0 else result  # type: ignore[operator]


def _integer_power(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    (x,), y, aval = ins, eqn.params["y"], eqn.outvars[0].aval
    if y == 0:
        return w._constant(1, aval.update(shape=())).like(aval)
    if y < 0 and aval.dtype.kind in "iu":
        raise Unsupported("integer_pow")
    if y == 2:
        text = f"np.square({x.text})"
    elif y == 3:
        text = f"np.multiply(np.square({x.text}), {x.text})"
    elif y == -1:
        text = f"np.divide(1.0, {x.text})"
    elif y == -2:
        text = f"np.divide(1.0, np.square({x.text}))"
    else:
        text = f"{w._named(_power)}({w._array(x)}, y={y})"
    return w._emit(text, aval, x.shape, [x], 1.8, (x.shape, 3e-4 * abs(y).bit_length()))


def _polygamma(order: Any, x: Any) -> Any:
    from scipy import special

    m, y = np.asarray(order, np.float64), np.asarray(x, np.float64)
    sign = np.where(m % 2 == 0, -1.0, 1.0)
    high = sign * special.gamma(m + 1) * special.zeta(m + 1, y)
    return np.where(m == 0, special.psi(y), high).astype(x.dtype)[()]


def _lgamma(x: Any) -> Any:
    from scipy import special

    return special.gammaln(np.where(x == -np.inf, np.inf, x).astype(x.dtype))


def _special(name: str) -> Callable[..., Any]:
    """A function of `scipy.special`."""

    def rule(w: Writer, eqn: Any, ins: list[Value]) -> Value:
        from scipy import special

        return _by(getattr(special, name), "f", 0.05)(w, eqn, ins)

    return rule


def _by(fn: Callable[..., Any], kinds: str, each: float = 3e-3) -> Callable[..., Any]:
    """The rule of a function of numpy arrays or scalars, which it takes element by element."""

    def rule(w: Writer, eqn: Any, ins: list[Value]) -> Value:
        aval = eqn.outvars[0].aval
        if any(v.aval.dtype.kind not in kinds for v in ins):
            raise Unsupported(eqn.primitive.name)
        shape = sizes.broadcast(*[v.shape for v in ins])
        arrays = [v if not v.aval.weak_type else w.converted(v, v.aval) for v in ins]
        text = f"{w._named(fn)}({', '.join(map(w._array, arrays))})"
        return w._emit(text, aval, shape, arrays, 4.0, (shape, each))

    return rule


def _horner(x: Any, *coefficients: Any) -> Any:
    *lower, result = coefficients
    for factor in reversed(lower):
        result = result * x + factor
    return result


def _round(w: Writer, eqn: Any, ins: list[Value]) -> Value:
    if int(eqn.params["rounding_method"]) == 1:
        return w._emit(f"np.rint({ins[0].text})", eqn.outvars[0].aval, ins[0].shape, ins, 0.9)
    return _by(_to_nearest, "f")(w, eqn, ins)


ARITHMETIC_RULES: dict[str, Callable[..., Any]] = {
    "bessel_i0e": _special("i0e"),
    "bessel_i1e": _special("i1e"),
    "bitcast_convert_type": _bitcast,
    "clz": _by(_leading_zeros, "iu"),
    "complex": _by(_complex, "f"),
    "convert_element_type": _convert,
    "digamma": _special("psi"),
    "div": _by(_quotient, "iu", 0.01),
    "igamma": _special("gammainc"),
    "igammac": _special("gammaincc"),
    "imag": _part,
    "integer_pow": _integer_power,
    "lgamma": _by(_lgamma, "f", 0.05),
    "polynomial": _by(_horner, "f"),
    "polygamma": _by(_polygamma, "f", 0.1),
    "population_count": _by(_ones, "iu"),
    "real": _part,
    "reduce_precision": _reduce_precision,
    "regularized_incomplete_beta": _special("betainc"),
    "rem": _by(_remainder, "iu", 0.01),
    "round": _round,
    "shift_right_logical": _by(_shifted_right, "iu"),
    "zeta": _special("zeta"),
}
