"""ASGD: stochastic gradient descent with a running average of the parameters.

For gradient ``g`` (negated first if ``maximize``) in step ``t``, with weight decay ``w``:

    g   = g + w * p
    p   = (1 - lambd * eta) * p - eta * g
    ax  = ax + mu * (p - ax)                    (mu = 1: ax = p)
    eta = lr / (1 + lambd * lr * t)**alpha
    mu  = 1 / max(1, t - t0)

``eta`` and ``mu`` are state entries; they take effect one step later.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from .._tensor.tensor import Tensor
from ._ruled import Method, RuledOptimizer, check_at_least_zero, check_lr, step_lists
from ._rules import axpy, minus, nonzero, partwise, penalized, scaled
from ._scalars import default_rounded, wide
from .optimizer import ParamsT

__all__ = ["ASGD", "asgd"]


class Flags(NamedTuple):
    """The static settings of a group's update; its numbers are passed as data."""

    weight_decay: bool
    maximize: bool


class Scalars(NamedTuple):
    """The scalar factors of the rule in one step."""

    minus_eta: Any
    shrinkage: Any
    mu: Any
    weight_decay: Any


@partwise
def asgd_rule(
    param: Any, grad: Any, state: tuple[Any, ...], scalars: Any, flags: Flags
) -> tuple[Any, tuple[Any, ...]]:
    """One step of one parameter; the state is ``(ax,)``."""
    s = Scalars(*scalars)
    grad = penalized(grad, param, s.weight_decay, flags)
    param = axpy(scaled(param, s.shrinkage), s.minus_eta, grad)
    average = axpy(state[0], 1, scaled(minus(param, state[0]), s.mu))
    return param, (jnp.where(s.mu == 1, param, average),)


def _flags(group: dict[str, Any]) -> Flags:
    return Flags(nonzero(group["weight_decay"]), group["maximize"])


def _slots(flags: Flags) -> tuple[str | None, ...]:
    return ("ax",)


def _scalars(hyper: dict[str, Any], count: Any, eta: Any, mu: Any) -> Scalars:
    eta = wide(eta, count)
    return Scalars(-eta, 1 - hyper["lambd"] * eta, wide(mu, count), hyper["weight_decay"])


def _advance(hyper: dict[str, Any], count: Any, eta: Any, mu: Any) -> tuple[Any, ...]:
    lr, lambd = hyper["lr"], hyper["lambd"]
    steps = count - hyper["t0"]
    if hyper.get("foreach"):  # PyTorch then computes with 0-dim tensors
        new_eta = 1 / ((1 + lambd * lr * default_rounded(count)) ** hyper["alpha"]) * lr
    else:
        new_eta = lr / ((1 + lambd * lr * count) ** hyper["alpha"])
    new_mu = 1 / (max(1, steps) if isinstance(steps, float) else jnp.maximum(1, steps))
    return default_rounded(new_eta), default_rounded(new_mu)


METHOD = Method(
    asgd_rule, _flags, _slots, _scalars,
    numbers=("step", "eta", "mu"), advance=_advance, start=lambda hyper: {"eta": hyper["lr"], "mu": 1.0},
)  # fmt: skip


class ASGD(RuledOptimizer):
    r"""Averaged stochastic gradient descent; the state entry ``ax`` is the average of the parameters.

    .. math::
        \theta \leftarrow (1 - \lambda\eta_t)\theta - \eta_t g, \qquad
        \bar\theta \leftarrow \bar\theta + \mu_t (\theta - \bar\theta), \qquad
        \eta_{t+1} = \frac{\gamma}{(1 + \lambda\gamma t)^\alpha}, \quad \mu_{t+1} = \frac{1}{\max(1, t - t_0)}

    A new ``lr`` takes effect one step later.

    Args:
        params: parameters, ``(name, parameter)`` pairs, or dicts that define groups.
        lr: learning rate :math:`\gamma`, a number or a one-element tensor.
        lambd: decay :math:`\lambda` of the parameter.
        alpha: exponent :math:`\alpha` of the learning rate's decay.
        t0: the step after which averaging starts.
        weight_decay: L2 penalty added to the gradient.
        maximize: maximize the loss instead of minimizing it.
        foreach, capturable: accepted and stored, but ignored: a step is always one compiled program.
        differentiable: record the step in autograd, so that gradients flow through it.

    Raises:
        ValueError: if ``lr`` or ``weight_decay`` is negative, or ``lr`` is a tensor of several elements.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        >>> optimizer = torch.optim.ASGD([w], lr=0.1)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8000, 1.6000])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.ASGD.html,
        Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging",
        https://doi.org/10.1137/0330046
    """

    method = METHOD

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_at_least_zero("weight_decay value", weight_decay)
        defaults = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)


def asgd(
    params: list[Tensor],
    grads: list[Tensor],
    axs: list[Tensor],
    mus: list[Tensor],
    etas: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float | Tensor,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """One step of `ASGD` on lists of tensors, in place.

    Args:
        params, axs, mus, etas, state_steps: updated in place.
        grads: the gradients.
        foreach, differentiable, capturable, has_complex: accepted and ignored.
        maximize, lambd, lr, t0, alpha, weight_decay: as for `ASGD`.
    """
    group = {
        "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "maximize": maximize,
    }  # fmt: skip
    step_lists(METHOD, group, params, grads, state_steps, ax=axs, mu=mus, eta=etas)
