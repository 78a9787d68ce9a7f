"""``torch._higher_order_ops.map``."""

from ..func._control import map as map
