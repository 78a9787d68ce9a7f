"""Cycles of the learning rate, with the momentum in opposite phase: `CyclicLR`, `OneCycleLR`."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from ..optimizer import Optimizer
from ._base import LRScheduler, _assign, _check_optimizer, _per_group
from ._cosine import _cosine


class _WithMomentum(LRScheduler):
    """The base of schedules that decrease the momentum (or the first beta) while the rate increases."""

    cycle_momentum: bool

    def _start_momentum(self, base: Any, top: Any, fresh: bool) -> tuple[list[Any], list[Any]]:
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in defaults
        bases = _per_group("base_momentum", self.optimizer, base)
        tops = _per_group("max_momentum", self.optimizer, top)
        if fresh:
            for group, low, high in zip(self.optimizer.param_groups, bases, tops, strict=True):
                self._set_momentum(group, high)
                group["max_momentum"] = high
                group["base_momentum"] = low
        return bases, tops

    def _set_momentum(self, group: dict[str, Any], value: Any) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


def _same_height(x: float) -> float:
    return 1.0


def _half_height(x: float) -> float:
    return 1 / (2.0 ** (x - 1))


_SCALES = {"triangular": _same_height, "triangular2": _half_height}


class CyclicLR(_WithMomentum):
    """Cycles the learning rate between ``base_lr`` and ``max_lr``. Call `step` after each batch.

    Args:
        optimizer: the optimizer.
        base_lr, max_lr: the lower and the upper bound, each a number or a list with one for each group.
        step_size_up: the number of batches in which the rate rises. Default: 2000.
        step_size_down: the number of batches in which it falls. Default: ``step_size_up``.
        mode: how the amplitude changes: ``"triangular"`` (not at all), ``"triangular2"`` (halved after every cycle) or
            ``"exp_range"`` (times ``gamma**iteration``).
        gamma: the factor for ``"exp_range"``.
        scale_fn: a function that returns the factor on the amplitude, in place of ``mode``.
        scale_mode: whether ``scale_fn`` takes the number of the ``"cycle"`` or of the ``"iterations"``.
        cycle_momentum: whether the momentum (or the first beta) falls from ``max_momentum`` to ``base_momentum`` while
            the rate rises, and back.
        base_momentum, max_momentum: the bounds of the momentum, as for the rate.
        last_epoch: the last batch of the run to resume; see `LRScheduler`.

    Raises:
        ValueError: the mode is unknown, a list has the wrong length, or there is no momentum to cycle: the optimizer
            has neither ``momentum`` nor ``betas``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.CyclicLR.html
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = _per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
                _assign(group, "lr", lr)
        self.max_lrs = _per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._start_momentum(
                base_momentum, max_momentum, last_epoch == -1
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The factor on the amplitude in cycle (or iteration) ``x``."""
        scale = self._scale_fn_ref if self._scale_fn_custom is None else self._scale_fn_custom
        return scale(x)

    @property
    def _scale_fn_ref(self) -> Callable[[float], float]:
        """The function that ``mode`` stands for."""
        return _SCALES.get(self.mode) or partial(pow, self.gamma)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        at = cycle if self.scale_mode == "cycle" else self.last_epoch
        # called for every number, since an object with state may count its calls
        lrs = [
            low + (high - low) * height * self.scale_fn(at)
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]
        if self.cycle_momentum:
            bounds = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in bounds:
                self._set_momentum(group, high - (high - low) * height * self.scale_fn(at))
        return lrs

    def state_dict(self) -> dict[str, Any]:
        """The attributes without the optimizer and ``scale_fn``; of a callable object, its attributes."""
        state = super().state_dict()
        fn = state.pop("_scale_fn_custom")
        plain = fn is None or isinstance(fn, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else fn.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the result of `state_dict`. A callable object ``scale_fn`` gets its saved attributes."""
        state_dict = state_dict.copy()
        attributes = state_dict.pop("_scale_fn_custom")
        super().load_state_dict(state_dict)
        if attributes is not None:
            self._scale_fn_custom.__dict__.update(attributes)


class OneCycleLR(_WithMomentum):
    """The 1cycle policy: the learning rate rises to ``max_lr``, then falls. Call `step` after each batch.

    Args:
        optimizer: the optimizer.
        max_lr: the highest learning rate, a number or a list with one for each group.
        total_steps: the number of batches. Default: ``epochs * steps_per_epoch``.
        epochs, steps_per_epoch: used if ``total_steps`` is None.
        pct_start: the fraction of the steps in which the rate rises, a float.
        anneal_strategy: the shape of both phases, ``"cos"`` or ``"linear"``.
        cycle_momentum, base_momentum, max_momentum: see `CyclicLR`.
        div_factor: the rate starts at ``max_lr / div_factor``.
        final_div_factor: the rate ends at ``max_lr / div_factor / final_div_factor``.
        three_phase: whether the rate first falls back to its initial value, in as many steps as it rose.
        last_epoch: the last batch of the run to resume; see `LRScheduler`.

    Raises:
        ValueError: a number is out of range, there is no momentum to cycle, or `step` is called more than
            ``total_steps`` times.

    Example:
        >>> import functorch_port as torch
        >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0, momentum=0.9)
        >>> scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=5, pct_start=0.4)
        >>> for batch in range(4):
        ...     print(f"{scheduler.get_last_lr()[0]:.2f}")
        ...     optimizer.step()
        ...     scheduler.step()
        0.04
        1.00
        0.75
        0.25

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.OneCycleLR.html
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        self._schedule_phases = _phases(pct_start, self.total_steps, three_phase)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        max_lrs = _per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, top in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def _anneal(self, start: Any, end: Any, part: float) -> Any:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * _cosine(part)
        return (end - start) * part + start

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is {self.total_steps}"
            )
        phases = self._schedule_phases
        now = next((i for i, phase in enumerate(phases) if step <= phase["end_step"]), len(phases) - 1)
        start = phases[now - 1]["end_step"] if now else 0.0
        phase = phases[now]
        part = (step - start) / (phase["end_step"] - start)
        if self.cycle_momentum:
            for g in self.optimizer.param_groups:
                self._set_momentum(
                    g, self._anneal(g[phase["start_momentum"]], g[phase["end_momentum"]], part)
                )
        return [
            self._anneal(g[phase["start_lr"]], g[phase["end_lr"]], part) for g in self.optimizer.param_groups
        ]


def _total_steps(total_steps: Any, epochs: Any, steps_per_epoch: Any) -> int:
    if total_steps is not None:
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        return total_steps
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return epochs * steps_per_epoch


def _phases(pct_start: float, total_steps: int, three_phase: bool) -> list[dict[str, Any]]:
    """The last step of each phase, and the entries of a group between which it anneals."""
    keys = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
    rise = (float(pct_start * total_steps) - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")
    if three_phase:
        back = (
            float(2 * pct_start * total_steps) - 2,
            "max_lr",
            "initial_lr",
            "base_momentum",
            "max_momentum",
        )
        rows = [rise, back, (total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum")]
    else:
        rows = [rise, (total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
    return [dict(zip(keys, row, strict=True)) for row in rows]
