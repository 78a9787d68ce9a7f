"""``torch.__future__``: how `Module.to` and its kind replace parameters."""

from __future__ import annotations

from .nn._conversion import ways as _ways

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion",
]  # fmt: skip


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether a conversion of a module (`Module.to`, `Module.double`, ...) gives it new parameters. By default a
    parameter stays the object that it is, and its ``.data`` changes.

    Optimizers and others keep the old parameters, which do not change.

    Args:
        value: True for new parameters.

    Example:
        >>> import functorch_port as torch
        >>> torch.__future__.set_overwrite_module_params_on_conversion(True)
        >>> net = torch.nn.Linear(2, 1)
        >>> old = net.weight
        >>> net.double().weight is old, old.dtype
        (False, torch.float32)
        >>> torch.__future__.set_overwrite_module_params_on_conversion(False)

    Reference: https://docs.pytorch.org/docs/stable/future_mod.html
    """
    _ways.overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    """What `set_overwrite_module_params_on_conversion` was told; False by default."""
    return _ways.overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether a conversion of a module swaps its parameters with converted ones, by `torch.utils.swap_tensors`. It
    counts more than `set_overwrite_module_params_on_conversion`.

    Args:
        value: True for swaps. A graph that was recorded before the conversion cannot be walked back any more then.

    Reference: https://docs.pytorch.org/docs/stable/future_mod.html
    """
    _ways.swap = value


def get_swap_module_params_on_conversion() -> bool:
    """What `set_swap_module_params_on_conversion` was told; False by default."""
    return _ways.swap
