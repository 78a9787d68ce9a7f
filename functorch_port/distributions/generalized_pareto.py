"""``torch.distributions.generalized_pareto``."""

from ._continuous import GeneralizedPareto as GeneralizedPareto
