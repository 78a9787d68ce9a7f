"""``torch._custom_ops``: the former name of `torch.library`."""

from .library import custom_op as custom_op
from .library import impl as impl
from .library import impl_abstract as impl_abstract

__all__ = ["custom_op", "impl", "impl_abstract"]
