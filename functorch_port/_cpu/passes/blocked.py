"""Passes without gradients through several convolutions: their results stay in the layout that oneDNN makes them in.

oneDNN computes on images whose channels are in blocks of 8 or 16, which lie together for every pixel: (N, C / 16, H, W,
16). To and from that it copies what every convolution takes and gives, for as long as a fifth of the convolution. What
lies between two convolutions mostly does not mind: operations for each element, pooling, concatenations of channels. So
such a program is computed with the blocks as they are, and put in PyTorch's order where something else looks at it.
What comes right after a convolution for each element is computed with it (`epilogues`).

Programs with gradients are left alone: their sums over images are three times slower in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun

from ..._base.jaxprs import inlined, is_literal, operations, walk
from ...ops._convolution import Convolution, convolution_p
from ..native import ffi, onednn
from ..native.epilogue import Epilogue
from .epilogues import PER_ELEMENT, fuse, fused_p

__all__ = ["as_fun", "function_of"]

_WINDOWS = ("base_dilation", "window_dilation", "window_dimensions", "window_strides")


class _Blocked:
    """Images of shape (N, C, H, W) as (N, C / block, H, W, block)."""

    def __init__(self, array: jax.Array) -> None:
        self.array = array
        self._plain: jax.Array | None = None

    @property
    def kind(self) -> tuple[int, int]:
        """How many blocks there are, and of how many channels."""
        return self.array.shape[1], self.array.shape[4]

    def plain(self) -> jax.Array:
        if self._plain is None:
            self._plain = self._in_order()
        return self._plain

    def _in_order(self) -> jax.Array:
        n, c, h, w, block = self.array.shape
        shape = n, c * block, h, w
        if h == w == 1:
            return self.array.reshape(shape)
        if self.array.dtype == np.float32:
            # XLA would merge what made the array into a loop in the other order: 2.2 ms for max-pooling, where it takes
            # 0.4 as it lies, and 0.3 for this
            return onednn.call(onednn.plan_unblocking(n * c, block, (h, w)), shape, self.array)
        return self.array.transpose(0, 1, 4, 2, 3).reshape(shape)


class _Splat:
    """An array of one number."""

    def __init__(self, value: Any, shape: tuple[int, ...]) -> None:
        self.value, self.shape = value, shape

    def plain(self) -> jax.Array:
        return lax.broadcast(self.value, self.shape)


def function_of(jaxpr: Jaxpr) -> Callable[[ClosedJaxpr], Callable[..., list[Any]]] | None:
    """`as_fun` for a program with several convolutions by oneDNN and no gradients of their weights; else None."""
    if ffi.are_enough():
        return None
    kinds = [eqn.params["kind"] for eqn in operations([jaxpr]) if eqn.primitive is convolution_p]
    return as_fun if len(kinds) > 1 and "weight" not in kinds else None


def as_fun(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """`jax.extend.core.jaxpr_as_fun` for such a program."""
    jaxpr = fuse(inlined(closed.jaxpr), _RULES)

    def operation(eqn: JaxprEqn, ins: list[Any]) -> list[Any]:
        blocked = _in_blocks(eqn, ins)
        return _as_it_is(jaxpr, eqn, ins) if blocked is None else blocked

    def run(*args: Any) -> list[Any]:
        outs = walk(jaxpr, (*closed.consts, *args), operation, lambda value, aval: value)
        return list(map(_plain, outs))

    return run


def _as_it_is(jaxpr: Jaxpr, eqn: JaxprEqn, ins: Sequence[Any]) -> list[Any]:
    given = {x: _plain(v) for x, v in zip(eqn.invars, ins, strict=True) if not is_literal(x)}
    one = jaxpr.replace(
        constvars=(), invars=list(given), outvars=eqn.outvars, eqns=[eqn], effects=eqn.effects
    )
    return jaxpr_as_fun(ClosedJaxpr(one, ()))(*given.values())


def _plain(value: Any) -> Any:
    return value.plain() if isinstance(value, _Blocked | _Splat) else value


def _in_blocks(eqn: JaxprEqn, ins: list[Any]) -> list[Any] | None:
    """What an operation makes of blocks, or None if it wants them in PyTorch's order."""
    name = eqn.primitive.name
    if eqn.primitive is convolution_p:
        return [_convolution(*ins, **eqn.params)]
    if eqn.primitive is fused_p:
        return [_fused(*ins, **eqn.params)]
    if name == "broadcast_in_dim" and eqn.invars[0].aval.ndim == 0 and eqn.outvars[0].aval.ndim == 4:
        return [_Splat(ins[0], eqn.outvars[0].aval.shape)]
    if not any(isinstance(v, _Blocked) for v in ins):
        return None
    rule = _per_element if name in PER_ELEMENT else _RULES.get(name)
    return None if rule is None else rule(eqn, ins)


