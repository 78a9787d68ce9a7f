"""``torch.distributions.normal``."""

from .continuous import Normal as Normal
