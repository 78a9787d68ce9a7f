"""What a function may change while one of the user's own JAX transforms runs it.

`jax.jit`, `jax.grad`, `jax.vmap`, `jax.lax.scan` and their like call a Python function to see what it computes. What
that function changes outside of itself is lost when a compiled one is called again, or is left with a tracer in it.
So tensors that were made before the transform began may be read in it, and not changed. What is made in it, and
arguments, are its own. `jax.grad` and `jax.vmap` by themselves compute at once what does not depend on their arguments,
in every call: such numbers, a dropout mask among them, are written and drawn as ever (under `vmap` once for all).

JAX keeps the transform in progress as the current *trace*, which `top_trace` tells. What is made during one is noted,
so that in a plain program, where there is none, a write costs that question and nothing else.
What is made of anything but tracers, for which that is much, asks only when a trace was `met` before. So in the first
one of a process a tensor that is made of numbers before anything else counts as made outside, and a write of a tracer
is refused.
Transforms of ours have an overlay (see `_array.storage`), and rules of their own.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .dtypes import from_np

__all__ = [
    "may_accumulate", "may_change", "may_draw", "may_forget", "may_rebind", "may_step", "may_write", "note",
    "note_handle", "owns",
]  # fmt: skip


def _first_top_trace(_: Any) -> Any:
    """`top_trace` when it is first called: `jax.extend` takes 20 ms to import."""
    global top_trace, NO_TRACE
    from jax.extend.core import find_top_trace

    with jax.core.eval_context():
        NO_TRACE = find_top_trace(None)
    top_trace = find_top_trace
    return find_top_trace(None)


#: ``top_trace(None)`` is what JAX is tracing in this thread: `NO_TRACE` where that is nothing
top_trace: Any = _first_top_trace
NO_TRACE: Any = None


def repair() -> None:
    """Put JAX's trace back after an exception, which may have come just where JAX does so, and nobody is tracing."""
    if top_trace(None) is NO_TRACE:
        return
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith(_JAX):
            return  # it does so on its way up
        frame = frame.f_back
    context = jax.core.eval_context()
    context.__enter__()
    _entered.append(context)  # one that nobody holds is left


_JAX = os.path.dirname(jax.__file__) + os.sep
#: the classes of values that are no tracers, as far as they were seen
concrete: set[type] = set()


def is_made_inside(value: Any) -> bool:
    """Whether JAX traces something now, in which this value was made.

    As long as there was no trace in the process, values that are no tracers cost the look at their class.
    """
    if not met and value.__class__ in concrete:
        return False
    if top_trace(None) is not NO_TRACE:
        return True
    if not isinstance(value, jax.core.Tracer):
        concrete.add(value.__class__)
    return False


#: what `repair` has entered for good
_entered: list[Any] = []

#: whether there was a trace in this process
met = False
#: the numbers of the traces that still go on, by weak references to them
_traces: dict[weakref.ref[Any], int] = {}
_last = 0
#: what was made inside a trace -> the number of it
_made: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def _number() -> int:
    """The number of the current trace: an outer one has a lower number than those inside it."""
    global _last, met
    met = True
    trace = weakref.ref(top_trace(None), _forget)
    if trace not in _traces:
        _last += 1
        _traces[trace] = _last
    return _traces[trace]


def _forget(trace: weakref.ref[Any]) -> None:
    _traces.pop(trace, None)


def note(thing: Any) -> None:
    """A Storage or a generator was made inside the current trace."""
    _made[thing] = _number()


def note_handle(tensor: Any) -> None:
    """A tensor was made inside the current trace, over a Storage that may be older."""
    tensor._made_inside = _number()


def _is_own(thing: Any) -> bool:
    return _made.get(thing, 0) >= _number()


def owns(tensor: Any) -> bool:
    """Whether the tensor itself was made inside the current trace."""
    return _is_own(tensor._storage) or getattr(tensor, "_made_inside", 0) >= _number()


