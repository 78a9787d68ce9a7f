"""``torch._vmap_internals``: the old names of `torch.func.vmap`."""

from collections.abc import Callable
from typing import Any

from .func._vmap import old_vmap as _of_func

__all__ = ["vmap"]


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0) -> Callable[..., Any]:
    """As `torch.func.vmap` (deprecated in PyTorch)."""
    return _of_func(func, in_dims, out_dims)


def _vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, allow_none_pass_through: bool = False
) -> Callable[..., Any]:
    """As `vmap`; results that are None stay so in any case."""
    return _of_func(func, in_dims, out_dims)
