"""`Module`: PyTorch's contract for parameters, buffers, submodules, hooks, modes and state dicts."""

from __future__ import annotations

import itertools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .._array import executor, tracing
from .._tensor.creation import empty_like
from .._tensor.grad_mode import no_grad
from .._tensor.grad_mode import state as _grad
from .._tensor.tensor import Tensor
from . import _filing, _state_dict, hooks
from ._conversion import converter, typename
from .hooks import RemovableHandle, WrappedHook
from .parameter import Buffer, Parameter

T = TypeVar("T", bound="Module")

__all__ = ["Module"]


class Module:
    """Base class of all neural network modules: a tree of parameters, buffers and child modules with a `forward`.

    Assigning a `Parameter`, a `Module` or a `Buffer` to an attribute files it; anything else is an ordinary attribute.

    Attributes:
        training: whether the module is in training mode (dropout drops, batch norm uses batch statistics).

    Example:
        >>> import functorch_port as torch
        >>> class Net(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.fc = torch.nn.Linear(2, 3)
        ...     def forward(self, x):
        ...         return self.fc(x).relu()
        >>> [name for name, _ in Net().named_parameters()]
        ['fc.weight', 'fc.bias']

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html
    """

    __module__ = "functorch_port.nn.modules.module"  # PyTorch's, which pickles say

    dump_patches: bool = False
    call_super_init: bool = False
    _version: int = 1
    _compiled_call_impl: Callable[..., Any] | None = None

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            name = type(self).__name__
            if kwargs:
                raise TypeError(
                    f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given"
                )
        fields = self.__dict__  # straight into the dict: nothing is filed yet
        fields["training"] = True
        fields["_parameters"] = {}
        fields["_buffers"] = {}
        fields["_non_persistent_buffers_set"] = set()
        for hook_dict in hooks.DICTS:
            fields[hook_dict] = OrderedDict()
            if hook_dict == "_backward_hooks":
                fields["_is_full_backward_hook"] = None
        fields["_modules"] = {}
        tracing.bump_epoch()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    if TYPE_CHECKING:  # that of a subclass may take what it likes
        forward: Callable[..., Any]
    else:

        def forward(self, *input: Any) -> Any:
            """What the module computes; every subclass defines it."""
            raise NotImplementedError(
                f'Module [{type(self).__name__}] is missing the required "forward" function'
            )

    # ---------------------------------------------------------------- attributes

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__
        for kind in ("_parameters", "_buffers", "_modules"):
            filed = fields.get(kind)
            if filed is not None and name in filed:
                return filed[name]
        text = f"'{type(self).__name__}' object has no attribute '{name}'"
        raise AttributeError(text, name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        fields = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in fields:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            _filing.unfile(self, name, keep="_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if "_modules" not in fields:
                raise AttributeError("cannot assign module before Module.__init__() call")
            _filing.refuse(self, name, value, "_parameters", "parameter", "torch.nn.Parameter or None")
            _filing.unfile(self, name, keep="_modules")
            _filing.set_child(self, name, value)
        elif name in fields.get("_parameters", ()):
            _filing.refuse(self, name, value, "_parameters", "parameter", "torch.nn.Parameter or None")
            self.register_parameter(name, value)
        elif name in fields.get("_modules", ()):
            _filing.refuse(self, name, value, "_modules", "child module", "torch.nn.Module or None")
            _filing.set_child(self, name, value)
        elif name in fields.get("_buffers", ()) or isinstance(value, Buffer):
            _filing.set_buffer(self, name, value)
        else:
            if name == "training":
                tracing.bump_epoch()
                if tracing.overlay:
                    tracing.overlay.note_mode(self)
            elif name in tracing.watched:
                tracing.attributes += 1
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(kind, ()):
                del self.__dict__[kind][name]
                self._non_persistent_buffers_set.discard(name)
                tracing.bump_epoch()
                return
        if name in tracing.watched:
            tracing.attributes += 1
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = set(dir(type(self))) | set(self.__dict__)
        names |= set(self._parameters) | set(self._modules) | set(self._buffers)
        return sorted(name for name in names if not name[0].isdigit())

    # ---------------------------------------------------------------- registration

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Files a tensor that is state but not a parameter.

        Args:
            name: the attribute under which it is found.
            tensor: the buffer, or None (then it is left out of `state_dict`).
            persistent: whether it is part of `state_dict`.
        """
        _filing.check_new_name(self, "buffer", name, "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        _filing.may_replace(self._buffers.get(name), tensor)
        self._buffers[name] = hooks.on_registration(hooks.globals_.buffer_registration, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)
        tracing.bump_epoch()

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Files a parameter (or None) under `name`."""
        _filing.check_new_name(self, "parameter", name, "_parameters")
        if param is not None:
            if not isinstance(param, Parameter):
                expected = "torch.nn.Parameter or None"
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}' ({expected} required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    f"explicitly. To express '{name}' as a function of another Tensor, compute the value in "
                    f"the forward() method."
                )
            param = hooks.on_registration(hooks.globals_.parameter_registration, self, name, param)
        _filing.may_replace(self._parameters.get(name), param)
        self._parameters[name] = param
        tracing.bump_epoch()

    def add_module(self, name: str, module: Module | None) -> None:
        """Files a child module (or None) under `name`."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string. Got {typename(name)}")
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError('module name can\'t be empty string ""')
        _filing.set_child(self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    # ---------------------------------------------------------------- lookup by path

    def get_submodule(self, target: str) -> Module:
        """The submodule at a dotted path; the module itself for ``""``."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts `module` at a dotted path.

        Args:
            target: the path.
            module: the new submodule.
            strict: only replace an existing submodule.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path."""
        _, name, found = self._get_member(target)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        module, name, found = self._get_member(target)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    def _get_member(self, target: str) -> tuple[Module, str, Any]:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return module, name, getattr(module, name)

    # ---------------------------------------------------------------- walking the tree

    def _named_members(
        self,
        get_members: Callable[..., Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        else:
            modules = iter([(prefix, self)])
        for module_prefix, module in modules:
            for name, member in get_members(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield (f"{module_prefix}.{name}" if module_prefix else name), member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(dotted name, parameter) of this module and, with `recurse`, of all below; a shared one once."""
        return self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, as an optimizer wants them."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """(dotted name, buffer) of this module and, with `recurse`, of all below; a shared one once."""
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, module) of the direct children; a shared one once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The direct children."""
        for _, module in self.named_children():
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """(dotted name, module) of this module and all below, parents first; a shared one once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(
                    memo, f"{prefix}.{name}" if prefix else name, remove_duplicate
                )

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below, parents first."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def apply(self: T, fn: Callable[[Module], None]) -> T:
        """Calls `fn` on every module below and then on this one; returns this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---------------------------------------------------------------- modes and conversions

    def train(self: T, mode: bool = True) -> T:
        """Sets training mode here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: T) -> T:
        """Sets evaluation mode here and below."""
        return self.train(False)

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Freezes or unfreezes all parameters."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Resets the gradients of all parameters: to None, or in place to zero."""
        for param in self.parameters():
            if set_to_none:  # not read first: a compiled step need not make the gradient then
                param.grad = None
                continue
            if param.grad is None:
                continue
            if param.grad.grad_fn is not None:
                param.grad.detach_()
            else:
                param.grad.requires_grad_(False)
            param.grad.zero_()

    def _apply(self: T, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> T:
        """Replaces the data of all parameters, gradients and buffers by `fn` of it; a Parameter keeps its identity."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for param in self._parameters.values():
            if param is None:
                continue
            with no_grad():
                param.data = fn(param)
                if param.grad is not None:
                    param.grad.data = fn(param.grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        tracing.bump_epoch()
        return self

    def to(self: T, *args: Any, **kwargs: Any) -> T:
        """Moves and casts parameters and buffers, in place.

        Takes ``to(device)``, ``to(dtype)``, ``to(device, dtype)`` or ``to(tensor)``. Only floating point and complex
        tensors are cast; another dtype raises a TypeError.
        """
        return self._apply(converter(*args, **kwargs))

    def to_empty(self: T, *, device: Any, recurse: bool = True) -> T:
        """Moves parameters and buffers to a device without their values (for modules built on the meta device)."""
        return self._apply(lambda t: empty_like(t, device=device), recurse)

    def type(self: T, dst_type: Any) -> T:
        """Casts all parameters and buffers to `dst_type`."""
        return self._apply(lambda t: t.type(dst_type))

    def _float_apply(self: T, cast: Callable[[Tensor], Tensor]) -> T:
        return self._apply(lambda t: cast(t) if t.is_floating_point() else t)

    def float(self: T) -> T:
        """Casts floating point parameters and buffers to float32."""
        return self._float_apply(lambda t: t.float())

    def double(self: T) -> T:
        """Casts floating point parameters and buffers to float64."""
        return self._float_apply(lambda t: t.double())

    def half(self: T) -> T:
        """Casts floating point parameters and buffers to float16."""
        return self._float_apply(lambda t: t.half())

    def bfloat16(self: T) -> T:
        """Casts floating point parameters and buffers to bfloat16."""
        return self._float_apply(lambda t: t.bfloat16())

    def cuda(self: T, device: Any = None) -> T:
        """Moves parameters and buffers to a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def xpu(self: T, device: Any = None) -> T:
        """Refused, as there are no such devices."""
        return self.to("xpu" if device is None else device)

    def ipu(self: T, device: Any = None) -> T:
        """Refused, as there are no such devices."""
        return self.to("ipu" if device is None else device)

    def mtia(self: T, device: Any = None) -> T:
        """Refused, as there are no such devices."""
        return self.to("mtia" if device is None else device)

    def cpu(self: T) -> T:
        """Moves parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def share_memory(self: T) -> T:
        """Accepted and without effect: arrays are immutable, so there is no memory that processes could share."""
        return self._apply(lambda t: t.share_memory_())

    # ---------------------------------------------------------------- calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if tracing.overlay:
            tracing.overlay.note_stateful(self)
        elif not _grad.enabled:
            scope = executor.current.scope()
            if scope is not None:
                with scope:
                    return self(*args, **kwargs)
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        if (
            self._backward_hooks
            or self._backward_pre_hooks
            or self._forward_hooks
            or self._forward_pre_hooks
            or hooks.globals_.any_for_call()
        ):
            return self._call_impl(*args, **kwargs)
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """`forward` with all hooks, in PyTorch's order."""
        always = self._forward_hooks_always_called or hooks.globals_.forward_always_called
        called: set[int] = set()
        state: dict[str, Any] = {"args": args, "kwargs": kwargs, "result": None}
        try:
            return hooks.call(self, state, called)
        except Exception:
            if always:
                hooks.run_missed(self, state, called)
            raise

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Makes calls of this module run as one XLA program; takes what `functorch_port.compile` takes."""
        from .._trace.compiled import compile as compile_function

        self._compiled_call_impl = compile_function(self._call_impl, *args, **kwargs)

    # ---------------------------------------------------------------- hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(module, args)`` before `forward`; what it returns replaces the arguments.

        Args:
            hook: the function; with `with_kwargs` ``hook(module, args, kwargs)`` returning None or both.
            prepend: run before the hooks already there.
            with_kwargs: hand over the keyword arguments too.
        """
        marks = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return hooks.register(self._forward_pre_hooks, hook, marks, prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Calls ``hook(module, args, output)`` after `forward`; what it returns replaces the output.

        Args:
            hook: the function; with `with_kwargs` ``hook(module, args, kwargs, output)``.
            prepend: run before the hooks already there.
            with_kwargs: hand over the keyword arguments too.
            always_call: run it even if `forward` raised.
        """
        marks = [self._forward_hooks_with_kwargs] if with_kwargs else []
        marks += [self._forward_hooks_always_called] if always_call else []
        return hooks.register(self._forward_hooks, hook, marks, prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(module, grad_output)`` before the inputs' gradients are computed; its result replaces it."""
        return hooks.register(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(module, grad_input, grad_output)``; a returned tuple replaces `grad_input`."""
        self._claim_backward(full=True)
        return hooks.register(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The old kind of backward hook, which sees the last operation only; prefer `register_full_backward_hook`."""
        self._claim_backward(full=False)
        return hooks.register(self._backward_hooks, hook)

    def _claim_backward(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them."
            )
        self._is_full_backward_hook = full

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, prefix, keep_vars)`` before `state_dict` collects this module."""
        return hooks.register(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, state_dict, prefix, local_metadata)`` after; it may change the dict in place."""
        hook._from_public_api = True
        return hooks.register(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older form, whose hook may return another dict."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return hooks.register(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors)`` first."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return hooks.register(
            self._load_state_dict_pre_hooks, WrappedHook(hook, self if with_module else None)
        )

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, incompatible_keys)`` after loading; it may change the two lists in place."""
        return hooks.register(self._load_state_dict_post_hooks, hook)

    # ---------------------------------------------------------------- state dicts

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """An ordered dict of all parameters and persistent buffers by dotted name.

        Args:
            destination: the dict to fill; a new one when left out.
            prefix: put before every name.
            keep_vars: keep the tensors as they are; otherwise they are detached (and still share their Storage).
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            destination, prefix, keep_vars = (*args, *(destination, prefix, keep_vars)[len(args) :])
        return _state_dict.save(self, destination, prefix, keep_vars)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        _state_dict.save_own(self, destination, prefix, keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Copies parameters and buffers from a state dict into this module and all below.

        Args:
            state_dict: what `state_dict()` gave.
            strict: whether missing and unexpected keys are errors.
            assign: put the dict's tensors in the place of this module's instead of copying their values.

        Returns:
            A named tuple of the lists `missing_keys` and `unexpected_keys`.

        Raises:
            RuntimeError: if the dict does not fit; then the module is as it was before (PyTorch leaves what did fit).
        """
        return _state_dict.load(self, state_dict, strict, assign)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        _state_dict.load_own(
            self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def get_extra_state(self) -> Any:
        """Override, with `set_extra_state`, to keep more than tensors in the state dict."""
        raise RuntimeError(_state_dict.UNREACHABLE.format("get_extra_state"))

    def set_extra_state(self, state: Any) -> None:
        """Override to take back what `get_extra_state` gave."""
        raise RuntimeError(_state_dict.UNREACHABLE.format("set_extra_state"))

    # ---------------------------------------------------------------- copying and printing

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in hooks.DICTS:
            self.__dict__.setdefault(name, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)
        tracing.bump_epoch()

    def _get_name(self) -> str:
        return self.__class__.__name__

    def extra_repr(self) -> str:
        """What `repr` shows of the module beside its children; to be overridden."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): {indent(repr(module))}" for name, module in self._modules.items()]
        if not child_lines and len(extra_lines) <= 1:
            return f"{self._get_name()}({extra})"
        body = "\n".join(f"  {line}" for line in itertools.chain(extra_lines, child_lines))
        return f"{self._get_name()}(\n{body}\n)"


def indent(text: str, spaces: int = 2) -> str:
    """`text` with every line but the first moved right."""
    return text.replace("\n", "\n" + " " * spaces)


_state_dict.base = Module
