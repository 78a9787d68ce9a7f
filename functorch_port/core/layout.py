"""Layouts and memory formats: accepted and remembered by name; on XLA the compiler chooses the physical layout."""

from __future__ import annotations

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "layout",
    "memory_format",
    "preserve_format",
    "sparse_coo",
    "strided",
]


class SparseOperand(NotImplementedError):
    """Something that knows only dense tensors met a sparse one."""

    def __init__(self) -> None:
        super().__init__(
            "this is not supported for sparse tensors (layout torch.sparse_coo): use .to_dense()"
        )


class layout:
    """The kind of a tensor's storage; only `strided` exists."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class memory_format(layout):
    """A dimension order hint."""


strided = layout("strided")
sparse_coo = layout("sparse_coo")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
