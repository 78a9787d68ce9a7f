"""The distributions of `_random.mersenne` as pure functions of a JAX key: what compiled programs draw from.

Float results are computed in float32 (float64 for double types) and cast, so that no 64-bit array appears in
a program that did not ask for one.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array.sizes import plain_dim
from .._base import dtypes, settings
from .._base.dtypes import dtype

__all__ = ["draw", "key_data", "key_of", "split"]

Shape = tuple[int, ...]


def _kind() -> str:
    """JAX's generator that new keys are for."""
    chosen = settings.get("KEYS")
    if chosen != "auto":
        return chosen  # type: ignore[no-any-return]
    return "rbg" if jax.default_backend() == "tpu" else "threefry2x32"


def key_data(seed: int) -> np.ndarray[Any, Any]:
    """The data of the JAX key for a 64-bit seed: a threefry key, or an RBG key (two of them)."""
    halves = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
    return np.tile(halves, 2) if _kind() == "rbg" else halves


def split(data: Any) -> tuple[Any, jax.Array]:
    """(data of the next key, a key to draw from)."""
    name = "rbg" if data.shape[-1] == 4 else "threefry2x32"
    following, own = jax.random.split(jax.random.wrap_key_data(jnp.asarray(data), impl=name))
    return jax.random.key_data(following), own


def key_of(words: Any) -> jax.Array:
    """The JAX key that two random words of 32 bits give."""
    data, name = jnp.asarray(words).astype(np.uint32), _kind()
    return jax.random.wrap_key_data(jnp.tile(data, 2) if name == "rbg" else data, impl=name)


def draw(kind: str, key: jax.Array, shape: Shape, d: dtype, **params: Any) -> jax.Array:
    """An array of ``kind`` ("uniform", "normal", ...; the methods of `mersenne.Stream`) from a JAX key."""
    return _KINDS[kind](key, tuple(map(plain_dim, shape)), d, **params)


def _float(d: dtype) -> np.dtype[Any]:
    """The type to compute in."""
    return jax.dtypes.canonicalize_dtype(np.float64 if d is dtypes.float64 else np.float32)


def _cast(x: jax.Array, d: dtype) -> jax.Array:
    return lax.convert_element_type(x, jax.dtypes.canonicalize_dtype(d.np))


def _complex(fn: Any, key: jax.Array, shape: Shape, d: dtype, **params: Any) -> jax.Array:
    pairs = fn(key, (*shape, 2), d.to_real(), **params)
    return lax.complex(pairs[..., 0], pairs[..., 1])


def _uniform(key: jax.Array, shape: Shape, d: dtype, low: Any = 0.0, high: Any = 1.0) -> jax.Array:
    if d.is_complex:
        return _complex(_uniform, key, shape, d, low=low, high=high)
    out = _cast(jax.random.uniform(key, shape, _float(d), low, high), d)
    return jnp.where(out >= jnp.asarray(high, out.dtype), jnp.asarray(low, out.dtype), out)


def _normal(
    key: jax.Array, shape: Shape, d: dtype, mean: Any = 0.0, std: Any = 1.0, contiguous: bool = True
) -> jax.Array:
    if d.is_complex:
        return _complex(_normal, key, shape, d, mean=mean, std=std / math.sqrt(2))
    out = jax.random.normal(key, shape, _float(d))
    return _cast(out * std + mean, d)


def _truncated_normal(
    key: jax.Array, shape: Shape, d: dtype, mean: Any, std: Any, low: Any, high: Any
) -> jax.Array:
    work = _float(d)
    cut = jax.random.truncated_normal(key, (low - mean) / std, (high - mean) / std, shape, work)
    return _cast(jnp.clip(cut * std + mean, low, high), d)


