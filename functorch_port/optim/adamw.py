"""AdamW: Adam with decoupled weight decay. The rule is `adam.adam_rule`."""

from __future__ import annotations

from typing import Any

from .._tensor.tensor import Tensor
from .adam import Adam, adam
from .optimizer import ParamsT

__all__ = ["AdamW", "adamw"]


class AdamW(Adam):
    r"""AdamW: Adam with decoupled weight decay, which does not enter the running averages.

    .. math::
        \theta \leftarrow (1 - \gamma\lambda)\,\theta, \quad \text{then the step of Adam.}

    Args:
        params: parameters, ``(name, parameter)`` pairs, or dicts that define groups.
        lr: learning rate :math:`\gamma`, a number or a one-element tensor.
        betas: decay rates of the two running averages.
        eps: added to the denominator to avoid division by zero.
        weight_decay: :math:`\lambda`.
        amsgrad: use the largest average of the squared gradient so far.
        maximize: maximize the loss instead of minimizing it.
        foreach, fused, capturable: accepted and stored, but ignored.
        differentiable: record the step in autograd, so that gradients flow through it.

    Raises:
        ValueError, RuntimeError: as for `Adam`.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        >>> optimizer = torch.optim.AdamW([w], lr=0.1, weight_decay=0.5)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8500, 1.8000])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


def adamw(*args: Any, **kwargs: Any) -> None:
    """One step of `AdamW` on lists of tensors, in place; the arguments are those of `adam.adam`."""
    adam(*args, **kwargs, decoupled_weight_decay=True)
