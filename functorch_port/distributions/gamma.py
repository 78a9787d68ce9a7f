"""``torch.distributions.gamma``."""

from ._gamma import Gamma as Gamma
