"""``torch.distributions.kumaraswamy``."""

from ._by_transform import Kumaraswamy as Kumaraswamy
