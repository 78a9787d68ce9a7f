"""``functorch.experimental``: what `torch.func` has taken over."""

from __future__ import annotations

from ..func import functionalize as functionalize
from ..func import hessian as hessian
from ..func import jacfwd as jacfwd
from ..func import jvp as jvp
from ..func import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_

__all__ = ["functionalize", "hessian", "jacfwd", "jvp", "replace_all_batch_norm_modules_"]
