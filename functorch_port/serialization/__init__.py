"""`save` and `load`: PyTorch's checkpoint files.

A file is a zip archive (`container`) of a pickle (`pickler`, `unpickler`; `tables` resolves its names) and the bytes of
each `Storage`, of which tensors are views (`tensors`). `load` also reads the files of PyTorch before 1.6, which are a
sequence of pickles, and those of this package's first releases.
"""

from __future__ import annotations

import contextlib
import enum
import io
import json
import os
import pickle
import re
import struct
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np

from .._base.atomic import atomic
from .._base.device import device
from .._tensor.untyped import UntypedStorage
from . import _unpickler as unpickler
from ._container import Archive, Source, Writer, aligned
from ._pickler import Pickler, bytes_of
from ._tensors import SWAPPED, Tensors, text_of
from ._unpickler import Safe, globals_in, safe_names, trusting

__all__ = [
    "LoadEndianness",
    "add_safe_globals",
    "clear_safe_globals",
    "get_default_load_endianness",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "safe_globals",
    "save",
    "set_default_load_endianness",
]

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
DEFAULT_PROTOCOL = 2
#: the types of `load`'s ``map_location`` and of files, for annotations
MAP_LOCATION = Callable[[UntypedStorage, str], UntypedStorage] | device | str | dict[str, str] | None
FILE_LIKE = str | os.PathLike[str] | IO[bytes]
_FORMER, _FORMER_VERSION = "functorch_port/", 1
_ZIP = b"PK\3\4"
_SEEKABLE = (
    ". You can only torch.load from a file that is seekable. Please pre-load the data into a buffer like "
    "io.BytesIO and try to load from it instead."
)
_UNSAFE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` "
    "from `False` to `True`. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, "
    "but it can result in arbitrary code execution. Do it only if you got the file from a "
    "trusted source."
)
_DOCS = (
    "\n\nCheck the documentation of torch.load to learn more about types accepted by default with "
    "weights_only https://pytorch.org/docs/stable/generated/torch.load.html."
)


class LoadEndianness(enum.Enum):
    """The byte order to assume for files that do not record theirs."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_endianness: LoadEndianness | None = None


def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order that `load` assumes for files that do not record theirs; None means little-endian.

    Reference:
        https://docs.pytorch.org/docs/stable/notes/serialization.html#torch.serialization.get_default_load_endianness
    """
    return _endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order that `load` assumes for files that do not record theirs.

    Raises:
        TypeError: ``endianness`` is neither a `LoadEndianness` nor None.

    Reference:
        https://docs.pytorch.org/docs/stable/notes/serialization.html#torch.serialization.set_default_load_endianness
    """
    global _endianness
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _endianness = endianness


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allow classes and functions in files that `load` reads with ``weights_only=True``.

    Args:
        safe_globals: classes and functions, or pairs ``(object, full name in the file)``.

    Reference: https://docs.pytorch.org/docs/stable/notes/serialization.html#torch.serialization.add_safe_globals
    """
    unpickler.allowed += [item for item in safe_globals if item not in unpickler.allowed]


def get_safe_globals() -> list[Any]:
    """The classes and functions that `add_safe_globals` allowed."""
    return list(unpickler.allowed)


def clear_safe_globals() -> None:
    """Clear the list of `add_safe_globals`."""
    unpickler.allowed.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """A context manager that applies `add_safe_globals` within a ``with`` block."""
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        unpickler.allowed[:] = [item for item in unpickler.allowed if item not in safe_globals]


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike[str] | IO[bytes]) -> list[str]:
    """List the full names in a file that ``load(weights_only=True)`` would refuse, without running any of it.

    Args:
        f: a path or a file object.

    Raises:
        ValueError: the file is not a checkpoint of `save`, or is a TorchScript archive.

    Example:
        >>> import io
        >>> import functorch_port as torch
        >>> file = io.BytesIO()
        >>> torch.save(torch.nn.Flatten(), file)
        >>> _ = file.seek(0)
        >>> torch.serialization.get_unsafe_globals_in_checkpoint(file)
        ['functorch_port.nn.modules.flatten.Flatten']

    Reference:
        https://docs.pytorch.org/docs/stable/notes/serialization.html#torch.serialization.get_unsafe_globals_in_checkpoint
    """
    with _opened(f) as (file, name):
        if not _is_zipfile(file):
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        archive = Archive(Source(file, name))
        if archive.has("constants.pkl"):
            raise ValueError(
                "Expected input to be a checkpoint returned by torch.save but got a torchscript checkpoint"
            )
        return sorted(globals_in(archive.read("data.pkl")) - safe_names())


# ------------------------------------------------------------------------ saving


def save(
    obj: object,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Save tensors, state dicts or any picklable object to a file that PyTorch can read, too.

    A path is written atomically: even after a crash the file is either the old one or the complete new one.

    Args:
        obj: the object to save.
        f: a path, or a file object opened for writing in binary mode.
        pickle_module: must be ``pickle``.
        pickle_protocol: the pickle protocol; PyTorch reads only 2 with ``weights_only=True``.

    Raises:
        AttributeError: ``f`` is neither a path nor a file object.
        RuntimeError: the directory does not exist, or the file cannot be written.
        NotImplementedError: another ``pickle_module`` is passed.

    Example:
        >>> import io
        >>> import functorch_port as torch
        >>> file = io.BytesIO()
        >>> torch.save({"weight": torch.ones(2)}, file)
        >>> _ = file.seek(0)
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
    if not isinstance(f, str | os.PathLike) and not callable(f.write):
        kind = str(type(f)).strip("<>")
        raise TypeError(f"Buffer of {kind} has no callable attribute 'write'")
    text = io.BytesIO()
    pickler = Pickler(text, pickle_protocol, legacy=not _use_new_zipfile_serialization)
    pickler.dump(obj)

    def write(file: IO[bytes], root: str) -> Iterator[str]:
        if _use_new_zipfile_serialization:
            return _write(Writer(file, root), text, pickler, not _disable_byteorder_record)
        return _write_legacy(file, text, pickler, pickle_protocol)

    if not isinstance(f, str | os.PathLike):
        for _ in write(f, "archive"):
            pass
        f.flush()
        return
    path, entry = os.fspath(f), "data.pkl"
    name = os.path.basename(path).rpartition(".")
    try:
        with atomic(path) as file:
            for entry in write(file, (name[0] or name[2]) if path.isascii() else "archive"):  # noqa: B007
                pass
    except OSError as error:
        why = error.strerror or str(error)
        raise RuntimeError(
            f"PytorchStreamWriter failed writing file {entry} of {path}: {why}. The previous file is unchanged."
        ) from error


def _write(writer: Writer, text: io.BytesIO, pickler: Pickler, say_order: bool) -> Iterator[str]:
    """Write the zip format; yields the name of each entry before writing it."""
    first = {"data.pkl": text.getvalue(), ".format_version": b"1", ".storage_alignment": b"64"}
    if say_order:
        first["byteorder"] = sys.byteorder.encode()
    for name, data in first.items():
        yield name
        writer.add(name, data)
    for key, (cell, _) in pickler.cells.items():
        yield f"data/{key}"
        writer.add(f"data/{key}", bytes_of(cell))
    yield "the directory"
    writer.close()


def _write_legacy(file: IO[bytes], text: io.BytesIO, pickler: Pickler, protocol: int) -> Iterator[str]:
    """Write the format of PyTorch before 1.6; yields as `_write` does."""
    about = {
        "protocol_version": PROTOCOL_VERSION,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    yield "data.pkl"
    for part in (MAGIC_NUMBER, PROTOCOL_VERSION, about):
        file.write(pickle.dumps(part, protocol))
    file.write(text.getvalue())
    keys = sorted(pickler.cells)
    file.write(pickle.dumps(keys, protocol))
    for key in keys:
        yield f"data/{key}"
        cell, dtype = pickler.cells[key]
        data = bytes_of(cell)
        file.write(struct.pack("<q", len(data) // dtype.itemsize))
        file.write(data.data)


# ----------------------------------------------------------------------- loading


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    torch_classes: bool = False,
    **pickle_load_args: Any,
) -> Any:
    """Load a file that `save` or ``torch.save`` wrote.

    Args:
        f: a path, or a seekable file object opened for reading in binary mode; reading starts at its position.
        map_location: where tensors go: a device, a dict from saved to wanted device, a function
            ``(storage on the CPU, saved device) -> storage``, or None to keep the saved device.
        pickle_module: the module whose unpickler is used with ``weights_only=False``.
        weights_only: True (the default) builds only tensors, numbers, strings, plain containers and what
            `add_safe_globals` allows, and runs no code from the file. False unpickles anything: use it for
            trusted files only.
        mmap: whether to map the file into memory, so that bytes are read from disk on first use. ``f`` must be a path.
            Writes to a tensor do not change the file.
        torch_classes: with ``weights_only=False``, whether PyTorch's classes in the file (of whole modules) resolve to
            this package's. They always do in a script that runs through ``functorch-port run``.
        pickle_load_args: keyword arguments for the unpickler, with ``weights_only=False``.

    Raises:
        pickle.UnpicklingError: the file names a class that is not allowed, or `save` did not write it.
        RuntimeError: the file is truncated or damaged, or its device is not available.
        NotImplementedError: the file has tensors of a kind that this package does not support.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.load.html
    """
    trusted = _is_trusted(weights_only, pickle_module)
    if not trusted and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if not trusted:
        unpickler.warn_ignored(pickle_load_args)
    options = {"encoding": "utf-8", **pickle_load_args}
    module = (pickle_module or pickle) if trusted else None
    with _opened(f) as (file, name):
        reader = _Reader(name, map_location, module, torch_classes, options)
        if _is_zipfile(file):
            if mmap and not isinstance(f, str | os.PathLike):
                raise ValueError("f must be a file path in order to use the mmap argument")
            return reader.zip(Source(file, name), bool(mmap))
        if mmap:
            named = f"{f}, " if isinstance(f, str) else ""
            raise RuntimeError(
                f"mmap can only be used with files saved with `torch.save({named}_use_new_zipfile_serialization=True), "
                "please torch.save your checkpoint with this option in order to use mmap."
            )
        return reader.legacy(Source(file, name))


