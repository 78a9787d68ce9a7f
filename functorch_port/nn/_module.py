"""`Module`, the base class of layers: parameters, buffers, submodules, hooks, modes and state dicts."""

from __future__ import annotations

import itertools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .._array import executor, tracing
from .._tensor.creation import empty_like
from .._tensor.grad_mode import state as _grad
from .._tensor.tensor import Tensor
from . import _filing, _scopes, _state_dict
from . import _hooks as hooks
from ._conversion import apply_to_tensors, converter, typename
from ._hooks import RemovableHandle, WrappedHook
from .parameter import Buffer, Parameter

T = TypeVar("T", bound="Module")

__all__ = ["Module"]


class Module:
    """Base class of all neural network modules. A subclass defines `forward`.

    A `Parameter`, `Buffer` or `Module` that is assigned to an attribute is registered: it belongs to the module's
    parameters, buffers or child modules. Any other value is an ordinary attribute.

    Attributes:
        training: whether the module is in training mode, where dropout is active and batch norm uses the batch.

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

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html
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
        fields = self.__dict__  # __setattr__ needs these entries
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

    if TYPE_CHECKING:  # a subclass's `forward` may take any arguments
        forward: Callable[..., Any]
    else:

        def forward(self, *input: Any) -> Any:
            """Compute the output. Every subclass defines this method."""
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
        """Register a buffer: a tensor that is state but not a parameter, such as a running mean.

        Args:
            name: the buffer's attribute name.
            tensor: the buffer, or None, which is not in `state_dict`.
            persistent: whether the buffer is in `state_dict`.

        Raises:
            KeyError: the name is empty or has a dot, or the module has another attribute of this name.
        """
        _filing.check_new_name(self, "buffer", name, "_buffers")
        if not _filing.may_be_buffer(tensor):
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
        """Register a parameter (or None) as the attribute `name`. The errors are those of `register_buffer`."""
        _filing.check_new_name(self, "parameter", name, "_parameters")
        if param is not None:
            if not isinstance(param, Parameter):
                text = f"cannot assign '{typename(param)}' object to parameter '{name}'"
                raise TypeError(f"{text} (torch.nn.Parameter or None required)")
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
        """Register a child module (or None) as the attribute `name`. The errors are those of `register_buffer`."""
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
        """The submodule at a dotted path; the module itself for ``""``. Raises AttributeError if there is none."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Set the submodule at a dotted path.

        Args:
            target: the path; all of it but the last name must exist.
            module: the new submodule.
            strict: raise an AttributeError unless the path exists.
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
        """The parameter at a dotted path. Raises AttributeError if there is none."""
        _, name, found = self._get_member(target)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path. Raises AttributeError if there is none."""
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
        return _filing.named_members(self, get_members, prefix, recurse, remove_duplicate)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Iterate over (dotted name, parameter) pairs.

        Args:
            prefix: put before every name, with a dot.
            recurse: whether to include the parameters of all submodules.
            remove_duplicate: whether a parameter with several names is returned only once.
        """
        return self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Iterate over the parameters, each once; ``recurse=False`` leaves out those of submodules."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Iterate over (dotted name, buffer) pairs; the arguments are those of `named_parameters`."""
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Iterate over the buffers, each once; ``recurse=False`` leaves out those of submodules."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Iterate over (name, module) pairs of the direct children, each module once."""
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
        """Iterate over (dotted name, module) pairs of this module (named ``prefix``) and all submodules, parents first.

        Args:
            memo: the modules to leave out.
            prefix: this module's name.
            remove_duplicate: whether a module with several names is returned only once.
        """
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
        """Iterate over this module and all submodules, parents first."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def apply(self: T, fn: Callable[[Module], None]) -> T:
        """Call `fn` on every submodule, then on this module; return this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---------------------------------------------------------------- modes and conversions

    def train(self: T, mode: bool = True) -> T:
        """Set this module and all submodules to training mode, or to evaluation mode if `mode` is False."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: T) -> T:
        """Set this module and all submodules to evaluation mode."""
        return self.train(False)

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Set whether the parameters require gradients; False freezes them."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or with ``set_to_none=False`` to zero in place."""
        for param in self.parameters():
            if set_to_none:  # without a read, so a compiled step need not compute the gradient
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
        """Replace the data of all parameters, gradients and buffers by `fn` of it; the Parameter objects stay."""
        apply_to_tensors(self, fn, recurse)
        return self

    def to(self: T, *args: Any, **kwargs: Any) -> T:
        """Move and cast parameters and buffers, in place.

        The forms are ``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(tensor)`` and
        ``to(memory_format=...)``. Only floating point and complex tensors are cast; an integer dtype raises TypeError.
        """
        return self._apply(converter(*args, **kwargs))

    def to_empty(self: T, *, device: Any, recurse: bool = True) -> T:
        """Give parameters and buffers uninitialized memory on a device, for modules created on the meta device."""
        return self._apply(lambda t: empty_like(t, device=device), recurse)

    def type(self: T, dst_type: Any) -> T:
        """Cast all parameters and buffers to `dst_type`."""
        return self._apply(lambda t: t.type(dst_type))

    def _float_apply(self: T, cast: Callable[[Tensor], Tensor]) -> T:
        return self._apply(lambda t: cast(t) if t.is_floating_point() else t)

    def float(self: T) -> T:
        """Cast floating point parameters and buffers to float32."""
        return self._float_apply(lambda t: t.float())

    def double(self: T) -> T:
        """Cast floating point parameters and buffers to float64."""
        return self._float_apply(lambda t: t.double())

    def half(self: T) -> T:
        """Cast floating point parameters and buffers to float16."""
        return self._float_apply(lambda t: t.half())

    def bfloat16(self: T) -> T:
        """Cast floating point parameters and buffers to bfloat16."""
        return self._float_apply(lambda t: t.bfloat16())

    def cuda(self: T, device: Any = None) -> T:
        """Move parameters and buffers to a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def xpu(self: T, device: Any = None) -> T:
        """Raise NotImplementedError: JAX has no such devices."""
        return self.to("xpu" if device is None else device)

    def ipu(self: T, device: Any = None) -> T:
        """Raise NotImplementedError: JAX has no such devices."""
        return self.to("ipu" if device is None else device)

    def mtia(self: T, device: Any = None) -> T:
        """Raise NotImplementedError: JAX has no such devices."""
        return self.to("mtia" if device is None else device)

    def cpu(self: T) -> T:
        """Move parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def share_memory(self: T) -> T:
        """Accepted, without effect: JAX's arrays cannot be shared between processes."""
        return self._apply(lambda t: t.share_memory_())

    # ---------------------------------------------------------------- calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        scope = None
        if tracing.overlay:
            scope = _scopes.of_call(self)
        elif not _grad.enabled:
            scope = executor.current.scope(self, args)
        if scope is not None:
            with scope:
                return Module.__call__(self, *args, **kwargs)
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
        """Call `forward` with all hooks, in PyTorch's order."""
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
        """Compile the calls of this module, in place; the arguments are those of `functorch_port.compile`."""
        from .._trace.compiled import compile as compile_function

        self._compiled_call_impl = compile_function(self._call_impl, *args, **kwargs)

    # ---------------------------------------------------------------- hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before `forward`. A result that is not None replaces the arguments.

        Args:
            hook: the function. With `with_kwargs` it is ``hook(module, args, kwargs)`` and returns None or both.
            prepend: whether to run it before the hooks already registered.
            with_kwargs: whether to pass the keyword arguments to it.
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
        """Call ``hook(module, args, output)`` after `forward`. A result that is not None replaces the output.

        Args:
            hook: the function. With `with_kwargs` it is ``hook(module, args, kwargs, output)``.
            prepend: whether to run it before the hooks already registered.
            with_kwargs: whether to pass the keyword arguments to it.
            always_call: whether to run it even if `forward` raises; then ``output`` is None.
        """
        marks = [self._forward_hooks_with_kwargs] if with_kwargs else []
        marks += [self._forward_hooks_always_called] if always_call else []
        return hooks.register(self._forward_hooks, hook, marks, prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before the gradients of the inputs are computed.

        ``grad_output`` is a tuple of the gradients of the outputs. A result that is not None replaces it.
        """
        return hooks.register(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` once the gradients of the inputs are computed.

        Both are tuples; an argument that is not a Tensor has None. A result that is not None replaces ``grad_input``.
        """
        self._claim_backward(full=True)
        return hooks.register(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Deprecated: use `register_full_backward_hook`. This hook sees the gradients of the last operation only."""
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
        """Call ``hook(module, prefix, keep_vars)`` before `state_dict` collects this module's tensors."""
        return hooks.register(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` once this module and its children are in the dict.

        The hook may change ``state_dict`` in place, and must return None.
        """
        hook._from_public_api = True
        return hooks.register(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """An older form of `register_state_dict_post_hook`: the hook may return another dict."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return hooks.register(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors)`` before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return hooks.register(
            self._load_state_dict_pre_hooks, WrappedHook(hook, self if with_module else None)
        )

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after loading; it may change the two lists of keys in place."""
        return hooks.register(self._load_state_dict_post_hooks, hook)

    # ---------------------------------------------------------------- state dicts

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Return an ordered dict of all parameters and persistent buffers by dotted name.

        Args:
            destination: the dict to fill. Default: a new one.
            prefix: put before every name.
            keep_vars: whether to return the tensors themselves. Default: detached tensors, which share their memory.
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
        """Copy the values of a state dict into the parameters and buffers of this module and its submodules.

        Args:
            state_dict: the result of `state_dict()`.
            strict: whether missing and unexpected keys are errors.
            assign: whether to replace the module's tensors by those of the dict instead of copying values.

        Returns:
            A named tuple of the lists `missing_keys` and `unexpected_keys`.

        Raises:
            RuntimeError: the dict does not fit. No parameter or buffer is changed (PyTorch changes those that fit).
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
        """Return further state for `state_dict`; override it together with `set_extra_state`."""
        raise RuntimeError(_state_dict.UNREACHABLE.format("get_extra_state"))

    def set_extra_state(self, state: Any) -> None:
        """Restore the result of `get_extra_state`, in `load_state_dict`."""
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
        """The text that `repr` shows between the parentheses; subclasses override it."""
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
    """Indent all lines but the first."""
    return text.replace("\n", "\n" + " " * spaces)


_state_dict.base = Module
