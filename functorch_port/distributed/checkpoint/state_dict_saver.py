"""Saving a distributed checkpoint: `save`, `async_save`."""

from __future__ import annotations

import atexit
import enum
import os
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..._base import agreement, dtypes
from ..._tensor.tensor import Tensor
from ...interchange._orbax import Writing, is_ours
from ...interchange._tree import check_dense
from ...serialization._folder import Replacement
from ._flat import flattened
from .api import stage
from .default_planner import DefaultSavePlanner, checked
from .filesystem import FileSystemWriter, Saved, metadata_of
from .metadata import Metadata
from .stateful import Stateful

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


class AsyncCheckpointerType(enum.Enum):
    """What writes in the background; here always a thread."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """What PyTorch's `async_save` returns with a stager of one's own, which is not supported here."""

    staging_completion: Future[None]
    upload_completion: Future[None]


def save(
    state_dict: Mapping[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: DefaultSavePlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Save a state as a folder, which `load` and orbax read.

    A tensor on a mesh is written by the devices that have its parts: it is nowhere whole. A former checkpoint in the
    folder is replaced when the new one is complete; whenever the process is killed, one of the two is there. What
    killed processes left behind is removed by the next save to a folder beside.

    Args:
        state_dict: tensors, numbers, strings, None, and dicts, lists and tuples of these. An object with
            ``state_dict`` and ``load_state_dict`` (a module, an optimizer) stands for its state.
        checkpoint_id: the folder.
        storage_writer: a `FileSystemWriter`, instead of a folder.
        planner: a `DefaultSavePlanner`.
        process_group: must be None: all processes save together.
        no_dist: in a single process without effect; in several it must be False.
        use_collectives: must be True.

    Returns:
        what was saved, by name.

    Raises:
        CheckpointException: something cannot be saved, or written, by one of the processes; all raise it, and nothing
            has changed then.
        RuntimeError: there is neither a folder nor a writer.
        NotImplementedError: for other arguments.
        ModuleNotFoundError: orbax is not installed.

    Example:
        >>> import tempfile
        >>> import functorch_port as torch
        >>> import functorch_port.distributed.checkpoint as dcp
        >>> model, path = torch.nn.Linear(1, 1), tempfile.mkdtemp()
        >>> _ = dcp.save({"model": model, "epoch": 3}, checkpoint_id=path)
        >>> state = {"model": model, "epoch": 0}
        >>> dcp.load(state, checkpoint_id=path)
        >>> state["epoch"]
        3

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.state_dict_saver.save
    """
    check_processes(process_group, no_dist)
    writer = _writer(storage_writer, checkpoint_id, planner, use_collectives)
    return _Saving(state_dict, writer, later=False).finish()


