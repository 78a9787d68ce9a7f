"""`ScanStack`: a stack of identical layers that is compiled as one layer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..._array import tracing
from ..._array.refusal import Check
from ..._run.bind import function
from ..._tensor.grad_mode import no_grad
from ..._tensor.tensor import Tensor
from ..._tensor.tree import flatten, unflatten
from ...func import _level as level
from ...func._functional_call import _slots, functional_call
from ...func._level import Keyed, Level, OutOfOrder, Source, arrays_of, refuse_collected, run_in, through
from .._module import Module, indent
from ..parameter import Parameter
from .container import ModuleList

__all__ = ["ScanStack", "is_stacked"]

#: set for the modules whose parameters have those of all layers
_STACKED = "_is_stacked"


def is_stacked(module: Module) -> bool:
    """Whether dimension 0 of a module's parameters is that of the layers of a `ScanStack`."""
    return _STACKED in vars(module)


class ScanStack(Module):
    """Sequence of identical layers with stacked parameters, compiled as one layer.

    Eager mode calls the layers in a Python loop. Inside ``compile`` and ``functionalize`` they become one
    `jax.lax.scan`, so the compile time of forward pass, backward pass and optimizer does not grow with the number of
    layers. Each parameter is one tensor with the layers along dimension 0; ``parameters()`` returns these, and the
    optimizer state is stacked too. The keys of ``state_dict`` are those of a `Sequential` or `ModuleList` of the
    layers (``"0.weight"``, ``"1.weight"``, ...), so checkpoints are interchangeable. Every layer draws its own
    dropout. Layers with hooks run in a Python loop in compiled functions too, but for those of `parallelize_module`.

    An optimizer that uses a parameter as a whole (norms in `Adafactor`, matrices in `Muon`) sees all layers at once.

    Args:
        modules: the layers: of one class, with parameters and buffers of the same names, shapes and dtypes. Their
            values are copied; parameters that layers share become separate.
        remat: what compiled functions recompute in the backward pass. False: nothing; True: everything but the
            layers' inputs; or a policy of `jax.checkpoint`, or the name of one in `jax.checkpoint_policies`
            ("dots_saveable", ...).

    Shape:
        ``stack(x, *args, **kwargs)`` calls ``x = layer(x, *args, **kwargs)`` for every layer. x is a Tensor or a pytree
        of Tensors; its shapes and dtypes must not change.

    Raises:
        ValueError: if there are no layers, or they differ.
        RuntimeError: if a layer changes the shape or dtype of x, or writes to its parameters or buffers.

    Example:
        >>> import functorch_port as torch
        >>> layers = torch.nn.ScanStack([torch.nn.Linear(4, 4) for _ in range(12)], remat=True)
        >>> torch.compile(lambda x: layers(x))(torch.ones(2, 4)).shape
        torch.Size([2, 4])
        >>> list(layers.state_dict())[:3], [p.shape for p in layers.parameters()]
        (['0.weight', '0.bias', '1.weight'], [torch.Size([12, 4, 4]), torch.Size([12, 4])])

    Reference: https://docs.jax.dev/en/latest/_autosummary/jax.lax.scan.html
    """

    __module__ = "functorch_port.nn.modules"  # which pickles say

    stacked: Module
    #: the number of the first layer, where these are a part of a stack
    first: Any = 0

    def __init__(self, modules: Iterable[Module], remat: bool | str | Callable[..., Any] = False) -> None:
        super().__init__()
        layers = list(modules)
        _check_layers(layers)
        if isinstance(remat, str) and not hasattr(jax.checkpoint_policies, remat):
            raise ValueError(
                "ScanStack: remat must be a bool, a policy or the name of one, and jax.checkpoint_policies has no "
                f"{remat!r}"
            )
        self.remat = remat
        self.count = len(layers)
        self.stacked = copy.deepcopy(layers[0])
        states = [_slots(layer) for layer in layers]
        for name, (table, key) in _slots(self.stacked).items():
            tensors = [own[key] for own, key in (state[name] for state in states)]
            with no_grad():
                joined = function("stack")(tensors)
            old = table[key]
            table[key] = Parameter(joined, old.requires_grad) if isinstance(old, Parameter) else joined
        for module in self.stacked.modules():
            vars(module)[_STACKED] = True

    def __len__(self) -> int:
        return self.count

    def unstack(self) -> ModuleList:
        """Copies of the layers, each with its own parameters."""
        states = self._unbound()
        layers = []
        for state in states:
            layer = copy.deepcopy(self.stacked)
            for module in layer.modules():
                del vars(module)[_STACKED]
            for name, (table, key) in _slots(layer).items():
                value = state[name].detach().clone()
                old = table[key]
                table[key] = Parameter(value, old.requires_grad) if isinstance(old, Parameter) else value
            layers.append(layer)
        return ModuleList(layers)

    def _unbound(self) -> list[dict[str, Tensor]]:
        """The parameters and buffers of every layer."""
        parts = {name: table[key].unbind(0) for name, (table, key) in _slots(self.stacked).items()}
        return [{name: tensors[i] for name, tensors in parts.items()} for i in range(self.count)]

    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if tracing.overlay and not self._hooked():
            try:
                return _scan(self, x, args, kwargs)
            except OutOfOrder:  # the layers draw from PyTorch's stream one after the other
                pass
        for state in self._unbound():
            given = dict(state)
            versions = {name: t._storage.version for name, t in state.items()}
            x = functional_call(self.stacked, given, (x, *args), kwargs, tie_weights=False)
            _check_written(state, given, versions)
        return x

    def _hooked(self) -> bool:
        """Whether a layer has hooks that may have effects; a trace takes note of them."""
        for module in self.stacked.modules():
            tracing.overlay.note_stateful(module)
        return any(
            not getattr(hook, "is_pure", False)
            for m in self.stacked.modules()
            for hooks in (m._forward_hooks, m._forward_pre_hooks, m._backward_hooks, m._backward_pre_hooks)
            for hook in hooks.values()
        )

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """`Module.state_dict` with the keys of a `ModuleList` of the layers."""
        destination, prefix, keep_vars = (*args, *(destination, prefix, keep_vars)[len(args) :])
        whole = super().state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars)
        inner = f"{prefix}stacked"
        tensors = {
            key.removeprefix(inner): whole.pop(key) for key in list(whole) if key.startswith(f"{inner}.")
        }
        with no_grad():
            for i in range(self.count):
                whole.update({f"{prefix}{i}{rest}": t[i] for rest, t in tensors.items()})
        versions = whole._metadata
        described = {
            key.removeprefix(inner): versions.pop(key)
            for key in list(versions)
            if key == inner or key.startswith(f"{inner}.")
        }
        for i in range(self.count):
            versions.update({f"{prefix}{i}{rest}": dict(value) for rest, value in described.items()})
        return whole

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        for name in _slots(self.stacked):
            keys = [f"{prefix}{i}.{name}" for i in range(self.count)]
            tensors = [state_dict.get(key) for key in keys]
            if all(isinstance(t, Tensor) and t.shape == tensors[0].shape for t in tensors):
                for key in keys:
                    del state_dict[key]
                with no_grad():
                    state_dict[f"{prefix}stacked.{name}"] = function("stack")(tensors)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def __repr__(self) -> str:
        extra = f", remat={self.remat}" if self.remat else ""
        body = indent(f"(0-{self.count - 1}): {self.count} x {self.stacked!r}")
        return f"{self._get_name()}(\n  {body}{extra}\n)"


