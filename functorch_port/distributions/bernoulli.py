"""``torch.distributions.bernoulli``."""

from .discrete import Bernoulli as Bernoulli
