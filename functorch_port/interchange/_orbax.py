"""orbax's checkpoints."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from .._array import tracing
from .._base import dtypes
from .._base.optional import optional
from .._tensor.creation import from_jax
from .._tensor.tensor import Tensor
from ..serialization._tensors import placed, tensor_at
from ._tree import array_of, join, named, nbytes, put_together, state_of, take_apart, virtual

__all__ = ["load_orbax", "save_orbax"]

_KEY, _NOTHING = "functorch_port", {"empty": None}


def _orbax() -> Any:
    return optional("orbax.checkpoint", "a checkpoint of orbax", "orbax", "orbax-checkpoint")


def save_orbax(path: str | os.PathLike[str], obj: Any, force: bool = False) -> None:
    """Save the state of a module or optimizer, or a tree of tensors, as an orbax checkpoint (a folder).

    `orbax.checkpoint.StandardCheckpointer` writes it and can read it as a tree of arrays. Numbers, strings and empty
    tensors are in the custom metadata. An existing checkpoint is replaced only when the new one is complete.

    Args:
        path: the folder.
        obj: an object with a ``state_dict()``, or a tree: dicts, lists and tuples of tensors, arrays, numbers, strings.
        force: whether to replace an existing checkpoint.

    Raises:
        TypeError: ``obj`` has a value of another type.
        ValueError: the path exists, and ``force`` is False.
        ModuleNotFoundError: orbax is not installed.

    Example:
        >>> import os, tempfile
        >>> import functorch_port as torch
        >>> from functorch_port import interchange
        >>> path = os.path.join(tempfile.mkdtemp(), "checkpoint")
        >>> interchange.save_orbax(path, {"weight": torch.ones(2), "epoch": 3})
        >>> interchange.load_orbax(path)
        {'weight': tensor([1., 1.]), 'epoch': 3}

    Reference: https://orbax.readthedocs.io/en/latest/guides/checkpoint/checkpointing_pytrees.html
    """
    tree = state_of(obj)
    tensors, left = take_apart(tree)
    without = [name for name, tensor in tensors.items() if not nbytes(tensor)]
    about: dict[str, Any] = {}
    if without or left is not None or not tensors:
        about["tree"] = left
        about["empty"] = {name: [list(tensors[name].shape), tensors[name].dtype.name] for name in without}
    arrays = _arrays(tree, {name: t for name, t in tensors.items() if name not in without}, "")
    if "" in tensors:  # a single tensor, but entries of a checkpoint have names
        arrays = None if without else {"": arrays}
    path = os.path.abspath(path)
    if os.path.lexists(path) and not force:
        raise ValueError(f"{path} already exists; force=True replaces it")
    aside = f"{path}.{uuid.uuid4().hex}"
    with _orbax().StandardCheckpointer() as checkpointer:
        checkpointer.save(aside, arrays or _NOTHING, custom_metadata={_KEY: about} if about else None)
    if os.path.lexists(path):  # moved there when complete: orbax would remove the old one first
        os.rename(path, f"{aside}.old")
    os.rename(aside, path)
    if os.path.isdir(f"{aside}.old"):
        shutil.rmtree(f"{aside}.old")
    elif os.path.lexists(f"{aside}.old"):
        os.unlink(f"{aside}.old")


def _arrays(tree: Any, tensors: dict[str, Tensor], path: str) -> Any:
    """The tree without anything but arrays; a list that loses an element becomes a dict."""
    if path in tensors:
        value = tensors[path].detach()._value
        spread = isinstance(value, jax.Array) and len(value.devices()) > 1
        return value if spread else array_of(path, tensors[path])
    if isinstance(tree, Mapping):
        parts: Any = list(tree.items())
    else:
        parts = list(enumerate(tree)) if isinstance(tree, list | tuple) else []
    found = {str(key): _arrays(value, tensors, join(path, key)) for key, value in parts}
    kept = {key: value for key, value in found.items() if value is not None}
    whole = not isinstance(tree, Mapping) and len(kept) == len(parts)
    return (list(kept.values()) if whole else kept) or None


def load_orbax(path: str | os.PathLike[str], device: Any = "cpu") -> Any:
    """Load a checkpoint of `save_orbax`, or the tree of another orbax checkpoint, with tensors for arrays.

    Args:
        path: the folder.
        device: where tensors go: a device, a `jax.sharding.Sharding`, or a function from a tensor's name to one of
            these; ``"meta"`` does not read their values.

    Raises:
        FileNotFoundError: the folder does not exist.
        ModuleNotFoundError: orbax is not installed.
    """
    path = os.path.abspath(path)
    if not os.path.isdir(path):
        raise FileNotFoundError(f"{path} is not a folder with a checkpoint")
    orbax = _orbax()
    with orbax.StandardCheckpointer() as checkpointer:
        step = checkpointer.metadata(path)
        kinds = getattr(step.item_metadata, "tree", None)
        if kinds is None:
            raise ValueError(f"{path} is not a checkpoint of orbax's StandardCheckpointer")
        places: dict[str, Any] = {}

        def wanted(tree: Any, name: str) -> Any:
            """orbax's target for a part of the tree: numpy's arrays, which keep 64 bits whatever JAX's setting."""
            if isinstance(tree, Mapping):
                return {key: wanted(value, join(name, key)) for key, value in tree.items()}
            if isinstance(tree, list | tuple):
                return type(tree)(wanted(value, join(name, i)) for i, value in enumerate(tree))
            if isinstance(tree, orbax.metadata.ScalarMetadata):
                return tree.dtype.type(0).item()
            if tree is None:
                return None
            places[name] = where = placed(device, name)
            if isinstance(where, jax.sharding.Sharding):
                return jax.ShapeDtypeStruct(tree.shape, tree.dtype, sharding=where)
            return virtual(tree.shape, tree.dtype)

        target = wanted(kinds, "")
        with tracing.x64():
            read = target if {*map(str, places.values())} == {"meta"} else checkpointer.restore(path, target)

    def made(tree: Any, name: str) -> Any:
        if isinstance(tree, Mapping):
            return {key: made(value, join(name, key)) for key, value in tree.items()}
        if isinstance(tree, list | tuple):
            return type(tree)(made(value, join(name, i)) for i, value in enumerate(tree))
        if isinstance(tree, jax.Array):
            return from_jax(tree)
        return tensor_at(tree, places[name]) if isinstance(tree, np.ndarray) else tree

    tree = made(read, "")
    about = (step.custom_metadata or {}).get(_KEY)
    if about is None:
        return tree
    found = {name: leaf for name, leaf in named(tree) if isinstance(leaf, Tensor)}
    for name, (shape, dtype) in about["empty"].items():
        found[name] = tensor_at(np.empty(shape, dtypes.from_name(dtype).np), placed(device, name))
    return put_together(found, about["tree"], path)
