"""``torch._higher_order_ops.cond``."""

from ..func._control import cond as cond
