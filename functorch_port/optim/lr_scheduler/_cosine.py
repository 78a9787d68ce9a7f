"""Cosine annealing: `CosineAnnealingLR`, `CosineAnnealingWarmRestarts`."""

from __future__ import annotations

import math
from typing import Any

from ..optimizer import Optimizer
from ._base import LRScheduler, _refuse_in_trace


def _cosine(position: float, length: float = 1) -> float:
    """``1 + cos(pi * position / length)``: falls from 2 to 0 over ``length``."""
    return 1 + math.cos(math.pi * position / length)


class CosineAnnealingLR(LRScheduler):
    """Decreases the learning rate along half a cosine from its initial value to ``eta_min``, then increases it again.

    The rate at epoch t is ``eta_min + (initial - eta_min) * (1 + cos(pi * t / T_max)) / 2``.

    Args:
        optimizer: the optimizer.
        T_max: half the period, in epochs.
        eta_min: the lowest learning rate. Default: 0.
        last_epoch: see `LRScheduler`.

    Example:
        >>> import functorch_port as torch
        >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
        >>> for epoch in range(3):
        ...     print(f"{scheduler.get_last_lr()[0]:.1f}")
        ...     optimizer.step()
        ...     scheduler.step()
        1.0
        0.5
        0.0

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.CosineAnnealingLR.html
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial:
            return self._current()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        groups = self.optimizer.param_groups
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # else the ratio divides by zero
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                g["lr"] + (base - self.eta_min) * rise for g, base in zip(groups, self.base_lrs, strict=True)
            ]
        ratio = _cosine(self.last_epoch, self.T_max) / _cosine(self.last_epoch - 1, self.T_max)
        return [ratio * (g["lr"] - self.eta_min) + self.eta_min for g in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        part = _cosine(self.last_epoch, self.T_max) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing that restarts from the initial learning rate, first after ``T_0`` epochs.

    Args:
        optimizer: the optimizer.
        T_0: the number of epochs until the first restart.
        T_mult: each cycle has this many times the epochs of the previous one. Default: 1.
        eta_min: the lowest learning rate. Default: 0.
        last_epoch: see `LRScheduler`.

    Raises:
        ValueError: ``T_0`` or ``T_mult`` is not a positive integer, or ``eta_min`` is not a number.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.CosineAnnealingWarmRestarts.html
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        part = _cosine(self.T_cur, self.T_i) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to ``epoch``, which may have a fraction: ``epoch + batch / batches``."""
        _refuse_in_trace()
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._seek(epoch)
        self.last_epoch = math.floor(epoch)
        with self._flag("_get_lr_called_within_step"):
            lrs = self.get_lr()
        self._set_lrs(lrs)

    def _seek(self, epoch: float) -> None:
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            restarts = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**restarts - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**restarts