def _integers(key: jax.Array, shape: Shape, d: dtype, low: int, high: int) -> jax.Array:
    span = high - low
    if span <= 1 << 32 or not jax.config.jax_enable_x64:
        bits = jax.random.bits(key, shape, np.uint32)
        bits = bits if span >= 1 << 32 else bits % np.uint32(span)
    else:
        bits = jax.random.bits(key, shape, np.uint64)
        bits = bits if span >= 1 << 64 else bits % np.uint64(span)
    narrow = low >= -(1 << 31) and high <= 1 << 31 and span <= 1 << 31
    wide = jax.dtypes.canonicalize_dtype(np.float64 if d is dtypes.float64 else np.int64)
    work = np.dtype(np.int32) if narrow else wide
    return _cast(bits.astype(work) + jnp.asarray(low, work), d)


def _full_range(key: jax.Array, shape: Shape, d: dtype) -> jax.Array:
    if d is dtypes.bool_:
        return _integers(key, shape, dtypes.uint8, 0, 2) != 0
    if d.is_floating_point:
        digits = 1 - round(math.log2(dtypes.finfo(d).eps))
        return _integers(key, shape, d, 0, (1 << digits) + 1)
    return _integers(key, shape, d, 0, dtypes.iinfo(d).max + 1)


def _bernoulli(key: jax.Array, shape: Shape, d: dtype, p: Any) -> jax.Array:
    if not isinstance(p, int | float):
        return _cast(jax.random.uniform(key, shape, np.float32) < p, d)
    if p >= 1:
        return jnp.ones(shape, jax.dtypes.canonicalize_dtype(d.np))
    return _cast(jax.random.bits(key, shape, np.uint32) < np.uint32(p * 2.0**32), d)


def _exponential(key: jax.Array, shape: Shape, d: dtype, rate: Any = 1.0) -> jax.Array:
    return _cast(jax.random.exponential(key, shape, _float(d)) / rate, d)


def _geometric(key: jax.Array, shape: Shape, d: dtype, p: Any) -> jax.Array:
    u = jax.random.uniform(key, shape, np.float32, np.finfo(np.float32).tiny, 1.0)
    return _cast(jnp.ceil(jnp.log(u) / math.log1p(-p)), d)


def _cauchy(key: jax.Array, shape: Shape, d: dtype, median: Any = 0.0, sigma: Any = 1.0) -> jax.Array:
    return _cast(jax.random.cauchy(key, shape, _float(d)) * sigma + median, d)


def _log_normal(key: jax.Array, shape: Shape, d: dtype, mean: Any = 1.0, std: Any = 2.0) -> jax.Array:
    return _cast(jnp.exp(jax.random.normal(key, shape, _float(d)) * std + mean), d)


def _permutation(key: jax.Array, shape: Shape, d: dtype) -> jax.Array:
    return _cast(jax.random.permutation(key, shape[0]), d)


def _gamma(key: jax.Array, shape: Shape, d: dtype, concentration: Any) -> jax.Array:
    drawn = jax.random.gamma(key, concentration.astype(_float(d)), shape)
    return _cast(jnp.maximum(drawn, float(dtypes.finfo(d).tiny)), d)


def _dirichlet(key: jax.Array, shape: Shape, d: dtype, concentration: Any) -> jax.Array:
    logs = jax.random.loggamma(
        key, concentration.astype(_float(d)), shape
    )  # small gamma numbers would be zero
    below = np.nextafter(d.np.type(1), d.np.type(0))
    return jnp.clip(_cast(jax.nn.softmax(logs, -1), d), float(dtypes.finfo(d).tiny), below)


def _poisson(key: jax.Array, shape: Shape, d: dtype, rate: Any) -> jax.Array:
    return _cast(jax.random.poisson(key, rate.astype(np.float32), shape), d)


def _binomial(key: jax.Array, shape: Shape, d: dtype, count: Any, prob: Any) -> jax.Array:
    return _cast(jax.random.binomial(key, count, prob, shape), d)


_KINDS = {
    "uniform": _uniform,
    "normal": _normal,
    "truncated_normal": _truncated_normal,
    "integers": _integers,
    "full_range": _full_range,
    "bernoulli": _bernoulli,
    "exponential": _exponential,
    "geometric": _geometric,
    "cauchy": _cauchy,
    "log_normal": _log_normal,
    "permutation": _permutation,
    "gamma": _gamma,
    "dirichlet": _dirichlet,
    "poisson": _poisson,
    "binomial": _binomial,
}
