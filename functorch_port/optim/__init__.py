"""Optimizers and learning-rate schedules (``torch.optim``)."""

from . import functional as functional
from . import lr_scheduler as lr_scheduler
from .adam import Adam as Adam
from .adamw import AdamW as AdamW
from .optimizer import Optimizer as Optimizer
from .sgd import SGD as SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "functional", "lr_scheduler"]
