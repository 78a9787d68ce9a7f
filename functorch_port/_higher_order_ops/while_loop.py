"""``torch._higher_order_ops.while_loop``."""

from ..func._control import while_loop as while_loop
