"""``torch._higher_order_ops.cond``."""

from ..func.control import cond as cond
