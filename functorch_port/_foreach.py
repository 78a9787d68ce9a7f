"""``torch._foreach_*``: one operation on every tensor of a list.

Third-party optimizers use them. Each applies the ordinary operation to one tensor after the other, so gradients, dtypes
and errors are those of the operation; `compile` puts them all into one program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ._run.bind import function
from ._tensor.tensor import Tensor
from .linalg import vector_norm

__all__: list[str] = []

Tensors = Iterable[Tensor]

_UNARY = [
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "frac",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]
#: name -> the Tensor method for a Tensor argument, and for a number
_BINARY = {
    "add": ("add", "add"),
    "sub": ("sub", "sub"),
    "mul": ("mul", "mul"),
    "div": ("div", "div"),
    "pow": ("pow", "pow"),
    "maximum": ("maximum", "clamp_min"),
    "minimum": ("minimum", "clamp_max"),
    "clamp_min": ("maximum", "clamp_min"),
    "clamp_max": ("minimum", "clamp_max"),
    "lerp": ("lerp", "lerp"),
}
_TAKES_ONE_TENSOR = ("add", "mul", "div")


def _listed(tensors: Any, name: str) -> list[Tensor]:
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(t, Tensor) for t in tensors):
        kind = type(tensors).__name__
        raise TypeError(f"{name}(): argument 'self' (position 1) must be tuple of Tensors, not {kind}")
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return list(tensors)


def _spread(other: Any, count: int, name: str) -> list[Any]:
    """The second operands: the elements of a list, or one number or 0-dim tensor for all tensors."""
    if isinstance(other, Tensor):
        if name not in _TAKES_ONE_TENSOR:
            raise TypeError(
                f"_foreach_{name}() received an invalid combination of arguments: got a single Tensor, but expected a "
                "number, or a list of numbers or Tensors"
            )
        if other.dim() != 0:
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {other.dim()} dimensions and {other.numel()} elements."
            )
        return [other] * count
    if not isinstance(other, (list, tuple)):
        return [other] * count
    if len(other) != count:
        if any(isinstance(o, Tensor) for o in other):
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {count} and {len(other)}"
            )
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return list(other)


def _named(name: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def publish(fn: Callable[..., Any]) -> Callable[..., Any]:
        fn.__name__ = fn.__qualname__ = f"_foreach_{name}"
        fn.__doc__ = text
        globals()[fn.__name__] = fn
        __all__.append(fn.__name__)
        return fn

    return publish


def _both(name: str, text: str, each: Callable[..., list[Any]]) -> None:
    """Publish both forms of an operation. The first argument of ``each`` is the method's suffix, ``""`` or ``"_"``."""

    @_named(name, text)
    def new(self: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        return tuple(each("", _listed(self, f"_foreach_{name}"), *args, **kwargs))

    @_named(f"{name}_", f"{text} In place.")
    def in_place(self: Any, *args: Any, **kwargs: Any) -> Any:
        each("_", _listed(self, f"_foreach_{name}_"), *args, **kwargs)
        return self


def _unary(name: str) -> None:
    def each(suffix: str, tensors: list[Tensor]) -> list[Any]:
        return [getattr(t, name + suffix)() for t in tensors]

    _both(name, f"`torch.{name}` of every tensor.", each)


def _binary(name: str) -> None:
    with_tensor, with_number = _BINARY[name]

    def each(suffix: str, tensors: list[Tensor], other: Any = None, **kwargs: Any) -> list[Any]:
        for key in ("scalar", "scalars", "exponent", "weight", "weights", "tensors1"):
            other = kwargs.pop(key, other)
        out = []
        for t, o in zip(tensors, _spread(other, len(tensors), name), strict=True):
            method = with_tensor if isinstance(o, Tensor) else with_number
            if suffix and not hasattr(t, method + suffix):  # maximum has no in-place method
                out.append(t.copy_(getattr(t, method)(o, **kwargs)))
            else:
                out.append(getattr(t, method + suffix)(o, **kwargs))
        return out

    _both(
        name,
        f"`torch.{name}` of every tensor with a number, or with the tensor or number at its place.",
        each,
    )


def _lerp(
    suffix: str, tensors: list[Tensor], ends: Any = None, weight: Any = None, **kwargs: Any
) -> list[Any]:
    ends, weight = kwargs.get("tensors1", ends), kwargs.get("scalars", kwargs.get("weights", weight))
    count = len(tensors)
    pairs = zip(tensors, _spread(ends, count, "lerp"), _spread(weight, count, "lerp"), strict=True)
    return [getattr(t, f"lerp{suffix}")(end, w) for t, end, w in pairs]


def _pointwise(name: str) -> None:
    def each(
        suffix: str,
        tensors: list[Tensor],
        tensor1: Any = None,
        tensor2: Any = None,
        value: Any = 1,
        **kw: Any,
    ) -> list[Any]:
        value, count = kw.get("scalars", value), len(tensors)
        values = value.tolist() if isinstance(value, Tensor) else value
        rows = zip(
            tensors,
            _spread(tensor1, count, name),
            _spread(tensor2, count, name),
            _spread(values, count, name),
            strict=True,
        )
        return [getattr(t, name + suffix)(a, b, value=v) for t, a, b, v in rows]

    _both(name, f"`torch.{name}` of every tensor, with one number or one for each.", each)


for _name in _UNARY:
    _unary(_name)
for _name in _BINARY:
    if _name != "lerp":
        _binary(_name)
for _name in ("addcmul", "addcdiv"):
    _pointwise(_name)
_both("lerp", "`torch.lerp` of every tensor to the one at its place.", _lerp)

_ordinary_pow = globals()["_foreach_pow"]


@_named("pow", _ordinary_pow.__doc__ or "")
def _pow(self: Any, exponent: Any) -> tuple[Tensor, ...]:
    if isinstance(self, (int, float, complex)):
        return tuple(function("pow")(self, t) for t in _listed(exponent, "_foreach_pow"))
    return _ordinary_pow(self, exponent)


@_named("norm", "The vector norm of every tensor.")
def _norm(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    return tuple(vector_norm(t, ord, dtype=dtype) for t in _listed(self, "_foreach_norm"))


@_named("powsum", "The sum of the powers of the absolute values of every tensor.")
def _powsum(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    tensors = _listed(self, "_foreach_powsum")
    return tuple(t.abs().pow(ord).sum(dtype=dtype) for t in tensors)


@_named("max", "The largest element of every tensor.")
def _max(self: Any) -> tuple[Tensor, ...]:
    return tuple(t.max() for t in _listed(self, "_foreach_max"))


@_named("mm", "`torch.mm` of every tensor with the one at its place.")
def _mm(self: Any, mat2: Any) -> tuple[Tensor, ...]:
    tensors = _listed(self, "_foreach_mm")
    return tuple(t.mm(o) for t, o in zip(tensors, _spread(mat2, len(tensors), "mm"), strict=True))


@_named("clone", "A copy of every tensor.")
def _clone(self: Any, *, memory_format: Any = None) -> tuple[Tensor, ...]:
    return tuple(t.clone() for t in _listed(self, "_foreach_clone"))


@_named("zero_", "Sets every tensor to zero.")
def _zero(self: Any) -> Any:
    for t in _listed(self, "_foreach_zero_"):
        t.zero_()
    return self


@_named("copy_", "Copies every tensor from the one at its place.")
def _copy(self: Any, src: Any, non_blocking: bool = False) -> Any:
    tensors = _listed(self, "_foreach_copy_")
    for t, s in zip(tensors, _spread(src, len(tensors), "copy_"), strict=True):
        t.copy_(s)
    return self
