"""Utilities beside the training stack: data loading and activation checkpointing (``torch.utils``)."""

from functorch_port.utils import checkpoint as checkpoint
from functorch_port.utils import data as data

__all__ = ["checkpoint", "data"]
