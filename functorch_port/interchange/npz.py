"""numpy's ``.npz`` files."""

from __future__ import annotations

import json
import os
import zipfile
from typing import Any

import numpy as np

from .._base import dtypes
from .._tensor.tensor import Tensor
from ..serialization.atomic import atomic
from ..serialization.tensors import placed, tensor_at
from .tree import array_of, put_together, state_of, take_apart, virtual

__all__ = ["load_npz", "save_npz"]

_ABOUT = "__functorch_port__"


def save_npz(path: str | os.PathLike[str], obj: Any) -> None:
    """Save the state of a module or optimizer, or a tree of tensors, as a ``.npz`` file, in place of an old one.

    numpy has no bfloat16 and no float8. Such tensors are bytes in the file (dtype ``V2`` or ``V1``, with which numpy
    calculates nothing by mistake), and its entry ``__functorch_port__`` says what they are, so `load_npz` gives them
    back. In numpy: ``array.view(ml_dtypes.bfloat16)``.

    Args:
        path: the file.
        obj: something with a ``state_dict()``, or a tree: dicts, lists and tuples of tensors, arrays, numbers and text.

    Raises:
        TypeError: there is something else in it.
        RuntimeError: the file cannot be written.

    Example:
        >>> import os, tempfile
        >>> import functorch_port as torch
        >>> from functorch_port import interchange
        >>> path = os.path.join(tempfile.mkdtemp(), "x.npz")
        >>> interchange.save_npz(path, {"weight": torch.ones(2), "epoch": 3})
        >>> interchange.load_npz(path)
        {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    write(path, state_of(obj))


def write(path: Any, tree: Any, tick: Any = None) -> None:
    """`save_npz` of a tree; ``tick`` is called for every tensor that was written."""
    tensors, left = take_apart(tree)
    about: dict[str, Any] = {} if left is None else {"tree": left}
    own = {name: t.dtype.name for name, t in tensors.items() if t.dtype.np.isbuiltin != 1}  # none of numpy's
    if own:
        about["dtypes"] = own
    if _ABOUT in tensors:
        raise ValueError(f"no entry may have the name {_ABOUT}: rename it")
    path = os.fspath(path)
    try:
        with atomic(os.path.realpath(path)) as file, zipfile.ZipFile(file, "w") as archive:
            for name, tensor in tensors.items():
                array = array_of(name, tensor)
                if name in own:
                    array = array.view(f"V{array.itemsize}")
                _add(archive, name, array)
                if tick is not None:
                    tick()
            if about:
                _add(archive, _ABOUT, np.array(json.dumps(about)))
    except OSError as error:
        why = error.strerror or str(error)
        raise RuntimeError(f"{path} cannot be written: {why}. What was there before is as it was.") from error


def _add(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
        np.lib.format.write_array(entry, array, allow_pickle=False)


def load_npz(path: str | os.PathLike[str], device: Any = "cpu") -> Any:
    """What `save_npz` saved, or the tensors of another ``.npz`` file.

    Args:
        path: the file.
        device: where tensors go: a device, a `jax.sharding.Sharding`, or a function that gives one of these for a
            tensor's name; ``"meta"`` reads none of their numbers.

    Raises:
        ValueError: it is damaged, or has arrays that are no numbers.
    """
    path = os.fspath(path)
    try:
        with zipfile.ZipFile(path) as archive:
            about = _about(archive, path)
            kinds = about.get("dtypes", {})
            found = {}
            for entry in archive.namelist():
                name = entry.removesuffix(".npy")
                if name != _ABOUT:
                    where = placed(device, name)
                    array = _array(archive, entry, str(where) == "meta")
                    found[name] = _tensor(array, kinds.get(name), where, f"entry {name!r} of {path}")
    except (zipfile.BadZipFile, EOFError) as error:
        raise ValueError(f"{path} is no .npz file, or cut off or damaged ({error})") from None
    return put_together(found, about.get("tree"), path)


def _about(archive: zipfile.ZipFile, path: str) -> dict[str, Any]:
    if f"{_ABOUT}.npy" not in archive.namelist():
        return {}
    try:
        about = json.loads(str(_array(archive, f"{_ABOUT}.npy", False)))
        if type(about) is dict and type(about.get("dtypes", {})) is dict:
            return about
    except (ValueError, RecursionError):
        pass
    raise ValueError(f"entry {_ABOUT!r} of {path} is damaged")


def _array(archive: zipfile.ZipFile, entry: str, only_kind: bool) -> np.ndarray:
    """An array of the file, or one of its shape and dtype. Nothing is allocated for a size that it only claims."""
    of = f"entry {entry!r} of {archive.filename}"
    with archive.open(entry) as file:
        try:
            first = np.lib.format.read_magic(file) == (1, 0)
            header = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
            shape, is_fortran, dtype = header(file)
            kind = virtual(shape, dtype)
        except ValueError as error:
            raise ValueError(f"{of}: {error}") from None
        if dtype.hasobject:
            raise ValueError(f"{of} has Python objects, and making them would run code from the file")
        if only_kind:
            return kind
        data = file.read()
    if len(data) != kind.nbytes:
        raise ValueError(
            f"{of} has {len(data)} bytes, and shape {shape} and dtype {dtype} need {kind.nbytes}"
        )
    return np.frombuffer(data, dtype).reshape(shape, order="F" if is_fortran else "C")


def _tensor(array: np.ndarray, kind: Any, where: Any, of: str) -> Tensor:
    own = dtypes.NAMES.get(kind) if isinstance(kind, str) else None
    if array.dtype.kind == "V" and own is not None and own.itemsize == array.itemsize:
        array = array.view(own.np)
    try:
        dtypes.from_np(array.dtype.newbyteorder("="))
    except TypeError:
        hint = "; array.view(ml_dtypes.bfloat16) may be what it was" if array.dtype == "V2" else ""
        raise ValueError(f"{of} has dtype {array.dtype}, which no tensor can have{hint}") from None
    return tensor_at(array.astype(array.dtype.newbyteorder("="), copy=False), where)
