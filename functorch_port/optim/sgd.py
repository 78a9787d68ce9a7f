"""Stochastic gradient descent: the pure rule, the class, PyTorch's functional form.

For gradient ``g`` (negated first if ``maximize``), weight decay ``w``, momentum ``m``, dampening ``d``, the rule is

    g   = g + w * p
    buf = m * buf + (1 - d) * g            (the first time: buf = g)
    p   = p - lr * buf                     (nesterov: p - lr * (g + m * buf))

It is written once, in `sgd_direction` and `sgd_rule`; everything else passes arrays to it and back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from .._run.sparse.operations import ADD_DENSE
from .._tensor import grad_mode
from .._tensor.tensor import Tensor
from .engine import Batch, update
from .optimizer import (
    Optimizer,
    ParamsT,
    check_fused,
    settled_step,
    switch_grad,
    take_premade,
    to_scalar,
    zero_state,
)
from .ruled import check_fused_options, check_no_scaling
from .rules import axpy, nonzero, scaled
from .sparse_rules import sgd_step
from .steady import Kind, settle, step_again

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


def sgd_direction(param: Any, grad: Any, buf: Any, scalars: Any, flags: Flags) -> tuple[Any, Any]:
    """The direction, which ``lr`` multiplies, and the new momentum buffer. ``buf`` is None in the first step."""
    _, momentum, one_minus_dampening, weight_decay = scalars
    if flags.maximize:
        grad = -grad
    if flags.weight_decay:
        grad = axpy(grad, weight_decay, param)
    if not flags.momentum:
        return grad, buf
    if buf is None:
        # An array of its own, since the next step reuses its memory; detached, as in PyTorch.
        buf = lax.stop_gradient(jnp.copy(grad))
    else:
        buf = axpy(scaled(buf, momentum), one_minus_dampening, grad)
    return (axpy(grad, momentum, buf) if flags.nesterov else buf), buf


def sgd_rule(
    param: Any, grad: Any, state: tuple[Any, ...], scalars: Any, flags: Flags
) -> tuple[Any, tuple[Any, ...]]:
    """One step of one parameter; the state is the momentum buffer."""
    direction, buf = sgd_direction(param, grad, state[0], scalars, flags)
    return axpy(param, scalars[0], direction), (buf,)


def _settings(
    lr: Any, momentum: Any, dampening: Any, weight_decay: Any, nesterov: bool, maximize: bool
) -> tuple[Scalars, Flags]:
    scalars = Scalars(-to_scalar(lr), momentum, 1 - dampening, weight_decay)
    return scalars, Flags(nonzero(momentum), nonzero(weight_decay), bool(nesterov), bool(maximize))


def _settings_of(group: dict[str, Any]) -> tuple[Scalars, Flags]:
    return _settings(*map(group.__getitem__, _SETTINGS))


_SETTINGS = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize")


def _factors(group: dict[str, Any], state: dict[str, Any], numbers: list[Any]) -> tuple[Scalars, tuple[()]]:
    return _settings_of(group)[0], ()


class SGD(Optimizer):
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        old = {"nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": False}
        for group in self.param_groups:
            for name, value in old.items():
                group.setdefault(name, value)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any] | None:
        """The state for which the general rule gives the first step: ``m * 0 + g`` is ``g``, without dampening."""
        if not group["momentum"]:
            return {}
        if group["dampening"]:
            return None
        return {"momentum_buffer": zero_state(param)}

    def _kind_of(self, group: dict[str, Any]) -> Kind:
        flags = _settings_of(group)[1]
        return Kind(flags, ("momentum_buffer" if flags.momentum else None,))

    @switch_grad
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; return the loss of the closure, if there is one."""
        loss = None
        if closure is not None:
            with grad_mode.enable_grad():
                loss = closure()
        if step_again(self, self._kind_of, _factors):
            return loss
        settled_step(self, self._found, self._settles, self._take)
        return loss

    def _found(self) -> tuple[list[Any], list[Any]]:
        """For each group, the dense gradients with their parameters and state; and all sparse gradients."""
        found, sparse = [], []
        for group in self.param_groups:
            scalars, flags = _settings_of(group)
            entries: list[Any] = []
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                if group["fused"]:
                    check_fused(p)
                state = take_premade(self, p) if flags.momentum else {}
                if grad.is_sparse:
                    _refuse_fused(group["fused"])
                    sparse.append((p, grad, state, scalars, flags))
                else:
                    entries.append((p, grad, state))
            found.append((group, entries))
        return found, sparse

    def _settles(self, all_found: tuple[list[Any], list[Any]]) -> bool:
        found, sparse = all_found
        if sparse or not settle(self, sgd_rule, [(g, self._kind_of(g), entries) for g, entries in found]):
            return False
        return step_again(self, self._kind_of, _factors)

    def _take(self, all_found: tuple[list[Any], list[Any]]) -> None:
        found, sparse = all_found
        batch, states = Batch(), []
        for group, entries in found:
            batch.add_group(*_settings_of(group))
            for p, grad, state in entries:
                batch.add(p, grad, (state.get("momentum_buffer"),))
                states.append(state)
        _refuse_sparse(batch)
        for state, (buf,) in zip(states, update(sgd_rule, batch, elementwise=True), strict=True):
            if buf is not None:
                state["momentum_buffer"] = buf
        for p, grad, state, scalars, flags in sparse:
            buf = sgd_step(p, grad, state.get("momentum_buffer"), scalars, flags)
            if buf is not None:
                state["momentum_buffer"] = buf


def _refuse_fused(fused: bool | None) -> None:
    if fused:
        raise RuntimeError("`_fused_sgd` does not support sparse gradients")


def _refuse_sparse(batch: Batch) -> None:
    """Raise if a dense gradient meets a momentum buffer from a sparse gradient."""
    if any(buf is not None and buf.is_sparse for (buf,) in batch.states):
        raise RuntimeError(ADD_DENSE)


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
    batch, places = Batch(), []
    scalars, flags = _settings(lr, momentum, dampening, weight_decay, nesterov, maximize)
    batch.add_group(scalars, flags)
    for i, (p, grad) in enumerate(zip(params, d_p_list, strict=True)):
        buf = momentum_buffer_list[i] if flags.momentum else None
        if grad.is_sparse:
            _refuse_fused(fused)
            momentum_buffer_list[i] = sgd_step(p, grad, buf, scalars, flags)  # type: ignore[arg-type]
        else:
            places.append(i)
            batch.add(p, grad, (buf,))
    _refuse_sparse(batch)
    for i, (buf,) in zip(places, update(sgd_rule, batch, elementwise=True), strict=True):
        if buf is not None:
            momentum_buffer_list[i] = buf
