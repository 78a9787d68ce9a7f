"""Sampling: random tensors, in-place fills, and distributions of given tensors.

Each function checks its arguments with PyTorch's texts, draws an array (`_random.generator.draw`) and wraps it.
None of the results depends smoothly on its inputs, so gradients are zero, as in PyTorch.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from functorch_port._array import storage
from functorch_port._array.refusal import refuse
from functorch_port._array.symbolic import SymNumber
from functorch_port._base import device as devices
from functorch_port._base import dtypes, watch
from functorch_port._base.dtypes import dtype as DType
from functorch_port._base.layout import memory_order
from functorch_port._random.generator import Generator, draw
from functorch_port._random.mersenne import accepts_normals
from functorch_port._run.registry import composite
from functorch_port._run.run import run
from functorch_port._tensor import creation, grad_mode
from functorch_port._tensor.plan import Plan
from functorch_port._tensor.tensor import Tensor, wrap
from functorch_port._tensor.view import laid
from functorch_port.ops._common import broadcast_shapes, check_expand

__all__ = ["dropout_mask", "trunc_normal_fill"]

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_C_NAMES = {
    "float32": "float", "float64": "double", "int64": "long int", "int32": "int", "int16": "short int",
    "int8": "signed char", "uint8": "unsigned char", "bool": "bool", "float16": "c10::Half",
    "bfloat16": "c10::BFloat16", "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip
_BAD_PROBABILITY = (
    "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  "
    "If so, please report an enhancement request to PyTorch.)"
)


def dropout_mask(shape: Sequence[int], p: float, dtype: DType, order: Sequence[int] | None = None) -> Any:
    """An array of ones, each replaced by zero with probability ``p``: drawn as PyTorch's dropout draws it.

    ``order`` is that in which the elements of what is dropped lie in memory (`memory_order`).
    """
    return _in_order(order, None, "bernoulli", tuple(shape), dtype, p=1 - p)


def _in_order(
    order: Sequence[int] | None, generator: Any, kind: str, shape: tuple[int, ...], d: DType, **params: Any
) -> Any:
    """As `draw`, with dimensions in another order in memory."""
    if order is None:
        return draw(generator, kind, shape, d, **params)
    params |= {"contiguous": False} if kind == "normal" else {}
    value = draw(generator, kind, tuple(shape[dim] for dim in order), d, **params)
    return jnp.transpose(value, np.argsort(order).tolist())


# ------------------------------------------------------------------ helpers


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


@cache
def _replacement(node: str) -> Plan:
    """The plan whose output is its last argument, with zero gradients for the others."""

    def replace(*args: Any) -> Any:
        out = args[-1]
        for x in args[:-1]:
            x = jnp.broadcast_to(x, out.shape)
            out = jnp.where(jnp.ones(out.shape, bool), out, x.astype(out.dtype))
        return out

    return Plan(replace, node.removesuffix("Backward0").lower(), node)


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
    if isinstance(own, np.ndarray):
        return np.asarray(value)
    if (
        isinstance(own, jax.core.Tracer)
        or isinstance(value, jax.core.Tracer)
        or own.sharding == value.sharding
    ):
        return value
    return storage.put(value, own.sharding)


# ---------------------------------------------------------------- factories

_Size = Any


def _factory(
    name: str,
    kernel: str,
    kind: str,
    size: Any,
    generator: Any,
    out: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    d = dtype or (out.dtype if out is not None else dtypes.get_default_dtype())
    _refuse_unless_inexact(kernel, d)
    shape = creation._shape(size, name)
    made = _placed(_out_of_place(kind, shape, d, generator, _meta_like(device)), device, requires_grad)
    return made if out is None else creation._into(out, made)


def _meta_like(device: Any) -> Any:
    """A meta array if ``device`` (or the default device) is meta."""
    where = devices.current_device() if device is None else devices.as_device(device)
    return jax.ShapeDtypeStruct((), np.float32) if where is not None and where.type == "meta" else None


def _placed(value: Any, device: Any, requires_grad: bool) -> Tensor:
    return creation.finish(value, None if _is_meta(value) else device, requires_grad)


def _sizes(name: str, size: tuple[Any, ...], named: Any) -> Any:
    if size and named is not None:
        raise TypeError(f"{name}() got multiple values for argument 'size'")
    if not size and named is None:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    return size if named is None else (named,)


@composite("rand", where="torch")
def rand(
    *size_: int,
    size: _Size = None,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform random numbers in [0, 1).

    Args:
        size: the shape, as integers or one sequence.
        generator: where the numbers come from (the default generator).
        out: a tensor to write to.
        dtype: a floating point or complex type (the default dtype).
        device: where the tensor goes.
        requires_grad: whether operations on it are recorded.

    Example:
        >>> import functorch_port as torch
        >>> _ = torch.manual_seed(0)
        >>> torch.rand(3)
        tensor([0.4963, 0.7682, 0.0885])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.rand.html
    """
    shape = _sizes("rand", size_, size)
    return _factory(
        "rand", "check_uniform_bounds", "uniform", shape, generator, out, dtype, device, requires_grad
    )


