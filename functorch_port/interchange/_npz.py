"""numpy's ``.npz`` files."""

from __future__ import annotations

import json
import os
import zipfile
from typing import IO, Any

import numpy as np

from .._base import dtypes
from .._base.atomic import atomic
from .._tensor.tensor import Tensor
from ..serialization._tensors import placed, tensor_at
from ._tree import array_of, put_together, state_of, take_apart, virtual

__all__ = ["header", "load_npz", "save_npz"]

_ABOUT = "__functorch_port__"


def save_npz(path: str | os.PathLike[str], obj: Any) -> None:
    """Save the state of a module or optimizer, or a tree of tensors, as a ``.npz`` file, atomically.

    numpy has no bfloat16 and no float8. The file stores such tensors as bytes (dtype ``V2`` or ``V1``, which numpy
    refuses to compute with) and their dtypes in its entry ``__functorch_port__``, from which `load_npz` restores them.
    In numpy, use ``array.view(ml_dtypes.bfloat16)``.

    Args:
        path: the file.
        obj: an object with a ``state_dict()``, or a tree: dicts, lists and tuples of tensors, arrays, numbers, strings.

    Raises:
        TypeError: ``obj`` has a value of another type.
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
    """`save_npz` of a tree; calls ``tick`` after each tensor."""
    tensors, left = take_apart(tree)
    about: dict[str, Any] = {} if left is None else {"tree": left}
    own = {name: t.dtype.name for name, t in tensors.items() if t.dtype.np.isbuiltin != 1}  # numpy lacks them
    if own:
        about["dtypes"] = own
    if _ABOUT in tensors:
        raise ValueError(f"the entry name {_ABOUT} is reserved: rename the entry")
    path = os.fspath(path)
    try:
        with atomic(path) as file, zipfile.ZipFile(file, "w") as archive:
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
        raise RuntimeError(f"{path} cannot be written: {why}. The previous file is unchanged.") from error


def _add(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
        np.lib.format.write_array(entry, array, allow_pickle=False)


def load_npz(path: str | os.PathLike[str], device: Any = "cpu") -> Any:
    """Load a file of `save_npz`, or the tensors of another ``.npz`` file.

    Args:
        path: the file.
        device: where tensors go: a device, a `jax.sharding.Sharding`, or a function from a tensor's name to one of
            these; ``"meta"`` does not read their values.

    Raises:
        ValueError: the file is damaged, or has arrays of a dtype that tensors do not have.
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
        raise ValueError(f"{path} is not an .npz file, or it is cut off or damaged ({error})") from None
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


def header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Of an .npy file: the shape, whether it is in Fortran order, and the dtype. The data come after it."""
    first = np.lib.format.read_magic(file) == (1, 0)
    return (np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0)(file)


def _array(archive: zipfile.ZipFile, entry: str, only_kind: bool) -> np.ndarray:
    """An array of the file; with ``only_kind``, one of its shape and dtype that takes no memory."""
    of = f"entry {entry!r} of {archive.filename}"
    with archive.open(entry) as file:
        try:
            shape, is_fortran, dtype = header(file)
            kind = virtual(shape, dtype)
        except ValueError as error:
            raise ValueError(f"{of}: {error}") from None
        if dtype.hasobject:
            raise ValueError(f"{of} has Python objects, and loading them would run code from the file")
        if only_kind:
            return kind
        data = file.read()
    if len(data) != kind.nbytes:
        raise ValueError(
            f"{of} has {len(data)} bytes, but shape {shape} and dtype {dtype} need {kind.nbytes}"
        )
    return np.frombuffer(data, dtype).reshape(shape, order="F" if is_fortran else "C")


def _tensor(array: np.ndarray, kind: Any, where: Any, of: str) -> Tensor:
    own = dtypes.NAMES.get(kind) if isinstance(kind, str) else None
    if array.dtype.kind == "V" and own is not None and own.itemsize == array.itemsize:
        array = array.view(own.np)
    try:
        dtypes.from_np(array.dtype.newbyteorder("="))
    except TypeError:
        hint = "; it may be bfloat16: array.view(ml_dtypes.bfloat16)" if array.dtype == "V2" else ""
        raise ValueError(f"{of} has dtype {array.dtype}, which tensors do not support{hint}") from None
    return tensor_at(array.astype(array.dtype.newbyteorder("="), copy=False), where)
