"""``torch.distributions.cauchy``."""

from ._continuous import Cauchy as Cauchy