@composite("randn", where="torch")
def randn(
    *size_: int,
    size: _Size = None,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Standard normal random numbers; the arguments are those of `rand`.

    Example:
        >>> import functorch_port as torch
        >>> _ = torch.manual_seed(0)
        >>> torch.randn(3)
        tensor([ 1.5410, -0.2934, -2.1788])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.randn.html
    """
    shape = _sizes("randn", size_, size)
    return _factory(
        "randn", "normal_kernel_cpu", "normal", shape, generator, out, dtype, device, requires_grad
    )


@composite("randint", where="torch")
def randint(
    *args: Any,
    low: Any = None,
    high: Any = None,
    size: _Size = None,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Random integers in [low, high): ``randint(high, size)`` or ``randint(low, high, size)``.

    Args:
        low: the smallest integer (0).
        high: one more than the largest.
        size: the shape, a sequence.
        generator, out, device, requires_grad: as for `rand`.
        dtype: the type (int64).

    Raises:
        RuntimeError: if the range is empty or does not fit the type.

    Example:
        >>> import functorch_port as torch
        >>> _ = torch.manual_seed(0)
        >>> torch.randint(10, (4,))
        tensor([4, 9, 3, 0])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.randint.html
    """
    given = list(args)
    if size is None and given and isinstance(given[-1], list | tuple):
        size = given.pop()
    if high is None and given:
        high = given.pop()
    if low is None and given:
        low = given.pop()
    if size is None or high is None or given or not isinstance(size, list | tuple):
        names = ", ".join(type(a).__name__ for a in args)
        raise TypeError(
            f"randint() received an invalid combination of arguments - got ({names}), but expected "
            "(int high, tuple of ints size) or (int low, int high, tuple of ints size)"
        )
    d = dtype or (out.dtype if out is not None else dtypes.int64)
    first, end = _range(
        "randint", d, _integer("randint", 0 if low is None else low), _integer("randint", high)
    )
    shape = creation._shape((size,), "randint")
    value = _out_of_place("integers", shape, d, generator, _meta_like(device), low=first, high=end)
    if requires_grad and not (d.is_floating_point or d.is_complex):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    made = _placed(value, device, requires_grad)
    return made if out is None else creation._into(out, made)


@composite("randperm", where="torch")
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The integers 0 .. n-1 in random order.

    Args:
        n: how many.
        generator, out, device, requires_grad: as for `rand`.
        dtype: the type (int64).

    Example:
        >>> import functorch_port as torch
        >>> _ = torch.manual_seed(0)
        >>> torch.randperm(4)
        tensor([0, 1, 3, 2])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.randperm.html
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer):
        raise TypeError(f"randperm(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    d = dtype or (out.dtype if out is not None else dtypes.int64)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    _check_holds(int(n), d)
    value = _out_of_place("permutation", (int(n),), d, generator, _meta_like(device))
    made = _placed(value, device, requires_grad)
    return made if out is None else creation._into(out, made)


def _check_holds(n: int, d: DType) -> None:
    """Whether a permutation of ``n`` can be written in type ``d``."""
    if d is dtypes.bool_ or d.is_complex:
        raise _unsupported("randperm", d)
    if d.is_floating_point:
        digits = _digits(d)
        if d is not dtypes.bfloat16 and n > (1 << digits) + 1:
            limit = (1 << digits) + 1 if d is dtypes.float16 else f"2^{digits}+1"
            raise RuntimeError(f"n cannot be greater than {limit} for {d.scalar_name} type.")
    elif n > dtypes.iinfo(d).max:
        c_type = "int" if d is dtypes.int32 else f"{d.name}_t"
        raise RuntimeError(f"value cannot be converted to type {c_type} without overflow")


def _digits(d: DType) -> int:
    """Bits of a float type's significand."""
    return 1 - round(math.log2(dtypes.finfo(d).eps))


#: of a function: what PyTorch calls its kernel, and what is drawn
_LIKE = {"rand_like": ("check_uniform_bounds", "uniform"), "randn_like": ("normal_kernel_cpu", "normal")}


def _like(
    name: str,
    input: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    generator: Any,
    memory_format: Any,
) -> Tensor:
    kernel, kind = _LIKE[name]
    own = _require(name, input)._value
    d = dtype or dtypes.from_np(own.dtype)
    _refuse_unless_inexact(kernel, d)
    order = memory_order(input, memory_format)
    value = _out_of_place(kind, own.shape, d, generator, _meta_of(own, device), order)
    return _like_made(input, value, device, requires_grad, order)


def _meta_of(own: Any, device: Any) -> Any:
    return own if device is None and _is_meta(own) else _meta_like(device)


def _like_made(
    input: Tensor, value: Any, device: Any, requires_grad: bool, order: Sequence[int] | None
) -> Tensor:
    if device is None and not _is_meta(value):
        value = _beside(input._value, value)
    tensor = wrap(value) if device is None or _is_meta(value) else creation.finish(value, device, False)
    tensor = laid(tensor, order)
    return tensor.requires_grad_(True) if requires_grad else tensor


@composite("rand_like", where="torch")
def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """`rand` with the shape, dtype and device of ``input``."""
    return _like("rand_like", input, dtype, device, requires_grad, generator, memory_format)


@composite("randn_like", where="torch")
def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """`randn` with the shape, dtype and device of ``input``."""
    return _like("randn_like", input, dtype, device, requires_grad, generator, memory_format)


@composite("randint_like", where="torch")
def randint_like(
    input: Tensor,
    *args: Any,
    low: Any = None,
    high: Any = None,
    generator: Generator | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """`randint` with the shape, dtype and device of ``input``; called as ``(input, [low,] high)``."""
    own = _require("randint_like", input)._value
    given = list(args)
    if high is None and given:
        high = given.pop()
    if low is None and given:
        low = given.pop()
    if high is None or given:
        raise TypeError(
            "randint_like() expects (Tensor input, int high) or (Tensor input, int low, int high)"
        )
    d = dtype or dtypes.from_np(own.dtype)
    bottom = 0 if low is None else low
    first, end = _range("randint_like", d, _integer("randint_like", bottom), _integer("randint_like", high))
    order, like = memory_order(input, memory_format), _meta_of(own, device)
    value = _out_of_place("integers", own.shape, d, generator, like, order, low=first, high=end)
    return _like_made(input, value, device, requires_grad, order)


# ---------------------------------------------------- integer ranges by dtype


def _range(name: str, d: DType, low: int, high: int) -> tuple[int, int]:
    """[low, high) as type ``d`` can hold it; PyTorch's errors if it cannot."""
    if d.is_complex or (d.itemsize == 1 and d.is_floating_point):
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if d.is_floating_point:
        low, high = _representable_from(low, d), _representable_to(high, d)
        if low >= high:
            raise RuntimeError(
                "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got "
                f"from={low} >= to={high}"
            )
    _check_range(low, high - 1, d)
    return low, high


def _as_stored(value: int, d: DType) -> int:
    stored = float(np.asarray(value, np.float64).astype(d.np))
    return int(stored) if math.isfinite(stored) else (_INT64_MAX if stored > 0 else _INT64_MIN)


def _representable_from(low: int, d: DType) -> int:
    """The next number of the float type that is not below ``low``."""
    stored = _as_stored(low + 1, d)
    return stored + (1 << (abs(low + 1).bit_length() - _digits(d))) if stored < low else low


def _representable_to(high: int, d: DType) -> int:
    """The end of the range whose last number, rounded to the float type, is still below ``high``."""
    stored = _as_stored(high - 1, d)
    return stored - (1 << (abs(high - 1).bit_length() - _digits(d))) if stored >= high else high


def _check_range(low: int, last: int, d: DType) -> None:
    if d.is_floating_point:
        smallest, largest = -_as_limit(d), _as_limit(d)
    elif d is dtypes.bool_:
        smallest, largest = 0, 1
    else:
        info = dtypes.iinfo(d)
        smallest, largest = info.min, info.max
    for label, value in (("from", low), ("to - 1", last)):
        if not smallest <= value <= largest:
            raise RuntimeError(f"{label} is out of bounds for {_C_NAMES[d.name]}")
    if d.is_floating_point:
        digits = _digits(d)
        for label, value in (("from", low), ("to - 1", last)):
            if abs(value) > 1 << digits:
                warnings.warn(
                    f"{label} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations "
                    f"{_C_NAMES[d.name]} can support discrete uniform distribution only within this range. "
                    "This warning will become an error in version 1.7 release, please fix the code in "
                    "advance",
                    UserWarning,
                    stacklevel=5,
                )


def _as_limit(d: DType) -> int:
    return int(dtypes.finfo(d).max)


# ------------------------------------------------------------ in-place fills


def _two(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], names: Sequence[str], defaults: Sequence[float]
) -> list[float]:
    """The two number parameters of a distribution, given by position or name."""
    if len(args) > 2:
        raise TypeError(f"{name}() takes from 0 to 2 positional arguments but {len(args)} were given")
    values = dict(zip(names, defaults, strict=True)) | dict(zip(names, args, strict=False))
    for key, value in kwargs.items():
        if key not in names:
            raise TypeError(f"{name}() got an unexpected keyword argument '{key}'")
        values[key] = value
    return [_number(name, key, i + 1, values[key]) for i, key in enumerate(names)]


@composite("uniform_", where="method")
def uniform_(self: Tensor, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
    """Fill with uniform numbers on [from, to), by default [0, 1)."""
    low, high = _two("uniform_", args, kwargs, ("from", "to"), (0.0, 1.0))
    d = self.dtype
    self._check_inplace()
    _refuse_unless_inexact("check_uniform_bounds", d)
    _check_bounds(low, high, d)
    return _fill(self, "UniformBackward0", "uniform", generator, low=low, high=high)


def _check_bounds(low: float, high: float, d: DType) -> None:
    limit = dtypes.finfo(d).max
    for label, value in (("from", low), ("to", high)):
        if not -limit <= value <= limit:
            raise RuntimeError(f"{label} is out of bounds for {_C_NAMES[d.to_real().name]}")
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}"
        )
    if high - low > limit:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{d.to_real().scalar_name}>::max(), but found "
            f"to={high:g} and from={low:g} which result in to-from to exceed the limit"
        )


