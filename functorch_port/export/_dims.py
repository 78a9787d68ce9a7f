"""Sizes that change from call to call, as `export` takes them: `Dim`, its hints, and expressions such as ``2 * batch``.

Reference: https://docs.pytorch.org/docs/stable/export.html#torch.export.Dim
"""

from __future__ import annotations

from typing import Any, ClassVar

from ._signature import size_text

__all__ = ["Dim", "DimHint", "dims", "is_dim"]

_ONLY = "(Only increasing linear operations with integer coefficients are supported.)"


class DimHint:
    """What to do with a size that has no name: ``AUTO``, ``DYNAMIC`` or ``STATIC``; called with a range, it has that.

    Args:
        kind: the name.
        min, max: the range of the size; None: not said.
    """

    def __init__(self, kind: str, min: int | None = None, max: int | None = None) -> None:
        self.kind, self.min, self.max = kind, min, max

    def __call__(self, min: int | None = None, max: int | None = None) -> DimHint:
        for what, bound in (("min", min), ("max", max)):
            if bound is not None and (type(bound) is not int or bound < 0):
                raise AssertionError(f"{what} must be non-negative, got {bound}")
        _check_range(min or 0, max)
        return DimHint(self.kind, min, max)

    def __repr__(self) -> str:
        found = [f"{name}={n}" for name, n in (("min", self.min), ("max", self.max)) if n is not None]
        return f"DimHint({', '.join([self.kind, *found])})"


def _check_range(least: int, most: int | None) -> None:
    if most is not None and most < least:
        raise AssertionError(f"Cannot create Dim with inconsistent min={least}, max={most}")


class Dim:
    """A named size that changes from call to call.

    Sizes with the same name are always equal. ``2 * batch`` and ``batch + 1`` are sizes that follow from it.

    Args:
        name: an identifier.
        min: the least that it may be. Default: 1, or 2 if the program does not hold for 1.
        max: the most that it may be. Default: no limit.

    Raises:
        AssertionError: the name is no identifier, or no size is within the range.

    Example:
        >>> from functorch_port.export import Dim
        >>> batch = Dim("batch", max=64)
        >>> 2 * batch + 1
        2*batch + 1

    Reference: https://docs.pytorch.org/docs/stable/export.html#torch.export.Dim
    """

    AUTO: ClassVar[DimHint] = DimHint("AUTO")
    DYNAMIC: ClassVar[DimHint] = DimHint("DYNAMIC")
    STATIC: ClassVar[DimHint] = DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        _check_range(0 if min is None else min, max)
        if not isinstance(name, str) or not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name
        self.min, self.max = min, max

    @property
    def root(self) -> Dim:
        return self

    factor, offset = 1, 0

    def __add__(self, other: Any) -> Dim:
        if type(other) is not int:
            raise NotImplementedError(
                f"Attempted to add {other} to {self.__name__}, where an integer was expected. {_ONLY}"
            )
        return _derived(self.root, self.factor, self.offset + other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dim:
        if type(other) is not int:
            raise NotImplementedError(
                f"Attempted to subtract {other} from {self.__name__}, where an integer was expected. {_ONLY}"
            )
        return self + -other

    def __rsub__(self, other: Any) -> Dim:
        raise NotImplementedError(f"Attempted to negate {self.__name__}. {_ONLY}")

    def __mul__(self, other: Any) -> Dim:
        if type(other) is not int or other <= 0:
            raise NotImplementedError(
                f"Attempted to multiply {other} with {self.__name__}, where a positive integer was expected. {_ONLY}"
            )
        return _derived(self.root, self.factor * other, self.offset * other)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        found = [f"{name}={n}" for name, n in (("min", self.min), ("max", self.max)) if n is not None]
        return f"Dim({', '.join([repr(self.__name__), *found])})"


class _DerivedDim(Dim):
    """``factor * root + offset``."""

    def __init__(self, root: Dim, factor: int, offset: int) -> None:
        self._root, self.factor, self.offset = root, factor, offset
        self.min, self.max = root.min, root.max
        self.__name__ = size_text((factor, root.__name__, offset))

    @property
    def root(self) -> Dim:
        return self._root

    def __repr__(self) -> str:
        return self.__name__


def _derived(root: Dim, factor: int, offset: int) -> Dim:
    return root if (factor, offset) == (1, 0) else _DerivedDim(root, factor, offset)


def is_dim(spec: Any) -> bool:
    """Whether this says of a dimension what it is."""
    return spec is None or type(spec) is int or isinstance(spec, Dim | DimHint)


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several `Dim`s with the same range.

    Args:
        names: their names.
        min, max: the range of each.

    Example:
        >>> from functorch_port.export import dims
        >>> dims("batch", "length", max=512)
        (Dim('batch', max=512), Dim('length', max=512))

    Reference: https://docs.pytorch.org/docs/stable/export.html#torch.export.dims
    """
    return tuple(Dim(name, min=min, max=max) for name in names)
