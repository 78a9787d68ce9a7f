"""State dicts of modules: the functions behind `Module.state_dict` and `Module.load_state_dict`."""

from __future__ import annotations

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .._array import placed, tracing
from .._base import agreement
from .._tensor.grad_mode import no_grad
from .._tensor.tensor import Tensor
from .parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from ._module import Module

EXTRA_STATE_KEY = "_extra_state"

UNREACHABLE = (
    "Reached a code path in Module.{}() that should never be called. Please file an issue at "
    "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml to report this bug."
)


class _IncompatibleKeys(namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """The result of `load_state_dict`."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


# ---------------------------------------------------------------- saving


def save(module: Module, destination: Any, prefix: str, keep_vars: bool) -> Any:
    """Fill `destination` from `module` and its submodules, and call their hooks."""
    if destination is None:
        destination = OrderedDict()
        destination._metadata = OrderedDict()
    local_metadata = {"version": module._version}
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = local_metadata
    for hook in module._state_dict_pre_hooks.values():
        hook(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook in module._state_dict_hooks.values():
        replaced = hook(module, destination, prefix, local_metadata)
        if replaced is None:
            continue
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError("state_dict post-hook must return None")
        destination = replaced
    return destination


def save_own(module: Module, destination: Any, prefix: str, keep_vars: bool) -> None:
    """Save the tensors of one module without those of its children."""
    for name, tensor in _own_state(module).items():
        destination[prefix + name] = tensor if keep_vars else tensor.detach()
    if _overrides(module, "get_extra_state"):
        destination[prefix + EXTRA_STATE_KEY] = module.get_extra_state()


def _own_state(module: Module) -> dict[str, Tensor]:
    """The parameters and persistent buffers that are not None."""
    state: dict[str, Any] = dict(module._parameters)
    state |= {n: b for n, b in module._buffers.items() if n not in module._non_persistent_buffers_set}
    return {name: tensor for name, tensor in state.items() if tensor is not None}


#: the class `Module`; `module.py` sets it
base: Any = None


def _overrides(module: Module, method: str) -> bool:
    return getattr(type(module), method) is not getattr(base, method)


# ---------------------------------------------------------------- loading


def load(module: Module, state_dict: Mapping[str, Any], strict: bool, assign: bool) -> _IncompatibleKeys:
    """Load a state dict; if it does not fit, restore all parameters and buffers and raise."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    if placed.several and any(placed.is_shared(t._storage) for _, _, t, *_ in _snapshot(module)):
        _check_alike(state_dict, strict, assign)
    metadata = getattr(state_dict, "_metadata", None)
    state_dict = OrderedDict(state_dict)
    if metadata is not None:
        state_dict._metadata = metadata
    missing: list[str] = []
    unexpected: list[str] = []
    errors: list[str] = []

    def load_tree(part: Module, local: Mapping[str, Any], prefix: str) -> None:
        local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
        if assign:
            local_metadata["assign_to_params_buffers"] = assign
        part._load_from_state_dict(local, prefix, local_metadata, True, missing, unexpected, errors)
        for name, child in part._modules.items():
            if child is not None:
                child_prefix = f"{prefix}{name}."
                load_tree(child, {k: v for k, v in local.items() if k.startswith(child_prefix)}, child_prefix)
        keys = _IncompatibleKeys(missing, unexpected)
        for hook in part._load_state_dict_post_hooks.values():
            if hook(part, keys) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                    "values, if incompatible_keys need to be modified, it should be done inplace."
                )

    with all_or_nothing(module):
        load_tree(module, state_dict, "")
        if strict:
            for keys, what in ((unexpected, "Unexpected"), (missing, "Missing")):
                if keys:
                    listed = ", ".join(f'"{key}"' for key in keys)
                    errors.insert(0, f"{what} key(s) in state_dict: {listed}. ")
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{listed}")
    return _IncompatibleKeys(missing, unexpected)


def _check_alike(state_dict: Mapping[str, Any], strict: bool, assign: bool) -> None:
    """Refuse to load different entries into a module that is on the devices of all processes: these load together."""
    kinds = {
        f"{key!r}": f"{value.dtype} of shape {list(value.shape)}"
        if isinstance(value, Tensor) and not is_lazy(value)
        else type(value).__name__
        for key, value in state_dict.items()
    }
    agreement.alike("load_state_dict", {"strict": strict, "assign": assign, **kinds})


