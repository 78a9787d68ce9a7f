"""Saved tensors that users look at and put away: `graph.saved_tensors_hooks`, ``grad_fn._saved_self`` and its kin.

A node keeps the arrays that its inputs had. Of these the ones that PyTorch saves (`saved.RULES`) can be packed: the
node then keeps what the hook made of the tensor, and unpacks it for its backward pass. Results that PyTorch saves are
packed, too, so that hooks see what they see there; here gradients are computed from the inputs, so an unpack hook must
give such a result back as it was.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.numpy import finfo

from .._array import executor, tracing
from .._base.alive import alive
from .._tensor import grad_mode, saved
from .._tensor.node import FREED
from .._tensor.tensor import Tensor, wrap

__all__ = ["SavedTensor", "look", "names", "note", "pack_all", "unpacked", "with_history"]

_FORBIDDEN = "Trying to create a SavedTensor object from Python is forbidden."
_IN_PLACE = (
    "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be "
    "modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if you need to "
    "perform in-place operations on the input to a pack hook."
)
_REGISTER = "Calling register_hooks on a saved tensor "
_GONE = (
    f"{_REGISTER}after it has been freed. Saved intermediate values of the graph are freed when you call .backward() "
    "or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if you "
    "need to access saved variables after calling backward."
)
_TYPES = (
    "register_hooks(): incompatible function arguments. The following argument types are supported:\n    1. (self: "
    "torch._C._autograd.SavedTensor, arg0: collections.abc.Callable, arg1: collections.abc.Callable) -> None"
)
_CHANGED = (
    "an unpack hook of saved_tensors_hooks changed a result that {} saves: here its gradient is computed from the "
    "inputs. Give it back as it was"
)


def note(node: Any, plan: Any, dyn: Sequence[Any], outs: Sequence[Tensor]) -> None:
    """Have a node note, or pack, what PyTorch saves for it."""
    where = plan.saves.get(node.mask)
    if where is None:
        where = plan.saves[node.mask] = saved.positions(plan.name, plan.slots, node.mask)
    if not where:
        return
    if saved.state.plain:
        saved.note(node, where, dyn, outs)
    elif saved.state.hooks:
        pack_all(node, where, dyn, outs)
    else:
        saved.state.allowed.note(node, where, dyn, outs)


class SavedTensor:
    """A tensor that a node saved.

    Attributes:
        packed: what the pack hook made of it.
        unpack: the hook that makes a tensor of that; None if there are no hooks.
    """

    packed: Any = None
    unpack: Callable[[Any], Any] | None = None

    def __init__(self, *args: Any) -> None:
        raise RuntimeError(_FORBIDDEN)

    @classmethod
    def of(cls, tensor: Callable[[], Any], let_go: Callable[[SavedTensor], None]) -> SavedTensor:
        """
        Args:
            tensor: gives the tensor, None if there is none; raises if it is gone.
            let_go: has the node keep this object in place of the tensor.
        """
        self: SavedTensor = object.__new__(cls)
        self._tensor, self._let_go = tensor, let_go
        return self

    _tensor: Callable[[], Any]
    _let_go: Callable[[SavedTensor], None]

    def register_hooks(self, *hooks: Callable[[Any], Any]) -> None:
        """Keep what ``pack_hook(tensor)`` returns, of which ``unpack_hook`` makes the tensor again."""
        if len(hooks) != 2 or not all(map(callable, hooks)):
            raise TypeError(_TYPES)
        if self.unpack is not None:
            raise RuntimeError(
                f"{_REGISTER}whose hooks have already been set. Hint: only one pair of hooks is allowed at a time."
            )
        try:
            tensor = self._tensor()
        except RuntimeError:
            raise RuntimeError(_GONE) from None
        if tensor is None:
            raise RuntimeError(f"{_REGISTER}with value None is forbidden")
        self.put(hooks, tensor)
        self._let_go(self)

    def put(self, hooks: Sequence[Callable[[Any], Any]], tensor: Tensor) -> None:
        """Pack the tensor."""
        pack, self.unpack = hooks
        version = tensor._writes
        with grad_mode.no_grad():
            self.packed = pack(tensor)
        if tensor._writes != version:
            raise RuntimeError(_IN_PLACE)

    def get(self) -> Any:
        """The tensor, unpacked."""
        if self.unpack is None:
            return self._tensor()
        with grad_mode.no_grad():
            tensor = self.unpack(self.packed)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(tensor).__name__}"
            )
        return tensor


def pack_all(node: Any, where: Sequence[int], inputs: Sequence[Any], outputs: Sequence[Tensor]) -> None:
    """Have a node pack the tensors that it saves."""
    if tracing.overlay:
        raise NotImplementedError(
            "saved_tensors_hooks inside a compiled function, which decides itself what it keeps: call it outside"
        )
    for i in where:
        tensor = inputs[i] if i >= 0 else outputs[-1 - i]._alias()
        if isinstance(tensor, Tensor):  # hooks are not called for numbers
            held = _saved_tensor(node, i)
            held.put(saved.state.hooks[-1], tensor)
            held._let_go(held)


def _saved_tensor(node: Any, i: int) -> SavedTensor:
    """What stands for input ``i`` of an operation, or for output ``-1 - i``."""
    packed = node.packed
    if packed is None:
        packed = node.packed = {}
    if i not in packed:
        packed[i] = SavedTensor.of(lambda: _original(node, i), lambda held: _let_go(node, i))
    return packed[i]


def _let_go(node: Any, i: int) -> None:
    """The node need not keep its input ``i`` itself."""
    if node.pending is not None:
        node.pending.compute()
    node.kept = None
    saved.keep(node, [s for s in node.saved if s[2] != i])
    node.note_avals()
    if i >= 0:
        node.values = [None if k == i else v for k, v in enumerate(node.values)]


def unpacked(node: Any) -> Sequence[Any]:
    """The values of an operation's inputs."""
    values = _inputs(node)
    for i, held in node.packed.items():
        if i < 0 and held.unpack is not None:
            if not _alike(held.get(), _result(node, -1 - i, values)):
                raise NotImplementedError(_CHANGED.format(node.name()))
    return values


