"""``torch.distributions.exponential``."""

from ._continuous import Exponential as Exponential
