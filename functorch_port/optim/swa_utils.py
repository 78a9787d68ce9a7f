"""Weight averaging: stochastic weight averaging (SWA) and exponential moving averages (EMA).

Reference:
    https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any, TypeAlias

from .._array import tracing
from .._base import dtypes
from .._run.bind import function
from .._tensor.creation import tensor
from .._tensor.grad_mode import no_grad
from .._tensor.tensor import Tensor
from ..nn._module import Module
from ..nn.modules.batchnorm import _BatchNorm
from .lr_scheduler._base import LRScheduler, _per_group
from .optimizer import Optimizer

__all__ = [
    "AveragedModel", "update_bn", "SWALR", "get_ema_multi_avg_fn", "get_swa_multi_avg_fn", "get_ema_avg_fn",
    "get_swa_avg_fn",
]  # fmt: skip

Average: TypeAlias = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverage: TypeAlias = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]

_lerped, _averaged, _where = function("_lerped"), function("_averaged"), function("where")


def _replace(tensors: Sequence[Tensor], values: Iterable[Tensor]) -> None:
    for old, new in zip(tensors, values, strict=True):
        old._set_value(new._value)


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _inexact(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


# ---------------------------------------------------------------------- averaging functions


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """The exponential moving average of a list of parameters, in one program.

    Args:
        decay: the weight of the old average, between 0 and 1.

    Returns:
        A function ``(averages, values, num_averaged)`` that updates the averages in place, for
        ``AveragedModel(multi_avg_fn=...)``.

    Raises:
        ValueError: if ``decay`` is out of range.

    Example:
        >>> import functorch_port as torch
        >>> update = torch.optim.swa_utils.get_ema_multi_avg_fn(0.75)
        >>> average = torch.zeros(2)
        >>> update([average], [torch.tensor([4.0, 8.0])], 1)
        >>> average
        tensor([1., 2.])

    Reference:
        https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(averages: Sequence[Tensor], values: Sequence[Tensor], _: Any) -> None:
        if _inexact(averages[0]):
            _replace(averages, _lerped(tuple(averages), tuple(values), 1 - decay))
            return
        for average, value in zip(averages, values, strict=True):
            average.copy_(average * decay + value * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> MultiAverage:
    """The equally weighted average of a list of parameters, in one program; used like `get_ema_multi_avg_fn`."""

    @no_grad()
    def swa_update(averages: Sequence[Tensor], values: Sequence[Tensor], num_averaged: Any) -> None:
        count = num_averaged + 1
        if _inexact(averages[0]):
            _replace(averages, _lerped(tuple(averages), tuple(values), 1 / count))
            return
        for average, value in zip(averages, values, strict=True):
            difference = value - average
            if isinstance(count, Tensor):
                average.addcdiv_(difference, count)  # PyTorch, too, refuses integers here
            else:
                average.add_(difference, alpha=1.0 / count)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The exponential moving average of one parameter, for ``AveragedModel(avg_fn=...)``.

    Args:
        decay: the weight of the old average, between 0 and 1.

    Raises:
        ValueError: if ``decay`` is out of range.
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(average: Any, value: Any, num_averaged: Any) -> Any:
        return decay * average + (1 - decay) * value

    return ema_update


def get_swa_avg_fn() -> Average:
    """The equally weighted average of one parameter, for ``AveragedModel(avg_fn=...)``."""

    @no_grad()
    def swa_update(average: Tensor, value: Tensor, num_averaged: Any) -> Tensor:
        return average + (value - average) / (num_averaged + 1)

    return swa_update


# ---------------------------------------------------------------------- the averaged model


class AveragedModel(Module):
    r"""A copy of a model that holds the running average of its weights.

    The first `update_parameters` copies the weights; each later one adds them to the average:

    .. math::
        \bar\theta \leftarrow \bar\theta + \frac{\theta - \bar\theta}{n + 1}

    unless ``avg_fn`` or ``multi_avg_fn`` is given. It may be called inside a compiled step.

    Args:
        model: the model to copy.
        device: device of the copy; default: that of the model.
        avg_fn: ``avg_fn(average, value, num_averaged)`` returns the new average.
        multi_avg_fn: the same for lists of tensors of one device and dtype; it updates the averages in place.
        use_buffers: average the buffers too, instead of copying them from the model.

    Attributes:
        module: the copy.
        n_averaged: the number of models averaged so far, a buffer.

    Raises:
        AssertionError: if both functions are given.

    Example:
        >>> import functorch_port as torch
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> averaged = torch.optim.swa_utils.AveragedModel(model)
        >>> for value in (1.0, 2.0, 6.0):
        ...     _ = torch.nn.init.constant_(model.weight, value)
        ...     averaged.update_parameters(model)
        >>> averaged.module.weight.item(), averaged.n_averaged
        (3.0, tensor(3))

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.swa_utils.AveragedModel.html;
        Izmailov et al., Averaging Weights Leads to Wider Optima and Better Generalization,
        https://arxiv.org/abs/1803.05407
    """

    n_averaged: Any

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=dtypes.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the averaged model."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Add the current weights of ``model`` to the average."""
        averages, values = [], []
        for average, value in zip(self._entries(self.module), self._entries(model), strict=False):
            averages.append(average._alias())
            values.append(value._alias().to(average.device))
        if tracing.overlay:
            # Which update is the first is not known in a trace: both are computed, one is kept.
            self._average(averages, values)
            first = self.n_averaged == 0
            for average, value in zip(averages, values, strict=True):
                average.copy_(_where(first.to(average.device), value, average))
        elif bool(self.n_averaged == 0):
            for average, value in zip(averages, values, strict=True):
                average.copy_(value)
        else:
            self._average(averages, values)
        if not self.use_buffers:
            for mine, theirs in zip(self.module.buffers(), model.buffers(), strict=True):
                mine._alias().copy_(theirs._alias().to(mine.device))
        self.n_averaged += 1

    def _entries(self, module: Module) -> Iterable[Tensor]:
        return chain(module.parameters(), module.buffers()) if self.use_buffers else module.parameters()

    def _average(self, averages: list[Tensor], values: list[Tensor]) -> None:
        if self.avg_fn is not None:
            for average, value in zip(averages, values, strict=True):
                count = self.n_averaged.to(average.device)
                average.copy_(self.avg_fn(average._alias(), value, count))
            return
        update = self.multi_avg_fn or _mean_update
        places: dict[Any, tuple[list[Tensor], list[Tensor]]] = {}
        for average, value in zip(averages, values, strict=True):
            group = places.setdefault((average.device, average.dtype), ([], []))
            group[0].append(average)
            group[1].append(value)
        for (device, _), group in places.items():
            update(*group, self.n_averaged.to(device))


def _mean_update(averages: Sequence[Tensor], values: Sequence[Tensor], num_averaged: Any) -> None:
    """`get_swa_avg_fn` for a list of tensors."""
    with no_grad():
        _replace(averages, _averaged(tuple(averages), tuple(values), num_averaged + 1))


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the running statistics of all batch normalizations in one pass over the data.

    Args:
        loader: an iterable of batches: tensors, or lists or tuples whose first entry is the input.
        model: the model; it is called on each batch in training mode, then its mode is restored.
        device: move the batches to this device first.

    Example:
        >>> import functorch_port as torch
        >>> model = torch.nn.BatchNorm1d(1)
        >>> batches = [torch.tensor([[1.0], [3.0]]), torch.tensor([[5.0], [7.0]])]
        >>> torch.optim.swa_utils.update_bn(batches, model)
        >>> model.running_mean
        tensor([4.])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.swa_utils.update_bn.html
    """
    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None  # all batches count alike
    for batch in loader:
        if isinstance(batch, (list, tuple)):
            batch = batch[0]
        model(batch if device is None else batch.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


# ---------------------------------------------------------------------- the schedule


class SWALR(LRScheduler):
    """Anneal the learning rate of each group to a fixed value, then keep it constant.

    Args:
        optimizer: the optimizer; its groups get an entry ``swa_lr``.
        swa_lr: the final learning rate, or one per group.
        anneal_epochs: number of epochs of the annealing.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        last_epoch: index of the last epoch; -1 to start.

    Raises:
        ValueError: if the strategy is unknown, ``anneal_epochs`` is negative, or a list has the wrong length.

    Example:
        >>> import functorch_port as torch
        >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
        >>> scheduler = torch.optim.swa_utils.SWALR(optimizer, 0.5, anneal_epochs=2, anneal_strategy="linear")
        >>> for epoch in range(3):
        ...     optimizer.step()
        ...     scheduler.step()
        ...     print(optimizer.param_groups[0]["lr"])
        0.75
        0.5
        0.5

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.swa_utils.SWALR.html
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = _per_group("swa_lr", optimizer, swa_lr)
        for rate, group in zip(rates, optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._set_anneal_func(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _set_anneal_func(self, anneal_strategy: str) -> None:
        self._anneal_strategy = anneal_strategy
        self.anneal_func = self._cosine_anneal if anneal_strategy == "cos" else self._linear_anneal

    @staticmethod
    def _linear_anneal(t: float) -> float:
        return t

    @staticmethod
    def _cosine_anneal(t: float) -> float:
        return (1 - math.cos(math.pi * t)) / 2

    def _part(self, step: int) -> float:
        """The progress of the annealing after ``step`` steps, from 0 to 1."""
        return self.anneal_func(max(0, min(1, step / max(1, self.anneal_epochs))))

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._part(step - 1), self._part(step)
        return [
            group["swa_lr"] * now + _undo(group["lr"], group["swa_lr"], before) * (1 - now)
            for group in self.optimizer.param_groups
        ]

    def state_dict(self) -> dict[str, Any]:
        """The state of the scheduler, without the optimizer and the annealing function."""
        return {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "anneal_func")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the result of `state_dict`."""
        self.__dict__.update(state_dict)
        self._set_anneal_func(self._anneal_strategy)


def _undo(lr: Any, swa_lr: Any, part: float) -> Any:
    """The initial rate of the annealing, computed from the rate at progress ``part``."""
    return swa_lr if part == 1 else (lr - part * swa_lr) / (1 - part)
