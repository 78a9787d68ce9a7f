"""SparseAdam: Adam that updates only the rows in a sparse gradient. The rule is `sparse_rules.adam_rows`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._tensor import grad_mode
from .._tensor.tensor import Tensor
from ._ruled import check_betas
from ._sparse_rules import adam_rows, update_rows
from .optimizer import Optimizer, ParamsT, take_premade, to_scalar, whole_step, zero_state

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    r"""Adam for sparse gradients, such as those of ``Embedding(sparse=True)``.

    A step updates only the rows in the gradient, as `Adam` does. In other rows nothing changes: the averages do not
    decay either.

    Args:
        params: dense real parameters, ``(name, parameter)`` pairs, or dicts that define groups.
        lr: learning rate, a number or a one-element tensor (default: 1e-3).
        betas: decay rates of the two running averages (default: (0.9, 0.999)).
        eps: added to the denominator to avoid division by zero (default: 1e-8).
        maximize: maximize the loss instead of minimizing it (default: False).

    Raises:
        ValueError: if a number is out of range, ``lr`` is a tensor of several elements, or a parameter is sparse or
            complex.
        RuntimeError: in `step`, for dense gradients.

    Example:
        >>> import functorch_port as torch
        >>> table = torch.nn.Embedding(4, 2, sparse=True)
        >>> _ = torch.nn.init.ones_(table.weight)
        >>> optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
        >>> table(torch.tensor([2])).sum().backward()
        >>> optimizer.step()
        >>> table.weight[:, 0].detach()
        tensor([1.0000, 1.0000, 0.9000, 1.0000])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.SparseAdam.html
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 < lr:  # noqa: SIM300
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 < eps:  # noqa: SIM300
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        places = [(p, [i, j]) for i, g in enumerate(self.param_groups) for j, p in enumerate(g["params"])]
        sparse = [place for p, place in places if p._sparse]
        if sparse:
            raise ValueError(
                f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors"
            )
        complex_ = [place for p, place in places if p.is_complex()]
        if complex_:
            raise ValueError(
                f"Complex params at indices {complex_}: SparseAdam does not support complex parameters"
            )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the rows in the gradients once; return the loss of the closure, if there is one."""
        with grad_mode.no_grad():
            loss = None
            if closure is not None:
                with grad_mode.enable_grad():
                    loss = closure()
            whole_step(self, self._take)
        return loss

    def _take(self) -> None:
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            states = [self._next_state(p) for p in params]
            beta1, beta2 = group["betas"]
            sparse_adam(
                params,
                [p.grad for p in params],
                [s["exp_avg"] for s in states],
                [s["exp_avg_sq"] for s in states],
                [s["step"] for s in states],
                eps=group["eps"],
                beta1=beta1,
                beta2=beta2,
                lr=group["lr"],
                maximize=group.get("maximize", False),
            )

    def _next_state(self, param: Tensor) -> dict[str, Any]:
        if not param.grad._sparse:  # type: ignore[union-attr]
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        state = take_premade(self, param)
        if not state:
            state.update(self._init_state(param, {}))
        state["step"] += 1
        return state

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The initial state."""
        return {"step": 0, "exp_avg": zero_state(param), "exp_avg_sq": zero_state(param)}


def sparse_adam(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    state_steps: Sequence[int],
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    maximize: bool,
) -> None:
    """One step of `SparseAdam` on lists of tensors, in place.

    Args:
        params, exp_avgs, exp_avg_sqs: updated in place.
        grads: sparse gradients.
        state_steps: the step count of each parameter, from 1.
        eps, beta1, beta2, lr, maximize: as for `SparseAdam`.
    """
    for p, grad, mean, square, count in zip(params, grads, exp_avgs, exp_avg_sqs, state_steps, strict=True):
        step_size = to_scalar(lr) * (1 - beta2**count) ** 0.5 / (1 - beta1**count)
        scalars = (-step_size, 1 - beta1, 1 - beta2, eps)
        update_rows(adam_rows, p, grad, (mean, square), scalars, bool(maximize))
