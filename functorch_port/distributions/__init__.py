"""``torch.distributions``: probability distributions with densities and reparameterized samples.

On the CPU a seed gives PyTorch's samples, also of the gamma and binomial distributions. A compiled function draws other
samples, from a JAX key. With ``compile(rng="torch")`` it draws PyTorch's, but refuses the distributions whose number
of draws varies, such as gamma, binomial and Poisson.
"""

from . import constraints as constraints
from . import kl as kl
from . import transforms as transforms
from ._gamma import Beta as Beta
from ._gamma import Chi2 as Chi2
from ._gamma import Dirichlet as Dirichlet
from ._gamma import FisherSnedecor as FisherSnedecor
from ._gamma import Gamma as Gamma
from ._gamma import StudentT as StudentT
from .by_transform import Gumbel as Gumbel
from .by_transform import HalfCauchy as HalfCauchy
from .by_transform import HalfNormal as HalfNormal
from .by_transform import InverseGamma as InverseGamma
from .by_transform import Kumaraswamy as Kumaraswamy
from .by_transform import LogisticNormal as LogisticNormal
from .by_transform import LogNormal as LogNormal
from .by_transform import Pareto as Pareto
from .by_transform import Weibull as Weibull
from .circular import VonMises as VonMises
from .constraint_registry import biject_to as biject_to
from .constraint_registry import transform_to as transform_to
from .continuous import Cauchy as Cauchy
from .continuous import Exponential as Exponential
from .continuous import GeneralizedPareto as GeneralizedPareto
from .continuous import Laplace as Laplace
from .continuous import Normal as Normal
from .continuous import Uniform as Uniform
from .continuous_bernoulli import ContinuousBernoulli as ContinuousBernoulli
from .counting import Binomial as Binomial
from .counting import Geometric as Geometric
from .counting import Multinomial as Multinomial
from .counting import NegativeBinomial as NegativeBinomial
from .discrete import Bernoulli as Bernoulli
from .discrete import Categorical as Categorical
from .discrete import OneHotCategorical as OneHotCategorical
from .discrete import Poisson as Poisson
from .distribution import Distribution as Distribution
from .exp_family import ExponentialFamily as ExponentialFamily
from .kl import kl_divergence as kl_divergence
from .kl import register_kl as register_kl
from .multivariate import LKJCholesky as LKJCholesky
from .multivariate import LowRankMultivariateNormal as LowRankMultivariateNormal
from .multivariate import MultivariateNormal as MultivariateNormal
from .multivariate import Wishart as Wishart
from .relaxed import OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough
from .relaxed import RelaxedBernoulli as RelaxedBernoulli
from .relaxed import RelaxedOneHotCategorical as RelaxedOneHotCategorical
from .transformed import Independent as Independent
from .transformed import MixtureSameFamily as MixtureSameFamily
from .transformed import TransformedDistribution as TransformedDistribution
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
