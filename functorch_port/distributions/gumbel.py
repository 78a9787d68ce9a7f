"""``torch.distributions.gumbel``."""

from ._by_transform import Gumbel as Gumbel
