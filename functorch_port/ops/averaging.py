"""Running averages of many tensors at once: one program for a whole model's parameters."""

from __future__ import annotations

from functorch_port._run.registry import Arrays, Scalar, op
from functorch_port.ops._common import compute
from functorch_port.ops.arithmetic import _lerp, add, div, sub


@op("_lerped", where="", differentiable=False)
def lerped(tensors: Arrays, ends: Arrays, weight: Scalar):
    """Each tensor moved the part ``weight`` of the way to its end."""
    return tuple(compute(_lerp, a.dtype, a, b, weight) for a, b in zip(tensors, ends, strict=True))


@op("_averaged", where="", differentiable=False)
def averaged(tensors: Arrays, news: Arrays, count: Scalar):
    """The mean of ``count`` values, of which all but the new one have the given mean."""
    return tuple(add(a, div(sub(b, a), count)).astype(a.dtype) for a, b in zip(tensors, news, strict=True))
