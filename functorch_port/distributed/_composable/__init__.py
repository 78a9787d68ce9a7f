"""Functions that change a module in place: ``torch.distributed._composable``."""

from .checkpoint_activation import checkpoint
from .replicate import replicate

__all__ = ["checkpoint", "replicate"]
