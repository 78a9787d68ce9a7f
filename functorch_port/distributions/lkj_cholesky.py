"""``torch.distributions.lkj_cholesky``."""

from ._multivariate import LKJCholesky as LKJCholesky
