"""`ProcessGroup`: some of the processes, their order, and how they agree on what to do."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import jax

from functorch_port._array import placed, tracing
from functorch_port._base import agreement, meshes, progress
from functorch_port._tensor.tensor import Tensor, wrap
from functorch_port._trace.across import Across

from . import _programs
from ._connection import Connection, _after_another
from ._store import DistBackendError, PrefixStore, Store

__all__ = ["ProcessGroup", "Work"]


class Work:
    """A collective that was begun; `wait` for its result.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.Work
    """

    def __init__(self, name: str, results: list[Tensor], made: Any = (), source: int = -1) -> None:
        self._name, self._results, self._made, self._source = name, results, made, source
        self._done = False

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the result is there; returns True."""
        if not self._done:
            self._finish()
            self._done = True
        return True

    def _finish(self) -> None:
        _settle(self._name, self._made)
        self._made = ()

    def is_completed(self) -> bool:
        """`wait`, as XLA does not tell what it is still computing; returns True."""
        return self.wait()

    def is_success(self) -> bool:
        """Whether the result is there."""
        return self._done

    def exception(self) -> None:
        """None: `wait` raises errors."""

    def result(self) -> list[Tensor]:
        """The tensors with the result."""
        return self._results

    def source_rank(self) -> int:
        """The sender of what was received."""
        return self._source

    def synchronize(self) -> None:
        """Wait."""
        self.wait()

    def get_future(self) -> Any:
        """Not supported.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("Work.get_future is not supported: call wait()")


def _settle(name: str, arrays: list[Any]) -> None:
    """Wait for arrays of a collective."""
    if tracing.overlay:
        return
    progress.made(f"waiting in {name}")
    try:
        jax.block_until_ready(arrays)
    except RuntimeError as error:
        raise _after_another(
            f"{name} failed while the processes exchanged data: {error}\nProbably another process has ended: its own "
            "output has the cause"
        ) from error
    progress.made(name)


class ProcessGroup:
    """Some processes of the job; `new_group` and `init_process_group` make it.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#groups
    """

    def __init__(
        self,
        connection: Connection,
        ranks: list[int],
        name: str,
        backend: tuple[str, str],
        timeout: timedelta,
        desc: str = "undefined",
    ) -> None:
        self._connection, self._ranks, self._backend, self._timeout = connection, ranks, backend, timeout
        self.group_name, self.group_desc = name, desc
        self.bound_device_id: Any = None
        self._calls = 0
        #: how much was sent to, and received from, each other rank by tag
        self._sent: dict[tuple[int, int], int] = {}
        self._received: dict[tuple[int, int], int] = {}
        self._meshes: dict[str, Any] = {}

    def rank(self) -> int:
        """The rank of this process in the group."""
        return self._ranks.index(self._connection.rank)

    def size(self) -> int:
        """The number of processes."""
        return len(self._ranks)

    def name(self) -> str:
        """The name of the backend."""
        return self._backend[1]

    def get_group_store(self) -> Store:
        """A store of the group's own."""
        return PrefixStore(f"group/{self.group_name}/own", self._connection.store)

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long a collective waits for the other processes."""
        self._timeout = timeout

    def agree(
        self,
        what: str,
        extra: Any = None,
        timeout: timedelta | None = None,
        failed: bool = False,
        apart: str = "",
    ) -> list[Any]:
        """Wait until all processes of the group are about to do the same.

        Args:
            what: the collective, with all that must be the same.
            extra: of this process; the result has those of all.
            failed: ``extra`` is the error of this process, which does not wait for the others: they raise it.
            apart: the name of this meeting, if it is beside the order of the collectives. Then who failed waits, too.

        Raises:
            DistBackendError: another process calls something else, has ended, or does not come in time.
            FailedElsewhere: another process failed.
        """
        if tracing.overlay:
            return [extra] * self.size()  # the programs are compared when they are first run
        self._calls += not apart
        if self.size() == 1:
            return [extra]
        progress.made(f"waiting in {what}")
        mine = json.dumps([None if failed else what, agreement.caller(), extra]).encode()
        timeout = timedelta(0) if failed and not apart else timeout or self._timeout
        found = self._connection.exchange(
            f"group/{self.group_name}/{apart or self._calls}", self._ranks, mine, timeout, what, failed
        )
        theirs = [json.loads(each) for each in found]
        failures = {
            rank: text.encode("latin-1").decode()
            for rank, (call, _, text) in zip(self._ranks, theirs)
            if call is None
        }
        if failed:
            return []
        if failures:
            raise agreement.FailedElsewhere(what, failures)
        if any(each[0] != what for each in theirs):
            calls: dict[str, list[int]] = {}
            for rank, (call, place, _) in zip(self._ranks, theirs, strict=True):
                calls.setdefault(f"{call} at {place}", []).append(rank)
            text = "; ".join(f"rank {', '.join(map(str, ranks))}: {call}" for call, ranks in calls.items())
            raise DistBackendError(
                f"the processes call different collectives (number {self._calls} of this group): {text}. All processes "
                "of a group must make the same calls, in the same order, with the same shapes and dtypes"
            )
        progress.made(what)
        return [each[2] for each in theirs]

    def exchange(self, what: str, value: bytes, failed: bool, apart: str) -> list[bytes]:
        """The bytes of all processes (see `agreement`)."""
        found = self.agree(what, value.decode("latin-1"), None, failed, apart)
        return [each.encode("latin-1") for each in found]

    def compute(self, like: Tensor, kind: str, *how: Any, row: Any) -> Any:
        """What a program of `_programs` gives of the rows of all processes."""
        if tracing.overlay:
            return _programs.in_trace(kind, *how, row=jax.numpy.asarray(row), size=self.size())
        platform = "cpu" if like.device.type == "cpu" else jax.default_backend()
        if platform not in self._meshes:
            self._meshes[platform] = _programs.mesh_of(tuple(self._ranks), platform)
        mesh = self._meshes[platform]
        return _programs.run(mesh, mesh.devices[self.rank()], kind, *how, row=row)


def value_of(tensor: Tensor) -> Any:
    """The array of a tensor, on the host if it is there.

    Raises:
        NotImplementedError: it is the same array in all processes, or there is none.
    """
    if tensor.device.type == "meta":
        raise NotImplementedError("collectives of tensors on the meta device, which have no data")
    value = tensor._look()
    if meshes.is_global(value) or placed.is_shared(tensor._storage):
        raise NotImplementedError(
            "a collective of a tensor that is a global array: it has the values of all processes already. Reduce it "
            "with torch's operations (sum, mean), or pass the part of this process"
        )
    return value


def write(tensor: Tensor, value: Any) -> None:
    """Write in place; like PyTorch's collectives it is not recorded, and does not count as a write."""
    tensor.data._set_value(value)


