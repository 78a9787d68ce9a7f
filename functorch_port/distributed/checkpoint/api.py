"""`CheckpointException`."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import jax

from ..._base.agreement import FailedElsewhere

__all__ = ["CheckpointException"]


class CheckpointException(BaseException):
    """What went wrong while a checkpoint was saved or loaded; as in PyTorch it is no `Exception`.

    Args:
        msg: the stage: ``"plan"``, ``"read"`` or ``"write"``.
        failures: the number of a process -> its exception and stack.

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """

    follows = False

    def __init__(self, msg: str, failures: dict[int, tuple[BaseException, traceback.StackSummary]]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, tuple[BaseException, traceback.StackSummary]]:
        """The number of a process -> its exception and stack."""
        return self._failures

    def __str__(self) -> str:
        text = f"CheckpointException ranks:{self._failures.keys()}\n"
        for rank, (error, stack) in self._failures.items():
            text += f"Traceback (most recent call last): (RANK {rank})\n"
            text += "".join(traceback.format_list(stack or []))
            text += "".join(traceback.format_exception_only(type(error), value=error))
        return text


@contextmanager
def stage(name: str, note: str = "") -> Iterator[None]:
    """``with stage("read"):`` an exception, of this process or of others, becomes a `CheckpointException`.

    Args:
        note: is added to the exceptions.
    """
    try:
        yield
    except (CheckpointException, KeyboardInterrupt, NotImplementedError, ModuleNotFoundError):
        raise
    except BaseException as error:
        stack = traceback.extract_tb(error.__traceback__)
        failures: dict[int, tuple[BaseException, traceback.StackSummary]] = {
            jax.process_index(): (error, stack)
        }
        if isinstance(error, FailedElsewhere):
            failures = {
                rank: (RuntimeError(t), traceback.StackSummary()) for rank, t in error.failures.items()
            }
        for each, _ in failures.values() if note else ():
            each.add_note(note)
        made = CheckpointException(name, failures)
        made.follows = getattr(error, "follows", False)  # the launcher shows the cause
        raise made from error
