"""``torch.distributions.von_mises``."""

from ._circular import VonMises as VonMises
