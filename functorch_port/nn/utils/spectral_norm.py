"""Spectral normalization as a forward pre-hook, PyTorch's older form (`parametrizations` has the newer one)."""

from __future__ import annotations

from typing import Any, TypeVar

from ..._run.bind import function
from ..._tensor.grad_mode import no_grad
from ..._tensor.tensor import Tensor
from .. import functional as F
from .._module import Module
from ..modules.conv import _ConvNd
from ..parameter import Parameter, UninitializedParameter

__all__ = [
    "SpectralNorm",
    "SpectralNormLoadStateDictPreHook",
    "SpectralNormStateDictHook",
    "remove_spectral_norm",
    "spectral_norm",
]

M = TypeVar("M", bound=Module)
_iterated = function("_power_method")


def output_dimension(module: Module) -> int:
    """The output dimension of a weight."""
    return 1 if isinstance(module, _ConvNd) and module.transposed else 0


class SpectralNorm:
    """Forward pre-hook that sets ``module.<name>`` to ``<name>_orig`` divided by its largest singular value.

    Args:
        name: name of the parameter.
        n_power_iterations: power iterations at every call in training mode.
        dim: the output dimension of the weight.
        eps: lower bound of the norms, to avoid division by zero.
    """

    _version = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight as a matrix with one row per output."""
        if self.dim != 0:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.reshape(weight.size(0), -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The normalized weight; ``do_power_iteration`` first updates the buffers ``<name>_u`` and ``<name>_v``."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                new_u, new_v = _iterated(matrix, u, v, self.n_power_iterations, self.eps, right_first=True)
                u.copy_(new_u)
                v.copy_(new_v)
            u, v = new_u, new_v  # not the buffers, which the next call changes
        return weight / function("dot")(u, matrix.mv(v))

    def remove(self, module: Module) -> None:
        """Turn the weight back into a parameter."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for name in (self.name, f"{self.name}_u", f"{self.name}_v", f"{self.name}_orig"):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Replace the parameter and register the hooks."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        norm = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. "
                "Make sure to run the dummy forward before applying spectral normalization"
            )
        with no_grad():
            u, v = (
                F.normalize(weight.new_empty(n).normal_(0, 1), dim=0, eps=eps)
                for n in norm.reshape_weight_to_matrix(weight).size()
            )
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        setattr(module, name, weight.data)  # a plain attribute, so that code that looks for it finds it
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(norm)
        module._register_state_dict_hook(SpectralNormStateDictHook(norm))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(norm))
        return norm


class SpectralNormLoadStateDictPreHook:
    """Upgrade state dicts from before version 1, which hold the normalized weight and no ``<name>_v``."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        norm = self.fn
        version = local_metadata.get("spectral_norm", {}).get(f"{norm.name}.version")
        if version is not None and version >= 1:
            return
        key = prefix + norm.name
        new_parts = all(f"{key}_{part}" in state_dict for part in ("orig", "u", "v"))
        if version is None and new_parts and key not in state_dict:
            return  # no metadata, but a dict of version 1
        missing = [name for name in (f"{key}_orig", key, f"{key}_u") if name not in state_dict]
        if missing:
            missing_keys.extend(missing if strict else [])
            return
        with no_grad():
            original, weight = state_dict[f"{key}_orig"], state_dict.pop(key)
            matrix = norm.reshape_weight_to_matrix(original)
            u, sigma = state_dict[f"{key}_u"], (original / weight).mean()
            v = (matrix.t().mm(matrix).pinverse() @ (matrix.t() @ u.unsqueeze(1))).squeeze(1)
            state_dict[f"{key}_v"] = v * (sigma / function("dot")(u, matrix.mv(v)))


class SpectralNormStateDictHook:
    """Store the version in the metadata of a state dict."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = f"{self.fn.name}.version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Spectral normalization: divide a parameter by its largest singular value, estimated by power iteration.

    Args:
        module: the module.
        name: name of the parameter.
        n_power_iterations: power iterations at every call in training mode.
        eps: lower bound of the norms, to avoid division by zero.
        dim: the output dimension of the weight; default 1 for transposed convolutions, else 0.

    Returns:
        The module.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.utils.spectral_norm(torch.nn.Linear(20, 40)).weight_u.size()
        torch.Size([40])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.spectral_norm.html
    """
    dim = output_dimension(module) if dim is None else dim
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Remove `spectral_norm` from a module.

    Raises:
        ValueError: if the parameter has no spectral norm.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.remove_spectral_norm.html
    """
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    _drop(module._state_dict_hooks, SpectralNormStateDictHook, name)
    _drop(module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook, name)
    return module


def _drop(hooks: dict[int, Any], kind: type, name: str) -> None:
    for key, hook in list(hooks.items()):
        hook = getattr(hook, "hook", hook)
        if isinstance(hook, kind) and hook.fn.name == name:  # type: ignore[attr-defined]
            del hooks[key]
            return
