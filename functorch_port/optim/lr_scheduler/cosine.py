"""Cosine annealing: `CosineAnnealingLR`, `CosineAnnealingWarmRestarts`."""

from __future__ import annotations

import math
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, _refuse_in_trace


def _cosine(position: float, length: float = 1) -> float:
    """Two at the start of a half period, falling to zero at its end."""
    return 1 + math.cos(math.pi * position / length)


class CosineAnnealingLR(LRScheduler):
    """Lets the rate fall from its initial value to ``eta_min`` along a cosine, in ``T_max`` epochs (and rise
    again after).

    Args:
        optimizer: whose rates to set.
        T_max: length of half a period.
        eta_min: the lowest rate.
        last_epoch: epochs already done.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.CosineAnnealingLR.html
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
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # the ratio below would divide by zero
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
    """Cosine annealing that starts again from the initial rate after ``T_0`` epochs, then ``T_0 * T_mult``,
    and so on.

    Args:
        optimizer: whose rates to set.
        T_0: epochs until the first restart.
        T_mult: factor on the length after each restart.
        eta_min: the lowest rate.
        last_epoch: epochs already done.

    Raises:
        ValueError: for lengths that are not positive integers.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.CosineAnnealingWarmRestarts.html
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
        """Go to the next epoch, or to ``epoch``, which may lie between two."""
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