def _check_layers(layers: list[Module]) -> None:
    if not layers:
        raise ValueError("ScanStack needs at least one layer, got none")
    described = [(type(layer), repr(layer), _shapes(layer)) for layer in layers]
    for i, other in enumerate(described):
        for what, a, b in zip(
            ("class", "options", "parameters and buffers"), described[0], other, strict=True
        ):
            if a != b:
                raise ValueError(f"ScanStack: layer {i} differs from layer 0 in its {what}; use a Sequential")


def _shapes(layer: Module) -> dict[str, Any]:
    tensors = {name: table[key] for name, (table, key) in _slots(layer).items()}
    return {name: (tuple(t.shape), t.dtype, t.requires_grad) for name, t in tensors.items()}


def _checkpointed(body: Callable[..., Any], remat: Any) -> Callable[..., Any]:
    if not remat:
        return body
    policy = getattr(jax.checkpoint_policies, remat) if isinstance(remat, str) else remat
    return jax.checkpoint(body, prevent_cse=False, policy=None if policy is True else policy)


def _scan(stack: ScanStack, x: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The layers as one operation."""
    carry, carry_tree = flatten(x)
    extra, extra_tree = flatten((args, kwargs))
    given = [e for e in extra if isinstance(e, Tensor)]
    slots = _slots(stack.stacked)
    names, stacked = list(slots), [table[key] for table, key in slots.values()]
    around = tracing.current()
    source = around.source if isinstance(around, Keyed) else Source(in_order=_in_order(around))

    def call(
        values: list[Any], own: list[Any], shared: list[Any], key: Any, checks: list[Check]
    ) -> list[Any]:
        """One layer."""

        def layer(tensors: list[Tensor]) -> list[Any]:
            it = iter(tensors)
            here = unflatten(carry_tree, [next(it) for _ in values])
            state = {name: next(it) for name in names}
            more, named = unflatten(extra_tree, [next(it) if isinstance(e, Tensor) else e for e in extra])
            versions = {name: t._storage.version for name, t in state.items()}
            after = dict(state)
            result = functional_call(stack.stacked, after, (here, *more), named, tie_weights=False)
            _check_written(state, after, versions)
            outs, tree = flatten(result)
            _check_kept(values, outs, tree == carry_tree)
            return [o._value for o in outs]

        return run_in(Keyed(source, key, checks), layer, [*values, *own, *shared])  # type: ignore[no-any-return]

    def compute(values: list[Any]) -> list[Any]:
        n, m = len(carry), len(carry) + len(given)
        base = _key(source, around)
        checks: list[Check] = []

        def body(now: list[Any], xs: Any) -> tuple[list[Any], Any]:
            index, own = xs
            key = None if base is None else jax.random.fold_in(base, index)
            outs = call(now, own, values[n:m], key, checks)
            return outs, arrays_of(checks)

        places = jnp.arange(stack.count, dtype=jnp.int32) + stack.first
        outs, stacked = lax.scan(_checkpointed(body, stack.remat), values[:n], (places, values[m:]))
        refuse_collected(checks, stacked)
        return outs

    return unflatten(carry_tree, through("scan_stack", compute, [*carry, *given, *stacked]))


def _in_order(around: Any) -> bool:
    """Whether the layers must draw from PyTorch's stream."""
    return around is None or isinstance(around, Level) or around.rng == "torch"


def _key(source: Source, around: Any) -> Any:
    """The key of all layers, taken before the loop; None in a dry run, or if they draw nothing."""
    session = level.current_session()
    if session.dry or source.generator is None:
        return None
    if isinstance(around, Keyed):
        return around.split_key()
    with tracing.overlaid(around):
        return session.random(source.generator.split_key)


def _check_written(before: dict[str, Tensor], after: dict[str, Any], versions: dict[str, int]) -> None:
    for name, tensor in before.items():
        if after[name] is not tensor or tensor._storage.version != versions[name]:
            raise RuntimeError(
                f"ScanStack: a layer writes to its {name!r}, and the write would be lost; use a Sequential"
            )


def _check_kept(values: list[Any], outs: list[Any], same: bool) -> None:
    if not same:
        raise RuntimeError("ScanStack: a layer must return the structure of Tensors that it received")
    for value, out in zip(values, outs, strict=True):
        if (value.shape, value.dtype) != (out._value.shape, out._value.dtype):
            found = f"{tuple(value.shape)} {value.dtype} to {tuple(out._value.shape)} {out._value.dtype}"
            raise RuntimeError(f"ScanStack: a layer changes {found}; shape and dtype must not change")
