"""``torch.distributions.fishersnedecor``."""

from ._gamma import FisherSnedecor as FisherSnedecor
