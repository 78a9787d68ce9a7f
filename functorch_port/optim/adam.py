"""Adam and, with decoupled weight decay, AdamW: the pure rule, the class, PyTorch's functional twin.

For gradient ``g`` (negated first if ``maximize``) in step ``t``, with weight decay ``w``:

    g = g + w * p                     (decoupled: p = (1 - lr * w) * p)
    m = m + (1 - beta1) * (g - m)
    v = beta2 * v + (1 - beta2) * g * g
    p = p - lr / (1 - beta1**t) * m / (sqrt(v) / sqrt(1 - beta2**t) + eps)

With ``amsgrad``, the largest ``v`` so far stands under the root. The factors that depend on ``t`` are
computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..autograd import grad_mode
from ..core import dtypes, storage
from ..core.tensor import Tensor
from .engine import Batch, update
from .optimizer import Optimizer, ParamsT, check_fused, switch_grad, take_premade, to_scalar, zero_state
from .rules import addcdiv, addcmul, axpy, divided, lerp, nonzero, plus, scaled

__all__ = ["Adam", "adam"]


class Flags(NamedTuple):
    """What decides the structure of a group's update; its numbers are data."""

    weight_decay: bool
    decoupled: bool
    amsgrad: bool
    maximize: bool


class Scalars(NamedTuple):
    """The factors of the rule in one step."""

    minus_step_size: Any
    one_minus_beta1: Any
    beta2: Any
    one_minus_beta2: Any
    root_of_correction2: Any
    eps: Any
    decay: Any  # w, or 1 - lr * w if decoupled


def adam_rule(
    param: Any, grad: Any, state: tuple[Any, ...], scalars: Any, flags: Flags
) -> tuple[Any, tuple[Any, ...]]:
    """One step of one parameter; the state is ``(exp_avg, exp_avg_sq, max_exp_avg_sq or None)``."""
    s = Scalars(*scalars)
    if flags.maximize:
        grad = -grad
    if flags.weight_decay and flags.decoupled:
        param = scaled(param, s.decay)
    elif flags.weight_decay:
        grad = axpy(grad, s.decay, param)
    if jnp.iscomplexobj(param):  # real and imaginary parts are parameters of their own
        parts = [None if x is None else _parts(x) for x in (param, grad, *state)]
        new, new_state = _adam_real(parts[0], parts[1], tuple(parts[2:]), s, flags.amsgrad)
        return _whole(new), tuple(None if x is None else _whole(x) for x in new_state)
    return _adam_real(param, grad, state, s, flags.amsgrad)


def _adam_real(
    param: Any, grad: Any, state: tuple[Any, ...], s: Scalars, amsgrad: bool
) -> tuple[Any, tuple[Any, ...]]:
    mean, square, largest = state
    mean = lerp(mean, grad, s.one_minus_beta1)
    square = addcmul(scaled(square, s.beta2), s.one_minus_beta2, grad, grad)
    if amsgrad:
        largest = jnp.maximum(largest, square)
    root = jnp.sqrt(largest if amsgrad else square)
    denominator = plus(divided(root, s.root_of_correction2), s.eps)
    return addcdiv(param, s.minus_step_size, mean, denominator), (mean, square, largest)


def _parts(x: Any) -> Any:
    return jnp.stack([x.real, x.imag], -1)  # (...) -> (..., 2)


def _whole(x: Any) -> Any:
    return lax.complex(x[..., 0], x[..., 1])


def _scalars(
    count: Any, lr: Any, beta1: Any, beta2: Any, eps: Any, weight_decay: Any, decoupled: bool
) -> Scalars:
    """The factors in step ``count``: Python numbers as long as all of them are."""
    if storage.overlay is not None:
        lr, beta1, beta2, eps, weight_decay = map(storage.as_array, (lr, beta1, beta2, eps, weight_decay))
    lr, beta1, beta2 = to_scalar(lr), to_scalar(beta1), to_scalar(beta2)
    return Scalars(
        minus_step_size=-(lr / _correction(beta1, count)),
        one_minus_beta1=1 - beta1,
        beta2=beta2,
        one_minus_beta2=1 - beta2,
        root_of_correction2=_correction(beta2, count) ** 0.5,
        eps=eps,
        decay=1 - lr * weight_decay if decoupled else weight_decay,
    )


def _correction(beta: Any, count: Any) -> Any:
    """``1 - beta**count``; in a trace in a form that keeps its digits in float32 too."""
    return 1 - beta**count if storage.overlay is None else -jnp.expm1(count * jnp.log(beta))


def count_up(step: Tensor) -> Any:
    """Add one to a ``step`` entry and return it: in a trace a tracer, else a number.

    With a number, the factors are computed on the host. The tensor remembers the number it was last set to, so that
    nothing is read back from the device.
    """
    array = step._value
    if storage.overlay is not None:
        step._set_value(array + 1)
        return (array + 1).astype(jnp.float64 if storage.X64 else jnp.float32)
    known, count = step.__dict__.get("_counted", (None, 0.0))
    count = (count if known is array else float(array)) + 1
    new = _step_array(count, array.dtype)
    step._set_value(new)
    step.__dict__["_counted"] = (new, count)
    return count