def async_save(
    state_dict: Mapping[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: DefaultSavePlanner | None = None,
    process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    async_stager: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Metadata]:
    """As `save`, but return when the values are copied, and write in the background.

    What happens to the tensors afterwards does not change what is saved. Several processes that `init_process_group`
    has not connected cannot meet in the background: there it returns when all is written.

    Args:
        async_checkpointer_type: must be ``THREAD``.
        async_stager: must be None.

    Returns:
        a future of what `save` returns; ``result()`` waits, and raises what went wrong.

    Raises:
        as `save`, for what cannot be saved; what cannot be written is raised by the future.

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.state_dict_saver.async_save
    """
    if async_stager is not None or async_checkpointer_type is not AsyncCheckpointerType.THREAD:
        raise NotImplementedError(
            "async_save(async_checkpointer_type=, async_stager=) is not supported: orbax copies the values, and a "
            "thread writes them"
        )
    check_processes(process_group, no_dist)
    writer = _writer(storage_writer, checkpoint_id, planner, use_collectives)
    saving = _Saving(state_dict, writer, later=True)
    pool = ThreadPoolExecutor(1, thread_name_prefix="async_save")
    done = pool.submit(saving.finish)
    if not agreement.in_threads():
        wait([done])
    _pending.add(done)
    done.add_done_callback(_pending.discard)
    done.add_done_callback(lambda _: pool.shutdown(wait=False))
    return done


#: saves in the background that are not done
_pending: set[Future[Metadata]] = set()


def _complete() -> None:
    """Complete at the end of the program the saves that nobody waited for, and say what went wrong in them."""
    for save in [*_pending]:
        error = save.exception()
        if error is not None:
            traceback.print_exception(error)


# orbax's threads cannot start others once the interpreter ends, and `atexit` comes later still: it would lose the save
getattr(threading, "_register_atexit", atexit.register)(_complete)


def save_state_dict(
    state_dict: Mapping[str, Any],
    storage_writer: FileSystemWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: DefaultSavePlanner | None = None,
) -> Metadata:
    """The deprecated form of `save`."""
    warnings.warn(
        "`save_state_dict` is deprecated and will be removed in future versions.Please use `save` instead.",
        FutureWarning,
        stacklevel=2,
    )
    if coordinator_rank:
        raise NotImplementedError("save_state_dict(coordinator_rank=) is not supported: it is process 0")
    return save(
        state_dict,
        storage_writer=storage_writer,
        process_group=process_group,
        no_dist=no_dist,
        planner=planner,
    )


def check_processes(process_group: Any, no_dist: bool) -> None:
    """Refuse what is not: all processes together."""
    if process_group is not None:
        raise NotImplementedError(
            "a checkpoint of some of the processes (process_group=) is not supported: all of them call save and load"
        )
    if no_dist and jax.process_count() > 1:
        raise NotImplementedError(
            "no_dist=True is not supported in several processes: all of them call save and load, which write each "
            "value once"
        )


def _writer(
    writer: Any, path: str | os.PathLike[str] | None, planner: Any, use_collectives: bool
) -> FileSystemWriter:
    if not use_collectives:
        raise NotImplementedError(
            "save(use_collectives=False) is not supported: processes save one checkpoint together"
        )
    checked(planner, DefaultSavePlanner)
    return storage(writer, path, FileSystemWriter)


def storage(given: Any, path: str | os.PathLike[str] | None, kind: Any) -> Any:
    """The writer or reader: a given one, or that of a folder."""
    if given is not None:
        if not isinstance(given, kind):
            raise NotImplementedError(f"{type(given).__name__} is not supported, only {kind.__name__}")
        given.reset(path)
        return given
    if not path:
        raise RuntimeError("`checkpoint_id` must be specified if storage_reader/storage_writer is None.")
    return kind(path)


class _Saving:
    """A save that has begun."""

    def __init__(self, state_dict: Mapping[str, Any], writer: FileSystemWriter, later: bool) -> None:
        self._path = os.path.realpath(writer.path)
        with stage("plan"), agreement.telling("save"):
            tree = {k: v.state_dict() if isinstance(v, Stateful) else v for k, v in state_dict.items()}
            entries = flattened(tree, is_tensor)
            described = {
                name: place._replace(value=_described(name, place.value)) for name, place in entries.items()
            }
            self._metadata = metadata_of(described, writer.path)
            if os.path.lexists(self._path) and not os.path.isdir(self._path):
                raise FileExistsError(f"{self._path} exists and is not a folder")
            if not writer.overwrite and any(map(is_ours, _names(self._path))):
                raise RuntimeError(f"Checkpoint already exists and self.overwrite=False. ({self._path})")
            kinds = {name: _kind(place.value) for name, place in described.items()}
            agreement.alike("save", {"the folder": writer.path, **kinds})
            name = _agreed_name()
        self._series = agreement.Series(f"save {name}")
        self._leads = jax.process_index() == 0
        self._made = Replacement(self._path, is_ours, name)
        with self._all_or_nothing():
            if self._leads:
                self._made.begin()
            self._writing = Writing(self._made.new, tree, later, self._meet)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        with stage("write", f"(The former checkpoint, if any, is unchanged: {self._path})"):
            try:
                with agreement.telling("save", self._series):
                    yield
            except BaseException:
                if self._leads:  # all have stopped writing
                    self._made.end()
                raise

    def _meet(self) -> None:
        agreement.alike("save", {}, self._series)

    def finish(self) -> Metadata:
        """Wait until it is written."""
        with self._all_or_nothing():
            self._writing.wait()
            if self._leads:
                self._made.commit()
        with stage("write"):
            self._meet()
        return self._metadata


def is_tensor(value: Any) -> bool:
    """Whether a value of a state is stored as an array."""
    return isinstance(value, Tensor | jax.Array | np.ndarray)


def _described(name: str, value: Any) -> Any:
    if not is_tensor(value):
        return value
    if isinstance(value, Tensor):
        check_dense(name, value)
    array = value._look() if isinstance(value, Tensor) else value
    shape, sharding = tuple(array.shape), getattr(array, "sharding", None)
    part = shape if sharding is None else sharding.shard_shape(shape)
    return Saved("", shape, value.dtype if isinstance(value, Tensor) else dtypes.from_np(array.dtype), part)


def _names(path: str) -> list[str]:
    return os.listdir(path) if os.path.isdir(path) else []


def _kind(value: Any) -> str:
    """What of an entry must be the same in all processes: the value of a number or a text is that of the first."""
    return f"{value.dtype} of shape {list(value.shape)}" if isinstance(value, Saved) else type(value).__name__


def _agreed_name() -> str:
    """A name that all processes have, and no other save."""
    return agreement.of_first("the name of a save", os.urandom(16).hex())
