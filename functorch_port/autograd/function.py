"""`autograd.Function`: operations with a user-defined backward."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from .._array import tracing
from .._base import watch
from .._run import duals
from .._run.opnode import edge_of
from .._run.packing import SavedTensor, with_history
from .._tensor import grad_mode, saved
from .._tensor.node import FREED, Node
from .._tensor.pullback import conj
from .._tensor.tensor import Tensor, wrap
from .._tensor.view import CUSTOM
from ._function_forward import JVP_COUNT, push
from ._functions import DelayedError

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]

_LEAF_DIRTY = "a leaf Variable that requires grad has been used in an in-place operation."
_DIRTY_LOST = (
    "Some elements marked as dirty during the forward method were not returned as output. The inputs that "
    "are modified inplace must all be outputs of the Function."
)


class FunctionCtx(Node):
    """The node of a user's `Function`; its methods receive it as ``ctx``.

    Attributes:
        needs_input_grad: for each argument of forward, whether its gradient is needed.
    """

    __slots__ = ("__dict__",)
    _function: type[Function]
    runs_empty = True  # without any gradient it gets zeros
    materialize_grads = True
    _to_save: tuple[Any, ...] = ()
    _for_forward: tuple[Any, ...] = ()
    _saved: tuple[Any, ...] | None = ()
    _dirty: tuple[Any, ...] = ()
    _non_differentiable: tuple[int, ...] = ()

    # -- what forward may call ---------------------------------------------

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save tensors for backward, which reads them as ``ctx.saved_tensors``."""
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save tensors for ``jvp``."""
        self._for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Mark the inputs that forward changed in place."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Mark the outputs that have no gradient."""
        self._non_differentiable = tuple(id(t) for t in args)

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether backward receives zeros (True, the default) or None for outputs without a gradient."""
        self.materialize_grads = value
        self.runs_empty = value

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors that `save_for_backward` saved."""
        if self._saved is None:
            raise RuntimeError(FREED)
        return tuple(self._unpack(*item) for item in self._saved)

    @property
    def saved_variables(self) -> tuple[Tensor | None, ...]:
        """Deprecated name of `saved_tensors`."""
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        """The saved tensors in packed form, for registering hooks."""
        if self._saved is None:
            raise RuntimeError(FREED)
        return tuple(self._held(i) for i in range(len(self._saved)))

    def _held(self, i: int) -> Any:
        held = vars(self).setdefault("_packed", {})
        if i not in held:
            held[i] = SavedTensor.of(lambda: self.saved_tensors[i], lambda one: self._keep(i, one))
        return held[i]

    def _keep(self, i: int, held: Any) -> None:
        items: list[Any] = list(self._saved or ())
        kind, tensor, number, _ = items[i]
        edge = (self, number) if kind == "output" else edge_of(tensor)
        items[i] = ("packed", (held, edge), number, 0)
        self._saved = tuple(items)

    def _unpack(self, kind: str, tensor: Any, number: int, version: int) -> Tensor | None:
        if kind == "packed":
            held, edge = tensor
            return held.get() if edge is None else with_history(held.get(), edge)
        if isinstance(tensor, Tensor) and tensor._writes != version:
            made_by = "" if tensor.grad_fn is None else tensor.grad_fn.name()
            shape, now = list(tensor.shape), tensor._writes
            raise RuntimeError(saved.changed(tensor.type(), shape, made_by, tensor._output_nr, now, version))
        if kind == "output":  # kept without its history, which is this node itself
            again = tensor.detach()
            again._requires_grad, again._grad_fn, again._output_nr = True, self, number
            return again
        return tensor

    # -- engine --------------------------------------------------------------

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        results = self._call([None if g is None else wrap(g) for g in grads])
        return [r if r is None or r._sparse else r._value for r in results]

    def apply_recorded(self, grads: Sequence[Any]) -> Sequence[Any]:
        return self._call(list(grads))

    def _call(self, grads: list[Any]) -> list[Any]:
        if self.materialize_grads:
            grads = [_zeros(like) if g is None else g for g, like in zip(grads, self._outputs)]
        results = _backward_of(self._function)(self, *grads)
        return _checked_results(self._function.__name__, results, self._positions)

    def release(self) -> None:
        self._saved = None

    def __repr__(self) -> str:
        return f"<torch.autograd.function.{type(self).__name__} object at {id(self):#x}>"


