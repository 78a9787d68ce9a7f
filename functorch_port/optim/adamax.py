"""Adamax: Adam with a decaying maximum of the gradient in place of the root of its mean square.

For gradient ``g`` (negated first if ``maximize``) in step ``t``, with weight decay ``w``:

    g = g + w * p
    m = m + (1 - beta1) * (g - m)
    u = max(beta2 * u, abs(g) + eps)
    p = p - lr / (1 - beta1**t) * m / u
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from .._tensor.tensor import Tensor
from ._ruled import Method, RuledOptimizer, check_at_least_zero, check_betas, check_lr, step_lists
from ._rules import addcdiv, lerp, nonzero, partwise, penalized, plus, scaled
from ._scalars import correction
from .optimizer import ParamsT

__all__ = ["Adamax", "adamax"]


class Flags(NamedTuple):
    """The static settings of a group's update; its numbers are passed as data."""

    weight_decay: bool
    maximize: bool


class Scalars(NamedTuple):
    """The scalar factors of the rule in one step."""

    minus_step_size: Any
    one_minus_beta1: Any
    beta2: Any
    eps: Any
    weight_decay: Any


@partwise
def adamax_rule(
    param: Any, grad: Any, state: tuple[Any, ...], scalars: Any, flags: Flags
) -> tuple[Any, tuple[Any, ...]]:
    """One step of one parameter; the state is ``(exp_avg, exp_inf)``."""
    s = Scalars(*scalars)
    mean, largest = state
    grad = penalized(grad, param, s.weight_decay, flags)
    mean = lerp(mean, grad, s.one_minus_beta1)
    largest = jnp.maximum(scaled(largest, s.beta2), plus(jnp.abs(grad), s.eps))
    return addcdiv(param, s.minus_step_size, mean, largest), (mean, largest)


def _flags(group: dict[str, Any]) -> Flags:
    return Flags(nonzero(group["weight_decay"]), group["maximize"])


def _slots(flags: Flags) -> tuple[str | None, ...]:
    return "exp_avg", "exp_inf"


def _scalars(hyper: dict[str, Any], count: Any) -> Scalars:
    beta1, beta2 = hyper["betas"]
    return Scalars(
        minus_step_size=-(hyper["lr"] / correction(beta1, count)),
        one_minus_beta1=1 - beta1,
        beta2=beta2,
        eps=hyper["eps"],
        weight_decay=hyper["weight_decay"],
    )


METHOD = Method(adamax_rule, _flags, _slots, _scalars)


class Adamax(RuledOptimizer):
    r"""Adamax: Adam with a decaying maximum of the absolute gradient as the denominator.

    .. math::
        m \leftarrow \beta_1 m + (1 - \beta_1) g, \qquad
        u \leftarrow \max(\beta_2 u, |g| + \epsilon), \qquad
        \theta \leftarrow \theta - \frac{\gamma}{1 - \beta_1^t}\,\frac{m}{u}

    Args:
        params: parameters, ``(name, parameter)`` pairs, or dicts that define groups.
        lr: learning rate :math:`\gamma`, a number or a one-element tensor.
        betas: :math:`(\beta_1, \beta_2)`.
        eps: :math:`\epsilon`, added to the absolute gradient to avoid division by zero.
        weight_decay: L2 penalty added to the gradient.
        maximize: maximize the loss instead of minimizing it.
        foreach, capturable: accepted and stored, but ignored: a step is always one compiled program.
        differentiable: record the step in autograd, so that gradients flow through it.

    Raises:
        ValueError: if a number is out of range, or ``lr`` is a tensor of several elements.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        >>> optimizer = torch.optim.Adamax([w], lr=0.1)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 1.9000])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.Adamax.html,
        Kingma and Ba, "Adam: A Method for Stochastic Optimization", https://arxiv.org/abs/1412.6980
    """

    method = METHOD

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_at_least_zero("epsilon value", eps)
        check_betas(betas)
        check_at_least_zero("weight_decay value", weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)


def adamax(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_infs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
) -> None:
    """One step of `Adamax` on lists of tensors, in place.

    Args:
        params, exp_avgs, exp_infs, state_steps: updated in place.
        grads: the gradients.
        foreach, differentiable, capturable, has_complex: accepted and ignored.
        maximize, eps, beta1, beta2, lr, weight_decay: as for `Adamax`.
    """
    group = {
        "lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
    }  # fmt: skip
    step_lists(METHOD, group, params, grads, state_steps, exp_avg=exp_avgs, exp_inf=exp_infs)
