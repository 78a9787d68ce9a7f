"""`CheckpointException`."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import jax

__all__ = ["CheckpointException"]


class CheckpointException(BaseException):
    """What went wrong while a checkpoint was saved or loaded; as in PyTorch it is no `Exception`.

    Args:
        msg: the stage: ``"plan"``, ``"read"`` or ``"write"``.
        failures: the number of a process -> its exception and stack.

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """

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
def stage(name: str) -> Iterator[None]:
    """``with stage("read"):`` an exception becomes a `CheckpointException`."""
    try:
        yield
    except (CheckpointException, KeyboardInterrupt, NotImplementedError, ModuleNotFoundError):
        raise
    except BaseException as error:
        stack = traceback.extract_tb(error.__traceback__)
        raise CheckpointException(name, {jax.process_index(): (error, stack)}) from error