_TRUE = ("1", "y", "yes", "true")


def _is_trusted(weights_only: bool | None, pickle_module: Any) -> bool:
    """Whether the arguments and the environment allow the file to run code."""
    safe = pickle_module is None if weights_only is None else bool(weights_only)
    force = os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0").lower() in _TRUE
    free = os.environ.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0").lower() in _TRUE
    if force and free:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set, but both "
            "were set."
        )
    if free and weights_only is None:
        warnings.warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the`weights_only` argument was not "
            "explicitly passed to `torch.load`, forcing weights_only=False.",
            stacklevel=3,
        )
        safe = False
    return not (safe or force)


@contextlib.contextmanager
def _opened(f: Any) -> Iterator[tuple[IO[bytes], Any]]:
    """Open a path or check a file object; yields the file and its name in errors."""
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            yield file, os.fspath(f)
        return
    try:
        for method in ("seek", "tell"):
            if not hasattr(f, method):
                raise AttributeError(f"{type(f).__name__!r} object has no attribute {method!r}")
        f.seek(f.tell())
    except (io.UnsupportedOperation, AttributeError) as error:
        raise type(error)(f"{error}{_SEEKABLE}") from None
    yield f, getattr(f, "name", "the file")


def _is_zipfile(file: IO[bytes]) -> bool:
    """Whether the zip format begins at the file's position."""
    at = file.tell()
    data = file.read(len(_ZIP))
    file.seek(at)
    return data == _ZIP


