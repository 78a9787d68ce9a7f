"""Forward mode of `autograd.Function`: its ``jvp`` in an open dual level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._run import duals
from .._tensor.tensor import Tensor

__all__ = ["push"]

_INPLACE = (
    "An inplace custom Function is not {} the forward mode gradients {}. "
    "If the forward is modifying an input inplace, "
)
_NOT_INPLACE = _INPLACE.format("modifying", "inplace") + (
    "then the jvp function must modify the corresponding gradient inplace."
)
_NOT_AS_IS = _INPLACE.format("returning", "as-is") + (
    "then the jvp function must modify the gradient inplace and return it as-is."
)
_NO_VIEW = (
    "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
)
_OTHER_VIEW = (
    "A custom Function is returning a view but the jvp is not returning a view of the {}given grad input."
)

JVP_COUNT = "Function's jvp returned an invalid number of forward gradients (expected {} but got {})"


def push(cls: Any, ctx: Any, args: Sequence[Any], raw: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Give the outputs of a custom function their tangents, if one of its arguments has one.

    Args:
        raw: what forward returned.
        outputs: the tensors that the caller gets for these.
    """
    tangents = [duals.tangent_of(a) for a in args]
    if all(t is None for t in tangents):
        return
    given = [
        a.new_zeros(a.shape) if t is None and ctx.materialize_grads and _differentiable(a) else t
        for a, t in zip(args, tangents, strict=True)
    ]
    versions = [t._writes if isinstance(t, Tensor) else 0 for t in given]
    saved, ctx._saved = ctx._saved, [("input", t, 0, t._writes) for t in ctx._for_forward]
    try:
        with duals.paused():
            made = cls.jvp(ctx, *given)
    finally:
        ctx._saved = saved
    made = tuple(made) if isinstance(made, tuple | list) else (made,)
    if len(made) != len(outputs):
        raise RuntimeError(JVP_COUNT.format(len(outputs), len(made)))
    for number, (out, first, tangent) in enumerate(zip(outputs, raw, made, strict=True)):
        if tangent is None:
            continue
        if not _differentiable(out) or id(first) in ctx._non_differentiable:
            raise RuntimeError(
                f"Function's jvp returned a gradient at position {number}, but the corresponding forward output is not "
                "a differentiable tensor. You should return None at that position instead."
            )
        for argument, own, version in zip(args, given, versions, strict=True):
            if isinstance(argument, Tensor) and argument._storage is first._storage and own is not None:
                _check(first is argument and any(first is d for d in ctx._dirty), own, version, tangent)
        duals.attach(out, tangent)


def _differentiable(value: Any) -> bool:
    return isinstance(value, Tensor) and value._is_differentiable()


def _check(in_place: bool, own: Tensor, version: int, tangent: Tensor) -> None:
    """Whether an output that shares memory with an input has a tangent that does so with the input's."""
    if in_place:
        if own._writes == version:
            raise RuntimeError(_NOT_INPLACE)
        if tangent is not own:
            raise RuntimeError(_NOT_AS_IS)
    elif tangent._base is None:
        raise RuntimeError(_NO_VIEW)
    elif own._base is not None and tangent._base is not own._base:
        raise RuntimeError(_OTHER_VIEW.format("same base as the "))
    elif own._base is None and tangent._base is not own:
        raise RuntimeError(_OTHER_VIEW.format(""))
