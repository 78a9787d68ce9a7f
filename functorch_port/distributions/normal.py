"""``torch.distributions.normal``."""

from ._continuous import Normal as Normal
