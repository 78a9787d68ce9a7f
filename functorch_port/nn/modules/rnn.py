"""Recurrent layers and cells."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

from ..._base import contexts
from ..._run import autocast
from ..._run.bind import function
from ..._tensor.creation import empty, zeros
from ..._tensor.tensor import Tensor
from ...ops.recurrent_stack import host_integers, recurrent
from .. import init
from .._module import Module
from ..parameter import Parameter
from ..utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _permuted(hx: tuple[Tensor, ...], permutation: Tensor | None) -> tuple[Tensor, ...]:
    """The states with their sequences reordered."""
    return hx if permutation is None else tuple(h.index_select(1, permutation) for h in hx)  # type: ignore[attr-defined]


def _first(batch_sizes: Tensor) -> int:
    """The number of sequences."""
    return int(host_integers(batch_sizes, "the batch_sizes of a PackedSequence")[0])


class RNNBase(Module):
    """Base of `RNN`, `LSTM` and `GRU`: weights, checks and the loop over the layers.

    Args:
        mode: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".
        input_size: size of the input's last dimension.
        hidden_size: size of the hidden state.
        num_layers: number of stacked layers.
        bias: whether there are biases.
        batch_first: inputs and outputs are (N, T, size) rather than (T, N, size).
        dropout: dropout probability between layers, in training.
        bidirectional: add layers that run over the sequence backwards.
        proj_size: size to which the LSTM's output is projected; 0 for no projection.
        device, dtype: of the parameters.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.RNNBase.html
    """

    __constants__ = [
        "mode",
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ]

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        _check_options(dropout, num_layers, bias, batch_first)
        _check_sizes(input_size, hidden_size, num_layers, proj_size)
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        rows, out = _GATES[mode] * hidden_size, proj_size or hidden_size
        directions = 2 if bidirectional else 1
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[:directions]:
                shapes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (rows, out * directions if layer else input_size),
                    "weight_hh": (rows, out),
                }
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                named = {f"{name}_l{layer}{suffix}": shape for name, shape in shapes.items()}
                for name, shape in named.items():
                    setattr(self, name, Parameter(empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(list(named))
        self.reset_parameters()

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of every layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Do nothing: the weights need not be contiguous here."""

    def reset_parameters(self) -> None:
        """Draw all parameters uniformly from ``[-1/sqrt(hidden_size), 1/sqrt(hidden_size)]``."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise unless the input has the right dtype, rank and size."""
        own = self._flat_weights[0].dtype
        if input.dtype != own and not autocast.enabled:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({own}). "
                f"Convert input: input.to({own}), or convert model: model.to({input.dtype})"
            )
        rank = 3 if batch_sizes is None else 2
        if input.ndim != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.ndim}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The expected shape of the hidden state."""
        if batch_sizes is not None:
            n = _first(batch_sizes)
        else:
            n = input.size(0) if self.batch_first else input.size(1)
        return self.num_layers * (2 if self.bidirectional else 1), n, self.proj_size or self.hidden_size

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Raise unless the hidden state has the expected shape."""
        if tuple(hx.size()) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise unless input and hidden state have the expected shapes."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The hidden state with its sequences reordered."""
        return _permuted((hx,), permutation)[0]

    def extra_repr(self) -> str:
        defaults = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        shown = [
            f", {n}={getattr(self, n)}" for n, default in defaults.items() if getattr(self, n) != default
        ]
        return f"{self.input_size}, {self.hidden_size}" + "".join(shown)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("proj_size", 0)

    # the way through

    def _run(self, input: Any, hx: Any) -> tuple[Any, Any]:
        """Run `forward`; ``hx`` is the state that the user passed."""
        if isinstance(input, PackedSequence):
            data, batch_sizes, order, back = input
            hx = self._zeros(data, _first(batch_sizes)) if hx is None else self.permute_hidden(hx, order)
            self.check_forward_args(data, hx, batch_sizes)
            out, state = self._layers(data, batch_sizes, hx)
            return PackedSequence(out, batch_sizes, order, back), self.permute_hidden(state, back)
        name = "RNN" if self.mode.startswith("RNN") else self.mode
        if input.ndim not in (2, 3):
            tensor = " tensor" if name == "RNN" else ""
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.ndim}D{tensor} instead")
        batched, batch = input.ndim == 3, 0 if self.batch_first else 1
        if contexts.state.joined and not self.batch_first:
            contexts.state.check_batch_first(name, input)
        input = input if batched else input.unsqueeze(batch)
        if hx is None:
            hx = self._zeros(input, input.size(batch))
        else:
            self._check_rank(hx, batched)
            hx = hx if batched else self._each(hx, lambda h: h.unsqueeze(1))
        self.check_forward_args(input, hx, None)
        out, state = self._layers(input, None, hx)
        return (out, state) if batched else (out.squeeze(batch), self._each(state, lambda h: h.squeeze(1)))

    def _layers(self, input: Tensor, batch_sizes: Tensor | None, hx: Any) -> tuple[Tensor, Any]:
        out, *states = recurrent(
            self.mode,
            input,
            batch_sizes,
            self._states(hx),
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
            self.batch_first,
        )
        return out, states[0] if len(states) == 1 else tuple(states)

    def _states(self, hx: Any) -> tuple[Tensor, ...]:
        return (hx,)

    def _each(self, hx: Any, fn: Any) -> Any:
        return fn(hx)

    def _zeros(self, input: Tensor, n: int) -> Any:
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return zeros(layers, n, self.hidden_size, dtype=input.dtype, device=input.device)

    def _check_rank(self, hx: Tensor, batched: bool) -> None:
        rank = 3 if batched else 2
        if hx.ndim != rank:
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(f"For {kind} input, hx should also be {rank}-D but got {hx.ndim}-D tensor")


