"""``torch.distributions.relaxed_categorical``."""

from ._relaxed import ExpRelaxedCategorical as ExpRelaxedCategorical
from ._relaxed import RelaxedOneHotCategorical as RelaxedOneHotCategorical
