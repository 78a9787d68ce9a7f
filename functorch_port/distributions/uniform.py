"""``torch.distributions.uniform``."""

from .continuous import Uniform as Uniform
