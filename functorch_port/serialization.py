"""`save` and `load`: a zip file with a pickled skeleton and one raw buffer per `Storage`.

The skeleton names tensors, dtypes, devices and sizes by functions of this file only, so that loading can go
by a short list of what may be called, and files outlive changes inside the package. Tensors that share a
Storage share it again.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import pickle
import sys
import uuid
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import IO, Any

import jax
import numpy as np

from functorch_port.core import dtypes, storage
from functorch_port.core import tensor as core
from functorch_port.core.device import device, from_jax, to_jax
from functorch_port.core.size import Size
from functorch_port.core.sparse import SparseTensor
from functorch_port.core.storage import Storage
from functorch_port.core.tensor import Tensor
from functorch_port.version import __version__

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

_ROOT = "functorch_port/"
_FORMAT = 1
_SEEKABLE = (
    ". You can only torch.load from a file that is seekable. Please pre-load the data into a buffer like "
    "io.BytesIO and try to load from it instead."
)


# What the skeleton calls. These names are part of the file format.


def _tensor(kind: str, cell: Storage, view: Any, requires_grad: bool, extra: dict[str, Any]) -> Tensor:
    public = {name: value for name, value in extra.items() if not name.startswith("_")}
    return core._rebuild(_tensor_classes()[kind], cell, view, requires_grad, public)


def _sparse(indices: Tensor, values: Tensor, size: tuple[int, ...], coalesced: bool) -> Tensor:
    return SparseTensor._make(indices, values, size, coalesced)


def _uninitialized(kind: str, *args: Any) -> Tensor:
    return _uninitialized_classes()[kind](*args)


def _dtype(name: str) -> dtypes.dtype:
    return dtypes.from_name(name)


def _device(*where: Any) -> device:
    return device(*where)


def _size(sizes: tuple[int, ...]) -> Size:
    return Size(sizes)


def _tensor_classes() -> dict[str, type[Tensor]]:
    from functorch_port.nn.parameter import Buffer, Parameter

    return {"tensor": Tensor, "parameter": Parameter, "buffer": Buffer}  # type: ignore[dict-item]


def _uninitialized_classes() -> dict[str, type[Tensor]]:
    from functorch_port.nn.parameter import UninitializedBuffer, UninitializedParameter

    return {"parameter": UninitializedParameter, "buffer": UninitializedBuffer}


_CALLABLE = {
    **{(__name__, f.__name__): f for f in (_tensor, _sparse, _uninitialized, _dtype, _device, _size)},
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): Counter,
    **{("builtins", kind.__name__): kind for kind in (set, frozenset, complex, bytearray)},
}
_user_globals: dict[tuple[str, str], Any] = {}


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allow these classes and functions in files that `load` reads with ``weights_only=True``.

    Args:
        safe_globals: classes or functions, or pairs of one and its full name in the file.

    Reference:
        https://docs.pytorch.org/docs/stable/notes/serialization.html#torch.serialization.add_safe_globals
    """
    for item in safe_globals:
        target, name = item if isinstance(item, tuple) else (item, f"{item.__module__}.{item.__qualname__}")
        module, _, attribute = name.rpartition(".")
        _user_globals[module, attribute] = target


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` has allowed."""
    return list(_user_globals.values())


def clear_safe_globals() -> None:
    """Forget everything that `add_safe_globals` allowed."""
    _user_globals.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """`add_safe_globals` for the length of a ``with`` block."""
    before = dict(_user_globals)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _user_globals.clear()
        _user_globals.update(before)


# Saving.


class _Pickler(pickle.Pickler):
    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol=protocol)
        self.cells: dict[int, tuple[str, Storage]] = {}
        self.kinds = {cls: kind for kind, cls in _tensor_classes().items()}
        self.uninitialized = {cls: kind for kind, cls in _uninitialized_classes().items()}

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, Storage):
            return None
        key, _ = self.cells.setdefault(id(obj), (str(len(self.cells)), obj))
        value = obj.value
        if isinstance(value, jax.core.Tracer):
            raise RuntimeError("save() needs values that are not known while a function is being compiled")
        return ("storage", key, dtypes.from_np(value.dtype).name, tuple(value.shape), _location(value))

    def reducer_override(self, obj: Any) -> Any:
        cls = type(obj)
        if cls in self.kinds:
            _, (_, *parts) = obj.__reduce_ex__(4)
            return _tensor, (self.kinds[cls], *parts)
        if cls in self.uninitialized:
            return _uninitialized, (self.uninitialized[cls], *obj.__reduce_ex__(4)[1])
        if cls is SparseTensor:
            return _sparse, obj.__reduce_ex__(4)[1]
        if cls is dtypes.dtype:
            return _dtype, (obj.name,)
        if cls is device:
            return _device, ((obj.type,) if obj.index is None else (obj.type, obj.index))
        if cls is Size:
            return _size, (tuple(obj),)
        return NotImplemented


def _location(value: Any) -> str:
    if isinstance(value, jax.ShapeDtypeStruct):
        return "meta"
    if not value.is_fully_addressable:
        raise RuntimeError("save() cannot gather an array that is spread over several processes")
    return str(from_jax(next(iter(value.devices()))))


def save(
    obj: object,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = pickle,
    pickle_protocol: int = 4,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Save tensors, state dicts or any picklable object to a file.

    A path is written atomically: the file is either the old one or the whole new one. The format is this
    package's own, so PyTorch cannot read it.

    Args:
        obj: what to save.
        f: a path, or a file object opened for writing in binary mode.
        pickle_module: accepted for PyTorch's signature; must be ``pickle``.
        pickle_protocol: at least 4 is used.

    Raises:
        AttributeError: ``f`` is neither.
        RuntimeError: the directory does not exist.

    Example:
        >>> import io
        >>> import functorch_port as torch
        >>> file = io.BytesIO()
        >>> torch.save({"weight": torch.ones(2)}, file)
        >>> torch.load(file)
        {'weight': tensor([1., 1.])}

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.save.html
    """
    if pickle_module is not pickle:
        raise NotImplementedError("save(pickle_module=...): only the standard pickle module is supported")
    if not isinstance(f, str | os.PathLike) and not hasattr(f, "write"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
        )
    protocol = max(4, pickle_protocol)
    if not isinstance(f, str | os.PathLike):
        _write(obj, f, protocol)
        return
    with _atomic(os.path.realpath(f)) as file:
        _write(obj, file, protocol)


@contextlib.contextmanager
def _atomic(path: str) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of ``path`` at the end, or leaves it alone after an error."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    if os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe cannot be replaced
        with open(path, "wb") as file:
            yield file
        return
    temporary = os.path.join(folder, f".{os.path.basename(path)}.{uuid.uuid4().hex}")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(path):
            os.chmod(temporary, os.stat(path).st_mode & 0o777)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _write(obj: object, file: IO[bytes], protocol: int) -> None:
    skeleton = io.BytesIO()
    pickler = _Pickler(skeleton, protocol)
    pickler.dump(obj)
    about = {"format": _FORMAT, "byteorder": sys.byteorder, "written by": f"functorch_port {__version__}"}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_ROOT + "format.json", json.dumps(about))
        archive.writestr(_ROOT + "data.pkl", skeleton.getvalue())
        for key, cell in pickler.cells.values():
            if isinstance(cell.value, jax.ShapeDtypeStruct):
                continue
            array = np.ascontiguousarray(np.asarray(cell.value))
            with archive.open(f"{_ROOT}storages/{key}", "w", force_zip64=array.nbytes > 1 << 30) as entry:
                entry.write(array.reshape(-1).view(np.uint8).data)


# Loading.


class _Unpickler(pickle.Unpickler):
    """Rebuilds any class, as ``weights_only=False`` allows."""

    def __init__(self, file: IO[bytes], cell: Callable[..., Storage], **options: Any) -> None:
        super().__init__(file, **options)
        self._cell = functools.cache(cell)

    def persistent_load(self, pid: Any) -> Storage:
        if not isinstance(pid, tuple) or len(pid) != 5 or pid[0] != "storage":
            raise pickle.UnpicklingError(f"unknown reference {pid!r} in the file")
        return self._cell(*pid[1:])


def _calling(function: Callable[..., Any]) -> Callable[..., Any]:
    """A throw-away function in place of one on the list, whose attributes a file could set otherwise."""
    return lambda *args: function(*args)


class _SafeUnpickler(_Unpickler):
    """Calls nothing but what is on the list, so a file cannot run code of its own."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _user_globals:
            return _user_globals[module, name]
        if (module, name) in _CALLABLE:
            return _calling(_CALLABLE[module, name])
        full = f"{module}.{name}"
        raise pickle.UnpicklingError(
            "Weights only load failed. This file can still be loaded, to do so you have two options, do "
            "those steps only if you trust the source of the checkpoint.\n"
            "\t(1) load it with `weights_only=False`, which can run any code that the file names.\n"
            f"\t(2) allow what it names: Unsupported global: GLOBAL {full} was not an allowed global by "
            f"default. Please use `torch.serialization.add_safe_globals([{name}])` or the "
            f"`torch.serialization.safe_globals([{name}])` context manager to allowlist this global if you "
            "trust this class/function."
        )


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Load what `save` wrote.

    Args:
        f: a path, or a seekable file object opened for reading in binary mode.
        map_location: where tensors go: a device, a dict from saved to wanted device, or a function of the
            Storage (on the CPU) and its saved device that returns a Storage, or None to keep the saved
            device.
        pickle_module: accepted for PyTorch's signature; must be ``pickle``.
        weights_only: True (the default) builds tensors, numbers, text and plain containers and what
            `add_safe_globals` names, and runs no code from the file. False unpickles anything: for trusted
            files only.
        mmap: accepted; buffers are read into memory.
        pickle_load_args: for the unpickler, with ``weights_only=False``.

    Raises:
        pickle.UnpicklingError: the file names a class that is not allowed, or is not one of `save`'s.
        RuntimeError: the file is cut off or damaged, or its device is not here.
        NotImplementedError: the file is PyTorch's.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.load.html
    """
    if pickle_module is not None and weights_only:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if pickle_module not in (None, pickle):
        raise NotImplementedError("load(pickle_module=...): only the standard pickle module is supported")
    safe = weights_only is not False and pickle_module is None
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            return _read(file, os.fspath(f), map_location, safe, pickle_load_args)
    for method in ("seek", "read", "tell"):
        if not hasattr(f, method):
            raise AttributeError(f"{type(f).__name__!r} object has no attribute {method!r}{_SEEKABLE}")
    f.seek(0)
    return _read(f, getattr(f, "name", "the file"), map_location, safe, pickle_load_args)


def _read(file: IO[bytes], name: Any, map_location: Any, safe: bool, options: dict[str, Any]) -> Any:
    place = _placement(map_location)
    with _archive(file, name) as archive:
        about = json.loads(archive.read(_ROOT + "format.json"))
        if about["format"] > _FORMAT or about["byteorder"] != sys.byteorder:
            raise NotImplementedError(
                f"{name} has format {about['format']}, {about['byteorder']}-endian, written by "
                f"{about['written by']}; this is functorch_port {__version__} on a {sys.byteorder}-endian "
                f"machine, which reads formats up to {_FORMAT}"
            )

        def cell(key: str, dtype: str, shape: tuple[int, ...], location: str) -> Storage:
            kind = dtypes.from_name(dtype).np
            if location == "meta":
                return Storage(jax.ShapeDtypeStruct(shape, kind))
            array = np.frombuffer(archive.read(f"{_ROOT}storages/{key}"), dtype=kind)
            return place(array.reshape(shape), location)

        unpickler = (_SafeUnpickler if safe else _Unpickler)(
            io.BytesIO(archive.read(_ROOT + "data.pkl")), cell, **({} if safe else options)
        )
        return unpickler.load()


@contextlib.contextmanager
def _archive(file: IO[bytes], name: Any) -> Iterator[zipfile.ZipFile]:
    """The opened zip, with errors that say what is wrong with a file that is not a whole one of ours."""
    start = file.read(4)
    if not start:
        raise EOFError(f"Ran out of input: {name} is empty")
    if start[:2] != b"PK":
        raise pickle.UnpicklingError(
            f"{name} was not written by functorch_port.save: it starts with {start!r}"
        )
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise RuntimeError(
            f"failed reading {name}: failed finding central directory ({error}). The file is cut off or "
            "damaged."
        ) from None
    with archive:
        members = archive.namelist()
        if _ROOT + "format.json" not in members:
            raise _foreign(name, members)
        try:
            yield archive
        except (zipfile.BadZipFile, KeyError) as error:
            raise RuntimeError(f"failed reading {name}: {error}. The file is damaged.") from error


def _foreign(name: Any, members: list[str]) -> Exception:
    if any(member.endswith("/data.pkl") for member in members):
        return NotImplementedError(
            f"{name} is a file of PyTorch's own torch.save, which functorch_port.load does not read yet. "
            "Where PyTorch is installed, write the tensors with "
            "numpy.savez(path, **{k: v.numpy() for k, v in state_dict.items()}), and pass "
            "{k: functorch_port.from_numpy(v) for k, v in numpy.load(path).items()} to load_state_dict."
        )
    return pickle.UnpicklingError(f"{name} is a zip file, but not one written by functorch_port.save")


def _placement(map_location: Any) -> Callable[[np.ndarray, str], Storage]:
    """How a saved buffer becomes a Storage, from what the caller asked for."""
    if map_location is None:
        return _put
    if isinstance(map_location, str | device):
        return lambda array, location: _put(array, str(map_location))
    if isinstance(map_location, dict):
        return lambda array, location: _put(array, str(map_location.get(location, location)))

    def place(array: np.ndarray, location: str) -> Storage:
        chosen = map_location(_put(array, "cpu"), location)
        return _put(array, location) if chosen is None else chosen

    return place


def _put(array: np.ndarray, location: str) -> Storage:
    where = device(location)
    if where.type == "meta":
        return Storage(jax.ShapeDtypeStruct(array.shape, array.dtype))
    try:
        target = to_jax(where)
    except RuntimeError as error:
        kind = where.type.upper()
        raise RuntimeError(
            f"Attempting to deserialize object on a {kind} device but torch.{where.type}.is_available() is "
            "False. If you are running on a CPU-only machine, please use torch.load with "
            "map_location=torch.device('cpu') to map your storages to the CPU."
        ) from error
    with storage.x64():
        return Storage(jax.device_put(array, target))
