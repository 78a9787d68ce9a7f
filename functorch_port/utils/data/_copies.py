"""Copies of a dataset for the workers, like those that a fork of the process would create."""

from __future__ import annotations

import copy
import io
import pickle
import types
from typing import Any

import jax
import numpy as np

from functorch_port._array.storage import Storage
from functorch_port._random.generator import default_generator

# code, immutable arrays, and memory-mapped files, which forked processes share too
_SHARED = (type, types.FunctionType, types.ModuleType, jax.Array, np.memmap)


def copies(parts: tuple[Any, ...], count: int) -> list[tuple[Any, ...]]:
    """``count`` deep copies of ``parts``.

    Lists and arrays are copied. The values of tensors, code, and objects that cannot be copied (open files, locks) are
    shared. Pickling is the fastest way to copy large objects.

    Raises:
        NotImplementedError: if a part holds a generator, whose state cannot be copied.
    """
    pickler = _Pickler()
    try:
        pickler.dump(parts)
        return [pickler.load() for _ in range(count)]
    except NotImplementedError:
        raise
    except Exception:  # nested too deeply, or its class refuses to be pickled
        return [tuple(map(copy.copy, parts)) for _ in range(count)]


class _Pickler(pickle.Pickler):
    def __init__(self) -> None:
        self._file = io.BytesIO()
        self._buffers: list[pickle.PickleBuffer] = []
        self._kept: list[Any] = []
        super().__init__(self._file, 5, buffer_callback=self._buffers.append)

    def load(self) -> Any:
        """Create a copy of the dumped object."""
        views = (buffer.raw() for buffer in self._buffers)
        own = [view if view.readonly else bytearray(view) for view in views]
        unpickler = _Unpickler(io.BytesIO(self._file.getbuffer()), buffers=own)
        unpickler.kept = self._kept
        return unpickler.load()

    def reducer_override(self, obj: Any) -> Any:
        if obj is _kept or obj is Storage:
            return NotImplemented
        if isinstance(obj, Storage):
            return Storage, self._keep(obj.look())[1]
        if isinstance(obj, types.GeneratorType):
            raise NotImplementedError(
                "DataLoader(num_workers > 0): the dataset holds a generator, which cannot be copied for each worker; "
                "create it in __iter__, or use num_workers=0"
            )
        if isinstance(obj, _SHARED) or obj is default_generator or type(obj) is object:
            return self._keep(obj)
        try:
            reduced = obj.__reduce_ex__(5)
        except Exception:
            return self._keep(obj)
        return self._keep(obj) if isinstance(reduced, str) else reduced  # others are pickled by name

    def _keep(self, obj: Any) -> Any:
        self._kept.append(obj)
        return _kept, (len(self._kept) - 1,)


class _Unpickler(pickle.Unpickler):
    kept: list[Any]

    def find_class(self, module: str, name: str) -> Any:
        kept = self.kept.__getitem__
        return kept if name == "_kept" else lambda index: Storage(kept(index))


def _kept(index: int) -> Any:
    """Placeholder of a shared object."""
