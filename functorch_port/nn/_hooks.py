"""Module hooks: handles, global hooks, and the identity nodes that full backward hooks use."""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .._array import tracing
from .._tensor.grad_mode import is_grad_enabled
from .._tensor.node import RemovableHandle
from .._tensor.tensor import Tensor
from ..autograd.function import Function

if TYPE_CHECKING:
    from ._module import Module

HookDict = OrderedDict  # id -> hook, in call order

#: the attributes of a module that hold hooks, in the order in which PyTorch sets them
DICTS = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class ModuleHookHandle(RemovableHandle):
    """A handle whose `remove` also tells the compiler that the module has changed."""

    def remove(self) -> None:
        super().remove()
        tracing.bump_epoch()


def register(
    hooks: HookDict, hook: Callable, extra: Sequence[dict] = (), prepend: bool = False
) -> ModuleHookHandle:
    """Add `hook` to `hooks` and its id to every dict in `extra`; return the handle that removes them."""
    handle = ModuleHookHandle(hooks, extra_dict=list(extra))
    hooks[handle.id] = hook
    for marks in extra:
        marks[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    tracing.bump_epoch()
    return handle


class GlobalHooks:
    """The hooks of ``register_module_*``, which run for every module."""

    def __init__(self) -> None:
        self.forward_pre: HookDict = OrderedDict()
        self.forward: HookDict = OrderedDict()
        self.forward_with_kwargs: HookDict = OrderedDict()
        self.forward_always_called: HookDict = OrderedDict()
        self.backward_pre: HookDict = OrderedDict()
        self.backward: HookDict = OrderedDict()
        self.is_full_backward: bool | None = None
        self.buffer_registration: HookDict = OrderedDict()
        self.module_registration: HookDict = OrderedDict()
        self.parameter_registration: HookDict = OrderedDict()

    def any_for_call(self) -> bool:
        """Whether any global hook affects calls of modules."""
        return bool(self.forward_pre or self.forward or self.backward_pre or self.backward)

    def for_call(self) -> tuple[HookDict, ...]:
        """The hooks that affect calls of modules."""
        return self.forward_pre, self.forward, self.backward_pre, self.backward

    def claim_backward(self, full: bool) -> None:
        """Record whether backward hooks are full ones; raise if both kinds are registered."""
        if self.is_full_backward is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks as a global Module hook. "
                "Please use only one of them."
            )
        self.is_full_backward = full


globals_ = GlobalHooks()


