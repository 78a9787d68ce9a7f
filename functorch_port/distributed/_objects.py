"""Collectives of objects, by pickle."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from ._group import ProcessGroup, new_tensor, value_of
from ._groups import group_of, root_of
from ._messages import recv, send
from ._store import DistBackendError

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def _pickled(obj: Any) -> np.ndarray:
    return np.frombuffer(pickle.dumps(obj), np.uint8)


def _padded(data: np.ndarray, size: int) -> np.ndarray:
    """With zeros up to a power of two, so that there are few programs."""
    return np.pad(data, (0, max(256, 1 << (size - 1).bit_length()) - len(data)))


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Copy the objects of all processes, by pickle, into a list in each of them.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather_object
    """
    pg = group_of(group, "all_gather_object")
    if pg is not None:
        object_list[: pg.size()] = _gathered("all_gather_object", pg, obj)


def _gathered(name: str, pg: ProcessGroup, obj: Any) -> list[Any]:
    data = _pickled(obj)
    sizes = pg.agree(name, len(data))
    if pg.size() == 1:
        return [pickle.loads(data.tobytes())]
    row = _padded(data, max(sizes))
    rows = np.asarray(pg.compute(new_tensor(row), "gather", row=row))
    return [pickle.loads(each[:size].tobytes()) for each, size in zip(rows, sizes, strict=True)]


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:
    """Copy the objects of all processes, by pickle, into a list of ``dst``.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.gather_object
    """
    pg = group_of(group, "gather_object")
    if pg is None:
        return
    root = root_of(pg, dst, group_dst, "dst", "gather_object")
    is_root = pg.rank() == root
    if is_root and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if not is_root and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    found = _gathered(f"gather_object(dst={root})", pg, obj)
    if object_gather_list:
        object_gather_list[: pg.size()] = found


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Copy the objects of a list of ``src``, by pickle, into those of all processes.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.broadcast_object_list
    """
    pg = group_of(group, "broadcast_object_list")
    if pg is None:
        return
    root = root_of(pg, src, group_src, "src", "broadcast_object_list")
    found = _from_root("broadcast_object_list", pg, root, object_list, len(object_list))
    if pg.rank() != root:
        object_list[:] = found


def _from_root(name: str, pg: ProcessGroup, root: int, obj: Any, count: int | None = None) -> Any:
    data = _pickled(obj if pg.rank() == root else None)
    what = f"{name}(src={root})" if count is None else f"{name}(src={root}) of {count} objects"
    sizes = pg.agree(what, len(data))
    if pg.size() == 1:
        return pickle.loads(data.tobytes())
    row = _padded(data if pg.rank() == root else data[:0], sizes[root])
    found = np.asarray(pg.compute(new_tensor(row), "broadcast", root, row=row))
    return pickle.loads(found[: sizes[root]].tobytes())


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
) -> None:
    """Copy each object of a list of ``src``, by pickle, to one process, as the first of its output list.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.scatter_object_list
    """
    pg = group_of(group, "scatter_object_list")
    if pg is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root = root_of(pg, src, group_src, "src", "scatter_object_list")
    if pg.rank() == root and len(scatter_object_input_list or ()) != pg.size():
        raise ValueError(
            f"scatter_object_list: {len(scatter_object_input_list or ())} objects for {pg.size()} processes"
        )
    found = _from_root("scatter_object_list", pg, root, scatter_object_input_list)
    scatter_object_output_list[0] = found[pg.rank()]


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects, by pickle, to another process."""
    data = _pickled(object_list)
    send(new_tensor(np.array([len(data)])), dst, group, _OBJECTS, group_dst)
    send(new_tensor(data.copy()), dst, group, _OBJECTS, group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive objects into a list; returns the sender's rank, or -1 outside the group."""
    size = new_tensor(np.zeros(1, np.int64))
    source = recv(size, src, group, _OBJECTS, group_src)
    if source == -1:
        return -1
    data = new_tensor(np.zeros(int(size.item()), np.uint8))
    recv(data, source, group, _OBJECTS)
    found = pickle.loads(np.asarray(value_of(data)).tobytes())
    if len(found) != len(object_list):
        raise DistBackendError(
            f"rank {source} sent {len(found)} objects, and {len(object_list)} are expected"
        )
    object_list[:] = found
    return source


#: the tag of messages that are objects
_OBJECTS = -1
