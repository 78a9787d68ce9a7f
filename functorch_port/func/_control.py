"""Control flow for compiled functions: `cond`, `while_loop`, `scan`, `map`, `associative_scan`.

In eager mode all but the last run as Python's ``if``, ``while`` and ``for``; in a trace they become the control flow
operators of `jax.lax`. A compiled function may write to tensors from outside in all but the last, and draw random
numbers (see `_level.Body`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array import tracing
from .._array.refusal import Check, refuse, unknown
from .._run import bind
from .._tensor.tensor import Tensor, wrap
from .._tensor.tree import Structure, flatten, keys, unflatten
from ._level import (
    CONDITION,
    arrays_of,
    differentiated_forward,
    in_compile,
    inside,
    part,
    put_state,
    refuse_collected,
    state_now,
    through,
)
from ._while import while_loop as differentiable_while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]

_NO_DIMENSION = "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0"


def _is_traced(x: Any) -> bool:
    return isinstance(x, Tensor) and isinstance(x._value, jax.core.Tracer)


def _known(pred: Any) -> bool | None:
    """The value of a condition; None if it is traced by `compile` or mapped by `vmap`."""
    if not _is_traced(pred):
        return bool(pred)
    try:
        return bool(np.asarray(lax.stop_gradient(pred._value)))
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        return None


class _Failures:
    """The checks of several branches or iterations as one number: 0, or the index (from 1) of the one that failed."""

    def __init__(self) -> None:
        self.errors: list[Callable[..., Exception]] = []

    def number(self, checks: Sequence[Check]) -> Any:
        """The number of the first failing check."""
        start, found = len(self.errors), jnp.zeros((), np.int32)
        self.errors += [unknown(check) for check in checks]
        for k, check in reversed(list(enumerate(checks, start + 1))):
            found = jnp.where(check.flag(), np.int32(k), found)
        return found

    def refuse(self, number: Any) -> None:
        errors = self.errors
        if errors:
            # by way of a float: an integer that a function with a derivative of its own returns counts as varying
            number = lax.stop_gradient(number.astype(np.float32)).astype(np.int32)
            refuse(lambda number: number > 0, lambda number: errors[int(number) - 1](), number)


def _tensor_leaves(tree: Any, where: str) -> tuple[list[Tensor], Structure]:
    leaves, structure = flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{where}: expected Tensors only, got {type(leaf)}")
    return leaves, structure


def _check_same(first: str, ours: Sequence[Any], second: str, theirs: Sequence[Any]) -> None:
    """Raise unless two lists of Tensors and ints agree in length, shapes and dtypes."""
    if len(ours) != len(theirs):
        raise RuntimeError(
            f"Expected {first} and {second} to have same number of outputs but got lhs:{list(ours)} and "
            f"rhs:{list(theirs)}"
        )
    differences = []
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            facts = [f"{n}: {getattr(a, n)} vs {getattr(b, n)}" for n in ("shape", "dtype")]
            found = [f for f, n in zip(facts, ("shape", "dtype")) if getattr(a, n) != getattr(b, n)]
        else:
            found = [] if isinstance(a, int) and isinstance(b, int) else [f"type: {a} vs {b}"]
        if found:
            differences.append(f"pair[{i}] differ in {', '.join(found)}")
    if differences:
        raise RuntimeError(
            "\n".join([f"Expected {first} and {second} to have same metadata but found:", *differences])
        )


def _check_keys(where: str, given: Structure, returned: Structure) -> None:
    """Raise if the keys of dicts or their order changed, as carried values are matched by position."""
    if keys(given) and keys(returned) and keys(given) != keys(returned):
        raise RuntimeError(
            f"{where} must keep the keys of dicts in their order; got {given}, returned {returned}"
        )


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """``true_fn(*operands)`` if ``pred`` else ``false_fn(*operands)``, also for a traced ``pred``.

    Args:
        pred: a one-element Tensor, or a Python number, which is never traced.
        true_fn: a function of the operands. It may write to other tensors in place, and not to these.
        false_fn: the same; it returns Tensors of the same shapes and dtypes.
        operands: tuple of pytrees of Tensors.

    Raises:
        RuntimeError: for invalid arguments; in a trace, if the branches return different structures, shapes or dtypes.

    Example:
        >>> import functorch_port as torch
        >>> torch.func.cond(torch.tensor(True), torch.sin, torch.cos, (torch.tensor(0.),))
        tensor(0.)

    Reference: https://docs.pytorch.org/docs/stable/cond.html
    """
    if isinstance(pred, bool | int | float):
        return (true_fn if pred else false_fn)(*operands)
    if not isinstance(pred, Tensor):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not (callable(true_fn) and callable(false_fn)):
        raise RuntimeError("Expect both branches to be callable.")
    leaves, tree = flatten(operands)
    if not isinstance(operands, tuple | list) or not all(isinstance(leaf, Tensor) for leaf in leaves):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor "
            f"leaves, but got {operands}."
        )
    known = _known(pred)
    if known is not None:
        return (true_fn if known else false_fn)(*operands)
    structures: list[Any] = []
    failures = _Failures()

    def branch(fn: Callable[..., Any]) -> Callable[..., Any]:
        def run(values: list[Any], state: list[Any]) -> Any:
            def call(tensors: list[Tensor]) -> list[Tensor]:
                outs, structure = _tensor_leaves(fn(*unflatten(tree, tensors)), "cond")
                structures.append(structure)
                return outs

            checks: list[Check] = []
            outs, state = part(call, values, state, checks)
            return failures.number(checks), outs, state

        return run

    def compute(values: list[Any]) -> list[Any]:
        chosen = values[0].reshape(()).astype(bool)
        failed, outs, state = lax.cond(chosen, branch(true_fn), branch(false_fn), values[1:], state_now())
        put_state(state)
        if structures[-1] != structures[-2]:
            raise TypeError(f"They return {structures[-2]} and {structures[-1]}.")
        failures.refuse(failed)
        return list(outs)

    try:
        outs = through("cond", compute, [pred, *leaves])
    except TypeError as error:
        raise RuntimeError(
            f"cond: both branches must return Tensors of the same shapes and dtypes. {error}"
        ) from None
    return unflatten(structures[-1], outs)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    """Repeat ``carried = body_fn(*carried)`` while ``cond_fn(*carried)`` is true.

    In a trace ints become 0-dim Tensors, and reverse mode (once) saves at most 64 states: for longer loops it
    recomputes some iterations.

    Args:
        cond_fn: returns a bool or a 0-dim bool Tensor, and changes nothing.
        body_fn: returns Tensors with the shapes and dtypes of its arguments, and ints for ints. It may write to other
            tensors in place, such as buffers of a module, and not to its arguments.
        carried_inputs: tuple or list of pytrees of Tensors and ints.

    Returns:
        The last result of ``body_fn``, or ``carried_inputs`` if it never ran.

    Raises:
        AssertionError: if a carried value is neither a Tensor nor an int.
        RuntimeError: for another type of condition, or if ``body_fn`` changes shapes or dtypes; in a trace, if it
            writes to its arguments.
        NotImplementedError: for random numbers in the body of a loop compiled with ``rng="torch"``.

    Example:
        >>> import functorch_port as torch
        >>> torch.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (0, torch.tensor(1.)))
        (3, tensor(8.))
    """
    if not (callable(cond_fn) and callable(body_fn)):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, tuple | list):
        raise RuntimeError(f"carried_inputs must be a tuple or list but got {type(carried_inputs)}")
    leaves, tree = flatten(carried_inputs, lambda x: x is None)
    if not all(isinstance(leaf, Tensor | int) for leaf in leaves):
        kinds = tuple(type(leaf) for leaf in leaves)
        raise AssertionError(f"{leaves} can only be of {(Tensor, int)} but got {kinds}")

    structures = [tree]

    def going(carried: Sequence[Any]) -> Any:
        pred = cond_fn(*unflatten(tree, carried))
        is_scalar = isinstance(pred, Tensor) and pred.ndim == 0 and str(pred.dtype) == "torch.bool"
        if not (is_scalar or isinstance(pred, bool)):
            if isinstance(pred, Tensor):
                pred = f"a tensor of shape {list(pred.shape)} and dtype {pred.dtype}"
            raise RuntimeError(f"cond_fn must return a boolean scalar tensor or a boolean but got {pred}")
        return pred

    def body(carried: Sequence[Any]) -> list[Any]:
        outs, structure = flatten(body_fn(*unflatten(tree, carried)))
        _check_keys("while_loop: body_fn", tree, structure)
        structures.append(structure)
        return outs

    while not in_compile(tracing.current()):
        more = _known(going(leaves))
        if more is None:
            break
        if not more:
            return unflatten(structures[-1], leaves)
        outs = body(leaves)
        _check_same("body_fn_output", outs, "carried_inputs", leaves)
        leaves = outs

    def as_tensors(carried: Sequence[Any]) -> list[Tensor]:
        return [x if isinstance(x, Tensor) else wrap(jnp.asarray(x)) for x in carried]

    def compute(values: list[Any]) -> list[Any]:
        checks: list[Check] = []
        failures = _Failures()

        def one_more(now: list[Any]) -> Any:
            def call(tensors: list[Tensor]) -> list[Tensor]:
                return as_tensors([going(tensors)])

            (more,), state = part(call, now[1:end], now[end:], [])
            if any(new is not old for new, old in zip(state, now[end:])):
                raise RuntimeError(CONDITION)
            return more & (now[0] == 0)

        def step(now: list[Any]) -> list[Any]:
            def call(tensors: list[Tensor]) -> list[Tensor]:
                outs = as_tensors(body(tensors))
                _check_same("body_fn_output", outs, "carried_inputs", tensors)
                return outs

            outs, state = part(call, now[1:end], now[end:], checks)
            return [failures.number(checks), *outs, *state]

        end = 1 + len(values)
        loop = lax.while_loop if differentiated_forward() else differentiable_while_loop
        failed, *outs = loop(one_more, step, [jnp.zeros((), np.int32), *values, *state_now()])
        failures.refuse(failed)
        put_state(outs[end - 1 :])
        return outs[: end - 1]

    with tracing.x64():
        carried = as_tensors(leaves)
    outs = through("while_loop", compute, carried)
    return unflatten(structures[-1], outs)


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Scan over a dimension with a carried state: ``carry, y = combine_fn(carry, x)`` for each slice ``x``.

    Differentiable.

    Args:
        combine_fn: takes and returns pytrees of Tensors; the shapes and dtypes of the carry must not change.
        init: the initial carry.
        xs: pytree of Tensors, sliced along ``dim``; the first leaf sets the number of steps.
        dim: the dimension to scan over.
        reverse: scan from the end.

    Returns:
        The last carry, and the outputs stacked along ``dim`` (along 0 if they have too few dimensions); ``init`` and
        an empty list if ``xs`` has no Tensors.

    Raises:
        RuntimeError: for invalid arguments, or if ``combine_fn`` changes the shapes or dtypes of the carry.

    Example:
        >>> import functorch_port as torch
        >>> torch.func.scan(lambda c, x: (c + x, c * x), torch.tensor(0.), torch.tensor([1., 2., 3.]))
        (tensor(6.), tensor([0., 2., 9.]))
    """
    leaves, tree = flatten(xs)
    if not leaves:
        return init, []
    carry, carry_tree = flatten(init)
    axis = _canonical(dim, getattr(leaves[0], "ndim", 0)) if isinstance(dim, int) else dim
    _check_scan(combine_fn, carry, leaves, axis, reverse)

    def combine(now: Sequence[Any], slices: Sequence[Any]) -> tuple[list[Tensor], list[Tensor], Any]:
        new, y = combine_fn(unflatten(carry_tree, now), unflatten(tree, slices))
        new_leaves, structure = _tensor_leaves(new, "scan")
        _check_keys("scan: combine_fn", carry_tree, structure)
        _check_same("init", now, "carry", new_leaves)
        return new_leaves, *_tensor_leaves(y, "scan")

    carry, ys = _scan(combine, carry, leaves, axis, reverse)
    return unflatten(carry_tree, carry), ys


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """``f(x, *args)`` for every slice ``x`` of ``xs`` along the first dimension, stacked; differentiable.

    Args:
        f: returns a pytree of Tensors.
        xs: pytree of Tensors.
        args: further arguments of every call.

    Example:
        >>> import functorch_port as torch
        >>> torch._higher_order_ops.map(lambda x, y: x.sum() * y, torch.ones(2, 3), torch.tensor(2.))
        tensor([6., 6.])
    """
    leaves, tree = flatten(xs)
    if not all(isinstance(leaf, Tensor) for leaf in leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    sizes = [leaf.shape[0] for leaf in leaves]
    if sizes[0] == 0:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    if any(n != sizes[0] for n in sizes):
        raise RuntimeError(f"Leading dimensions of mapped xs must be consistent. Got shapes {sizes}.")

    def one(now: Sequence[Any], slices: Sequence[Any]) -> tuple[list[Tensor], list[Tensor], Any]:
        return [], *_tensor_leaves(f(unflatten(tree, slices), *args), "map")

    return _scan(one, [], leaves, 0, False)[1]


def _scan(
    combine: Callable[[Sequence[Any], Sequence[Any]], tuple[list[Tensor], list[Tensor], Any]],
    carry: list[Tensor],
    leaves: list[Tensor],
    axis: int,
    reverse: bool,
) -> tuple[list[Tensor], Any]:
    """The loop of `scan` and `map`; ``combine`` returns carry, outputs and the structure of the outputs."""
    length, count = leaves[0].shape[axis], len(carry)
    structures: list[Any] = []

    def along(ndim: int) -> int:
        return axis if axis < ndim else 0

    if not any(_is_traced(leaf) for leaf in (*carry, *leaves)):
        collected = []
        for i in reversed(range(length)) if reverse else range(length):
            carry, outs, structure = combine(carry, [leaf.select(axis, i) for leaf in leaves])
            collected.append(outs)
        parts = zip(*(reversed(collected) if reverse else collected))
        stack = bind.function("stack")
        return carry, unflatten(structure, [stack(list(part), along(part[0].ndim + 1)) for part in parts])

    def compute(values: list[Any]) -> list[Any]:
        checks: list[Check] = []

        def step(now: tuple[list[Any], list[Any]], slices: list[Any]) -> Any:
            def call(tensors: list[Tensor]) -> list[Tensor]:
                new, outs, structure = combine(tensors[:count], tensors[count:])
                structures.append(structure)
                return [*new, *outs]

            outs, state = part(call, [*now[0], *slices], now[1], checks)
            return (outs[:count], state), (outs[count:], arrays_of(checks))

        rows = [jnp.moveaxis(v, axis, 0)[:length] for v in values[count:]]
        (last, state), (ys, stacked) = lax.scan(step, (values[:count], state_now()), rows, reverse=reverse)
        put_state(state)
        refuse_collected(checks, stacked)
        return [*last, *(jnp.moveaxis(y, 0, along(y.ndim)) for y in ys)]

    outs = through("scan", compute, [*carry, *leaves])
    return outs[:count], unflatten(structures[-1], outs[count:])


def _check_scan(combine_fn: Any, carry: list[Any], leaves: list[Any], axis: Any, reverse: Any) -> None:
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(axis, int):
        raise TypeError(f"Dim must be an int, but got {type(axis)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if not carry:
        raise RuntimeError("scan() operator requires init leaves.")
    for name, items in (("init", carry), ("xs", leaves)):
        for item in items:
            if not isinstance(item, Tensor):
                raise RuntimeError(f"All {name} leaves must be a Tensor but got {item}")
    if any(leaf.ndim <= axis or leaf.shape[axis] == 0 for leaf in leaves):
        raise RuntimeError(_NO_DIMENSION)
    sizes = [leaf.shape[axis] for leaf in leaves]
    if min(sizes) < sizes[0]:
        raise RuntimeError(
            f"scan: no xs leaf may be shorter along dim {axis} than the first, but got sizes {sizes}"
        )


def _canonical(dim: int, ndim: int) -> int:
    """A dimension counted from the first; 0-dim Tensors count as 1-dim."""
    ndim = max(ndim, 1)
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})"
        )
    return dim % ndim


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "generic",
) -> Any:
    """Parallel prefix scan with an associative function, in logarithmic depth; differentiable.

    Args:
        combine_fn: takes two slices (pytrees like ``xs`` without ``dim``) and returns one; it runs under `vmap` and
            must not use random operations.
        xs: pytree of Tensors of the same size along ``dim``.
        dim: the dimension to scan over.
        reverse: scan from the end.
        combine_mode: ``"generic"`` or ``"pointwise"``, which have the same effect here.

    Raises:
        ValueError: for invalid ``xs``, ``dim`` or ``combine_mode``.
        RuntimeError: if ``combine_fn`` changes the structure, shapes or dtypes.

    Example:
        >>> import functorch_port as torch
        >>> torch.func.associative_scan(lambda a, b: a * b, torch.tensor([1., 2., 3.]), 0)
        tensor([1., 2., 6.])
    """
    leaves, tree = flatten(xs)
    axis = _checked_scan(combine_fn, leaves, dim, reverse, combine_mode)
    count = len(leaves)
    checks: list[Check] = []

    def combine(size: int) -> Callable[..., Any]:
        def one(index: Any, left: list[Any], right: list[Any]) -> Any:
            def call(tensors: list[Tensor]) -> list[Any]:
                out = combine_fn(unflatten(tree, tensors[:count]), unflatten(tree, tensors[count:]))
                outs, structure = _tensor_leaves(out, "associative_scan")
                if structure != tree or any(
                    (o.shape, o.dtype) != (t.shape, t.dtype) for o, t in zip(outs, tensors)
                ):
                    raise RuntimeError(
                        "associative_scan: combine_fn must keep the structure, shapes and dtypes of its arguments"
                    )
                return [o._value for o in outs]

            outs = inside(call, [*left, *right], (size, index, "error"), checks=checks)
            return outs, arrays_of(checks)

        return one

    def pairs(left: list[Any], right: list[Any]) -> list[Any]:
        size = left[0].shape[0]
        if size == 0:
            return left
        outs, stacked = jax.vmap(combine(size))(jnp.arange(size, dtype=jnp.int32), left, right)
        refuse_collected(checks, stacked)
        return outs

    def compute(values: list[Any]) -> list[Any]:
        rows = [jnp.moveaxis(v, axis, 0) for v in values]
        done = lax.associative_scan(pairs, rows, reverse=reverse)
        return [jnp.moveaxis(v, 0, axis) for v in done]

    return unflatten(tree, through("associative_scan", compute, leaves))


def _checked_scan(combine_fn: Any, leaves: list[Any], dim: Any, reverse: Any, combine_mode: str) -> int:
    """The dimension of an associative scan, counted from the first; raises for invalid arguments."""
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
    axis = _canonical(dim, leaves[0].ndim)
    if any(leaf.ndim <= axis or leaf.shape[axis] == 0 for leaf in leaves):
        raise ValueError(_NO_DIMENSION)
    sizes = [leaf.shape[axis] for leaf in leaves]
    if any(n != sizes[0] for n in sizes):
        raise ValueError(f"associative_scan: xs leaves must have the same size along dim {dim}, got {sizes}")
    return axis
