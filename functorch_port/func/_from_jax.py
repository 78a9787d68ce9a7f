"""`from_jax`: a function of JAX arrays as an operation on Tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._base import lowering
from .._base.bounded import Bounded
from .._base.tuning import tuning
from .._run.run import run
from .._tensor.plan import Plan
from .._tensor.tensor import Tensor, wrap
from .._tensor.tree import LEAF, Structure, flatten, flatten_call, unflatten

__all__ = ["as_input", "from_jax", "is_array", "is_key", "narrowed"]


def from_jax(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a function of JAX arrays into a function of Tensors that autograd records as one operation.

    It works eagerly, in `compile` and `functionalize`, and has derivatives of all orders, by `jax.vjp`. Use it for what
    libraries of JAX give: a layer of Equinox or Haiku, an ODE solver, the density of a distribution. Like `jax.jit` it
    traces the function once for each signature, so the function must be pure. The setting ``jax_enable_x64`` is that of
    when it was wrapped: without it 64-bit integers are 32-bit ones within. With a float64 argument it is on.
    It is also on while a backward rule of the function's own (`jax.custom_vjp`) runs.

    Args:
        fn: the function. Its arguments are pytrees. Tensors and arrays among their leaves are arrays within, JAX's keys
            are keys; all other leaves are static, and must be hashable.

    Returns:
        The function. It returns ``fn``'s output with Tensors in place of arrays and numbers.

    Raises:
        TypeError: in the call, if a static argument is not hashable.

    Example:
        >>> import jax.numpy as jnp
        >>> import functorch_port as torch
        >>> soft = torch.func.from_jax(lambda tree, beta: jnp.logaddexp(beta * tree["x"], 0.0) / beta)
        >>> x = torch.tensor([-1.0, 0.0, 1.0], requires_grad=True)
        >>> soft({"x": x}, 2.0).sum().backward()
        >>> x.grad
        tensor([0.1192, 0.5000, 0.8808])

    Reference: https://docs.jax.dev/en/latest/_autosummary/jax.vjp.html
    """
    calls: Bounded[Any, _Call] = Bounded(tuning.cached_plans)
    name = getattr(fn, "__name__", type(fn).__name__).strip("<>")
    wide = jax.config.jax_enable_x64  # in a trace it is on

    @functools.wraps(fn, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = flatten_call(args, kwargs)
        given = [as_input(leaf) if is_array(leaf) or is_key(leaf) else None for leaf in leaves]
        dynamic = [t for t in given if t is not None]
        kinds = tuple((t._value.shape, t._value.dtype) for t in dynamic)
        x64 = wide or any(kind in (np.float64, np.complex128) for _, kind in kinds)
        static = tuple(
            jax.random.key_impl(leaf) if is_key(leaf) else None if t is not None else leaf
            for leaf, t in zip(leaves, given, strict=True)
        )
        roles = tuple(
            0 if t is None else 2 if is_key(leaf) else 1 for leaf, t in zip(leaves, given, strict=True)
        )
        key = (tree, static, tuple(map(type, static)), roles, kinds, x64)
        try:
            found = calls.get(key)
        except TypeError:
            raise TypeError(
                f"{name}: arguments that are no tensors or arrays must be hashable, but got {static}"
            ) from None
        if found is None:
            found = calls[key] = _Call(fn, name, tree, static, roles, x64)
        outs = run(found.plan, dynamic)
        return unflatten(found.tree, list(outs))

    return call


class _Call:
    """The operation for one signature of calls.

    Attributes:
        plan: the operation, on the arrays among the leaves.
        tree: the structure of the output; known once it has run.
    """

    def __init__(
        self, fn: Callable[..., Any], name: str, tree: Structure, static: Any, roles: Sequence[int], x64: bool
    ) -> None:
        self.tree = LEAF

        def pure(*arrays: Any) -> tuple[Any, ...]:
            values = iter(narrowed(arrays, x64))
            with jax.enable_x64(x64), lowering.for_xla():
                leaves = [_leaf(role, value, values) for role, value in zip(roles, static, strict=True)]
                args, kwargs = unflatten(tree, leaves)
                outs, self.tree = flatten(fn(*args, **kwargs))
                return tuple(map(jnp.asarray, outs))

        self.plan = Plan(pure, name, f"{name}Backward0")


def _leaf(role: int, static: Any, values: Any) -> Any:
    if role == 0:
        return static
    return next(values) if role == 1 else jax.random.wrap_key_data(next(values), impl=static)


def is_key(leaf: Any) -> bool:
    """Whether this is a key of `jax.random.key`."""
    return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def is_array(leaf: Any) -> bool:
    """Whether this is a Tensor or an array of numbers."""
    return isinstance(leaf, Tensor) or (isinstance(leaf, jax.Array | np.ndarray) and not is_key(leaf))


def as_input(leaf: Any) -> Tensor:
    """A Tensor, array or key as a Tensor."""
    if isinstance(leaf, Tensor):
        return leaf
    return wrap(jax.random.key_data(leaf) if is_key(leaf) else jnp.asarray(leaf))


def narrowed(arrays: Sequence[Any], x64: bool) -> list[Any]:
    """The arrays in the dtypes that `jax.jit` gives them under this setting of ``jax_enable_x64``."""
    with jax.enable_x64(x64):
        return [a.astype(jax.dtypes.canonicalize_dtype(a.dtype)) for a in arrays]
