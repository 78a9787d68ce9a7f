"""``torch._higher_order_ops.scan``."""

from ..func._control import scan as scan