FunctionNode = BackwardCFunction = FunctionCtx


def _zeros(like: Any) -> Tensor | None:
    if like is None:
        return None
    with tracing.x64():
        return wrap(jnp.zeros(like[0], like[1].np))


def _checked_results(name: str, results: Any, positions: Sequence[Any]) -> list[Any]:
    """The results of backward as one gradient or None per Tensor argument of forward; raises if they do not match."""
    results = (results,) if not isinstance(results, tuple | list) else tuple(results)
    count = len(positions)
    if len(results) > count and all(r is None for r in results[count:]):
        results = results[:count]
    if len(results) != count:
        raise RuntimeError(
            f"function {name}Backward returned an incorrect number of gradients (expected {count}, got {len(results)})"
        )
    out = []
    for position, (result, like) in enumerate(zip(results, positions)):
        if like is not None:
            out.append(None if result is None else _fitted(name, result, like, position))
        elif result is not None:
            raise RuntimeError(
                f"function {name}Backward returned a gradient different than None at position "
                f"{position + 1}, but the corresponding forward input was not a Variable"
            )
    return out


def _fitted(name: str, result: Any, like: tuple[Any, Any], position: int) -> Tensor:
    if not isinstance(result, Tensor):
        raise RuntimeError(f"expected Variable or None (got {type(result).__name__})")
    shape, dtype = like
    if tuple(result.shape) != tuple(shape):
        try:
            result = result.sum_to_size(shape)  # type: ignore[attr-defined]
        except (RuntimeError, AttributeError):
            raise RuntimeError(
                f"Function {name}Backward returned an invalid gradient at index {position} - got "
                f"{list(result.shape)} but expected shape compatible with {list(shape)}"
            ) from None
    return result if result.dtype is dtype else result.to(dtype)  # type: ignore[attr-defined]


class _NodeType:
    """Descriptor that returns the node class of a Function."""

    def __get__(self, instance: Any, owner: type[Function]) -> type[FunctionCtx]:
        return _node_type(owner)  # type: ignore[arg-type]


class Function:
    """Base class of operations with a user-defined gradient.

    Subclass it with static methods ``forward(ctx, *args)`` (or ``forward(*args)`` and ``setup_context(ctx, inputs,
    output)``) and ``backward(ctx, *grad_outputs)``, and call ``MyFunction.apply(*args)``. Inside the transforms of
    `func` the same methods become a `jax.custom_vjp`.

    Example:
        >>> import functorch_port as torch
        >>> class Double(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         return g * 2
        >>> x = torch.tensor(1., requires_grad=True)
        >>> Double.apply(x).backward()
        >>> x.grad
        tensor(2.)

    Reference: https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.Function
    """

    generate_vmap_rule = False
    _backward_cls = _NodeType()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you "
            "should invoke them on the class itself. Instantiating an autograd function will raise an error "
            "in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style "
            "autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The operation; it runs with autograd disabled."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Fill ``ctx`` after a ``forward`` that has no ``ctx`` argument."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Map the gradients of the outputs to those of the inputs, one per argument of forward."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use "
            "it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Forward-mode derivative: map the tangents of the inputs to those of the outputs."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """Batching rule for `func.vmap` in PyTorch; not used here: `vmap` maps ``forward`` and ``backward``."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run the operation and record it for autograd."""
        if kwargs:
            args = _positional(cls, args, kwargs)
        if watch.on and watch.state.level is not None:
            return _apply_in_level(cls, args)
        if tracing.overlay:
            tracing.overlay.note_inputs(args)
            tracing.overlay.note_methods(cls, ("forward", "setup_context", "backward", "jvp", "vjp"))
            if tracing.overlay.transforms:
                return _apply_in_transform(cls, args)
        return _apply(cls, args)[0]


def _apply_in_level(cls: type[Function], args: tuple[Any, ...]) -> Any:
    """Run the operation and its forward-mode derivative along the tangents of the arguments."""
    if tracing.overlay and tracing.overlay.transforms and tracing.overlay.differentiates:
        raise NotImplementedError(duals.IN_TRACE)
    with duals.paused():
        result, ctx, raw = _apply(cls, args)
    push(cls, ctx, args, raw, result if isinstance(result, tuple) else (result,))
    return result


