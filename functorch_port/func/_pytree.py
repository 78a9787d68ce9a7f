"""A module for JAX code: a pure function, and its parameters and buffers as plain dicts of arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._array import tracing
from .._random import keyed
from .._tensor import grad_mode, tree
from .._tensor.tensor import Tensor, wrap
from ._functional_call import swapped
from ._level import Level

__all__ = ["Pure", "load_pytree", "pure"]

Tree = dict[str, Any]


class Pure(NamedTuple):
    """The result of `pure`.

    Attributes:
        apply: ``apply(params, buffers, *args, rng=None, **kwargs) -> (output, buffers)``.
        params: name -> `jax.Array`; a shared parameter only under its first name.
        buffers: name -> `jax.Array`, including non-persistent buffers.
    """

    apply: Callable[..., tuple[Any, Tree]]
    params: Tree
    buffers: Tree


def pure(module: Any) -> Pure:
    """Turn a module into a pure function of JAX arrays, for `jax.jit`, `jax.grad`, `jax.vmap`, optax and orbax.

    The function takes and returns arrays: it converts array arguments to Tensors and Tensors in the output to arrays.
    The module itself is not changed; its mode (train or eval) is read when JAX traces the call.

    Args:
        module: an `nn.Module`.

    Returns:
        The function and the initial arrays, a `Pure`. The function takes the parameters, the buffers, the arguments
        of the module, and as ``rng`` a JAX key for random numbers (dropout). It returns the output and the new
        buffers. `load_pytree` writes arrays back to the module.

    Raises:
        RuntimeError: in the call, if the module draws random numbers and ``rng`` is None.

    Example:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import functorch_port as torch
        >>> net = torch.nn.Linear(3, 1)
        >>> apply, params, buffers = torch.func.pure(net)
        >>> def loss(params, x, y):
        ...     out, _ = apply(params, buffers, x)
        ...     return jnp.mean((out - y) ** 2)
        >>> grads = jax.jit(jax.grad(loss))(params, jnp.ones((4, 3)), jnp.zeros((4, 1)))
        >>> grads["weight"].shape
        (1, 3)
    """

    def apply(
        params: Mapping[str, Any], buffers: Mapping[str, Any], *args: Any, rng: Any = None, **kwargs: Any
    ) -> tuple[Any, Tree]:
        with tracing.overlaid(_PureLevel(rng)), grad_mode.enable_grad():
            given = {name: wrap(value) for name, value in (*params.items(), *buffers.items())}
            args, kwargs = tree.map(_as_tensor, (args, kwargs))
            with swapped(module, given, True, False):
                out = module(*args, **kwargs)
            out = tree.map(_as_array, out)
            return out, {name: given[name]._value for name in buffers}

    params = {name: p._value for name, p in module.named_parameters()}
    return Pure(apply, params, {name: b._value for name, b in module.named_buffers()})


def load_pytree(module: Any, params: Mapping[str, Any], buffers: Mapping[str, Any] | None = None) -> None:
    """Write arrays, with the names of `pure`, to a module's parameters and buffers.

    Args:
        module: the module.
        params: name -> array; a subset of the parameters is allowed.
        buffers: the same for buffers.

    Raises:
        KeyError: if the module has no parameter or buffer of a name.
        ValueError: if an array has the wrong shape.

    Example:
        >>> import functorch_port as torch
        >>> net = torch.nn.Linear(2, 1)
        >>> _, params, _ = torch.func.pure(net)
        >>> torch.func.load_pytree(net, {name: p * 0 + 1 for name, p in params.items()})
        >>> net.bias.tolist()
        [1.0]
    """
    for given, named in ((params, module.named_parameters()), (buffers or {}, module.named_buffers())):
        tensors = dict(named)
        for name, value in given.items():
            if name not in tensors:
                raise KeyError(f"{type(module).__name__} has no '{name}'; it has {list(tensors)}")
            tensor = tensors[name]
            if tuple(value.shape) != tuple(tensor.shape):
                raise ValueError(f"'{name}' has shape {tuple(tensor.shape)}, got {tuple(value.shape)}")
            with tracing.x64():
                tensor._set_value(jnp.asarray(value, tensor.dtype.np))


class _PureLevel(Level):
    """The level of a `Pure` call: operations are plain JAX, random numbers come from one key."""

    def __init__(self, key: Any) -> None:
        super().__init__()
        self.key = key

    def host_draw(self, draw: Any) -> Any:
        if self.key is None:
            raise RuntimeError(
                "this module draws random numbers (dropout, for example): pass a JAX key to apply(), such as "
                "rng=jax.random.key(0), or put the module in evaluation mode"
            )
        self.key, key = jax.random.split(self.key)
        with tracing.x64():
            return keyed.draw(draw.kind, key, draw.shape, draw.dtype, **draw.params)


def _as_tensor(value: Any) -> Any:
    is_array = isinstance(value, (jax.Array, np.ndarray)) and not jax.dtypes.issubdtype(
        value.dtype, jax.dtypes.prng_key
    )
    return wrap(jnp.asarray(value)) if is_array else value


def _as_array(value: Any) -> Any:
    return value._value if isinstance(value, Tensor) else value
