"""Recurrent layers: one `lax.scan` per layer and direction, and the cells alone.

The product with the input is made for all steps at once before the scan, and the derivative has its own rule, so
that the weights' gradients are one product each after the scan instead of a sum inside it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from functorch_port.core.registry import Array, Arrays, op
from functorch_port.ops._common import wide

__all__ = ["CELLS", "Cell", "recur"]

States = tuple[jax.Array, ...]


class Cell(NamedTuple):
    """What happens in one step, and its derivative; ``x`` and ``p`` are the input's and the state's products.

    Attributes:
        gates: rows of the weights per unit of the state.
        step: (x, p, states) to (new states, what the derivative needs besides the states).
        slopes: (kept, states before, states after) of all steps to the factors of the derivative.
        gather: tangents of x and p, of all steps, to what `tangent` adds to.
        tangent: (factors, gathered, tangent of the part of p that comes from the state, tangents of the
            states) to the tangents of the new states. Linear in all but the factors.
    """

    gates: int
    step: Callable[..., Any]
    slopes: Callable[..., Any]
    gather: Callable[..., Any]
    tangent: Callable[..., Any]


def _split(x: jax.Array, n: int) -> list[jax.Array]:
    return jnp.split(x, n, axis=-1)


def _sigmoid(x: jax.Array) -> jax.Array:
    """The logistic function by way of tanh, which XLA's CPU code computes faster."""
    return 0.5 * jnp.tanh(0.5 * x) + 0.5


def _sum(dx: jax.Array, dp: jax.Array) -> tuple[jax.Array]:
    return (dx + dp,)


# ------------------------------------------------------------------ tanh and relu


def _rnn_tangent(slope: Any, gathered: Any, q: Any, d: States) -> States:
    return (slope * (gathered[0] + q),)


_RNN_TANH = Cell(
    1,
    lambda x, p, s: ((jnp.tanh(x + p),), ()),
    lambda kept, before, after: 1 - after[0] ** 2,
    _sum,
    _rnn_tangent,
)
_RNN_RELU = Cell(
    1,
    lambda x, p, s: ((jnp.where(x + p > 0, x + p, 0),), ()),
    lambda kept, before, after: (after[0] > 0).astype(after[0].dtype),
    _sum,
    _rnn_tangent,
)

# ------------------------------------------------------------------ LSTM


def _lstm_step(x: jax.Array, p: jax.Array, states: States) -> tuple[States, Any]:
    z = x + p
    size = z.shape[-1] // 4
    # one tanh for all gates, as sigmoid(z) = (1 + tanh(z / 2)) / 2; XLA's CPU code is four times as fast so
    factor = np.repeat(np.array([0.5, 0.5, 1.0, 0.5], z.dtype), size)
    gates = jnp.tanh(z * factor) * factor + (1 - factor)
    i, f, g, o = _split(gates, 4)
    c = f * states[1] + i * g
    return (o * jnp.tanh(c), c), gates


def _lstm_slopes(gates: jax.Array, before: States, after: States) -> Any:
    i, f, g, o = _split(gates, 4)
    t = jnp.tanh(after[1])
    of_gates = [g * i * (1 - i), before[1] * f * (1 - f), i * (1 - g * g), t * o * (1 - o)]
    return jnp.concatenate(of_gates, -1), f, o * (1 - t * t)


def _lstm_tangent(slopes: Any, gathered: Any, q: Any, d: States) -> States:
    of_gates, of_before, of_cell = slopes
    i, f, g, o = _split(of_gates * (gathered[0] + q), 4)
    dc = of_before * d[1] + i + f + g
    return o + of_cell * dc, dc


_LSTM = Cell(4, _lstm_step, _lstm_slopes, _sum, _lstm_tangent)

# ------------------------------------------------------------------ GRU


def _gru_step(x: jax.Array, p: jax.Array, states: States) -> tuple[States, Any]:
    (xr, xz, xn), (pr, pz, pn) = _split(x, 3), _split(p, 3)
    r, z = _sigmoid(xr + pr), _sigmoid(xz + pz)
    n = jnp.tanh(xn + r * pn)
    return (n + z * (states[0] - n),), jnp.concatenate([r, z, n, pn], -1)


