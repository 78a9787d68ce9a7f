"""Adafactor: the pure rule, the class, PyTorch's functional twin.

For gradient ``g`` (negated first if ``maximize``) of a matrix with ``n`` rows and ``m`` columns in step ``t``,
with ``b = t**beta2_decay``:

    p = (1 - lr * weight_decay) * p
    r = r + b * (mean over columns of g**2 - r)       (n, 1)
    c = c + b * (mean over rows of g**2 - c)          (1, m)
    v = r c / max(mean of r, eps1)
    u = g / sqrt(max(v, eps1**2))
    p = p - alpha / max(1, rms(u) / d) * u

where ``alpha = max(eps2, rms(p before the decay)) * min(lr, 1 / sqrt(t))``. A parameter of fewer than two
dimensions keeps a full ``v``, averaged the same way; for more than two, the last two are the matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from .._base.dtypes import finfo
from .._tensor.tensor import Tensor
from ._ruled import Method, RuledOptimizer, check_should_be, step_lists
from ._rules import axpy, divided, lerp, nonzero, quotient, scaled, times
from .optimizer import ParamsT

__all__ = ["Adafactor", "adafactor"]


class Flags(NamedTuple):
    """The static settings of a group's update; its numbers are passed as data."""

    weight_decay: bool
    maximize: bool


class Scalars(NamedTuple):
    """The scalar factors of the rule in one step."""

    rho: Any  # min(lr, 1 / sqrt(t))
    one_minus_beta2: Any
    decay: Any  # 1 - lr * weight_decay
    eps1: Any  # None: that of the parameter's dtype
    eps2: Any
    d: Any


def adafactor_rule(
    param: Any, grad: Any, state: tuple[Any, ...], scalars: Any, flags: Flags
) -> tuple[Any, tuple[Any, ...]]:
    """One step of one parameter; the state is ``(row_var, col_var, variance)``, with None for unused entries."""
    s = Scalars(*scalars)
    eps1 = jnp.finfo(param.dtype).eps if s.eps1 is None else s.eps1
    if flags.maximize:
        grad = -grad
    alpha = _largest(s.eps2, _norm(param) / param.size**0.5) * s.rho
    if flags.weight_decay:
        param = scaled(param, s.decay)
    row, col, full = state
    if grad.ndim > 1:
        if row is None or col is None:
            raise AssertionError("row_var and col_var should be defined when grad is multidimensional")
        row = lerp(row, _mean_square(grad, -1), s.one_minus_beta2)
        col = lerp(col, _mean_square(grad, -2), s.one_minus_beta2)
        mean = jnp.mean(row, -2, keepdims=True)
        variance = quotient(times(row, col), _clamped(mean, eps1))
    else:
        if full is None:
            raise AssertionError("variance should be defined when grad is a vector")
        full = variance = lerp(full, times(grad, grad), s.one_minus_beta2)
    root = jnp.sqrt(_clamped(variance, eps1 * eps1).astype(jnp.result_type(variance, jnp.float32)))
    update = times((1 / root).astype(grad.dtype), grad)
    clipped = _largest(1.0, _norm(update) / (update.size**0.5 * s.d))
    return axpy(param, -alpha / clipped, update), (row, col, full)


def _norm(x: Any, axis: int | None = None) -> Any:
    """The 2-norm in the dtype of ``x``; without ``axis`` over all elements, in float32 at least."""
    wide = jnp.result_type(x, jnp.float32)
    square = jnp.square(x.astype(wide))
    norm = jnp.sqrt(jnp.sum(square, axis, keepdims=axis is not None)).astype(x.dtype)
    return norm.astype(wide) if axis is None else norm


def _mean_square(grad: Any, axis: int) -> Any:
    norm = _norm(grad, axis)
    return divided(times(norm, norm), grad.shape[axis])


def _clamped(x: Any, low: Any) -> Any:
    return jnp.maximum(x, jnp.asarray(low, x.dtype))


def _largest(a: Any, b: Any) -> Any:
    return jnp.where(b > a, b, a)  # as Python's max: not nan if b is


def _flags(group: dict[str, Any]) -> Flags:
    return Flags(nonzero(group["weight_decay"]), group["maximize"])


def _slots(flags: Flags) -> tuple[str | None, ...]:
    return "row_var", "col_var", "variance"


