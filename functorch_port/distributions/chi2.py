"""``torch.distributions.chi2``."""

from ._gamma import Chi2 as Chi2
