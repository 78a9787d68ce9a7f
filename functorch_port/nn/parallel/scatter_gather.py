"""``torch.nn.parallel.scatter_gather``: batches of arguments for several modules."""

from __future__ import annotations

from typing import Any

from ..._tensor.tensor import Tensor
from . import gather as gather

__all__ = ["gather", "is_namedtuple", "scatter", "scatter_kwargs"]


def is_namedtuple(obj: Any) -> bool:
    """Whether an object is a named tuple."""
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> Any:
    """Arguments for each of several devices: the parts of tensors, within lists, tuples and dicts; all else as it is.

    Args:
        inputs: the arguments.
        target_gpus: the devices.
        dim: along which tensors are split.

    Returns:
        A sequence with the arguments of each device.
    """

    def parts_of(value: Any) -> Any:
        if isinstance(value, Tensor):
            return [
                part.to(device)
                for part, device in zip(value.chunk(len(target_gpus), dim), target_gpus, strict=False)
            ]
        if is_namedtuple(value):
            return [type(value)(*parts) for parts in zip(*map(parts_of, value), strict=False)]
        if isinstance(value, list | tuple) and value:
            return [type(value)(parts) for parts in zip(*map(parts_of, value), strict=False)]
        if isinstance(value, dict) and value:
            return [type(value)(parts) for parts in zip(*map(parts_of, value.items()), strict=False)]
        return [value for _ in target_gpus]

    return parts_of(inputs)


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Any, dim: int = 0) -> tuple[Any, Any]:
    """`scatter` for positional and keyword arguments, as many of each."""
    positional = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    count = max(len(positional), len(named))
    positional += [()] * (count - len(positional))
    named += [{} for _ in range(count - len(named))]
    return tuple(positional), tuple(named)
