"""Stochastic gradient descent: the pure rule, the class, PyTorch's functional form.

For gradient ``g`` (negated first if ``maximize``), weight decay ``w``, momentum ``m``, dampening ``d``, the rule is

    g   = g + w * p
    buf = m * buf + (1 - d) * g            (the first time: buf = g)
    p   = p - lr * buf                     (nesterov: p - lr * (g + m * buf))
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from .._tensor.tensor import Tensor
from ._ruled import Method, RuledOptimizer, check_fused_options, check_no_scaling, step_lists
from ._rules import axpy, nonzero, penalized, scaled
from ._sparse_rules import sgd_step
from .optimizer import ParamsT

__all__ = ["SGD", "sgd"]


class Flags(NamedTuple):
    """The static settings of a group's update; its numbers are passed as data."""

    momentum: bool
    weight_decay: bool
    nesterov: bool
    maximize: bool


class Scalars(NamedTuple):
    """The factors of the rule, computed on the host in float64."""

    minus_lr: Any
    momentum: Any
    one_minus_dampening: Any
    weight_decay: Any


def sgd_rule(
    param: Any, grad: Any, state: tuple[Any, ...], scalars: Any, flags: Flags
) -> tuple[Any, tuple[Any, ...]]:
    """One step of one parameter; the state is ``(momentum_buffer or None,)``, in the first step None."""
    s = Scalars(*scalars)
    (buf,) = state
    direction = grad = penalized(grad, param, s.weight_decay, flags)
    if flags.momentum:
        if buf is None:
            # An array of its own, since the next step reuses its memory; detached, as in PyTorch.
            buf = lax.stop_gradient(jnp.copy(grad))
        else:
            buf = axpy(scaled(buf, s.momentum), s.one_minus_dampening, grad)
        direction = axpy(grad, s.momentum, buf) if flags.nesterov else buf
    return axpy(param, s.minus_lr, direction), (buf,)


def _flags(group: dict[str, Any]) -> Flags:
    return Flags(
        nonzero(group["momentum"]),
        nonzero(group["weight_decay"]),
        bool(group["nesterov"]),
        bool(group["maximize"]),
    )


def _slots(flags: Flags) -> tuple[str | None, ...]:
    return ("momentum_buffer" if flags.momentum else None,)


def _scalars(hyper: dict[str, Any], count: Any) -> Scalars:
    dampening = hyper["dampening"]
    if count is not None and nonzero(dampening):  # in `functional`, where the first buffer is made from zeros
        dampening = jnp.where(count == 1, 0.0, dampening)
    return Scalars(-hyper["lr"], hyper["momentum"], 1 - dampening, hyper["weight_decay"])


METHOD = Method(sgd_rule, _flags, _slots, _scalars, numbers=(), lazy=True, sparse=sgd_step)


class SGD(RuledOptimizer):
    r"""Stochastic gradient descent, optionally with momentum.

    .. math::
        g \leftarrow g + \lambda\theta, \qquad
        b \leftarrow \mu b + (1 - \tau) g, \qquad
        \theta \leftarrow \theta - \gamma b

    The initial momentum buffer is the gradient itself, without dampening. With ``nesterov`` the direction is
    :math:`g + \mu b`; with ``maximize`` the gradient is negated first.

    Args:
        params: parameters, ``(name, parameter)`` pairs, or dicts that define groups.
        lr: learning rate :math:`\gamma`, a number or a one-element tensor.
        momentum: :math:`\mu`.
        dampening: :math:`\tau`.
        weight_decay: L2 penalty :math:`\lambda`.
        nesterov: use Nesterov momentum; requires momentum and zero dampening.
        maximize: maximize the loss instead of minimizing it.
        foreach, fused: accepted and stored, but ignored: a step is always one compiled program.
        differentiable: record the step in autograd, so that gradients flow through it.

    Raises:
        ValueError: if a number is negative, ``lr`` is a tensor of several elements, or for ``nesterov`` without
            momentum or with dampening.
        RuntimeError: if ``fused`` is combined with ``foreach`` or ``differentiable``.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        >>> optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8000, 1.6000])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html
    """

    method = METHOD
    old_groups = {
        "nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": False,
    }  # fmt: skip

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach, "differentiable": differentiable,
            "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused_options(fused, foreach, differentiable)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any] | None:  # type: ignore[override]
        """The state of zeros from which a step gives the first step's numbers: ``m * 0 + g``, without dampening."""
        return None if group["momentum"] and group["dampening"] else super()._init_state(param, group)

    def _check_grad(self, grad: Tensor, group: dict[str, Any]) -> None:
        if grad._sparse and group["fused"]:
            raise RuntimeError(_FUSED_SPARSE)


_FUSED_SPARSE = "`_fused_sgd` does not support sparse gradients"


def sgd(
    params: list[Tensor],
    d_p_list: list[Tensor],
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """One step of `SGD` on lists of tensors, in place.

    Args:
        params: updated in place.
        d_p_list: their gradients.
        momentum_buffer_list: updated in place; with momentum, an entry that is None becomes the new buffer.
        has_sparse_grad, foreach, fused: accepted and ignored (but ``fused`` does not support sparse gradients).
        grad_scale, found_inf: must be None.
        weight_decay, momentum, lr, dampening, nesterov, maximize: as for `SGD`.
    """
    check_no_scaling(grad_scale, found_inf)
    if fused and any(grad._sparse for grad in d_p_list):
        raise RuntimeError(_FUSED_SPARSE)
    group = {
        "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
        "maximize": maximize,
    }  # fmt: skip
    step_lists(METHOD, group, params, d_p_list, momentum_buffer=momentum_buffer_list)
