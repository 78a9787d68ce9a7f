"""``torch._functorch.eager_transforms``: the transforms, and how they choose arguments."""

from __future__ import annotations

from typing import Any

from functorch_port.func import functionalize as functionalize
from functorch_port.func import grad as grad
from functorch_port.func import grad_and_value as grad_and_value
from functorch_port.func import hessian as hessian
from functorch_port.func import jacfwd as jacfwd
from functorch_port.func import jacrev as jacrev
from functorch_port.func import jvp as jvp
from functorch_port.func import linearize as linearize
from functorch_port.func import vjp as vjp
from functorch_port.func._transforms import places

__all__ = [
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "vjp",
]


def _slice_argnums(args: tuple[Any, ...], argnums: int | tuple[int, ...], as_tuple: bool = True) -> Any:
    """The arguments that a transform differentiates.

    Args:
        as_tuple: whether a single one is in a tuple, too.
    """
    chosen = tuple([args[i] for i in places(argnums, len(args))])
    return chosen if as_tuple or not isinstance(argnums, int) else chosen[0]