def _alike(given: Tensor, made: Tensor) -> bool:
    """Whether two tensors are the same but for rounding."""
    if (given.shape, given.dtype) != (made.shape, made.dtype):
        return False
    rounding = 100 * float(finfo(made.dtype.np).eps) if made._is_differentiable() else 0.0
    a, b = (np.asarray(t._look()).astype(np.complex128) for t in (given, made))
    return np.allclose(a, b, rounding, 0, equal_nan=True)


def _inputs(node: Any) -> list[Any]:
    packed = node.packed or {}
    return [
        packed[i].get()._look() if i in packed and packed[i].unpack is not None else value
        for i, value in enumerate(node.values)
    ]


def _result(node: Any, number: int, values: Sequence[Any]) -> Tensor:
    """An output of an operation: of the tensor that has it, or computed again."""
    for tensor in alive(Tensor):
        if tensor._grad_fn is node and tensor._output_nr == number:
            return tensor._alias()
    made = executor.current.compute(node.plan, values)
    return wrap(made[number] if isinstance(made, tuple | list) else made)


def _original(node: Any, i: int) -> Any:
    """Input ``i`` of an operation, or a view of output ``-1 - i``: with its history, and itself if it is there."""
    with node.looked_at():
        if node.freed:
            raise RuntimeError(FREED)
        if node.saved:
            saved.check(node)
        if i >= 0:
            value, edge = node.values[i], node.edges[i]
            if not hasattr(value, "dtype"):
                return value
            return wrap(value) if edge is None else _at_edge(value, edge, any(s[2] == i for s in node.saved))
        again = _result(node, -1 - i, _inputs(node))
    again._requires_grad, again._grad_fn, again._output_nr = True, node, -1 - i
    return again


def _at_edge(value: Any, edge: Any, unchanged: bool) -> Tensor:
    """The tensor of this value and history: itself if it is alive and ``unchanged``."""
    node, number = edge
    if hasattr(node, "variable"):
        found = [node.variable]
    else:
        found = [
            t for t in alive(Tensor) if t._grad_fn is node and t._output_nr == number and t._view is None
        ]
    if found and (unchanged or found[0]._look() is value):
        return found[0]
    return with_history(wrap(value), edge)


def with_history(tensor: Tensor, edge: Any) -> Tensor:
    """The tensor's value with the history that it was saved with."""
    tensor = tensor._alias()
    tensor._requires_grad = True
    if hasattr(edge[0], "variable"):
        tensor._accumulator = weakref.ref(edge[0])
    else:
        tensor._grad_fn, tensor._output_nr = edge
    return tensor


# ------------------------------------------------------------------ by name


def names(node: Any) -> dict[str, Any]:
    """What PyTorch's node of an operation has as ``_saved_NAME``: positions of tensors, or other arguments' values."""
    plan = node.plan
    if plan.named is None:
        return {}
    found: dict[str, Any] = {}
    of_name = {name: slot for name, slot in plan.slots.items() if slot is not None}
    for name, value in plan.named(range(len(node.edges))).items():
        if name not in of_name:
            found[saved.shown_as(name)] = _Value(value)
    for i in saved.positions(plan.name, plan.slots, node.mask) if plan.saves is not None else ():
        if i < 0:
            found["result" if node.outputs == 1 else f"result{-1 - i}"] = i
        else:
            name = next(n for n, s in of_name.items() if s == i or (isinstance(s, tuple) and i in s))
            slot = of_name[name]
            found[saved.shown_as(name)] = slot if isinstance(slot, tuple) else i
    return found


class _Value:
    """An argument that is no tensor."""

    def __init__(self, value: Any) -> None:
        self.value = value


def look(node: Any, name: str) -> Any:
    """``node._saved_NAME`` or ``node._raw_saved_NAME``.

    Raises:
        AttributeError: the node saves nothing of that name.
    """
    raw = name.startswith("_raw_saved_")
    found = names(node).get(name.removeprefix("_raw").removeprefix("_saved_"))
    if found is None or (raw and isinstance(found, _Value)):
        raise AttributeError(f"{type(node).__name__!r} object has no attribute {name!r}")
    if isinstance(found, _Value):
        return found.value
    if isinstance(found, tuple):
        return tuple([_at(node, i, raw) for i in found])
    return _at(node, found, raw)


def _at(node: Any, i: int | None, raw: bool) -> Any:
    if i is None:
        return SavedTensor.of(lambda: None, lambda held: None) if raw else None
    if raw:
        return _saved_tensor(node, i)
    held = (node.packed or {}).get(i)
    if held is None or held.unpack is None:
        return _original(node, i)
    tensor = held.get()
    edge = node.edges[i] if i >= 0 else (node, -1 - i)
    return tensor if edge is None else with_history(tensor, edge)
