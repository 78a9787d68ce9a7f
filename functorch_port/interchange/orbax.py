"""Checkpoints of orbax."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from .._array import storage
from .._base import dtypes
from .._base.optional import optional
from .._tensor.creation import from_jax
from .._tensor.tensor import Tensor
from ..serialization.tensors import placed, tensor_at
from .tree import array_of, join, named, nbytes, put_together, state_of, take_apart, virtual

__all__ = ["load_orbax", "save_orbax"]

_KEY, _NOTHING = "functorch_port", {"empty": None}


def _orbax() -> Any:
    return optional("orbax.checkpoint", "a checkpoint of orbax", "orbax", "orbax-checkpoint")


def save_orbax(path: str | os.PathLike[str], obj: Any, force: bool = False) -> None:
    """Save the state of a module or optimizer, or a tree of tensors, as a checkpoint of orbax (a folder).

    It is written by `orbax.checkpoint.StandardCheckpointer`, which reads it, too: as the tree of its arrays. Numbers,
    text and tensors without elements are in the custom metadata. A checkpoint that is replaced is so as a whole.

    Args:
        path: the folder.
        obj: something with a ``state_dict()``, or a tree: dicts, lists and tuples of tensors, arrays, numbers and text.
        force: whether a checkpoint that is there is replaced.

    Raises:
        TypeError: there is something else in it.
        ValueError: there is a checkpoint.
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
    if "" in tensors:  # one tensor alone, and a checkpoint has names
        arrays = None if without else {"": arrays}
    path = os.path.abspath(path)
    if os.path.lexists(path) and not force:
        raise ValueError(f"{path} is there already; force=True replaces it")
    aside = f"{path}.{uuid.uuid4().hex}"
    with _orbax().StandardCheckpointer() as checkpointer:
        checkpointer.save(aside, arrays or _NOTHING, custom_metadata={_KEY: about} if about else None)
    if os.path.lexists(path):  # as a whole: orbax would remove the old one first
        os.rename(path, f"{aside}.old")
    os.rename(aside, path)
    if os.path.isdir(f"{aside}.old"):
        shutil.rmtree(f"{aside}.old")
    elif os.path.lexists(f"{aside}.old"):
        os.unlink(f"{aside}.old")


def _arrays(tree: Any, tensors: dict[str, Tensor], path: str) -> Any:
    """A tree of its arrays alone; a list that loses a part is a dict."""
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
    """What `save_orbax` saved, or the tree of another checkpoint of orbax, with tensors in place of arrays.

    Args:
        path: the folder.
        device: where tensors go: a device, a `jax.sharding.Sharding`, or a function that gives one of these for a
            tensor's name; ``"meta"`` reads none of their numbers.

    Raises:
        FileNotFoundError: there is no such checkpoint.
        ModuleNotFoundError: orbax is not installed.
    """
    path = os.path.abspath(path)
    if not os.path.isdir(path):
        raise FileNotFoundError(f"there is no checkpoint (a folder) {path}")
    orbax = _orbax()
    with orbax.StandardCheckpointer() as checkpointer:
        step = checkpointer.metadata(path)
        kinds = getattr(step.item_metadata, "tree", None)
        if kinds is None:
            raise ValueError(f"{path} is no checkpoint that orbax's StandardCheckpointer has written")
        places: dict[str, Any] = {}

        def wanted(tree: Any, name: str) -> Any:
            """What orbax is to give for a part: numpy's arrays, which have 64 bits whatever JAX's setting is."""
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
        with storage.x64():
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
