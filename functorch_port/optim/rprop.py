"""Rprop: each element has its own step size, which grows while its gradient keeps its sign.

For gradient ``g`` (negated first if ``maximize``), element by element:

    size = size * (eta_plus if g * prev > 0, eta_minus if g * prev < 0, else 1), between min and max
    g    = 0 if g * prev < 0
    p    = p - size * sign(g)
    prev = g

``lr`` is the initial ``size``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from .._tensor.tensor import Tensor
from ._ruled import Method, RuledOptimizer, check_lr, step_lists
from ._rules import addcmul, partwise, times
from .optimizer import ParamsT

__all__ = ["Rprop", "rprop"]


class Flags(NamedTuple):
    """The static settings of a group's update; its numbers are passed as data."""

    maximize: bool


class Scalars(NamedTuple):
    """The scalar factors of the rule."""

    eta_minus: Any
    eta_plus: Any
    smallest: Any
    largest: Any


def _sign_of_product(a: Any, b: Any) -> Any:
    """A number with the sign of ``a * b``; it is between -1 and 1 where PyTorch's product rounds to zero.

    XLA flushes denormal products to zero and PyTorch does not, so the factors are scaled up first.
    """
    info, wide = jnp.finfo(a.dtype), jnp.promote_types(a.dtype, jnp.float32)
    room = info.nmant - info.minexp + 1  # 2**-room is half of the smallest denormal number
    return (a.astype(wide) * 2.0 ** (room // 2)) * (b.astype(wide) * 2.0 ** (room - room // 2))


@partwise
def rprop_rule(
    param: Any, grad: Any, state: tuple[Any, ...], scalars: Any, flags: Flags
) -> tuple[Any, tuple[Any, ...]]:
    """One step of one parameter; the state is ``(prev, step_size)``."""
    eta_minus, eta_plus, smallest, largest = (jnp.asarray(x, param.dtype) for x in scalars)
    before, size = state
    if flags.maximize:
        grad = -grad
    product = _sign_of_product(grad, before)
    factor = jnp.where(product > 1, eta_plus, jnp.where(product < -1, eta_minus, jnp.ones_like(eta_minus)))
    size = jnp.clip(times(size, factor), smallest, largest)
    grad = jnp.where(product < -1, jnp.zeros_like(grad), grad)
    sign = (grad > 0).astype(grad.dtype) - (grad < 0).astype(grad.dtype)  # of a NaN, as in PyTorch, 0
    return addcmul(param, -1, sign, size), (grad, size)


def _flags(group: dict[str, Any]) -> Flags:
    return Flags(group["maximize"])


def _slots(flags: Flags) -> tuple[str | None, ...]:
    return "prev", "step_size"


def _scalars(hyper: dict[str, Any], count: Any) -> Scalars:
    return Scalars(*hyper["etas"], *hyper["step_sizes"])


METHOD = Method(rprop_rule, _flags, _slots, _scalars, start=lambda hyper: {"step_size": hyper["lr"]})


class Rprop(RuledOptimizer):
    r"""Resilient backpropagation: uses only the signs of the gradient.

    The step size :math:`\eta` of an element is multiplied by :math:`\eta_+` if its gradient keeps its sign, and by
    :math:`\eta_-` if the sign changes. If the sign changes, the element is not updated and its gradient counts as
    zero. Otherwise

    .. math::
        \theta \leftarrow \theta - \eta\,\mathrm{sign}(g)

    Args:
        params: parameters, ``(name, parameter)`` pairs, or dicts that define groups.
        lr: the initial step size, a number or a one-element tensor.
        etas: :math:`(\eta_-, \eta_+)`.
        step_sizes: the smallest and the largest step size.
        maximize: maximize the loss instead of minimizing it.
        foreach, capturable: accepted and stored, but ignored: a step is always one compiled program.
        differentiable: record the step in autograd, so that gradients flow through it.

    Raises:
        ValueError: if ``lr`` is negative or a tensor of several elements, or not :math:`0 < \eta_- < 1 < \eta_+`.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        >>> optimizer = torch.optim.Rprop([w], lr=0.1)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 1.9000])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.Rprop.html,
        Riedmiller and Braun, "A Direct Adaptive Method for Faster Backpropagation Learning: The RPROP Algorithm",
        https://doi.org/10.1109/ICNN.1993.298623
    """

    method = METHOD

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)


def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    step_sizes: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """One step of `Rprop` on lists of tensors, in place.

    Args:
        params, prevs, step_sizes, state_steps: updated in place.
        grads: the gradients.
        foreach, capturable, differentiable, has_complex: accepted and ignored.
        maximize: maximize the loss instead of minimizing it.
        step_size_min, step_size_max, etaminus, etaplus: the ``step_sizes`` and ``etas`` of `Rprop`.
    """
    group = {
        "etas": (etaminus, etaplus), "step_sizes": (step_size_min, step_size_max), "maximize": maximize,
    }  # fmt: skip
    step_lists(METHOD, group, params, grads, state_steps, prev=prevs, step_size=step_sizes)
