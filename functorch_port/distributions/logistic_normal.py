"""``torch.distributions.logistic_normal``."""

from ._by_transform import LogisticNormal as LogisticNormal
