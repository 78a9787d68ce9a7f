"""``torch.fx.proxy``: the names of traced values, which are not here."""

from . import Proxy as Proxy
