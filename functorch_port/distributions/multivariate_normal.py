"""``torch.distributions.multivariate_normal``."""

from ._multivariate import MultivariateNormal as MultivariateNormal
from .distribution import Distribution as Distribution
