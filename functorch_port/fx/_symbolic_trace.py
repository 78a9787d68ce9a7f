"""``torch.fx._symbolic_trace``: the names of PyTorch's tracer, which is not here."""

from . import Tracer as Tracer
from . import symbolic_trace as symbolic_trace
from . import wrap as wrap


def is_fx_tracing() -> bool:
    """Return False: there is no such tracer."""
    return False


is_fx_symbolic_tracing = is_fx_tracing
