"""The API of ``safetensors.torch`` for tensors of this package, built on the library ``safetensors``.

`save_file`, `load_file`, `save`, `load`, `save_model`, `load_model` and `safe_open` have the library's signatures and
read and write the same files. Beyond the library, tensors load straight to a device or a `jax.sharding.Sharding`, files
are replaced atomically, `load_folder` and `load_checkpoint` read the sharded checkpoints of Hugging Face's libraries,
and a module that a file does not fit is left unchanged. In a script that runs through ``functorch-port run``,
``from safetensors.torch import ...`` and ``from safetensors import safe_open`` resolve to these.

The library is an optional dependency: ``pip install 'functorch-port[safetensors]'``.

Reference: https://huggingface.co/docs/safetensors
"""

from __future__ import annotations

import builtins
import difflib
import glob
import importlib.util
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import IO, Any

import numpy as np

from ._base import dtypes
from ._base.atomic import atomic
from ._base.device import as_device
from ._base.optional import optional
from ._tensor.creation import empty
from ._tensor.tensor import Tensor, wrap
from .nn._state_dict import all_or_nothing
from .serialization._tensors import placed, tensor_at

__all__ = [
    "SafetensorError",
    "load",
    "load_checkpoint",
    "load_file",
    "load_folder",
    "load_model",
    "safe_open",
    "save",
    "save_file",
    "save_model",
]

_library = optional("safetensors", "functorch_port.safetensors", "safetensors")
_their_open = _library.safe_open  # before the launcher replaces it
SafetensorError = _library.SafetensorError

#: name of a dtype in the files -> dtype
_DTYPES = {
    "F64": dtypes.float64, "F32": dtypes.float32, "F16": dtypes.float16, "BF16": dtypes.bfloat16,
    "F8_E4M3": dtypes.float8_e4m3fn, "F8_E5M2": dtypes.float8_e5m2, "C64": dtypes.complex64, "I64": dtypes.int64,
    "I32": dtypes.int32, "I16": dtypes.int16, "I8": dtypes.int8, "U64": dtypes.uint64, "U32": dtypes.uint32,
    "U16": dtypes.uint16, "U8": dtypes.uint8, "BOOL": dtypes.bool_,
}  # fmt: skip
_INDEX = "*.safetensors.index.json"
Path = str | os.PathLike[str]


# ----------------------------------------------------------------------- reading


def _numpy_dtype(name: str, of: str) -> np.dtype:
    if name not in _DTYPES:
        raise NotImplementedError(
            f"{of} has dtype {name}, which JAX or this package does not support: read it with PyTorch and save it in "
            "another dtype"
        )
    return _DTYPES[name].np


class _Slice:
    """A tensor of a file; indexing reads only the selected part."""

    def __init__(self, dtype: str, shape: list[int], opened: _Opened, at: int, of: str, where: Any) -> None:
        self._dtype, self._shape, self._opened, self._at = dtype, shape, opened, at
        self._of, self._where = of, where

    def get_shape(self) -> list[int]:
        """The shape of the whole tensor."""
        return list(self._shape)

    def get_dtype(self) -> str:
        """The dtype as the file names it: "F32", "BF16"."""
        return self._dtype

    def _array(self) -> np.ndarray:
        """The tensor in the file, memory-mapped."""
        kind, file = _numpy_dtype(self._dtype, self._of), self._opened.file()
        if 0 in self._shape:
            return np.empty(self._shape, kind)
        return np.memmap(file, kind, "r", self._at, tuple(self._shape))

    def whole(self) -> Tensor:
        """The whole tensor."""
        return tensor_at(self._array(), self._where)

    def __getitem__(self, index: Any) -> Tensor:
        array = self._array()
        parts = index if isinstance(index, tuple) else (index,)
        simple = all(type(p) in (int, slice, type(None), type(...)) for p in parts) and parts.count(...) <= 1
        if not simple:
            return self.whole()[index]
        empty(self._shape, device="meta")[index]  # raises PyTorch's errors for the index
        return tensor_at(np.asarray(array[index]), self._where)


