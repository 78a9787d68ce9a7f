"""Tensors filled with random numbers in place: `uniform_`, `normal_`, `bernoulli_`, `exponential_`, ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from functorch_port._array import executor, tracing
from functorch_port._array.refusal import refuse
from functorch_port._base import dtypes
from functorch_port._base.dtypes import dtype as DType
from functorch_port._random.generator import Generator, draw
from functorch_port._random.mersenne import accepts_normals
from functorch_port._run.registry import composite
from functorch_port._tensor.tensor import Tensor
from functorch_port.ops._common import check_expand
from functorch_port.ops._drawing import (
    _C_NAMES,
    _INT64_MIN,
    _fill,
    _integer,
    _is_meta,
    _number,
    _overwrite,
    _refuse_unless_inexact,
    _unsupported,
)
from functorch_port.ops._ranges import _check_range, _digits, _range

_BAD_PROBABILITY = (
    "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  "
    "If so, please report an enhancement request to PyTorch.)"
)


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
    """Fill with uniform numbers in [``from``, ``to``), by default [0, 1)."""
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
    if _is_meta(tensor._aval()):
        return tensor
    value = draw(
        generator, "truncated_normal", tuple(tensor.shape), d, mean=mean, std=std, low=low, high=high
    )
    return _overwrite(tensor, "NormalBackward0", value)


@composite("normal_", where="method")
def normal_(self: Tensor, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
    """Fill with normal numbers of this ``mean`` (0) and standard deviation ``std`` (1)."""
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
    """Fill with integers in [``from``, ``to``); by default from 0 to the dtype's largest (2**24 for float32)."""
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
    """Fill with ones with probability ``p`` (a number, or a tensor of probabilities), else with zeros."""
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
    chances = p._look()
    kind = dtypes.from_np(chances.dtype)
    if not kind.is_floating_point:
        raise _unsupported("bernoulli_tensor_cpu_p_", kind)
    if _is_meta(chances):
        return jax.ShapeDtypeStruct(tuple(shape), d.np)
    refuse(lambda p: ~((p >= 0) & (p <= 1)), lambda p: RuntimeError(_BAD_PROBABILITY), chances)
    u = draw(generator, "uniform", tuple(shape), kind if kind is dtypes.float64 else dtypes.float32)
    with tracing.x64():
        made = (u < chances.astype(u.dtype)).astype(d.np)
    return executor.current.place(made) if isinstance(made, np.ndarray) else made


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
    """Fill with numbers of trials until the first success, whose probability is ``p``."""
    self._check_inplace()
    chance = _number("geometric_", "p", 1, p)
    if not 0 < chance < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={chance:g}")
    if self.dtype is dtypes.bool_ or self.dtype.is_complex:
        raise _unsupported("geometric_cpu", self.dtype)
    return _fill(self, "GeometricBackward0", "geometric", generator, p=chance)


@composite("cauchy_", where="method")
def cauchy_(self: Tensor, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
    """Fill with Cauchy numbers of this ``median`` (0) and scale ``sigma`` (1)."""
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
    """Fill with exponentials of normal numbers of this ``mean`` (1) and standard deviation ``std`` (2)."""
    mean, std = _two("log_normal_", args, kwargs, ("mean", "std"), (1.0, 2.0))
    self._check_inplace()
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    _refuse_unless_inexact("log_normal_cpu", self.dtype, complex_too=False)
    return _fill(self, "LogNormalBackward0", "log_normal", generator, mean=mean, std=std)
