"""``torch.distributions.pareto``."""

from ._by_transform import Pareto as Pareto
