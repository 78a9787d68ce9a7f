"""Copies of a dataset for the workers, as a fork of the process would give them."""

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

# code; arrays that nobody can write to; files in memory, which processes share as well
_SHARED = (type, types.FunctionType, types.ModuleType, jax.Array, np.memmap)


def copies(parts: tuple[Any, ...], count: int) -> list[tuple[Any, ...]]:
    """``count`` copies of ``parts``, each with what it refers to.

    A list or an array of the copy is its own; the values of tensors, code, and what has no copy (open files, locks) are
    shared. Pickling is the quickest way to copy what is large.

    Raises:
        NotImplementedError: a part holds a generator, whose place nobody can copy.
    """
    pickler = _Pickler()
    try:
        pickler.dump(parts)
        return [pickler.load() for _ in range(count)]
    except NotImplementedError:
        raise
    except Exception:  # nested too deeply, or its class has rules of its own
        return [tuple(map(copy.copy, parts)) for _ in range(count)]


class _Pickler(pickle.Pickler):
    def __init__(self) -> None:
        self._file = io.BytesIO()
        self._buffers: list[pickle.PickleBuffer] = []
        self._kept: list[Any] = []
        super().__init__(self._file, 5, buffer_callback=self._buffers.append)

    def load(self) -> Any:
        """A new copy of what was dumped."""
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
                "DataLoader(num_workers > 0) with a dataset that holds a generator, which cannot be copied for each "
                "worker; make it in __iter__, or use num_workers=0"
            )
        if isinstance(obj, _SHARED) or obj is default_generator or type(obj) is object:
            return self._keep(obj)
        try:
            reduced = obj.__reduce_ex__(5)
        except Exception:
            return self._keep(obj)
        return self._keep(obj) if isinstance(reduced, str) else reduced  # else a global by its name

    def _keep(self, obj: Any) -> Any:
        self._kept.append(obj)
        return _kept, (len(self._kept) - 1,)


class _Unpickler(pickle.Unpickler):
    kept: list[Any]

    def find_class(self, module: str, name: str) -> Any:
        kept = self.kept.__getitem__
        return kept if name == "_kept" else lambda index: Storage(kept(index))


def _kept(index: int) -> Any:
    """Stands for what is shared."""
