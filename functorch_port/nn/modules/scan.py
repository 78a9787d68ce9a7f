"""`ScanStack`: a stack of identical layers that is compiled as one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ...core import keyed, storage
from ...core.tensor import Tensor, wrap
from ...func import level
from ...func.functional_call import functional_call
from ...func.level import Level, entered, flatten, through, unflatten
from .. import hooks
from ..module import Module
from .container import ModuleList

__all__ = ["ScanStack"]


class ScanStack(ModuleList):
    """Identical layers, called one after the other; a compiled function loops over them.

    In eager mode it is a Python loop. Inside ``compile``, ``functionalize`` and the transforms of ``func`` it is
    one `jax.lax.scan` over the layers' stacked parameters, so that the time to compile does not grow with the
    number of layers. Each layer has its parameters of its own, and the keys of ``state_dict`` are those of a
    `ModuleList`: ``"0.weight"``, ``"1.weight"``, ... Dropout differs from layer to layer.

    Layers with hooks, or of which only some are in training mode, are looped over in compiled functions too.

    Args:
        modules: the layers: one class, with parameters and buffers of the same names, shapes and types.
        remat: what the backward pass computes again instead of keeping it from the forward pass, in compiled
            functions. False: nothing; True: all but the layers' inputs; or a policy for `jax.checkpoint`, the
            name of one of `jax.checkpoint_policies` among them ("dots_saveable", ...).

    Shape:
        ``stack(x, *args, **kwargs)`` calls ``x = layer(x, *args, **kwargs)`` for every layer; shapes and types of x
        stay. x may be a nest of tuples, lists and dicts of Tensors.

    Raises:
        ValueError: for layers that differ.
        RuntimeError: if a layer changes the shape or type of x, or writes to a buffer of its own.

    Example:
        >>> import functorch_port as torch
        >>> layers = torch.nn.ScanStack([torch.nn.Linear(4, 4) for _ in range(12)], remat=True)
        >>> torch.compile(lambda x: layers(x))(torch.ones(2, 4)).shape
        torch.Size([2, 4])
        >>> list(layers.state_dict())[:3]
        ['0.weight', '0.bias', '1.weight']

    Reference:
        https://docs.jax.dev/en/latest/_autosummary/jax.lax.scan.html
    """

    def __init__(self, modules: Iterable[Module], remat: bool | str | Callable[..., Any] = False) -> None:
        super().__init__(modules)
        if isinstance(remat, str) and not hasattr(jax.checkpoint_policies, remat):
            raise ValueError(f"remat: jax.checkpoint_policies has no {remat!r}")
        self.remat = remat
        self._check_layers()

    def _check_layers(self) -> None:
        described = [(type(layer), repr(layer), _shapes(layer)) for layer in self]
        for i, other in enumerate(described):
            if other != described[0]:
                what = next(
                    name
                    for name, a, b in zip(
                        ("class", "options", "parameters and buffers"), described[0], other, strict=True
                    )
                    if a != b
                )
                raise ValueError(f"ScanStack: layer {i} differs from layer 0 in its {what}; use a Sequential")

    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if storage.overlay is None or len(self) < 2 or not self._alike():
            for layer in self:
                x = layer(x, *args, **kwargs)
            return x
        try:
            return _scan(list(self), self.remat, x, args, kwargs)
        except _FromStream:
            for layer in self:
                x = layer(x, *args, **kwargs)
            return x

    def _alike(self) -> bool:
        """Whether what runs is the same in all layers; a trace takes note of what that depends on."""
        global_hooks = hooks.globals_.for_call()
        listed = [list(layer.modules()) for layer in self]
        for module in (m for modules in listed for m in modules):
            storage.overlay.note_module(module, global_hooks)
        modes = [[m.training for m in modules] for modules in listed]
        hooked = any(
            m._forward_hooks or m._forward_pre_hooks or m._backward_hooks or m._backward_pre_hooks
            for modules in listed
            for m in modules
        )
        return not hooked and all(mode == modes[0] for mode in modes)

    def extra_repr(self) -> str:
        return f"remat={self.remat}" if self.remat else ""


class _FromStream(Exception):
    """Random numbers must come one layer after the other, from PyTorch's stream."""


class _Keys:
    """Random numbers for a scan's layers, all from one key.

    Attributes:
        generator: what the layers draw from, noted in a dry run; None if they draw nothing.
        key: the key, taken before the scan.
    """

    def __init__(self) -> None:
        self.generator: Any = None
        self.key: Any = None

    def take(self, session: Any, around: Any) -> None:
        """Take the key, where the layers need one."""
        if self.generator is None:
            return
        with entered(around):
            self.key = session.random(self.generator.split_key)