class _Reader:
    """Reads one file."""

    def __init__(
        self, name: Any, map_location: Any, module: Any, own_classes: bool, options: dict[str, Any]
    ) -> None:
        self.name, self.map, self.options = name, map_location, options
        self.module, self.own = module, own_classes

    def _pickle(self, file: Any, entry: str, size: int, room: int, tensors: Tensors) -> Any:
        """Read one pickle of a file of ``room`` bytes."""
        if self.module is not None:
            kind = trusting(self.module, tensors, self.own, self.name)
            return kind(file, **self.options).load()
        reader = Safe(file, tensors, size, room, self.options["encoding"])
        at = f"\n\n(In {self.name}, {entry}, after {{}} bytes.)"
        try:
            return reader.load()
        except pickle.UnpicklingError as error:
            raise pickle.UnpicklingError(_told(str(error)) + at.format(reader.read_so_far)) from None
        except (NotImplementedError, EOFError) as error:
            raise type(error)(str(error) + at.format(reader.read_so_far)) from None

    def zip(self, source: Source, mapped: bool) -> Any:
        """Read the zip format, also of this package's first releases."""
        archive = Archive(source)
        if archive.root == _FORMER and archive.has("format.json"):
            return self._former(archive, mapped)
        if archive.has("program.bin"):
            raise RuntimeError(f"{self.name} is an exported program: use torch.export.load")
        if archive.has("constants.pkl"):
            if self.module is None:
                raise RuntimeError(
                    "Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``. "
                    + _UNSAFE
                )
            raise NotImplementedError(
                f"{self.name} is a TorchScript archive, whose code this package cannot run: load it with PyTorch and "
                "save its state_dict()"
            )
        return self._entry(archive, "data", mapped, _is_swapped(archive))

    def _entry(self, archive: Archive, folder: str, mapped: bool, swapped: bool) -> Any:
        is_plain = (
            self.module is None and not unpickler.allowed
        )  # code of a user's class may read values before the threads are done
        read = archive.coming if is_plain else archive.array
        tensors = Tensors(lambda key, count: read(f"{folder}/{key}", count, mapped), self.map, swapped)
        text = archive.array("data.pkl", archive.length("data.pkl"))
        try:
            out = self._pickle(io.BytesIO(text.data), "data.pkl", len(text), archive.source.size, tensors)
            archive.wait()
        finally:
            archive.close()
        tensors.finish()
        return out

    def _former(self, archive: Archive, mapped: bool) -> Any:
        about = json.loads(archive.read("format.json"))
        version, order = about.get("format"), about.get("byteorder")
        if version != _FORMER_VERSION or order not in ("little", "big"):
            raise NotImplementedError(
                f"{self.name} has format {version}, {order}-endian, written by {about.get('written by')}; only format "
                f"{_FORMER_VERSION} can be read"
            )
        return self._entry(archive, "storages", mapped, order == SWAPPED)

    def legacy(self, source: Source) -> Any:
        """Read the format of PyTorch before 1.6: a sequence of pickles, then the bytes of the storages."""
        file = source.file
        if not source.size:
            raise EOFError(f"Ran out of input: {self.name} is empty")
        if source.size > 262 and source.read(257, 5) == b"ustar":
            raise NotImplementedError(
                f"{self.name} has the .tar format of PyTorch 0.1, which is not supported: load it with PyTorch "
                "(weights_only=False) and save it again"
            )
        file.seek(source.start)
        counted = _Counted(source)
        sizes: dict[str, np.ndarray] = {}

        def reserve(key: str, count: int) -> np.ndarray:
            counted.reserve(count)
            sizes[key] = aligned(count)
            return sizes[key]

        # in this format storages are always little-endian
        tensors = Tensors(reserve, self.map, sys.byteorder == "big")

        def following(what: str) -> Any:
            return self._pickle(file, what, counted.left(), source.size, tensors)

        if following("its first pickle") != MAGIC_NUMBER:
            raise RuntimeError(f"Invalid magic number; corrupt file? ({self.name})")
        version = following("its second pickle")
        if version != PROTOCOL_VERSION:
            raise RuntimeError(f"Invalid protocol version: {str(version)[:80]} ({self.name})")
        following("its third pickle")
        out = following("its objects")
        keys = following("its list of storages")
        keys = list(map(text_of, keys)) if type(keys) is list else keys  # bytes, if they are to stay so
        if type(keys) is not list or {*map(type, keys)} - {str} or sorted(keys) != sorted(tensors.keys()):
            raise RuntimeError(f"{self.name} lists other storages than its objects refer to; corrupt file?")
        for key in keys:
            self._fill(source, key, sizes.get(key), tensors)
        tensors.finish()
        return out

    def _fill(self, source: Source, key: str, data: np.ndarray | None, tensors: Tensors) -> None:
        head = np.empty(8, np.uint8)
        source.take(head)
        (count,) = struct.unpack("<q", head.tobytes())
        cell = tensors.cells[key]
        expected = cell.nbytes // cell.unit
        if count != expected:
            raise RuntimeError(
                f"storage has wrong byte size: expected {expected} elements got {count} (storage {key} of {self.name})"
            )
        if data is None:  # a meta location
            source.file.seek(cell.nbytes, os.SEEK_CUR)
        else:
            source.take(data)


