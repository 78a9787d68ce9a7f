"""NAdam: Adam with Nesterov momentum.

For gradient ``g`` (negated first if ``maximize``) in step ``t``, with weight decay ``w``, momentum decay ``d``:

    g     = g + w * p                     (decoupled: p = (1 - lr * w) * p)
    mu(t) = beta1 * (1 - 0.5 * 0.96**(t * d))
    M     = M * mu(t)
    m     = m + (1 - beta1) * (g - m)
    v     = beta2 * v + (1 - beta2) * g * g
    size  = sqrt(v / (1 - beta2**t)) + eps
    p     = p - lr * (1 - mu(t)) / (1 - M) * g / size
    p     = p - lr * mu(t + 1) / (1 - M * mu(t + 1)) * m / size

``M`` is the state entry ``mu_product``, in PyTorch's dtype for it (float32 by default).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .._tensor.tensor import Tensor
from ._ruled import (
    Method,
    RuledOptimizer,
    check_at_least_zero,
    check_betas,
    check_lr,
    step_lists,
)
from ._rules import (
    addcdiv,
    averaged,
    decayed,
    divided,
    nonzero,
    partwise,
    plus,
    root,
)
from ._scalars import correction, wide
from .optimizer import ParamsT

__all__ = ["NAdam", "nadam"]


class Flags(NamedTuple):
    """The static settings of a group's update; its numbers are passed as data."""

    weight_decay: bool
    decoupled: bool
    maximize: bool


class Scalars(NamedTuple):
    """The scalar factors of the rule in one step."""

    minus_grad_step: Any
    minus_mean_step: Any
    one_minus_beta1: Any
    beta2: Any
    one_minus_beta2: Any
    correction2: Any
    eps: Any
    decay: Any  # w, or 1 - lr * w if decoupled


@partwise
def nadam_rule(
    param: Any, grad: Any, state: tuple[Any, ...], scalars: Any, flags: Flags
) -> tuple[Any, tuple[Any, ...]]:
    """One step of one parameter; the state is ``(exp_avg, exp_avg_sq)``."""
    s = Scalars(*scalars)
    mean, square = state
    param, grad = decayed(param, grad, s.decay, flags)
    mean, square = averaged(mean, square, grad, s)
    size = plus(root(divided(square, s.correction2)), s.eps)
    param = addcdiv(param, s.minus_grad_step, grad, size)
    return addcdiv(param, s.minus_mean_step, mean, size), (mean, square)


def _flags(group: dict[str, Any]) -> Flags:
    return Flags(nonzero(group["weight_decay"]), group["decoupled_weight_decay"], group["maximize"])


def _slots(flags: Flags) -> tuple[str | None, ...]:
    return "exp_avg", "exp_avg_sq"


def _momentum(hyper: dict[str, Any], count: Any) -> Any:
    return hyper["betas"][0] * (1.0 - 0.5 * (0.96 ** (count * hyper["momentum_decay"])))


def _advance(hyper: dict[str, Any], count: Any, product: Any) -> tuple[Any, ...]:
    """``M`` after the step, rounded to the dtype of the state entry, like PyTorch's product of tensors."""
    if isinstance(product, Tensor):
        return (product * _momentum(hyper, count),)
    xp = np if isinstance(count, float) else jnp
    kind = np.float32 if product.dtype.itemsize < 4 else product.dtype
    return ((product.astype(kind) * xp.asarray(_momentum(hyper, count), kind)).astype(product.dtype),)


def _scalars(hyper: dict[str, Any], count: Any, product: Any) -> Scalars:
    lr, weight_decay, (beta1, beta2) = hyper["lr"], hyper["weight_decay"], hyper["betas"]
    mu, following = _momentum(hyper, count), _momentum(hyper, count + 1)
    product = wide(_advance(hyper, count, product)[0], count)
    return Scalars(
        minus_grad_step=-lr * (1.0 - mu) / (1.0 - product),
        minus_mean_step=(-lr * following) / (1.0 - product * following),
        one_minus_beta1=1 - beta1,
        beta2=beta2,
        one_minus_beta2=1 - beta2,
        correction2=correction(beta2, count),
        eps=hyper["eps"],
        decay=1 - lr * weight_decay if hyper["decoupled_weight_decay"] else weight_decay,
    )


METHOD = Method(
    nadam_rule, _flags, _slots, _scalars,
    numbers=("step", "mu_product"), advance=_advance, start=lambda hyper: {"mu_product": 1.0},
)  # fmt: skip


class NAdam(RuledOptimizer):
    r"""NAdam: Adam with Nesterov momentum.

    .. math::
        \mu_t = \beta_1 \big(1 - \tfrac12\, 0.96^{t\psi}\big), \qquad
        \hat m = \frac{\mu_{t+1} m}{1 - \prod_{i=1}^{t+1} \mu_i} + \frac{(1 - \mu_t) g}{1 - \prod_{i=1}^t \mu_i},
        \qquad
        \theta \leftarrow \theta - \gamma\,\frac{\hat m}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}

    with the averages :math:`m, v` of Adam.

    Args:
        params: parameters, ``(name, parameter)`` pairs, or dicts that define groups.
        lr: learning rate :math:`\gamma`, a number or a one-element tensor.
        betas: :math:`(\beta_1, \beta_2)`, decay rates of the two running averages.
        eps: :math:`\epsilon`, added to the denominator to avoid division by zero.
        weight_decay: L2 penalty added to the gradient.
        momentum_decay: :math:`\psi`, the rate at which the momentum approaches :math:`\beta_1`.
        decoupled_weight_decay: multiply the parameter by ``1 - lr * weight_decay`` instead, as in AdamW.
        maximize: maximize the loss instead of minimizing it.
        foreach, capturable: accepted and stored, but ignored: a step is always one compiled program.
        differentiable: record the step in autograd, so that gradients flow through it.

    Raises:
        ValueError: if a number is out of range, or ``lr`` is a tensor of several elements.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        >>> optimizer = torch.optim.NAdam([w], lr=0.1)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8944, 1.8944])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.NAdam.html,
        Dozat, "Incorporating Nesterov Momentum into Adam", https://openreview.net/forum?id=OM0jvwB8jIp57ZJjtNEZ
    """

    method = METHOD
    old_groups = {
        "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
        "decoupled_weight_decay": False,
    }  # fmt: skip

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        check_at_least_zero("momentum_decay value", momentum_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)


def nadam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """One step of `NAdam` on lists of tensors, in place.

    Args:
        params, exp_avgs, exp_avg_sqs, mu_products, state_steps: updated in place.
        grads: the gradients.
        foreach, capturable, differentiable, has_complex: accepted and ignored.
        decoupled_weight_decay, maximize, beta1, beta2, lr, weight_decay, momentum_decay, eps: as for `NAdam`.
    """
    group = {
        "lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
    }  # fmt: skip
    step_lists(
        METHOD, group, params, grads, state_steps,
        exp_avg=exp_avgs, exp_avg_sq=exp_avg_sqs, mu_product=mu_products,
    )  # fmt: skip