def _check_options(dropout: Any, num_layers: int, bias: Any, batch_first: Any) -> None:
    number = isinstance(dropout, numbers.Number) and not isinstance(dropout, bool)
    if not number or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
            f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    for name, flag in (("bias", bias), ("batch_first", batch_first)):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(flag).__name__}")


def _check_sizes(input_size: Any, hidden_size: Any, num_layers: int, proj_size: int) -> None:
    for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(size, int):
            raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
        if size <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


def _no_projection(kwargs: dict[str, Any]) -> None:
    if "proj_size" in kwargs:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """Elman recurrent network, ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)``.

    Args:
        nonlinearity: "tanh" or "relu".
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype: as for
            `RNNBase`.

    Shape:
        input (T, N, input_size), or (N, T, input_size) with ``batch_first``, or without N, or a
        `PackedSequence`; state (layers * directions, N, hidden_size), default zeros. Returns the last layer's
        outputs (..., directions * hidden_size) and the final state.

    Raises:
        ValueError, TypeError: for invalid arguments.
        RuntimeError: if the input or the state has the wrong shape.

    Example:
        >>> import functorch_port as torch
        >>> out, h = torch.nn.RNN(3, 4, num_layers=2)(torch.ones(5, 2, 3))
        >>> out.shape, h.shape
        (torch.Size([5, 2, 4]), torch.Size([2, 2, 4]))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.RNN.html
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_projection(kwargs)
        if len(args) > 3:
            nonlinearity, args = args[3], (*args[:3], *args[4:])
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        return self._run(input, hx)


class GRU(RNNBase):
    """Gated recurrent units.

    ``r = sigmoid(W_ir x + W_hr h)``, ``z = sigmoid(W_iz x + W_hz h)``, ``n = tanh(W_in x + r * (W_hn h))``,
    ``h = (1 - z) * n + z * h``, each product with its bias. The weights stack r, z and n along dimension 0.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype: as for
            `RNNBase`.

    Shape:
        As for `RNN`.

    Raises:
        ValueError, TypeError: for invalid arguments.
        RuntimeError: if the input or the state has the wrong shape.

    Example:
        >>> import functorch_port as torch
        >>> out, h = torch.nn.GRU(3, 4, bidirectional=True)(torch.ones(5, 2, 3))
        >>> out.shape, h.shape
        (torch.Size([5, 2, 8]), torch.Size([2, 2, 4]))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.GRU.html
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        return self._run(input, hx)


