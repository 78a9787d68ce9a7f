"""Adagrad: gradients divided by the root of the sum of all past squared gradients.

For gradient ``g`` (negated first if ``maximize``) in step ``t``, with weight decay ``w``:

    g   = g + w * p
    sum = sum + g * g
    p   = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(sum) + eps)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .._tensor.tensor import Tensor
from ._ruled import (
    Method,
    RuledOptimizer,
    check_at_least_zero,
    check_fused_options,
    check_lr,
    check_no_scaling,
    step_lists,
)
from ._rules import addcdiv, addcmul, nonzero, partwise, penalized, plus, root
from ._sparse_rules import adagrad_rows, by_rows
from .optimizer import ParamsT

__all__ = ["Adagrad", "adagrad"]


class Flags(NamedTuple):
    """The static settings of a group's update; its numbers are passed as data."""

    weight_decay: bool
    maximize: bool


class Scalars(NamedTuple):
    """The scalar factors of the rule in one step."""

    minus_step_size: Any
    eps: Any
    weight_decay: Any


@partwise
def adagrad_rule(
    param: Any, grad: Any, state: tuple[Any, ...], scalars: Any, flags: Flags
) -> tuple[Any, tuple[Any, ...]]:
    """One step of one parameter; the state is ``(sum,)``."""
    s = Scalars(*scalars)
    grad = penalized(grad, param, s.weight_decay, flags)
    total = addcmul(state[0], 1, grad, grad)
    return addcdiv(param, s.minus_step_size, grad, plus(root(total), s.eps)), (total,)


def _flags(group: dict[str, Any]) -> Flags:
    return Flags(nonzero(group["weight_decay"]), group["maximize"])


def _slots(flags: Flags) -> tuple[str | None, ...]:
    return ("sum",)


def _scalars(hyper: dict[str, Any], count: Any) -> Scalars:
    return Scalars(
        minus_step_size=-(hyper["lr"] / (1 + (count - 1) * hyper["lr_decay"])),
        eps=hyper["eps"],
        weight_decay=hyper["weight_decay"],
    )


METHOD = Method(
    adagrad_rule, _flags, _slots, _scalars, start=lambda hyper: {"sum": hyper["initial_accumulator_value"]},
    sparse=by_rows(adagrad_rows),
)  # fmt: skip


class Adagrad(RuledOptimizer):
    r"""Adagrad: gradients divided by the root of the sum of all past squared gradients.

    .. math::
        s \leftarrow s + g^2, \qquad
        \theta \leftarrow \theta - \frac{\gamma}{1 + (t - 1)\eta}\,\frac{g}{\sqrt s + \epsilon}

    The state is created in the constructor, not in the first step.

    Args:
        params: parameters, ``(name, parameter)`` pairs, or dicts that define groups.
        lr: learning rate :math:`\gamma`, a number or a one-element tensor.
        lr_decay: decay :math:`\eta` of the learning rate.
        weight_decay: L2 penalty added to the gradient.
        initial_accumulator_value: initial value of :math:`s`.
        eps: :math:`\epsilon`, added to the denominator to avoid division by zero.
        maximize: maximize the loss instead of minimizing it.
        foreach, fused: accepted and stored, but ignored: a step is always one compiled program.
        differentiable: record the step in autograd, so that gradients flow through it.

    Raises:
        ValueError: if a number is out of range, or ``lr`` is a tensor of several elements.
        RuntimeError: if ``fused`` is combined with ``foreach`` or ``differentiable``.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        >>> optimizer = torch.optim.Adagrad([w], lr=0.1)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 1.9000])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.Adagrad.html,
        Duchi, Hazan and Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization",
        http://jmlr.org/papers/v12/duchi11a.html
    """

    method = METHOD
    old_groups = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check_at_least_zero("lr_decay value", lr_decay)
        check_at_least_zero("weight_decay value", weight_decay)
        check_at_least_zero("initial_accumulator_value value", initial_accumulator_value)
        check_at_least_zero("epsilon value", eps)
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused_options(fused, foreach, differentiable)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p].update(self._init_state(p, group))

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        # PyTorch takes the start of the sums from the constructor, whatever the group says.
        start = self.defaults["initial_accumulator_value"]
        return super()._init_state(param, {**group, "initial_accumulator_value": start})

    def _check_grad(self, grad: Tensor, group: dict[str, Any]) -> None:
        if grad._sparse and group["fused"]:
            raise RuntimeError("`fused` does not support sparse grad or complex param")

    def share_memory(self) -> None:
        """Call ``share_memory_()`` on the sums."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()


def adagrad(
    params: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Tensor],
    state_steps: list[Tensor],
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of `Adagrad` on lists of tensors, in place.

    Args:
        params, state_sums, state_steps: updated in place.
        grads: the gradients.
        fused, has_sparse_grad, foreach, differentiable, has_complex: accepted and ignored.
        grad_scale, found_inf: must be None.
        lr, weight_decay, lr_decay, eps, maximize: as for `Adagrad`.
    """
    check_no_scaling(grad_scale, found_inf)
    group = {"lr": lr, "weight_decay": weight_decay, "lr_decay": lr_decay, "eps": eps, "maximize": maximize}
    step_lists(METHOD, group, params, grads, state_steps, sum=state_sums)
