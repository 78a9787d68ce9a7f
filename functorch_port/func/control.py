"""Control flow that a compiled function can take: `cond`, `while_loop`, `scan`, `associative_scan`.

Where the values are known (eagerly) the first three are Python's own ``if``, ``while`` and ``for``; in a trace they
become the structured operations of `jax.lax`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax import lax

from ..core import bind
from ..core.tensor import Tensor
from .level import flatten, inside, through, unflatten

__all__ = ["associative_scan", "cond", "scan", "while_loop"]

_NO_DIMENSION = "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0"


def _is_traced(x: Any) -> bool:
    return isinstance(x, Tensor) and isinstance(x._value, jax.core.Tracer)


def _tensor_leaves(tree: Any, where: str) -> tuple[list[Tensor], Any]:
    leaves, structure = flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{where}: expected Tensors only, got {type(leaf)}")
    return leaves, structure


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """``true_fn(*operands)`` if ``pred`` else ``false_fn(*operands)``, also where ``pred`` is not known yet.

    Args:
        pred: a bool, or a one-element bool Tensor.
        true_fn: a function without side effects.
        false_fn: the same, returning Tensors of the same shapes and dtypes.
        operands: tuple of pytrees of Tensors.

    Example:
        >>> import functorch_port as torch
        >>> torch.func.cond(torch.tensor(True), torch.sin, torch.cos, (torch.tensor(0.),))
        tensor(0.)

    Reference: https://docs.pytorch.org/docs/stable/cond.html
    """
    if not (callable(true_fn) and callable(false_fn)):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, tuple | list):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor "
            f"leaves, but got {operands}."
        )
    if not isinstance(pred, bool | Tensor):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not _is_traced(pred):
        return (true_fn if bool(pred) else false_fn)(*operands)
    leaves, tree = _tensor_leaves(tuple(operands), "cond")
    structures: list[Any] = []

    def branch(fn: Callable[..., Any]) -> Callable[..., list[Any]]:
        def run(values: list[Any]) -> list[Any]:
            def call(tensors: list[Tensor]) -> list[Any]:
                outs, structure = _tensor_leaves(fn(*unflatten(tree, tensors)), "cond")
                structures.append(structure)
                return [o._value for o in outs]

            return inside(call, values, recording=None)

        return run

    def compute(values: list[Any]) -> list[Any]:
        chosen = values[0].reshape(()).astype(bool)
        return list(lax.cond(chosen, branch(true_fn), branch(false_fn), values[1:]))

    try:
        outs = through("cond", compute, [cast(Tensor, pred), *leaves])
    except TypeError as error:
        raise RuntimeError(
            f"cond: both branches must return Tensors of the same shapes and dtypes. {error}"
        ) from None
    return unflatten(structures[-1], outs)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    """Repeat ``carried = body_fn(*carried)`` while ``cond_fn(*carried)`` is true.

    Args:
        cond_fn: returns a one-element bool Tensor.
        body_fn: returns a tuple of Tensors of the shapes and dtypes it got.
        carried_inputs: tuple of Tensors.

    Returns:
        The tuple carried last. In a trace it has no gradient: the number of rounds is not known when memory is laid
        out; use `scan`.

    Example:
        >>> import functorch_port as torch
        >>> torch.func.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (torch.tensor(0), torch.tensor(1.)))
        (tensor(3), tensor(8.))
    """
    carried = tuple(carried_inputs)
    leaves, tree = _tensor_leaves(carried, "while_loop")
    if not any(_is_traced(leaf) for leaf in leaves):
        while bool(cond_fn(*carried)):
            carried = tuple(body_fn(*carried))
        return carried

    def compute(values: list[Any]) -> list[Any]:
        def going(state: list[Any]) -> Any:
            return inside(lambda ts: cond_fn(*unflatten(tree, ts))._value.reshape(()), state, recording=None)

        def body(state: list[Any]) -> list[Any]:
            def call(tensors: list[Tensor]) -> list[Any]:
                outs, _ = _tensor_leaves(tuple(body_fn(*unflatten(tree, tensors))), "while_loop")
                return [o._value.astype(v.dtype) for o, v in zip(outs, values)]

            return inside(call, state, recording=None)

        return list(lax.while_loop(cast(Any, going), cast(Any, body), cast(Any, values)))

    return unflatten(tree, through("while_loop", compute, leaves))


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Carry a state along a dimension: ``carry, y = combine_fn(carry, x)`` for every ``x``; differentiable.

    Args:
        combine_fn: takes and returns pytrees of Tensors; the carry keeps its shapes and dtypes.
        init: the first carry.
        xs: pytree of Tensors, sliced along ``dim``.
        dim: the dimension to go along.
        reverse: go from the end.

    Returns:
        The last carry, and the outputs stacked along a first dimension.

    Example:
        >>> import functorch_port as torch
        >>> torch.func.scan(lambda c, x: (c + x, c * x), torch.tensor(0.), torch.tensor([1., 2., 3.]))
        (tensor(6.), tensor([0., 2., 9.]))
    """
    carry_leaves, carry_tree = _tensor_leaves(init, "scan")
    x_leaves, x_tree = _tensor_leaves(xs, "scan")
    if not x_leaves:
        raise RuntimeError("scan() operator requires xs leaves")
    if not any(_is_traced(leaf) for leaf in (*carry_leaves, *x_leaves)):
        return _loop(combine_fn, init, x_leaves, x_tree, dim, reverse)
    structures: list[Any] = []
    count = len(carry_leaves)

    def compute(values: list[Any]) -> list[Any]:
        def step(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
            def call(tensors: list[Tensor]) -> tuple[list[Any], list[Any]]:
                state, slices = unflatten(carry_tree, tensors[:count]), unflatten(x_tree, tensors[count:])
                new, y = combine_fn(state, slices)
                ys, structure = _tensor_leaves(y, "scan")
                structures.append(structure)
                kept = [t._value for t in _tensor_leaves(new, "scan")[0]]
                return kept, [t._value for t in ys]

            return inside(call, [*carry, *x], recording=None)

        slices = [jnp.moveaxis(v, dim, 0) for v in values[count:]]
        carry, ys = lax.scan(step, values[:count], slices, reverse=reverse)
        return [*carry, *ys]

    outs = through("scan", compute, [*carry_leaves, *x_leaves])
    return unflatten(carry_tree, outs[:count]), unflatten(structures[-1], outs[count:])


def _loop(
    combine_fn: Any, carry: Any, leaves: Sequence[Tensor], tree: Any, dim: int, reverse: bool
) -> tuple[Any, Any]:
    order = range(leaves[0].shape[dim])
    collected = []
    for i in reversed(order) if reverse else order:
        carry, y = combine_fn(carry, unflatten(tree, [leaf.select(dim, i) for leaf in leaves]))
        collected.append(flatten(y))
    if reverse:
        collected.reverse()
    stack = bind.function("stack")
    parts = zip(*(ys for ys, _ in collected))
    return carry, unflatten(collected[0][1], [stack(list(part)) for part in parts])


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "generic",
) -> Any:
    """Running results of an associative function along a dimension, in logarithmic depth; differentiable.

    Args:
        combine_fn: takes two slices (pytrees like ``xs`` without ``dim``) and returns one; it is run for many pairs at
            once, as by `vmap`, and has no random operations.
        xs: pytree of Tensors of one size along ``dim``.
        dim: the dimension to go along.
        reverse: go from the end.
        combine_mode: ``"generic"`` or ``"pointwise"``, which here are the same.

    Raises:
        ValueError: for ``xs`` that cannot be gone along, or another ``combine_mode``.
        RuntimeError: if ``combine_fn`` returns other shapes, dtypes or structures than it got.

    Example:
        >>> import functorch_port as torch
        >>> torch.func.associative_scan(lambda a, b: a * b, torch.tensor([1., 2., 3.]), 0)
        tensor([1., 2., 6.])
    """
    leaves, tree = flatten(xs)
    axis = _checked_scan(combine_fn, leaves, dim, reverse, combine_mode)
    count = len(leaves)

    def combine(size: int) -> Callable[..., list[Any]]:
        def one(index: Any, left: list[Any], right: list[Any]) -> list[Any]:
            def call(tensors: list[Tensor]) -> list[Any]:
                out = combine_fn(unflatten(tree, tensors[:count]), unflatten(tree, tensors[count:]))
                outs, structure = _tensor_leaves(out, "associative_scan")
                if structure != tree or any(
                    (o.shape, o.dtype) != (t.shape, t.dtype) for o, t in zip(outs, tensors)
                ):
                    raise RuntimeError(
                        "associative_scan: combine_fn must return Tensors of the structure, shapes and dtypes it got"
                    )
                return [o._value for o in outs]

            return inside(call, [*left, *right], (size, index, "error"), None)

        return one

    def pairs(left: list[Any], right: list[Any]) -> list[Any]:
        size = left[0].shape[0]
        if size == 0:
            return left
        return jax.vmap(combine(size))(jnp.arange(size, dtype=jnp.int32), left, right)

    def compute(values: list[Any]) -> list[Any]:
        rows = [jnp.moveaxis(v, axis, 0) for v in values]
        done = lax.associative_scan(pairs, rows, reverse=reverse)
        return [jnp.moveaxis(v, 0, axis) for v in done]

    return unflatten(tree, through("associative_scan", compute, leaves))


def _checked_scan(combine_fn: Any, leaves: list[Any], dim: Any, reverse: Any, combine_mode: str) -> int:
    """The dimension of an associative scan, counted from the first; errors for arguments that do not fit."""
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise ValueError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if not all(isinstance(leaf, Tensor) for leaf in leaves):
        raise ValueError("xs leaves must be a Tensor")
    ndim = max(leaves[0].ndim, 1)
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})"
        )
    axis = dim % ndim
    if any(leaf.ndim <= axis or leaf.shape[axis] == 0 for leaf in leaves):
        raise ValueError(_NO_DIMENSION)
    sizes = [leaf.shape[axis] for leaf in leaves]
    if any(n != sizes[0] for n in sizes):
        raise ValueError(f"associative_scan: all xs leaves must have one size along dim {dim}, got {sizes}")
    return axis
