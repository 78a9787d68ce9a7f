"""Running averages of many tensors in one program, such as all parameters of a model."""

from __future__ import annotations

from functorch_port._run.registry import Arrays, Scalar, op
from functorch_port.ops._common import compute
from functorch_port.ops.arithmetic import _lerp, add, div, sub


@op("_lerped", where="", differentiable=False)
def lerped(tensors: Arrays, ends: Arrays, weight: Scalar):
    """``lerp`` of each tensor to its end by ``weight``."""
    return tuple(compute(_lerp, a.dtype, a, b, weight) for a, b in zip(tensors, ends, strict=True))


@op("_averaged", where="", differentiable=False)
def averaged(tensors: Arrays, news: Arrays, count: Scalar):
    """The mean of ``count`` values, from the mean of all but the last one and that one."""
    return tuple(add(a, div(sub(b, a), count)).astype(a.dtype) for a, b in zip(tensors, news, strict=True))
