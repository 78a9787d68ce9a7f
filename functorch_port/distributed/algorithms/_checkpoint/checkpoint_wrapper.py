"""Modules that do not keep their activations: the backward pass computes them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Any

from ....autograd.graph import save_on_cpu
from ....nn._module import Module
from ....utils.checkpoint import checkpoint
from ..._wrapper import Wrapper
from ...fsdp.wrap import lambda_auto_wrap_policy, wrap_by

__all__ = [
    "ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "OffloadWrapper", "apply_activation_checkpointing",
    "checkpoint_wrapper", "offload_wrapper",
]  # fmt: skip

_WRAPPED = "_checkpoint_wrapped_module"
_PREFIX = f"{_WRAPPED}."


class CheckpointImpl(Enum):
    """The value of ``use_reentrant`` of `utils.checkpoint.checkpoint`."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(Wrapper):
    """Base of modules that wrap another one, with its attributes and its names in `state_dict`."""

    wrapped = _WRAPPED

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(_without_prefix)
        self.register_load_state_dict_pre_hook(_with_prefix)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """As of the wrapped module."""
        for name, param in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, ""), param


class OffloadWrapper(ActivationWrapper):
    """A module whose saved activations are on the host; see `autograd.graph.save_on_cpu`."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """A module that does not keep its activations; `checkpoint_wrapper` makes it."""

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        reentrant = checkpoint_impl == CheckpointImpl.REENTRANT
        how = partial(checkpoint, use_reentrant=reentrant) if checkpoint_fn is None else checkpoint_fn
        self.checkpoint_fn = partial(how, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        module = self._checkpoint_wrapped_module
        if self.checkpoint_impl == CheckpointImpl.REENTRANT and kwargs:
            count, names = len(args), [*kwargs]

            def packed(*given: Any) -> Any:
                return module(*given[:count], **dict(zip(names, given[count:])))

            return self.checkpoint_fn(packed, *args, *kwargs.values())
        return self.checkpoint_fn(module, *args, **kwargs)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """A wrapper of a module that does not keep its activations: the backward pass computes them again.

    Args:
        module: the module.
        checkpoint_impl: the value of ``use_reentrant``.
        checkpoint_fn: in place of `utils.checkpoint.checkpoint`.
        checkpoint_fn_kwargs: keyword arguments of that.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
        >>> list(checkpoint_wrapper(torch.nn.Linear(1, 1)).state_dict())
        ['weight', 'bias']
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def offload_wrapper(module: Module) -> Module:
    """A wrapper of a module whose saved activations are on the host."""
    return OffloadWrapper(module)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[..., Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Any = None,
) -> None:
    """Wrap modules inside of a model, in place.

    Args:
        model: the model, which is not wrapped itself.
        checkpoint_wrapper_fn: wraps a module.
        check_fn: whether to wrap a module.
        auto_wrap_policy: a policy of `fsdp.wrap` that counts more than ``check_fn``.
    """
    policy = (
        partial(lambda_auto_wrap_policy, lambda_fn=check_fn) if auto_wrap_policy is None else auto_wrap_policy
    )
    wrap_by(model, policy, checkpoint_wrapper_fn, set(), set(), {})


def _without_prefix(module: Module, state: Any, prefix: str, metadata: Any) -> Any:
    _renamed(state, prefix + _PREFIX, prefix)
    return state


def _with_prefix(module: Module, state: Any, prefix: str, *rest: Any) -> None:
    _renamed(state, prefix, prefix + _PREFIX)


def _renamed(state: Any, old: str, new: str) -> None:
    """Names that begin with one prefix get another."""
    if old != new:
        for key in [key for key in state if key.startswith(old)]:
            state[new + key[len(old) :]] = state.pop(key)