class _Layer(Level):
    """The level in which one layer runs."""

    def __init__(self, keys: _Keys, index: Any) -> None:
        super().__init__()
        self.keys, self.index, self.draws = keys, index, 0

    def host_draw(self, draw: Any) -> Any:
        keys = self.keys
        around = self.outer
        if around is None or isinstance(around, Level) or around.rng == "torch":
            raise _FromStream
        if self.session.dry:
            keys.generator = draw.generator if keys.generator is None else keys.generator
            return jnp.zeros(draw.shape, draw.dtype.np)
        if draw.generator is not keys.generator:
            raise _FromStream
        self.draws += 1
        key = jax.random.fold_in(jax.random.fold_in(keys.key, self.index), self.draws)
        return keyed.draw(draw.kind, key, draw.shape, draw.dtype, **draw.params)


def _state(layer: Module) -> dict[str, Tensor]:
    return {**dict(layer.named_parameters()), **dict(layer.named_buffers())}


def _shapes(layer: Module) -> dict[str, Any]:
    return {name: (tuple(t.shape), t.dtype) for name, t in _state(layer).items()}


def _checkpointed(body: Callable[..., Any], remat: Any) -> Callable[..., Any]:
    if not remat:
        return body
    policy = getattr(jax.checkpoint_policies, remat) if isinstance(remat, str) else remat
    return jax.checkpoint(body, prevent_cse=False, policy=None if policy is True else policy)


def _scan(layers: list[Module], remat: Any, x: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The layers as one operation: a scan over their stacked state."""
    carry, carry_tree = flatten(x)
    extra, extra_tree = flatten((args, kwargs))
    given = [e for e in extra if isinstance(e, Tensor)]
    states = [list(_state(layer).values()) for layer in layers]
    names = list(_state(layers[0]))
    count, keys, around = len(layers), _Keys(), storage.overlay

    def call(values: list[Any], own: list[Any], shared: list[Any], index: Any) -> list[Any]:
        """The first layer with the state of another."""

        def run(tensors: list[Tensor]) -> list[Any]:
            it = iter(tensors)
            here = unflatten(carry_tree, [next(it) for _ in values])
            state = {name: next(it) for name in names}
            more, named = unflatten(extra_tree, [next(it) if isinstance(e, Tensor) else e for e in extra])
            versions = [t._value for t in state.values()]
            outs, tree = flatten(functional_call(layers[0], state, (here, *more), named, tie_weights=False))
            _check(names, state, versions, values, outs, tree == carry_tree)
            return [o._value for o in outs]

        with entered(_Layer(keys, index)):
            return run([wrap(a) for a in (*values, *own, *shared)])

    def compute(values: list[Any]) -> list[Any]:
        if not level.current_session().dry:
            keys.take(level.current_session(), around)
        n, m = len(carry), len(carry) + len(given)
        rest = values[m:]
        width = len(names)
        stacked = [jnp.stack(rest[i::width]) for i in range(width)]

        def body(values: list[Any], xs: Any) -> tuple[list[Any], None]:
            index, own = xs
            return call(values, own, values_shared, index), None

        values_shared = values[n:m]
        places = jnp.arange(count, dtype=jnp.int32)
        return lax.scan(_checkpointed(body, remat), values[:n], (places, stacked))[0]

    outs = through("scan_stack", compute, [*carry, *given, *(t for state in states for t in state)])
    return unflatten(carry_tree, outs)


def _check(
    names: list[str], state: Any, before: list[Any], values: list[Any], outs: list[Any], same: bool
) -> None:
    """Raise for what a scan cannot do."""
    for name, old in zip(names, before, strict=True):
        if state[name]._value is not old:
            raise RuntimeError(
                f"ScanStack: a layer writes to its {name!r}, which is lost in a compiled function; use a Sequential"
            )
    if not same:
        raise RuntimeError("ScanStack: a layer must return what it was given: the same structure of Tensors")
    for value, out in zip(values, outs, strict=True):
        if (value.shape, value.dtype) != (out._value.shape, out._value.dtype):
            found = f"{tuple(value.shape)} {value.dtype} into {tuple(out._value.shape)} {out._value.dtype}"
            raise RuntimeError(f"ScanStack: a layer turns {found}; shape and type must stay")
