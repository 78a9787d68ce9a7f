"""`vmap`: vectorize a function of one example over a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._array.refusal import Check
from .._run import bind
from .._tensor.tensor import Tensor
from .._tensor.tree import LEAF, Structure, broadcast, flatten, unflatten
from ._level import RANDOM, arrays_of, inside, refuse_collected, through

__all__ = ["check_randomness", "old_vmap", "vmap", "vmap_arrays"]


def vmap_arrays(
    fn: Callable[..., list[Any]], arrays: Sequence[Any], chunk_size: int | None = None
) -> list[Any]:
    """Map ``fn`` over the first dimension of arrays, optionally in chunks; chunks of one run in a loop."""
    size = arrays[0].shape[0] if arrays else 0
    if not chunk_size or chunk_size >= size:
        return jax.vmap(fn)(*arrays)
    if chunk_size == 1:
        return [jnp.stack(rows) for rows in zip(*(fn(*row) for row in zip(*arrays)))]
    parts = [jax.vmap(fn)(*(a[i : i + chunk_size] for a in arrays)) for i in range(0, size, chunk_size)]
    return [jnp.concatenate(part) for part in zip(*parts)]


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Map ``func`` over a dimension of its inputs.

    Args:
        func: takes and returns pytrees of Tensors, without the mapped dimension.
        in_dims: the dimension to map, for each input or for all; None for inputs that all examples share.
        out_dims: the position of the mapped dimension in the outputs; None for outputs that are not mapped.
        randomness: ``"error"`` raises for random operations, ``"same"`` uses the same numbers for all examples,
            ``"different"`` different ones for each example.
        chunk_size: number of examples computed at a time; None for all.

    Raises:
        ValueError: if dimensions do not match the inputs or outputs.
        RuntimeError: if the function needs the value of a mapped tensor (``item``, ``if``).

    Example:
        >>> import functorch_port as torch
        >>> torch.func.vmap(torch.dot)(torch.ones(2, 3), torch.arange(6.).reshape(2, 3))
        tensor([ 3., 12.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.func.vmap.html
    """
    check_randomness(randomness)
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    name = getattr(func, "__name__", repr(func))

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        mapping = _Mapping(name, func, in_dims, out_dims, args, kwargs)
        if chunk_size is None or chunk_size >= mapping.size:
            return mapping.run(randomness)
        return mapping.run_in_chunks(randomness, chunk_size)

    return wrapped