def described(tensor: Tensor) -> str:
    """The dtype and shape, for comparison and errors."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{[*tensor.shape]}"


#: what can be a part of a program of all processes: what each computes does not depend on its rank
_IN_PROGRAMS = (
    "all_reduce", "reduce", "broadcast", "all_gather", "all_gather_into_tensor", "reduce_scatter",
    "reduce_scatter_tensor", "all_to_all", "all_to_all_single",
)  # fmt: skip


def note_in_traces(name: str, group: Any) -> None:
    """A collective of processes: if a function is compiled now, its program becomes one of all processes.

    Raises:
        NotImplementedError: it cannot be part of that; or something else is being traced.
    """
    if not tracing.overlay and not tracing.in_jax():
        return
    overlay = tracing.current()
    is_program = overlay is not None and not overlay.transforms and overlay.local and overlay.symbols is None
    if name not in _IN_PROGRAMS or not is_program:
        raise NotImplementedError(
            f"torch.distributed.{name} in a compiled or transformed function: call it outside, between two compiled "
            f"functions. Compiled functions (of fixed sizes) may call {', '.join(_IN_PROGRAMS)}"
        )
    if isinstance(group, ProcessGroup) and group._ranks != [*range(jax.process_count())]:
        raise NotImplementedError(
            f"torch.distributed.{name} of some of the processes in a compiled function: call it outside"
        )
    if overlay.across is None and jax.process_count() > 1:
        overlay.across = Across(meshes.of_processes(jax.devices()))


def new_tensor(array: Any) -> Tensor:
    """A tensor of an array."""
    return wrap(array)
