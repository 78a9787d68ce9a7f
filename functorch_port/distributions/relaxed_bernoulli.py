"""``torch.distributions.relaxed_bernoulli``."""

from ._relaxed import LogitRelaxedBernoulli as LogitRelaxedBernoulli
from ._relaxed import RelaxedBernoulli as RelaxedBernoulli