def _gru_slopes(kept: jax.Array, before: States, after: States) -> Any:
    r, z, n, pn = _split(kept, 4)
    of_n = (1 - z) * (1 - n * n)
    of_gates = jnp.concatenate([of_n * pn * r * (1 - r), (before[0] - n) * z * (1 - z)], -1)
    return of_gates, of_n, of_n * r, z


def _gru_gather(dx: jax.Array, dp: jax.Array) -> tuple[jax.Array, ...]:
    at = dx.shape[-1] // 3 * 2
    return dx[..., :at] + dp[..., :at], dx[..., at:], dp[..., at:]


def _gru_tangent(slopes: Any, gathered: Any, q: Any, d: States) -> States:
    of_gates, of_xn, of_pn, z = slopes
    at = z.shape[-1] * 2
    r, u = _split(of_gates * (gathered[0] + q[..., :at]), 2)
    return (r + u + of_xn * gathered[1] + of_pn * (gathered[2] + q[..., at:]) + z * d[0],)


_GRU = Cell(3, _gru_step, _gru_slopes, _gru_gather, _gru_tangent)

CELLS = {"RNN_TANH": _RNN_TANH, "RNN_RELU": _RNN_RELU, "LSTM": _LSTM, "GRU": _GRU}

# ------------------------------------------------------------------ the scan


def _times(x: jax.Array, w: jax.Array) -> jax.Array:
    """``x @ w.T``."""
    from functorch_port.ops._product import multiply

    return multiply(x, w, transposed=True)


def _chosen(mask: Any, new: States, old: States) -> States:
    """The new states where the sequence goes on, the old ones where it has ended."""
    if mask is None:
        return new
    return tuple(jnp.where(mask[:, None], n, o) for n, o in zip(new, old, strict=True))


def _forward(
    cell: Cell, reverse: bool, x: Any, states: States, w: Any, b: Any, w_hr: Any, mask: Any, keep: bool
) -> tuple[States, Any]:
    """The last states, and of all steps the outputs or (``keep``) the states and what the derivative needs."""

    def body(old: States, xs: Any) -> tuple[States, Any]:
        p = _times(old[0], w)
        new, kept = cell.step(xs[0], p if b is None else p + b, old)
        unprojected = new[0]
        if w_hr is not None:
            new = (_times(new[0], w_hr), *new[1:])
        new = _chosen(xs[1], new, old)
        return new, (new, kept, unprojected if w_hr is not None else None) if keep else new[0]

    return lax.scan(body, states, (x, mask), reverse=reverse)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def recur(
    mode: str, reverse: bool, x: Any, states: States, w: Any, b: Any, w_hr: Any, mask: Any
) -> tuple[jax.Array, States]:
    """(outputs of all steps, last states).

    Args:
        mode: the cell, a key of `CELLS`.
        reverse: go from the last step to the first.
        x: (T, N, gates), the input's product with its weight.
        states: the first states, (N, size) each.
        w, b: (gates, size) and (gates) or None, for the state.
        w_hr: (projected size, size) or None, the projection of the output.
        mask: (T, N) of bools, False where a sequence has ended; or None.
    """
    last, outputs = _forward(CELLS[mode], reverse, x, states, w, b, w_hr, mask, keep=False)
    return outputs, last


@recur.defjvp
def _recur_jvp(mode: str, reverse: bool, primals: Any, tangents: Any) -> Any:
    x, states, w, b, w_hr, mask = primals
    dx, dstates, dw, db, dw_hr, _ = tangents
    cell = CELLS[mode]
    last, (after, kept, unprojected) = _forward(cell, reverse, x, states, w, b, w_hr, mask, keep=True)
    before = tuple(_shifted(first, all_, reverse) for first, all_ in zip(states, after, strict=True))
    slopes = cell.slopes(kept, before, after)
    dp = _times(before[0], dw)
    gathered = cell.gather(dx, dp if b is None else dp + db)
    projected = None if w_hr is None else _times(unprojected, dw_hr)

    def body(old: States, xs: Any) -> tuple[States, jax.Array]:
        slopes, gathered, projected, mask = xs
        new = cell.tangent(slopes, gathered, _times(old[0], w), old)
        if w_hr is not None:
            new = (_times(new[0], w_hr) + projected, *new[1:])
        new = _chosen(mask, new, old)
        return new, new[0]

    dlast, douts = lax.scan(body, dstates, (slopes, gathered, projected, mask), reverse=reverse)
    return (after[0], last), (douts, dlast)


