"""Registration of parameters, buffers and children as attributes of a `Module`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .._array import tracing
from .._base import inside
from .._tensor.tensor import Tensor
from . import _hooks as hooks
from ._conversion import typename
from .parameter import Buffer

if TYPE_CHECKING:
    from ._module import Module


def check_new_name(module: Module, what: str, name: Any, kind: str) -> None:
    if kind not in module.__dict__:
        raise AttributeError(f"cannot assign {what} before Module.__init__() call")
    if not isinstance(name, str):
        raise TypeError(f"{what} name should be a string. Got {typename(name)}")
    if "." in name:
        raise KeyError(f'{what} name can\'t contain "."')
    if name == "":
        raise KeyError(f'{what} name can\'t be empty string ""')
    if hasattr(module, name) and name not in module.__dict__[kind]:
        raise KeyError(f"attribute '{name}' already exists")


def refuse(module: Module, name: str, value: Any, kind: str, what: str, expected: str) -> None:
    """Raise for a value of another type than the parameter or child registered as `name`."""
    if value is not None and name in module.__dict__[kind]:
        raise TypeError(f"cannot assign '{typename(value)}' as {what} '{name}' ({expected} expected)")


def unfile(module: Module, name: str, keep: str) -> None:
    """Remove the attribute `name` from all dicts except `keep`, which gets the new value."""
    fields = module.__dict__
    fields.pop(name, None)
    for kind in ("_parameters", "_buffers", "_modules"):
        if kind != keep:
            fields[kind].pop(name, None)
    if keep != "_buffers":
        fields["_non_persistent_buffers_set"].discard(name)


def may_replace(old: Tensor | None, new: Tensor | None) -> None:
    if old is not None and tracing.in_jax():
        inside.may_rebind(old, new, "is replaced in its module")


def set_child(module: Module, name: str, child: Module | None) -> None:
    module._modules[name] = hooks.on_registration(hooks.globals_.module_registration, module, name, child)
    tracing.bump_epoch()


def may_be_buffer(value: Any) -> bool:
    """Whether a value is a tensor, or an object of a class that stands for one, or None."""
    return value is None or isinstance(value, Tensor) or hasattr(value, "__torch_function__")


def set_buffer(module: Module, name: str, value: Any) -> None:
    if not may_be_buffer(value):
        expected = "torch.nn.Buffer, torch.Tensor or None"
        raise TypeError(f"cannot assign '{typename(value)}' as buffer '{name}' ({expected} expected)")
    if isinstance(value, Buffer):
        persistent = value.persistent
    else:
        persistent = name not in module._non_persistent_buffers_set
    if persistent:  # a subclass may override register_buffer without this argument
        module.register_buffer(name, value)
    else:
        module.register_buffer(name, value, False)


def named_members(
    module: Module, get_members: Callable[..., Any], prefix: str, recurse: bool, remove_duplicate: bool
) -> Iterator[tuple[str, Any]]:
    """The members of a module and, with ``recurse``, of those in it, by their full names."""
    seen: set[int] = set()
    modules = module.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
    for path, one in modules if recurse else [(prefix, module)]:
        for name, member in get_members(one):
            if member is None or id(member) in seen:
                continue
            if remove_duplicate:
                seen.add(id(member))
            yield (f"{path}.{name}" if path else name), member
