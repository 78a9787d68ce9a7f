"""Kullback-Leibler divergences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from .. import autograd
from .._array.refusal import refuse
from .._run.bind import function
from .._tensor.creation import full_like
from .._tensor.tensor import Tensor
from ..nn import functional as F
from ._by_transform import Gumbel, HalfNormal, Pareto
from ._continuous import Cauchy, Exponential, Laplace, Normal, Uniform
from ._counting import Binomial, Geometric
from ._discrete import Bernoulli, Categorical, OneHotCategorical, Poisson
from ._gamma import Beta, Dirichlet, Gamma
from ._multivariate import LowRankMultivariateNormal, MultivariateNormal, half_log_det, mahalanobis, solved
from ._transformed import Independent, TransformedDistribution
from .continuous_bernoulli import ContinuousBernoulli
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .utils import _sum_rightmost

__all__ = ["kl_divergence", "register_kl"]

Formula = Callable[[Any, Any], Tensor]
_FORMULAS: dict[tuple[type, type], Formula] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """Registers the decorated function as `kl_divergence` of distributions of these two types.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#torch.distributions.kl.register_kl
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise TypeError(f"issubclass() arg 1 must be a class: {kind!r}")

    def register(fn: Formula) -> Formula:
        _FORMULAS[type_p, type_q] = fn
        return fn

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The Kullback-Leibler divergence KL(p || q).

    Raises:
        NotImplementedError: for types without a registered formula.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#torch.distributions.kl.kl_divergence
    """
    for a in type(p).__mro__:
        for b in type(q).__mro__:
            if (a, b) in _FORMULAS:
                return _FORMULAS[a, b](p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )


inf, _EULER = math.inf, 0.57721566490153286060


# ------------------------------------------------------------ equal families


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Tensor:
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    params = [t.detach().requires_grad_() for t in p._natural_params]
    level = p._log_normalizer(*params)
    slopes = autograd.grad(level.sum(), params, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - level
    for ours, theirs, slope in zip(params, q._natural_params, slopes, strict=True):
        result = result - _sum_rightmost((theirs - ours) * slope, len(q.event_shape))
    return result


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    yes = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    yes = yes.masked_fill(q.probs == 0, inf).masked_fill(p.probs == 0, 0)
    no = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    return yes + no.masked_fill(q.probs == 1, inf).masked_fill(p.probs == 1, 0)


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    text = "KL between Binomials where q.total_count > p.total_count is not implemented"
    fewer = (p.total_count < q.total_count)._look()
    refuse(lambda fewer: fewer, lambda fewer: NotImplementedError(text), fewer)
    one = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return (p.total_count * one).masked_fill(p.total_count > q.total_count, inf)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = terms.masked_fill((q.probs == 0).expand_as(terms), inf)
    return terms.masked_fill((p.probs == 0).expand_as(terms), 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Tensor:
    return _categorical(p, q)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return result.masked_fill((q.low > p.low) | (q.high < p.high), inf)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    ratio, shift = p.scale / q.scale, (q.loc - p.loc) / q.scale
    return -ratio.log() - shift + ratio * _EULER + (shift + (1 + ratio).lgamma()).exp() - (1 + _EULER)


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log()
        + b.lgamma()
        - a.lgamma()
        + (a - b) * a.digamma()
        + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    weights = ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)
    return total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1) + weights


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Tensor:
    scales = p._log_norm() + (-p.probs).log1p() - q._log_norm() - (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + scales


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return result.masked_fill(p.scale < q.scale, inf)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# --------------------------------------------------------- normal vectors


def _square_sum(matrix: Tensor) -> Tensor:
    return matrix.pow(2).sum((-2, -1))


def _factors(p: Any) -> list[Tensor]:
    """Matrices ``A`` whose ``A @ A.T`` add up to the covariance."""
    if isinstance(p, MultivariateNormal):
        return [p._unbroadcasted_scale_tril]
    return [p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()]


def _log_det(p: Any) -> Any:
    return (
        2 * half_log_det(p._unbroadcasted_scale_tril) if isinstance(p, MultivariateNormal) else p._log_det()
    )


def _normal_vectors(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two (Low Rank) Multivariate Normals with different event shapes cannot be computed"
        )
    lower, shift = q._unbroadcasted_scale_tril, q.loc - p.loc
    spread = sum(_square_sum(solved(lower, factor)) for factor in _factors(p))
    return 0.5 * (_log_det(q) - _log_det(p) + spread + mahalanobis(lower, shift) - p.event_shape[0])


def _to_low_rank(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        return _normal_vectors(p, q)
    root = q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)
    half = solved(q._capacitance_tril, q._weighted())
    spread = sum(_square_sum(f * root) - _square_sum(half @ f) for f in _factors(p))
    return 0.5 * (q._log_det() - _log_det(p) + spread + q._distance(q.loc - p.loc) - p.event_shape[0])


for _p in (MultivariateNormal, LowRankMultivariateNormal):
    register_kl(_p, MultivariateNormal)(_normal_vectors)
    register_kl(_p, LowRankMultivariateNormal)(_to_low_rank)


# ---------------------------------------------------------- different families
#
# KL(p || q) is minus the entropy of p minus the mean under p of log q. The second term needs p's mean and variance, and
# the means below.


def _mean(p: Any) -> Tensor:
    """The mean. For Pareto it is the formula even where the mean is infinite: there the divergence is infinite too."""
    return p.alpha * p.scale / (p.alpha - 1) if isinstance(p, Pareto) else p.mean


def _variance(p: Any) -> Tensor:
    if not isinstance(p, Pareto):
        return p.variance
    return p.scale.pow(2) * p.alpha / ((p.alpha - 1).pow(2) * (p.alpha - 2))


def _mean_log(p: Any) -> Tensor:
    """The mean of ``log x``."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Exponential):
        return -p.rate.log() - _EULER
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return _mean_log_between(p.low, p.high)


