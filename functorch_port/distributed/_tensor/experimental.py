"""The older name of `distributed.tensor.experimental`."""

from ..tensor.experimental import *  # noqa: F403
from ..tensor.experimental import __all__ as __all__
