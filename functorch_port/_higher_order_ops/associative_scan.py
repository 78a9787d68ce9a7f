"""``torch._higher_order_ops.associative_scan``."""

from ..func._control import associative_scan as associative_scan
