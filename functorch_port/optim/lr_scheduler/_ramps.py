"""Steps and ramps: `StepLR`, `MultiStepLR`, `ConstantLR`, `LinearLR`, `ExponentialLR`, `PolynomialLR`."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ..optimizer import Optimizer
from ._base import LRScheduler


class StepLR(LRScheduler):
    """Multiplies the learning rate by ``gamma`` every ``step_size`` epochs; `LRScheduler` has an example.

    Args:
        optimizer: the optimizer.
        step_size: the number of epochs between two changes.
        gamma: the factor. Default: 0.1.
        last_epoch: see `LRScheduler`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.StepLR.html
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        due = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return self._current(self.gamma if due else None)

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiplies the learning rate by ``gamma`` at each milestone.

    Args:
        optimizer: the optimizer.
        milestones: the epochs of the changes; an epoch that is listed twice changes the rate twice.
        gamma: the factor. Default: 0.1.
        last_epoch: see `LRScheduler`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.MultiStepLR.html
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        times = self.milestones.get(self.last_epoch)
        return self._current(None if times is None else self.gamma**times)

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Multiplies the learning rate by ``factor`` for the first ``total_iters`` epochs.

    Args:
        optimizer: the optimizer.
        factor: the factor, at most 1. As in PyTorch, 0 raises a ZeroDivisionError after ``total_iters`` epochs.
        total_iters: the number of epochs. Default: 5.
        last_epoch: see `LRScheduler`.

    Raises:
        ValueError: ``factor`` is not in [0, 1].

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.ConstantLR.html
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._current(self.factor)
        return self._current(1.0 / self.factor if self.last_epoch == self.total_iters else None)

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Changes the learning rate linearly over the first ``total_iters`` epochs, for example to warm up.

    Args:
        optimizer: the optimizer.
        start_factor: the factor on the rate at epoch 0. Default: 1/3.
        end_factor: the factor from epoch ``total_iters`` on. Default: 1.
        total_iters: the number of epochs. Default: 5.
        last_epoch: see `LRScheduler`.

    Raises:
        ValueError: ``start_factor`` is not in (0, 1], or ``end_factor`` not in [0, 1].

    Example:
        >>> import functorch_port as torch
        >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
        >>> for epoch in range(3):
        ...     print(scheduler.get_last_lr())
        ...     optimizer.step()
        ...     scheduler.step()
        [0.5]
        [0.75]
        [1.0]

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.LinearLR.html
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._current(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        rise = self.end_factor - self.start_factor
        return self._current(
            1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)
        )

    def _get_closed_form_lr(self) -> list[Any]:
        done = min(self.total_iters, self.last_epoch)
        factor = self.start_factor + (self.end_factor - self.start_factor) * done / self.total_iters
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiplies the learning rate by ``gamma`` every epoch.

    Args:
        optimizer: the optimizer.
        gamma: the factor.
        last_epoch: see `LRScheduler`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.ExponentialLR.html
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        return self._current(None if self._is_initial else self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Multiplies the initial learning rate by ``(1 - epoch / total_iters) ** power``; it is 0 from ``total_iters`` on.

    Args:
        optimizer: the optimizer.
        total_iters: the number of epochs. Default: 5.
        power: the exponent. Default: 1.
        last_epoch: see `LRScheduler`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.PolynomialLR.html
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        left = 1.0 - self.last_epoch / self.total_iters
        return self._current((left / (1.0 - (self.last_epoch - 1) / self.total_iters)) ** self.power)

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]