def _apply(cls: type[Function], args: tuple[Any, ...]) -> tuple[Any, FunctionCtx, Sequence[Any]]:
    """Run the operation; return the result, the node, and the raw result of forward."""
    inputs = [a for a in args if isinstance(a, Tensor)]
    recorded = grad_mode.state.enabled and any(t.requires_grad for t in inputs)
    edges = tuple(edge_of(t) for t in inputs) if recorded else (None,) * len(inputs)
    ctx = _node_type(cls)(edges)  # type: ignore[arg-type]
    if recorded and tracing.overlay:
        tracing.overlay.note_edges(inputs, edges)
        tracing.overlay.note_function()
    ctx._positions = [(a.shape, a.dtype) if isinstance(a, Tensor) else None for a in args]
    ctx.needs_input_grad = tuple(recorded and isinstance(a, Tensor) and a.requires_grad for a in args)
    with grad_mode.no_grad():
        result = _forward(cls, ctx, args)
    made = result if isinstance(result, tuple) else (result,)
    outputs = _with_history(ctx, made, inputs) if recorded else made
    if grad_mode.state.enabled:
        _mark_views(outputs, inputs)
    ctx.outputs = len(outputs)
    ctx._outputs = [(o.shape, o.dtype) if isinstance(o, Tensor) else None for o in outputs]
    if recorded and any(isinstance(t, Tensor) and t.is_inference() for t in ctx._to_save):
        raise RuntimeError(saved.INFERENCE)
    ctx._saved = tuple(_saved(ctx, t, made, outputs) for t in ctx._to_save)
    ctx._to_save = ()
    if recorded and saved.state.hooks:
        for i, tensor in enumerate(ctx.saved_tensors):
            if tensor is not None:
                ctx._held(i).register_hooks(*saved.state.hooks[-1])
    return outputs if isinstance(result, tuple) else outputs[0], ctx, made


class InplaceFunction(Function):
    """Legacy base class of a `Function` with the constructor argument ``inplace``."""


def _positional(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of the call in the order of forward's parameters."""
    separate = cls.setup_context is not Function.setup_context
    bound = inspect.signature(cls.forward).bind(*(() if separate else (None,)), *args, **kwargs)
    bound.apply_defaults()
    return bound.args if separate else bound.args[1:]


def _forward(cls: type[Function], ctx: FunctionCtx, args: tuple[Any, ...]) -> Any:
    if cls.setup_context is not Function.setup_context:
        result = cls.forward(*args)
        cls.setup_context(ctx, args, result)
    else:
        result = cls.forward(ctx, *args)
    for i, tensor in enumerate(ctx._to_save):
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {i} is of type {type(tensor).__name__}"
            )
    return result


def _backward_of(cls: type[Function]) -> Callable[..., Any]:
    if cls.backward is not Function.backward and cls.vjp is not Function.vjp:
        raise RuntimeError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
            "implement one of them."
        )
    return cls.vjp if cls.vjp is not Function.vjp else cls.backward


def _with_history(ctx: FunctionCtx, made: Sequence[Any], inputs: Sequence[Tensor]) -> tuple[Any, ...]:
    """The outputs, with the node as their autograd history."""
    _check_dirty(ctx, made)
    return tuple(_output(ctx, out, number, inputs) for number, out in enumerate(made))


def _check_dirty(ctx: FunctionCtx, made: Sequence[Any]) -> None:
    for tensor in ctx._dirty:
        if not any(tensor is out for out in made):
            raise RuntimeError(_DIRTY_LOST)


def _output(ctx: FunctionCtx, out: Any, number: int, inputs: Sequence[Tensor]) -> Any:
    """One output; an input that is returned becomes a new Tensor, unless it is marked dirty."""
    if not isinstance(out, Tensor) or id(out) in ctx._non_differentiable:
        return out
    if not (out.is_floating_point() or out.is_complex()):
        return out
    if any(out is t for t in ctx._dirty):
        return _dirty_output(ctx, out, number)
    if any(out is t for t in inputs):
        out = out.detach()
    out._requires_grad, out._grad_fn, out._output_nr = True, ctx, number
    return out