def _fused(x: Any, w: Any, *others: Any, kind: str, how: Any, epilogue: Epilogue, in_order: bool) -> Any:
    """The value of a convolution and its epilogue."""
    block, channels = epilogue.block, (how.output if kind == "forward" else how.input)[1]
    arrays = []
    for value, what in zip(others, epilogue.kinds, strict=True):
        if what != "images":
            arrays.append(_plain(value).reshape(-1))
        elif isinstance(value, _Blocked) and value.kind[1] == block:
            arrays.append(value.array)
        else:
            arrays.append(_cut(_plain(value), channels // block, block))
    taken, _ = onednn.blocks(kind, how)
    return _by_onednn(x, w, kind, how, (taken, 0 if in_order else block), epilogue, arrays)


def _convolution(x: Any, w: Any, kind: str, how: Any) -> Any:
    blocks = onednn.blocks(kind, how)
    if not any(blocks):
        return convolution_p.bind(_plain(x), _plain(w), kind=kind, how=how)
    return _by_onednn(x, w, kind, how, blocks)


def _by_onednn(
    x: Any,
    w: Any,
    kind: str,
    how: Convolution,
    blocks: tuple[int, int],
    epilogue: Epilogue | None = None,
    others: Sequence[jax.Array] = (),
) -> Any:
    """A convolution, whose epilogue takes ``others``. For ``blocks`` see `onednn.blocks`."""
    taken, made = blocks
    given = taken if isinstance(x, _Blocked) and x.kind[1] == taken else 0
    planned = onednn.plan(kind, how, (given, made), epilogue)
    assert planned is not None  # `onednn.blocks` has found it
    n, channels, *sizes = how.output if kind == "forward" else how.input
    if epilogue and epilogue.sizes:
        sizes = list(epilogue.sizes)
    shape = (n, channels // made, *sizes, made) if made else (n, channels, *sizes)
    result = onednn.call(planned, shape, x.array if given else _plain(x), _plain(w), *others)
    return _Blocked(result) if made else result


def _cut(x: jax.Array, count: int, block: int) -> jax.Array:
    """An array of shape (N or 1, C, H or 1, W or 1) in blocks."""
    n, _, h, w = x.shape
    if h == w == 1:
        return x.reshape(n, count, 1, 1, block)
    return x.reshape(n, count, block, h, w).transpose(0, 1, 3, 4, 2)


def _per_element(eqn: JaxprEqn, ins: list[Any]) -> list[Any] | None:
    kinds = {v.kind for v in ins if isinstance(v, _Blocked)}
    if len(kinds) > 1:
        return None
    ((count, block),) = kinds
    whole = eqn.outvars[0].aval.shape
    if whole[1] != count * block:
        return None
    blocked = (whole[0], count, *whole[2:], block)
    arrays = []
    for v, aval in zip(ins, [x.aval for x in eqn.invars], strict=True):
        if isinstance(v, _Blocked):
            arrays.append(v.array)
        elif isinstance(v, _Splat):
            arrays.append(lax.broadcast(v.value, blocked))
        elif aval.ndim == 0:
            arrays.append(v)
        elif aval.shape[1] == 1:
            arrays.append(jnp.expand_dims(v, 4))
        else:
            arrays.append(_cut(v, count, block))
    if eqn.primitive.name == "select_n":
        arrays[1:] = [jnp.broadcast_to(a, blocked) for a in arrays[1:]]
    return [_Blocked(eqn.primitive.bind(*arrays, **eqn.params))]


def _slice(eqn: JaxprEqn, ins: list[Any]) -> list[Any] | None:
    starts, limits = eqn.params["start_indices"], eqn.params["limit_indices"]
    strides = eqn.params["strides"] or (1,) * 4
    x, channels = ins[0].array, eqn.invars[0].aval.shape[1]
    if (starts[1], limits[1], strides[1]) != (0, channels, 1):
        return None
    starts, limits, strides = (
        (*starts[:1], 0, *starts[2:], 0),
        (*limits[:1], x.shape[1], *limits[2:], x.shape[4]),
        (*strides, 1),
    )
    return [_Blocked(lax.slice(x, starts, limits, strides))]


def _pad(eqn: JaxprEqn, ins: list[Any]) -> list[Any] | None:
    config = eqn.params["padding_config"]
    if not isinstance(ins[0], _Blocked) or any(config[1]):
        return None
    return [_Blocked(lax.pad(ins[0].array, _plain(ins[1]), (*config, (0, 0, 0))))]


def _concatenate(eqn: JaxprEqn, ins: list[Any]) -> list[Any] | None:
    dimension = eqn.params["dimension"]
    if not all(isinstance(v, _Blocked) for v in ins) or len({v.kind[1] for v in ins}) > 1:
        return None
    return [_Blocked(lax.concatenate([v.array for v in ins], dimension))]


def _windowed(eqn: JaxprEqn, ins: list[Any]) -> list[Any] | None:
    params = dict(eqn.params)
    if params["window_dimensions"][1] != 1 or any(params["padding"][1]):
        return None
    params |= {name: (*params[name], 1) for name in _WINDOWS}
    params["padding"] = (*params["padding"], (0, 0))
    return [_Blocked(eqn.primitive.bind(ins[0].array, **params))]


def _reduced(eqn: JaxprEqn, ins: list[Any]) -> list[Any] | None:
    """Over the pixels, as in an average over each channel."""
    if tuple(eqn.params["axes"]) != (2, 3):
        return None
    found = eqn.primitive.bind(ins[0].array, **eqn.params)
    return [found.reshape(eqn.outvars[0].aval.shape)]


_RULES: dict[str, Callable[..., list[Any] | None]] = {
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "reduce_window_max": _windowed,
    "reduce_window_sum": _windowed,
    "reduce_sum": _reduced,
    "reduce_max": _reduced,
}
