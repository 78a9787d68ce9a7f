"""`autograd.Function`: operations with a backward of the user's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.dispatch import edge_of
from ..core.tensor import Tensor, wrap
from . import grad_mode
from .node import FREED, Node

__all__ = ["Function", "once_differentiable"]


class FunctionNode(Node):
    """The node of a user's `Function`, which is also the ``ctx`` its methods see."""

    __slots__ = ("__dict__",)
    _function: type[Function]

    # -- what forward may call ---------------------------------------------

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for backward; read them there as ``ctx.saved_tensors``."""
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``jvp``."""
        self._for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Say which inputs forward changed in place."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say which outputs have no gradient."""
        self._non_differentiable = tuple(id(t) for t in args)

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward sees zeros (True, the default) or None for outputs without a gradient."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What `save_for_backward` kept."""
        if self._saved is None:
            raise RuntimeError(FREED)
        return tuple(self._unpack(item) for item in self._saved)

    saved_variables = saved_tensors

    def _unpack(self, item: Any) -> Tensor | None:
        kind, tensor, number = item
        if kind == "output":  # kept without its history, which is this node itself
            again = tensor.detach()
            again._requires_grad, again._grad_fn, again._output_nr = True, self, number
            return again
        return tensor

    # -- engine --------------------------------------------------------------

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        results = self._call([None if g is None else wrap(g) for g in grads])
        return [None if r is None else r._value for r in results]

    def apply_recorded(self, grads: Sequence[Any]) -> Sequence[Any]:
        return self._call(list(grads))

    def _call(self, grads: list[Any]) -> list[Any]:
        if self.materialize_grads:
            from ..core.creation import zeros

            grads = [
                zeros(tuple(s), dtype=d) if g is None else g
                for g, (s, d) in zip(grads, self._outputs, strict=True)
            ]
        results = self._function.backward(self, *grads)
        results = (results,) if not isinstance(results, tuple | list) else tuple(results)
        name = self._function.__name__
        count = len(self._positions)
        if len(results) > count and all(r is None for r in results[count:]):
            results = results[:count]
        if len(results) != count:
            raise RuntimeError(
                f"function {name}Backward returned an incorrect number of gradients (expected {count}, got {len(results)})"
            )
        out = []
        for position, (result, source) in enumerate(zip(results, self._positions, strict=True)):
            if source is None:
                if result is not None:
                    raise RuntimeError(
                        f"function {name}Backward returned a gradient different from None at position {position + 1}, but the corresponding forward input was not a Variable"
                    )
                continue
            out.append(self._fitted(result, source, position))
        return out

    def _fitted(self, result: Any, like: Any, position: int) -> Any:
        if result is None:
            return None
        if not isinstance(result, Tensor):
            raise TypeError(f"expected Variable or None (got {type(result).__name__})")
        shape, dtype = like
        if tuple(result.shape) != tuple(shape):
            try:
                result = result.sum_to_size(shape)  # type: ignore[attr-defined]
            except (RuntimeError, AttributeError):
                raise RuntimeError(
                    f"Function {self._function.__name__}Backward returned an invalid gradient at index {position} - got {list(result.shape)} but expected shape compatible with {list(shape)}"
                ) from None
        return result if result.dtype is dtype else result.to(dtype)  # type: ignore[attr-defined]

    def release(self) -> None:
        self._saved = None


class Function:
    """Base class of operations with a custom gradient.

    Subclass it with static methods ``forward(ctx, *args)`` (or ``forward(*args)`` and ``setup_context(ctx, inputs,
    output)``) and ``backward(ctx, *grad_outputs)``, and call ``MyFunction.apply(*args)``.

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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function "
            f"with static forward method. (Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function) "
            f"[{type(self).__name__}]"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The operation; runs with recording off."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Fill ``ctx`` after a ``forward`` that takes no ``ctx``."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Gradients of the outputs to gradients of the inputs, one per argument of forward."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward "
            "mode AD."
        )

    vjp = backward

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run the operation and record it."""
        inputs = [a for a in args if isinstance(a, Tensor)]
        edges = tuple(edge_of(t) if t.requires_grad else None for t in inputs)
        recorded = grad_mode.state.enabled and any(e is not None for e in edges)
        ctx = _node_type(cls)(edges)
        ctx._positions = [(a.shape, a.dtype) if isinstance(a, Tensor) else None for a in args]
        ctx.needs_input_grad = tuple(recorded and isinstance(a, Tensor) and a.requires_grad for a in args)
        ctx._to_save, ctx._saved, ctx._dirty, ctx._non_differentiable = (), (), (), ()
        ctx.materialize_grads = True
        with grad_mode.no_grad():
            if cls.setup_context is not Function.setup_context:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
            else:
                result = cls.forward(ctx, *args)
        outputs = result if isinstance(result, tuple) else (result,)
        if recorded:
            outputs = tuple(ctx_output(ctx, out, number, inputs) for number, out in enumerate(outputs))
        ctx.outputs = len(outputs)
        ctx._outputs = [(o.shape, o.dtype) if isinstance(o, Tensor) else (None, None) for o in outputs]
        by_id = {id(o): n for n, o in enumerate(outputs) if isinstance(o, Tensor) and o._grad_fn is ctx}
        raw = {id(r): n for n, r in enumerate(result if isinstance(result, tuple) else (result,))}
        ctx._saved = (
            tuple(_saved(t, by_id, raw, outputs) for t in ctx._to_save)
            if recorded
            else tuple(("input", t, 0) for t in ctx._to_save)
        )
        ctx._to_save = ()
        return outputs if isinstance(result, tuple) else outputs[0]


def _saved(
    tensor: Any, by_id: dict[int, int], raw: dict[int, int], outputs: Sequence[Any]
) -> tuple[str, Any, int]:
    """Outputs are saved without their history: the node would otherwise hold itself alive."""
    number = by_id.get(id(tensor), raw.get(id(tensor)))
    if (
        number is not None
        and isinstance(tensor, Tensor)
        and isinstance(outputs[number], Tensor)
        and outputs[number]._grad_fn is not None
    ):
        return ("output", tensor.detach(), number)
    return ("input", tensor, 0)


def ctx_output(ctx: FunctionNode, out: Any, number: int, inputs: Sequence[Tensor]) -> Any:
    """Give an output its history; an input handed through (and not marked dirty) becomes a view of itself."""
    if (
        not isinstance(out, Tensor)
        or id(out) in ctx._non_differentiable
        or not (out.is_floating_point() or out.is_complex())
    ):
        return out
    dirty = any(out is t for t in ctx._dirty)
    if any(out is t for t in inputs) and not dirty:
        out = out.detach()
    out._requires_grad, out._grad_fn, out._output_nr = True, ctx, number
    return out


@functools.cache
def _node_type(cls: type[Function]) -> type[FunctionNode]:
    return type(f"{cls.__name__}Backward", (FunctionNode,), {"__slots__": (), "_function": cls})


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for ``backward``: it is not recorded, and differentiating through it is an error.

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
            return outputs
        many = isinstance(outputs, tuple)
        blocked = tuple(_Refusal.block(o) for o in (outputs if many else (outputs,)))
        return blocked if many else blocked[0]

    return wrapper


class _Refusal(Node):
    """Raises when a gradient reaches it."""

    __slots__ = ()

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )

    apply_recorded = apply

    @classmethod
    def block(cls, tensor: Any) -> Any:
        if not isinstance(tensor, Tensor):
            return tensor
        out = tensor.detach()
        out._requires_grad, out._grad_fn = True, cls(())
        return out
