"""``torch._higher_order_ops.map``."""

from ..func.control import map as map
