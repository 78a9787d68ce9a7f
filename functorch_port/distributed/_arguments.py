"""What collectives are given: checks, as PyTorch's, and arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from functorch_port._tensor.tensor import Tensor

from ._group import ProcessGroup, described, value_of, write
from ._reduce_op import Backend, ReduceOp

__all__ = [
    "check_dtypes",
    "check_list",
    "check_parts",
    "check_same",
    "check_tensor",
    "fill",
    "reduction_of",
    "rows_of",
    "split_sizes",
    "flat",
]


def check_tensor(value: Any, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )


def check_list(values: Any, name: str) -> None:
    if not isinstance(values, list) or not all(isinstance(value, Tensor) for value in values):
        kinds = f" with elements of type {[*map(type, values)]}." if isinstance(values, list) else " instead."
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(values)}{kinds}"
        )


def check_dtypes(*tensors: Tensor) -> None:
    for tensor in tensors[1:]:
        if tensor.dtype != tensors[0].dtype:
            raise ValueError(
                f"Invalid usage of tensors with different dtypesFound {tensors[0].dtype} and  {tensor.dtype}"
            )


def check_same(name: str, tensors: Sequence[Tensor], like: Tensor, many: int | None = None) -> None:
    """Check that there are as many tensors as processes, of one shape and dtype."""
    if many is not None and len(tensors) != many:
        raise RuntimeError(
            f"ProcessGroupGloo::{name}: invalid output tensor list at index 0 (expected length {many}, got "
            f"{len(tensors)})"
        )
    for index, tensor in enumerate(tensors):
        if tensor.shape != like.shape:
            raise RuntimeError(
                f"ProcessGroupGloo::{name}: invalid tensor size at index {index} (expected ({_sizes(like)}), got "
                f"({_sizes(tensor)}))"
            )


def _sizes(tensor: Tensor) -> str:
    return ", ".join(map(str, tensor.shape))


def reduction_of(op: Any, tensor: Tensor, pg: ProcessGroup, name: str) -> tuple[str, float | None]:
    """The name of a reduction, and the factor of PREMUL_SUM."""
    made = ReduceOp(op)
    kind = made.op.name
    if tensor.is_complex() and kind not in ("SUM", "AVG", "PREMUL_SUM"):
        raise ValueError(f"{name} does not support {made.op} on complex tensors")
    if kind == "AVG" and not (tensor.is_floating_point() or tensor.is_complex()):
        name = tensor.dtype.scalar_name
        raise RuntimeError(f"result type Float can't be cast to the desired output type {name}")
    if kind in ("BAND", "BOR", "BXOR") and tensor.is_floating_point():
        raise RuntimeError(f"Cannot use ReduceOp.{kind} with non-integral dtype")
    if kind == "PREMUL_SUM":
        if pg.name() == Backend.GLOO:
            raise RuntimeError("Cannot use ReduceOp.PREMUL_SUM with Gloo")
        if made.factor is None:
            raise ValueError(
                "ReduceOp.PREMUL_SUM needs its factor: torch.distributed._make_nccl_premul_sum(2.0)"
            )
    return kind, made.factor


def rows_of(tensors: Sequence[Tensor]) -> Any:
    """The arrays of tensors of one size as the rows of one."""
    arrays = [flat(tensor) for tensor in tensors]
    if all(isinstance(array, np.ndarray) for array in arrays):
        return np.stack(arrays)
    return jax.numpy.stack(arrays)


def fill(tensors: Sequence[Tensor], rows: Any) -> None:
    for tensor, row in zip(tensors, rows):
        write(tensor, row.reshape(tensor.shape))


def check_parts(name: str, part: Tensor, whole: Tensor, size: int) -> None:
    """Check that ``whole`` has the parts of all processes, one after another."""
    if whole.numel() != part.numel() * size:
        raise RuntimeError(
            f"{name}: the tensors {described(part)} of {size} processes do not make one {described(whole)}"
        )


def split_sizes(tensor: Tensor, sizes: Sequence[int] | None, count: int) -> list[int]:
    """The number of elements of each part."""
    first = tensor.shape[0]
    if not sizes:
        if first % count:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        sizes = [first // count] * count
    if len(sizes) != count:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(sizes) != first:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    return [size * (tensor.numel() // first if first else 0) for size in sizes]


def flat(tensor: Tensor) -> Any:
    """A tensor's array, in one dimension."""
    return value_of(tensor).reshape(-1)
