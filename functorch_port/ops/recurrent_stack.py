"""Stacks of recurrent layers and directions on top of `ops.recurrent`, and packed sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from functorch_port._array import executor, tracing
from functorch_port._run import bind
from functorch_port._run.registry import composite
from functorch_port._tensor.tensor import Tensor, wrap
from functorch_port.ops.random import dropout_mask

__all__ = ["constant", "host_integers", "recurrent"]

#: Packed sequences are padded to a multiple of this many steps, so that not each length compiles a program.
_STEPS = 16


def constant(values: Any) -> Tensor:
    """An int64 Tensor of integers on the host, whose values stay readable in a trace."""
    with jax.ensure_compile_time_eval(), tracing.x64():
        return wrap(executor.current.place(np.asarray(values, np.int64)))


def host_integers(tensor: Tensor, what: str) -> np.ndarray[Any, Any]:
    """The values of an integer Tensor on which shapes depend."""
    value = tensor._look()
    if isinstance(value, jax.core.Tracer):
        raise NotImplementedError(
            f"compile cannot trace {what}, because shapes depend on it. Pass the lengths as a list of ints, pack the "
            "sequences outside, or keep them padded and use a mask"
        )
    return np.asarray(value)


class _Packing:
    """The conversion between packed data and a padded (T, N, size) tensor."""

    def __init__(self, batch_sizes: Tensor) -> None:
        sizes = host_integers(batch_sizes, "the batch_sizes of a PackedSequence")
        self.n = int(sizes[0])
        steps = len(sizes) if tracing.overlay else -(-len(sizes) // _STEPS) * _STEPS
        inside = (
            np.arange(self.n) < np.concatenate([sizes, np.zeros(steps - len(sizes), sizes.dtype)])[:, None]
        )
        self.steps = steps
        self.lengths = constant(inside.sum(0))
        self.to_padded = constant(
            np.where(inside, np.cumsum(inside).reshape(inside.shape) - 1, 0).reshape(-1)
        )
        self.to_packed = constant(np.flatnonzero(inside))

    def pad(self, data: Tensor) -> Tensor:
        """(rows, size) to (T, N, size); values past the end of a sequence are arbitrary."""
        return data.index_select(0, self.to_padded).reshape(self.steps, self.n, data.shape[-1])  # type: ignore[attr-defined]

    def pack(self, padded: Tensor) -> Tensor:
        """(T, N, size) to (rows, size): the rows that belong to sequences."""
        return padded.reshape(-1, padded.shape[-1]).index_select(0, self.to_packed)  # type: ignore[attr-defined]


def _groups(params: Sequence[Tensor], has_biases: bool, projected: bool) -> list[tuple[Any, ...]]:
    """(weight_ih, weight_hh, bias_ih, bias_hh, weight_hr) of every layer and direction."""
    stride = 2 + 2 * has_biases + projected
    if len(params) % stride:
        raise RuntimeError(f"MatrixRef: ArrayRef size {len(params)} not divisible by stride {stride}")
    groups = [tuple(params[i : i + stride]) for i in range(0, len(params), stride)]
    return [(*g[:2], *(g[2:4] if has_biases else (None, None)), g[-1] if projected else None) for g in groups]


def _dropped(x: Tensor, p: float) -> Tensor:
    return bind.function("_dropped")(x, wrap(dropout_mask(x.shape, p, x.dtype)), p)


def recurrent(
    mode: str,
    input: Tensor,
    batch_sizes: Tensor | None,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool = False,
) -> tuple[Tensor, ...]:
    """The outputs of the last layer and the last states of all layers.

    Args:
        mode: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".
        input: (T, N, size), or packed data with its ``batch_sizes``.
        hx: the initial states, (layers * directions, N, size) each.
        params: the weights of all layers and directions, concatenated.
    """
    packing = None if batch_sizes is None else _Packing(batch_sizes)
    if batch_first and packing is None:
        input = input.transpose(0, 1)  # type: ignore[attr-defined]
    if input.shape[0] == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    projected = mode == "LSTM" and hx[0].shape[2] != hx[1].shape[2]
    groups = _groups(params, has_biases, projected)
    layer = bind.function("_lstm_layer" if mode == "LSTM" else "_recurrent_layer")
    cat, stack = bind.function("cat"), bind.function("stack")
    directions = 2 if bidirectional else 1
    lasts = []
    x = input if packing is None else packing.pad(input)
    for i in range(num_layers):
        outs = []
        for j in range(directions):
            at = i * directions + j
            states = [h[at] for h in hx]  # type: ignore[index]
            lengths = None if packing is None else packing.lengths
            out, *last = layer(x, states, *groups[at], lengths, mode, j == 1)
            outs.append(out)
            lasts.append(last)
        x = cat(outs, -1) if bidirectional else outs[0]
        if dropout and train and i < num_layers - 1:
            # drawn for the packed rows, as PyTorch draws it
            x = _dropped(x, dropout) if packing is None else packing.pad(_dropped(packing.pack(x), dropout))
    if packing is not None:
        x = packing.pack(x)
    elif batch_first:
        x = x.transpose(0, 1)
    return x, *(stack(list(s)) for s in zip(*lasts, strict=True))


def _public(name: str, mode: str) -> Callable[..., Any]:
    """`torch.lstm` and the like, for a padded input or a packed one, which ``batch_sizes`` follows."""

    def function(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        padded = ("input", "hx", "params")
        packed = ("data", "batch_sizes", "hx", "params")
        rest = ("has_biases", "num_layers", "dropout", "train", "bidirectional")
        at = 1 if mode == "LSTM" else 2
        is_packed = "batch_sizes" in kwargs or (len(args) > at and isinstance(args[at], Tensor))
        names = (*packed, *rest) if is_packed else (*padded, *rest, "batch_first")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(args) > len(names) or set(given) != set(names):
            raise TypeError(
                f"{name}() received an invalid combination of arguments; expected {', '.join(names)}"
            )
        hx = given.pop("hx")
        if mode == "LSTM" and len(hx) != 2:
            raise RuntimeError("lstm expects two hidden states")
        data = given.pop("data" if is_packed else "input")
        states = hx if mode == "LSTM" else [hx]
        return recurrent(mode, data, given.pop("batch_sizes", None), states, **given)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The layers of `nn.{mode.split('_')[0]}` with weights given as a list."
    return function


for _name, _mode in (("rnn_tanh", "RNN_TANH"), ("rnn_relu", "RNN_RELU"), ("lstm", "LSTM"), ("gru", "GRU")):
    composite(_name, where="torch")(_public(_name, _mode))
