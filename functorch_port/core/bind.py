"""Gives the registered ops their public forms: functions by namespace, `Tensor` methods, dunders, in-place twins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .dispatch import Op
from .registry import OpSpec, composites, ops
from .symbolic import SymNumber
from .tensor import Tensor

__all__ = ["bind", "function", "namespaces"]

#: public functions by namespace token ("torch", "F", "linalg", "special", "fft")
namespaces: dict[str, dict[str, Callable[..., Any]]] = {}
_functions: dict[str, Callable[..., Any]] = {}


def function(name: str) -> Any:
    """The public function of an op or composite, wherever it is published."""
    return _functions[name]


def _publish(name: str, where: tuple[str, ...], fn: Callable[..., Any]) -> None:
    _functions.setdefault(name, fn)
    for token in where:
        if token != "method":
            namespaces.setdefault(token, {})[name] = fn.call if isinstance(fn, Op) else fn


def _method(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return fn(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = fn.__doc__
    return method


def _inplace(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        self._check_inplace(*args, *kwargs.values(), name=name)
        return self._take(fn(self, *args, **kwargs))

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place version of `{fn.__name__}`."
    return method


def _compared_inplace(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """The in-place form of a comparison, which PyTorch records with a gradient of zero."""

    def method(self: Tensor, other: Any) -> Tensor:
        self._check_inplace(other)
        out = fn(self, other)
        inputs = [x for x in (self, other) if isinstance(x, Tensor)]
        if any(x.requires_grad for x in inputs):
            node = f"{name[:-1].capitalize()}Backward{len(inputs) - 1}"
            out = function("_compared")(out.to(self.dtype), inputs, node)
        return self._take(out)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place version of `{fn.__name__}`."
    return method


def _unrecorded_inplace(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """The in-place form of a logical operation, which leaves the history as it was, as in PyTorch."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        self._check_inplace(*args)
        return self._take(fn(self, *args, **kwargs), recorded=False)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place version of `{fn.__name__}`."
    return method


def _twin(name: str, spec: OpSpec, fn: Callable[..., Any]) -> Callable[..., Any]:
    if spec.name in ("eq", "ne", "lt", "le", "gt", "ge"):
        return _compared_inplace(f"{spec.name}_", fn)
    return (_unrecorded_inplace if spec.name.startswith("logical_") else _inplace)(name, fn)


_OPERANDS = (Tensor, int, float, complex, SymNumber)


def _dunder(name: str, fn: Callable[..., Any], swap: bool) -> Callable[..., Any]:
    def unary(self: Tensor) -> Any:
        return fn(self)

    def binary(self: Tensor, other: Any) -> Any:
        if not isinstance(other, _OPERANDS):
            other = _operand(other)
            if other is NotImplemented:
                return other
        return fn(other, self) if swap else fn(self, other)

    chosen = unary if name in ("__neg__", "__pos__", "__abs__", "__invert__") else binary
    chosen.__name__ = chosen.__qualname__ = name
    return chosen


def _operand(other: Any) -> Any:
    """Numpy scalars and arrays and JAX arrays may stand beside a Tensor in an expression."""
    from .creation import tensor

    if type(other).__module__ == "numpy" and hasattr(other, "dtype"):
        return other.item() if getattr(other, "ndim", 1) == 0 else tensor(other)
    return (
        tensor(other)
        if hasattr(other, "__jax_array__") or type(other).__module__.startswith("jax")
        else NotImplemented
    )


def _inplace_dunder(dunder: str) -> str:
    return "__i" + dunder[2:]


def _bind_op(spec: OpSpec) -> None:
    op = Op(spec)
    call = op.call
    for name in spec.names:
        _publish(name, spec.where, op)
        if "method" in spec.where and name not in vars(Tensor):
            setattr(Tensor, name, call if name == spec.name else _method(name, call))
        if spec.inplace:
            twin = _twin(f"{name}_", spec, op)
            setattr(Tensor, f"{name}_", twin)
            if "torch" in spec.where or "F" in spec.where:
                _publish(f"{name}_", spec.where, twin)
    for dunder in spec.dunder:
        setattr(Tensor, dunder, _dunder(dunder, call, swap=False))
        if spec.inplace:
            setattr(Tensor, _inplace_dunder(dunder), _inplace(_inplace_dunder(dunder), op))
    for dunder in spec.rdunder:
        setattr(Tensor, dunder, _dunder(dunder, call, swap=True))


def bind() -> None:
    """Install everything that was registered."""
    for spec in ops.values():
        _bind_op(spec)
    for name, where, fn, dunders in composites:
        _publish(name, where, fn)
        for dunder in dunders:
            setattr(Tensor, dunder, _dunder(dunder, fn, swap=False))
        if "method" in where:
            setattr(Tensor, name, fn)
