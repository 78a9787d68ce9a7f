"""``torch.distributions.multinomial``."""

from ._counting import Multinomial as Multinomial