class _Opened:
    """An open safetensors file; see `safe_open`."""

    _file: Any = None

    def __init__(self, filename: Path, device: Any, backend: str) -> None:
        self._name = os.fspath(filename)
        self._device = _checked(device)
        self._file = open(filename, "rb")  # noqa: SIM115
        with _named(self._name):
            opened = _their_open(filename, "np", backend=backend)
        if not os.path.samestat(os.fstat(self._file.fileno()), os.stat(filename)):
            raise SafetensorError(f"{self._name} was replaced while it was being opened: open it again")
        with opened as file:  # the library has checked the header and the file's size
            self._metadata = file.metadata()
            self._order = file.offset_keys()
            slices = [file.get_slice(name) for name in self._order]
        at = 8 + int.from_bytes(self._file.read(8), "little")
        self._tensors: dict[str, tuple[Any, int]] | None = {}
        for name, part in zip(self._order, slices, strict=True):
            self._tensors[name] = part, at
            at += _size(part.get_dtype(), part.get_shape(), self._said(name))

    def _said(self, name: str) -> str:
        return f"entry {name!r} of {self._name}"

    def file(self) -> Any:
        """The file object.

        Raises:
            SafetensorError: the file is closed.
        """
        self._open()
        return self._file

    def _open(self) -> dict[str, tuple[Any, int]]:
        if self._tensors is None:
            raise SafetensorError("File is closed")
        return self._tensors

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *exc: object) -> None:
        self._tensors = None
        self._file.close()

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def keys(self) -> list[str]:
        """The names of the tensors, in alphabetical order."""
        return sorted(self._open())

    def offset_keys(self) -> list[str]:
        """The names of the tensors in the order of their offsets."""
        return list(self._open())

    def metadata(self) -> dict[str, str] | None:
        """The ``metadata`` that the file was written with."""
        self._open()
        return self._metadata

    def get_slice(self, name: str) -> _Slice:
        """A tensor that is read when it is indexed.

        Raises:
            SafetensorError: the file has no such tensor.
        """
        found = self._open().get(name)
        if found is None:
            raise SafetensorError(
                f"File does not contain tensor {name} ({self._name}{_close(name, self._order)})"
            )
        part, at = found
        where = placed(self._device, name)
        return _Slice(part.get_dtype(), part.get_shape(), self, at, self._said(name), where)

    def get_tensor(self, name: str) -> Tensor:
        """Read a tensor.

        Raises:
            SafetensorError: the file has no such tensor.
            NotImplementedError: its dtype is not supported.
        """
        return self.get_slice(name).whole()

    def get_tensors(self) -> dict[str, Tensor]:
        """Read all tensors."""
        return {name: self.get_tensor(name) for name in self.offset_keys()}


def _size(dtype: str, shape: list[int], of: str) -> int:
    """The number of bytes of a tensor; the name of its dtype says the bits of an element, as in F8_E4M3."""
    bits = re.match(r"[A-Z]+(\d+)", dtype)
    width = 8 if dtype == "BOOL" else int(bits[1]) if bits else 0
    if not width:
        raise NotImplementedError(f"{of} has dtype {dtype}, whose size is not known")
    return int(np.prod(shape, dtype=object)) * width // 8


def _close(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(names), n=3)
    return f"; close: {', '.join(close)}" if close else ""


@contextmanager
def _named(filename: Any) -> Iterator[None]:
    """Add the file's name to the library's errors."""
    try:
        yield
    except SafetensorError as error:
        if str(filename) in str(error):
            raise
        damaged = " is cut off or damaged" if "deserializing" in str(error) else ""
        raise SafetensorError(f"{error} ({filename}{damaged})") from None


def _checked(where: Any) -> Any:
    """Where tensors go; a str or int must be a device."""
    if not isinstance(where, str | int):
        return where
    try:
        return as_device(where)
    except (RuntimeError, TypeError):
        raise SafetensorError(f"device {where} is invalid") from None


