"""``torch.distributions.negative_binomial``."""

from ._counting import NegativeBinomial as NegativeBinomial
