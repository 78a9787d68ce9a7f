"""Copying forms of the view operations: `expand_copy` is `expand` with memory of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax

from .._array.sizes import as_index
from .._base import dtypes
from .._run import bind
from .._run.registry import TensorOnly, composite, op
from .._tensor.tensor import Tensor
from ._common import wrap_dim
from ._matrices import with_out
from .complex import _view_as_complex, _view_as_real
from .diagonals import diagonal
from .permuting import permute, t, transpose
from .repeating import expand
from .reshaping import infer_size, squeeze, squeeze_node, unsqueeze
from .splitting import check_split_sizes, select, split_sizes_of
from .strides import as_strided, unfold


def _twin(name: str, view: Callable[..., Any], node: Any = None) -> None:
    camel = "".join(part.capitalize() for part in name.split("_"))
    op(f"{name}_copy", where="torch", node=node or f"{camel}Backward0_copy")(view)


for _view in (expand, diagonal, unsqueeze, transpose, t, permute, unfold, select):
    _twin(_view.__name__, _view)
_twin("squeeze", squeeze, lambda static: f"{squeeze_node(static)}_copy")
_twin("view_as_real", _view_as_real)
_twin("view_as_complex", _view_as_complex)


@op("alias_copy", where="torch", node="AliasBackward0_copy")
def alias_copy(input: TensorOnly):
    """A copy."""
    return input


@op("detach_copy", where="torch", differentiable=False)
def detach_copy(input: TensorOnly):
    """A detached copy."""
    return input


@op("slice_copy", where="torch", node="SliceBackward0_copy")
def slice_copy(
    input: TensorOnly, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
):
    """A copy of ``input[start:end:step]`` along ``dim``."""
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    axis = wrap_dim(dim, input.ndim)
    return input[(slice(None),) * axis + (slice(start, end, step),)]


@op("_view_copy", where="", node="ViewBackward0_copy")
def _view_copy(input: TensorOnly, size: tuple[int, ...]):
    """The same elements in another shape."""
    return input.reshape(size)


@composite(where="torch")
@with_out
def view_copy(input: Tensor, size: Any) -> Tensor:
    """A copy in another shape, or of the same bytes in another dtype."""
    if isinstance(size, dtypes.dtype):
        return bind.function("_view_dtype")(input, size).clone()
    return bind.function("_view_copy")(input, infer_size(size, input.numel()))


@composite(where="torch")
@with_out
def as_strided_copy(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A copy of the `as_strided` view."""
    return as_strided(input, size, stride, storage_offset).clone()  # type: ignore[attr-defined]


@op("_split_copy", where="", node=lambda static: static["node"])
def _split_copy(input: TensorOnly, sizes: tuple[int, ...], axis: int, node: str):
    """Copies of the parts along a dimension."""
    starts = itertools.accumulate(sizes, initial=0)
    return tuple(lax.dynamic_slice_in_dim(input, s, n, axis) for s, n in zip(starts, sizes, strict=False))


def _parts(input: Tensor, sizes: Sequence[int], dim: int, name: str) -> tuple[Tensor, ...]:
    return bind.function("_split_copy")(
        input, tuple(sizes), wrap_dim(dim, input.ndim), f"{name}Backward0_copy"
    )


@composite(where="torch")
@with_out
def split_copy(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Copies of the parts that `split` returns."""
    return _parts(input, split_sizes_of(input, split_size, dim), dim, "Split")


@composite(where="torch")
@with_out
def split_with_sizes_copy(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Copies of the parts that `split_with_sizes` returns."""
    sizes = [as_index(n) for n in split_sizes]
    check_split_sizes(input, sizes, dim)
    return _parts(input, sizes, dim, "SplitWithSizes")


@op("_unbind_copy", where="", node="UnbindBackward0_copy")
def _unbind_copy(input: TensorOnly, axis: int):
    """Copies of all slices along a dimension."""
    parts: list[jax.Array] = [lax.index_in_dim(input, i, axis, False) for i in range(input.shape[axis])]
    return tuple(parts)


@composite(where="torch")
@with_out
def unbind_copy(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Copies of all slices along ``dim``."""
    if input.ndim == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return bind.function("_unbind_copy")(input, wrap_dim(dim, input.ndim))


@composite("narrow_copy")
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of the `narrow` view."""
    if length < 0 and input.ndim:
        size = input.shape[wrap_dim(dim, input.ndim)]
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return bind.function("narrow")(input, dim, start, length).clone()
