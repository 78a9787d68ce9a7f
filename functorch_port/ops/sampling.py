"""Samples of distributions that tensors describe: `bernoulli`, `normal`, `multinomial`, `poisson`.

They do not depend smoothly on their inputs, so gradients are zero, as in PyTorch.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from functorch_port._array import tracing
from functorch_port._array.refusal import refuse
from functorch_port._base import dtypes
from functorch_port._base.dtypes import dtype as DType
from functorch_port._random.generator import Generator, draw
from functorch_port._run.registry import composite
from functorch_port._run.run import run
from functorch_port._tensor import creation
from functorch_port._tensor.creation.arguments import _dtype_of
from functorch_port._tensor.plan import Plan
from functorch_port._tensor.tensor import Tensor, wrap
from functorch_port.ops._common import broadcast_shapes
from functorch_port.ops._drawing import (
    _is_meta,
    _meta_like,
    _number,
    _out_of_place,
    _placed,
    _refuse_unless_inexact,
    _require,
    _unsupported,
    _with_history,
)
from functorch_port.ops.random_fills import _bernoulli_of, _check_std, _probability


@composite("bernoulli")
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """Draw ones with the probabilities in ``input`` (or with probability ``p``), else zeros.

    Args:
        input: the probabilities; with ``p``, only its shape and dtype count.
        p: one probability for all elements.
        generator: the random number generator; None for the default one.
        out: a tensor to write to.

    Example:
        >>> import functorch_port as torch
        >>> torch.bernoulli(torch.tensor([0.0, 1.0]))
        tensor([0., 1.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.bernoulli.html
    """
    d = _require("bernoulli", input).dtype
    if p is None:
        made = _with_history("BernoulliBackward0", [input], _bernoulli_of(input, input.shape, d, generator))
    else:
        chance = _probability("bernoulli_", p)
        value = _out_of_place("bernoulli", input.shape, d, generator, input._aval(), p=chance)
        made = _with_history("BernoulliBackward1", [input], value)
    return made if out is None else creation._into(out, made)


@composite("normal", where="torch")
def normal(
    mean: Any,
    std: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Draw normal numbers with these means and standard deviations.

    Args:
        mean: a tensor, or a number.
        std: a tensor, or a number. Default: 1 if ``mean`` is a tensor.
        size: the shape, if both are numbers.
        generator, out: as for `rand`.
        dtype, device, requires_grad: as for `rand`, if both are numbers.

    Raises:
        RuntimeError: a standard deviation is negative.

    Example:
        >>> import functorch_port as torch
        >>> torch.normal(torch.zeros(2, 3), 1.0).shape
        torch.Size([2, 3])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.normal.html
    """
    if isinstance(mean, Tensor) or isinstance(std, Tensor):
        made = _normal_of(mean, 1.0 if std is None else std, generator)
        return made if out is None else creation._into(out, made)
    if size is None or std is None:
        names = ", ".join(type(a).__name__ for a in (mean, std) if a is not None)
        raise TypeError(
            f"normal() received an invalid combination of arguments - got ({names}), but expected "
            "(Tensor mean, Tensor std), (Tensor mean, float std = 1), (float mean, Tensor std) or "
            "(float mean, float std, tuple of ints size)"
        )
    center, spread = _number("normal", "mean", 1, mean), _number("normal", "std", 2, std)
    _check_std(spread)
    d = _dtype_of("normal", dtype, out, dtypes.get_default_dtype())
    _refuse_unless_inexact("normal_kernel_cpu", d)
    shape = creation._shape((size,), "normal")
    value = _out_of_place("normal", shape, d, generator, _meta_like(device), mean=center, std=spread)
    made = _placed(value, device, requires_grad)
    return made if out is None else creation._into(out, made)


def _normal_of(mean: Any, std: Any, generator: Generator | None) -> Tensor:
    inputs = [t for t in (mean, std) if isinstance(t, Tensor)]
    if isinstance(std, Tensor):
        _check_deviations(std._look())
    else:
        _check_std(std := _number("normal", "std", 2, std))
    if not isinstance(mean, Tensor):
        mean = _number("normal", "mean", 1, mean)
    d = inputs[0].dtype
    _refuse_unless_inexact("normal_kernel_cpu", d)
    shape = broadcast_shapes(*[t.shape for t in inputs])
    if any(_is_meta(t._aval()) for t in inputs):
        return wrap(jax.ShapeDtypeStruct(shape, d.np))
    scalar_std = std if not isinstance(std, Tensor) else 1.0
    drawn = draw(generator, "normal", shape, d, std=scalar_std)
    with tracing.x64():
        if isinstance(std, Tensor):
            drawn = drawn * std._value.astype(d.np)
        drawn = drawn + (mean._value.astype(d.np) if isinstance(mean, Tensor) else jnp.asarray(mean, d.np))
    node = (
        "NormalBackward3"
        if len(inputs) == 2
        else "NormalBackward1"
        if isinstance(mean, Tensor)
        else "NormalBackward2"
    )
    return _with_history(node, inputs, drawn)


def _check_deviations(std: Any) -> None:
    if std.dtype.kind == "c":
        raise RuntimeError("normal expects standard deviation to be non-complex")
    refuse(lambda std: std < 0, lambda std: RuntimeError("normal expects all elements of std >= 0.0"), std)


@composite("multinomial")
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Draw indices with probabilities proportional to the weights in each row of ``input``.

    Args:
        input: the weights (n,) or (m, n), not negative.
        num_samples: the number of indices per row.
        replacement: whether an index may be drawn again.
        generator: the random number generator; None for the default one.
        out: a tensor to write to.

    Shape:
        (num_samples,) or (m, num_samples), int64.

    Raises:
        RuntimeError: a weight is negative, infinite or NaN; a row has only zeros; ``num_samples`` is too large.

    Example:
        >>> import functorch_port as torch
        >>> torch.multinomial(torch.tensor([0.0, 3.0]), 4, replacement=True)
        tensor([1, 1, 1, 1])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.multinomial.html
    """
    weights = _require("multinomial", input)._look()
    if out is not None and out.dtype is not dtypes.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.scalar_name}")
    _check_multinomial(weights, num_samples, replacement)
    shape = (*weights.shape[:-1], num_samples)
    if _is_meta(weights) or 0 in shape:
        value: Any = jax.ShapeDtypeStruct(shape, np.int64)
        if not _is_meta(weights):
            with tracing.x64():
                value = jnp.zeros(shape, np.int64)
        made = wrap(value)
    else:
        race = not replacement or num_samples == 1
        _check_weights(weights, fast=race)
        made = (_without_replacement if race else _with_replacement)(weights, num_samples, generator)
    return made if out is None else creation._into(out, made)


def _check_multinomial(weights: Any, count: int, replacement: bool) -> None:
    if len(weights.shape) not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    d = dtypes.from_np(weights.dtype)
    if not d.is_floating_point:
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {d.scalar_name}")
    if count <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and count > weights.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if weights.shape[-1] > 1 << 24:
        raise RuntimeError("number of categories cannot exceed 2^24")


def _check_weights(weights: Any, fast: bool) -> None:
    text = "invalid multinomial distribution ({})"

    def error(weights: Any) -> Exception:
        if fast and not np.all((weights >= 0) & (weights < np.inf)):
            return RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        if not np.all(weights >= 0):
            return RuntimeError(text.format("encountering probability entry < 0"))
        if not np.all(weights < np.inf):
            return RuntimeError(text.format("encountering probability entry = infinity or NaN"))
        return RuntimeError(text.format("sum of probabilities <= 0"))

    def bad(weights: Any) -> Any:
        return ~((weights >= 0) & (weights < np.inf)).all(-1) | ~(weights > 0).any(-1)

    refuse(bad, error, weights)


def _without_replacement(weights: Any, count: int, generator: Generator | None) -> Tensor:
    """The largest of weight / exponential noise: an exponential race."""
    noise = draw(generator, "exponential", weights.shape, dtypes.from_np(weights.dtype))
    return run(_largest_quotients(count), [wrap(weights), wrap(noise)])


@cache
def _largest_quotients(count: int) -> Plan:
    def places(weights: Any, noise: Any) -> Any:
        return jax.lax.top_k(weights / noise, count)[1].astype(jax.dtypes.canonicalize_dtype(np.int64))

    return Plan(places, "multinomial", "MultinomialBackward0", differentiable=False)


def _with_replacement(weights: Any, count: int, generator: Generator | None) -> Tensor:
    """Positions of uniform numbers in the cumulative distribution."""
    traced = isinstance(weights, jax.core.Tracer)
    in_double = not tracing.overlay or tracing.overlay.rng == "torch"
    u = draw(
        generator, "uniform", (*weights.shape[:-1], count), dtypes.float64 if in_double else dtypes.float32
    )
    kind = np.float64 if weights.dtype == np.float64 else np.float32
    with tracing.x64():
        rows, samples = weights.reshape(-1, weights.shape[-1]).astype(kind), u.reshape(-1, count)
    if traced or isinstance(u, jax.core.Tracer):
        with tracing.x64():
            found = jax.vmap(lambda w, x: _positions(jnp, jnp.cumsum(w), x))(rows, samples)
    else:
        pairs = zip(np.asarray(rows), np.asarray(samples), strict=True)
        found = np.stack([_positions(np, np.cumsum(w), x) for w, x in pairs])  # in order, as PyTorch adds up
    with tracing.x64():
        return wrap(jnp.asarray(found.reshape(u.shape), jax.dtypes.canonicalize_dtype(np.int64)))


def _positions(xp: Any, cumulative: Any, u: Any) -> Any:
    cumulative = (cumulative / cumulative[-1]).astype(u.dtype)
    return xp.minimum(xp.searchsorted(cumulative, u, side="left"), cumulative.shape[0] - 1)


@composite("poisson", where="torch")
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw Poisson numbers with the rates in ``input``.

    Args:
        input: the rates, not negative.
        generator: the random number generator; None for the default one.

    Example:
        >>> import functorch_port as torch
        >>> torch.poisson(torch.zeros(2))
        tensor([0., 0.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.poisson.html
    """
    rates = _require("poisson", input)._look()
    d = dtypes.from_np(rates.dtype)
    if not d.is_floating_point:
        raise _unsupported("poisson_cpu", d)
    if _is_meta(rates):
        return wrap(rates)
    text = "invalid Poisson rate, expected rate to be non-negative"
    refuse(lambda rates: ~(rates >= 0), lambda rates: RuntimeError(text), rates)
    value = draw(generator, "poisson", rates.shape, d, rate=rates)
    return _with_history("PoissonBackward0", [input], value)
