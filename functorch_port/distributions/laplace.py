"""``torch.distributions.laplace``."""

from ._continuous import Laplace as Laplace