def _mark_views(outputs: Sequence[Any], inputs: Sequence[Tensor]) -> None:
    """Mark outputs that are views; their history is that of the function, whatever it wrote."""
    for out in outputs:
        if isinstance(out, Tensor) and out._base is not None and all(out is not t for t in inputs):
            out._view.origin = CUSTOM  # type: ignore[union-attr]
            out._version_seen = out._writes


def _dirty_output(ctx: FunctionCtx, tensor: Tensor, number: int) -> Tensor:
    base = tensor if tensor._base is None else tensor._base
    if base._requires_grad and base._grad_fn is None:
        raise RuntimeError(_LEAF_DIRTY)
    new = wrap(tensor._value)
    new._requires_grad, new._grad_fn, new._output_nr = True, ctx, number
    return tensor._take(new)


def _saved(
    ctx: FunctionCtx, tensor: Any, made: Sequence[Any], outputs: Sequence[Any]
) -> tuple[str, Any, int, int]:
    """One saved tensor. Outputs are saved without history, which would make a reference cycle with the node."""
    if tensor is None:
        return ("input", None, 0, 0)
    for number, (raw, out) in enumerate(zip(made, outputs)):
        if tensor is raw and isinstance(out, Tensor) and out._grad_fn is ctx:
            return ("output", tensor.detach(), number, tensor._writes)
    return ("input", tensor, 0, tensor._writes)


@functools.cache
def _node_type(cls: type[Function]) -> type[FunctionCtx]:
    return type(f"{cls.__name__}Backward", (FunctionCtx,), {"__slots__": (), "_function": cls})


# ------------------------------------------------------------ inside `func`


