"""``torch.distributions.uniform``."""

from ._continuous import Uniform as Uniform
