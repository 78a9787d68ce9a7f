"""Schedules that combine others: `SequentialLR`, `ChainedScheduler`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from ._base import LRScheduler, _assign, _refuse_in_trace, _values
from ._plateau import ReduceLROnPlateau


class _Composed(LRScheduler):
    """The base of schedules that combine schedules of one optimizer."""

    _schedulers: Sequence[Any]

    def _check(self, schedulers: Sequence[Any], optimizer: Any) -> None:
        me = type(self).__name__
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{me} at index {i} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{me} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs "
                    f"to be specified when calling `step`, but got one at index {i} in the given schedulers "
                    "sequence."
                )
            if optimizer != scheduler.optimizer:
                raise ValueError(
                    f"{me} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(scheduler).__name__} at index {i} has {scheduler.optimizer}, "
                    f"which is different from {type(optimizer).__name__}."
                )

    def state_dict(self) -> dict[str, Any]:
        """The attributes without the optimizer, and the states of the combined schedules."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [s.state_dict() for s in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the result of `state_dict`, also in the combined schedules."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=False):
            scheduler.load_state_dict(state)


class SequentialLR(_Composed):
    """Runs one schedule after another. Each starts at its epoch 0 when its milestone is reached.

    Args:
        optimizer: the optimizer.
        schedulers: the schedules, in order.
        milestones: the epochs at which the second, third, ... schedule starts.
        last_epoch: see `LRScheduler`.

    Raises:
        ValueError: there is no schedule, one is a `ReduceLROnPlateau` or of another optimizer, or the number of
            milestones is not that of the schedules minus 1.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.optim import lr_scheduler
        >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5)
        >>> warm_up = lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
        >>> decay = lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> scheduler = lr_scheduler.SequentialLR(optimizer, [warm_up, decay], milestones=[2])
        >>> for epoch in range(4):
        ...     optimizer.step()
        ...     print(scheduler.get_last_lr())
        ...     scheduler.step()
        [0.25]
        [0.25]
        [0.5]
        [0.25]

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.SequentialLR.html
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if not schedulers:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        self._check(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number "
                f"of milestone points, but got number of schedulers {len(schedulers)} and the number of "
                f"milestones to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each schedule took its first step when it was made. Undo these steps, and repeat that of the first schedule.
        for group in optimizer.param_groups:
            _assign(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Undo the first step of all combined schedules."""
        scheduler = self if sched is None else sched
        if hasattr(scheduler, "_schedulers"):
            for inner in scheduler._schedulers:
                self.recursive_undo(inner)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Go to the next epoch."""
        _refuse_in_trace()
        self.last_epoch += 1
        now = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[now]
        if now > 0 and self._milestones[now - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Composed):
    """Steps several schedules at once; each changes the learning rate that the previous one set.

    Args:
        schedulers: the schedules, in order.
        optimizer: the optimizer. Default: that of the first schedule.

    Raises:
        ValueError: there is no schedule, or one is a `ReduceLROnPlateau` or of another optimizer.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.ChainedScheduler.html
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        self._check(schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = _values(schedulers[-1].optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Step all schedules."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = _values(self._schedulers[-1].optimizer, "lr")
