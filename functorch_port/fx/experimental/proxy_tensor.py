"""``torch.fx.experimental.proxy_tensor``: the names of PyTorch's tracer of operations, which is not here."""

from ..._base.refused import refused_class, refused_function
from .. import _INSTEAD

__all__ = ["ProxyTorchDispatchMode", "get_proxy_mode", "make_fx"]

make_fx = refused_function("torch.fx.experimental.proxy_tensor.make_fx", _INSTEAD)
ProxyTorchDispatchMode = refused_class("torch.fx.experimental.proxy_tensor.ProxyTorchDispatchMode", _INSTEAD)


def get_proxy_mode() -> None:
    """Return None: there is no such mode."""
