"""`scan`: identical layers with their own parameters, compiled as one layer; and what `ScanStack` has in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..._array import tracing
from ..._array.refusal import Check
from ..._base.device import device
from ..._tensor.tensor import Tensor
from ..._tensor.tree import flatten, unflatten
from ...func import _level as level
from ...func._functional_call import _slots, functional_call
from ...func._level import Keyed, Level, OutOfOrder, Source, arrays_of, refuse_collected, run_in, through
from .._module import Module

__all__ = [
    "STACKED",
    "check_layers",
    "check_remat",
    "check_written",
    "hooked",
    "is_stacked",
    "scan",
    "scanned",
]

#: set for the modules whose parameters have those of all layers
STACKED = "_is_stacked"
#: what every module has
_TABLES = frozenset(vars(Module()))
#: attributes that are compared by value
_PLAIN = (bool, int, float, complex, str, bytes, device)


def is_stacked(module: Module) -> bool:
    """Whether dimension 0 of a module's parameters is that of the layers of a `ScanStack`."""
    return STACKED in vars(module)


def scan(
    layers: Iterable[Module],
    x: Any,
    *args: Any,
    remat: bool | str | Callable[..., Any] = False,
    **kwargs: Any,
) -> Any:
    """``for layer in layers: x = layer(x, *args, **kwargs)``, compiled as one layer.

    Eagerly it is that loop. Inside ``compile`` and ``functionalize`` it is one `jax.lax.scan`, so that the forward and
    the backward pass are compiled once for any number of layers. The layers keep their own parameters: keys of
    ``state_dict``, optimizers and their state are those of the loop. A program stacks the parameters, which takes
    memory of their size while it runs (a `ScanStack` keeps them stacked). Every layer draws its own dropout. Layers
    with hooks run in a loop in compiled functions, too.

    Args:
        layers: of one class, with equal attributes, and parameters and buffers of the same names, shapes and dtypes: a
            `ModuleList`, for instance. `Sequential.scan_` is the same for a `Sequential`.
        x: a Tensor or a pytree of Tensors; no layer may change its shapes and dtypes.
        args, kwargs: what every layer is given besides.
        remat: what compiled functions compute again in the backward pass; see `ScanStack`.

    Raises:
        ValueError: in a trace, if the layers differ; for an unknown ``remat``.
        RuntimeError: in a trace, if a layer changes the shape or dtype of x, or writes to its parameters or buffers.

    Example:
        >>> import functorch_port as torch
        >>> blocks = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(12)])
        >>> torch.compile(lambda x: torch.nn.scan(blocks, x, remat=True))(torch.ones(2, 4)).shape
        torch.Size([2, 4])

    Reference: https://docs.jax.dev/en/latest/_autosummary/jax.lax.scan.html
    """
    check_remat("scan", remat)
    own = list(layers)
    if tracing.overlay and len(own) > 1 and not hooked(own):
        check_layers(own, "scan")
        states = [_slots(layer) for layer in own]
        columns = [[table[key] for table, key in (s[name] for s in states)] for name in states[0]]
        try:
            return scanned(own[0], columns, len(own), 0, remat, x, args, kwargs)
        except OutOfOrder:  # the layers draw from PyTorch's stream one after the other
            pass
    for layer in own:
        x = layer(x, *args, **kwargs)
    return x


def check_remat(name: str, remat: Any) -> None:
    """Raise unless it says what to compute again."""
    known = hasattr(jax.checkpoint_policies, remat) if isinstance(remat, str) else True
    if not known or not isinstance(remat, bool | str | Callable):  # type: ignore[arg-type]
        raise ValueError(
            f"{name}: remat must be a bool, a policy or the name of one, and jax.checkpoint_policies has no {remat!r}"
        )


def hooked(layers: Sequence[Module]) -> bool:
    """Whether a layer has hooks that may have effects; a trace takes note of them."""
    modules = [module for layer in layers for module in layer.modules()]
    for module in modules:
        tracing.overlay.note_stateful(module)
    return any(
        not getattr(hook, "is_pure", False)
        for m in modules
        for hooks in (m._forward_hooks, m._forward_pre_hooks, m._backward_hooks, m._backward_pre_hooks)
        for hook in hooks.values()
    )


def check_layers(layers: list[Module], what: str = "ScanStack") -> None:
    if not layers:
        raise ValueError("ScanStack needs at least one layer, got none")
    first = layers[0]
    for i, layer in enumerate(layers[1:], 1):
        different = _difference(first, layer)
        if different:
            raise ValueError(
                f"{what}: layer {i} differs from layer 0 in its {different}; use a Sequential or a loop, without scan"
            )


def _difference(first: Module, other: Module) -> str | None:
    """In what a layer differs from the first one; None where nothing was found."""
    if type(first) is not type(other):
        return "class"
    names, others = dict(first.named_modules()), dict(other.named_modules())
    if repr(first) != repr(other) or list(names) != list(others):
        return "options"
    if _shapes(first) != _shapes(other):
        return "parameters and buffers"
    for path, module in names.items():
        name = _different_attribute(module, others[path])
        if name:
            return f"attribute {f'{path}.{name}'.lstrip('.')!r}"
    return None


