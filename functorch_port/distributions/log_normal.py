"""``torch.distributions.log_normal``."""

from ._by_transform import LogNormal as LogNormal
