"""Muon: the pure rule, the class, PyTorch's functional twin.

For gradient ``g`` of a matrix, with momentum ``mu`` and weight decay ``w``:

    buf = buf + (1 - mu) * (g - buf)
    d   = g + mu * (buf - g)              (without nesterov: buf)
    p   = (1 - lr * w) * p
    p   = p - lr * ratio * newton_schulz(d)

The Newton-Schulz iteration, in bfloat16, brings the singular values near 1; ``ratio`` depends on the matrix shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from .._tensor import grad_mode
from .._tensor.tensor import Tensor
from ._engine import Batch, update
from ._ruled import Method, check_should_be
from ._rules import axpy, lerp, scaled
from .optimizer import Optimizer, ParamsT, take_premade, to_scalar, whole_step, zero_state

__all__ = ["Muon", "muon", "orthogonal"]

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Flags(NamedTuple):
    """The static settings of a group's update; its numbers are passed as data."""

    nesterov: bool
    ns_steps: int
    adjust_lr_fn: str | None


class Scalars(NamedTuple):
    """The scalar factors of the rule."""

    minus_lr: Any
    momentum: Any
    one_minus_momentum: Any
    decay: Any  # 1 - lr * weight_decay
    eps: Any
    a: Any
    b: Any
    c: Any


def muon_rule(
    param: Any, grad: Any, state: tuple[Any, ...], scalars: Any, flags: Flags
) -> tuple[Any, tuple[Any, ...]]:
    """One step of one matrix; the state is the momentum buffer."""
    s = Scalars(*scalars)
    if grad.ndim != 2:
        raise ValueError("Param gradient must be a 2D matrix")
    buf = lerp(state[0], grad, s.one_minus_momentum)
    direction = lerp(grad, buf, s.momentum) if flags.nesterov else buf
    direction = orthogonal(direction, (s.a, s.b, s.c), flags.ns_steps, s.eps)
    step_size = s.minus_lr * ratio(flags.adjust_lr_fn, param.shape)
    return axpy(scaled(param, s.decay), step_size, direction.astype(param.dtype)), (buf,)


def orthogonal(matrix: Any, coefficients: Sequence[Any], steps: int, eps: Any) -> Any:
    """Orthogonalize a matrix approximately, by ``steps`` Newton-Schulz iterations in bfloat16.

    Each step applies the polynomial ``a x + b x**3 + c x**5`` to the singular values. Matrix products accumulate in
    float32; product and addend are rounded together, once to float32 and once to bfloat16.
    """
    a, b, c = (jnp.asarray(x, jnp.float32) for x in coefficients)
    x = _rounded(matrix)
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    wide = x.astype(jnp.float32)
    norm = _rounded(jnp.sqrt(jnp.sum(wide * wide))).astype(jnp.float32)
    x = _rounded(wide / jnp.maximum(norm, jnp.asarray(eps, jnp.float32)))
    for _ in range(steps):
        gram = _rounded(_product(x, x.T))
        gram = _rounded(_fused(b, gram, c * _product(gram, gram)))
        x = _rounded(_fused(a, x, _product(gram, x)))
    return x.T if tall else x


def _product(x: Any, y: Any) -> Any:
    return jnp.matmul(x, y, preferred_element_type=jnp.float32)


def _fused(a: Any, x: Any, y: Any) -> Any:
    """``a * x + y`` with one rounding, like a fused multiply-add; ``a`` and ``y`` float32, ``x`` bfloat16.

    PyTorch's matrix product on CPUs ends this way; a second rounding would change the last bit of some results.
    """
    x = x.astype(jnp.float32)
    upper = lax.reduce_precision(a, 8, 15)  # its product with 8 bits is exact, and so is the rest's
    first, rest = upper * x, (a - upper) * x
    total = y + first
    part = total - y
    return total + ((y - (total - part)) + (first - part) + rest)


def _rounded(x: Any) -> Any:
    """Round to bfloat16. The compiler could remove a plain cast to bfloat16 and back."""
    return lax.reduce_precision(x.astype(jnp.float32), 8, 7).astype(jnp.bfloat16)


def ratio(adjust_lr_fn: str | None, shape: Sequence[int]) -> float:
    """The factor of the learning rate for a matrix of the given shape."""
    rows, columns = shape
    if adjust_lr_fn is None or adjust_lr_fn == "original":
        return math.sqrt(max(1, rows / columns))
    return 0.2 * math.sqrt(max(rows, columns)) if adjust_lr_fn == "match_rms_adamw" else 1.0


def _flags(group: dict[str, Any]) -> Flags:
    steps = int(group["ns_steps"])
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(group["ns_coefficients"]) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    return Flags(bool(group["nesterov"]), steps, group["adjust_lr_fn"])


def _scalars(hyper: dict[str, Any], count: Any = None) -> Scalars:
    lr, momentum = to_scalar(hyper["lr"]), hyper["momentum"]
    decay = 1 - lr * hyper["weight_decay"]
    return Scalars(-lr, momentum, 1 - momentum, decay, hyper["eps"], *hyper["ns_coefficients"])