def old_vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0) -> Callable[..., Any]:
    """As `vmap`, which random operations cannot be in."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return vmap(func, in_dims, out_dims)(*args, **kwargs)
        except RuntimeError as error:
            if str(error) != RANDOM:
                raise
            raise RuntimeError(
                "vmap: We do not yet support calling random operations inside of vmap. Please perform random "
                "operations outside of vmap as a workaround"
            ) from error

    return wrapped


def check_randomness(randomness: str) -> None:
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )


class _Mapping:
    """One call of a mapped function."""

    def __init__(
        self, name: str, func: Any, in_dims: Any, out_dims: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.name, self.func, self.out_dims = name, func, out_dims
        self.leaves, self.tree = flatten(args)
        self.dims = _input_dims(name, in_dims, args, self.leaves, self.tree)
        self.size = _batch_size(self.leaves, self.dims)
        self.kw_leaves, self.kw_tree = flatten(kwargs)
        self.out_tree: Structure = LEAF
        self.statics: list[Any] = []
        self.out_axes: list[Any] = []
        self.changed: list[int] = []  # which mapped inputs the function changes in place

    def run(self, randomness: str) -> Any:
        mapped = [leaf for leaf, dim in zip(self.leaves, self.dims) if dim is not None]
        dims = [dim for dim in self.dims if dim is not None]
        shared = [x for x, d in zip(self.leaves, self.dims) if d is None and isinstance(x, Tensor)]
        shared += [x for x in self.kw_leaves if isinstance(x, Tensor)]

        def compute(values: list[Any]) -> list[Any]:
            return self._map(values[: len(mapped)], dims, values[len(mapped) :], randomness)

        tensors = iter(through("vmap", compute, [*mapped, *shared]))
        result = unflatten(self.out_tree, [next(tensors) if s is _MADE else s for s in self.statics])
        for i, tensor in zip(self.changed, tensors, strict=True):
            mapped[i].copy_(tensor)
        return result

    def run_in_chunks(self, randomness: str, chunk_size: int) -> Any:
        results = []
        for start in range(0, self.size, chunk_size):
            length = min(chunk_size, self.size - start)
            part = [
                leaf if dim is None else leaf.narrow(dim, start, length)
                for leaf, dim in zip(self.leaves, self.dims)
            ]
            dims = unflatten(self.tree, self.dims)
            kwargs = unflatten(self.kw_tree, self.kw_leaves)
            piece = _Mapping(self.name, self.func, dims, self.out_dims, unflatten(self.tree, part), kwargs)
            results.append((piece, _outputs(piece.run(randomness))[0]))
        last = results[-1][0]
        joined = []
        for k, axis in enumerate(last.out_axes):
            parts = [leaves[k] for _, leaves in results]
            joined.append(parts[0] if axis is None else bind.function("cat")(parts, axis))
        return unflatten(last.out_tree, joined)

    def _map(self, mapped: list[Any], dims: list[int], shared: list[Any], randomness: str) -> list[Any]:
        checks: list[Check] = []

        def example(index: Any, *values: Any) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
            given, mapped = [*values, *shared], (self.size, index, randomness)
            made = inside(lambda ts: self._call(ts, len(values)), given, mapped, checks=checks)
            return *made, arrays_of(checks)

        try:
            mapping = jax.vmap(example, in_axes=(0, *dims), out_axes=(0, None, 0, 0), axis_size=self.size)
            outs, same, changed, stacked = mapping(jnp.arange(self.size, dtype=jnp.int32), *mapped)
        except ValueError as error:
            if "out_axes" not in str(error) and "unbatched" not in str(error):
                raise
            raise ValueError(
                f"vmap({self.name}, ...): `{self.name}` can not return a BatchedTensor when out_dim is None"
            ) from None
        refuse_collected(checks, stacked)
        batched, constant = iter(outs), iter(same)
        placed = [
            next(constant) if axis is None else _moved(next(batched), axis)
            for axis, kind in zip(self.out_axes, self.statics)
            if kind is _MADE
        ]
        return placed + [_moved(array, dims[i]) for i, array in zip(self.changed, changed)]

    def _call(self, tensors: Sequence[Tensor], mapped: int) -> tuple[list[Any], list[Any], list[Any]]:
        """Run the user's function on one example: mapped outputs, outputs that are not mapped, changed inputs."""
        own, shared = iter(tensors[:mapped]), iter(tensors[mapped:])
        leaves = [
            next(own) if dim is not None else next(shared) if isinstance(leaf, Tensor) else leaf
            for leaf, dim in zip(self.leaves, self.dims)
        ]
        kwargs = unflatten(
            self.kw_tree, [next(shared) if isinstance(x, Tensor) else x for x in self.kw_leaves]
        )
        result = self.func(*unflatten(self.tree, leaves), **kwargs)
        outs, self.out_tree = _outputs(result)
        self.out_axes = _output_dims(self.name, self.out_dims, result, self.out_tree)
        self.statics = []
        arrays: list[Any] = []
        constants: list[Any] = []
        for out, axis in zip(outs, self.out_axes):
            if isinstance(out, Tensor):
                (constants if axis is None else arrays).append(out._value)
                self.statics.append(_MADE)
            elif axis is None:
                self.statics.append(out)
            else:
                raise ValueError(
                    f"vmap({self.name}, ...): `{self.name}` must only return Tensors, got type {type(out)}. "
                    "Did you mean to set out_dims= to None for output?"
                )
        self.changed = [i for i, tensor in enumerate(tensors) if tensor._storage.version]
        if any(i >= mapped for i in self.changed):
            raise NotImplementedError(
                f"vmap({self.name}, ...): the function changes in place an input that all examples share; change a "
                "clone() of it"
            )
        return arrays, constants, [tensors[i]._value for i in self.changed]


def _is_none(x: Any) -> bool:
    return x is None


def _outputs(result: Any) -> tuple[list[Any], Structure]:
    """Leaves and structure of a function's result; None is a leaf."""
    return flatten(result, _is_none)


_MADE = object()


def _input_dims(
    name: str, in_dims: Any, args: tuple[Any, ...], leaves: list[Any], tree: Structure
) -> list[int | None]:
    where = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"{where}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure "
            f"of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to "
            "vmap over a function with no inputs. The latter is unsupported."
        )
    dims = broadcast(in_dims, tree, _is_none)
    if dims is None:
        raise ValueError(
            f"{where}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{_outputs(in_dims)[1]} but inputs has structure {tree}."
        )
    return [_checked_input(where, leaf, dim) for leaf, dim in zip(leaves, dims)]


def _checked_input(where: str, leaf: Any, dim: Any) -> int | None:
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(
            f"{where}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
        )
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{where}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap "
            "over non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -leaf.ndim <= dim < leaf.ndim:
        raise ValueError(
            f"{where}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
            f"{leaf.ndim} so expected in_dim to satisfy -{leaf.ndim} <= in_dim < {leaf.ndim}."
        )
    return dim % leaf.ndim


def _batch_size(leaves: list[Any], dims: list[int | None]) -> int:
    sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, dims) if dim is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(n != sizes[0] for n in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} "
            "for the mapped dimension"
        )
    return sizes[0]


def _output_dims(name: str, out_dims: Any, result: Any, tree: Structure) -> list[int | None]:
    count = tree.num_leaves
    if out_dims is None or isinstance(out_dims, int):
        return [out_dims] * count
    if isinstance(result, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        return [out_dims[0]]
    dims = broadcast(out_dims, tree, _is_none)
    if dims is not None and not all(dim is None or isinstance(dim, int) for dim in dims):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of "
            "ints representing where in the outputs the vmapped dimension should appear."
        )
    if dims is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the "
            f"structure of `outputs`. out_dims has structure {_outputs(out_dims)[1]} but outputs has "
            f"structure {tree}."
        )
    return dims


def _moved(array: Any, dim: int) -> Any:
    """``array`` with its first dimension moved to ``dim``."""
    ndim = array.ndim
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})"
        )
    return jnp.moveaxis(array, 0, dim)
