"""Weight normalization as a forward pre-hook, PyTorch's older form (`parametrizations` has the newer one)."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

from ..._run.bind import function
from ..._tensor.tensor import Tensor
from .._module import Module
from ..parameter import Parameter, UninitializedParameter

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]

M = TypeVar("M", bound=Module)
_normed, _norm = function("_weight_norm"), function("norm_except_dim")


class WeightNorm:
    """Forward pre-hook that sets ``module.<name>`` from ``<name>_g`` and ``<name>_v``.

    Args:
        name: name of the parameter.
        dim: the dimension along which each slice has its own norm; None for one norm of the whole tensor.
    """

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """The weight from magnitude and direction."""
        return _normed(getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g"), self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Split the parameter and register the hook."""
        warnings.warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        norm = WeightNorm(name, dim)
        weight = getattr(module, name)
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. "
                "Make sure to run the dummy forward before applying weight normalization"
            )
        delattr(module, name)
        module.register_parameter(f"{name}_g", Parameter(_norm(weight, 2, norm.dim).data))
        module.register_parameter(f"{name}_v", Parameter(weight.data))
        setattr(module, name, norm.compute_weight(module))
        module.register_forward_pre_hook(norm)
        return norm

    def remove(self, module: Module) -> None:
        """Turn the weight back into a parameter."""
        weight = self.compute_weight(module)
        for name in (self.name, f"{self.name}_g", f"{self.name}_v"):
            delattr(module, name)
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Deprecated weight normalization: split a parameter into magnitude ``<name>_g`` and direction ``<name>_v``.

    Args:
        module: the module.
        name: name of the parameter.
        dim: the dimension along which each slice has its own norm; None for one norm of the whole tensor.

    Returns:
        The module.

    Example:
        >>> import functorch_port as torch
        >>> import warnings
        >>> warnings.simplefilter("ignore")
        >>> torch.nn.utils.weight_norm(torch.nn.Linear(20, 40)).weight_g.size()
        torch.Size([40, 1])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.weight_norm.html
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Remove `weight_norm` from a module.

    Raises:
        ValueError: if the parameter has no weight norm.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.remove_weight_norm.html
    """
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
