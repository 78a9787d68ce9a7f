"""Adam and, with decoupled weight decay, AdamW: the pure rule, the class, PyTorch's functional form.

For gradient ``g`` (negated first if ``maximize``) in step ``t``, with weight decay ``w``:

    g = g + w * p                     (decoupled: p = (1 - lr * w) * p)
    m = m + (1 - beta1) * (g - m)
    v = beta2 * v + (1 - beta2) * g * g
    p = p - lr / (1 - beta1**t) * m / (sqrt(v) / sqrt(1 - beta2**t) + eps)

With ``amsgrad``, the denominator uses the largest ``v`` so far. The factors that depend on ``t`` are computed in
float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from .._tensor.tensor import Tensor
from ._ruled import (
    Method,
    RuledOptimizer,
    check_at_least_zero,
    check_betas,
    check_fused_options,
    check_no_scaling,
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
from ._scalars import correction
from .optimizer import ParamsT, to_scalar

__all__ = ["Adam", "adam"]


class Flags(NamedTuple):
    """The static settings of a group's update; its numbers are passed as data."""

    weight_decay: bool
    decoupled: bool
    amsgrad: bool
    maximize: bool


class Scalars(NamedTuple):
    """The scalar factors of the rule in one step."""

    minus_step_size: Any
    one_minus_beta1: Any
    beta2: Any
    one_minus_beta2: Any
    root_of_correction2: Any
    eps: Any
    decay: Any  # w, or 1 - lr * w if decoupled


@partwise
def adam_rule(
    param: Any, grad: Any, state: tuple[Any, ...], scalars: Any, flags: Flags
) -> tuple[Any, tuple[Any, ...]]:
    """One step of one parameter; the state is ``(exp_avg, exp_avg_sq, max_exp_avg_sq or None)``."""
    s = Scalars(*scalars)
    mean, square, largest = state
    param, grad = decayed(param, grad, s.decay, flags)
    mean, square = averaged(mean, square, grad, s)
    if flags.amsgrad:
        largest = jnp.maximum(largest, square)
    size = root(largest if flags.amsgrad else square)
    denominator = plus(divided(size, s.root_of_correction2), s.eps)
    return addcdiv(param, s.minus_step_size, mean, denominator), (mean, square, largest)


def _flags(group: dict[str, Any]) -> Flags:
    return Flags(
        nonzero(group["weight_decay"]), group["decoupled_weight_decay"], group["amsgrad"], group["maximize"]
    )


def _slots(flags: Flags) -> tuple[str | None, ...]:
    return "exp_avg", "exp_avg_sq", "max_exp_avg_sq" if flags.amsgrad else None


def _scalars(hyper: dict[str, Any], count: Any) -> Scalars:
    lr, weight_decay, (beta1, beta2) = hyper["lr"], hyper["weight_decay"], hyper["betas"]
    return Scalars(
        minus_step_size=-(lr / correction(beta1, count)),
        one_minus_beta1=1 - beta1,
        beta2=beta2,
        one_minus_beta2=1 - beta2,
        root_of_correction2=correction(beta2, count) ** 0.5,
        eps=hyper["eps"],
        decay=1 - lr * weight_decay if hyper["decoupled_weight_decay"] else weight_decay,
    )


METHOD = Method(adam_rule, _flags, _slots, _scalars)


class Adam(RuledOptimizer):
    r"""Adam: steps scaled by running averages of the gradient and of its square.

    .. math::
        m \leftarrow \beta_1 m + (1 - \beta_1) g, \qquad
        v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \qquad
        \theta \leftarrow \theta - \gamma\,
        \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}

    Args:
        params: parameters, ``(name, parameter)`` pairs, or dicts that define groups.
        lr: learning rate :math:`\gamma`, a number or a one-element tensor.
        betas: :math:`(\beta_1, \beta_2)`, two numbers or two one-element tensors.
        eps: :math:`\epsilon`, added to the denominator to avoid division by zero.
        weight_decay: L2 penalty added to the gradient.
        amsgrad: use the largest :math:`v` so far.
        maximize: maximize the loss instead of minimizing it.
        foreach, fused, capturable: accepted and stored, but ignored: a step is always one compiled
            program.
        differentiable: record the step in autograd, so that gradients flow through it.
        decoupled_weight_decay: multiply the parameter by ``1 - lr * weight_decay`` instead, as in AdamW.

    Raises:
        ValueError: if a number is out of range, or a tensor has several elements.
        RuntimeError: if ``fused`` is combined with ``foreach`` or ``differentiable``.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        >>> optimizer = torch.optim.Adam([w], lr=0.1)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 1.9000])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html
    """

    method = METHOD
    old_groups = {
        "amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
        "decoupled_weight_decay": False, "fused": None,
    }  # fmt: skip

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if isinstance(lr, Tensor):
            _check_tensor("lr", lr, foreach, capturable)
        check_at_least_zero("learning rate", lr)
        check_at_least_zero("epsilon value", eps)
        check_betas(betas)
        check_at_least_zero("weight_decay value", weight_decay)
        if not any(isinstance(betas[0], kind) and isinstance(betas[1], kind) for kind in (float, Tensor)):
            raise ValueError("betas must be either both floats or both Tensors")
        for i, beta in enumerate(betas):
            if isinstance(beta, Tensor):
                _check_tensor(f"betas[{i}]", beta, foreach, capturable)
        defaults = {
            "lr": lr, "betas": tuple(map(to_scalar, betas)), "eps": eps, "weight_decay": weight_decay,
            "amsgrad": amsgrad, "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable, "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused_options(fused, foreach, differentiable)

    def _check_grad(self, grad: Tensor, group: dict[str, Any]) -> None:
        if grad._sparse:
            raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")

    def _check_state(self, state: dict[str, Any], group: dict[str, Any]) -> None:
        if group["differentiable"] and state["step"].requires_grad:
            raise RuntimeError("`requires_grad` is not supported for `step` in differentiable mode")
        if group["foreach"] and not group["capturable"] and isinstance(group["lr"], Tensor):
            raise RuntimeError("lr as a Tensor is not supported for capturable=False and foreach=True")


def _check_tensor(name: str, value: Tensor, foreach: bool | None, capturable: bool) -> None:
    if foreach and not capturable:
        raise ValueError(f"{name} as a Tensor is not supported for capturable=False and foreach=True")
    if value.numel() != 1:
        raise ValueError(f"Tensor {name} must be 1-element")


def adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of `Adam` on lists of tensors, in place.

    Args:
        params, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps: updated in place; the maxima only with
            ``amsgrad``.
        grads: the gradients.
        foreach, capturable, differentiable, fused, has_complex: accepted and ignored.
        grad_scale, found_inf: must be None.
        decoupled_weight_decay, amsgrad, beta1, beta2, lr, weight_decay, eps, maximize: as for `Adam`.
    """
    check_no_scaling(grad_scale, found_inf)
    group = {
        "lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
        "maximize": maximize, "decoupled_weight_decay": decoupled_weight_decay,
    }  # fmt: skip
    step_lists(
        METHOD, group, params, grads, state_steps,
        exp_avg=exp_avgs, exp_avg_sq=exp_avg_sqs, max_exp_avg_sq=max_exp_avg_sqs if amsgrad else [],
    )  # fmt: skip
