"""``torch.distributions.geometric``."""

from ._counting import Geometric as Geometric