def trunc_normal_fill(
    tensor: Tensor, mean: float, std: float, low: float, high: float, generator: Generator | None = None
) -> Tensor:
    """Fill with normal numbers in [low, high]."""
    d = tensor.dtype
    tensor._check_inplace()
    if accepts_normals(mean, std, low, high):
        _check_std(std)
        if tensor.numel():
            _refuse_unless_inexact("normal_kernel_cpu", d)
    else:
        _refuse_unless_inexact("check_uniform_bounds", d)
        _check_bounds(low, high, d)
    if _is_meta(tensor._value):
        return tensor
    value = draw(
        generator, "truncated_normal", tuple(tensor.shape), d, mean=mean, std=std, low=low, high=high
    )
    return _overwrite(tensor, "NormalBackward0", value)


@composite("normal_", where="method")
def normal_(self: Tensor, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
    """Fill with normal numbers of the given mean and standard deviation, by default 0 and 1."""
    mean, std = _two("normal_", args, kwargs, ("mean", "std"), (0.0, 1.0))
    _check_std(std)
    self._check_inplace()
    if self.numel():
        _refuse_unless_inexact("normal_kernel_cpu", self.dtype)
    return _fill(self, "NormalBackward0", "normal", generator, mean=mean, std=std)


def _check_std(std: float) -> None:
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")


@composite("random_", where="method")
def random_(self: Tensor, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
    """Fill with integers: of the type's whole range, in [0, to) or in [from, to)."""
    if len(args) > 2:
        raise TypeError(f"random_() takes 2 positional arguments but {len(args)} were given")
    names = ("to",) if len(args) == 1 and "to" not in kwargs else ("from", "to")
    given = dict(zip(names, args, strict=False)) | kwargs
    unknown = set(given) - {"from", "to"}
    if unknown:
        raise TypeError(f"random_() got an unexpected keyword argument '{unknown.pop()}'")
    self._check_inplace()
    d = self.dtype
    if d.is_complex or d in (dtypes.uint16, dtypes.uint32, dtypes.uint64):
        raise _unsupported("random_kernel_cpu", d)
    if not given:
        return _fill(self, "RandomBackward2", "full_range", generator)
    node = "RandomBackward0" if "from" in given else "RandomBackward1"
    low = _integer("random_", given.get("from", 0))
    if given.get("to") is None:
        end = (
            1 << _digits(d) if d.is_floating_point else 1 if d is dtypes.bool_ else dtypes.iinfo(d).max
        ) + 1
        if low == _INT64_MIN and (d is dtypes.int64 or d.is_floating_point):
            return _fill(self, node, "integers", generator, low=low, high=1 << 63)
        _check_range(low, end - 1, d)
        return _fill(self, node, "integers", generator, low=low, high=end)
    first, end = _range("random_", d, low, _integer("random_", given["to"]))
    return _fill(self, node, "integers", generator, low=first, high=end)


@composite("bernoulli_", where="method")
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with ones, with probability ``p`` (a number, or a tensor of probabilities), and zeros."""
    self._check_inplace()
    if isinstance(p, Tensor):
        check_expand(p.shape, self.shape)
        return _overwrite(self, "BernoulliBackward1", _bernoulli_of(p, self.shape, self.dtype, generator))
    chance = _probability("bernoulli_", p)
    if self.dtype.is_complex:
        raise _unsupported("bernoulli_scalar_cpu_", self.dtype)
    return _fill(self, "BernoulliBackward2", "bernoulli", generator, p=chance)


def _probability(name: str, p: Any) -> float:
    chance = _number(name, "p", 1, p)
    if not 0 <= chance <= 1:
        raise RuntimeError(f"{name} expects p to be in [0, 1], but got p={chance:g}")
    return chance


def _bernoulli_of(p: Tensor, shape: Sequence[int], d: DType, generator: Generator | None) -> Any:
    """Ones with the probabilities ``p``: a uniform number of p's precision is compared with each."""
    chances = p._value
    kind = dtypes.from_np(chances.dtype)
    if not kind.is_floating_point:
        raise _unsupported("bernoulli_tensor_cpu_p_", kind)
    if _is_meta(chances):
        return jax.ShapeDtypeStruct(tuple(shape), d.np)
    refuse(lambda p: ~((p >= 0) & (p <= 1)), lambda p: RuntimeError(_BAD_PROBABILITY), chances)
    u = draw(generator, "uniform", tuple(shape), kind if kind is dtypes.float64 else dtypes.float32)
    with storage.x64():
        return (u < jnp.asarray(chances, u.dtype)).astype(d.np)


@composite("exponential_", where="method")
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with exponentially distributed numbers of rate ``lambd``."""
    self._check_inplace()
    if not self.dtype.is_floating_point:
        raise RuntimeError(
            "Exponential distribution is a continuous probability distribution. dtype must be a floating "
            f"point but you specified {self.dtype.scalar_name}"
        )
    rate = _number("exponential_", "lambd", 1, lambd)
    if not rate > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
    return _fill(self, "ExponentialBackward0", "exponential", generator, rate=rate)


@composite("geometric_", where="method")
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with the numbers of trials up to the first success of probability ``p``."""
    self._check_inplace()
    chance = _number("geometric_", "p", 1, p)
    if not 0 < chance < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={chance:g}")
    if self.dtype is dtypes.bool_ or self.dtype.is_complex:
        raise _unsupported("geometric_cpu", self.dtype)
    return _fill(self, "GeometricBackward0", "geometric", generator, p=chance)


@composite("cauchy_", where="method")
def cauchy_(self: Tensor, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
    """Fill with Cauchy numbers around ``median`` (0) with half-width ``sigma`` (1)."""
    median, sigma = _two("cauchy_", args, kwargs, ("median", "sigma"), (0.0, 1.0))
    self._check_inplace()
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    if not self.dtype.is_floating_point:
        raise RuntimeError(
            "Cauchy distribution is a continuous probability distribution. dtype must be a floating "
            f"point but you specified {_C_NAMES[self.dtype.name]}"
        )
    return _fill(self, "CauchyBackward0", "cauchy", generator, median=median, sigma=sigma)


@composite("log_normal_", where="method")
def log_normal_(self: Tensor, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
    """Fill with exponentials of normal numbers of the given mean (1) and standard deviation (2)."""
    mean, std = _two("log_normal_", args, kwargs, ("mean", "std"), (1.0, 2.0))
    self._check_inplace()
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    _refuse_unless_inexact("log_normal_cpu", self.dtype, complex_too=False)
    return _fill(self, "LogNormalBackward0", "log_normal", generator, mean=mean, std=std)


# ------------------------------------------------------ samples of given tensors


@composite("bernoulli")
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """Ones with the probabilities in ``input`` (or with probability ``p``), else zeros.

    Args:
        input: probabilities; only its shape and dtype count if ``p`` is given.
        p: one probability for all.
        generator: where the numbers come from.
        out: a tensor to write to.

    Example:
        >>> import functorch_port as torch
        >>> torch.bernoulli(torch.tensor([0.0, 1.0]))
        tensor([0., 1.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.bernoulli.html
    """
    d = _require("bernoulli", input).dtype
    if p is None:
        made = _with_history("BernoulliBackward0", [input], _bernoulli_of(input, input.shape, d, generator))
    else:
        chance = _probability("bernoulli_", p)
        value = _out_of_place("bernoulli", input.shape, d, generator, input._value, p=chance)
        made = _with_history("BernoulliBackward1", [input], value)
    return made if out is None else creation._into(out, made)


@composite("normal", where="torch")
def normal(
    mean: Any,
    std: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Normal random numbers with the given means and standard deviations.

    Args:
        mean: a tensor of means, or a number.
        std: a tensor of standard deviations, or a number (1).
        size: the shape, if both are numbers.
        generator, out: as for `rand`.
        dtype, device, requires_grad: as for `rand`, if both are numbers.

    Raises:
        RuntimeError: if a standard deviation is negative.

    Example:
        >>> import functorch_port as torch
        >>> torch.normal(torch.zeros(2, 3), 1.0).shape
        torch.Size([2, 3])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.normal.html
    """
    if isinstance(mean, Tensor) or isinstance(std, Tensor):
        made = _normal_of(mean, 1.0 if std is None else std, generator)
        return made if out is None else creation._into(out, made)
    if size is None or std is None:
        names = ", ".join(type(a).__name__ for a in (mean, std) if a is not None)
        raise TypeError(
            f"normal() received an invalid combination of arguments - got ({names}), but expected "
            "(Tensor mean, Tensor std), (Tensor mean, float std = 1), (float mean, Tensor std) or "
            "(float mean, float std, tuple of ints size)"
        )
    center, spread = _number("normal", "mean", 1, mean), _number("normal", "std", 2, std)
    _check_std(spread)
    d = dtype or (out.dtype if out is not None else dtypes.get_default_dtype())
    _refuse_unless_inexact("normal_kernel_cpu", d)
    shape = creation._shape((size,), "normal")
    value = _out_of_place("normal", shape, d, generator, _meta_like(device), mean=center, std=spread)
    made = _placed(value, device, requires_grad)
    return made if out is None else creation._into(out, made)


def _normal_of(mean: Any, std: Any, generator: Generator | None) -> Tensor:
    inputs = [t for t in (mean, std) if isinstance(t, Tensor)]
    if isinstance(std, Tensor):
        _check_deviations(std._value)
    else:
        _check_std(std := _number("normal", "std", 2, std))
    if not isinstance(mean, Tensor):
        mean = _number("normal", "mean", 1, mean)
    d = inputs[0].dtype
    _refuse_unless_inexact("normal_kernel_cpu", d)
    shape = broadcast_shapes(*[t.shape for t in inputs])
    if any(_is_meta(t._value) for t in inputs):
        return wrap(jax.ShapeDtypeStruct(shape, d.np))
    scalar_std = std if not isinstance(std, Tensor) else 1.0
    drawn = draw(generator, "normal", shape, d, std=scalar_std)
    with storage.x64():
        if isinstance(std, Tensor):
            drawn = drawn * std._value.astype(d.np)
        drawn = drawn + (mean._value.astype(d.np) if isinstance(mean, Tensor) else jnp.asarray(mean, d.np))
    node = (
        "NormalBackward3"
        if len(inputs) == 2
        else "NormalBackward1"
        if isinstance(mean, Tensor)
        else "NormalBackward2"
    )
    return _with_history(node, inputs, drawn)


def _check_deviations(std: Any) -> None:
    if std.dtype.kind == "c":
        raise RuntimeError("normal expects standard deviation to be non-complex")
    refuse(lambda std: std < 0, lambda std: RuntimeError("normal expects all elements of std >= 0.0"), std)


@composite("multinomial")
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Indices drawn with probabilities proportional to the rows of ``input``.

    Args:
        input: weights, not negative, of shape (n,) or (m, n).
        num_samples: how many indices to draw per row.
        replacement: whether an index may be drawn again.
        generator: where the numbers come from.
        out: a tensor to write to.

    Shape:
        (num_samples,) or (m, num_samples), int64.

    Raises:
        RuntimeError: for weights that are negative, infinite, nan or all zero, or too many samples.

    Example:
        >>> import functorch_port as torch
        >>> torch.multinomial(torch.tensor([0.0, 3.0]), 4, replacement=True)
        tensor([1, 1, 1, 1])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.multinomial.html
    """
    weights = _require("multinomial", input)._value
    if out is not None and out.dtype is not dtypes.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.scalar_name}")
    _check_multinomial(weights, num_samples, replacement)
    shape = (*weights.shape[:-1], num_samples)
    if _is_meta(weights) or 0 in shape:
        empty = jax.ShapeDtypeStruct(shape, np.int64)
        value: Any = empty if _is_meta(weights) else jnp.zeros(shape, np.int32)
    else:
        _check_weights(weights, fast=not replacement or num_samples == 1)
        sample = _without_replacement if not replacement or num_samples == 1 else _with_replacement
        value = sample(weights, num_samples, generator)
    with storage.x64():
        made = wrap(value if _is_meta(value) else jnp.asarray(value, jax.dtypes.canonicalize_dtype(np.int64)))
    return made if out is None else creation._into(out, made)


def _check_multinomial(weights: Any, count: int, replacement: bool) -> None:
    if len(weights.shape) not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    d = dtypes.from_np(weights.dtype)
    if not d.is_floating_point:
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {d.scalar_name}")
    if count <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and count > weights.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if weights.shape[-1] > 1 << 24:
        raise RuntimeError("number of categories cannot exceed 2^24")


def _check_weights(weights: Any, fast: bool) -> None:
    text = "invalid multinomial distribution ({})"

    def error(weights: Any) -> Exception:
        if fast and not np.all((weights >= 0) & (weights < np.inf)):
            return RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        if not np.all(weights >= 0):
            return RuntimeError(text.format("encountering probability entry < 0"))
        if not np.all(weights < np.inf):
            return RuntimeError(text.format("encountering probability entry = infinity or NaN"))
        return RuntimeError(text.format("sum of probabilities <= 0"))

    def bad(weights: Any) -> Any:
        return ~((weights >= 0) & (weights < np.inf)).all(-1) | ~(weights > 0).any(-1)

    refuse(bad, error, weights)


def _without_replacement(weights: Any, count: int, generator: Generator | None) -> Any:
    """The largest of weight / exponential noise: an exponential race."""
    noise = draw(generator, "exponential", weights.shape, dtypes.from_np(weights.dtype))
    with storage.x64():
        return jax.lax.top_k(weights / noise, count)[1]


def _with_replacement(weights: Any, count: int, generator: Generator | None) -> Any:
    """Positions of uniform numbers in the cumulative distribution."""
    traced = isinstance(weights, jax.core.Tracer)
    in_double = not storage.overlay or storage.overlay.rng == "torch"
    u = draw(
        generator, "uniform", (*weights.shape[:-1], count), dtypes.float64 if in_double else dtypes.float32
    )
    kind = np.float64 if weights.dtype == np.float64 else np.float32
    with storage.x64():
        rows, samples = weights.reshape(-1, weights.shape[-1]).astype(kind), u.reshape(-1, count)
    if traced or isinstance(u, jax.core.Tracer):
        with storage.x64():
            found = jax.vmap(lambda w, x: _positions(jnp, jnp.cumsum(w), x))(rows, samples)
    else:
        pairs = zip(np.asarray(rows), np.asarray(samples), strict=True)
        found = np.stack([_positions(np, np.cumsum(w), x) for w, x in pairs])  # in order, as PyTorch adds up
    return found.reshape(u.shape)


def _positions(xp: Any, cumulative: Any, u: Any) -> Any:
    cumulative = (cumulative / cumulative[-1]).astype(u.dtype)
    return xp.minimum(xp.searchsorted(cumulative, u, side="left"), cumulative.shape[0] - 1)


@composite("poisson", where="torch")
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson numbers with the rates in ``input``.

    Args:
        input: rates, not negative.
        generator: where the numbers come from.

    Example:
        >>> import functorch_port as torch
        >>> torch.poisson(torch.zeros(2))
        tensor([0., 0.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.poisson.html
    """
    rates = _require("poisson", input)._value
    d = dtypes.from_np(rates.dtype)
    if not d.is_floating_point:
        raise _unsupported("poisson_cpu", d)
    if _is_meta(rates):
        return wrap(rates)
    text = "invalid Poisson rate, expected rate to be non-negative"
    refuse(lambda rates: ~(rates >= 0), lambda rates: RuntimeError(text), rates)
    value = draw(generator, "poisson", rates.shape, d, rate=rates)
    return _with_history("PoissonBackward0", [input], value)
