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
    "abs": Element("np.absolute({})", "if", "@fabs"),
    "acos": Element("np.arccos({})", "f"),
    "acosh": Element("np.arccosh({})", "f"),
    "add": Element("{} + {}", "iuf", "fadd"),
    "add_any": Element("{} + {}", "iuf", "fadd"),
    "and": Element("{} & {}", llvm="and"),
    "asin": Element("np.arcsin({})", "f"),
    "asinh": Element("np.arcsinh({})", "f"),
    "atan": Element("np.arctan({})", "f"),
    "atan2": Element("np.arctan2({}, {})", "f"),
    "atanh": Element("np.arctanh({})", "f"),
    "cbrt": Element("np.cbrt({})", "f"),
    "ceil": Element("np.ceil({})", "f"),
    "clamp": Element("np.minimum(np.maximum({1}, {0}), {2})"),
    "cos": Element("np.cos({})", "f"),
    "cosh": Element("np.cosh({})", "f"),
    "div": Element("{} / {}", "f", "fdiv"),
    "divide": Element("{} / {}", "f", "fdiv"),
    "eq": Element("{} == {}", llvm="fcmp oeq"),
    "exp": Element("np.exp({})", "f"),
    "exp2": Element("np.exp2({})", "f"),
    "expm1": Element("np.expm1({})", "f"),
    "floor": Element("np.floor({})", "f"),
    "ge": Element("{} >= {}", llvm="fcmp oge"),
    "gt": Element("{} > {}", llvm="fcmp ogt"),
    "is_finite": Element("np.isfinite({})", "f"),
    "le": Element("{} <= {}", llvm="fcmp ole"),
    "log": Element("np.log({})", "f", "@log"),
    "log1p": Element("np.log1p({})", "f"),
    "logistic": Element("1.0 / (1.0 + np.exp(-{}))", "f"),
    "lt": Element("{} < {}", llvm="fcmp olt"),
    "max": Element("np.maximum({}, {})", llvm="@maximum"),
    "min": Element("np.minimum({}, {})", llvm="@minimum"),
    "mul": Element("{} * {}", "iuf", "fmul"),
    "ne": Element("{} != {}", llvm="fcmp une"),  # the one comparison that is true beside a NaN
    "neg": Element("-{}", "if", "fneg"),
    "not": Element("np.logical_not({})", "b"),
    "or": Element("{} | {}", llvm="or"),
    "pow": Element("np.power({}, {})", "f"),
    "rem": Element("np.fmod({}, {})", "f"),
    "rsqrt": Element("1.0 / np.sqrt({})", "f"),
    "sign": Element("np.sign({})", "if"),
    "sin": Element("np.sin({})", "f"),
    "sinh": Element("np.sinh({})", "f"),
    "sqrt": Element("np.sqrt({})", "f", "@sqrt"),
    "square": Element("np.square({})"),
    "sub": Element("{} - {}", "iuf", "fsub"),
    "tan": Element("np.tan({})", "f"),
    "tanh": Element("np.tanh({})", "f"),
    "xor": Element("{} ^ {}", llvm="xor"),
}
