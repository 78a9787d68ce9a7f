"""``torch.distributions.weibull``."""

from ._by_transform import Weibull as Weibull
