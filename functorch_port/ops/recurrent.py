"""Recurrent layers and single cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from functorch_port._run.bind import function
from functorch_port._run.registry import Array, Arrays, composite, op
from functorch_port._tensor.tensor import Tensor
from functorch_port.ops._cells import CELLS, sigmoid
from functorch_port.ops._common import type_name, wide

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


def _check_cell(mode: str, input: Any, hx: Any, w_ih: Any, w_hh: Any) -> None:
    if input.shape[1] != w_ih.shape[1]:
        raise RuntimeError(
            f"input has inconsistent input_size: got {input.shape[1]} expected {w_ih.shape[1]}"
        )
    if mode != "GRU":
        _check_gates(mode, w_ih, w_hh)
    _check_state(hx, 0, input.shape[0], w_hh.shape[1])
    _check_gates(mode, w_ih, w_hh)


def _check_state(h: Any, i: int, batch: int, size: int) -> None:
    if h.shape[0] != batch:
        raise RuntimeError(f"Input batch size {batch} doesn't match hidden{i} batch size {h.shape[0]}")
    if h.shape[1] != size:
        raise RuntimeError(f"hidden{i} has inconsistent hidden_size: got {h.shape[1]}, expected {size}")


def _check_gates(mode: str, w_ih: Any, w_hh: Any) -> None:
    gates, size = CELLS[mode].gates, w_hh.shape[1]
    for name, weight in (("weight_ih", w_ih), ("weight_hh", w_hh)):
        if weight.shape[0] != gates * size:
            raise RuntimeError(
                f"{name} first dim must be {gates} * hidden_size = {gates * size}, but got {weight.shape[0]}"
            )


def _products(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> list[Any]:
    """The products with the input and with the state, in a type in which they can be added up."""
    found = []
    for a, w, b in ((input, w_ih, b_ih), (hx, w_hh, b_hh)):
        if a.dtype != w.dtype:
            raise RuntimeError(
                f"mat1 and mat2 must have the same dtype, but got {type_name(a)} and {type_name(w)}"
            )
        p = _times(a.astype(wide(a.dtype)), w.astype(wide(a.dtype)))
        found.append(p if b is None else p + b.astype(p.dtype))
    return found


def _cell(mode: str, input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    """The state after one step of a cell that has one."""
    _check_cell(mode, input, hx, w_ih, w_hh)
    products = _products(input, hx, w_ih, w_hh, b_ih, b_hh)
    gates = [jnp.split(p, CELLS[mode].gates, -1) for p in products]
    new, _ = CELLS[mode].step(*gates, (hx.astype(products[0].dtype),))
    return new[0].astype(input.dtype)


def _linears(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> tuple[Any, Any]:
    if b_ih is None:
        linear = function("_linear_2d_unbiased")
        return linear(input, w_ih), linear(hx, w_hh)
    linear = function("_linear_2d")
    return linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh)


def _split(gates: Any, count: int) -> Any:
    return function("_split_copy")(gates, (gates.shape[1] // count,) * count, 1, "UnsafeSplitBackward0")


def _sum_of_linears(**arguments: Any) -> Any:
    of_input, of_state = _linears(**arguments)
    return of_state + of_input


def _tanh_parts(**arguments: Any) -> Any:
    return _sum_of_linears(**arguments).tanh()


def _relu_parts(**arguments: Any) -> Any:
    return _sum_of_linears(**arguments).relu()


def _gru_parts(input: Any, hx: Any, **weights: Any) -> Any:
    of_input, of_state = _linears(input, hx, **weights)
    (xr, xz, xn), (r, z, n) = _split(of_input, 3), _split(of_state, 3)
    r = (r + xr).sigmoid()
    z = (z + xz).sigmoid()
    n = (xn + n * r).tanh()
    return (hx - n) * z + n


@op(where="torch", node="TanhBackward0", parts=_tanh_parts)
def rnn_tanh_cell(
    input: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None
):
    """One step of an RNN layer with `tanh`."""
    return _cell("RNN_TANH", input, hx, w_ih, w_hh, b_ih, b_hh)


@op(where="torch", node="ReluBackward0", parts=_relu_parts)
def rnn_relu_cell(
    input: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None
):
    """One step of an RNN layer with `relu`."""
    return _cell("RNN_RELU", input, hx, w_ih, w_hh, b_ih, b_hh)


@op(where="torch", node="AddBackward0", parts=_gru_parts)
def gru_cell(
    input: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None
):
    """One step of a GRU layer."""
    return _cell("GRU", input, hx, w_ih, w_hh, b_ih, b_hh)


def _gates_parts(**arguments: Any) -> Any:
    return _split(_sum_of_linears(**arguments), 4)


@op("_lstm_gates", where="", node="UnsafeSplitBackward0", parts=_gates_parts)
def lstm_gates(input: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None):
    """What an LSTM cell's gates are functions of: those of input and forgetting, the new value, that of output."""
    _check_cell("LSTM", input, hx, w_ih, w_hh)
    x, p = _products(input, hx, w_ih, w_hh, b_ih, b_hh)
    return tuple(jnp.split((x + p).astype(input.dtype), 4, -1))


def _state_parts(i: Any, f: Any, g: Any, cx: Any) -> Any:
    return f.sigmoid() * cx + i.sigmoid() * g.tanh()


@op("_lstm_state", where="", node="AddBackward0", parts=_state_parts)
def lstm_state(i: Array, f: Array, g: Array, cx: Array):
    """The cell state after a step of an LSTM layer."""
    _check_state(cx, 1, *i.shape)
    wider = wide(i.dtype)
    i_w, f, g, cx = (a.astype(wider) for a in (i, f, g, cx))
    return (sigmoid(f) * cx + sigmoid(i_w) * jnp.tanh(g)).astype(i.dtype)


def _output_parts(o: Any, cy: Any) -> Any:
    return o.sigmoid() * cy.tanh()


@op("_lstm_output", where="", node="MulBackward0", parts=_output_parts)
def lstm_output(o: Array, cy: Array):
    """The output of a step of an LSTM layer."""
    wider = wide(o.dtype)
    return (sigmoid(o.astype(wider)) * jnp.tanh(cy.astype(wider))).astype(o.dtype)


@composite("lstm_cell", where="torch")
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM layer: (output, cell state)."""
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    i, f, g, o = function("_lstm_gates")(input, hx[0], w_ih, w_hh, b_ih, b_hh)
    # the output is made of the cell state, which therefore has all of its gradient
    cy = function("_lstm_state")(i, f, g, hx[1])
    return function("_lstm_output")(o, cy), cy
