"""Adadelta: gradients scaled by the ratio of the sizes of past steps and past gradients.

For gradient ``g`` (negated first if ``maximize``), with weight decay ``w``:

    g     = g + w * p
    v     = rho * v + (1 - rho) * g * g
    delta = sqrt(a + eps) / sqrt(v + eps) * g
    a     = rho * a + (1 - rho) * delta * delta
    p     = p - lr * delta
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .._tensor.tensor import Tensor
from ._ruled import Method, RuledOptimizer, check_at_least_zero, check_lr, step_lists
from ._rules import addcmul, axpy, nonzero, partwise, penalized, plus, quotient, root, scaled, times
from .optimizer import ParamsT

__all__ = ["Adadelta", "adadelta"]


class Flags(NamedTuple):
    """The static settings of a group's update; its numbers are passed as data."""

    weight_decay: bool
    maximize: bool


class Scalars(NamedTuple):
    """The scalar factors of the rule."""

    minus_lr: Any
    rho: Any
    one_minus_rho: Any
    eps: Any
    weight_decay: Any


@partwise
def adadelta_rule(
    param: Any, grad: Any, state: tuple[Any, ...], scalars: Any, flags: Flags
) -> tuple[Any, tuple[Any, ...]]:
    """One step of one parameter; the state is ``(square_avg, acc_delta)``."""
    s = Scalars(*scalars)
    square, moved = state
    grad = penalized(grad, param, s.weight_decay, flags)
    square = addcmul(scaled(square, s.rho), s.one_minus_rho, grad, grad)
    ratio = quotient(root(plus(moved, s.eps)), root(plus(square, s.eps)))
    delta = times(ratio, grad)
    moved = addcmul(scaled(moved, s.rho), s.one_minus_rho, delta, delta)
    return axpy(param, s.minus_lr, delta), (square, moved)


def _flags(group: dict[str, Any]) -> Flags:
    return Flags(nonzero(group["weight_decay"]), group["maximize"])


def _slots(flags: Flags) -> tuple[str | None, ...]:
    return "square_avg", "acc_delta"


def _scalars(hyper: dict[str, Any], count: Any) -> Scalars:
    rho = hyper["rho"]
    return Scalars(-hyper["lr"], rho, 1 - rho, hyper["eps"], hyper["weight_decay"])


METHOD = Method(adadelta_rule, _flags, _slots, _scalars)


class Adadelta(RuledOptimizer):
    r"""Adadelta: steps in the units of the parameter, independent of the scale of the gradient.

    .. math::
        v \leftarrow \rho v + (1 - \rho) g^2, \qquad
        \Delta = \frac{\sqrt{u + \epsilon}}{\sqrt{v + \epsilon}}\, g, \qquad
        u \leftarrow \rho u + (1 - \rho) \Delta^2, \qquad
        \theta \leftarrow \theta - \gamma\Delta

    Args:
        params: parameters, ``(name, parameter)`` pairs, or dicts that define groups.
        lr: factor :math:`\gamma` of the step, a number or a one-element tensor.
        rho: decay rate of the two running averages.
        eps: :math:`\epsilon`; its square root is the scale of the first steps.
        weight_decay: L2 penalty added to the gradient.
        maximize: maximize the loss instead of minimizing it.
        foreach, capturable: accepted and stored, but ignored: a step is always one compiled program.
        differentiable: record the step in autograd, so that gradients flow through it.

    Raises:
        ValueError: if a number is out of range, or ``lr`` is a tensor of several elements.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        >>> optimizer = torch.optim.Adadelta([w], lr=10.0)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9684, 1.9684])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.Adadelta.html,
        Zeiler, "ADADELTA: An Adaptive Learning Rate Method", https://arxiv.org/abs/1212.5701
    """

    method = METHOD

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_at_least_zero("epsilon value", eps)
        check_at_least_zero("weight_decay value", weight_decay)
        defaults = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)


def adadelta(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    acc_deltas: list[Tensor],
    state_steps: list[Tensor],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """One step of `Adadelta` on lists of tensors, in place.

    Args:
        params, square_avgs, acc_deltas, state_steps: updated in place.
        grads: the gradients.
        capturable, foreach, differentiable, has_complex: accepted and ignored.
        lr, rho, eps, weight_decay, maximize: as for `Adadelta`.
    """
    group = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
    step_lists(METHOD, group, params, grads, state_steps, square_avg=square_avgs, acc_delta=acc_deltas)
