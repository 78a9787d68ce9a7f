"""Tensors from one process to another, over the hosts and the store of the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functorch_port._tensor.tensor import Tensor

from . import _connection
from ._arguments import check_tensor, flat
from ._group import ProcessGroup, Work, described, value_of, write
from ._groups import get_global_rank, group_of, root_of
from ._store import DistBackendError
from ._table import Late, Lost

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


class _Receiving(Work):
    """An `irecv`, which takes its message at `wait`."""

    def __init__(self, pg: ProcessGroup, tensor: Tensor, source: int, key: str) -> None:
        super().__init__("irecv", [tensor], source=source)
        self._pg, self._key = pg, key

    def _finish(self) -> None:
        _take(self._pg, self._results[0], [self._source], [self._key])

    def is_completed(self) -> bool:
        """Whether the message is there; it is then taken."""
        return self._done or (self._pg._connection.store.check([self._key]) and self.wait())


def _key(pg: ProcessGroup, source: int, target: int, tag: int, number: int) -> str:
    return f"group/{pg.group_name}/message/{source}/{target}/{tag}/{number}"


def _peer(pg: ProcessGroup, of_world: int | None, of_group: int | None, what: str, name: str) -> int:
    if of_world is None and of_group is None:
        raise ValueError(f"{name} needs {what} or group_{what}")
    rank = root_of(pg, of_world, of_group, what, name)
    if rank == pg.rank():
        kind = "destination" if what == "dst" else "source"
        raise ValueError(
            f"Invalid {kind} rank: {kind} rank should not be the same as the rank of the current process."
        )
    return rank


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Send a tensor to another process, over the host and the store of the job: for what is small or rare.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.isend
    """
    check_tensor(tensor, "tensor")
    pg = group_of(group, "isend")
    if pg is None:
        return None
    target = _peer(pg, dst, group_dst, "dst", "isend")
    number = pg._sent[target, tag] = pg._sent.get((target, tag), 0) + 1
    array = np.ascontiguousarray(np.asarray(flat(tensor)))
    message = described(tensor).encode() + b"\n" + array.tobytes()
    pg._connection.store.set(_key(pg, pg.rank(), target, tag, number), message)
    work = Work("isend", [tensor])
    work.wait()
    return work


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """`isend`, and wait until the tensor is on its way.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.send
    """
    isend(tensor, dst, group, tag, group_dst)


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Receive into a tensor, once `wait` is called. Without ``src``, from any process: then it waits at once.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.irecv
    """
    check_tensor(tensor, "tensor")
    pg = group_of(group, "irecv")
    if pg is None:
        return None
    if src is None and group_src is None:
        work = Work("irecv", [tensor], source=_receive_any(pg, tensor, tag))
        work.wait()
        return work
    source = _peer(pg, src, group_src, "src", "irecv")
    number = pg._received[source, tag] = pg._received.get((source, tag), 0) + 1
    return _Receiving(pg, tensor, source, _key(pg, source, pg.rank(), tag, number))


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive into a tensor; returns the sender's rank, or -1 outside the group.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.recv
    """
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return get_global_rank(group, work.source_rank()) if group is not None else work.source_rank()


def _receive_any(pg: ProcessGroup, tensor: Tensor, tag: int) -> int:
    others = [rank for rank in range(pg.size()) if rank != pg.rank()]
    keys = [_key(pg, rank, pg.rank(), tag, pg._received.get((rank, tag), 0) + 1) for rank in others]
    source = others[_take(pg, tensor, others, keys)]
    pg._received[source, tag] = pg._received.get((source, tag), 0) + 1
    return source


def _take(pg: ProcessGroup, tensor: Tensor, sources: list[int], keys: list[str]) -> int:
    """Wait for one of the messages, and write it; returns which."""
    senders = [pg._connection.name(pg._ranks[rank]) for rank in sources]
    seconds = pg._timeout.total_seconds()
    where = f"[Rank {pg._connection.rank}]: recv of {described(tensor)}"
    try:
        index, message = pg._connection.store._call(
            "take", keys, senders if len(sources) == 1 else [], seconds
        )
    except Late:
        ranks = ", ".join(str(pg._ranks[rank]) for rank in sources)
        raise DistBackendError(
            f"{where}: rank {ranks} sent nothing within {seconds:g} s, the timeout. Is there a send with the same tag "
            "in that process?"
        ) from None
    except Lost as lost:
        raise _connection._after_another(
            f"{where}: rank {pg._ranks[sources[0]]} {lost.how}. Its own output has the cause"
        ) from None
    head, _, data = message.partition(b"\n")
    like = value_of(tensor)
    kind, _, _ = head.decode().partition("[")
    array = np.frombuffer(data, like.dtype) if kind == described(tensor).partition("[")[0] else None
    if array is None or array.size != like.size:
        raise DistBackendError(f"{where}: rank {pg._ranks[sources[index]]} sent {head.decode()}")
    write(tensor, array.reshape(tensor.shape).copy())
    return index


class P2POp:
    """An `isend` or `irecv` for `batch_isend_irecv`.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.P2POp
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: ProcessGroup | None = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        check_tensor(tensor, "tensor")
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag
        self.group_peer = group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin several sends and receives.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.batch_isend_irecv
    """
    if not isinstance(p2p_op_list, list) or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``."
        )
    if not p2p_op_list:
        raise IndexError("list index out of range")
    works = [each.op(each.tensor, each.peer, each.group, each.tag, each.group_peer) for each in p2p_op_list]
    return [work for work in works if work is not None]