def on_registration(hooks: HookDict, module: Any, name: str, value: Any) -> Any:
    """Call the global registration hooks; each may replace the value."""
    for hook in hooks.values():
        replaced = hook(module, name, value)
        if replaced is not None:
            value = replaced
    return value


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` when a module registers a buffer; a returned Tensor replaces it."""
    return register(globals_.buffer_registration, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` when a module registers a child; a returned Module replaces it."""
    return register(globals_.module_registration, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, param)`` when a module registers a Parameter; a returned Parameter replaces it."""
    return register(globals_.parameter_registration, hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before every module's `forward`; a result that is not None replaces ``args``."""
    return register(globals_.forward_pre, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after every module's `forward`; see `Module.register_forward_hook`."""
    marks = [globals_.forward_with_kwargs] * with_kwargs + [globals_.forward_always_called] * always_call
    return register(globals_.forward, hook, marks)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Deprecated: use `register_module_full_backward_hook`."""
    globals_.claim_backward(full=False)
    return register(globals_.backward, hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Register a hook for every module; see `Module.register_full_backward_pre_hook`."""
    return register(globals_.backward_pre, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Register a hook for every module; see `Module.register_full_backward_hook`."""
    globals_.claim_backward(full=True)
    return register(globals_.backward, hook)


class WrappedHook:
    """A hook that receives its module as the first argument, and holds it by a weak reference."""

    def __init__(self, hook: Callable[..., Any], module: Any = None) -> None:
        self.hook = hook
        self.with_module = module is not None
        self._module = weakref.ref(module) if self.with_module else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._module is None:
            return self.hook(*args, **kwargs)
        module = self._module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        module = self._module() if self._module is not None else None
        return {"hook": self.hook, "with_module": self.with_module, "module": module}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["with_module"] and state["module"] is None:
            raise RuntimeError("You are trying to revive the hook of a dead Module!")
        self.__init__(state["hook"], state["module"])


class BackwardHookFunction(Function):
    """The identity, whose node in the graph gives the hooks of a module the gradients."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return grads


class BackwardHook:
    """The full backward hooks and pre-hooks of one call of a module.

    The differentiable inputs pass through one identity node, the outputs through another. The pre-hooks receive
    `grad_output` at the output node; the hooks receive `grad_input` and `grad_output` at the input node.
    """

    def __init__(self, module: Any, hooks: list[Callable], pre_hooks: list[Callable]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: tuple | None = None
        self.input_positions: list[int] | None = None  # None: no input takes part in autograd
        self.n_inputs = -1

    def setup_inputs(self, args: tuple) -> tuple:
        """Pass the tensors of `args` through the input node."""
        args, positions, node = _through_identity(args)
        self.n_inputs = len(args)
        if node is not None:
            self.input_positions = positions
            node.register_hook(self._on_grad_input)
        return args

    def setup_outputs(self, result: Any) -> Any:
        """Pass the tensors of a module's result (a Tensor or a tuple) through the output node."""
        outputs, positions, node = _through_identity((result,) if isinstance(result, Tensor) else result)
        self.n_outputs, self.output_positions = len(outputs), positions
        if node is not None:
            node.register_prehook(self._on_grad_output)
        return outputs[0] if isinstance(result, Tensor) else outputs

    def _on_grad_output(self, grads: tuple) -> tuple | None:
        self.grad_outputs = _scatter(grads, self.output_positions, self.n_outputs)
        replaced = False
        for hook in self.pre_hooks:
            out = hook(self.module, self.grad_outputs)
            if out is None:
                continue
            out = (out,) if isinstance(out, Tensor) else out
            if len(out) != self.n_outputs:
                raise RuntimeError(
                    "Backward pre hook returned an invalid number of grad_output, "
                    f"got {len(out)}, but expected {self.n_outputs}"
                )
            self.grad_outputs, replaced = out, True
        new_grads = tuple(self.grad_outputs[i] for i in self.output_positions) if replaced else None
        if self.input_positions is None:
            self._without_input_grads()
        return new_grads

    def _without_input_grads(self) -> None:
        """Call the hooks at once, with None for every input, since no input requires a gradient."""
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
            "require gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
            "#torch.nn.Module.register_full_backward_hook for more details.",
            stacklevel=5,
        )
        for hook in self.hooks:
            out = hook(self.module, (None,) * self.n_inputs, self.grad_outputs)
            if out is not None and not (isinstance(out, tuple) and all(g is None for g in out)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None "
                    "or None for all gradients."
                )
        self.grad_outputs = None

    def _on_grad_input(self, grads: tuple, _: tuple) -> tuple | None:
        if self.grad_outputs is None:  # in a double backward the gradient does not come through the output
            return None
        grad_input = _scatter(grads, self.input_positions or [], self.n_inputs)
        replaced = False
        for hook in self.hooks:
            out = hook(self.module, grad_input, self.grad_outputs)
            if out is None:
                continue
            out = (out,) if isinstance(out, Tensor) else out
            if len(out) != self.n_inputs:
                raise RuntimeError(
                    "Backward hook returned an invalid number of grad_input, "
                    f"got {len(out)}, but expected {self.n_inputs}"
                )
            grad_input, replaced = out, True
        self.grad_outputs = None
        return tuple(grad_input[i] for i in self.input_positions or []) if replaced else None


def _scatter(values: Sequence, positions: list[int], length: int) -> tuple:
    out: list[Any] = [None] * length
    for position, value in zip(positions, values, strict=True):
        out[position] = value
    return tuple(out)


def _through_identity(args: tuple) -> tuple[tuple, list[int], Any]:
    """Pass the tensors in `args` through an identity node. Returns the new `args`, the positions, and the node."""
    positions = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
    tensors = [args[i] for i in positions]
    if not (is_grad_enabled() and any(t.requires_grad for t in tensors)):
        return args, positions, None
    out = BackwardHookFunction.apply(*tensors)
    node = next((t.grad_fn for t in out if t.grad_fn is not None), None)
    new_args = list(args)
    for position, tensor in zip(positions, out, strict=True):
        new_args[position] = tensor
    return tuple(new_args), positions, node


def warn_if_not_full(inputs: Any, result: Any, grad_fn: Any) -> None:
    """Warn if the module is more than the one node whose gradients a non-full backward hook sees."""
    future = "deprecated and will be removed in future versions."
    if not isinstance(result, (Tensor, tuple)) or (
        isinstance(result, tuple) and not all(isinstance(r, Tensor) for r in result)
    ):
        text = (
            f"Using non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors is "
            f"{future} This hook will be missing some of the grad_output. "
            f"Please use register_full_backward_hook to get the documented behavior."
        )
    elif not all(isinstance(i, Tensor) for i in inputs):
        text = (
            f"Using non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of "
            f"Tensors is {future} This hook will be missing some of the grad_input. "
            f"Please use register_full_backward_hook to get the documented behavior."
        )
    elif isinstance(result, tuple) and len({id(r.grad_fn) for r in result}) > 1:
        text = (
            f"Using a non-full backward hook when outputs are generated by different autograd Nodes is {future} "
            f"This hook will be missing some grad_output. "
            f"Please use register_full_backward_hook to get the documented behavior."
        )
    elif {i.grad_fn for i in inputs if i.grad_fn is not None} != {fn for fn, _ in grad_fn.next_functions}:
        text = (
            f"Using a non-full backward hook when the forward contains multiple autograd Nodes is {future} "
            f"This hook will be missing some grad_input. "
            f"Please use register_full_backward_hook to get the documented behavior."
        )
    else:
        return
    warnings.warn(text, FutureWarning, stacklevel=4)


# ---------------------------------------------------------------- a call with hooks


def call(module: Module, state: dict[str, Any], called: set[int]) -> Any:
    """Call the hooks and `forward` with the arguments in ``state``; ``called`` collects the forward hooks' ids."""
    backward_pre, backward, old_backward = _backward_in_order(module)
    _run_forward_pre(module, state)
    wrap = BackwardHook(module, backward, backward_pre) if backward or backward_pre else None
    if wrap is not None:
        state["args"] = wrap.setup_inputs(state["args"])
    state["result"] = module.forward(*state["args"], **state["kwargs"])
    for hook_id, hook, with_kwargs, _ in _forward_in_order(module):
        called.add(hook_id)
        _run_forward(module, hook, with_kwargs, state)
    result = state["result"]
    if wrap is not None:
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors "
                f"but received {type(result)}",
                stacklevel=4,
            )
        else:
            result = wrap.setup_outputs(result)
    if old_backward:
        _attach_old_backward(module, old_backward, state["args"], result)
    return result


def _backward_in_order(module: Module) -> tuple[list, list, list]:
    """The full backward pre-hooks, the full and the non-full backward hooks; global ones come first."""
    pre = [*globals_.backward_pre.values(), *module._backward_pre_hooks.values()]
    full: list = []
    old: list = []
    for is_full, found in (
        (globals_.is_full_backward, globals_.backward),
        (module._is_full_backward_hook, module._backward_hooks),
    ):
        (full if is_full else old).extend(found.values())
    return pre, full, old


def _run_forward_pre(module: Module, state: dict[str, Any]) -> None:
    for hook_id, hook in (*globals_.forward_pre.items(), *module._forward_pre_hooks.items()):
        if hook_id in module._forward_pre_hooks_with_kwargs:
            out = hook(module, state["args"], state["kwargs"])
            if out is None:
                continue
            if not (isinstance(out, tuple) and len(out) == 2):
                raise RuntimeError(
                    f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {out}."
                )
            state["args"], state["kwargs"] = out
        else:
            out = hook(module, state["args"])
            if out is not None:
                state["args"] = out if isinstance(out, tuple) else (out,)


def _forward_in_order(module: Module) -> list[tuple[int, Callable, bool, bool]]:
    """The forward hooks, global ones first: (id, hook, with_kwargs, always_call)."""
    found = []
    for all_hooks, with_kwargs, always in (
        (globals_.forward, globals_.forward_with_kwargs, globals_.forward_always_called),
        (module._forward_hooks, module._forward_hooks_with_kwargs, module._forward_hooks_always_called),
    ):
        found += [(i, hook, i in with_kwargs, i in always) for i, hook in all_hooks.items()]
    return found


def _run_forward(module: Module, hook: Callable, with_kwargs: bool, state: dict[str, Any]) -> None:
    if with_kwargs:
        out = hook(module, state["args"], state["kwargs"], state["result"])
    else:
        out = hook(module, state["args"], state["result"])
    if out is not None:
        state["result"] = out


def run_missed(module: Module, state: dict[str, Any], called: set[int]) -> None:
    """Call the hooks with `always_call` that an error skipped."""
    for hook_id, hook, with_kwargs, always in _forward_in_order(module):
        if not always or hook_id in called:
            continue
        try:
            _run_forward(module, hook, with_kwargs, state)
        except Exception as error:
            which = "global module" if hook_id in globals_.forward else "module"
            warnings.warn(
                f"{which} forward hook with ``always_call=True`` raised an exception that was silenced "
                f"as another error was raised in forward: {error}",
                stacklevel=4,
            )


def _attach_old_backward(module: Module, old_hooks: list[Callable], args: tuple, result: Any) -> None:
    tensor = result
    while not isinstance(tensor, Tensor):
        tensor = next(iter(tensor.values())) if isinstance(tensor, dict) else tensor[0]
    if tensor.grad_fn is not None:
        for hook in old_hooks:
            tensor.grad_fn.register_hook(WrappedHook(hook, module))
        warn_if_not_full(args, result, tensor.grad_fn)
