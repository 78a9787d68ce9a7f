"""``torch.quasirandom``: Sobol sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._base import dtypes
from ._random.generator import Generator
from ._run.bind import function
from ._tensor.creation import from_numpy
from ._tensor.tensor import Tensor

__all__ = ["SobolEngine"]


class SobolEngine:
    """Points of a Sobol sequence in the unit cube, PyTorch's to the last bit.

    Args:
        dimension: of the points, up to 21,201.
        scramble: whether to scramble them (by random triangular matrices and a random shift), which keeps them even.
        seed: of the scrambling; default: it is drawn from the default generator.

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

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self._directions = _directions(dimension, self.MAXBIT)
        self._shift = np.zeros(dimension, np.int64)
        if scramble:
            self._scramble()
        self.reset()

    def _scramble(self) -> None:
        randint = function("randint")
        generator = None if self.seed is None else Generator().manual_seed(self.seed)
        n, bits = self.dimension, np.arange(self.MAXBIT)
        shift = randint(2, (n, self.MAXBIT), generator=generator).numpy(force=True)
        self._shift = (shift << bits).sum(1)
        drawn = randint(2, (n, self.MAXBIT, self.MAXBIT), generator=generator).numpy(force=True)
        lower = np.tril(drawn, -1) + np.eye(self.MAXBIT, dtype=np.int64)
        places = bits[::-1]  # the highest bit first
        rows = (lower << places).sum(2)  # each row as one number
        met = rows[:, None, :] & self._directions[:, :, None]
        self._directions = ((np.bitwise_count(met) & 1).astype(np.int64) << places).sum(2)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next points.

        Args:
            n: how many.
            out: a tensor to put them into.
            dtype: float32 or float64; default: `get_default_dtype`.

        Returns:
            (n, dimension), in [0, 1).
        """
        kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype, "draw")
        if kind not in (dtypes.float32, dtypes.float64):
            raise NotImplementedError(f"\"_sobol_engine_draw\" not implemented for '{kind.scalar_name}'")
        if n < 0 or n == self.num_generated == 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {n or -1}: [{n or -1}, {self.dimension}]"
            )
        points = self._next(n)
        made = from_numpy(points.astype(kind.np) * kind.np.type(2.0**-self.MAXBIT))
        if out is None:
            return made
        return out.resize_as_(made).copy_(made)  # type: ignore[no-any-return]

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next ``2**m`` points, as `draw`, if the number of all points is a power of two then.

        Raises:
            ValueError: it is not.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: n={self.num_generated}+2**{m}="
                f"{total}. If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Start again."""
        self._last, self.num_generated = self._shift, 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next ``n`` points."""
        # the points follow the Gray code of their numbers, so that any one is found at once
        before, number = self.num_generated, max(self.num_generated + n - 1, 0)
        codes = [k ^ (k >> 1) for k in (max(before - 1, 0), number)]
        changed = [j for j in range(self.MAXBIT) if (codes[0] ^ codes[1]) >> j & 1]
        self._last = self._last ^ np.bitwise_xor.reduce(self._directions[:, changed], 1)
        self.num_generated = before + n
        return self

    def _next(self, n: int) -> np.ndarray:
        """The next points as integers (n, dimension)."""
        first = self.num_generated
        steps = np.arange(max(first, 1), first + n)
        lowest = [(int(k) & -int(k)).bit_length() - 1 for k in steps]  # of which bit the Gray code changes
        points = np.concatenate([self._last[None], self._directions[:, lowest].T])
        points = np.bitwise_xor.accumulate(points, 0)
        self._last, self.num_generated = points[-1], first + n
        return points[len(points) - n :]

    def __repr__(self) -> str:
        text = f"dimension={self.dimension}"
        text += ", scramble=True" if self.scramble else ""
        text += f", seed={self.seed}" if self.seed is not None else ""
        return f"{type(self).__name__}({text})"

    # ------------------------------------------------------- as PyTorch shows it

    @property
    def sobolstate(self) -> Tensor:
        """The direction numbers, (dimension, 30)."""
        return from_numpy(self._directions.copy())

    @property
    def shift(self) -> Tensor:
        """What all points are shifted by, (dimension,)."""
        return from_numpy(self._shift.copy())

    @property
    def quasi(self) -> Tensor:
        """The last point, as integers, (dimension,)."""
        return from_numpy(self._last.copy())


def _directions(dimension: int, bits: int) -> np.ndarray:
    """The direction numbers of Joe and Kuo (2008), which scipy has, too."""
    from scipy.stats import qmc

    return qmc.Sobol(dimension, scramble=False, bits=bits)._sv.astype(np.int64)  # type: ignore[no-any-return]
