"""``torch._dynamo.eval_frame``: the class of compiled modules, and the decorators."""

from ..nn._compiled import OptimizedModule as OptimizedModule
from . import disable as disable
from . import optimize as optimize

__all__ = ["OptimizedModule", "disable", "optimize"]
