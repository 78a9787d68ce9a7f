"""`as_nnx`, `as_linen`: an `nn.Module` as a flax module, through `func.pure`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax.numpy as jnp

from ..func import load_pytree, pure
from ..nn._conversion import modes_kept
from ..nn._module import Module
from ._load import linen, nnx

__all__ = ["as_linen", "as_nnx"]


@contextmanager
def _mode(module: Module, training: bool) -> Iterator[None]:
    """Sets the module's mode; if it is set already, submodules keep theirs (a frozen layer, for example)."""
    with modes_kept(module):
        if module.training != training:
            module.train(training)
        yield


def _checked(module: Any, name: str) -> Module:
    if not isinstance(module, Module):
        raise TypeError(f"{name} needs an nn.Module, but got {type(module).__name__}")
    return module


@cache
def _nnx_class() -> Any:
    nnx_ = nnx()

    class NnxModule(nnx_.Module):  # type: ignore[name-defined]
        """An `nn.Module` as an `nnx.Module`; made by `as_nnx`.

        Attributes:
            params: the parameters by name, as `nnx.Param`.
            buffers: the buffers by name, as `nnx.BatchStat`.
            rngs: the streams of random keys, or None.
            deterministic: whether it is in evaluation mode; set by ``train()`` and ``eval()``.
        """

        def __init__(self, module: Module, rngs: Any) -> None:
            self.module = module
            _, params, buffers = pure(module)
            self.params = nnx_.Dict({name: nnx_.Param(jnp.array(p)) for name, p in params.items()})
            self.buffers = nnx_.Dict({name: nnx_.BatchStat(jnp.array(b)) for name, b in buffers.items()})
            self.rngs = rngs
            self.deterministic = not module.training

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            params = {name: p.get_value() for name, p in self.params.items()}
            before = {name: b.get_value() for name, b in self.buffers.items()}
            rng = None if self.rngs is None or self.deterministic else self.rngs.dropout()
            with _mode(self.module, not self.deterministic):
                out, after = pure(self.module).apply(params, before, *args, rng=rng, **kwargs)
            for name, value in after.items():
                if value is not before[name]:
                    self.buffers[name].set_value(value)
            return out

        def unwrap(self) -> Module:
            """The wrapped module, with the current values written into it."""
            params = {name: p.get_value() for name, p in self.params.items()}
            load_pytree(self.module, params, {name: b.get_value() for name, b in self.buffers.items()})
            return self.module

    return NnxModule


def as_nnx(module: Module, rngs: Any = None) -> Any:
    """Wrap an `nn.Module` as a flax `nnx.Module`, for `nnx.Optimizer`, `nnx.jit`, `nnx.grad` and other NNX code.

    Values are copied; ``unwrap()`` writes the current ones back. flax ignores ``requires_grad``: exclude frozen
    parameters by a filter.

    Args:
        module: the module.
        rngs: an `nnx.Rngs`, if the module draws random numbers; it uses the stream ``dropout`` (or the default one).

    Returns:
        The NNX module, which is called with arrays. Its ``params`` and ``buffers`` have the names of the state dict;
        buffers are `nnx.BatchStat`s.

    Raises:
        TypeError: ``module`` is not an `nn.Module`.
        ModuleNotFoundError: flax is not installed.

    Example:
        >>> import jax.numpy as jnp
        >>> import optax
        >>> from flax import nnx
        >>> import functorch_port as torch
        >>> model = torch.flax.as_nnx(torch.nn.Linear(2, 1))
        >>> optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
        >>> @nnx.jit
        ... def step(model, optimizer, x):
        ...     loss, grads = nnx.value_and_grad(lambda m: jnp.mean(m(x) ** 2))(model)
        ...     optimizer.update(model, grads)
        ...     return loss
        >>> x = jnp.ones((4, 2))
        >>> bool(step(model, optimizer, x) > step(model, optimizer, x))
        True

    Reference: https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/module.html
    """
    return _nnx_class()(_checked(module, "as_nnx"), rngs)


@cache
def _linen_class() -> Any:
    linen_ = linen()

    class LinenModule(linen_.Module):  # type: ignore[name-defined]
        """An `nn.Module` as a Linen module; made by `as_linen`.

        Attributes:
            module: the wrapped module.
        """

        module: Any

        @linen_.compact
        def __call__(self, *args: Any, train: bool | None = None, **kwargs: Any) -> Any:
            _, params, buffers = pure(self.module)
            given = {name: self.param(name, lambda _, p=p: jnp.array(p)) for name, p in params.items()}
            stats = {
                name: self.variable("batch_stats", name, lambda b=b: jnp.array(b))
                for name, b in buffers.items()
            }
            before = {name: variable.value for name, variable in stats.items()}
            rng = self.make_rng("dropout") if self.has_rng("dropout") else None
            if self.is_initializing():
                train = False
            with _mode(self.module, self.module.training if train is None else train):
                out, after = pure(self.module).apply(given, before, *args, rng=rng, **kwargs)
            if self.is_mutable_collection("batch_stats") and not self.is_initializing():
                for name, value in after.items():
                    stats[name].value = value
            return out

        def unwrap(self, variables: Any) -> Module:
            """The wrapped module, with ``variables`` written into it."""
            load_pytree(self.module, variables.get("params", {}), variables.get("batch_stats", {}))
            return self.module

    return LinenModule


def as_linen(module: Module) -> Any:
    """Wrap an `nn.Module` as a flax `linen.Module`, for ``init`` and ``apply``, `TrainState` and other Linen code.

    ``init`` returns the module's current values under ``"params"`` and ``"batch_stats"`` (the buffers), with the names
    of the state dict. ``apply(..., train=True)`` sets the mode (default: the module's own);
    ``mutable=["batch_stats"]`` also returns the buffers after the call; the random stream is ``"dropout"``.
    ``unwrap(variables)`` writes variables into the module.

    Args:
        module: the module.

    Raises:
        TypeError: ``module`` is not an `nn.Module`.
        ModuleNotFoundError: flax is not installed.

    Example:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import functorch_port as torch
        >>> model = torch.flax.as_linen(torch.nn.Linear(2, 1))
        >>> variables = model.init(jax.random.key(0), jnp.ones((4, 2)))
        >>> model.apply(variables, jnp.ones((4, 2))).shape
        (4, 1)

    Reference: https://flax-linen.readthedocs.io/en/latest/api_reference/flax.linen/module.html
    """
    return _linen_class()(_checked(module, "as_linen"))
