"""Recurrent layers and single cells."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from functorch_port._run.registry import Array, Arrays, op
from functorch_port.ops._cells import CELLS, States
from functorch_port.ops._common import wide

__all__: list[str] = []


def _times(x: Any, w: Any) -> Any:
    """``x @ w.T``."""
    from functorch_port.ops._recurrence import times

    return times(x, w)


def _keeps_steps(*values: Any) -> bool:
    """The values of the steps are always kept for the backward pass, as in PyTorch."""
    return True


@op(
    "_lstm_layer", where="", node="MkldnnRnnLayerBackward0", keeps=_keeps_steps
)  # has its own rule in autocast
@op("_recurrent_layer", where="", node="StackBackward0", keeps=_keeps_steps)
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
    """The outputs and last states of one layer in one direction; ``input`` is (T, N, size)."""
    result = input.dtype
    wider = wide(result)

    def prepared(a: Any) -> Any:
        return None if a is None else a.astype(wider)

    x = _times(prepared(input), prepared(weight_ih))
    bias, state_bias = prepared(bias_ih), prepared(bias_hh)
    if bias is not None and mode == "GRU":
        x = x + bias  # the reset gate does not multiply it
    elif bias is not None:
        state_bias = bias + state_bias  # this saves a pass over ``x``
    from functorch_port.ops._recurrence import recur

    mask = None if lengths is None else jnp.arange(x.shape[0], dtype=lengths.dtype)[:, None] < lengths
    outputs, last = recur(
        mode,
        reverse,
        x,
        tuple(prepared(h) for h in hx),
        prepared(weight_hh),
        state_bias,
        prepared(weight_hr),
        mask,
    )
    return tuple(a.astype(result) for a in (outputs, *last))


def _check_cell(mode: str, input: Any, states: States, w_ih: Any, w_hh: Any) -> None:
    if input.shape[1] != w_ih.shape[1]:
        raise RuntimeError(
            f"input has inconsistent input_size: got {input.shape[1]} expected {w_ih.shape[1]}"
        )
    if mode != "GRU":
        _check_gates(mode, w_ih, w_hh)
    for i, h in enumerate(states):
        if input.shape[0] != h.shape[0]:
            found = f"hidden{i} batch size {h.shape[0]}"
            raise RuntimeError(f"Input batch size {input.shape[0]} doesn't match {found}")
        if h.shape[1] != w_hh.shape[1]:
            raise RuntimeError(
                f"hidden{i} has inconsistent hidden_size: got {h.shape[1]}, expected {w_hh.shape[1]}"
            )
    _check_gates(mode, w_ih, w_hh)


def _check_gates(mode: str, w_ih: Any, w_hh: Any) -> None:
    gates, size = CELLS[mode].gates, w_hh.shape[1]
    for name, weight in (("weight_ih", w_ih), ("weight_hh", w_hh)):
        if weight.shape[0] != gates * size:
            raise RuntimeError(
                f"{name} first dim must be {gates} * hidden_size = {gates * size}, but got {weight.shape[0]}"
            )


def _cell(mode: str, input: Any, states: States, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> States:
    """The states after one step."""
    _check_cell(mode, input, states, w_ih, w_hh)
    result, wider = input.dtype, wide(input.dtype)
    products = []
    for a, w, b in ((input, w_ih, b_ih), (states[0], w_hh, b_hh)):
        p = _times(a.astype(wider), w.astype(wider))
        products.append(p if b is None else p + b.astype(wider))
    gates = [jnp.split(p, CELLS[mode].gates, -1) for p in products]
    new, _ = CELLS[mode].step(*gates, tuple(s.astype(wider) for s in states))
    return tuple(s.astype(result) for s in new)


@op(where="torch")
def rnn_tanh_cell(
    input: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None
):
    """One step of an RNN layer with `tanh`."""
    return _cell("RNN_TANH", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@op(where="torch")
def rnn_relu_cell(
    input: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None
):
    """One step of an RNN layer with `relu`."""
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
) -> tuple[Array, Array]:
    """One step of an LSTM layer: (output, cell state)."""
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    return _cell("LSTM", input, tuple(hx), w_ih, w_hh, b_ih, b_hh)