class safe_open:
    """Opens a safetensors file to read its tensors one by one.

    Args:
        filename: the file.
        framework: ``"pt"`` for tensors of this package; the library handles the others.
        device: where tensors go: a device, a `jax.sharding.Sharding` (each device reads only its shard), or a function
            from a tensor's name to one of these.
        backend: passed to the library, which checks the file.

    Raises:
        FileNotFoundError: there is no such file.
        SafetensorError: the file is truncated or damaged.

    Example:
        >>> import os, tempfile
        >>> import functorch_port as torch
        >>> from functorch_port.safetensors import safe_open, save_file
        >>> path = os.path.join(tempfile.mkdtemp(), "x.safetensors")
        >>> save_file({"x": torch.arange(6).reshape(2, 3)}, path)
        >>> with safe_open(path, framework="pt") as file:
        ...     file.get_slice("x")[:, 1:]
        tensor([[1, 2],
                [4, 5]])

    Reference: https://huggingface.co/docs/safetensors/api/torch
    """

    def __new__(cls, filename: Path, framework: str, device: Any = "cpu", *, backend: str = "mmap") -> Any:
        if framework in ("pt", "torch", "pytorch"):
            return _Opened(filename, device, backend)
        return _their_open(filename, framework, device, backend=backend)


# ------------------------------------------------------- the library's functions


