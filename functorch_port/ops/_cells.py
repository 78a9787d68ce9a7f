"""The cells of recurrent layers: one step and its derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import jax.numpy as jnp

__all__ = ["CELLS", "Cell", "Gates", "States", "cell_of", "sigmoid"]

#: (N, size) each
States = tuple[Any, ...]
#: one array, or one value of a unit, for each gate
Gates = Sequence[Any]


class Cell(NamedTuple):
    """One step of a unit and its derivative; all functions are elementwise.

    ``x`` and ``p`` are the gates of the products with the input and with the state, as lists.

    Attributes:
        gates: the number of rows of the weights per unit of the state.
        step: (x, p, states) -> (new states, the values that the derivative needs besides the states).
        slopes: (kept, states before, states after) -> the factors of the derivative.
        tangent: (factors, tangents of the input alone, tangents of the gates, tangents of the states) -> the tangents
            of the new states. Linear in all but the factors.
        gather: tangents of x and p -> those of the input alone, and one for each gate, to which the tangent of the
            state's part of p is added; None if these are the sums.
        kept, alone: the number of values that ``step`` keeps, and of tangents of the input alone that ``gather`` makes.
        states: the number of states.
    """

    gates: int
    step: Callable[..., tuple[States, Gates]]
    slopes: Callable[..., Any]
    tangent: Callable[..., States]
    gather: Callable[..., tuple[Gates, Gates]] | None = None
    kept: int = 0
    alone: int = 0
    states: int = 1

    @property
    def coefficients(self) -> int:
        """The number of arrays of coefficients of a derivative: states before and after, kept values, weights."""
        return 2 * self.states + self.kept + 1


def sigmoid(x: Any) -> Any:
    """The logistic function through tanh, which is faster on a CPU."""
    return 0.5 * jnp.tanh(0.5 * x) + 0.5


# ------------------------------------------------------------------ tanh and relu


def _rnn_tangent(slope: Any, alone: Gates, d: Gates, states: States) -> States:
    return (slope * d[0],)


_RNN_TANH = Cell(
    1,
    lambda x, p, s: ((jnp.tanh(x[0] + p[0]),), ()),
    lambda kept, before, after: 1 - after[0] * after[0],
    _rnn_tangent,
)
_RNN_RELU = Cell(
    1,
    lambda x, p, s: ((jnp.where(x[0] + p[0] > 0, x[0] + p[0], 0),), ()),
    lambda kept, before, after: (after[0] > 0).astype(after[0].dtype),
    _rnn_tangent,
)

# ------------------------------------------------------------------ LSTM


def _lstm_step(x: Gates, p: Gates, states: States) -> tuple[States, Gates]:
    i, f, g, o = [a + b for a, b in zip(x, p, strict=True)]
    i, f, g, o = sigmoid(i), sigmoid(f), jnp.tanh(g), sigmoid(o)
    c = f * states[1] + i * g
    return (o * jnp.tanh(c), c), (i, f, g, o)


def _lstm_slopes(gates: Gates, before: States, after: States) -> Any:
    i, f, g, o = gates
    t = jnp.tanh(after[1])
    of_gates = g * i * (1 - i), before[1] * f * (1 - f), i * (1 - g * g), t * o * (1 - o)
    return of_gates, f, o * (1 - t * t)


def _lstm_tangent(slopes: Any, alone: Gates, d: Gates, states: States) -> States:
    of_gates, of_before, of_cell = slopes
    i, f, g, o = [slope * a for slope, a in zip(of_gates, d, strict=True)]
    dc = of_before * states[1] + i + f + g
    return o + of_cell * dc, dc


_LSTM = Cell(4, _lstm_step, _lstm_slopes, _lstm_tangent, kept=4, states=2)

# ------------------------------------------------------------------ GRU


def _gru_step(x: Gates, p: Gates, states: States) -> tuple[States, Gates]:
    r, z = sigmoid(x[0] + p[0]), sigmoid(x[1] + p[1])
    n = jnp.tanh(x[2] + r * p[2])
    return (n + z * (states[0] - n),), (r, z, n, p[2])


def _gru_slopes(kept: Gates, before: States, after: States) -> Any:
    r, z, n, pn = kept
    of_n = (1 - z) * (1 - n * n)
    return of_n * pn * r * (1 - r), (before[0] - n) * z * (1 - z), of_n, of_n * r, z


def _gru_gather(dx: Gates, dp: Gates) -> tuple[Gates, Gates]:
    return (dx[2],), (dx[0] + dp[0], dx[1] + dp[1], dp[2])


def _gru_tangent(slopes: Any, alone: Gates, d: Gates, states: States) -> States:
    of_r, of_z, of_xn, of_pn, z = slopes
    return (of_r * d[0] + of_z * d[1] + of_xn * alone[0] + of_pn * d[2] + z * states[0],)


_GRU = Cell(3, _gru_step, _gru_slopes, _gru_tangent, _gru_gather, kept=4, alone=1)

CELLS = {"RNN_TANH": _RNN_TANH, "RNN_RELU": _RNN_RELU, "LSTM": _LSTM, "GRU": _GRU}


@cache
def cell_of(mode: str, masked: bool) -> Cell:
    """The cell with this key; if it is ``masked``, one whose states stay where a sequence has ended: the last of ``x``
    and of the values that ``step`` keeps is 0 there.
    """
    cell = CELLS[mode]
    if not masked:
        return cell

    def step(x: Gates, p: Gates, states: States) -> tuple[States, Gates]:
        *x, going = x
        new, kept = cell.step(x, p, states)
        return _chosen(going, new, states), (*kept, going)

    def slopes(kept: Gates, before: States, after: States) -> Any:
        *kept, going = kept
        return cell.slopes(kept, before, after), going

    def tangent(slopes: Any, alone: Gates, d: Gates, states: States) -> States:
        slopes, going = slopes
        return _chosen(going, cell.tangent(slopes, alone, d, states), states)

    return cell._replace(step=step, slopes=slopes, tangent=tangent, kept=cell.kept + 1)


def _chosen(going: Any, new: States, old: States) -> States:
    return tuple([jnp.where(going != 0, n, o) for n, o in zip(new, old, strict=True)])
