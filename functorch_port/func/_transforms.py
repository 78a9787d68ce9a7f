"""Derivatives of functions: `grad`, `vjp`, `jvp`, `jacrev`, `jacfwd`, `hessian`, `linearize`."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._array import tracing
from .._tensor import grad_mode
from .._tensor.tensor import Tensor, wrap
from .._tensor.tree import LEAF, Structure, flatten, unflatten
from ..autograd.forward_ad import lie_alike
from ._level import conj, inside, through
from ._vmap import check_randomness, vmap_arrays

__all__ = [
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "value_and_grad",
    "vjp",
]

ArgNums = int | tuple[int, ...]


class Call:
    """A flattened call of the user's function: its Tensor leaves, and how to rebuild the arguments.

    Attributes:
        tensors: all Tensor leaves of the arguments, the differentiated ones first.
        count: number of differentiated leaves.
        changed: index of each tensor that the function wrote to -> whether autograd was enabled; set by `run`.
        trees: structure of each differentiated argument.
        single: whether ``argnums`` is a single number.
    """

    def __init__(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], argnums: ArgNums
    ) -> None:
        self.func = func
        self.single = isinstance(argnums, int)
        self.places = places(argnums, len(args))
        self.args, self.kwargs = args, kwargs
        split = [flatten(args[p]) for p in self.places]
        for leaves, _ in split:
            for leaf in leaves:
                if not isinstance(leaf, Tensor):
                    raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
                if not (leaf.is_floating_point() or leaf.is_complex()):
                    raise RuntimeError("only Tensors of floating point dtype can require gradients")
        self.trees = [tree for _, tree in split]
        diff = [leaf for leaves, _ in split for leaf in leaves]
        rest = [a for i, a in enumerate(args) if i not in self.places]
        self.leaves, self.rest_tree = flatten((rest, kwargs))
        self.count = len(diff)
        self.tensors: list[Tensor] = [*diff, *(leaf for leaf in self.leaves if isinstance(leaf, Tensor))]
        self.changed: dict[int, bool] = {}

    def run(
        self, tensors: Sequence[Tensor], take: Callable[[Any], tuple[Any, list[Any]]]
    ) -> tuple[Any, list[Any]]:
        """Run the function; return the outputs and other arrays from ``take``, followed by the changed inputs."""
        outs, aux = take(self(tensors))
        recorded = tracing.current().recorded
        cells = [tensor._storage for tensor in tensors]
        self.changed = {i: cell in recorded for i, cell in enumerate(cells) if cell.version}
        return outs, [*aux, *(tensors[i]._value for i in self.changed)]

    def written(self, results: list[Tensor]) -> list[Tensor]:
        """Copy the changed inputs to the caller's tensors; return the results without them."""
        rest = len(results) - len(self.changed)
        for (i, recorded), result in zip(self.changed.items(), results[rest:], strict=True):
            with grad_mode.set_grad_enabled(recorded and grad_mode.is_grad_enabled()):
                self.tensors[i].copy_(result)
        return results[:rest]

    def __call__(self, tensors: Sequence[Tensor]) -> Any:
        """Call the user's function with ``tensors`` in place of `self.tensors`."""
        it = iter(tensors)
        chosen = [unflatten(tree, [next(it) for _ in range(tree.num_leaves)]) for tree in self.trees]
        rest, kwargs = unflatten(
            self.rest_tree, [next(it) if isinstance(x, Tensor) else x for x in self.leaves]
        )
        by_place, others = dict(zip(self.places, chosen)), iter(rest)
        args = [by_place[i] if i in by_place else next(others) for i in range(len(self.args))]
        return self.func(*args, **kwargs)

    def gather(self, leaves: Sequence[Any]) -> Any:
        """One value per differentiated leaf, in the structure of the differentiated arguments."""
        it = iter(leaves)
        parts = [unflatten(tree, [next(it) for _ in range(tree.num_leaves)]) for tree in self.trees]
        return parts[0] if self.single else tuple(parts)


