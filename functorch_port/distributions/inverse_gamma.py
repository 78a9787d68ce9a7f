"""``torch.distributions.inverse_gamma``."""

from ._by_transform import InverseGamma as InverseGamma
