"""``torch._higher_order_ops.scan``."""

from ..func.control import scan as scan
