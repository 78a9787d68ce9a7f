"""`CheckpointManager`: the checkpoints of a run, of which the last ones are kept."""

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import Any

import jax

from ...interchange._orbax import is_ours
from ...serialization._folder import cleared, removed
from .metadata import Metadata
from .state_dict_loader import load
from .state_dict_saver import async_save, save

__all__ = ["CheckpointManager"]


class CheckpointManager:
    """The checkpoints of a run: a folder for each step, in one folder.

    Each is a checkpoint of `save`, whole or not there at all. Older ones are removed when a newer one is complete.

    Args:
        folder: the folder of the run; it is made when it is needed.
        keep: how many checkpoints to keep; None: all.

    Raises:
        ValueError: ``keep`` is less than one.

    Example:
        >>> import tempfile
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.checkpoint import CheckpointManager
        >>> model = torch.nn.Linear(1, 1)
        >>> checkpoints = CheckpointManager(tempfile.mkdtemp(), keep=2)
        >>> for step in range(3):
        ...     _ = checkpoints.save(step, {"model": model})
        >>> checkpoints.steps()
        [1, 2]
        >>> checkpoints.load({"model": model})
        2
    """

    def __init__(self, folder: str | os.PathLike[str], keep: int | None = None) -> None:
        if keep is not None and keep < 1:
            raise ValueError(f"keep must be at least 1, or None to keep all checkpoints; got {keep}")
        self.folder, self.keep = os.path.realpath(folder), keep
        self._pending: Future[Metadata] | None = None
        if jax.process_index() == 0 and os.path.isdir(self.folder):
            cleared(self.folder, is_ours)

    def path(self, step: int) -> str:
        """The folder of a step."""
        return os.path.join(self.folder, str(step))

    def steps(self) -> list[int]:
        """The steps that there are checkpoints of, in order."""
        names = os.listdir(self.folder) if os.path.isdir(self.folder) else []
        return sorted(
            int(n)
            for n in names
            if n.isdecimal()
            and str(int(n)) == n
            and os.path.exists(os.path.join(self.folder, n, "_METADATA"))
        )

    def latest_step(self) -> int | None:
        """The last step that there is a checkpoint of, or None."""
        return next(reversed(self.steps()), None)

    def save(self, step: int, state_dict: dict[str, Any], **options: Any) -> Metadata:
        """Save a step by `functorch_port.distributed.checkpoint.save`, whose further arguments may be given."""
        self.wait()
        done = save(state_dict, checkpoint_id=self.path(step), **options)
        self._clean()
        return done

    def async_save(self, step: int, state_dict: dict[str, Any], **options: Any) -> Future[Metadata]:
        """Save a step in the background by `async_save`; a save that is not yet done is waited for before."""
        self.wait()
        done = async_save(state_dict, checkpoint_id=self.path(step), **options)
        self._pending = done
        return done

    def wait(self) -> None:
        """Wait for a save in the background, and raise what went wrong in it."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()
            self._clean()

    def load(self, state_dict: dict[str, Any], step: int | None = None, **options: Any) -> int | None:
        """Load a step by `functorch_port.distributed.checkpoint.load`, into ``state_dict``.

        Args:
            state_dict: what to load into.
            step: which step; None: the last one.
            options: further arguments of `load`.

        Returns:
            the step, or None if there is no checkpoint: then nothing has changed.
        """
        self.wait()
        step = self.latest_step() if step is None else step
        if step is not None:
            load(state_dict, checkpoint_id=self.path(step), **options)
        return step

    def __enter__(self) -> CheckpointManager:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def _clean(self) -> None:
        if self.keep is not None and jax.process_index() == 0:
            for step in self.steps()[: -self.keep]:
                removed(self.path(step))
