"""Hooks of communication: the modules with PyTorch's names. What they can be here, `default_hooks` says."""

from . import default_hooks

__all__ = ["default_hooks"]
