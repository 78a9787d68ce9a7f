"""``torch.distributions.half_normal``."""

from ._by_transform import HalfNormal as HalfNormal
