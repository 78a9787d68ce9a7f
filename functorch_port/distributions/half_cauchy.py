"""``torch.distributions.half_cauchy``."""

from ._by_transform import HalfCauchy as HalfCauchy
