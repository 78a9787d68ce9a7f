"""``torch._vmap_internals``: the old names of `torch.func.vmap`."""

import functools
from collections.abc import Callable
from typing import Any

from .func import vmap as _of_func
from .func._level import RANDOM as _RANDOM

__all__ = ["vmap"]


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0) -> Callable[..., Any]:
    """As `torch.func.vmap` (deprecated in PyTorch)."""
    return _vmap(func, in_dims, out_dims)


def _vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, allow_none_pass_through: bool = False
) -> Callable[..., Any]:
    """As `vmap`; results that are None stay so in any case."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return _of_func(func, in_dims, out_dims)(*args, **kwargs)
        except RuntimeError as error:
            if str(error) == _RANDOM:  # which these could not allow
                raise RuntimeError(
                    "vmap: We do not yet support calling random operations inside of vmap. Please perform random "
                    "operations outside of vmap as a workaround"
                ) from error
            raise

    return wrapped