def _shifted(first: jax.Array, states: jax.Array, reverse: bool) -> jax.Array:
    """The states that the steps started from."""
    return jnp.concatenate([states[1:], first[None]] if reverse else [first[None], states[:-1]])


# ------------------------------------------------------------------ operations


@op(
    "_lstm_layer", where="", node="MkldnnRnnLayerBackward0"
)  # by a name of its own, as autocast treats it apart
@op("_recurrent_layer", where="", node="StackBackward0")
def recurrent_layer(
    input: Array,
    hx: Arrays,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None,
    bias_hh: Array | None,
    weight_hr: Array | None,
    lengths: Array | None,
    mode: str,
    reverse: bool,
):
    """Outputs and last states of one layer in one direction; ``input`` is (T, N, size)."""
    result = input.dtype
    wider = wide(result)

    def prepared(a: Any) -> Any:
        return None if a is None else a.astype(wider)

    x = _times(prepared(input), prepared(weight_ih))
    bias, state_bias = prepared(bias_ih), prepared(bias_hh)
    if bias is not None:
        x = x + (bias if mode == "GRU" else bias + state_bias)
    mask = None if lengths is None else jnp.arange(x.shape[0], dtype=lengths.dtype)[:, None] < lengths
    outputs, last = recur(
        mode,
        reverse,
        x,
        tuple(prepared(h) for h in hx),
        prepared(weight_hh),
        state_bias if mode == "GRU" else None,
        prepared(weight_hr),
        mask,
    )
    return tuple(a.astype(result) for a in (outputs, *last))


def _check_cell(input: Any, states: States, w_ih: Any, w_hh: Any) -> None:
    if input.shape[1] != w_ih.shape[1]:
        raise RuntimeError(
            f"input has inconsistent input_size: got {input.shape[1]} expected {w_ih.shape[1]}"
        )
    for i, h in enumerate(states):
        if input.shape[0] != h.shape[0]:
            found = f"hidden{i} batch size {h.shape[0]}"
            raise RuntimeError(f"Input batch size {input.shape[0]} doesn't match {found}")
        if h.shape[1] != w_hh.shape[1]:
            raise RuntimeError(
                f"hidden{i} has inconsistent hidden_size: got {h.shape[1]}, expected {w_hh.shape[1]}"
            )


def _cell(mode: str, input: Any, states: States, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> States:
    """The states after one step."""
    _check_cell(input, states, w_ih, w_hh)
    result, wider = input.dtype, wide(input.dtype)
    products = []
    for a, w, b in ((input, w_ih, b_ih), (states[0], w_hh, b_hh)):
        p = _times(a.astype(wider), w.astype(wider))
        products.append(p if b is None else p + b.astype(wider))
    new, _ = CELLS[mode].step(*products, tuple(s.astype(wider) for s in states))
    return tuple(s.astype(result) for s in new)


@op(where="torch")
def rnn_tanh_cell(
    input: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None
):
    """One step of a layer of `tanh` units."""
    return _cell("RNN_TANH", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@op(where="torch")
def rnn_relu_cell(
    input: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None
):
    """One step of a layer of `relu` units."""
    return _cell("RNN_RELU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@op(where="torch")
def gru_cell(
    input: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None
):
    """One step of a GRU layer."""
    return _cell("GRU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@op(where="torch")
def lstm_cell(
    input: Array, hx: Arrays, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None
):
    """One step of an LSTM layer: (output, cell state)."""
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    return _cell("LSTM", input, tuple(hx), w_ih, w_hh, b_ih, b_hh)