class LSTM(RNNBase):
    """Long short-term memory.

    ``i, f, o = sigmoid(W_i. x + W_h. h)``, ``g = tanh(W_ig x + W_hg h)``, ``c = f * c + i * g``,
    ``h = o * tanh(c)``, each product with its bias. The weights stack i, f, g and o along dimension 0.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype:
            as for `RNNBase`.

    Shape:
        As for `RNN`, with a state ``(h, c)``; with ``proj_size``, h and the outputs have that size.

    Raises:
        ValueError, TypeError: for invalid arguments.
        RuntimeError: if the input or the state has the wrong shape.

    Example:
        >>> import functorch_port as torch
        >>> out, (h, c) = torch.nn.LSTM(3, 4, batch_first=True)(torch.ones(2, 5, 3))
        >>> out.shape, h.shape, c.shape
        (torch.Size([2, 5, 4]), torch.Size([1, 2, 4]), torch.Size([1, 2, 4]))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The expected shape of the cell state."""
        return *self.get_expected_hidden_size(input, batch_sizes)[:2], self.hidden_size

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise unless input and states have the expected shapes."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], expected, "Expected hidden[0] size {}, got {}")
        expected = self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(hidden[1], expected, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The states with their sequences reordered."""
        return _permuted(hx, permutation)

    def forward(
        self, input: Any, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        return self._run(input, hx)

    def _states(self, hx: Any) -> tuple[Tensor, ...]:
        return tuple(hx)

    def _each(self, hx: Any, fn: Any) -> Any:
        return fn(hx[0]), fn(hx[1])

    def _zeros(self, input: Tensor, n: int) -> Any:
        layers = self.num_layers * (2 if self.bidirectional else 1)
        place: Any = {"dtype": input.dtype, "device": input.device}
        return zeros(layers, n, self.proj_size or self.hidden_size, **place), zeros(
            layers, n, self.hidden_size, **place
        )

    def _check_rank(self, hx: Any, batched: bool) -> None:
        rank = 3 if batched else 2
        if hx[0].ndim != rank or hx[1].ndim != rank:
            kind = "batched 3-D" if batched else "unbatched 2-D"
            found = f"({hx[0].ndim}-D, {hx[1].ndim}-D) tensors"
            raise RuntimeError(f"For {kind} input, hx and cx should also be {rank}-D but got {found}")


class RNNCellBase(Module):
    """Base of the recurrent cells: the weights.

    Args:
        input_size, hidden_size: sizes of the input and of the state.
        bias: whether there are biases.
        num_chunks: number of gates, stacked along dimension 0 of the weights.
        device, dtype: of the parameters.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.RNNCell.html
    """

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(empty((rows, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            value = Parameter(empty(rows, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters uniformly from ``[-1/sqrt(hidden_size), 1/sqrt(hidden_size)]``."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        bias = "" if self.bias is True else f", bias={self.bias}"
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        shown = "" if nonlinearity == "tanh" else f", nonlinearity={nonlinearity}"
        return f"{self.input_size}, {self.hidden_size}{bias}{shown}"

    def _step(self, cell: str, input: Tensor, hx: Any, hidden: str = "hidden") -> Any:
        """One step; unbatched input gets a batch of 1. ``hx`` is a Tensor, a pair of Tensors, or None."""
        name = type(self).__name__
        pair = cell == "lstm_cell"
        if input.ndim not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        states = [] if hx is None else list(hx) if pair else [hx]
        for i, h in enumerate(states):
            if h.ndim not in (1, 2):
                called = f"hx[{i}]" if pair else hidden
                raise ValueError(f"{name}: Expected {called} to be 1D or 2D, got {h.ndim}D instead")
        batched = input.ndim == 2
        if not batched:
            input, states = input.unsqueeze(0), [h.unsqueeze(0) for h in states]  # type: ignore[attr-defined]
        if hx is None:
            zero = zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
            states = [zero, zero] if pair else [zero]
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        out = function(cell)(input, states if pair else states[0], *weights)
        if batched:
            return out
        return tuple(o.squeeze(0) for o in out) if pair else out.squeeze(0)


class RNNCell(RNNCellBase):
    """One step of `RNN`.

    Args:
        input_size, hidden_size, bias, device, dtype: as for `RNNCellBase`.
        nonlinearity: "tanh" or "relu".

    Shape:
        (N, input_size) or (input_size), and the state (N, hidden_size) or (hidden_size), to the new state.

    Raises:
        ValueError, RuntimeError: if shapes do not match, or the nonlinearity is unknown.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.RNNCell(3, 4)(torch.ones(2, 3)).shape
        torch.Size([2, 4])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.RNNCell.html
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(f"rnn_{self.nonlinearity}_cell", input, hx)


class LSTMCell(RNNCellBase):
    """One step of `LSTM`.

    Args:
        input_size, hidden_size, bias, device, dtype: as for `RNNCellBase`.

    Shape:
        (N, input_size) or (input_size), and a pair of states (N, hidden_size) or (hidden_size), to the new pair.

    Raises:
        ValueError, RuntimeError: if shapes do not match.

    Example:
        >>> import functorch_port as torch
        >>> h, c = torch.nn.LSTMCell(3, 4)(torch.ones(2, 3))
        >>> h.shape, c.shape
        (torch.Size([2, 4]), torch.Size([2, 4]))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTMCell.html
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        return self._step("lstm_cell", input, hx)


class GRUCell(RNNCellBase):
    """One step of `GRU`.

    Args:
        input_size, hidden_size, bias, device, dtype: as for `RNNCellBase`.

    Shape:
        As for `RNNCell`.

    Raises:
        ValueError, RuntimeError: if shapes do not match.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.GRUCell(3, 4)(torch.ones(2, 3)).shape
        torch.Size([2, 4])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.GRUCell.html
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step("gru_cell", input, hx)
