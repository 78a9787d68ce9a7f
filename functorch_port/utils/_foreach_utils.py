"""Grouping of tensor lists for the `torch._foreach_*` operations; optimizer libraries import it from here."""

from __future__ import annotations

from typing import Any

from .._base.device import device as Device
from .._tensor.tensor import Tensor

__all__: list[str] = []


def _get_foreach_kernels_supported_devices() -> list[str]:
    return ["cuda", "xpu", "mtia", "privateuseone"]


def _get_fused_kernels_supported_devices() -> list[str]:
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def _device_has_foreach_support(device: Device) -> bool:
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: list[Any], device: Device) -> bool:
    return _device_has_foreach_support(device) and all(t is None or type(t) is Tensor for t in tensors)


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Any]], with_indices: bool = False
) -> dict[tuple[Device, Any], tuple[list[list[Any]], list[int]]]:
    """Split parallel lists by the device and dtype of the first list's tensors.

    Args:
        tensorlistlist: lists of the same length, or empty ones; all but the first may contain None.
        with_indices: also return the indices in the first list.

    Returns:
        A dict from (device, dtype) to (the parts of the lists, the indices or []).
    """
    groups: dict[tuple[Device, Any], tuple[list[list[Any]], list[int]]] = {}
    for i, first in enumerate(tensorlistlist[0]):
        parts, places = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for part, tensors in zip(parts, tensorlistlist, strict=True):
            if tensors:
                part.append(tensors[i])
        if with_indices:
            places.append(i)
    return groups