def _different_attribute(a: Module, b: Module) -> str | None:
    """The name of an attribute, other than parameters, buffers, modules and hooks, that differs."""
    plain = [name for name in vars(a) if not _is_table(name)]
    if type(a) is not type(b) or plain != [name for name in vars(b) if not _is_table(name)]:
        return "class"
    # `getattr`, as a trace notes what is read
    return next((name for name in plain if not _same(getattr(a, name), getattr(b, name))), None)


def _is_table(name: str) -> bool:
    return name == STACKED or (name in _TABLES and name != "training")


def _same(a: Any, b: Any) -> bool:
    """Whether two attributes are known to be the same."""
    if a is b:
        return True
    if isinstance(a, list | tuple) and type(a) is type(b):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and type(a) is type(b):
        return list(a) == list(b) and all(map(_same, a.values(), b.values()))
    if is_dataclass(a) and type(a) is type(b):
        return all(_same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, Module):  # one that is not registered
        return isinstance(b, Module) and _difference(a, b) is None and not _slots(a)
    return type(a) is type(b) and isinstance(a, _PLAIN) and a == b


def _shapes(layer: Module) -> dict[str, Any]:
    tensors = {name: table[key] for name, (table, key) in _slots(layer).items()}
    return {name: (tuple(t.shape), t.dtype, t.requires_grad) for name, t in tensors.items()}


def _checkpointed(body: Callable[..., Any], remat: Any) -> Callable[..., Any]:
    if not remat:
        return body
    policy = getattr(jax.checkpoint_policies, remat) if isinstance(remat, str) else remat
    return jax.checkpoint(body, prevent_cse=False, policy=None if policy is True else policy)


def scanned(
    layer: Module,
    columns: Sequence[Sequence[Tensor]],
    count: int,
    first: Any,
    remat: Any,
    x: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """The layers as one operation.

    Args:
        layer: one of them.
        columns: for each of its parameters and buffers those of all layers; or one tensor that has them stacked.
        count: of the layers, of which ``first`` is the number of the first.
    """
    carry, carry_tree = flatten(x)
    extra, extra_tree = flatten((args, kwargs))
    given = [e for e in extra if isinstance(e, Tensor)]
    names = list(_slots(layer))
    around = tracing.current()
    source = around.source if isinstance(around, Keyed) else Source(in_order=_in_order(around))

    def call(
        values: list[Any], own: list[Any], shared: list[Any], key: Any, checks: list[Check]
    ) -> list[Any]:
        """One layer."""

        def one(tensors: list[Tensor]) -> list[Any]:
            it = iter(tensors)
            here = unflatten(carry_tree, [next(it) for _ in values])
            state = {name: next(it) for name in names}
            more, named = unflatten(extra_tree, [next(it) if isinstance(e, Tensor) else e for e in extra])
            versions = {name: t._storage.version for name, t in state.items()}
            after = dict(state)
            result = functional_call(layer, after, (here, *more), named, tie_weights=False)
            check_written(state, after, versions)
            outs, tree = flatten(result)
            _check_kept(values, outs, tree == carry_tree)
            return [o._value for o in outs]

        return run_in(Keyed(source, key, checks), one, [*values, *own, *shared])  # type: ignore[no-any-return]

    def compute(values: list[Any]) -> list[Any]:
        n, m = len(carry), len(carry) + len(given)
        base = _key(source, around)
        checks: list[Check] = []

        def body(now: list[Any], xs: Any) -> tuple[list[Any], Any]:
            index, own = xs
            key = None if base is None else jax.random.fold_in(base, index)
            outs = call(now, own, values[n:m], key, checks)
            return outs, arrays_of(checks)

        rest = iter(values[m:])
        own = [[next(rest) for _ in column] for column in columns]
        stacked = [jnp.stack(each) if len(each) == count > 1 else each[0] for each in own]
        places = jnp.arange(count, dtype=jnp.int32) + first
        outs, found = lax.scan(_checkpointed(body, remat), values[:n], (places, stacked))
        refuse_collected(checks, found)
        return outs

    return unflatten(carry_tree, through("scan_stack", compute, [*carry, *given, *chain(*columns)]))


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


def check_written(before: dict[str, Tensor], after: dict[str, Any], versions: dict[str, int]) -> None:
    for name, tensor in before.items():
        if after[name] is not tensor or tensor._storage.version != versions[name]:
            raise RuntimeError(
                f"a scanned layer writes to its {name!r}, and the write would be lost; use a Sequential or a loop, "
                "without scan"
            )


def _check_kept(values: list[Any], outs: list[Any], same: bool) -> None:
    if not same:
        raise RuntimeError("a scanned layer must return the structure of Tensors that it received")
    for value, out in zip(values, outs, strict=True):
        if (value.shape, value.dtype) != (out._value.shape, out._value.dtype):
            found = f"{tuple(value.shape)} {value.dtype} to {tuple(out._value.shape)} {out._value.dtype}"
            raise RuntimeError(f"a scanned layer changes {found}; shape and dtype must not change")