def _apply_in_transform(cls: type[Function], args: tuple[Any, ...]) -> Any:
    """The operation as a `jax.custom_vjp`, in forward mode inside a `jax.custom_jvp`: transforms have no tape."""
    if cls.setup_context is Function.setup_context and tracing.overlay.is_of_func:
        raise RuntimeError(_NO_SETUP)
    tensors = [a for a in args if isinstance(a, Tensor)]
    kept: list[FunctionCtx] = []
    shape: list[Any] = []

    def run(values: Sequence[Any], needed: Sequence[bool]) -> tuple[list[Any], list[Any]]:
        ctx = _node_type(cls)(())  # type: ignore[arg-type]
        it, marks = iter(values), iter(needed)
        given = tuple(wrap(next(it)) if isinstance(a, Tensor) else a for a in args)
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and next(marks) for a in args)
        result = _forward(cls, ctx, given)
        outs = result if isinstance(result, tuple) else (result,)
        _check_dirty(ctx, outs)
        dirty = {id(t) for t in ctx._dirty}
        written = {id(t): a for t, a in zip(given, args) if id(t) in dirty}
        kept[:], shape[:] = [ctx], [isinstance(result, tuple), outs, written]
        saved = [None if t is None else t._value for t in ctx._to_save]
        return [o._value for o in outs if isinstance(o, Tensor)], saved

    @jax.custom_vjp
    def op(*values: Any) -> list[Any]:
        return run(values, [False] * len(values))[0]

    def forward(*values: Any) -> tuple[list[Any], list[Any]]:
        return run([v.value for v in values], [v.perturbed for v in values])

    def backward(saved: list[Any], cotangents: list[Any]) -> tuple[Any, ...]:
        ctx = kept[0]
        ctx._saved = tuple(("input", None if v is None else wrap(v), 0, 0) for v in saved)
        it = iter(cotangents)
        grads = [_gradient(ctx, next(it)) if isinstance(o, Tensor) else None for o in shape[1]]
        positions = [(a.shape, a.dtype) if isinstance(a, Tensor) else None for a in args]
        results = _checked_results(cls.__name__, _backward_of(cls)(ctx, *grads), positions)
        return tuple(
            conj(jnp.zeros(t.shape, t.dtype.np) if r is None else r._value)
            if t.is_floating_point() or t.is_complex()
            else None
            for r, t in zip(results, tensors)
        )

    op.defvjp(forward, backward, symbolic_zeros=True)

    def push(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        arrays = op(*primals)  # as reverse mode sees them
        run(primals, [not isinstance(t, SymbolicZero) for t in tangents])
        ctx, outs = kept[0], shape[1]
        number = {id(o): k for k, o in enumerate(o for o in outs if isinstance(o, Tensor))}
        saved = [t if id(t) not in number else wrap(arrays[number[id(t)]]) for t in ctx._for_forward]
        ctx._saved = tuple([("input", t, 0, t._writes) for t in saved])
        it = iter(tangents)
        made = cls.jvp(ctx, *[_gradient(ctx, next(it)) if isinstance(a, Tensor) else None for a in args])
        made = made if isinstance(made, tuple | list) else (made,)
        if len(made) != len(outs):
            raise RuntimeError(JVP_COUNT.format(len(outs), len(made)))
        return arrays, [_tangent(t, o) for t, o in zip(made, outs, strict=True) if isinstance(o, Tensor)]

    either: Any = op
    if tracing.overlay.differentiated_forward():
        either = jax.custom_jvp(op)
        either.defjvp(push, symbolic_zeros=True)
    with tracing.x64():
        arrays = iter(either(*map(tracing.overlay.value_of, tensors)))
    many, outs, written = shape
    final = []
    for o in outs:
        made = wrap(next(arrays)) if isinstance(o, Tensor) else o
        final.append(written[id(o)]._take(made) if id(o) in written else made)
    return tuple(final) if many else final[0]


_NO_SETUP = (
    "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override "
    "the setup_context staticmethod. For more details, please see "
    "https://pytorch.org/docs/main/notes/extending.func.html"
)


def _tangent(tangent: Tensor | None, out: Tensor) -> Any:
    if not (out.is_floating_point() or out.is_complex()):
        return np.zeros(out.shape, jax.dtypes.float0)
    return jnp.zeros(out.shape, out.dtype.np) if tangent is None else tangent._value


def _gradient(ctx: FunctionCtx, cotangent: Any) -> Tensor | None:
    if cotangent.dtype == jax.dtypes.float0:
        return None
    if isinstance(cotangent, SymbolicZero):  # no gradient arrives
        return wrap(jnp.zeros(cotangent.shape, cotangent.dtype)) if ctx.materialize_grads else None
    return wrap(conj(cotangent))


# ------------------------------------------------------- once_differentiable


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for ``backward`` that makes it non-differentiable: differentiating through it raises.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.function.once_differentiable.html
    """

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        recorded = grad_mode.is_grad_enabled() and any(
            isinstance(a, Tensor) and a.requires_grad for a in args
        )
        with grad_mode.no_grad():
            outputs = fn(ctx, *args)
        if not recorded:
            in_transform = not tracing.overlay or tracing.overlay.transforms
            return _refusing(outputs, [*args, *ctx.saved_tensors]) if in_transform else outputs
        values = outputs if isinstance(outputs, tuple) else (outputs,)
        leaves = [o.detach().requires_grad_() if isinstance(o, Tensor) else None for o in values]
        made = DelayedError(_ONCE, len(leaves))(*leaves)
        blocked = made if isinstance(made, tuple) else (made,)
        results = tuple(o if b is None else b for o, b in zip(values, blocked, strict=True))
        return results if isinstance(outputs, tuple) else results[0]

    return wrapper


_ONCE = "trying to differentiate twice a function that was marked with @once_differentiable"


def _refusing(outputs: Any, given: Sequence[Any]) -> Any:
    """The same outputs; in a JAX transform, differentiating them with respect to ``given`` raises."""
    values = outputs if isinstance(outputs, tuple) else (outputs,)
    arrays = [t._value for t in given if isinstance(t, Tensor)]
    if not any(isinstance(a, jax.core.Tracer) for a in arrays):
        return outputs
    made = iter(_once([o._value for o in values if isinstance(o, Tensor)], arrays))
    results = tuple(wrap(next(made)) if isinstance(o, Tensor) else o for o in values)
    return results if isinstance(outputs, tuple) else results[0]


@jax.custom_vjp
def _once(outputs: list[Any], given: list[Any]) -> list[Any]:
    return outputs


def _refuse(kept: None, slopes: Any) -> Any:
    raise RuntimeError(_ONCE)


_once.defvjp(lambda outputs, given: (outputs, None), _refuse)
