"""Parametrizations: tensors of a module that are computed when they are read (`torch.nn.utils.parametrize`)."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..._base import inside
from ..._tensor.grad_mode import no_grad
from ..._tensor.tensor import Tensor
from .._module import Module
from ..modules.container import ModuleDict, ModuleList
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_depth = 0  # how many `cached` blocks are open
#: (module, tensor name, trace) -> value; what one trace computes is no other's
_cache: dict[tuple[int, str, Any], Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor only once inside the ``with`` block, when it is first read.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.nn.utils import parametrizations, parametrize
        >>> cell = parametrizations.weight_norm(torch.nn.Linear(3, 3))
        >>> with parametrize.cached():
        ...     cell.weight is cell.weight
        True

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrize.cached.html
    """
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _cache.clear()


def _file(module: Module, name: str, value: Any) -> None:
    """Register a tensor as a parameter or a buffer, whichever it is."""
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def _set(target: Tensor, value: Tensor) -> None:
    """Copy the values of ``value`` into ``target``, which stays the same object for optimizers."""
    target.data = value.detach()


def _is_sequence_of_tensors(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _check_unchanged(what: str, flag: str, before: tuple[str, Any], after: tuple[str, Any]) -> None:
    """Raise if registration changes the tensor's dtype or shape."""
    if before[1] != after[1]:
        raise ValueError(
            f"Registering a parametrization may not change the {what} of the tensor, unless {flag} flag is enabled.\n"
            f"{before[0]}: {before[1]}\n{after[0]}: {after[1]}"
        )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in order, and their original tensor or tensors.

    `register_parametrization` creates it as ``module.parametrizations[name]``. The tensor is stored as ``original``; if
    the ``right_inverse`` of the first parametrization returns several tensors, as ``original0``, ``original1``, ...

    Args:
        modules: the parametrizations.
        original: the parameter or buffer.
        unsafe: allow a change of dtype and shape, without any check.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrize.ParametrizationList.html
    """

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        new: Any = self._first_originals(original)
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            self._keep_as_original(original, new)
        else:
            for i, tensor in enumerate(new):
                self._keep_one_of_several(i, original, tensor)
        if not unsafe:
            self._check_result(shape, dtype)

    def _first_originals(self, original: Tensor) -> Any:
        """Apply the right inverses to the tensor; a missing one counts as the identity."""
        new: Any = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass
        if not isinstance(new, Tensor) and not _is_sequence_of_tensors(new):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        return new

    def _keep_as_original(self, original: Tensor, new: Tensor) -> None:
        for what in ("dtype", "device"):
            before, after = getattr(original, what), getattr(new, what)
            if before != after:
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                    f"original.{what}: {before}\nright_inverse(original).{what}: {after}"
                )
        with no_grad():
            _set(original, new)
        _file(self, "original", original)

    def _keep_one_of_several(self, i: int, original: Tensor, tensor: Any) -> None:
        if not isinstance(tensor, Tensor):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got element {i} of the sequence with type {type(tensor).__name__}."
            )
        if isinstance(original, Parameter):
            tensor = Parameter(tensor, original.requires_grad)
        tensor.requires_grad_(original.requires_grad)
        _file(self, f"original{i}", tensor)

    def _check_result(self, shape: Any, dtype: Any) -> None:
        result = self()
        if not isinstance(result, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
        names = ("unparametrized {}", "parametrized {}")
        for what, before, after in (("dtype", dtype, result.dtype), ("shape", shape, result.shape)):
            first, second = (name.format(what) for name in names)
            _check_unchanged(what, "`unsafe`", (first, before), (second, after))

    def right_inverse(self, value: Tensor) -> None:
        """Assign ``value`` to the parametrized tensor: apply the right inverses and store the result as originals."""
        new: Any = value
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                new = module.right_inverse(new)
            if self.is_tensor:
                self._assign_one(new)
            else:
                self._assign_several(new)

    def _assign_one(self, new: Any) -> None:
        if not isinstance(new, Tensor):
            raise ValueError(f"`right_inverse` should return a tensor. Got {type(new).__name__}")
        if new.dtype != self.original.dtype:
            raise ValueError(
                f"The tensor returned by `right_inverse` has dtype {new.dtype} "
                f"while `original` has dtype {self.original.dtype}"
            )
        _set(self.original, new)

    def _assign_several(self, new: Any) -> None:
        if not _is_sequence_of_tensors(new):
            raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(new).__name__}.")
        if len(new) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                f"Got a sequence of length {len(new)}."
            )
        for i, tensor in enumerate(new):
            original = getattr(self, f"original{i}")
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors or reference-type opaques. "
                    f"Got element {i} of type {type(tensor).__name__}."
                )
            if original.dtype != tensor.dtype:
                raise ValueError(
                    f"Tensor {i} returned by `right_inverse` has dtype {tensor.dtype} "
                    f"while `original{i}` has dtype {original.dtype}"
                )
            _set(original, tensor)

    def forward(self) -> Any:
        first, *rest = self
        if self.is_tensor:
            value = first(self.original)
        else:
            value = first(*(getattr(self, f"original{i}") for i in range(self.ntensors)))
        for parametrization in rest:
            value = parametrization(value)
        return value


# ---------------------------------------------------------------- the class with properties


def _refuse_pickling(self: Any) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    """A copy with its own class, so that the copies can remove their parametrizations independently."""
    if id(self) in memo:
        return memo[id(self)]
    cls = type(self)
    own: Any = _subclass(cls.__bases__[0], dict(vars(cls)))
    replica = memo[id(self)] = own.__new__(own)
    replica.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return replica


def _subclass(base: type, members: dict[str, Any]) -> type:
    made = {k: v for k, v in members.items() if k not in ("__dict__", "__weakref__", "__doc__")}
    return type(f"Parametrized{base.__name__}", (base,), made)


def _give_own_class(module: Module) -> None:
    members: dict[str, Any] = {"__getstate__": _refuse_pickling}
    if not hasattr(type(module), "__deepcopy__"):
        members["__deepcopy__"] = _deepcopy
    module.__class__ = _subclass(type(module), members)


def _add_property(module: Module, name: str) -> None:
    def get(self: Any) -> Any:
        parametrization = self.parametrizations[name]
        if not _depth:
            return parametrization()
        key = (id(self), name, weakref.ref(inside.top_trace(None)))
        value = _cache.get(key)
        if value is None:
            value = _cache[key] = parametrization()
        return value

    def put(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


# ---------------------------------------------------------------- registering and removing


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Register a parametrization: reading ``module.<tensor_name>`` then returns ``parametrization(original)``.

    The original stays a parameter or buffer, ``module.parametrizations.<tensor_name>.original``, and is the tensor
    that an optimizer trains. Several parametrizations of a tensor are applied in the order of registration. If all of
    them have a ``right_inverse``, the tensor can be assigned to.

    Args:
        module: the module.
        tensor_name: name of the parameter or buffer.
        parametrization: a module that maps the original to the tensor. Its optional ``right_inverse`` maps the tensor
            to the original, or to several originals.
        unsafe: allow a change of dtype or shape, without any check.

    Returns:
        The module, whose class is now a subclass created for it.

    Raises:
        ValueError: if there is no such tensor, or the parametrization changes its dtype or shape.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.nn.utils import parametrize
        >>> class Symmetric(torch.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> net = parametrize.register_parametrization(torch.nn.Linear(3, 3), "weight", Symmetric())
        >>> torch.equal(net.weight, net.weight.T)
        True
        >>> [name for name, _ in net.named_parameters()]
        ['bias', 'parametrizations.weight.original']

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrize.register_parametrization.html
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_another(module, tensor_name, parametrization)
        listed = module.parametrizations[tensor_name]
        listed.append(parametrization)
        listed.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        listed = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_own_class(module)
            module.parametrizations = ModuleDict()
        _add_property(module, tensor_name)
        module.parametrizations[tensor_name] = listed
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def _check_another(module: Module, name: str, parametrization: Any) -> None:
    """Raise if a further parametrization, or its right inverse, changes the dtype or shape."""
    old = getattr(module, name)
    new = parametrization(old)
    if not isinstance(new, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(new).__name__}.")
    for what in ("dtype", "shape"):
        _check_unchanged(
            what,
            "the `unsafe`",
            (f"module.{name}.{what}", getattr(old, what)),
            (f"parametrization(module.{name}).{what}", getattr(new, what)),
        )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(new)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    for what in ("dtype", "shape"):
        if getattr(back, what) != getattr(old, what):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as module.{name}, "
                f"unless the `unsafe` flag is enabled.\nmodule.{name}.{what}: {getattr(old, what)}\n"
                f"returned {what}: {getattr(back, what)}"
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module has a parametrization; with ``tensor_name``, whether that tensor has one.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrize.is_parametrized.html
    """
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Turn a parametrized tensor back into an ordinary parameter or buffer.

    Args:
        module: the module.
        tensor_name: name of the tensor.
        leave_parametrized: keep the current value of the tensor; False restores the original.

    Raises:
        ValueError: if the tensor is not parametrized, or ``leave_parametrized=False`` with several originals.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrize.remove_parametrizations.html
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    listed = module.parametrizations[tensor_name]
    if listed.is_tensor:
        original = listed.original
        if leave_parametrized:
            with no_grad():
                _set(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _file(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of the module before its first parametrization.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrize.type_before_parametrizations.html
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Register the parametrizations of ``from_module`` and their original tensors on ``to_module``.

    Args:
        from_module: the source; without parametrizations, nothing happens.
        to_module: the destination; it is also returned.
        tensor_name: transfer only the parametrizations of this tensor.
    """
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source = from_module.parametrizations[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target = to_module.parametrizations[name]
        originals = ["original"] if source.is_tensor else [f"original{i}" for i in range(source.ntensors)]
        for original in originals:
            setattr(target, original, getattr(source, original))
    return to_module