#: for `functional`: the class keeps no step count
METHOD = Method(muon_rule, _flags, lambda flags: ("momentum_buffer",), _scalars)


class Muon(Optimizer):
    r"""Muon: momentum with orthogonalized updates, for the weight matrices of hidden layers.

    .. math::
        B \leftarrow \mu B + (1 - \mu) G, \qquad
        D = \mu B + (1 - \mu) G, \qquad
        \theta \leftarrow (1 - \gamma\lambda)\,\theta - \gamma\, r\, \mathrm{NS}(D)

    :math:`\mathrm{NS}` is a Newton-Schulz iteration in bfloat16 that brings the singular values near 1. Use another
    optimizer, such as `AdamW`, for biases, embeddings and other parameters.

    Args:
        params: two-dimensional real parameters, ``(name, parameter)`` pairs, or dicts that define groups.
        lr: learning rate :math:`\gamma`, a number or a one-element tensor (default: 1e-3).
        weight_decay: decoupled weight decay :math:`\lambda` (default: 0.1).
        momentum: :math:`\mu` (default: 0.95).
        nesterov: use :math:`D` rather than :math:`B` (default: True).
        ns_coefficients: coefficients of the polynomial :math:`a x + b x^3 + c x^5` (default: (3.4445, -4.775, 2.0315)).
        eps: lower bound of the norm by which the direction is divided (default: 1e-7).
        ns_steps: number of Newton-Schulz steps, below 100 (default: 5).
        adjust_lr_fn: ``"original"`` (also None, the default) for :math:`r = \sqrt{\max(1, n/m)}` with ``n`` rows
            and ``m`` columns, or ``"match_rms_adamw"`` for :math:`0.2 \sqrt{\max(n, m)}`, which allows the learning
            rates of AdamW.

    Raises:
        ValueError: if a number is out of range, ``lr`` is a tensor of several elements, ``adjust_lr_fn`` is unknown, or
            a parameter is not a matrix.
        RuntimeError: in `step`, for complex parameters or sparse gradients.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.Parameter(torch.eye(2))
        >>> optimizer = torch.optim.Muon([w], lr=0.1)
        >>> (w * torch.tensor([[3.0, 0.0], [0.0, 1.0]])).sum().backward()
        >>> optimizer.step()
        >>> w.shape, bool((w.diagonal() < 1).all())
        (torch.Size([2, 2]), True)

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.Muon.html;
        https://kellerjordan.github.io/posts/muon/; https://arxiv.org/abs/2502.16982
    """

    method = METHOD

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = COEFFICIENTS,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        check_should_be("Learning rate", lr)
        check_should_be("momentum", momentum)
        check_should_be("weight decay", weight_decay)
        if adjust_lr_fn is not None and adjust_lr_fn not in ("original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}"
                    )

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The initial state."""
        return {"momentum_buffer": zero_state(param)}

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; return the loss of the closure, if there is one."""
        with grad_mode.no_grad():
            loss = None
            if closure is not None:
                with grad_mode.enable_grad():
                    loss = closure()
            whole_step(self, self._take)
        return loss

    def _take(self) -> None:
        batch = Batch()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            bufs = [self._buffer(p, group) for p in params]
            _collect(batch, group, params, [p.grad for p in params], bufs)
        update(muon_rule, batch)

    def _buffer(self, param: Tensor, group: dict[str, Any]) -> Tensor:
        if param.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        if param.grad._sparse:  # type: ignore[union-attr]
            raise RuntimeError("Muon does not support sparse gradients")
        state = take_premade(self, param)
        if "momentum_buffer" not in state:
            state.update(self._init_state(param, group))
        return state["momentum_buffer"]


def _collect(batch: Batch, group: dict[str, Any], params: Any, grads: Any, bufs: Any) -> None:
    if params:
        flags = _flags(group)
        batch.add_group(_scalars(group), flags)
    for p, grad, buf in zip(params, grads, bufs, strict=True):
        batch.add(p, grad, (buf,))


def muon(
    params: list[Tensor],
    grads: list[Tensor],
    muon_momentum_bufs: list[Tensor],
    *,
    foreach: bool | None = None,
    lr: float | Tensor,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    ns_steps: int,
    eps: float,
    adjust_lr_fn: str | None,
    has_complex: bool,
) -> None:
    """One step of `Muon` on lists of tensors, in place.

    Args:
        params, muon_momentum_bufs: updated in place.
        grads: the gradients.
        foreach: must not be True.
        lr, weight_decay, momentum, nesterov, ns_coefficients, ns_steps, eps, adjust_lr_fn: as for `Muon`.
        has_complex: must be False.
    """
    if foreach:
        raise RuntimeError("Foreach is not supported for Muon yet")
    if has_complex:
        raise ValueError("Complex parameters are not supported")
    group = {
        "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov, "eps": eps,
        "ns_coefficients": ns_coefficients, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
    }  # fmt: skip
    batch = Batch()
    _collect(batch, group, params, grads, muon_momentum_bufs)
    update(muon_rule, batch)
