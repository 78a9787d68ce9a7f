"""Passes without gradients through several convolutions: their results stay in the layout that oneDNN makes them in.

oneDNN computes on images whose channels are in blocks of 8 or 16, which lie together for every pixel: (N, C / 16, H, W,
16). To and from that it copies what every convolution takes and gives, for as long as a fifth of the convolution. What
lies between two convolutions mostly does not mind: operations for each element, pooling, concatenations of channels. So
such a program is computed with the blocks as they are, and put in PyTorch's order where something else looks at it.
What comes right after a convolution for each element is computed with it (`epilogues`).

Programs with gradients are left alone: their sums over images are three times slower in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun

from ..._array.tracing import x64
from ...ops._convolution import Convolution, convolution_p
from ..native import ffi, onednn
from ..native.epilogue import Epilogue
from .epilogues import PER_ELEMENT, Finished, find

__all__ = ["as_fun", "function_of"]

_INLINED = {"jit": "jaxpr", "pjit": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}
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
    kinds = [] if ffi.are_enough() else list(_kinds(jaxpr))
    return as_fun if len(kinds) > 1 and "weight" not in kinds else None


def _kinds(jaxpr: Jaxpr) -> Iterable[str]:
    for eqn in jaxpr.eqns:
        if eqn.primitive is convolution_p:
            yield eqn.params["kind"]
        elif eqn.primitive.name in _INLINED:
            yield from _kinds(_inside(eqn))


def as_fun(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """`jax.extend.core.jaxpr_as_fun` for such a program."""

    def run(*args: Any) -> list[Any]:
        with x64():
            given = [
                jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype, weak_type=v.aval.weak_type)
                for v in (*closed.jaxpr.constvars, *closed.jaxpr.invars)
            ]
            flat = jax.make_jaxpr(partial(_inline, closed.jaxpr))(given)
        return [_plain(v) for v in _evaluate(flat, (*closed.consts, *args))]

    return run


def _inline(jaxpr: Jaxpr, values: Sequence[Any]) -> list[Any]:
    """The program for a CPU, without calls of others in it, of its constants and arguments."""
    env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), values, strict=True))
    for eqn in jaxpr.eqns:
        ins = _read(env, eqn.invars)
        if eqn.primitive.name in _INLINED:
            inner = eqn.params[_INLINED[eqn.primitive.name]]
            outs = _inline(_inside(eqn), (*getattr(inner, "consts", ()), *ins))
        elif eqn.primitive.name == "cond" and eqn.params.get("branches_platforms") is not None:
            branch = _for_cpu(eqn.params)
            outs = _inline(branch.jaxpr, (*branch.consts, *ins[1:]))
        else:
            outs = _as_it_is(jaxpr, eqn, ins)
        env.update(zip(eqn.outvars, outs, strict=True))
    return _read(env, jaxpr.outvars)


def _evaluate(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    jaxpr = closed.jaxpr
    env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *args), strict=True))
    found = find(jaxpr, _RULES)
    for k, eqn in enumerate(jaxpr.eqns):
        if k in found:
            finished = found[k]
            outs = [None] if finished is None else [_finished(finished, env)]
        else:
            ins = _read(env, eqn.invars)
            blocked = _in_blocks(eqn, ins, [atom.aval for atom in eqn.invars])
            outs = _as_it_is(jaxpr, eqn, ins) if blocked is None else blocked
        env.update(zip(eqn.outvars, outs, strict=True))
    return _read(env, jaxpr.outvars)


def _read(env: dict[Any, Any], atoms: Iterable[Any]) -> list[Any]:
    return [atom.val if isinstance(atom, Literal) else env[atom] for atom in atoms]


def _as_it_is(jaxpr: Jaxpr, eqn: Any, ins: Sequence[Any]) -> list[Any]:
    variables = [atom for atom in eqn.invars if not isinstance(atom, Literal)]
    given = [_plain(v) for v, atom in zip(ins, eqn.invars, strict=True) if not isinstance(atom, Literal)]
    one = Jaxpr((), list(dict.fromkeys(variables)), eqn.outvars, [eqn], eqn.effects, jaxpr.debug_info)
    return jaxpr_as_fun(ClosedJaxpr(one, ()))(*dict(zip(variables, given, strict=True)).values())


def _plain(value: Any) -> Any:
    return value.plain() if isinstance(value, _Blocked | _Splat) else value


def _inside(eqn: Any) -> Jaxpr:
    inner = eqn.params[_INLINED[eqn.primitive.name]]
    return inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner


def _in_blocks(eqn: Any, ins: list[Any], avals: list[Any]) -> list[Any] | None:
    """What an operation makes of blocks, or None if it wants them in PyTorch's order."""
    name = eqn.primitive.name
    if eqn.primitive is convolution_p:
        return [_convolution(*ins, **eqn.params)]
    if name == "broadcast_in_dim" and avals[0].ndim == 0 and eqn.outvars[0].aval.ndim == 4:
        return [_Splat(ins[0], eqn.outvars[0].aval.shape)]
    if not _has_blocks(ins):
        return None
    rule = _per_element if name in PER_ELEMENT else _RULES.get(name)
    return None if rule is None else rule(eqn, ins, avals)


def _has_blocks(ins: Iterable[Any]) -> bool:
    return any(isinstance(v, _Blocked) for v in ins)


def _for_cpu(params: dict[str, Any]) -> Any:
    return next(
        branch
        for branch, names in zip(params["branches"], params["branches_platforms"], strict=True)
        if names is None or "cpu" in names
    )


