"""Lazy modules: they infer the size of their input from the first batch."""

from __future__ import annotations

import itertools
from typing import Any

from ..._array import tracing
from .._module import Module
from ..parameter import UninitializedParameter, is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Mixin for modules whose parameters get their shapes and initial values in the first call.

    A subclass of this mixin and a module creates its unknown parameters as `UninitializedParameter` or
    `UninitializedBuffer` and defines `initialize_parameters`, which receives the arguments of the first call. After
    the first call the object's class becomes ``cls_to_become``, if that is set. State dicts can be saved and loaded
    before it; loading known shapes initializes the parameters. Create the optimizer after the first call.

    Example:
        >>> import functorch_port as torch
        >>> net = torch.nn.LazyLinear(3)
        >>> net
        LazyLinear(in_features=0, out_features=3, bias=True)
        >>> _ = net(torch.ones(4, 5))
        >>> net
        Linear(in_features=5, out_features=3, bias=True)

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.modules.lazy.LazyModuleMixin.html
    """

    cls_to_become: type[Module] | None = None
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        module: Any = self
        self._load_hook = module._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = module.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _own_tensors(self) -> list[tuple[str, Any]]:
        both = itertools.chain(self._parameters.items(), self._buffers.items())
        return [(name, value) for name, value in both if value is not None]

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        skipped = self._non_persistent_buffers_set  # type: ignore[attr-defined]
        for name, value in self._own_tensors():
            if name not in skipped:
                destination[prefix + name] = value if is_lazy(value) or keep_vars else value.detach()

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *_: Any) -> None:
        """Materialize uninitialized tensors with the shapes in the dict, before the values are loaded."""
        for name, value in self._own_tensors():
            new = state_dict.get(prefix + name)
            if is_lazy(value) and new is not None and not is_lazy(new):
                value.materialize(new.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Initialize all parameters and buffers from the arguments of the first call."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of this module (not of its children) has no shape yet."""
        return any(is_lazy(value) for _, value in self._own_tensors())

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        """Forward pre-hook that runs once and removes itself."""
        with tracing.outside():  # also in a trace, the first values are real ones
            module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")  # type: ignore[attr-defined]
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become
        if tracing.overlay:
            tracing.overlay.note_changed(module)

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. "
            "Run a dummy forward pass to correctly initialize the modules"
        )


def _wait_for_shapes(module: Any, wanted: dict[str, bool], device: Any, dtype: Any) -> None:
    """Register uninitialized parameters in place of the parameters."""
    for name, is_wanted in wanted.items():
        if is_wanted:
            setattr(module, name, UninitializedParameter(device=device, dtype=dtype))
