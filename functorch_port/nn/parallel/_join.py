"""Processes with different numbers of batches: who has none left follows the others until they are done.

`torch.distributed.algorithms.join` is the public name.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import jax

from ..._base import agreement

__all__ = ["Join", "JoinHook", "Joinable"]

_MANY = 1000


class JoinHook:
    """What a process does that has no batches left.

    Reference: https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html
    """

    def main_hook(self) -> None:
        """Called for each step of the others: makes the collectives that they make in it."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called when all are done.

        Args:
            is_last_joiner: whether this process is among those that had the most batches.
        """


class _JoinConfig(NamedTuple):
    """What an object knows of the `Join` that it is in."""

    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool

    @staticmethod
    def construct_disabled_join_config() -> _JoinConfig:
        return _JoinConfig(False, False, False)


class Joinable(ABC):
    """What can be given to `Join`: it calls `Join.notify_join_context` before the collectives of each step.

    Reference: https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html
    """

    @abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = _JoinConfig.construct_disabled_join_config()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What to do in a process that is done; the arguments are those of `Join`."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """A device for collectives."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The processes that take part; None: all."""


class Join:
    """``with Join([model]):`` the processes may have different numbers of batches.

    Args:
        joinables: models under `DistributedDataParallel`, and others.
        enable: False does nothing.
        throw_on_early_termination: raise an error in all processes when one has no batches left.
        kwargs: for the hooks; ``divide_by_initial_world_size`` of `DistributedDataParallel.join`.

    Raises:
        ValueError: there are no joinables, or they are of different groups.
        RuntimeError: at the end or in a step, with ``throw_on_early_termination``.

    Reference: https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html
    """

    def __init__(
        self,
        joinables: list[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if len(joinables) == 0:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = joinables
        self._join_hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._enable, self._throw_on_early_termination = enable, throw_on_early_termination
        for i, joinable in enumerate(joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, i == 0)
        groups = [g for g in (joinable.join_process_group for joinable in joinables) if g is not None]
        if any(g != groups[0] for g in groups):
            raise ValueError("Using join context manager with multiple process groups")
        self._rank = jax.process_index()

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        try:
            if self._enable and kind is None:
                self._follow()
        finally:
            for joinable in self._joinables:  # PyTorch leaves them as they are
                joinable._join_config = _JoinConfig.construct_disabled_join_config()

    def _follow(self) -> None:
        """Make what the others make until they are done."""
        is_last, steps = True, 0
        while _active(False):
            if steps == _MANY + 1:
                warnings.warn(
                    f"Detected uneven input skew of greater than {_MANY}. This means that rank {self._rank} has at "
                    f"least {_MANY} fewer inputs than other currently-active ranks. This level of skew could lead to "
                    "performance degradation during training.",
                    stacklevel=3,
                )
            if self._throw_on_early_termination:
                raise RuntimeError(f"Rank {self._rank} exhausted all inputs.")
            for hook in self._join_hooks:
                hook.main_hook()
            is_last, steps = False, steps + 1
        for hook in self._join_hooks:
            hook.post_hook(is_last)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Tell the processes that are done that this one is not; what takes part calls it before each step.

        Returns:
            the ranks that are not done, if this is the first joinable; else None.

        Raises:
            RuntimeError: one is done, with ``throw_on_early_termination``.
        """
        if not hasattr(joinable, "_join_config"):
            raise AssertionError(
                f"Check that the {type(joinable)} constructor calls the ``Joinable`` constructor"
            )
        config = joinable._join_config
        if not config.is_first_joinable or not config.enable:
            return None
        active = _active(True)
        if config.throw_on_early_termination and len(active) < jax.process_count():
            raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return active


def _active(here: bool) -> list[int]:
    """The ranks that have batches."""
    if jax.process_count() == 1:
        return [0] * here
    found = agreement.everywhere("a step in a join context", b"1" if here else b"0")
    return [rank for rank, each in enumerate(found) if each == b"1"]
