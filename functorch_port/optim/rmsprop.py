"""RMSprop: gradients divided by the root of a running average of their squares.

For gradient ``g`` (negated first if ``maximize``), with weight decay ``w`` and momentum ``mu``:

    g   = g + w * p
    v   = alpha * v + (1 - alpha) * g * g
    a   = a + (1 - alpha) * (g - a)           (centered)
    avg = sqrt(v) + eps                       (centered: sqrt(v - a * a) + eps)
    buf = mu * buf + g / avg                  (without momentum: buf = g / avg)
    p   = p - lr * buf
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from .._tensor.tensor import Tensor
from ._ruled import Method, RuledOptimizer, check_at_least_zero, check_lr, step_lists
from ._rules import addcdiv, addcmul, axpy, lerp, nonzero, partwise, penalized, plus, root, scaled
from .optimizer import ParamsT

__all__ = ["RMSprop", "rmsprop"]


class Flags(NamedTuple):
    """The static settings of a group's update; its numbers are passed as data."""

    momentum: bool
    centered: bool
    weight_decay: bool
    maximize: bool


class Scalars(NamedTuple):
    """The scalar factors of the rule."""

    minus_lr: Any
    alpha: Any
    one_minus_alpha: Any
    momentum: Any
    eps: Any
    weight_decay: Any


@partwise
def rmsprop_rule(
    param: Any, grad: Any, state: tuple[Any, ...], scalars: Any, flags: Flags
) -> tuple[Any, tuple[Any, ...]]:
    """One step of one parameter; the state is ``(square_avg, momentum_buffer or None, grad_avg or None)``."""
    s = Scalars(*scalars)
    square, buf, mean = state
    grad = penalized(grad, param, s.weight_decay, flags)
    square = addcmul(scaled(square, s.alpha), s.one_minus_alpha, grad, grad)
    variance = square
    if flags.centered:
        mean = lerp(mean, grad, s.one_minus_alpha)
        variance = addcmul(square, -1, mean, mean)
    size = plus(root(variance), s.eps)
    if flags.momentum:
        buf = addcdiv(scaled(buf, s.momentum), 1, grad, size)
        return axpy(param, s.minus_lr, buf), (square, buf, mean)
    return addcdiv(param, s.minus_lr, grad, size), (square, buf, mean)


def _flags(group: dict[str, Any]) -> Flags:
    momentum = group["momentum"]
    return Flags(
        isinstance(momentum, (Tensor, jax.Array)) or bool(momentum > 0),
        bool(group["centered"]),
        nonzero(group["weight_decay"]),
        group["maximize"],
    )


def _slots(flags: Flags) -> tuple[str | None, ...]:
    return "square_avg", "momentum_buffer" if flags.momentum else None, "grad_avg" if flags.centered else None


def _scalars(hyper: dict[str, Any], count: Any) -> Scalars:
    alpha = hyper["alpha"]
    return Scalars(-hyper["lr"], alpha, 1 - alpha, hyper["momentum"], hyper["eps"], hyper["weight_decay"])


METHOD = Method(rmsprop_rule, _flags, _slots, _scalars)


class RMSprop(RuledOptimizer):
    r"""RMSprop: gradients divided by the root of their running mean square.

    .. math::
        v \leftarrow \alpha v + (1 - \alpha) g^2, \qquad
        b \leftarrow \mu b + \frac{g}{\sqrt v + \epsilon}, \qquad
        \theta \leftarrow \theta - \gamma b

    With ``centered``, the square of the running mean of the gradient is subtracted from :math:`v` under the root.

    Args:
        params: parameters, ``(name, parameter)`` pairs, or dicts that define groups.
        lr: learning rate :math:`\gamma`, a number or a one-element tensor.
        alpha: decay rate of the averages.
        eps: :math:`\epsilon`, added to the denominator to avoid division by zero.
        weight_decay: L2 penalty added to the gradient.
        momentum: :math:`\mu`.
        centered: divide by an estimate of the standard deviation instead.
        maximize: maximize the loss instead of minimizing it.
        foreach, capturable: accepted and stored, but ignored: a step is always one compiled program.
        differentiable: record the step in autograd, so that gradients flow through it.

    Raises:
        ValueError: if a number is negative, or ``lr`` is a tensor of several elements.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        >>> optimizer = torch.optim.RMSprop([w], lr=0.01)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 1.9000])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.RMSprop.html,
        Hinton, lecture 6e, https://www.cs.toronto.edu/~tijmen/csc321/slides/lecture_slides_lec6.pdf; centered:
        Graves, "Generating Sequences With Recurrent Neural Networks", https://arxiv.org/abs/1308.0850
    """

    method = METHOD
    old_groups = {
        "momentum": 0, "centered": False, "foreach": None, "maximize": False, "differentiable": False,
        "capturable": False,
    }  # fmt: skip

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_at_least_zero("epsilon value", eps)
        check_at_least_zero("momentum value", momentum)
        check_at_least_zero("weight_decay value", weight_decay)
        check_at_least_zero("alpha value", alpha)
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)


def rmsprop(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    grad_avgs: list[Tensor],
    momentum_buffer_list: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """One step of `RMSprop` on lists of tensors, in place.

    Args:
        params, square_avgs, state_steps: updated in place.
        grad_avgs: updated in place if ``centered``, else it may be empty.
        momentum_buffer_list: updated in place with momentum, else it may be empty.
        grads: the gradients.
        foreach, differentiable, capturable, has_complex: accepted and ignored.
        maximize, lr, alpha, eps, weight_decay, momentum, centered: as for `RMSprop`.
    """
    group = {
        "lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum,
        "centered": centered, "maximize": maximize,
    }  # fmt: skip
    step_lists(
        METHOD, group, params, grads, state_steps,
        square_avg=square_avgs, grad_avg=grad_avgs, momentum_buffer=momentum_buffer_list,
    )  # fmt: skip