def _is_staged() -> bool:
    """Whether JAX only notes operations now, to run them later: what Python does happens once for all these times."""
    return isinstance(jax.lax.iota(np.int32, 1), jax.core.Tracer)


def may_write(cell: Any, value: Any) -> None:
    """Refuse to write to a Storage from outside a value that is a tracer, or that is lost."""
    if not _is_own(cell) and (isinstance(value, jax.core.Tracer) or _is_staged()):
        raise RuntimeError(_text(_name_of(cell, cell.aval()), "is written to"))


def may_change(tensor: Any, what: str) -> None:
    """Refuse to change ``what`` of a tensor from outside where that is lost."""
    if not owns(tensor) and _is_staged():
        raise RuntimeError(_text(_name_of(tensor._storage, tensor._aval()), f"has its {what} changed"))


def may_rebind(tensor: Any, other: Any, how: str) -> None:
    """Refuse to put ``other`` (or None) in the place of a tensor from outside, or of its value or gradient."""
    if not owns(tensor) and ((other is not None and _is_tracer(other)) or _is_staged()):
        raise RuntimeError(_text(_name_of(tensor._storage, tensor._aval()), how))


def may_forget(tensors: Any) -> None:
    """Refuse to take the gradients away from tensors from outside."""
    for tensor in tensors:
        if tensor._kept_grad is not None:
            may_rebind(tensor, None, "gets another gradient")


def may_accumulate(outputs: Any, leaves: Any) -> None:
    """Refuse to add gradients to the ``.grad`` of tensors from outside."""
    outside = [leaf for leaf in leaves if not owns(leaf)]
    if outside and (any(map(_is_tracer, outputs)) or _is_staged()):
        name = _name_of(outside[0]._storage, outside[0]._aval())
        raise RuntimeError(_text(name, "gets a gradient from backward()"))


def may_step(optimizer: Any) -> None:
    """Refuse the step of an optimizer that has parameters from outside, before it changes any."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    outside = [p for p in params if not owns(p)]
    grads = [p._grad for p in outside]
    if outside and (any(g is not None and _is_tracer(g) for g in grads) or _is_staged()):
        name = _name_of(outside[0]._storage, outside[0]._aval())
        raise RuntimeError(_text(name, f"is updated by {type(optimizer).__name__}.step()"))


def may_draw(generator: Any) -> None:
    """Refuse to draw from a generator from outside where every later call would see the same numbers."""
    if not _is_own(generator) and _is_staged():
        raise RuntimeError(_RANDOM)


def _is_tracer(tensor: Any) -> bool:
    if tensor._sparse:
        return _is_tracer(tensor._vals)
    return isinstance(tensor._aval(), jax.core.Tracer)


#: names a Storage after the module or optimizer that holds it; the package's ``__init__`` sets it
owner_of: Callable[[Any], str | None] = lambda cell: None


def _name_of(cell: Any, aval: Any) -> str:
    kind = f"shape {tuple(aval.shape)} and dtype {from_np(aval.dtype)}"
    return f"{owner_of(cell) or 'a tensor'} of {kind}"


def _text(name: str, how: str) -> str:
    return (
        f"{name} was made outside of the JAX transform that is running (jax.jit, grad, vmap, scan, ...) and {how} "
        "inside it. The change would be lost, or leave a tracer behind. Give what changes to the transformed function "
        "as an argument and return it: torch.func.functional_call(module, {name: tensor}, args) calls a module with "
        "other parameters and buffers, torch.func.pure(module) makes it a function of them, and "
        "torch.functionalize(fn) makes a function of all the state that fn reads and writes."
    )


_RANDOM = (
    "random numbers are drawn from a generator outside of the JAX transform that is running (jax.jit, scan, ...): "
    "every later call would see the same ones. Give the transformed function a key: apply(params, buffers, x, rng=key) "
    "of torch.func.pure(module), or the state of torch.functionalize(fn), which has the generator's key in it. Or make "
    "a torch.Generator inside, if the numbers are to be the same each time."
)
