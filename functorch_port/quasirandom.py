"""``torch.quasirandom``: points that fill a cube evenly.

Reference: https://docs.pytorch.org/docs/stable/generated/torch.quasirandom.SobolEngine.html
"""

from __future__ import annotations

import functools
import importlib.resources
import io
from typing import Any

import numpy as np

from ._base import dtypes
from ._random.generator import Generator
from ._run.bind import function
from ._tensor.creation import from_numpy
from ._tensor.tensor import Tensor

__all__ = ["SobolEngine"]

_BITS = 30


@functools.lru_cache(maxsize=1)
def _table() -> tuple[np.ndarray, np.ndarray]:
    """The primitive polynomials of Joe and Kuo (2008), and the first direction numbers; scipy ships them."""
    file = importlib.resources.files("scipy.stats").joinpath("_sobol_direction_numbers.npz")
    with np.load(io.BytesIO(file.read_bytes())) as found:
        return found["poly"], found["vinit"]


def _directions(dimension: int) -> np.ndarray:
    """The direction numbers, (dimension, 30), as 30-bit integers."""
    polynomials, first = _table()
    found = np.ones((dimension, _BITS), np.int64)
    for row in range(1, dimension):
        polynomial = int(polynomials[row])
        degree = polynomial.bit_length() - 1
        numbers = [int(v) for v in first[row][:degree]]
        for k in range(degree, _BITS):
            new = numbers[k - degree]
            for i in range(degree):
                if polynomial >> (degree - 1 - i) & 1:
                    new ^= numbers[k - i - 1] << (i + 1)
            numbers.append(new)
        found[row] = numbers[:_BITS]
    return found << np.arange(_BITS - 1, -1, -1)


class SobolEngine:
    """Sobol' sequences: points of the unit cube that fill it more evenly than random ones.

    Args:
        dimension: of the cube, at most 21,201.
        scramble: whether to scramble the points at random (Owen's way), and shift them.
        seed: of the scrambling; by default the default generator draws.

    Raises:
        ValueError: the dimension is out of range.

    Example:
        >>> import functorch_port as torch
        >>> torch.quasirandom.SobolEngine(2).draw(3)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.quasirandom.SobolEngine.html
    """

    MAXBIT = _BITS
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self._state = _directions(dimension)
        self._shift = np.zeros(dimension, np.int64)
        if scramble:
            self._scramble()
        self.num_generated = 0
        self._quasi = self._shift.copy()

    def _scramble(self) -> None:
        generator = None if self.seed is None else Generator().manual_seed(self.seed)
        draws = function("randint")(2, (self.dimension, _BITS), generator=generator).numpy()
        self._shift = draws.astype(np.int64) @ (1 << np.arange(_BITS))
        lower = function("randint")(2, (self.dimension, _BITS, _BITS), generator=generator).numpy()
        lower = np.tril(lower.astype(np.int64), -1) + np.eye(_BITS, dtype=np.int64)
        places = np.arange(_BITS - 1, -1, -1)
        bits = self._state[:, None, :] >> places[:, None] & 1  # (dimension, bit from the highest, number)
        mixed = (lower @ bits) & 1
        self._state = (mixed << places[:, None]).sum(1)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next ``n`` points, (n, dimension), in [0, 1).

        Args:
            n: how many.
            out: a tensor to write them to.
            dtype: of the result; by default the default dtype.
        """
        kind = dtypes.get_default_dtype() if dtype is None else dtype
        made = from_numpy(self._walk(n)).to(kind) * 2.0**-_BITS
        return made if out is None else out.resize_as_(made).copy_(made)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next ``2 ** m`` points; in all there must be a power of two of them.

        Raises:
            ValueError: there would not be.
        """
        n = 2**m
        total = self.num_generated + n
        if not (total & (total - 1) == 0):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points "
                f"have been previously generated, then: n={self.num_generated}+2**{m}={total}. If you still want to do "
                "this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def _walk(self, n: int) -> np.ndarray:
        """The next ``n`` points in the order of Gray codes, as 30-bit integers; what comes after them is kept."""
        numbers = self.num_generated + np.arange(n)
        places = np.log2(~numbers & (numbers + 1)).astype(np.int64)
        walked = np.bitwise_xor.accumulate(np.concatenate([self._quasi[None], self._state[:, places].T]))
        self._quasi = walked[-1]
        self.num_generated += n
        return walked[:-1]

    def reset(self) -> SobolEngine:
        """Begin again."""
        self._quasi = self._shift.copy()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Pass over ``n`` points.

        Args:
            n: how many.
        """
        self._walk(n)
        return self

    def __repr__(self) -> str:
        scrambled = ", scramble=True" if self.scramble else ""
        seed = "" if self.seed is None else f", seed={self.seed}"
        return f"SobolEngine(dimension={self.dimension}{scrambled}{seed})"
