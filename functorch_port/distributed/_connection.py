"""This process among the others of its job: the store that all share, and `jax.distributed`.

There is one connection in the life of a process, as JAX's backend is made with it. `init_process_group` makes it, or
the launcher before the script begins.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import traceback
from datetime import timedelta
from typing import Any

import jax
import numpy as np

from functorch_port._array import placed
from functorch_port._base import memory, progress
from functorch_port._base.device import local_rank

from . import _wire
from ._store import DistBackendError, DistNetworkError, HashStore, PrefixStore, Store, TCPStore
from ._table import Late, Lost

__all__ = ["Connection", "connect", "connect_by_cluster", "fail", "made"]

_DAY = 24 * 3600


class Connection:
    """What connects this process to the others.

    Attributes:
        store: serves `exchange`; of a job of one process a `HashStore`.
    """

    def __init__(self, store: Store, rank: int, size: int) -> None:
        self.store, self.rank, self.size = store, rank, size
        #: what serves the store, and by what its keys begin
        self.base: Any = store
        self.prefix = ""
        while isinstance(self.base, PrefixStore):
            self.prefix = f"{self.base._prefix}/{self.prefix}"
            self.base = self.base.underlying_store

    def name(self, rank: int) -> str:
        """The name by which the store knows the process of a rank."""
        return f"{self.prefix}rank{rank}"

    def hello(self) -> None:
        """Have the store notice when this process ends."""
        self.base._hello(self.name(self.rank))

    def exchange(
        self, key: str, ranks: list[int], value: bytes, timeout: timedelta, doing: str, leaves: bool = False
    ) -> list[bytes]:
        """Bring a value to the processes of these ranks, and wait for theirs; who ``leaves`` may go before they come.

        Raises:
            DistBackendError: some rank did not come in time, or has ended.
        """
        if len(ranks) == 1:
            return [value]
        seconds = timeout.total_seconds()
        names = [self.name(rank) for rank in ranks]
        try:
            position = ranks.index(self.rank)
            return self.store._call("exchange", key, position, names, value, seconds, leaves)
        except Late as late:
            missing = ", ".join(str(ranks[i]) for i in late.who)
            raise DistBackendError(
                f"[Rank {self.rank}]: rank {missing} did not come to {doing} within {seconds:g} s, the timeout. It is "
                "slow, stuck, or does something else: look at its output. A longer timeout: "
                "init_process_group(timeout=timedelta(minutes=60))"
            ) from None
        except Lost as lost:
            raise _after_another(
                f"[Rank {self.rank}]: rank {ranks[lost.who]} {lost.how}, so {doing} cannot be done. Its own output "
                "has the cause"
            ) from None


def _after_another(text: str) -> DistBackendError:
    """An error that follows from that of another process, which the launcher then shows first."""
    error = DistBackendError(text)
    error.follows = True
    return error


#: the connection of this process, or None
made: Connection | None = None
_failed: int | None = None


def fail(status: int) -> None:
    """Note that the process ends with an error: it then does not wait for the others."""
    global _failed
    _failed = status


def connect(store: Store, rank: int, size: int, timeout: timedelta) -> Connection:
    """Connect to the other processes of the job, which find each other by the store."""
    global made
    if not 0 <= rank < size:
        raise ValueError(f"rank {rank} is not in a world of {size} processes: give 0 to {size - 1}")
    if made is not None:
        if (made.rank, made.size) != (rank, size):
            raise RuntimeError(
                f"this process is rank {made.rank} of {made.size}, and stays so until it ends; JAX's backend is made "
                f"with that. Start new processes for rank {rank} of {size}"
            )
        return made
    if size == 1:
        made = Connection(HashStore(), 0, 1)
        return made
    progress.made("waiting for the other processes")
    found = Connection(_served(store, rank, timeout), rank, size)
    coordinator = _coordinator(found)
    found.hello()
    found.exchange("arrived", [*range(size)], b"", timeout, "init_process_group")
    _start_jax(
        timeout,
        coordinator_address=coordinator,
        num_processes=size,
        process_id=rank,
        local_device_ids=local_rank(),
        cluster_detection_method="deactivate",  # it would leave a process of SLURM one GPU of all
    )
    found.exchange("connected", [*range(size)], b"", timeout, "init_process_group")
    made = found
    return found


def connect_by_cluster(timeout: timedelta) -> Connection | None:
    """Connect by what JAX finds of SLURM, Open MPI, a TPU pod or Kubernetes; None where it finds nothing."""
    global made
    if made is not None:
        return made
    try:
        _start_jax(timeout)
    except ValueError:  # JAX asks for the coordinator's address
        return None
    rank, size = jax.process_index(), jax.process_count()
    if size == 1:
        made = Connection(HashStore(), 0, 1)
        return made
    own = TCPStore("", 0, None, True, timeout) if rank == 0 else None
    text = "" if own is None else f"{_wire.address_of_this_machine()}:{own.port}"
    padded = np.frombuffer(text.encode().ljust(64), np.uint8)
    host, port = placed.from_process(0, padded).tobytes().decode().strip().split(":")
    store = TCPStore(host, int(port), None, False, timeout) if own is None else own
    made = Connection(store, rank, size)
    made.hello()
    return made


def _served(store: Store, rank: int, timeout: timedelta) -> Store:
    """A store that serves `exchange`: this one, or one that rank 0 makes and tells by it."""
    if isinstance(Connection(store, 0, 1).base, TCPStore):
        return store
    if rank == 0:
        own = TCPStore(_wire.address_of_this_machine(), 0, None, True, timeout)
        store.set("store", f"{own.host}:{own.port}")
        return own
    host, port = store.get("store").decode().rsplit(":", 1)
    return TCPStore(host, int(port), None, False, timeout)


def _coordinator(found: Connection) -> str:
    """The address at which rank 0 has JAX's coordination service: the store's machine, another port."""
    if found.rank == 0:
        found.store.set("coordinator", f"{found.base.host}:{_wire.free_port()}")
    return found.store.get("coordinator").decode()


def _start_jax(timeout: timedelta, **who: Any) -> None:
    if jax.config.jax_cpu_collectives_implementation != "mpi":
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # Programs would run side by side on a process's CPU devices, and their collectives in any order: Gloo, which tells
    # them by their order alone, ends the process.
    memory.in_order = jax.config.jax_cpu_collectives_implementation == "gloo"
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    if (jax.config.jax_platforms or "").split(",")[0] == "cpu":
        # It takes SIGTERM, for machines that are about to be taken away. Of CPUs that only delays the end.
        jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            **who,
            initialization_timeout=max(1, round(timeout.total_seconds())),
            shutdown_timeout_seconds=_DAY,  # who is ready waits for the others; heartbeats tell who has died
        )
        _at_errors()
    except RuntimeError as error:
        if "before" not in str(error):
            raise DistNetworkError(f"jax.distributed.initialize failed: {error}") from error
        raise RuntimeError(
            "init_process_group must come before the first tensor: JAX's backend exists already, and knows of this "
            "process alone. Call it first in the script, or start the script by `functorch-port launch`, which "
            "connects the processes before the script begins"
        ) from error
    progress.made("connecting")
    try:
        jax.local_devices()  # the backend is made by all at the same time: each waits for the others' devices
    except RuntimeError as error:
        raise _after_another(
            f"JAX could not make its backend together with the other processes: {error}\nProbably another process has "
            "ended: its own output has the cause"
        ) from error


def _at_errors() -> None:
    before = sys.excepthook

    def hook(*error: Any) -> None:
        before(*error)
        fail(1)

    sys.excepthook = hook


@atexit.register  # before JAX's own, and after those of the script, as this module is loaded early
def _leave() -> None:
    """Tell the others how this process ends; after an error end at once, where JAX would wait for them."""
    if not jax.distributed.is_initialized():
        return
    if _failed is None:
        if made is not None:
            made.base._goodbye(made.name(made.rank))
        return
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(_failed)


def text_of(error: BaseException) -> str:
    """The traceback of an error, as Python prints it."""
    return "".join(traceback.format_exception(error))