def places(argnums: ArgNums, count: int) -> list[int]:
    if isinstance(argnums, bool) or not isinstance(argnums, int | tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if argnums == ():
        raise RuntimeError("argnums must be non-empty")
    places = []
    for n in (argnums,) if isinstance(argnums, int) else argnums:
        if not isinstance(n, int):
            raise RuntimeError(f"argnum must be int, got: {type(n)}")
        if not -count <= n < count:
            raise RuntimeError(f"Got argnum={n}, but only {count} positional inputs")
        places.append(n % count)
    if len(set(places)) != len(places):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return places


class Outputs:
    """The structure of the function's result, set when it runs."""

    tree: Structure = LEAF
    aux_tree: Structure = LEAF
    count = 0

    def split(self, result: Any, where: str, has_aux: bool) -> tuple[list[Any], list[Any]]:
        """The arrays of the outputs and of the auxiliary outputs."""
        aux: Any = ()
        if has_aux:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(
                    f"{where}: output of function f should be a tuple: (output, aux) if has_aux is True"
                )
            result, aux = result
        leaves, self.tree = flatten(result)
        if not leaves:
            empty = [None] if result is None else []
            raise RuntimeError(
                f"{where}: Expected f to be a function that has non-empty output (got output = {empty})"
            )
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                raise RuntimeError(
                    f"{where}: expected f(*{'primals' if 'primals' in where else 'args'}) to return only "
                    f"tensors, got unsupported type {type(leaf)}"
                )
        self.count = len(leaves)
        return [leaf._value for leaf in leaves], self.take_aux(aux)

    def take_aux(self, aux: Any) -> list[Any]:
        leaves, self.aux_tree = flatten(aux)
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                raise RuntimeError(f"Expected tensors, got unsupported type {type(leaf)}")
        return [leaf._value for leaf in leaves]

    def join(self, tensors: Sequence[Any]) -> Any:
        return unflatten(self.tree, list(tensors))

    def join_aux(self, tensors: Sequence[Any]) -> Any:
        return unflatten(self.aux_tree, list(tensors))


# ------------------------------------------------------------------------ grad


def grad_and_value(
    func: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the gradient of ``func`` and its value: ``(grad, value)``, or ``(grad, (value, aux))``.

    Args:
        func: a function that returns a scalar Tensor, or ``(scalar, aux)`` with ``has_aux``.
        argnums: which arguments to differentiate; each may be a pytree of Tensors.
        has_aux: ``func`` also returns an auxiliary output, which is not differentiated.

    Raises:
        RuntimeError: if ``func`` does not return a scalar Tensor.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.func.grad_and_value.html
    """
    where = "grad_and_value(f)(*args)"

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        call, made = Call(func, args, kwargs, argnums), Outputs()

        def compute(values: list[Any]) -> list[Any]:
            def loss(*diff: Any) -> tuple[Any, Any]:
                given = [*diff, *values[call.count :]]
                take = functools.partial(_scalar, made=made, where=where, has_aux=has_aux)
                return inside(lambda ts: call.run(ts, take), given, mode="reverse", leaves=call.count)

            value, pull, aux = jax.vjp(loss, *values[: call.count], has_aux=True)
            return [*(conj(g) for g in pull(jnp.ones_like(value))), value, *aux]

        outs = call.written(through("grad", compute, call.tensors))
        value: Any = outs[call.count]
        if has_aux:
            value = (value, made.join_aux(outs[call.count + 1 :]))
        return call.gather(outs[: call.count]), value

    return wrapper


def _scalar(result: Any, made: Outputs, where: str, has_aux: bool) -> tuple[Any, list[Any]]:
    """The array of a scalar result, and the arrays of the auxiliary results."""
    aux: Any = ()
    if has_aux:
        if not (isinstance(result, tuple) and len(result) == 2):
            raise RuntimeError(
                f"{where}: output of function f should be a tuple: (output, aux) if has_aux is True"
            )
        result, aux = result
    if not isinstance(result, Tensor):
        raise RuntimeError(f"{where}: Expected f(*args) to return a Tensor, got {type(result)}")
    if result.ndim != 0:
        raise RuntimeError(
            f"{where}: Expected f(*args) to return a scalar Tensor, got tensor with {result.ndim} dims. "
            "Maybe you wanted to use the vjp or jacrev APIs instead?"
        )
    if not result.is_floating_point():
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {result.dtype}"
        )
    return result._value, made.take_aux(aux)


def grad(func: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of ``func``: ``grad``, or ``(grad, aux)`` with ``has_aux``.

    Args:
        func: a function that returns a scalar Tensor.
        argnums: which arguments to differentiate; each may be a pytree of Tensors.
        has_aux: ``func`` returns ``(scalar, aux)``.

    Example:
        >>> import functorch_port as torch
        >>> torch.func.grad(lambda x: (x ** 3).sum())(torch.tensor([1., 2.]))
        tensor([ 3., 12.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.func.grad.html
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def value_and_grad(
    func: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """`grad_and_value` in JAX's order: ``(value, grad)``."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return value, gradient

    return wrapper


# ------------------------------------------------------------------ vjp and jvp


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The output of ``func`` and a function that computes vector-Jacobian products.

    Args:
        func: returns a pytree of Tensors.
        primals: pytrees of Tensors.
        has_aux: ``func`` returns ``(output, aux)``.

    Returns:
        ``(output, vjp_fn)``, or ``(output, vjp_fn, aux)``; ``vjp_fn(cotangents)`` returns one gradient per primal and
        may be called repeatedly (``retain_graph`` and ``create_graph`` are accepted and ignored).

    Example:
        >>> import functorch_port as torch
        >>> y, pull = torch.func.vjp(torch.sin, torch.tensor([0.]))
        >>> pull(torch.tensor([2.]))
        (tensor([2.]),)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.func.vjp.html
    """
    if not primals:
        func()  # PyTorch's error is that of the call
    call, made = Call(func, primals, {}, tuple(range(len(primals)))), Outputs()
    kept: list[Any] = []

    def forward(*diff: Any) -> tuple[list[Any], list[Any]]:
        take = functools.partial(made.split, where="vjp(f, *primals)", has_aux=has_aux)
        return inside(lambda ts: call.run(ts, take), diff, mode="reverse", leaves=len(diff))

    def compute(values: list[Any]) -> list[Any]:
        outs, pull, aux = jax.vjp(forward, *values, has_aux=True)
        kept[:] = [outs, pull]
        return [*outs, *aux]

    tensors = call.written(through("vjp", compute, call.tensors))
    outs = kept[0]
    recorded = any(t._grad_fn is not None for t in tensors)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given = _cotangents(cotangents, made, outs)
        if recorded:  # differentiable itself: as a function of the primals too
            return call.gather(through("vjp", from_scratch, [*call.tensors, *given]))

        def apply(values: list[Any]) -> list[Any]:
            return [conj(g) for g in kept[1]([conj(v) for v in values])]

        return call.gather(through("vjp", apply, given))

    def from_scratch(values: list[Any]) -> list[Any]:
        _, pull, _ = jax.vjp(forward, *values[: call.count], has_aux=True)
        return [conj(g) for g in pull([conj(v) for v in values[call.count :]])]

    output = made.join(tensors[: made.count])
    return (output, vjp_fn, made.join_aux(tensors[made.count :])) if has_aux else (output, vjp_fn)


def _cotangents(cotangents: Any, made: Outputs, outs: Sequence[Any]) -> list[Tensor]:
    leaves, tree = flatten(cotangents)
    if tree != made.tree:
        raise RuntimeError(
            "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
            f"function. cotangents: {tree}, primal output: {made.tree}"
        )
    for i, (leaf, out) in enumerate(zip(leaves, outs)):
        if not isinstance(leaf, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(leaf).__name__}")
        if tuple(leaf.shape) != tuple(out.shape):
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{i}] has a shape of {leaf.shape} and output[{i}] has a "
                f"shape of {wrap(out).shape}."
            )
    return [
        leaf if leaf._value.dtype == out.dtype else leaf.to(wrap(out).dtype)
        for leaf, out in zip(leaves, outs)
    ]


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> Any:
    """Jacobian-vector product: the output of ``func`` and its derivative along ``tangents``.

    Args:
        func: returns a pytree of Tensors.
        primals: tuple of arguments.
        tangents: tuple of the same structure.
        strict: raise, instead of returning zeros, if the output does not depend on the primals (eager mode only).
        has_aux: ``func`` returns ``(output, aux)``.

    Returns:
        ``(output, tangent)``, or ``(output, tangent, aux)``.

    Example:
        >>> import functorch_port as torch
        >>> torch.func.jvp(torch.sin, (torch.tensor(0.),), (torch.tensor(2.),))
        (tensor(0.), tensor(2.))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.func.jvp.html
    """
    where = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{where}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    leaves, tree = flatten(primals)
    given, given_tree = flatten(tangents)
    if tree != given_tree:
        raise RuntimeError(
            f"{where}: Expected primals and tangents to have the same python structure. For example, if "
            "primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
            f"{tree} and tangents with structure {given_tree}"
        )
    if not leaves:
        raise RuntimeError(f"{where}: Expected primals to contain at least one Tensor.")
    for name, items in (("primals", leaves), ("tangents", given)):
        for item in items:
            if not isinstance(item, Tensor):
                raise RuntimeError(f"{where}: Expected {name} to only contain Tensors, got {type(item)}")
    for p, t in zip(leaves, given):
        if p.shape != t.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original "
                f"Tensor, this is not supported. Tensor is of size {list(p.shape)} while the given forward "
                f"gradient is of size {list(t.shape)}."
            )
    call, made = Call(func, primals, {}, tuple(range(len(primals)))), Outputs()

    def outputs(result: Any) -> tuple[list[Any], list[Any]]:
        arrays, aux = made.split(result, where, has_aux)
        if strict and not all(isinstance(a, jax.core.Tracer) for a in arrays):
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not "
                "allowed with strict=True."
            )
        return arrays, aux

    def compute(values: list[Any]) -> list[Any]:
        directions = [v.astype(p.dtype) for v, p in zip(values[call.count :], values)]
        (outs, others), (tangent_outs, tangent_others) = jax.jvp(
            lambda *diff: inside(lambda ts: call.run(ts, outputs), diff, mode="forward"),
            values[: call.count],
            directions,
        )
        written = tangent_others[len(others) - len(call.changed) :]
        return [*outs, *(_dense(t, o) for t, o in zip(tangent_outs, outs)), *others, *written]

    tensors = through("jvp", compute, [*call.tensors, *given])
    n, rest = made.count, len(tensors) - len(call.changed)
    for i, written in zip(call.changed, tensors[rest:], strict=True):
        if lie_alike(leaves[i], given[i]):  # else PyTorch writes to a copy
            given[i].copy_(written)
    tensors = call.written(tensors[:rest])
    output, tangent = made.join(tensors[:n]), made.join(tensors[n : 2 * n])
    return (output, tangent, made.join_aux(tensors[2 * n :])) if has_aux else (output, tangent)


def _dense(tangent: Any, out: Any) -> Any:
    """A tangent as an array; zeros for integers, whose tangents have the type float0 in JAX."""
    return jnp.zeros(out.shape, out.dtype) if tangent.dtype == jax.dtypes.float0 else tangent


def linearize(func: Callable[..., Any], *primals: Any) -> Any:
    """The output of ``func`` at ``primals`` and its linear approximation there.

    Returns:
        ``(output, jvp_fn)``; ``jvp_fn(*tangents)`` is the Jacobian-vector product.

    Raises:
        RuntimeError: in ``jvp_fn``, if tangents do not have the structure, shapes and dtypes of the primals.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.func.linearize.html
    """
    if not primals:
        func()  # PyTorch's error is that of the call
    call, made = Call(func, primals, {}, tuple(range(len(primals)))), Outputs()
    kept: list[Any] = []

    def compute(values: list[Any]) -> list[Any]:
        take = functools.partial(made.split, where="jvp(f, primals, tangents)", has_aux=False)
        outs, push, written = jax.linearize(
            lambda *diff: inside(lambda ts: call.run(ts, take), diff, mode="forward"), *values, has_aux=True
        )
        kept[:] = [push]
        return [*outs, *written]

    output = made.join(call.written(through("linearize", compute, call.tensors)))

    def jvp_fn(*tangents: Any) -> Any:
        given, tree = flatten(tangents)
        if tree != flatten(primals)[1]:
            raise RuntimeError(
                f"Expected the tangents {tree} to have the same argspec as the primals {flatten(primals)[1]}"
            )
        for i, (mine, primal) in enumerate(zip(given, call.tensors)):
            for name in ("shape", "dtype"):
                if getattr(mine, name) != getattr(primal, name):
                    raise RuntimeError(
                        f"tangent:{i} with {name} {getattr(mine, name)} in flattened pytree doesn't match the {name} "
                        f"{getattr(primal, name)} of the corresponding primal."
                    )
        return made.join(through("linearize", lambda values: list(kept[0](*values)), given))

    return output, jvp_fn


# -------------------------------------------------------------------- Jacobians


def _basis(x: Any) -> Any:
    """The standard basis of the space of ``x``, stacked."""
    n = math.prod(x.shape)
    return jnp.eye(n, dtype=x.dtype).reshape(n, *x.shape)


def _one_at_a_time(arrays: Sequence[Any], k: int) -> list[Any]:
    """The standard basis for array ``k``, zeros for the others."""
    n = math.prod(arrays[k].shape)
    return [_basis(a) if i == k else jnp.zeros((n, *a.shape), a.dtype) for i, a in enumerate(arrays)]


def jacrev(
    func: Callable[..., Any],
    argnums: ArgNums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``func``, computed row by row (reverse mode).

    Args:
        func: returns a pytree of Tensors.
        argnums: which arguments to differentiate.
        has_aux: ``func`` returns ``(output, aux)``.
        chunk_size: number of rows computed at a time; None for all.

    Returns:
        A function that returns, for each output, the Jacobians of shape ``output.shape + input.shape``.

    Example:
        >>> import functorch_port as torch
        >>> torch.func.jacrev(lambda x: x * x)(torch.tensor([1., 2.]))
        tensor([[2., 0.],
                [0., 4.]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.func.jacrev.html
    """
    _check_chunk(chunk_size, "jacrev")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        _refuse_complex("jacrev", "inputs", flatten(args)[0])
        call, made = Call(func, args, kwargs, argnums), Outputs()

        def compute(values: list[Any]) -> list[Any]:
            def forward(*diff: Any) -> Any:
                given = [*diff, *values[call.count :]]
                take = functools.partial(made.split, where="vjp(f, *primals)", has_aux=has_aux)
                return inside(lambda ts: call.run(ts, take), given, mode="reverse", leaves=call.count)

            outs, pull, aux = jax.vjp(forward, *values[: call.count], has_aux=True)
            _refuse_complex("jacrev", "outputs", outs)
            for out in outs:
                if not jnp.issubdtype(out.dtype, jnp.inexact):
                    raise RuntimeError(
                        "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with "
                        f"dtype {wrap(out).dtype}"
                    )
            blocks = []
            for k, out in enumerate(outs):
                rows = vmap_arrays(lambda *ct: list(pull(list(ct))), _one_at_a_time(outs, k), chunk_size)
                blocks += [conj(r).reshape(out.shape + r.shape[1:]) for r in rows]
            return [*blocks, *aux]

        return _nested(call.written(through("jacrev", compute, call.tensors)), call, made, has_aux)

    return wrapper


def jacfwd(
    func: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``func``, computed column by column (forward mode).

    Args:
        func: returns a pytree of Tensors.
        argnums: which arguments to differentiate.
        has_aux: ``func`` returns ``(output, aux)``.
        randomness: ``"error"`` raises for random operations, ``"same"`` uses the same numbers for all columns,
            ``"different"`` different ones for each column.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.func.jacfwd.html
    """

    check_randomness(randomness)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        _refuse_complex("jacfwd", "inputs", flatten(args)[0])
        call, made = Call(func, args, kwargs, argnums), Outputs()
        take = functools.partial(made.split, where="jvp(f, primals, tangents)", has_aux=has_aux)

        def compute(values: list[Any]) -> list[Any]:
            def forward(mapped: Any, *diff: Any) -> Any:
                given = [*diff, *values[call.count :]]
                return inside(lambda ts: call.run(ts, take), given, mapped, "forward")

            diff = values[: call.count]
            if randomness == "different":
                outs, columns, aux = _columns_of_their_own(forward, diff)
            else:
                mapped = (1, 0, "error") if randomness == "error" else None
                outs, push, aux = jax.linearize(functools.partial(forward, mapped), *diff, has_aux=True)
                columns = [
                    vmap_arrays(lambda *t: list(push(*t)), _one_at_a_time(diff, k)) for k in range(call.count)
                ]
            _refuse_complex("jacfwd", "outputs", outs)
            blocks = []
            for i, out in enumerate(outs):
                for k, x in enumerate(diff):
                    column = _dense_columns(columns[k][i], out, x)
                    blocks.append(jnp.moveaxis(column, 0, -1).reshape(out.shape + x.shape))
            return [*blocks, *aux]

        return _nested(call.written(through("jacfwd", compute, call.tensors)), call, made, has_aux)

    return wrapper


def _columns_of_their_own(forward: Any, diff: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """The outputs, the columns of the Jacobian per input, and the rest; the function runs once per column."""
    tangents = [jnp.concatenate(rows) for rows in zip(*(_one_at_a_time(diff, k) for k in range(len(diff))))]
    count = tangents[0].shape[0]

    def column(index: Any, *tangent: Any) -> Any:
        call = functools.partial(forward, (count, index, "different"))
        return jax.jvp(call, tuple(diff), tangent, has_aux=True)

    outs, stacked, aux = jax.vmap(column)(jnp.arange(count), *tangents)
    ends = list(itertools.accumulate(x.size for x in diff))
    columns = [[c[end - x.size : end] for c in stacked] for x, end in zip(diff, ends)]
    return [out[0] for out in outs], columns, [a[0] for a in aux]


def _dense_columns(column: Any, out: Any, x: Any) -> Any:
    return jnp.zeros((x.size, *out.shape), out.dtype) if column.dtype == jax.dtypes.float0 else column


def _nested(tensors: Sequence[Any], call: Call, made: Outputs, has_aux: bool) -> Any:
    """The Jacobians in the structure of the outputs, each in the structure of the arguments."""
    n, count = made.count, call.count
    jacobian = made.join([call.gather(tensors[i * count : (i + 1) * count]) for i in range(n)])
    return (jacobian, made.join_aux(tensors[n * count :])) if has_aux else jacobian


def _refuse_complex(name: str, what: str, leaves: Sequence[Any]) -> None:
    for i, leaf in enumerate(leaves):
        array = leaf._aval() if isinstance(leaf, Tensor) else leaf
        if hasattr(array, "dtype") and jnp.issubdtype(array.dtype, jnp.complexfloating):
            raise RuntimeError(
                f"{name}: Expected all {what} to be real but received complex tensor at flattened input idx: {i}"
            )


def _check_chunk(chunk_size: int | None, name: str) -> None:
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"{name}: `chunk_size` should be greater than 0.")


def hessian(func: Callable[..., Any], argnums: ArgNums = 0) -> Callable[..., Any]:
    """A function that returns the Hessian of ``func`` (forward-over-reverse mode).

    Example:
        >>> import functorch_port as torch
        >>> torch.func.hessian(lambda x: (x ** 3).sum())(torch.tensor([1., 2.]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.func.hessian.html
    """
    return jacfwd(jacrev(func, argnums), argnums)
