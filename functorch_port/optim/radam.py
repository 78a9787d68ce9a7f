"""RAdam: Adam that uses its adaptive rate only when the variance of that rate can be rectified.

For gradient ``g`` (negated first if ``maximize``) in step ``t``, with weight decay ``w``:

    g       = g + w * p                     (decoupled: p = (1 - lr * w) * p)
    m       = m + (1 - beta1) * (g - m)
    v       = beta2 * v + (1 - beta2) * g * g
    rho_inf = 2 / (1 - beta2) - 1
    rho     = rho_inf - 2 * t * beta2**t / (1 - beta2**t)
    rect    = sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho))
    rate    = rect * sqrt(1 - beta2**t) / (sqrt(v) + eps)  if rho > 5 else 1
    p       = p - lr * rate * m / (1 - beta1**t)
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp

from .._tensor.tensor import Tensor
from ._ruled import Method, RuledOptimizer, check_at_least_zero, check_betas, check_lr, step_lists
from ._rules import (
    averaged,
    axpy,
    decayed,
    divided,
    nonzero,
    over,
    partwise,
    plus,
    root,
    scaled,
    times,
)
from ._scalars import correction
from .optimizer import ParamsT

__all__ = ["RAdam", "radam"]


class Flags(NamedTuple):
    """The static settings of a group's update; its numbers are passed as data."""

    weight_decay: bool
    decoupled: bool
    maximize: bool


class Scalars(NamedTuple):
    """The scalar factors of the rule in one step."""

    lr: Any
    one_minus_beta1: Any
    beta2: Any
    one_minus_beta2: Any
    correction1: Any
    root_of_correction2: Any
    rectification: Any  # 0 if the rate is not adaptive yet
    eps: Any
    decay: Any  # w, or 1 - lr * w if decoupled


@partwise
def radam_rule(
    param: Any, grad: Any, state: tuple[Any, ...], scalars: Any, flags: Flags
) -> tuple[Any, tuple[Any, ...]]:
    """One step of one parameter; the state is ``(exp_avg, exp_avg_sq)``."""
    s = Scalars(*scalars)
    mean, square = state
    param, grad = decayed(param, grad, s.decay, flags)
    mean, square = averaged(mean, square, grad, s)
    step = scaled(divided(mean, s.correction1), s.lr)
    adaptive = s.rectification > 0
    # Under the root a 1 where the result is not used, so that no gradient of it is infinite.
    rate = over(s.root_of_correction2, plus(root(jnp.where(adaptive, square, 1)), s.eps))
    step = jnp.where(adaptive, scaled(times(step, rate), s.rectification), step)
    return axpy(param, -1, step), (mean, square)


def _flags(group: dict[str, Any]) -> Flags:
    return Flags(nonzero(group["weight_decay"]), group["decoupled_weight_decay"], group["maximize"])


def _slots(flags: Flags) -> tuple[str | None, ...]:
    return "exp_avg", "exp_avg_sq"


def _scalars(hyper: dict[str, Any], count: Any) -> Scalars:
    lr, weight_decay, (beta1, beta2) = hyper["lr"], hyper["weight_decay"], hyper["betas"]
    return Scalars(
        lr=lr,
        one_minus_beta1=1 - beta1,
        beta2=beta2,
        one_minus_beta2=1 - beta2,
        correction1=correction(beta1, count),
        root_of_correction2=correction(beta2, count) ** 0.5,
        rectification=_rectification(beta2, count),
        eps=hyper["eps"],
        decay=1 - lr * weight_decay if hyper["decoupled_weight_decay"] else weight_decay,
    )


def _rectification(beta2: Any, count: Any) -> Any:
    """The factor ``rect``, or 0 for ``rho <= 5``."""
    longest = 2 / (1 - beta2) - 1
    if isinstance(count, float):
        length = longest - 2 * count * (beta2**count) / (1 - beta2**count)
        return math.sqrt(_squared_rectification(length, longest)) if length > 5.0 else 0.0
    length = _length(beta2, count)
    safe = jnp.where(length > 5.0, length, 6.0)
    return jnp.where(length > 5.0, jnp.sqrt(jnp.maximum(_squared_rectification(safe, longest), 0.0)), 0.0)


