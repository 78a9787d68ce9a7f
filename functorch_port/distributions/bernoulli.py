"""``torch.distributions.bernoulli``."""

from ._discrete import Bernoulli as Bernoulli