def _torch_module() -> ModuleType:
    """The library's own module for PyTorch, in which ``import torch`` imports this package.

    So the checks, the error texts and the choice among tied weights are the library's.
    """

    def ours(name: str, *rest: Any) -> Any:
        return sys.modules[__package__] if name == "torch" else __import__(name, *rest)

    path = os.path.join(os.path.dirname(_library.__file__), "torch.py")
    spec = importlib.util.spec_from_file_location("safetensors.torch", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": ours}
    spec.loader.exec_module(module)
    return module


_theirs = _torch_module()
_their_check = _theirs._evaluate_tensors_for_save
_their_removal = _theirs._remove_duplicate_names


def _check_saved(tensors: Any) -> None:
    _their_check(tensors)
    for name, tensor in tensors.items():
        if tensor.dtype not in _theirs._SIZE:
            raise KeyError(
                f"entry {name!r} has dtype {tensor.dtype}, which safetensors does not have; cast it, or save its real "
                "and imaginary parts"
            )


def _remove_duplicate_names(state_dict: Mapping[str, Tensor], **options: Any) -> Any:
    """The library's, which refuses parts of a memory. Here those that make up the whole of one are no duplicates."""
    parts: dict[Any, list[tuple[int, int, str]]] = {}
    for name, tensor in state_dict.items():
        if tensor._base is not None and tensor.is_contiguous() and not tensor._sparse:
            start = tensor.storage_offset()
            parts.setdefault(tensor._storage, []).append((start, start + tensor.numel(), name))
    apart: set[str] = set()
    for storage, places in parts.items():
        edges = [edge for start, stop, _ in sorted(places) for edge in (start, stop)]
        if edges[0] == 0 and edges[1:-1:2] == edges[2::2] and edges[-1] == math.prod(storage.aval().shape):
            apart |= {name for *_, name in places}
    return _their_removal({n: t for n, t in state_dict.items() if n not in apart}, **options)


def _bytes_of(tensor: Tensor) -> tuple[np.ndarray, Any]:
    """The bytes of a contiguous tensor, and the object that keeps them alive."""
    data = np.ascontiguousarray(np.asarray(tensor.detach().cpu()._value)).reshape(-1).view(np.uint8)
    return data, data


def _write(tensors: Any, filename: Path, metadata: dict[str, str] | None = None) -> None:
    """Write a file atomically."""
    with _written(filename) as file:
        _library.serialize_file(tensors, file.name, metadata=metadata)
        with open(file.name, "rb") as written:  # the library has replaced the file
            os.chmod(file.name, os.fstat(file.fileno()).st_mode & 0o777)
            os.fsync(written.fileno())


@contextmanager
def _written(filename: Path) -> Iterator[IO[bytes]]:
    """A file to write atomically."""
    path = os.fspath(filename)
    try:
        with atomic(path) as file:
            yield file
    except (OSError, RuntimeError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SafetensorError(
            f"Error while serializing: {why} ({path}; the previous file is unchanged)"
        ) from error


def write_parts(
    filename: Path,
    kinds: Mapping[str, tuple[tuple[int, ...], dtypes.dtype]],
    read: Callable[[str], np.ndarray],
    metadata: dict[str, str],
) -> None:
    """Write a file atomically, tensor by tensor: there is never more than one of them in memory.

    Args:
        filename: the file.
        kinds: shape and dtype of each tensor.
        read: gives the values of a tensor.
        metadata: strings to store beside the tensors.

    Raises:
        KeyError: safetensors does not support the dtype of a tensor.
        SafetensorError: the file cannot be written.
    """
    names = {dtype: name for name, dtype in _DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    at = 0
    # as the library has them: each begins at a multiple of the size of its elements
    order = sorted(kinds, key=lambda name: (-kinds[name][1].itemsize, name))
    for name in order:
        shape, dtype = kinds[name]
        if dtype not in names:
            raise KeyError(f"entry {name!r} has dtype {dtype}, which safetensors does not have")
        end = at + int(np.prod(shape, dtype=object)) * dtype.itemsize
        header[name] = {"dtype": names[dtype], "shape": [*shape], "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with _written(filename) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            if 0 not in kinds[name][0]:
                file.write(np.ascontiguousarray(read(name)).reshape(-1).view(np.uint8).data)


def mapped(filename: Path) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a file; the values stay there until they are read."""
    with _Opened(filename, "cpu", "mmap") as opened:
        for name in opened.offset_keys():
            yield name, wrap(np.asarray(opened.get_slice(name)._array()))


def _tensors_of(view: Any) -> dict[str, Tensor]:
    tensors = {}
    for name, entry in view:
        kind = _numpy_dtype(entry["dtype"], f"entry {name!r}")
        tensors[name] = tensor_at(np.frombuffer(entry["data"], kind).reshape(entry["shape"]), "cpu")
    return tensors


vars(_theirs).update(
    safe_open=safe_open,
    serialize_file=_write,
    _evaluate_tensors_for_save=_check_saved,
    _remove_duplicate_names=_remove_duplicate_names,
    _to_ndarray=_bytes_of,
    _view2torch=_tensors_of,
)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_theirs, name)  # other libraries use its private names


def save_file(tensors: dict[str, Tensor], filename: Path, metadata: dict[str, str] | None = None) -> None:
    """Save tensors to a file, atomically.

    Args:
        tensors: a dict from names to tensors, which must be dense and contiguous and not share memory (see
            `save_model`).
        filename: the file.
        metadata: strings to store beside the tensors.

    Raises:
        ValueError: a value is sparse, not contiguous, or not a tensor.
        RuntimeError: two tensors share memory.
        KeyError: safetensors does not support the dtype of a tensor.
        SafetensorError: the file cannot be written.

    Example:
        >>> import os, tempfile
        >>> import functorch_port as torch
        >>> from functorch_port.safetensors import load_file, save_file
        >>> path = os.path.join(tempfile.mkdtemp(), "x.safetensors")
        >>> save_file({"x": torch.ones(2)}, path, metadata={"format": "pt"})
        >>> load_file(path)
        {'x': tensor([1., 1.])}

    Reference: https://huggingface.co/docs/safetensors/api/torch
    """
    _theirs.save_file(tensors, filename, metadata)


def load_file(filename: Path, device: Any = "cpu", *, backend: str = "mmap") -> dict[str, Tensor]:
    """Load all tensors of a file.

    Args:
        filename: the file.
        device: as in `safe_open`.
        backend: as in `safe_open`.

    Raises:
        FileNotFoundError: there is no such file.
        SafetensorError: the file is truncated or damaged.
        NotImplementedError: the file has a dtype that is not supported.

    Reference: https://huggingface.co/docs/safetensors/api/torch
    """
    return _theirs.load_file(filename, device, backend=backend)


def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes that `save_file` would write.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.safetensors import load, save
        >>> load(save({"x": torch.ones(2)}))
        {'x': tensor([1., 1.])}

    Reference: https://huggingface.co/docs/safetensors/api/torch
    """
    return _theirs.save(tensors, metadata)


def load(data: bytes) -> dict[str, Tensor]:
    """Load the tensors from the bytes that `save` returned.

    Raises:
        SafetensorError: the bytes are truncated or damaged.

    Reference: https://huggingface.co/docs/safetensors/api/torch
    """
    return _theirs.load(data)


def save_model(
    model: Any, filename: Path, metadata: dict[str, str] | None = None, force_contiguous: bool = True
) -> None:
    """Save a module's state. Tied weights are saved once; the metadata map the other names to the saved one.

    Args:
        model: the module.
        filename: the file.
        metadata: strings to store beside the tensors.
        force_contiguous: whether to make non-contiguous tensors contiguous instead of refusing them.

    Reference: https://huggingface.co/docs/safetensors/api/torch
    """
    _theirs.save_model(model, filename, metadata, force_contiguous)


def load_model(
    model: Any, filename: Path, strict: bool = True, device: Any = "cpu", *, backend: str = "mmap"
) -> Any:
    """Load a file of `save_model` into a module.

    Args:
        model: the module.
        filename: the file.
        strict: whether missing and unexpected names are errors.
        device: the device to read tensors to; the module's tensors stay on theirs.
        backend: as in `safe_open`.

    Returns:
        The missing names and the unexpected names.

    Raises:
        RuntimeError: the file does not fit; the module is left unchanged.

    Reference: https://huggingface.co/docs/safetensors/api/torch
    """
    with _fitting(model, filename):
        return _theirs.load_model(model, filename, strict, device, backend=backend)


@contextmanager
def _fitting(model: Any, source: Any, told: Callable[[str], str] = lambda text: "") -> Iterator[None]:
    """Leave the module unchanged if the state does not fit, and name the file in the error."""
    try:
        with all_or_nothing(model):
            yield
    except RuntimeError as error:
        text = str(error)
        if not text.startswith("Error(s) in loading"):
            raise
        raise RuntimeError(
            f"{text}\n(In {os.fspath(source)}; the module is unchanged.{told(text)})"
        ) from None


# -------------------------------------------------------- folders and their index


def files_of(path: Path) -> dict[str, list[str] | None]:
    """The files of a checkpoint (a folder, an index or a file), and the names to read from each (None: all)."""
    path = os.fspath(path)
    if os.path.isdir(path):
        found = sorted(glob.glob(os.path.join(glob.escape(path), _INDEX)))
        found = found or sorted(glob.glob(os.path.join(glob.escape(path), "*.safetensors")))
        if len(found) != 1:
            what = f"{len(found)} of them: name the file" if found else "none"
            raise FileNotFoundError(f"{path} must have one {_INDEX} or one *.safetensors, and has {what}")
        path = found[0]
    if not path.endswith(".json"):
        return {path: None}
    try:
        with open(path, encoding="utf-8") as file:
            table = json.load(file)["weight_map"]
        items = [(str(name), shard) for name, shard in table.items()]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is not the index of a checkpoint: it must be JSON with a dict 'weight_map' from names to files "
            f"({type(error).__name__}: {error})"
        ) from None
    shards: dict[str, list[str] | None] = {}
    for name, shard in items:
        if not isinstance(shard, str) or os.path.basename(shard) != shard or shard in ("", ".", ".."):
            raise ValueError(
                f"{path} maps {name!r} to {shard!r}, which is not a file name in the same folder"
            )
        names = shards.setdefault(os.path.join(os.path.dirname(path), shard), [])
        assert names is not None
        names.append(name)
    missing = [shard for shard in shards if not os.path.exists(shard)]
    if missing:
        raise FileNotFoundError(f"{path} names files that do not exist: {', '.join(sorted(missing))}")
    return shards


def load_folder(path: Path, device: Any = "cpu") -> dict[str, Tensor]:
    """Load all tensors of a checkpoint, in one file or sharded as Hugging Face's libraries write them.

    Args:
        path: a folder with one ``*.safetensors`` or one ``*.safetensors.index.json``, or such a file.
        device: as in `safe_open`.

    Raises:
        FileNotFoundError: there is no checkpoint, or a file of it is missing.
        ValueError: the index is damaged.
        SafetensorError: a file is damaged, or lacks a tensor that the index names.

    Example:
        >>> import tempfile
        >>> import functorch_port as torch
        >>> from functorch_port import safetensors
        >>> folder = tempfile.mkdtemp()
        >>> safetensors.save_file({"x": torch.ones(2)}, f"{folder}/model.safetensors")
        >>> safetensors.load_folder(folder)
        {'x': tensor([1., 1.])}
    """
    return {name: tensor for name, (tensor, _) in _read(path, device, lambda name: name).items()}


def _read(path: Path, device: Any, rename: Callable[[str], str | None]) -> dict[str, tuple[Tensor, str]]:
    """The tensors and their origins, by new name."""
    state: dict[str, tuple[Tensor, str]] = {}
    for file, names in files_of(path).items():
        with safe_open(file, "pt", device=device) as opened:
            for name in opened.offset_keys() if names is None else names:
                new, origin = rename(name), f"{name!r} of {file}"
                if new is None:
                    continue
                if new in state:
                    raise ValueError(f"{origin} and {state[new][1]} both map to {new!r}")
                state[new] = opened.get_tensor(name), origin
    return state


KeyMapping = Mapping[str, str] | Callable[[str], str | None]


def _renaming(mapping: KeyMapping | None) -> Callable[[str], str | None]:
    if mapping is None:
        return lambda name: name
    if callable(mapping):
        return mapping
    rules = [(re.compile(pattern), new) for pattern, new in mapping.items()]

    def rename(name: str) -> str:
        for pattern, new in rules:
            name = pattern.sub(new, name)
        return name

    return rename


def load_checkpoint(
    model: Any,
    path: Path,
    *,
    key_mapping: KeyMapping | None = None,
    strict: bool = True,
    device: Any = None,
) -> Any:
    """Load a checkpoint of Hugging Face's libraries into a module.

    Args:
        model: the module.
        path: as in `load_folder`.
        key_mapping: how to rename the checkpoint's entries: a function from a name to the module's name, or to None
            to skip the entry; or a dict from regular expressions to replacements, applied in order.
        strict: whether missing and unexpected names are errors. Of tied weights, one name suffices.
        device: None (the default) copies the values into the module's tensors. Otherwise as in `safe_open`: the loaded
            tensors replace the module's, as with ``load_state_dict(assign=True)``. Use this for modules on the meta
            device and for shardings.

    Returns:
        The lists ``missing_keys`` and ``unexpected_keys``.

    Raises:
        RuntimeError: the checkpoint does not fit; the module is left unchanged.
        ValueError: two entries map to the same name.

    Example:
        >>> import tempfile
        >>> import functorch_port as torch
        >>> from functorch_port import safetensors
        >>> folder, model = tempfile.mkdtemp(), torch.nn.Linear(2, 1)
        >>> state = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
        >>> safetensors.save_file(state, f"{folder}/model.safetensors")
        >>> safetensors.load_checkpoint(model, folder, key_mapping={r"^model\\.": ""})
        <All keys matched successfully>
    """
    found = _read(path, "cpu" if device is None else device, _renaming(key_mapping))
    state = {name: tensor for name, (tensor, _) in found.items()}
    for kept, others in _theirs._remove_duplicate_names(model.state_dict(), preferred_names=state).items():
        state |= {name: state[kept] for name in others if name not in state and kept in state}

    def told(text: str) -> str:
        from_ = [f"\n{name!r} is {origin}" for name, (_, origin) in found.items() if f"for {name}:" in text]
        return "".join([*from_, "\nWith key_mapping entries get other names."])

    with _fitting(model, path, told):
        return model.load_state_dict(state, strict=strict, assign=device is not None)
