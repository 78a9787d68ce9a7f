"""Trees of tensors, and their split into tensors and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from .._base import dtypes
from .._base.device import device
from .._base.size import Size
from .._tensor.creation import from_jax
from .._tensor.tensor import Tensor
from ..serialization._tensors import tensor_at

__all__ = [
    "array_of", "changed", "check_dense", "from_pytree", "join", "named", "nbytes", "put_together", "state_of",
    "take_apart", "to_pytree", "virtual",
]  # fmt: skip

#: types that JSON lacks: mark -> type, its conversion to JSON, and back
_MARKS: dict[str, tuple[type, Callable[..., Any], Callable[..., Any]]] = {
    "$size": (Size, list, Size),
    "$tuple": (tuple, list, tuple),
    "$dtype": (dtypes.dtype, lambda d: d.name, dtypes.from_name),
    "$device": (device, str, device),
    "$complex": (complex, lambda z: [z.real, z.imag], lambda parts: complex(*parts)),
}
_PLAIN = (type(None), bool, int, float, str)


def state_of(obj: Any) -> Any:
    """``obj.state_dict()`` if ``obj`` has one, else ``obj``."""
    return obj.state_dict() if hasattr(obj, "state_dict") else obj


def to_pytree(obj: Any) -> Any:
    """Convert the state of a module or optimizer, or a tree of tensors, to a tree of `jax.Array`s.

    Args:
        obj: an object with a ``state_dict()``, or a tree: dicts, lists and tuples.

    Raises:
        NotImplementedError: a tensor is sparse or on the meta device.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port import interchange
        >>> interchange.to_pytree(torch.nn.BatchNorm1d(1))["running_var"]
        Array([1.], dtype=float32)
    """
    return changed(state_of(obj), lambda tensor: tensor.detach().jax())


def from_pytree(tree: Any, device: Any = "cpu") -> Any:
    """Convert a tree of arrays, numpy's or JAX's, to one of tensors, as ``load_state_dict`` takes it.

    Args:
        tree: dicts, lists and tuples of arrays, numbers and strings.
        device: where numpy's arrays go. JAX's arrays stay on their devices.

    Example:
        >>> import functorch_port as torch, jax.numpy as jnp
        >>> from functorch_port import interchange
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> model.load_state_dict(interchange.from_pytree({"weight": jnp.ones((1, 1))}))
        <All keys matched successfully>
    """

    def made(array: Any) -> Any:
        return array if isinstance(array, Tensor) else _tensor(array, device)

    return changed(tree, made)


def _tensor(array: Any, where: Any) -> Tensor:
    return from_jax(array) if isinstance(array, jax.Array) else tensor_at(array, where)


def _is_array(x: Any) -> bool:
    return isinstance(x, Tensor | jax.Array | np.ndarray)


def changed(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The tree with ``change`` applied to each tensor and array."""
    if _is_array(tree):
        return change(tree)
    if isinstance(tree, Mapping):
        return {key: changed(value, change) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        make = getattr(type(tree), "_make", type(tree))
        return make([changed(value, change) for value in tree])
    return tree


def join(path: str, key: Any) -> str:
    """The dotted path of a part."""
    return f"{path}.{key}" if path else str(key)


def named(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All leaves with their dotted paths."""
    if isinstance(tree, Mapping):
        parts: Any = tree.items()
    elif isinstance(tree, list | tuple):
        parts = enumerate(tree)
    else:
        yield path, tree
        return
    for key, value in parts:
        yield from named(value, join(path, key))


def take_apart(tree: Any) -> tuple[dict[str, Tensor], str | None]:
    """Split a tree into its tensors by name and the rest as JSON, which is None for a plain dict of tensors.

    Raises:
        TypeError: a value is neither a tensor nor representable in JSON.
        ValueError: two tensors have the same name.
    """
    tensors: dict[str, Tensor] = {}

    def rest(value: Any, path: str) -> Any:
        if _is_array(value):
            if path in tensors:
                raise ValueError(f"two entries have the name {path!r}: rename one of them")
            tensors[path] = value if isinstance(value, Tensor) else _tensor(value, "cpu")
            return {"$tensor": path}
        if isinstance(value, np.generic):
            value = value.item()
        if type(value) in _PLAIN:
            return value
        if isinstance(value, Mapping):
            if all(type(key) is str and not key.startswith("$") for key in value):
                return {key: rest(part, join(path, key)) for key, part in value.items()}
            pairs = []
            for key, part in value.items():
                if type(key) not in _PLAIN:
                    raise TypeError(
                        f"entry {path!r} has the key {key!r}: keys must be strings, numbers, bools or None"
                    )
                pairs.append([key, rest(part, join(path, key))])
            return {"$dict": pairs}
        if isinstance(value, list):
            return [rest(part, join(path, i)) for i, part in enumerate(value)]
        for mark, (kind, write, _) in _MARKS.items():
            if isinstance(value, kind):
                parts = write(value)
                return {mark: rest(parts, path) if isinstance(parts, list) else parts}
        raise TypeError(
            f"entry {path or '(all)'!r} is of {type(value)}: this format holds only tensors, numbers, strings, "
            "dicts, lists and tuples; PyTorch's holds more"
        )

    left = rest(tree, "")
    is_flat = isinstance(tree, Mapping) and all(type(k) is str and _is_array(v) for k, v in tree.items())
    return tensors, None if is_flat else json.dumps(left)


def put_together(tensors: Mapping[str, Any], left: str | None, of: Any) -> Any:
    """The inverse of `take_apart`; ``of`` is the file's name.

    Raises:
        ValueError: the JSON is damaged, or names tensors that do not exist.
    """
    if left is None:
        return dict(tensors)

    def made(value: Any) -> Any:
        if type(value) is list:
            return [made(part) for part in value]
        if type(value) is not dict:
            return value
        mark, *more = value or [""]
        if more or not mark.startswith("$"):
            return {key: made(part) for key, part in value.items()}
        given = value[mark]
        if mark == "$tensor":
            return tensors[given]
        if mark == "$dict":
            return {key: made(part) for key, part in given}
        return _MARKS[mark][2](made(given))

    try:
        return made(json.loads(left))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError, RuntimeError) as error:
        raise ValueError(
            f"{of}: the JSON beside the arrays, which describes their tree, does not fit them "
            f"({type(error).__name__}: {str(error)[:200]})"
        ) from None


def array_of(name: str, tensor: Tensor) -> np.ndarray:
    """The values of a tensor as a numpy array.

    Raises:
        NotImplementedError: the tensor is sparse or on the meta device.
    """
    check_dense(name, tensor)
    return np.asarray(tensor.detach().cpu()._look())


def check_dense(name: str, tensor: Tensor) -> None:
    """Refuse a sparse or a meta tensor."""
    if tensor._sparse or tensor.is_meta:
        what = (
            "sparse (save tensor.to_dense())" if tensor._sparse else "on the meta device, and has no values"
        )
        raise NotImplementedError(f"entry {name!r} is {what}")


def virtual(shape: Any, dtype: Any) -> np.ndarray:
    """An array of this shape that takes almost no memory."""
    return np.broadcast_to(np.empty((), dtype), tuple(shape))


def nbytes(tensor: Tensor) -> int:
    """The number of bytes of a tensor's values."""
    return math.prod(tensor.shape) * tensor.dtype.itemsize
