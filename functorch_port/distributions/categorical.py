"""``torch.distributions.categorical``."""

from ._discrete import Categorical as Categorical
