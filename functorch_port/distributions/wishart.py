"""``torch.distributions.wishart``."""

from ._multivariate import Wishart as Wishart