class _Counted:
    """Checks that the storages of a file claim no more bytes than the file has."""

    def __init__(self, source: Source) -> None:
        self._source, self._reserved = source, 0

    def left(self) -> int:
        return self._source.size - (self._source.file.tell() - self._source.start)

    def reserve(self, count: int) -> None:
        self._reserved += count
        if self._reserved > self._source.size:
            raise RuntimeError(
                f"{self._source.name} is cut off or damaged: its storages claim more bytes than it has"
            )


def _is_swapped(archive: Archive) -> bool:
    """Whether the file's byte order differs from this machine's."""
    if archive.has("byteorder"):
        order = archive.read("byteorder")
        if order not in (b"little", b"big"):
            raise ValueError("Unknown endianness type: " + order[:80].decode("utf-8", "replace"))
        return order.decode() == SWAPPED
    if _endianness is LoadEndianness.NATIVE:
        return False
    return ("big" if _endianness is LoadEndianness.BIG else "little") == SWAPPED


def _told(message: str) -> str:
    """PyTorch's error text around ``message``, for a file that ``weights_only=True`` refuses."""
    start = "Weights only load failed. "
    if re.search(r"GLOBAL (\S+) was not an allowed global by default.", message):
        return (
            f"{start}This file can still be loaded, to do so you have two options, "
            "\033[1mdo those steps only if you trust the source of the checkpoint\033[0m. "
            f"\n\t(1) {_UNSAFE}\n\t(2) Alternatively, to load with `weights_only=True` please check the recommended "
            f"steps in the following error message.\n\tWeightsUnpickler error: {message}{_DOCS}"
        )
    told = f"{start}{_UNSAFE}\n"
    if not re.search(r"whose module (\S+) is blocked", message):
        told += (
            "Please file an issue with the following so that we can make `weights_only=True` compatible with your use "
            "case: WeightsUnpickler error: "
        )
    return f"{told}\n\n{message}{_DOCS}"
