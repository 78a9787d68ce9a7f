"""Which modules become units: ``torch.distributed.fsdp.wrap``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ...nn._module import Module
from ...nn.modules.activation import MultiheadAttention
from ...nn.modules.container import ModuleDict, ModuleList

__all__ = [
    "CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap", "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy", "transformer_auto_wrap_policy", "wrap",
]  # fmt: skip


class _Policy:
    """Chooses modules, with the keyword arguments of each."""

    def _run_policy(
        self, root_module: Module, ignored_modules: set[Module], root_kwargs: dict[str, Any]
    ) -> dict[Module, dict[str, Any]]:
        found = {}
        for module in root_module.modules():
            if module not in ignored_modules:
                kwargs = self._kwargs(module)
                if kwargs is not None:
                    found[module] = {**root_kwargs, **kwargs}
        return found

    def _kwargs(self, module: Module) -> dict[str, Any] | None:
        raise NotImplementedError


class ModuleWrapPolicy(_Policy):
    """Every module of some classes.

    Args:
        module_classes: the classes.

    Reference: https://docs.pytorch.org/docs/stable/fsdp.html
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)

    def _kwargs(self, module: Module) -> dict[str, Any] | None:
        return {} if isinstance(module, tuple(self._module_classes)) else None

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return super().__repr__() + f"({self._module_classes})"


class CustomPolicy(_Policy):
    """The modules for which a function returns True, or keyword arguments that differ from those of the root.

    Args:
        lambda_fn: a function of a module.

    Reference: https://docs.pytorch.org/docs/stable/fsdp.html
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def _kwargs(self, module: Module) -> dict[str, Any] | None:
        found = self._lambda_fn(module)
        if not isinstance(found, dict | bool):
            raise ValueError(
                "The lambda_fn passed to CustomPolicy should return "
                f"False/True or a kwarg dict, but it returned {found}"
            )
        return None if not found else found if isinstance(found, dict) else {}


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module."""
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """The modules for which a function returns True."""
    return True if recurse else lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set[type[Module]]
) -> bool:
    """Every module of some classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def _or_policy(module: Module, recurse: bool, nonwrapped_numel: int, policies: Iterable[Any]) -> bool:
    return any(p(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for p in policies)


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Every module with so many elements in parameters that no module below has.

    Args:
        module, recurse, nonwrapped_numel: see `FullyShardedDataParallel`.
        min_num_params: how many.
        force_leaf_modules: classes whose parts are not asked for; `MultiheadAttention` unless given.
        exclude_wrap_modules: classes that are not chosen; containers unless given.
    """
    large = nonwrapped_numel >= min_num_params
    leaves = (
        size_based_auto_wrap_policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules
    )  # type: ignore[attr-defined]
    excluded = (
        size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES  # type: ignore[attr-defined]
        if exclude_wrap_modules is None
        else exclude_wrap_modules
    )
    return large and not isinstance(module, tuple(leaves if recurse else excluded))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {ModuleList, ModuleDict}  # type: ignore[attr-defined]
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {MultiheadAttention}  # type: ignore[attr-defined]

_within: tuple[Any, dict[str, Any]] | None = None


@contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """``with enable_wrap(wrapper_cls=FullyShardedDataParallel):`` `wrap` wraps a module.

    Raises:
        NotImplementedError: within another one.
    """
    global _within
    if _within is not None:
        raise NotImplementedError(
            "You are already within an autowrap context and we currently do not supported nested autowrap."
        )
    _within = wrapper_cls, wrapper_kwargs
    try:
        yield
    finally:
        _within = None


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """A module, wrapped in a `enable_wrap` block.

    Args:
        module: the module.
        wrap_overrides: keyword arguments that count more than those of the block.
    """
    if _within is None:
        return module
    wrapper, kwargs = _within
    return wrapper(module, **{**kwargs, **wrap_overrides})  # type: ignore[no-any-return]


def wrap_by(
    root: Module,
    policy: Any,
    wrapper: Callable[..., Module],
    ignored: set[Module],
    ignored_params: set[Any],
    kwargs: dict[str, Any],
    changed: Callable[[dict[Module, dict[str, Any]]], None] = lambda chosen: None,
) -> None:
    """Wrap the modules below ``root`` that a policy chooses, the inner ones first.

    Args:
        changed: may change which are chosen, for a policy that is no function.
    """
    if isinstance(policy, _Policy):
        chosen = policy._run_policy(root, ignored, kwargs)
        changed(chosen)
        _wrap_chosen(root, chosen, wrapper, {root})
    else:
        _wrap_asked(root, policy, wrapper, ignored, ignored_params, kwargs, True)


def _wrap_chosen(module: Module, chosen: Any, wrapper: Any, seen: set[Module]) -> None:
    for name, child in [*module.named_children()]:
        if child in seen:
            continue
        seen.add(child)
        _wrap_chosen(child, chosen, wrapper, seen)
        if child in chosen:
            setattr(module, name, wrapper(child, **chosen[child]))


def _wrap_asked(
    module: Module, policy: Any, wrapper: Any, ignored: Any, ignored_params: Any, kwargs: Any, root: bool
) -> tuple[Module, int]:
    """The module or its wrapper, and how many elements are in units."""
    size = sum(p.numel() for p in module.parameters() if p not in ignored_params)
    if not policy(module=module, recurse=True, nonwrapped_numel=size):
        return module, 0
    wrapped = 0
    for name, child in [*module.named_children()]:
        if child in ignored:
            continue
        new, count = _wrap_asked(child, policy, wrapper, ignored, ignored_params, kwargs, False)
        if new is not child:
            setattr(module, name, new)
        wrapped += count
    if not root and policy(module=module, recurse=False, nonwrapped_numel=size - wrapped):
        overrides = getattr(module, "_wrap_overrides", {})
        return wrapper(module, **{**kwargs, **overrides}), size
    return module, wrapped
