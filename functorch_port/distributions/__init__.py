"""``torch.distributions``: probability distributions with densities and reparameterized samples.

On the CPU a seed gives PyTorch's samples, also of the gamma and binomial distributions. A compiled function draws other
samples, from a JAX key. With ``compile(rng="torch")`` it draws PyTorch's, but refuses the distributions whose number
of draws varies, such as gamma, binomial and Poisson.
"""

from typing import Any as Any  # by which `typing.get_type_hints` understands annotations

from . import constraints as constraints
from . import kl as kl
from . import transforms as transforms
from ._by_transform import Gumbel as Gumbel
from ._by_transform import HalfCauchy as HalfCauchy
from ._by_transform import HalfNormal as HalfNormal
from ._by_transform import InverseGamma as InverseGamma
from ._by_transform import Kumaraswamy as Kumaraswamy
from ._by_transform import LogisticNormal as LogisticNormal
from ._by_transform import LogNormal as LogNormal
from ._by_transform import Pareto as Pareto
from ._by_transform import Weibull as Weibull
from ._circular import VonMises as VonMises
from ._continuous import Cauchy as Cauchy
from ._continuous import Exponential as Exponential
from ._continuous import GeneralizedPareto as GeneralizedPareto
from ._continuous import Laplace as Laplace
from ._continuous import Normal as Normal
from ._continuous import Uniform as Uniform
from ._counting import Binomial as Binomial
from ._counting import Geometric as Geometric
from ._counting import Multinomial as Multinomial
from ._counting import NegativeBinomial as NegativeBinomial
from ._discrete import Bernoulli as Bernoulli
from ._discrete import Categorical as Categorical
from ._discrete import OneHotCategorical as OneHotCategorical
from ._discrete import Poisson as Poisson
from ._gamma import Beta as Beta
from ._gamma import Chi2 as Chi2
from ._gamma import Dirichlet as Dirichlet
from ._gamma import FisherSnedecor as FisherSnedecor
from ._gamma import Gamma as Gamma
from ._gamma import StudentT as StudentT
from ._multivariate import LKJCholesky as LKJCholesky
from ._multivariate import LowRankMultivariateNormal as LowRankMultivariateNormal
from ._multivariate import MultivariateNormal as MultivariateNormal
from ._multivariate import Wishart as Wishart
from ._relaxed import OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough
from ._relaxed import RelaxedBernoulli as RelaxedBernoulli
from ._relaxed import RelaxedOneHotCategorical as RelaxedOneHotCategorical
from ._transformed import Independent as Independent
from ._transformed import MixtureSameFamily as MixtureSameFamily
from ._transformed import TransformedDistribution as TransformedDistribution
from .constraint_registry import biject_to as biject_to
from .constraint_registry import transform_to as transform_to
from .continuous_bernoulli import ContinuousBernoulli as ContinuousBernoulli
from .distribution import Distribution as Distribution
from .exp_family import ExponentialFamily as ExponentialFamily
from .kl import kl_divergence as kl_divergence
from .kl import register_kl as register_kl
from .transforms import *  # noqa: F403

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli", "Dirichlet",
    "Distribution",
    "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric", "Gumbel",
    "HalfCauchy", "HalfNormal", "Independent", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal",
    "LogisticNormal", "LowRankMultivariateNormal", "MixtureSameFamily", "Multinomial", "MultivariateNormal",
    "NegativeBinomial", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson",
    "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT", "TransformedDistribution", "Uniform", "VonMises",
    "Weibull", "Wishart", "biject_to", "constraints", "kl", "kl_divergence", "register_kl", "transform_to",
    "transforms",
]  # fmt: skip
_IN_PLACE = {"ContinuousBernoulli", "Distribution", "ExponentialFamily"}  # in PyTorch's files
for _name in {*__all__} - _IN_PLACE:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__  # which pickles say

__all__ += transforms.__all__