def _shape(slot: str, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    if slot == "variance":
        return shape if len(shape) < 2 else None
    if len(shape) < 2:
        return None
    return (*shape[:-1], 1) if slot == "row_var" else (*shape[:-2], 1, shape[-1])


def _scalars(hyper: dict[str, Any], count: Any) -> Scalars:
    lr, (eps1, eps2) = hyper["lr"], hyper["eps"]
    most = 1 / count**0.5
    return Scalars(
        rho=(lr if lr <= most else most) if isinstance(count, float) else jnp.minimum(lr, most),
        one_minus_beta2=count ** hyper["beta2_decay"],
        decay=1 - lr * hyper["weight_decay"],
        eps1=eps1,
        eps2=eps2,
        d=hyper["d"],
    )


METHOD = Method(adafactor_rule, _flags, _slots, _scalars, shape=_shape)


class Adafactor(RuledOptimizer):
    r"""Adafactor: steps scaled by a running average of the squared gradient, factored into row and column means.

    .. math::
        R \leftarrow \beta_2 R + (1 - \beta_2)\, \overline{G^2}^{\,\text{columns}}, \qquad
        C \leftarrow \beta_2 C + (1 - \beta_2)\, \overline{G^2}^{\,\text{rows}}, \qquad
        U = G \Big/ \sqrt{\frac{R\,C}{\max(\overline{R}, \epsilon_1)}}, \\
        \theta \leftarrow \theta - \frac{\max(\epsilon_2, \mathrm{rms}(\theta))\,\min(\gamma, 1/\sqrt{t})}
        {\max(1, \mathrm{rms}(U) / d)}\, U

    with :math:`\beta_2 = 1 - t^{\tau}`. Parameters of fewer than two dimensions keep a full average.

    Args:
        params: real parameters, ``(name, parameter)`` pairs, or dicts that define groups.
        lr: upper bound :math:`\gamma` of the relative step, a number or a one-element tensor (default: 1e-2).
        beta2_decay: :math:`\tau`, the exponent of the decay rate (default: -0.8).
        eps: :math:`(\epsilon_1, \epsilon_2)`: :math:`\epsilon_1` avoids division by zero, :math:`\epsilon_2` is the
            least scale of a parameter (default: None, the machine epsilon of the group's first parameter, and 1e-3).
        d: root mean square above which an update is clipped (default: 1).
        weight_decay: multiply the parameter by ``1 - lr * weight_decay`` first (default: 0).
        foreach: accepted and stored, but ignored.
        maximize: maximize the loss instead of minimizing it.

    Raises:
        ValueError: if a number is out of range, or ``lr`` is a tensor of several elements.
        RuntimeError: in `step`, for complex parameters or sparse gradients.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        >>> optimizer = torch.optim.Adafactor([w], lr=0.1)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8419, 1.8419])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.Adafactor.html;
        https://arxiv.org/abs/1804.04235
    """

    method = METHOD
    old_groups = {"foreach": None}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        check_should_be("Learning rate", lr)
        check_should_be("beta2_decay", beta2_decay, "<=")
        if eps[0] is not None:
            check_should_be("epsilon1", eps[0])
        check_should_be("epsilon2", eps[1])
        check_should_be("Clipping threshold d", d, bound=1)
        check_should_be("weight_decay", weight_decay)
        defaults = {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _check_grad(self, grad: Tensor, group: dict[str, Any]) -> None:
        if grad.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        super()._check_grad(grad, group)

    def _resolved(self, group: dict[str, Any], entries: Sequence[tuple[Any, Any, Any]]) -> dict[str, Any]:
        eps1, eps2 = group["eps"]
        return {**group, "eps": (_eps1(eps1, [p for p, _, _ in entries]), eps2)}


def _eps1(eps1: float | None, params: Sequence[Tensor]) -> float | None:
    """``eps1``, by default the machine epsilon of the first parameter's dtype for all, as in PyTorch."""
    return float(finfo(params[0].dtype).eps) if eps1 is None and params else eps1


def adafactor(
    params: list[Tensor],
    grads: list[Tensor],
    row_vars: list[Tensor | None],
    col_vars: list[Tensor | None],
    variances: list[Tensor | None],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: float | Tensor,
    beta2_decay: float,
    weight_decay: float,
    eps1: float | None,
    eps2: float,
    maximize: bool,
) -> None:
    """One step of `Adafactor` on lists of tensors, in place.

    Args:
        params, row_vars, col_vars, variances, state_steps: updated in place; None where there is no such entry.
        grads: the gradients.
        foreach, has_complex: accepted and ignored.
        grad_scale, found_inf: must be None.
        d, lr, beta2_decay, weight_decay, eps1, eps2, maximize: as for `Adafactor`.
    """
    if not all(isinstance(t, Tensor) for t in state_steps):
        raise RuntimeError("`state_steps` argument must contain a list of singleton tensors")
    if grad_scale is not None or found_inf is not None:
        raise AssertionError("Grad scaling should occur outside of optimizer.step()")
    group = {
        "d": d, "lr": lr, "beta2_decay": beta2_decay, "weight_decay": weight_decay,
        "eps": (_eps1(eps1, params), eps2), "maximize": maximize,
    }  # fmt: skip
    step_lists(
        METHOD, group, params, grads, state_steps, row_var=row_vars, col_var=col_vars, variance=variances
    )
