"""``torch.distributions.binomial``."""

from ._counting import Binomial as Binomial
