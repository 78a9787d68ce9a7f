"""Compatibility functions of `torch.func`: `functionalize`, `debug_unwrap`, `replace_all_batch_norm_modules_`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["debug_unwrap", "functionalize", "replace_all_batch_norm_modules_"]


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return a function that calls ``func``: its in-place operations and views already run as pure functions.

    `functorch_port.functionalize` gives the pure function of a program's state.

    Args:
        func: any function.
        remove: ``"mutations"`` or ``"mutations_and_views"``, which have the same effect here.

    Raises:
        RuntimeError: for any other ``remove``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.func.functionalize.html
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: "
            "'mutations' and 'mutations_and_views'."
        )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapped


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """Return ``tensor`` unchanged: transforms pass plain Tensors, so there is nothing to unwrap."""
    return tensor


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Make all batch norm layers of a module use batch statistics, without running statistics.

    Args:
        root: a module; changed in place.

    Returns:
        ``root``. Its batch norm layers have ``track_running_stats=False`` and no buffers, so that they work in `vmap`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.func.replace_all_batch_norm_modules_.html
    """
    for module in root.modules():
        if getattr(module, "_is_batch_norm", False):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
