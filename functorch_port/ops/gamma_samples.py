"""Samplers by rejection: `binomial`, `_standard_gamma` and `_sample_dirichlet`.

On the CPU a seed gives PyTorch's numbers; under `compile` and on accelerators they come from a JAX key.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from functorch_port._base import dtypes
from functorch_port._random.generator import Generator, draw
from functorch_port._run.registry import composite
from functorch_port._run.run import run
from functorch_port._tensor.plan import Plan
from functorch_port._tensor.tensor import Tensor, wrap
from functorch_port.ops._beta import beta_slope
from functorch_port.ops._drawing import _is_meta, _require, _unsupported, _with_history

__all__: list[str] = []


@composite("binomial", where="torch")
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw from binomial distributions: the number of successes in ``count`` trials.

    Args:
        count: the numbers of trials, of a floating point dtype.
        prob: the probabilities of success, broadcastable with ``count``.
        generator: the random number generator; None for the default one.

    Example:
        >>> import functorch_port as torch
        >>> torch.binomial(torch.tensor([5.0, 7.0]), torch.tensor([1.0, 0.0]))
        tensor([5., 0.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.binomial.html
    """
    counts, probs = _require("binomial", count)._look(), _require("binomial", prob)._look()
    d = dtypes.from_np(counts.dtype)
    if not d.is_floating_point:
        raise ValueError(f"binomial only supports floating-point dtypes for count, got: {d.scalar_name}")
    if d.itemsize < 4:
        raise _unsupported("binomial_cpu", d)
    if counts.dtype != probs.dtype:
        raise RuntimeError(
            f"Found dtype {dtypes.from_np(probs.dtype).scalar_name} but expected {d.scalar_name}"
        )
    if _is_meta(counts):
        return wrap(counts)
    counts, probs = jnp.broadcast_arrays(counts, probs)
    value = draw(generator, "binomial", counts.shape, d, count=counts, prob=probs)
    return _with_history("BinomialBackward0", [count, prob], value)


@composite("_standard_gamma", where="torch")
def _standard_gamma(self: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw gamma variables with concentration ``self`` and rate 1; differentiable by implicit reparameterization."""
    return run(_gamma_plan(), [self, _drawn("gamma", "gamma_cpu", self, generator)])


@composite("_sample_dirichlet", where="torch")
def _sample_dirichlet(self: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw from Dirichlet distributions with the concentrations in the last dimension of ``self``; differentiable."""
    return run(_dirichlet_plan(), [self, _drawn("dirichlet", "dirichlet", self, generator)])


def _drawn(kind: str, name: str, concentration: Tensor, generator: Generator | None) -> Tensor:
    value = _require(f"_{name}", concentration)._look()
    d = dtypes.from_np(value.dtype)
    if d not in (dtypes.float32, dtypes.float64):
        raise _unsupported(name, d)
    return wrap(value if _is_meta(value) else draw(generator, kind, value.shape, d, concentration=value))


@jax.custom_jvp
def _gamma(concentration: jax.Array, sample: jax.Array) -> jax.Array:
    """``sample``, as a function of ``concentration`` at a fixed quantile."""
    return sample


@_gamma.defjvp
def _(primals: Any, tangents: Any) -> Any:
    slope = jax.lax.random_gamma_grad(*map(_wide, primals)).astype(primals[1].dtype)
    return primals[1], slope * tangents[0]


@jax.custom_jvp
def _dirichlet(concentration: jax.Array, sample: jax.Array) -> jax.Array:
    """``sample``, as a function of ``concentration`` at fixed quantiles.

    Each coordinate has a beta distribution, and the others share the rest in proportions independent of it. So a
    concentration moves its own coordinate along that distribution's quantiles and rescales the others.
    """
    return sample


@_dirichlet.defjvp
def _(primals: Any, tangents: Any) -> Any:
    alpha, x = map(_wide, primals)
    rest = alpha.sum(-1, keepdims=True) - alpha
    slope = jnp.where(
        rest > 0, beta_slope(alpha, rest, x) / (1 - x), 0
    )  # a single coordinate stays where it is
    moved = slope.astype(primals[1].dtype) * tangents[0]
    return primals[1], moved - primals[1] * moved.sum(-1, keepdims=True)


def _wide(x: jax.Array) -> jax.Array:
    """``x`` in float64, in which PyTorch computes these derivatives."""
    return x.astype(jax.dtypes.canonicalize_dtype(np.float64))


@cache
def _gamma_plan() -> Plan:
    return Plan(_gamma, "_standard_gamma", "StandardGammaBackward0")


@cache
def _dirichlet_plan() -> Plan:
    return Plan(_dirichlet, "_sample_dirichlet", "_DirichletBackward")
