"""What random operations share: parameters from what users pass, drawn arrays, and fills in place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from functorch_port._array import placing
from functorch_port._array.symbolic import SymNumber
from functorch_port._array.value import HOST
from functorch_port._base import device as devices
from functorch_port._base import dtypes, watch
from functorch_port._base.dtypes import dtype as DType
from functorch_port._random.generator import Generator, draw
from functorch_port._run.run import run
from functorch_port._tensor import creation, grad_mode
from functorch_port._tensor.family import Family
from functorch_port._tensor.plan import Plan
from functorch_port._tensor.tensor import Tensor, wrap

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_C_NAMES = {
    "float32": "float", "float64": "double", "int64": "long int", "int32": "int", "int16": "short int",
    "int8": "signed char", "uint8": "unsigned char", "bool": "bool", "float16": "c10::Half",
    "bfloat16": "c10::BFloat16", "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


# parameters


def _number(name: str, argument: str, position: int, value: Any) -> float:
    """A plain Python number from what users pass for a parameter of a distribution."""
    if isinstance(value, SymNumber):
        return value.concrete()
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.item()
    if not isinstance(value, int | float | np.number):
        given = type(value).__name__
        raise TypeError(f"{name}(): argument '{argument}' (position {position}) must be float, not {given}")
    return float(value)


def _integer(name: str, value: Any) -> int:
    if isinstance(value, SymNumber | Tensor):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        given = type(value).__name__
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({given}), but expected integers"
        )
    if not _INT64_MIN <= value <= _INT64_MAX:
        raise ValueError("Overflow when unpacking long long")
    return int(value)


def _require(name: str, value: Any, argument: str = "input") -> Tensor:
    if not isinstance(value, Tensor):
        given = type(value).__name__
        raise TypeError(f"{name}(): argument '{argument}' (position 1) must be Tensor, not {given}")
    return value


def _unsupported(kernel: str, d: DType) -> NotImplementedError:
    return NotImplementedError(f"\"{kernel}\" not implemented for '{d.scalar_name}'")


def _refuse_unless_inexact(kernel: str, d: DType, complex_too: bool = True) -> None:
    if not (d.is_floating_point or (complex_too and d.is_complex)) or d.itemsize == 1:
        raise _unsupported(kernel, d)


def _is_meta(value: Any) -> bool:
    return isinstance(value, jax.ShapeDtypeStruct)


# drawing


def _in_order(
    order: Sequence[int] | None, generator: Any, kind: str, shape: tuple[int, ...], d: DType, **params: Any
) -> Any:
    """As `draw`, with dimensions in another order in memory."""
    if order is None:
        return draw(generator, kind, shape, d, **params)
    params |= {"contiguous": False} if kind == "normal" else {}
    value = draw(generator, kind, tuple(shape[dim] for dim in order), d, **params)
    back = np.argsort(order).tolist()
    return value.transpose(back) if isinstance(value, np.ndarray) else jnp.transpose(value, back)


def _out_of_place(
    kind: str,
    shape: Sequence[int],
    d: DType,
    generator: Any,
    like: Any = None,
    order: Sequence[int] | None = None,
    **params: Any,
) -> Any:
    """A drawn array; shapes only if ``like`` is a meta array."""
    if _is_meta(like):
        return jax.ShapeDtypeStruct(tuple(shape), d.np)
    return _in_order(order, generator, kind, tuple(shape), d, **params)


def _meta_like(device: Any) -> Any:
    """A meta array if ``device`` (or the default device) is meta."""
    where = devices.current_device() if device is None else devices.as_device(device)
    return jax.ShapeDtypeStruct((), np.float32) if where is not None and where.type == "meta" else None


def _placed(value: Any, device: Any, requires_grad: bool) -> Tensor:
    return creation.finish(value, None if _is_meta(value) else device, requires_grad)


# results


@cache
def _replacement(node: str) -> Plan:
    """The plan whose output is its last argument, with zero gradients for the others."""

    def replace(*args: Any) -> Any:
        out = args[-1]
        for x in args[:-1]:
            x = jnp.broadcast_to(x, out.shape)
            out = jnp.where(jnp.ones(out.shape, bool), out, x.astype(out.dtype))
        return out

    family = Family(lambda numbers: replace, "replacement")
    return Plan(replace, node.removesuffix("Backward0").lower(), node, family=family)


def _with_history(node: str, inputs: Sequence[Tensor], value: Any) -> Tensor:
    """``value`` as the result of a function of ``inputs`` whose gradient is zero."""
    if grad_mode.state.enabled and any(t.requires_grad for t in inputs):
        return run(_replacement(node), [*inputs, wrap(value)])
    return wrap(value)


def _fill(tensor: Tensor, node: str, kind: str, generator: Generator | None, **params: Any) -> Tensor:
    """Overwrite ``tensor`` with random numbers, in the order in which its elements lie in memory."""
    own = tensor._look()
    d = dtypes.from_np(own.dtype)
    if _is_meta(own):
        return tensor
    order = None
    if not tensor.is_contiguous():
        strides = tensor.stride()
        order = sorted(range(len(own.shape)), key=lambda dim: -strides[dim])
    return _overwrite(tensor, node, _in_order(order, generator, kind, own.shape, d, **params))


def _overwrite(tensor: Tensor, node: str, value: Any) -> Tensor:
    tensor._check_inference()
    if (tensor.requires_grad and grad_mode.state.enabled) or watch.state.level is not None:
        return tensor._take(_with_history(node, [tensor], value))
    tensor._set_value(_beside(tensor._look(), value))
    return tensor


def _beside(own: Any, value: Any) -> Any:
    """``value`` on the device (and with the sharding) of ``own``, or on the host as that is."""
    if own.__class__ in HOST:
        return np.asarray(value)
    if isinstance(own, jax.core.Tracer) or isinstance(value, jax.core.Tracer):
        return value
    if value.__class__ in HOST:
        return placing.put(value, own.sharding) if own.committed else value
    if own.sharding == value.sharding:
        return value
    return placing.put(value, own.sharding)
