"""``torch.distributions.dirichlet``."""

from ._gamma import Dirichlet as Dirichlet
