"""``torch.distributions.lowrank_multivariate_normal``."""

from ._multivariate import LowRankMultivariateNormal as LowRankMultivariateNormal
