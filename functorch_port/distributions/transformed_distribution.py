"""``torch.distributions.transformed_distribution``."""

from ._transformed import TransformedDistribution as TransformedDistribution
