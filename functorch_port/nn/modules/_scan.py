"""`ScanStack`: a stack of identical layers that is compiled as one layer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from ..._array import tracing
from ..._run.bind import function
from ..._tensor.grad_mode import no_grad
from ..._tensor.tensor import Tensor
from ...func._functional_call import _slots, functional_call
from ...func._level import OutOfOrder
from .._module import Module, indent
from ..parameter import Parameter
from ._scanning import STACKED, check_layers, check_remat, check_written, hooked, is_stacked, scanned
from .container import ModuleList

__all__ = ["ScanStack", "is_stacked"]


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
        check_layers(layers)
        check_remat("ScanStack", remat)
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
            vars(module)[STACKED] = True

    def __len__(self) -> int:
        return self.count

    def unstack(self) -> ModuleList:
        """Copies of the layers, each with its own parameters."""
        states = self._unbound()
        layers = []
        for state in states:
            layer = copy.deepcopy(self.stacked)
            for module in layer.modules():
                del vars(module)[STACKED]
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
        if tracing.overlay and not hooked([self.stacked]):
            columns = [[table[key]] for table, key in _slots(self.stacked).values()]
            try:
                return scanned(self.stacked, columns, self.count, self.first, self.remat, x, args, kwargs)
            except OutOfOrder:  # the layers draw from PyTorch's stream one after the other
                pass
        for state in self._unbound():
            given = dict(state)
            versions = {name: t._storage.version for name, t in state.items()}
            x = functional_call(self.stacked, given, (x, *args), kwargs, tie_weights=False)
            check_written(state, given, versions)
        return x

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
