"""Operations for each element of arrays: JAX's names, and what these are in numpy and in LLVM's language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["ELEMENTS"]


class Element(NamedTuple):
    """
    Attributes:
        numpy: an expression of the operands' texts.
        kinds: of dtypes for which numpy and XLA mean the same.
        llvm: the instruction, of floats if it is one of theirs; an intrinsic function has an ``@``; None if there is
            none, or more than one.
    """

    numpy: str
    kinds: str = "biuf"
    llvm: str | None = None

    def into(self, operands: Sequence[str], out: str) -> str | None:
        """The expression that writes to an array ``out``; None if there is none."""
        ufunc = _UFUNCS.get(self.numpy)
        if ufunc is None and self.numpy.startswith("np.") and self.numpy.count("(") == 1:
            ufunc = self.numpy.partition("(")[0]
        return ufunc and f"{ufunc}({', '.join(operands)}, out={out})"


#: operators as functions
_UFUNCS = {
    "{} + {}": "np.add", "{} - {}": "np.subtract", "{} * {}": "np.multiply", "{} / {}": "np.divide",
    "-{}": "np.negative", "{} & {}": "np.bitwise_and", "{} | {}": "np.bitwise_or", "{} ^ {}": "np.bitwise_xor",
}  # fmt: skip


#: operators are the same ufuncs for arrays, and much faster for numpy's scalars
ELEMENTS = {
    "abs": Element("np.absolute({})", "iufc", "@fabs"),
    "acos": Element("np.arccos({})", "fc"),
    "acosh": Element("np.arccosh({})", "fc"),
    "add": Element("{} + {}", "iufc", "fadd"),
    "add_any": Element("{} + {}", "iufc", "fadd"),
    "and": Element("{} & {}", llvm="and"),
    "asin": Element("np.arcsin({})", "fc"),
    "asinh": Element("np.arcsinh({})", "fc"),
    "atan": Element("np.arctan({})", "fc"),
    "atan2": Element("np.arctan2({}, {})", "f"),
    "atanh": Element("np.arctanh({})", "fc"),
    "cbrt": Element("np.cbrt({})", "f"),
    "ceil": Element("np.ceil({})", "f"),
    "clamp": Element("np.minimum(np.maximum({1}, {0}), {2})"),
    "conj": Element("np.conjugate({})", "c"),
    "cos": Element("np.cos({})", "fc"),
    "cosh": Element("np.cosh({})", "fc"),
    "div": Element("{} / {}", "fc", "fdiv"),
    "divide": Element("{} / {}", "fc", "fdiv"),
    "eq": Element("{} == {}", "biufc", llvm="fcmp oeq"),
    "exp": Element("np.exp({})", "fc"),
    "exp2": Element("np.exp2({})", "f"),
    "expm1": Element("np.expm1({})", "fc"),
    "floor": Element("np.floor({})", "f"),
    "ge": Element("{} >= {}", llvm="fcmp oge"),
    "gt": Element("{} > {}", llvm="fcmp ogt"),
    "is_finite": Element("np.isfinite({})", "f"),
    "le": Element("{} <= {}", llvm="fcmp ole"),
    "log": Element("np.log({})", "fc", "@log"),
    "log2": Element("np.log2({})", "fc"),
    "log1p": Element("np.log1p({})", "fc"),
    "logistic": Element("1.0 / (1.0 + np.exp(-{}))", "fc"),
    "lt": Element("{} < {}", llvm="fcmp olt"),
    "max": Element("np.maximum({}, {})", llvm="@maximum"),
    "min": Element("np.minimum({}, {})", llvm="@minimum"),
    "mul": Element("{} * {}", "iufc", "fmul"),
    "ne": Element("{} != {}", "biufc", llvm="fcmp une"),  # the one comparison that is true beside a NaN
    "neg": Element("-{}", "iufc", "fneg"),
    "nextafter": Element("np.nextafter({}, {})", "f"),
    "not": Element("np.invert({})", "biu"),
    "one_minus_square": Element("1.0 - np.square({})", "fc"),
    "or": Element("{} | {}", llvm="or"),
    "pow": Element("np.power({}, {})", "fc"),
    "rem": Element("np.fmod({}, {})", "f"),
    "rsqrt": Element("1.0 / np.sqrt({})", "fc"),
    "shift_left": Element("{} << {}", "iu"),
    "shift_right_arithmetic": Element("{} >> {}", "i"),
    "sign": Element("np.sign({})", "iufc"),
    "sin": Element("np.sin({})", "fc"),
    "sinh": Element("np.sinh({})", "fc"),
    "sqrt": Element("np.sqrt({})", "fc", "@sqrt"),
    "square": Element("np.square({})", "iufc"),
    "sub": Element("{} - {}", "iufc", "fsub"),
    "tan": Element("np.tan({})", "fc"),
    "tanh": Element("np.tanh({})", "fc"),
    "xor": Element("{} ^ {}", llvm="xor"),
}