def _mean_log_between(low: Tensor, high: Tensor) -> Tensor:
    return (high.xlogy(high) - low.xlogy(low)) / (high - low) - 1


def _mean_decay(p: Any, rate: Tensor) -> Tensor:
    """The mean of ``exp(-rate * x)``."""
    if isinstance(p, Exponential):
        return p.rate / (p.rate + rate)
    if isinstance(p, Gamma):
        return (1 + rate / p.rate).pow(-p.concentration)
    if isinstance(p, Normal):
        return (0.5 * (rate * p.scale).pow(2) - rate * p.loc).exp()
    return ((-rate * p.low).exp() - (-rate * p.high).exp()) / (rate * (p.high - p.low))


def _log_beta(q: Any) -> Tensor:
    a, b = q.concentration1, q.concentration0
    return a.lgamma() + b.lgamma() - (a + b).lgamma()


#: q's family -> the mean of its log-density under p
_MEAN_LOG_DENSITY: dict[type, Callable[[Any, Any], Tensor]] = {
    Exponential: lambda p, q: q.rate.log() - q.rate * _mean(p),
    Gamma: lambda p, q: (
        q.concentration * q.rate.log()
        - q.concentration.lgamma()
        + (q.concentration - 1) * _mean_log(p)
        - q.rate * _mean(p)
    ),
    Normal: lambda p, q: (
        -0.5 * (2 * math.pi * q.scale.pow(2)).log()
        - 0.5 * (_variance(p) + (_mean(p) - q.loc).pow(2)) / q.scale.pow(2)
    ),
    Gumbel: lambda p, q: (
        (q.loc - _mean(p)) / q.scale
        - q.scale.log()
        - (q.loc / q.scale).exp() * _mean_decay(p, q.scale.reciprocal())
    ),
    Beta: lambda p, q: (
        (q.concentration1 - 1) * _mean_log(p)
        + (q.concentration0 - 1) * _mean_log_between(1 - p.high, 1 - p.low)
        - _log_beta(q)
    ),
    ContinuousBernoulli: lambda p, q: _mean(p) * q.logits + (-q.probs).log1p() + q._log_norm(),
    Uniform: lambda p, q: -(q.high - q.low).log(),
    Pareto: lambda p, q: q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p),
    Poisson: lambda p, q: _mean(p) * q.rate.log() - q.rate,
}


def _cross(p_type: type, *q_types: type, where: Callable[[Any, Any], Tensor] | None = None) -> None:
    """Registers KL(p || q) for ``p_type`` and each of ``q_types``; it is infinite where ``where`` is True."""

    def make(density: Callable[[Any, Any], Tensor]) -> Formula:
        def divergence(p: Any, q: Any) -> Tensor:
            result = -p.entropy() - density(p, q)
            return result if where is None else result.masked_fill(where(p, q), inf)

        return divergence

    for q_type in q_types:
        register_kl(p_type, q_type)(make(_MEAN_LOG_DENSITY[q_type]))


def _infinite(p_types: Iterable[type], q_types: Iterable[type], like: str) -> None:
    """Registers infinite divergences for pairs where p takes values outside of q's support."""
    for p_type in p_types:
        for q_type in q_types:
            register_kl(p_type, q_type)(lambda p, q: full_like(getattr(p, like), inf))


_cross(Bernoulli, Poisson)
_cross(Beta, ContinuousBernoulli, Exponential, Gamma, Normal)
_cross(Beta, Uniform, where=lambda p, q: (q.low > 0) | (q.high < 1))
_cross(ContinuousBernoulli, Exponential, Normal)
# as in PyTorch, infinite also for the interval [0, 1] itself
_cross(ContinuousBernoulli, Uniform, where=lambda p, q: (q.low >= 0) | (q.high <= 1))
_cross(Exponential, Gamma, Gumbel, Normal)
_cross(Gamma, Exponential, Gumbel, Normal)
_cross(Gumbel, Normal)
_cross(Laplace, Normal)
_cross(Normal, Gumbel)
_cross(Pareto, Exponential, Gamma, where=lambda p, q: p.alpha <= 1)
_cross(Pareto, Normal, where=lambda p, q: p.alpha <= 2)
_cross(Uniform, Gumbel, Normal)
_cross(Uniform, Beta, where=lambda p, q: (p.high > 1) | (p.low < 0))
_cross(Uniform, ContinuousBernoulli, where=lambda p, q: (p.high >= 1) | (p.low <= 0))
_cross(Uniform, Exponential, Gamma, where=lambda p, q: p.low < 0)
_cross(Uniform, Pareto, where=lambda p, q: p.low < q.scale)

_BOUNDED = (Beta, ContinuousBernoulli, Pareto, Uniform)
_infinite([Beta], [Pareto], "concentration1")
_infinite([ContinuousBernoulli], [Pareto], "probs")
_infinite([Exponential], _BOUNDED, "rate")
_infinite([Gamma], _BOUNDED, "concentration")
_infinite([Gumbel, Laplace, Normal], (*_BOUNDED, Exponential, Gamma), "loc")
_infinite([Pareto], (Beta, ContinuousBernoulli, Uniform), "scale")
_infinite([Poisson], (Bernoulli, Binomial), "rate")


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Tensor:
    away = p.loc - q.loc
    scaled = away / p.scale
    distance = math.sqrt(2 / math.pi) * p.scale * (-0.5 * scaled.pow(2)).exp()
    distance = distance + away * function("erf")(math.sqrt(0.5) * scaled)
    return (2 * q.scale).log() + distance / q.scale - p.entropy()
