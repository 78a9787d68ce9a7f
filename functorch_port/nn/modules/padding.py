"""Padding layers."""

from __future__ import annotations

from typing import Any

from ..._tensor.tensor import Tensor
from .. import functional as F
from .._conversion import ntuple
from .._module import Module

__all__ = [
    f"{_kind}Pad{_n}d"
    for _kind in ("Zero", "Constant", "Reflection", "Replication", "Circular")
    for _n in (1, 2, 3)
]


class _PadNd(Module):
    """The base of the padding layers."""

    __constants__ = ["padding"]
    _dimensions: int
    _mode: str

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = ntuple(padding, 2 * self._dimensions)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPadNd(_PadNd):
    """The base of the circular padding layers."""

    def _check_input_dim(self, input: Tensor) -> None:
        n = self._dimensions + 1
        if input.dim() not in (n, n + 1):
            raise ValueError(f"expected {n}D or {n + 1}D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return super().forward(input)


class _ConstantPadNd(_PadNd):
    """The base of the constant padding layers."""

    __constants__ = ["padding", "value"]

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPadNd(_ConstantPadNd):
    """The base of the zero padding layers."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


_WORDS = {
    "Constant": "a constant",
    "Zero": "zeros",
    "Reflection": "the elements next to the edge, in reverse order",
    "Replication": "copies of the element at the edge",
    "Circular": "the elements at the other end of the dimension",
}
_DOC = """Pad the last {n} dimension(s) with {words}.

    Args:
        padding: a number for all sides, or (low, high) for each of these dimensions, the last dimension first.{value}

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.{name}.html
    """


def _layer(name: str, base: type[_PadNd], mode: str, n: int) -> type[_PadNd]:
    value = "\n        value: the constant." if base is _ConstantPadNd else ""
    doc = _DOC.format(n=n, words=_WORDS[name.split("Pad")[0]], value=value, name=name)
    fields = {"_dimensions": n, "_mode": mode, "__doc__": doc, "__module__": __name__, "__qualname__": name}
    return type(name, (base,), fields)


ConstantPad1d, ConstantPad2d, ConstantPad3d = (
    _layer(f"ConstantPad{n}d", _ConstantPadNd, "constant", n) for n in (1, 2, 3)
)
ZeroPad1d, ZeroPad2d, ZeroPad3d = (_layer(f"ZeroPad{n}d", _ZeroPadNd, "constant", n) for n in (1, 2, 3))
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = (
    _layer(f"ReflectionPad{n}d", _PadNd, "reflect", n) for n in (1, 2, 3)
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = (
    _layer(f"ReplicationPad{n}d", _PadNd, "replicate", n) for n in (1, 2, 3)
)
CircularPad1d, CircularPad2d, CircularPad3d = (
    _layer(f"CircularPad{n}d", _CircularPadNd, "circular", n) for n in (1, 2, 3)
)
