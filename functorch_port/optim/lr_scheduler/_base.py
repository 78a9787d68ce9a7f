"""`LRScheduler`, the base class of the schedules, and their common functions."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..._array import tracing
from ..._tensor.tensor import Tensor
from ..optimizer import Optimizer, to_scalar

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. "
    "Please use `scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from "
    "None, the closed form is used instead of the new chainable form, where available. Please open an issue "
    "if you are unable to replicate your use case: https://github.com/pytorch/pytorch/issues/new/choose."
)
_ORDER_DOCS = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
_OVERRIDDEN_WARNING = (
    "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. Please, "
    f"make sure to call `optimizer.step()` before `lr_scheduler.step()`. {_ORDER_DOCS}"
)
_ORDER_WARNING = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
    "should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do "
    f"this will result in PyTorch skipping the first value of the learning rate schedule. {_ORDER_DOCS}"
)


def _own(value: Any) -> Any:
    """Copy a tensor, so that the schedule's value does not change with the optimizer's; a number needs no copy."""
    return value.clone() if isinstance(value, Tensor) else value


def _values(optimizer: Optimizer, key: str) -> list[Any]:
    return [_own(group[key]) for group in optimizer.param_groups]


def _per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A list with one value for every group, from a number for all groups or a list."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [_own(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {count}."
        )
    return [_own(v) for v in value]


def _assign(group: dict[str, Any], key: str, value: Any) -> None:
    """Set ``group[key]``; a tensor stays the same tensor."""
    if isinstance(group[key], Tensor):
        group[key].fill_(to_scalar(value))
    else:
        group[key] = value


def _check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _refuse_in_trace() -> None:
    """Refuse to count epochs in a trace: the compiled function would not count them again."""
    if tracing.overlay:
        raise NotImplementedError(
            "lr_scheduler.step() cannot run inside a compiled function: call it after the compiled step, which uses "
            "the new rate without another trace"
        )


class LRScheduler:
    """Base class of all schedules. A subclass defines ``get_lr``.

    Args:
        optimizer: the optimizer; its groups get an entry ``initial_lr``.
        last_epoch: the last epoch of the run to resume. Default: -1, a new run.

    Attributes:
        base_lrs: the groups' initial learning rates.
        last_epoch: the current epoch: 0 for a new schedule; each `step` adds 1.

    Raises:
        TypeError: ``optimizer`` is not an `Optimizer`.
        KeyError: ``last_epoch`` is not -1, and a group has no ``initial_lr``.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.Parameter(torch.ones(1))
        >>> optimizer = torch.optim.SGD([w], lr=0.1)
        >>> scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        >>> for epoch in range(4):
        ...     optimizer.step()
        ...     scheduler.step()
        ...     print(optimizer.param_groups[0]["lr"])
        0.1
        0.05
        0.05
        0.025

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.LRScheduler.html
    """

    _get_lr_called_within_step = False
    _is_initial = False
    #: private attributes that methods give to a compiled function, which compares them
    _guarded = frozenset({"_last_lr", "_step_count"})

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _own(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    "last_epoch >= 0.\nThis typically happens when:\n"
                    "1. You're trying to resume training from a checkpoint but haven't properly loaded the "
                    "optimizer state\n2. You're using last_epoch >= 0 for a fresh training run (not "
                    "recommended)"
                )
        self.base_lrs: list[Any] = _values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _watch_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        with self._flag("_is_initial"):
            self.step()

    @contextmanager
    def _flag(self, name: str) -> Iterator[None]:
        setattr(self, name, True)
        try:
            yield
        finally:
            setattr(self, name, False)

    def state_dict(self) -> dict[str, Any]:
        """The schedule's attributes without the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the result of `state_dict` of a schedule of the same class."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The groups' learning rates that this schedule set last."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Compute the groups' rates of epoch ``last_epoch``. Only `step` calls this; read rates by `get_last_lr`."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch and set the groups' learning rates. Call it after ``optimizer.step()``.

        Args:
            epoch: deprecated; the epoch to go to.
        """
        _refuse_in_trace()
        if self._step_count == 1:
            if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
                warnings.warn(_OVERRIDDEN_WARNING, UserWarning, stacklevel=2)
            elif not getattr(self.optimizer, "_opt_called", False):
                warnings.warn(_ORDER_WARNING, UserWarning, stacklevel=2)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed_form = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        with self._flag("_get_lr_called_within_step"):
            lrs = self.get_lr() if closed_form is None else closed_form()
        self._set_lrs(lrs)

    def _set_lrs(self, lrs: Sequence[Any]) -> None:
        for group, lr in zip(self.optimizer.param_groups, lrs, strict=True):
            _assign(group, "lr", lr)
        self._last_lr = _values(self.optimizer, "lr")

    def _current(self, factor: float | None = None) -> list[Any]:
        """The groups' current rates, times ``factor``."""
        if factor is None:
            return _values(self.optimizer, "lr")
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )


class _LRScheduler(LRScheduler):
    """The old name of `LRScheduler`."""


def _watch_steps(optimizer: Optimizer) -> None:
    """Make ``optimizer.step`` set ``_opt_called``, so that a schedule can warn about the wrong order of calls."""
    step = optimizer.step
    if hasattr(step, "_wrapped_by_lr_sched"):
        return
    function, owner = step.__func__, weakref.ref(optimizer)  # type: ignore[attr-defined]

    @functools.wraps(function)
    def noted(*args: Any, **kwargs: Any) -> Any:
        me = owner()
        me._opt_called = True  # type: ignore[union-attr]
        return function.__get__(me, type(me))(*args, **kwargs)

    noted._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = noted  # type: ignore[method-assign]