def _squared_rectification(length: Any, longest: Any) -> Any:
    return (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)


def _length(beta2: Any, count: Any) -> Any:
    """``rho`` of arrays, in a form that is accurate in float32 too.

    With ``u = -log(beta2)`` and ``x = u * t`` it is ``(coth(u / 2) - 2 / u) + 2 / u * (1 - x / expm1(x))``; for
    small arguments both terms are computed from their power series.
    """
    u = -jnp.log(jnp.asarray(beta2, count.dtype))
    x = u * count
    limit = jnp.where(u < 0.5, u / 6 - u**3 / 360 + u**5 / 15120, 1 / jnp.tanh(u / 2) - 2 / u)
    series = count * (1 - x / 6 + x**3 / 360 - x**5 / 15120)
    return limit + jnp.where(x < 0.25, series, 2 / u * (1 - x / jnp.expm1(x)))


METHOD = Method(radam_rule, _flags, _slots, _scalars)


class RAdam(RuledOptimizer):
    r"""Rectified Adam: no adaptive rate in the first steps, then one with a growing rectification factor.

    .. math::
        \rho_t = \rho_\infty - \frac{2 t \beta_2^t}{1 - \beta_2^t}, \quad \rho_\infty = \frac{2}{1 - \beta_2} - 1,
        \qquad
        r_t = \sqrt{\frac{(\rho_t - 4)(\rho_t - 2)\rho_\infty}{(\rho_\infty - 4)(\rho_\infty - 2)\rho_t}}

    .. math::
        \theta \leftarrow \theta - \gamma\,\frac{m}{1 - \beta_1^t} \cdot
        \begin{cases} r_t \sqrt{1 - \beta_2^t} / (\sqrt v + \epsilon) & \rho_t > 5 \\ 1 & \text{else}\end{cases}

    with the averages :math:`m, v` of Adam.

    Args:
        params: parameters, ``(name, parameter)`` pairs, or dicts that define groups.
        lr: learning rate :math:`\gamma`, a number or a one-element tensor.
        betas: :math:`(\beta_1, \beta_2)`, decay rates of the two running averages.
        eps: :math:`\epsilon`, added to the denominator to avoid division by zero.
        weight_decay: L2 penalty added to the gradient.
        decoupled_weight_decay: multiply the parameter by ``1 - lr * weight_decay`` instead, as in AdamW.
        maximize: maximize the loss instead of minimizing it.
        foreach, capturable: accepted and stored, but ignored: a step is always one compiled program.
        differentiable: record the step in autograd, so that gradients flow through it.

    Raises:
        ValueError: if a number is out of range, or ``lr`` is a tensor of several elements.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        >>> optimizer = torch.optim.RAdam([w], lr=0.1)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8000, 1.6000])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.RAdam.html,
        Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", https://arxiv.org/abs/1908.03265
    """

    method = METHOD
    old_groups = {
        "foreach": None, "maximize": False, "differentiable": False, "decoupled_weight_decay": False,
        "capturable": False,
    }  # fmt: skip

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_at_least_zero("epsilon value", eps)
        check_betas(betas)
        check_at_least_zero("weight_decay value", weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)


def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
) -> None:
    """One step of `RAdam` on lists of tensors, in place.

    Args:
        params, exp_avgs, exp_avg_sqs, state_steps: updated in place.
        grads: the gradients.
        foreach, differentiable, capturable, has_complex: accepted and ignored.
        decoupled_weight_decay, maximize, beta1, beta2, lr, weight_decay, eps: as for `RAdam`.
    """
    group = {
        "lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        "decoupled_weight_decay": decoupled_weight_decay,
    }  # fmt: skip
    step_lists(METHOD, group, params, grads, state_steps, exp_avg=exp_avgs, exp_avg_sq=exp_avg_sqs)
