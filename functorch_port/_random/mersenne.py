"""The random numbers of PyTorch's CPU generator, reproduced on the host with numpy's Mersenne Twister.

`Stream` is the sequence of 32-bit words and what PyTorch makes of it, distribution by distribution. The
numbers are those of PyTorch 2.13 on x86 processors with AVX2 or later: the same words are consumed in the
same order, and float32 results are equal to the last bit. (float64 normals can differ by one unit in the last
place, where numpy's logarithm or cosine rounds differently from the C library's.)
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .._base import dtypes
from .._base.dtypes import dtype
from . import normals

__all__ = ["DEFAULT_SEED", "STATE_SIZE", "Stream"]

DEFAULT_SEED = 67280421310721
STATE_SIZE = 5056

NDArray = np.ndarray[Any, np.dtype[Any]]

# PyTorch's state bytes: seed, words left, seeded, next word, 624 words, normal x, y, rho, whether y is a
# cached normal, and a cached float normal that is never used
_HEADER, _TAIL = struct.Struct("<QiiQ"), struct.Struct("<8sd8si4xf?3x")
_WORDS = 624


class Stream:
    """One Mersenne Twister with PyTorch's ways of drawing from it.

    Attributes:
        seed: the 64-bit seed it started from.
    """

    def __init__(self, seed: int = DEFAULT_SEED) -> None:
        self.reseed(seed)

    def reseed(self, seed: int) -> None:
        """Start again from ``seed`` (its low 32 bits make the words, as in PyTorch)."""
        self.seed = seed
        self._source = np.random.RandomState(seed & 0xFFFFFFFF)
        self._cached_normal: float | None = None
        self._untouched = True

    def get(self) -> tuple[Any, ...]:
        """All of its state, for `set`."""
        return self.seed, self._source.get_state(legacy=False), self._cached_normal, self._untouched

    def set(self, state: tuple[Any, ...]) -> None:
        """Go back to where it was at `get`."""
        self.seed, words, self._cached_normal, self._untouched = state
        self._source.set_state(words)

    # words

    def words(self, n: int) -> NDArray:
        """The next ``n`` 32-bit words."""
        self._untouched = self._untouched and n == 0
        return self._source.randint(0, 1 << 32, n, dtype=np.uint32)

    def words64(self, n: int) -> NDArray:
        """The next ``n`` 64-bit numbers, each of two words, the high one first."""
        pairs = self.words(2 * n).view(np.uint64)
        if sys.byteorder == "little":
            low = pairs >> np.uint64(32)
            pairs <<= np.uint64(32)
            pairs |= low
        return pairs

    def uniform24(self, n: int) -> NDArray:
        """float32 numbers in [0, 1): the low 24 bits of a word."""
        return normals.uniform24(self.words(n))

    def uniform53(self, n: int) -> NDArray:
        """float64 numbers in [0, 1): the low 53 bits of a 64-bit number."""
        numbers = self._digits53(n).astype(np.float64)
        numbers *= 2.0**-53
        return numbers

    def _digits53(self, n: int) -> NDArray:
        numbers = self.words64(n)
        numbers &= np.uint64((1 << 53) - 1)
        return numbers

    # distributions: every one returns a flat array of n numbers of type d

    def uniform(self, n: int, d: dtype, low: float = 0.0, high: float = 1.0) -> NDArray:
        """Uniform on [low, high); a result that rounds up to ``high`` becomes ``low``."""
        if d.is_complex:
            return self.uniform(2 * n, d.to_real(), low, high).view(d.np)
        if d is dtypes.float64:
            out = self.uniform53(n)
            out = out if (low, high) == (0.0, 1.0) else _fma64(out, high - low, low)
        else:
            low32, high32 = np.float32(low), np.float32(high)
            out = self.uniform24(n)
            out = out if (low, high) == (0.0, 1.0) else normals.fma(out, high32 - low32, low32)
        out = out.astype(d.np, copy=False)
        first, end = np.asarray(low).astype(d.np), np.asarray(high).astype(d.np)
        if d is dtypes.float32 and (low, high) == (0.0, 1.0):
            return out
        return np.where(out >= end, first, out)

    def normal(
        self, n: int, d: dtype, mean: float = 0.0, std: float = 1.0, contiguous: bool = True
    ) -> NDArray:
        """Normal: Box-Muller in blocks of 16 for 16 or more contiguous elements, else pair by pair.

        A last block that is not full is replaced by the block of the last 16 elements, drawn anew.
        """
        if d.is_complex:
            return self.normal(2 * n, d.to_real(), mean, std / math.sqrt(2), contiguous).view(d.np)
        if n < 16 or not contiguous:
            return _cast(_fma64(self._paired_normals(n), std, mean), d)
        full = n - n % 16
        if d is dtypes.float64:
            uniforms = self.uniform53(n)
            tail = self.uniform53(16) if n % 16 else uniforms[:0]
            out = np.empty(n)
            for start in range(0, full, normals.AT_ONCE):
                block = uniforms[start : min(start + normals.AT_ONCE, full)]
                out[start : start + block.size] = _fma64(_box_muller64(block), std, mean)
            out[n - tail.size :] = _fma64(_box_muller64(tail), std, mean)
            return out
        words = self.words(full if d.itemsize == 2 else n)
        last = self.words(16) if n % 16 else words[:0]
        single = np.empty(n, np.float32)
        normals.fill(single[:full], words[:full], mean, std)
        normals.fill(single[n - last.size :], last, mean, std)
        return _cast(single, d)

    def _paired_normals(self, n: int) -> NDArray:
        """Standard normals in float64; the second of a pair is kept for the next call."""
        out = np.empty(n, np.float64)
        start = 0
        if n and self._cached_normal is not None:
            out[0], self._cached_normal, start = self._cached_normal, None, 1
        pairs = (n - start + 1) // 2
        if pairs:
            u = self.uniform53(2 * pairs)
            radius, angle = np.sqrt(-2 * _libm(math.log1p, -u[1::2])), 2 * np.pi * u[0::2]
            cosine, sine = _libm(math.cos, angle), _libm(math.sin, angle)
            both = np.stack([radius * cosine, radius * sine], axis=1).ravel()
            out[start:] = both[: n - start]
            if both.size > n - start:
                self._cached_normal = float(both[-1])
        return out

    def truncated_normal(self, n: int, d: dtype, mean: float, std: float, low: float, high: float) -> NDArray:
        """Normal numbers in [low, high]: drawn until they fit, from a normal or (a narrow cut) a uniform."""
        if accepts_normals(mean, std, low, high):
            first, last = np.asarray(low).astype(d.np), np.asarray(high).astype(d.np)
            out = self.normal(n, d, mean, std)
            while np.any(outside := (out < first) | (out > last)):
                out = np.where(outside, self.normal(n, d, mean, std), out)
            return out
        peak = -0.5 * ((max(low, min(mean, high)) - mean) / std) ** 2
        out, pending = self.uniform(n, d, low, high), np.ones(n, np.bool_)
        candidates = out
        while True:
            height = _log_density(candidates, d, mean, std, peak)
            with np.errstate(divide="ignore"):
                chance = np.log(self.uniform(n, d).astype(_wide(d))).astype(d.np)
            pending = pending & (chance > height)
            if not pending.any():
                return out
            candidates = self.uniform(n, d, low, high)
            out = np.where(pending, candidates, out)

    def integers(self, n: int, d: dtype, low: int, high: int) -> NDArray:
        """Integers in [low, high): one word each, two when the range is 2**28 or more."""
        span = high - low
        if span >= 1 << 64:
            return self.words64(n).view(np.int64).astype(d.np)
        if span >= 1 << 28:
            drawn = self.words64(n) % np.uint64(span)
        else:
            drawn = (self.words(n) % np.uint32(span)).astype(np.uint64)
        return (drawn + np.uint64(low % (1 << 64))).view(np.int64).astype(d.np)

    def full_range(self, n: int, d: dtype) -> NDArray:
        """What ``random_()`` gives: integers in [0, max]; for float types in [0, 2**digits]."""
        if d is dtypes.bool_:
            return (self.words(n) & np.uint32(1)).astype(np.bool_)
        if d.is_floating_point:
            return self._remainders(n, (1 << _digits(d)) + 1, wide=d is dtypes.float64).astype(d.np)
        return self._remainders(n, int(np.iinfo(d.np).max) + 1, wide=d is dtypes.int64).astype(d.np)

    def _remainders(self, n: int, span: int, wide: bool) -> NDArray:
        return self.words64(n) % np.uint64(span) if wide else self.words(n) % np.uint32(span)

    def bernoulli(self, n: int, d: dtype, p: float) -> NDArray:
        """1 with probability ``p``, else 0."""
        return (self._digits53(n) < np.uint64(math.ceil(p * 2.0**53))).astype(d.np)

    def exponential(self, n: int, d: dtype, rate: float = 1.0) -> NDArray:
        """Exponential with the given rate."""
        return _cast(-1.0 / rate * np.log1p(-self.uniform53(n)), d)

    def geometric(self, n: int, d: dtype, p: float) -> NDArray:
        """The number of trials up to the first success."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return _cast(np.ceil(np.log(self.uniform53(n)) / math.log1p(-p)), d)

    def cauchy(self, n: int, d: dtype, median: float = 0.0, sigma: float = 1.0) -> NDArray:
        """Cauchy."""
        return _cast(_fma64(np.tan(np.pi * (self.uniform53(n) - 0.5)), sigma, median), d)

    def log_normal(self, n: int, d: dtype, mean: float = 1.0, std: float = 2.0) -> NDArray:
        """The exponential of a normal."""
        return _cast(np.exp(_fma64(self._paired_normals(n), std, mean)), d)

    def permutation(self, n: int, d: dtype) -> NDArray:
        """0 .. n-1 in random order (Fisher-Yates, forward)."""
        out = np.arange(n, dtype=np.int64)
        if n > 1:
            drawn = (self.words64 if n >= (1 << 32) // 20 else self.words)(n - 1)
            steps = drawn % np.arange(n, 1, -1, dtype=np.uint64)
            cells: Any = memoryview(out)  # type: ignore[arg-type]  # faster to swap in than a list
            for i, j in enumerate((steps.astype(np.int64) + np.arange(n - 1)).tolist()):
                cells[i], cells[j] = cells[j], cells[i]
        return out.astype(d.np)

    def poisson(self, n: int, d: dtype, rate: Any) -> NDArray:
        """Poisson numbers of the given rates; how many words one takes depends on chance."""
        return self._one_by_one(lambda uniform, normal, rate: _poisson(rate, uniform), _of(n, rate)).astype(
            d.np
        )

    def gamma(self, n: int, d: dtype, concentration: Any) -> NDArray:
        """Gamma numbers of the given concentrations and rate 1, not smaller than the smallest normal number.

        Arithmetic with the concentrations alone is rounded to their type.
        """
        concentration = _of(n, concentration)
        kind, third = concentration.dtype.type, np.float32(1 / 3)
        small = concentration < 1
        boosted = np.where(small, concentration + kind(1), concentration)
        with np.errstate(divide="ignore"):
            powers = np.where(small, kind(1) / concentration, kind(0))
        shifted = (boosted - kind(third)).astype(np.float64)  # PyTorch's third is a float32 one
        drawn = self._one_by_one(_gamma, shifted, powers.astype(np.float64))
        return np.maximum(drawn, float(dtypes.finfo(d).tiny)).astype(d.np)

    def dirichlet(self, n: int, d: dtype, concentration: Any) -> NDArray:
        """Points of the simplex, of concentrations along the last dimension: gamma numbers divided by their sum."""
        concentration = np.asarray(concentration, np.float64)
        gammas = self.gamma(n, dtypes.float64, concentration).reshape(-1, concentration.shape[-1])
        parts = (gammas / gammas.sum(-1, keepdims=True)).astype(d.np)
        return np.clip(parts, dtypes.finfo(d).tiny, np.nextafter(d.np.type(1), d.np.type(0))).ravel()

    def binomial(self, n: int, d: dtype, count: Any, prob: Any) -> NDArray:
        """Binomial numbers of the given numbers of trials and chances."""

        def draw(uniform: Any, normal: Any, count: float, prob: float) -> float:
            return _binomial(count, prob, uniform)

        wide = (_of(n, p).astype(np.float64) for p in (count, prob))
        return self._one_by_one(draw, *wide).astype(d.np)

    def _one_by_one(self, draw: Callable[..., float], *params: NDArray) -> NDArray:
        """``draw(uniform, normal, *numbers)`` for the numbers at every place of ``params``.

        The two functions give the next standard number; how many are asked for depends on chance.
        """
        size = params[0].size
        start, used, chunk = self._source.get_state(), 0, self.uniform53(4 * size + 64).tolist()

        def uniform() -> float:
            nonlocal used
            if used == len(chunk):
                chunk.extend(self.uniform53(len(chunk)).tolist())
            used += 1
            return chunk[used - 1]

        def normal() -> float:
            if self._cached_normal is not None:
                value, self._cached_normal = self._cached_normal, None
                return value
            angle = 2 * math.pi * uniform()
            radius = math.sqrt(-2 * math.log1p(-uniform()))
            self._cached_normal = radius * math.sin(angle)
            return radius * math.cos(angle)

        rows = zip(*(p.tolist() for p in params), strict=True)
        out = np.array([draw(uniform, normal, *row) for row in rows], np.float64)
        self._source.set_state(start)  # give back what was drawn ahead
        self.words(2 * used)
        return out

    # state

    def state_bytes(self, extra: bytes = b"") -> bytes:
        """The state in PyTorch's layout of 5056 bytes.

        Args:
            extra: up to 16 bytes to carry along, in fields that PyTorch does not read.
        """
        _, key, position, *_ = self._source.get_state()
        left, following = (1, 0) if self._untouched else (_WORDS + 1 - position, position)
        extra = extra.ljust(16, b"\0")
        cached = self._cached_normal
        tail = _TAIL.pack(extra[:8], cached or 0.0, extra[8:], cached is not None, 0.0, False)
        return _HEADER.pack(self.seed, left, 1, following) + key.astype("<u8").tobytes() + tail

    def load_state_bytes(self, data: bytes) -> bytes:
        """Take over a state in PyTorch's layout; returns the 16 extra bytes.

        Raises:
            RuntimeError: it cannot be one.
        """
        seed, left, seeded, following = _HEADER.unpack_from(data)
        following &= 0xFFFFFFFF
        if not seeded or not 0 < left <= _WORDS or following > _WORDS:
            raise RuntimeError("Invalid mt19937 state")
        self.seed = seed
        key = np.frombuffer(data, "<u8", _WORDS, _HEADER.size).astype(np.uint32)
        first, cached, last, valid, _, _ = _TAIL.unpack_from(data, _HEADER.size + 8 * _WORDS)
        self._cached_normal = cached if valid else None
        self._untouched = (left, following) == (1, 0)
        self._source.set_state(("MT19937", key, _WORDS if left == 1 else following, 0, 0.0))
        return bytes(first + last)


def _of(n: int, parameter: Any) -> NDArray:
    """``n`` parameters: those that there are, over and over."""
    return np.resize(np.asarray(parameter), n)


def accepts_normals(mean: float, std: float, low: float, high: float) -> bool:
    """Whether enough of a normal distribution lies in [low, high] to draw from it and reject the rest."""
    below, above = ((1 + math.erf((bound - mean) / std / math.sqrt(2))) / 2 for bound in (low, high))
    return above - below > 0.3


def _wide(d: dtype) -> type[np.floating[Any]]:
    """The type that PyTorch's arithmetic on type ``d`` is done in."""
    return np.float64 if d is dtypes.float64 else np.float32


def _log_density(x: NDArray, d: dtype, mean: float, std: float, peak: float) -> NDArray:
    """The logarithm of a normal density, less its value at the peak; rounded to ``d`` after each step."""
    wide = _wide(d)
    x = (x.astype(wide) - wide(mean)).astype(d.np)
    x = (x.astype(wide) / wide(std)).astype(d.np).astype(wide)
    x = (x * x).astype(d.np)
    x = (x.astype(wide) * wide(-0.5)).astype(d.np)
    return (x.astype(wide) - wide(peak)).astype(d.np)


def _poisson(rate: float, uniform: Callable[[], float]) -> int:
    """One Poisson number: products of uniforms for small rates, else Hoermann's rejection (PTRS, 1993)."""
    if rate == 0:
        return 0
    if rate < 10:
        count, product, floor = 0, uniform(), math.exp(-rate)
        while product > floor:
            count, product = count + 1, product * uniform()
        return count
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha, v_squeeze = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = uniform() - 0.5, uniform()
        margin = 0.5 - abs(u)
        k = math.floor((2 * a / margin + b) * u + rate + 0.43) if margin else -1
        if margin >= 0.07 and v <= v_squeeze:
            return k
        if k < 0 or (margin < 0.013 and v > margin):
            continue
        bound = k * math.log(rate) - rate - math.lgamma(k + 1)
        if (math.log(v) if v else -math.inf) + math.log(inverse_alpha) - math.log(a / margin**2 + b) <= bound:
            return k


def _gamma(uniform: Callable[[], float], normal: Callable[[], float], d: float, power: float) -> float:
    """One gamma number of concentration ``d + 1/3``: Marsaglia and Tsang's rejection (2000).

    ``power`` is what their boost of concentrations below 1 raises a uniform number to; 0 for larger ones.
    """
    if power == math.inf:
        return 0.0
    scale = (1 - uniform()) ** power if power else 1.0
    c = 1 / math.sqrt(9 * d)
    while True:
        y = 0.0
        while y <= 0:
            x = normal()
            y = 1 + c * x
        v = y * y * y
        u = 1 - uniform()
        square = x * x
        if u < 1 - _SQUEEZE * square * square or math.log(u) < 0.5 * square + d * (1 - v + math.log(v)):
            return scale * d * v


_SQUEEZE = float(np.float32(0.0331))


def _binomial(count: float, prob: float, uniform: Callable[[], float]) -> float:
    """One binomial number, of the rarer outcome: waiting times where few are expected, else rejection."""
    if count <= 0 or prob <= 0:
        return 0.0
    if prob >= 1:
        return count
    if not prob <= 0.5:
        return count - _binomial_rare(count, 1 - prob, uniform) if prob > 0.5 else math.nan
    return _binomial_rare(count, prob, uniform)


def _binomial_rare(count: float, prob: float, uniform: Callable[[], float]) -> float:
    if count * prob < 10:
        found, waited, log_miss = 0, 0.0, math.log1p(-prob)
        while True:
            u = uniform()
            waited += math.ceil(math.log(u) / log_miss) if u else math.inf
            if waited > count:
                return found
            found += 1
    # Hoermann's transformed rejection with squeeze (BTRS, 1993)
    spread = math.sqrt(count * prob * (1 - prob))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * prob
    c, v_squeeze, odds = count * prob + 0.5, 0.92 - 4.2 / b, prob / (1 - prob)
    alpha, mode = (2.83 + 5.1 / b) * spread, math.floor((count + 1) * prob)
    while True:
        u, v = uniform() - 0.5, uniform()
        margin = 0.5 - abs(u)
        k = math.floor((2 * a / margin + b) * u + c) if margin else -1
        if margin >= 0.07 and v <= v_squeeze:
            return k
        if k < 0 or k > count:
            continue
        v = math.log(v * alpha / (a / margin**2 + b)) if v else -math.inf
        bound = (
            (mode + 0.5) * math.log((mode + 1) / (odds * (count - mode + 1)))
            + (count + 1) * math.log((count - mode + 1) / (count - k + 1))
            + (k + 0.5) * math.log(odds * (count - k + 1) / (k + 1))
            + (_stirling(mode) + _stirling(count - mode) - _stirling(k) - _stirling(count - k))
        )
        if v <= bound:
            return k


def _stirling(k: float) -> float:
    """What Stirling's approximation of ``log(k!)`` lacks."""
    if k <= 9:
        n = int(k)
        return math.lgamma(n + 1) - ((n + 0.5) * math.log(n + 1) - (n + 1) + 0.5 * math.log(2 * math.pi))
    square = (k + 1) ** 2
    return (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)


def _libm(fn: Callable[[float], float], x: NDArray) -> NDArray:
    """``fn`` of the C library, element by element: numpy's own can round differently in the last place."""
    return np.fromiter(map(fn, x.tolist()), np.float64, x.size)


def _digits(d: dtype) -> int:
    """Bits of a float type's significand."""
    return {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}[d]


def _cast(x: NDArray, d: dtype) -> NDArray:
    """float64 results as type ``d``; the 16-bit types are rounded by way of float32, as in PyTorch."""
    with np.errstate(over="ignore", invalid="ignore"):
        if d.is_floating_point and d.itemsize == 2:
            x = x.astype(np.float32)
        return x.astype(d.np, copy=False)


def _fma64(a: NDArray, b: float, c: float) -> NDArray:
    """``a * b + c`` rounded once, with Dekker's exact product and Knuth's exact sum."""
    if (b, c) == (1.0, 0.0):
        return a
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(np.float64(b))
    product_error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    total = product + c
    shared = total - product
    total_error = (product - (total - shared)) + (c - shared)
    rounded = total + (product_error + total_error)
    return np.where(np.isfinite(rounded), rounded, product + c)


def _split(x: Any) -> tuple[Any, Any]:
    scaled = 134217729.0 * x  # 2**27 + 1
    high = scaled - (scaled - x)
    return high, x - high


def _box_muller64(uniforms: NDArray) -> NDArray:
    blocks = uniforms.reshape(-1, 16)
    radius = np.sqrt(-2 * np.log(1 - blocks[:, :8]))
    angle = 2 * np.pi * blocks[:, 8:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()
