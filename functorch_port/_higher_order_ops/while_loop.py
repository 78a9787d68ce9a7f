"""``torch._higher_order_ops.while_loop``."""

from ..func.control import while_loop as while_loop
