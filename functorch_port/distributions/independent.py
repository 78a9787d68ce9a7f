"""``torch.distributions.independent``."""

from ._transformed import Independent as Independent
