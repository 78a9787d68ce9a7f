"""Optimizers and learning-rate schedules (``torch.optim``)."""

from . import functional as functional
from . import lr_scheduler as lr_scheduler
from .optimizer import Optimizer as Optimizer
from .sgd import SGD as SGD

__all__ = ["SGD", "Optimizer", "functional", "lr_scheduler"]