@contextmanager
def all_or_nothing(module: Module) -> Iterator[None]:
    """Restore the parameters and buffers of the module if the ``with`` block raises."""
    before = list(_snapshot(module))
    try:
        yield
    except BaseException:
        _restore(before)
        raise


def _snapshot(module: Module) -> Iterator[tuple[dict[str, Any], str, Tensor, Any, Any]]:
    """(dict, name, tensor, value, what tells of writes) of all parameters and buffers, without copies, since arrays are
    immutable.

    The value of an uninitialized tensor is its type, Storage and view.
    """
    for part in module.modules():
        for filed in (part._parameters, part._buffers):
            for name, tensor in filed.items():
                if tensor is None:
                    continue
                lazy = (type(tensor), tensor._storage, tensor._view) if is_lazy(tensor) else None
                value = None if tensor._sparse else lazy or tensor._value
                yield filed, name, tensor, value, (tensor._storage, tensor._storage.version)


def _restore(before: list[tuple[dict[str, Any], str, Tensor, Any, Any]]) -> None:
    for filed, name, tensor, value, written in before:
        filed[name] = tensor
        if value is None:  # a sparse tensor; only its last write can fail
            continue
        if isinstance(value, tuple):
            tensor.__class__, tensor._storage, tensor._view = value
        elif (tensor._storage, tensor._storage.version) != written:
            tensor._set_value(value)
    tracing.bump_epoch()


def load_own(
    module: Module,
    state_dict: Any,
    prefix: str,
    local_metadata: dict[str, Any],
    strict: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
) -> None:
    """Load the tensors of one module without those of its children."""
    for hook in module._load_state_dict_pre_hooks.values():
        hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
    own = _own_state(module)
    assign = local_metadata.get("assign_to_params_buffers", False)
    for name, tensor in own.items():
        key = prefix + name
        if key not in state_dict:
            if strict:
                missing_keys.append(key)
            continue
        problem = _load_tensor(module, name, tensor, key, state_dict[key], assign)
        if problem is not None:
            error_msgs.append(problem)
    extra_key = prefix + EXTRA_STATE_KEY
    if _overrides(module, "set_extra_state"):
        if extra_key in state_dict:
            module.set_extra_state(state_dict[extra_key])
        elif strict:
            missing_keys.append(extra_key)
    elif strict and extra_key in state_dict:
        unexpected_keys.append(extra_key)
    if strict:
        below = [key for key in state_dict if key.startswith(prefix) and key != extra_key]
        unexpected_keys += [key for key in below if not _is_known(key[len(prefix) :], own, module)]


def _is_known(rest: str, own: Mapping[str, Any], module: Module) -> bool:
    head, dot, _ = rest.partition(".")
    return head in module._modules if dot else head in own


def _load_tensor(module: Module, name: str, tensor: Tensor, key: str, new: Any, assign: bool) -> str | None:
    """Copy `new` to `module.name`, or replace it by `new`; return an error message if that fails."""
    if not isinstance(new, Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
            f"but received {type(new)}"
        )
    if is_lazy(tensor):
        if assign:
            setattr(module, name, new)
        elif not is_lazy(new):
            tensor.copy_(new)  # raises
        return None
    if tensor.ndim == 0 and new.ndim == 1:  # a scalar in a checkpoint of PyTorch 0.3
        new = new[0]
    if new.shape != tensor.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {new.shape} from checkpoint, "
            f"the shape in current model is {tensor.shape}."
        )
    if tensor.is_meta and not new.is_meta and not assign:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
            f"model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to "
            f"their corresponding key in the module instead of copying them in place?)",
            stacklevel=2,
        )
    try:
        with no_grad():
            if assign:
                setattr(module, name, _as_replacement(tensor, new))
            else:
                tensor.copy_(new)
    except Exception as error:
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are {tensor.size()} and whose '
            f"dimensions in the checkpoint are {new.size()}, an exception occurred : {error.args}."
        )
    return None


def _as_replacement(old: Tensor, new: Tensor) -> Tensor:
    if not isinstance(old, Parameter):
        return new
    if not isinstance(new, Parameter):
        return Parameter(new, requires_grad=old.requires_grad)
    return new.requires_grad_(old.requires_grad)
