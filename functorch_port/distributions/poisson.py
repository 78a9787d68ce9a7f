"""``torch.distributions.poisson``."""

from ._discrete import Poisson as Poisson
