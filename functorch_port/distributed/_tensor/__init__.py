"""The old place of `torch.distributed.tensor`."""

from ..tensor import *  # noqa: F403
from ..tensor import __all__ as __all__
