"""Checkpoints that PyTorch's ``torch.distributed.checkpoint`` wrote: a file ``.metadata`` and files ``*.distcp``.

``.metadata`` is a pickle of `Metadata`, and says where in the other files each part of each tensor is, as a file of
``torch.save`` of its own. No code of either is run.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..._array import placed
from ..._base import dtypes
from ...serialization import load

__all__ = ["Theirs"]


@dataclass
class _Kind:
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class _Record:
    """An object of the pickle: its arguments and its attributes."""

    def __init__(self, *args: Any) -> None:
        self.args = args

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state if isinstance(state, dict) else {"state": state})


class _Tensor(_Record):
    """`TensorStorageMetadata`."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("torch.distributed.checkpoint"):
            return _Tensor if name == "TensorStorageMetadata" else _Record
        if module.partition(".")[0] == "pathlib" or (module, name) == ("torch.serialization", "_get_layout"):
            return _Record
        if (module, name) == ("torch", "Size"):
            return tuple
        if module == "torch" and name in {dtype.name for dtype in dtypes.ALL}:
            return dtypes.from_name(name)
        raise pickle.UnpicklingError(
            f"its .metadata names {module}.{name}, which is not in a checkpoint of PyTorch's"
        )


class Theirs:
    """A checkpoint of PyTorch's, with what `interchange._orbax.Opened` has of one of orbax's.

    Args:
        path: the folder.

    Raises:
        pickle.UnpicklingError: the file ``.metadata`` is not PyTorch's.
    """

    about = None

    def __init__(self, path: str) -> None:
        self.path = path
        with open(os.path.join(path, ".metadata"), "rb") as file:
            said = _Unpickler(file).load()
        self._places = said.planner_data or {name: (name,) for name in said.state_dict_metadata}
        self._stored: dict[str, list[tuple[Any, Any]]] = {}
        for index, info in said.storage_data.items():
            self._stored.setdefault(index.fqn, []).append((getattr(index, "offset", None), info))
        self.kinds: dict[str, _Kind] = {}
        self._others: list[str] = []
        for name, kind in said.state_dict_metadata.items():
            if isinstance(kind, _Tensor):
                self.kinds[name] = _Kind(tuple(kind.size), kind.properties.state[0].np)
            else:
                self._others.append(name)

    def empty(self) -> Iterator[tuple[str, tuple[int, ...], dtypes.dtype]]:
        """Nothing: tensors without elements are stored as others are."""
        return iter(())

    def tree(self, leaves: Mapping[str, Any]) -> Any:
        """What was saved, with these leaves for its tensors. What cannot be read is the exception that says so."""
        tree: dict[Any, Any] = {}
        for name in [*self.kinds, *self._others]:
            _set(tree, self._places[name], leaves[name] if name in leaves else self._other(name))
        return tree

    def parts(self, where: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Tensors one by one; ``where`` as for `interchange._orbax.Opened`."""
        for name, target in where.items():
            whole = self._whole(name)
            on_mesh = isinstance(target, jax.ShapeDtypeStruct)
            yield {name: placed.brought(whole, target.sharding) if on_mesh else whole}

    def _other(self, name: str) -> Any:
        try:
            return self._read(self._stored[name][0][1])
        except pickle.UnpicklingError as error:
            return pickle.UnpicklingError(f"{name} of {self.path} is not read: {error}")

    def _whole(self, name: str) -> np.ndarray:
        kind = self.kinds[name]
        whole, found = np.empty(kind.shape, kind.dtype), 0
        for offset, info in self._stored.get(name, ()):
            part = np.asarray(self._read(info).detach()._look())
            start = offset or (0,) * part.ndim
            whole[tuple([slice(a, a + n) for a, n in zip(start, part.shape, strict=True)])] = part
            found += part.size
        if found != whole.size:
            raise RuntimeError(f"{self.path} has only {found} of the {whole.size} elements of {name}")
        return whole

    def _read(self, info: Any) -> Any:
        if getattr(info, "transform_descriptors", None):
            raise NotImplementedError(f"{self.path} was written with extensions, which are not supported")
        with open(os.path.join(self.path, info.relative_path), "rb") as file:
            file.seek(info.offset)
            data = file.read(info.length)
        return load(io.BytesIO(data), map_location="cpu")


def _set(tree: dict[Any, Any], path: tuple[Any, ...], value: Any) -> None:
    """Put a value where a path of keys and positions leads to."""
    at: Any = tree
    for key, after in zip(path, (*path[1:], None)):
        if isinstance(at, list):
            at += [None] * (key + 1 - len(at))
        known = at[key] if isinstance(at, list) else at.get(key)
        if after is None:
            at[key] = value
        elif known is None:
            at[key] = known = [] if type(after) is int else {}
        at = known
