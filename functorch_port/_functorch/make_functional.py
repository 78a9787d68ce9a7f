"""Modules as functions, as functorch had them; `torch.func.functional_call` replaces them.

Reference: https://docs.pytorch.org/docs/stable/func.migrating.html
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import functorch_port as torch
from functorch_port import nn
from functorch_port._tensor.tensor import Tensor
from functorch_port.func import functional_call

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "make_functional",
    "make_functional_with_buffers",
]


class FunctionalModuleWithBuffers(nn.Module):
    """What `make_functional_with_buffers` returns: called with parameters, buffers and the module's arguments.

    Attributes:
        stateless_model: a copy of the module, whose tensors are on the meta device.
        param_names, buffer_names: their names, in the order of the tensors that it is called with.
    """

    def __init__(self, model: nn.Module, param_names: Iterable[str], buffer_names: Iterable[str]) -> None:
        super().__init__()
        self.stateless_model = model
        self.param_names, self.buffer_names = tuple(param_names), tuple(buffer_names)

    def forward(self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        """The module's result with these tensors."""
        given = dict(zip((*self.param_names, *self.buffer_names), (*params, *buffers), strict=True))
        return functional_call(self.stateless_model, given, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """What `make_functional` returns: called with parameters and the module's arguments."""

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """The module's result with these parameters."""
        return super().forward(params, (), *args, **kwargs)


def _taken_apart(
    kind: type[FunctionalModuleWithBuffers], model: nn.Module, disable_autograd_tracking: bool
) -> tuple[Any, tuple[Tensor, ...], tuple[Tensor, ...]]:
    model = copy.deepcopy(model)
    tables = dict(model.named_parameters()), dict(model.named_buffers())
    params, buffers = (tuple([_moved_out(tensor) for tensor in table.values()]) for table in tables)
    if disable_autograd_tracking:
        for tensor in params:
            tensor.requires_grad_(False)  # type: ignore[attr-defined]
    return kind(model, *tables), params, buffers


def _moved_out(tensor: Tensor) -> Tensor:
    """The tensor of a module as one of its own; the module's is left on the meta device."""
    out: Any = tensor.detach().requires_grad_(tensor.requires_grad)  # type: ignore[attr-defined]
    out = nn.Parameter(out, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else out
    tensor.data = torch.empty_like(tensor, device="meta")  # type: ignore[attr-defined]
    return out  # type: ignore[no-any-return]


def make_functional(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, Any]:
    """A module without buffers as a function, and its parameters.

    Args:
        model: the module, which stays as it is: the parameters are copies.
        disable_autograd_tracking: whether the parameters are not to require a gradient.

    Returns:
        ``(fmodel, params)``, for ``fmodel(params, *args)``.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port._functorch.make_functional import make_functional
        >>> fmodel, params = make_functional(torch.nn.Linear(2, 1, bias=False))
        >>> fmodel((torch.ones(1, 2),), torch.tensor([1., 2.]))
        tensor([3.])

    Reference: https://docs.pytorch.org/docs/stable/func.migrating.html
    """
    if next(iter(model.buffers()), None) is not None:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    made, params, _ = _taken_apart(FunctionalModule, model, disable_autograd_tracking)
    return made, params


def make_functional_with_buffers(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, Any, Any]:
    """As `make_functional`, with buffers: ``(fmodel, params, buffers)``, for ``fmodel(params, buffers, *args)``.

    Reference: https://docs.pytorch.org/docs/stable/func.migrating.html
    """
    return _taken_apart(FunctionalModuleWithBuffers, model, disable_autograd_tracking)


def combine_state_for_ensemble(models: Sequence[nn.Module]) -> tuple[FunctionalModuleWithBuffers, Any, Any]:
    """Modules of one class as a function of one of them, and their parameters and buffers, stacked for `vmap`.

    Raises:
        RuntimeError: there is none, or they differ in class or training mode.

    Reference: https://docs.pytorch.org/docs/stable/func.migrating.html
    """
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to have the same training/eval mode."
        )
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    made = [make_functional_with_buffers(m) for m in models]
    params, buffers = (
        tuple([torch.stack(tensors).detach() for tensors in zip(*group)])
        for group in ([m[1] for m in made], [m[2] for m in made])
    )
    return made[0][0], params, buffers