def _finished(finished: Finished, env: dict[Any, Any]) -> Any:
    """The value of a convolution and its epilogue."""
    epilogue, images = finished.epilogue, finished.convolution.outvars[0].aval.shape
    arrays = []
    for value, kind in zip(_read(env, finished.others), finished.others.values(), strict=True):
        if kind != "images":
            arrays.append(_plain(value).reshape(-1))
        elif isinstance(value, _Blocked) and value.kind[1] == epilogue.block:
            arrays.append(value.array)
        else:
            arrays.append(_cut(_plain(value), images[1] // epilogue.block, epilogue.block))
    x, w = _read(env, finished.convolution.invars)
    how = finished.convolution.params
    taken, _ = onednn.blocks(**how)
    made = 0 if finished.in_order else epilogue.block
    return _by_onednn(x, w, **how, blocks=(taken, made), epilogue=epilogue, others=arrays)


def _convolution(x: Any, w: Any, kind: str, how: Any) -> Any:
    blocks = onednn.blocks(kind, how)
    if not any(blocks):
        return convolution_p.bind(_plain(x), _plain(w), kind=kind, how=how)
    return _by_onednn(x, w, kind, how, blocks)


def _by_onednn(
    x: Any,
    w: Any,
    kind: str,
    how: Any,
    blocks: tuple[int, int],
    epilogue: Epilogue | None = None,
    others: Sequence[jax.Array] = (),
) -> Any:
    taken, made = blocks
    given = x.kind[1] if isinstance(x, _Blocked) else 0
    if given not in (0, taken):
        x, given = x.plain(), 0
    array = x.array if given else _plain(x)
    result = blocked_convolution(array, _plain(w), kind, how, (given, made), epilogue, others)
    return _Blocked(result) if made else result


def _cut(x: jax.Array, count: int, block: int) -> jax.Array:
    """An array of shape (N or 1, C, H or 1, W or 1) in blocks."""
    n, _, h, w = x.shape
    if h == w == 1:
        return x.reshape(n, count, 1, 1, block)
    return x.reshape(n, count, block, h, w).transpose(0, 1, 3, 4, 2)


def _per_element(eqn: Any, ins: list[Any], avals: list[Any]) -> list[Any] | None:
    kinds = {v.kind for v in ins if isinstance(v, _Blocked)}
    if len(kinds) > 1:
        return None
    ((count, block),) = kinds
    whole = eqn.outvars[0].aval.shape
    if whole[1] != count * block:
        return None
    blocked = (whole[0], count, *whole[2:], block)
    arrays = []
    for v, aval in zip(ins, avals, strict=True):
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


def _slice(eqn: Any, ins: list[Any], avals: list[Any]) -> list[Any] | None:
    starts, limits = eqn.params["start_indices"], eqn.params["limit_indices"]
    strides = eqn.params["strides"] or (1,) * 4
    x, channels = ins[0].array, avals[0].shape[1]
    if (starts[1], limits[1], strides[1]) != (0, channels, 1):
        return None
    starts, limits, strides = (
        (*starts[:1], 0, *starts[2:], 0),
        (*limits[:1], x.shape[1], *limits[2:], x.shape[4]),
        (*strides, 1),
    )
    return [_Blocked(lax.slice(x, starts, limits, strides))]


def _pad(eqn: Any, ins: list[Any], avals: list[Any]) -> list[Any] | None:
    config = eqn.params["padding_config"]
    if not isinstance(ins[0], _Blocked) or any(config[1]):
        return None
    return [_Blocked(lax.pad(ins[0].array, _plain(ins[1]), (*config, (0, 0, 0))))]


def _concatenate(eqn: Any, ins: list[Any], avals: list[Any]) -> list[Any] | None:
    dimension = eqn.params["dimension"]
    if not all(isinstance(v, _Blocked) for v in ins) or len({v.kind[1] for v in ins}) > 1:
        return None
    return [_Blocked(lax.concatenate([v.array for v in ins], dimension))]


def _windowed(eqn: Any, ins: list[Any], avals: list[Any]) -> list[Any] | None:
    params = dict(eqn.params)
    if params["window_dimensions"][1] != 1 or any(params["padding"][1]):
        return None
    params |= {name: (*params[name], 1) for name in _WINDOWS}
    params["padding"] = (*params["padding"], (0, 0))
    return [_Blocked(eqn.primitive.bind(ins[0].array, **params))]


def _reduced(eqn: Any, ins: list[Any], avals: list[Any]) -> list[Any] | None:
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


def blocked_convolution(
    a: jax.Array,
    b: jax.Array,
    kind: str,
    how: Convolution,
    blocks: tuple[int, int],
    epilogue: Epilogue | None = None,
    others: Sequence[jax.Array] = (),
) -> jax.Array:
    """A convolution in a program for a CPU: the first array and the result have their channels in ``blocks``.

    That is shape (N, C / block, H, W, block), or (N, C, H, W) where it is 0; see `onednn.blocks`. An epilogue takes
    ``others``.
    """
    planned = onednn.plan(kind, how, blocks, epilogue)
    assert planned is not None  # `onednn.blocks` has found it
    n, channels, *sizes = how.output if kind == "forward" else how.input
    if epilogue and epilogue.sizes:
        sizes = list(epilogue.sizes)
    block = blocks[1]
    shape = (n, channels // block, *sizes, block) if block else (n, channels, *sizes)
    return onednn.call(planned, shape, a, b, *others)
