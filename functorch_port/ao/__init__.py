"""``torch.ao``: the names of quantization that libraries import; see `functorch_port.ao.quantization`."""

from . import quantization as quantization

__all__ = ["quantization"]
