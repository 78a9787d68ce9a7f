"""``torch.distributions.beta``."""

from ._gamma import Beta as Beta
