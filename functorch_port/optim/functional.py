"""The same update rules for functional JAX code: each function here gives an `optax.GradientTransformation`.

Parameters are any pytree of arrays. ``update`` returns the change to add, as optax has it, so
``optax.apply_updates`` and ``optax.chain`` work; the numbers are those of the classes in
`functorch_port.optim`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .rules import scaled
from .sgd import Flags, Scalars, sgd_direction

__all__ = ["SGDState", "sgd"]


class SGDState(NamedTuple):
    """State of `sgd`.

    Attributes:
        count: steps taken.
        momentum_buffer: like the parameters, or None without momentum.
    """

    count: jax.Array  # type: ignore[assignment]
    momentum_buffer: Any


def sgd(
    lr: float | jax.Array | Callable[[jax.Array], Any] = 1e-3,
    momentum: float = 0,
    dampening: float = 0,
    weight_decay: float = 0,
    nesterov: bool = False,
    *,
    maximize: bool = False,
) -> Any:
    """`functorch_port.optim.SGD` as an optax transformation.

    Args:
        lr: step size, or a function of the step count that gives it.
        momentum, dampening, weight_decay, nesterov, maximize: as for the class.

    Returns:
        ``optax.GradientTransformation(init, update)``; ``update`` needs ``params`` if there is weight decay.

    Raises:
        ValueError: if ``nesterov`` comes without momentum or with dampening.

    Example:
        >>> import jax.numpy as jnp
        >>> import optax
        >>> from functorch_port.optim import functional
        >>> optimizer = functional.sgd(0.1, momentum=0.9)
        >>> params = {"w": jnp.array([1.0, 2.0])}
        >>> state = optimizer.init(params)
        >>> updates, state = optimizer.update({"w": jnp.array([2.0, 4.0])}, state, params)
        >>> print(optax.apply_updates(params, updates)["w"])
        [0.8 1.6]

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html
    """
    import optax

    if nesterov and (momentum <= 0 or dampening != 0):
        raise ValueError("Nesterov momentum requires a momentum and zero dampening")
    flags = Flags(bool(momentum), bool(weight_decay), nesterov, maximize)

    def init(params: Any) -> SGDState:
        return SGDState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params) if momentum else None)

    def update(grads: Any, state: SGDState, params: Any = None) -> tuple[Any, SGDState]:
        if params is None:
            if weight_decay:
                raise ValueError("sgd with weight_decay needs params: update(grads, state, params)")
            params = grads
        step_size = lr(state.count) if callable(lr) else lr
        # From zeros the first buffer is the gradient, if dampening starts in the second step.
        dampened = 1 - dampening if not dampening else jnp.where(state.count == 0, 1.0, 1 - dampening)
        scalars = Scalars(-step_size, momentum, dampened, weight_decay)
        leaves, tree = jax.tree.flatten(grads)
        bufs = tree.flatten_up_to(state.momentum_buffer) if momentum else [None] * len(leaves)
        pairs = [
            sgd_direction(p, g, b, scalars, flags)
            for p, g, b in zip(tree.flatten_up_to(params), leaves, bufs, strict=True)
        ]
        updates = tree.unflatten([scaled(direction, -step_size) for direction, _ in pairs])
        buffers = tree.unflatten([buf for _, buf in pairs]) if momentum else None
        return updates, SGDState(state.count + 1, buffers)

    return optax.GradientTransformation(init, update)
