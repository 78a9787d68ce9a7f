"""``torch._utils``: helpers of PyTorch that libraries call: flat lists of tensors, devices, errors of other threads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from . import accelerator
from ._base.device import device as _device
from ._base.layout import sparse_coo
from ._base.refused import refused_function
from ._base.reraised import ExceptionWrapper as ExceptionWrapper
from ._base.reraised import KeyErrorMessage as KeyErrorMessage
from ._run.bind import function
from ._tensor.creation import empty
from ._tensor.tensor import Tensor
from .nn.parameter import Parameter

__all__: list[str] = []


def _element_size(dtype: Any) -> int:
    return dtype.itemsize


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    return self.type(dtype, non_blocking=non_blocking)


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """All elements of tensors, in one dimension."""
    return function("cat")([t.contiguous().view(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Parts of a flat tensor, in the shapes of others."""
    parts, at = [], 0
    for like in tensors:
        parts.append(flat.narrow(0, at, like.numel()).view_as(like))
        at += like.numel()
    return tuple(parts)


def _reorder_tensors_as(tensors: Iterable[Tensor], ordered_tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Tensors in the order of the types of others; those of one type keep their order."""
    by_type: dict[str, list[Tensor]] = defaultdict(list)
    for t in tensors:
        by_type[t.type()].append(t)
    left = {kind: iter(found) for kind, found in by_type.items()}
    return tuple(next(left[t.type()]) for t in ordered_tensors)


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Lists of tensors of one type, each list of at most so many bytes or of one tensor."""
    open_lists: dict[str, tuple[list[Tensor], int]] = {}
    for t in tensors:
        kind, size = t.type(), t.numel() * t.element_size()
        found, bytes_so_far = open_lists.get(kind, ([], 0))
        if found and bytes_so_far + size > size_limit:
            yield found
            found, bytes_so_far = [], 0
        open_lists[kind] = ([*found, t], bytes_so_far + size)
    for found, _ in open_lists.values():
        if found:
            yield found


def _rebuild_tensor(storage: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    """A tensor that looks at a `TypedStorage`, as files describe it."""
    made: Any = empty(0, dtype=storage.dtype, device=storage.device)
    return made.set_(storage.untyped(), storage_offset, size, stride)  # type: ignore[no-any-return]


def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    backward_hooks: Any,
    metadata: Any = None,
) -> Tensor:
    """As `_rebuild_tensor`. Hooks are not restored: PyTorch saves none."""
    if metadata:
        raise NotImplementedError(
            "torch._utils._rebuild_tensor_v2(metadata=...): load the file with torch.load"
        )
    made: Any = _rebuild_tensor(storage, storage_offset, size, stride)
    return made.requires_grad_(requires_grad)  # type: ignore[no-any-return]


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Parameter:
    """A parameter, as files describe it."""
    return Parameter(data, requires_grad)


def _rebuild_sparse_tensor(layout: Any, data: Sequence[Any]) -> Tensor:
    """A sparse tensor, as files describe it: of indices, values, its size, and whether it is coalesced."""
    if layout is not sparse_coo:
        raise NotImplementedError(f"rebuilding sparse tensor for layout {layout}: use torch.sparse_coo")
    indices, values, size, *coalesced = data
    return function("sparse_coo_tensor")(
        indices, values, size, is_coalesced=coalesced[0] if coalesced else None
    )


_rebuild_qtensor = refused_function("torch._utils._rebuild_qtensor", "there are no quantized tensors")


def _get_available_device_type() -> str | None:
    """The type of the accelerator; None on a CPU."""
    found = accelerator.current_accelerator()
    return None if found is None else found.type


def _get_all_device_indices() -> list[int]:
    """The indices of the accelerators."""
    return list(range(accelerator.device_count()))


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index of a device: an index itself, a text or a device; None is the current one, if that is ``optional``.

    Raises:
        ValueError: there is no index, or it is a CPU's.
    """
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = _device(device)
    if isinstance(device, _device):
        if device.type == "cpu" and not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        if device.index is not None:
            return device.index
        if device.type == "cpu":
            return -1
    if optional:
        return accelerator.current_device_index()
    raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
