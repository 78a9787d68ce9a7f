"""``torch.distributions.categorical``."""

from .discrete import Categorical as Categorical
