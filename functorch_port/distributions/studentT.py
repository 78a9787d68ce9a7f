"""``torch.distributions.studentT``."""

from ._gamma import StudentT as StudentT
