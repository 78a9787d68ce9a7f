"""``torch.distributions``: the distributions that models use most, their samples drawn from PyTorch's stream.

Those that are missing raise an error that names them.
"""

from . import constraints as constraints
from . import kl as kl
from .continuous import Exponential as Exponential
from .continuous import Laplace as Laplace
from .continuous import LogNormal as LogNormal
from .continuous import Normal as Normal
from .continuous import Uniform as Uniform
from .discrete import Bernoulli as Bernoulli
from .discrete import Categorical as Categorical
from .discrete import OneHotCategorical as OneHotCategorical
from .discrete import Poisson as Poisson
from .distribution import Distribution as Distribution
from .kl import kl_divergence as kl_divergence
from .kl import register_kl as register_kl

__all__ = [
    "Bernoulli", "Categorical", "Distribution", "Exponential", "Laplace", "LogNormal", "Normal", "OneHotCategorical",
    "Poisson", "Uniform", "constraints", "kl", "kl_divergence", "register_kl",
]  # fmt: skip