@lru_cache(maxsize=64)
def _step_array(count: float, dtype: Any) -> jax.Array:
    with storage.x64():
        return jnp.asarray(np.asarray(count, dtype))


def step_tensor(count: float = 0.0, fused: bool | None = False) -> Tensor:
    """A new ``step`` entry: a 0-dim tensor."""
    double = not fused and dtypes.get_default_dtype() is dtypes.float64
    return Tensor._wrap(_step_array(count, np.dtype(np.float64 if double else np.float32)))


class Adam(Optimizer):
    r"""Adam: steps scaled by running averages of the gradient and of its square.

    .. math::
        m \leftarrow \beta_1 m + (1 - \beta_1) g, \qquad
        v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \qquad
        \theta \leftarrow \theta - \gamma\,
        \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}

    Args:
        params: parameters, ``(name, parameter)`` pairs, or dicts that define groups.
        lr: step size :math:`\gamma`, a number or a one-element tensor.
        betas: :math:`(\beta_1, \beta_2)`, two numbers or two one-element tensors.
        eps: :math:`\epsilon`, keeps the quotient finite.
        weight_decay: L2 penalty added to the gradient.
        amsgrad: use the largest :math:`v` so far.
        maximize: go uphill.
        foreach, fused, capturable: accepted and kept. They make no difference: a step is one compiled
            program.
        differentiable: record the step, so that gradients can flow through it.
        decoupled_weight_decay: shrink the parameter by ``1 - lr * weight_decay`` instead: AdamW.

    Raises:
        ValueError: for numbers out of range, or tensors of several elements.
        RuntimeError: for ``fused`` together with ``foreach`` or ``differentiable``.

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
        if not 0.0 <= lr:  # noqa: SIM300  (as here, a string gives PyTorch's TypeError)
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 <= eps:  # noqa: SIM300
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i in (0, 1):
            if not 0.0 <= betas[i] < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {betas[i]}")
        if not 0.0 <= weight_decay:  # noqa: SIM300
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
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
        if fused and differentiable:
            raise RuntimeError("`fused` does not support `differentiable`")
        if fused and foreach:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        old = {
            "amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
            "decoupled_weight_decay": False, "fused": None,
        }  # fmt: skip
        for group in self.param_groups:
            for name, value in old.items():
                group.setdefault(name, value)
            for p in group["params"]:
                mine = self.state.get(p)
                if mine and not isinstance(mine["step"], Tensor):
                    mine["step"] = step_tensor(float(mine["step"]), group["fused"])

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state before the first step."""
        state = {
            "step": step_tensor(fused=group["fused"]),
            "exp_avg": zero_state(param),
            "exp_avg_sq": zero_state(param),
        }
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zero_state(param)
        return state

    @switch_grad
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; returns the closure's loss, if there is a closure."""
        loss = None
        if closure is not None:
            with grad_mode.enable_grad():
                loss = closure()
        batch = Batch()
        for group in self.param_groups:
            entries = []
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = take_premade(self, p)
                if not state:
                    if group["fused"]:
                        check_fused(p)
                    state.update(self._init_state(p, group))
                self._check_state(state, group)
                entries.append((p, p.grad, state))
            _collect(batch, group, entries)
        update(adam_rule, batch)
        return loss

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


def _collect(batch: Batch, group: dict[str, Any], entries: Sequence[tuple[Any, Any, Any]]) -> None:
    """Add a group's parameters to the batch, with one row of factors for those in the same step."""
    flags = Flags(
        nonzero(group["weight_decay"]), group["decoupled_weight_decay"], group["amsgrad"], group["maximize"]
    )
    numbers = (group["lr"], *group["betas"], group["eps"], group["weight_decay"], flags.decoupled)
    last = None
    for p, grad, state in entries:
        count = count_up(state["step"])
        if storage.overlay is not None or count != last:
            batch.add_group(_scalars(count, *numbers), flags)
            last = count
        largest = state["max_exp_avg_sq"] if flags.amsgrad else None
        batch.add(p, grad, (state["exp_avg"], state["exp_avg_sq"], largest))


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
        params, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps: written to; the maxima only with
            ``amsgrad``.
        grads: the gradients.
        foreach, capturable, differentiable, fused, has_complex: accepted; they make no difference here.
        grad_scale, found_inf: must be None.
        decoupled_weight_decay, amsgrad, beta1, beta2, lr, weight_decay, eps, maximize: as for `Adam`.
    """
    if not all(isinstance(t, Tensor) for t in state_steps):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    if grad_scale is not None or found_inf is not None:
        raise AssertionError("Expected grad_scale and found_inf to be None")
    group = {
        "lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
        "maximize": maximize, "decoupled_weight_decay": decoupled_weight_decay,
    }  # fmt: skip
    entries = []
    for i, (p, grad) in enumerate(zip(params, grads, strict=True)):
        state = {"step": state_steps[i], "exp_avg": exp_avgs[i], "exp_avg_sq": exp_avg_sqs[i]}
        if amsgrad:
            state["max_exp_avg_sq"] = max_exp_avg_sqs[i]
        entries.append((p, grad, state))
    batch = Batch()
    _collect(batch, group, entries)
    update(adam_rule, batch)
