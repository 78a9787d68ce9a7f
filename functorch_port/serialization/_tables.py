"""The names that a file may use, and the functions that it may call.

Each function takes the `Tensors` of the file first. It checks its other arguments before it uses them, since they come
from the file.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

from .._array.storage import Storage
from .._base import dtypes
from .._base import layout as layouts
from .._base.device import device
from .._base.size import Size
from .._base.strides import contiguous
from .._run.legacy import CLASSES
from .._tensor.tensor import Tensor
from ..nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter
from ._tensors import BY_CALL, StorageType, Tensors, are_sizes, with_state

__all__ = ["CALLED", "CLASSES_CALLED", "NAMES", "STORAGES", "TRUSTED", "UNKNOWN", "checked_key"]

STORAGES = {f"{d.scalar_name}Storage": StorageType(d) for d in dtypes.ALL if d.name not in BY_CALL}
_UNTYPED = StorageType(None)


def checked_key(key: Any, left: int = 64) -> int:
    """Refuse a dict key or set element that is unhashable or takes long to hash."""
    left -= 1
    if isinstance(key, tuple):
        for part in key:
            left = checked_key(part, left)
    elif isinstance(key, list | dict | set | bytearray):
        raise UnpicklingError(f"unhashable type: {type(key).__name__!r}")
    elif type(key) is int and key.bit_length() > 64:
        raise UnpicklingError("a key is an integer of more than 64 bits")
    if left < 0:
        raise UnpicklingError("a key has too many parts")
    return left


def _ordered(_: Tensors, items: Any = ()) -> OrderedDict[Any, Any]:
    if type(items) not in (tuple, list, dict):
        raise UnpicklingError(f"an OrderedDict is made of {type(items)}, not of a list, tuple or dict")
    for item in items:
        if type(items) is not dict and (type(item) not in (tuple, list) or len(item) != 2):
            raise UnpicklingError("an OrderedDict is made of items that are not pairs")
        checked_key(item if type(items) is dict else item[0])
    return OrderedDict(items)


def _counter(_: Tensors, items: Any = ()) -> Counter[Any]:
    if type(items) is not dict and items != ():
        raise UnpicklingError(f"a Counter is made of {type(items)}, not of a dict")
    return Counter(items)


def _set(_: Tensors, items: Any = (), kind: Any = set) -> Any:
    if type(items) not in (tuple, list):
        raise UnpicklingError(f"a set is made of {type(items)}, not of a list or tuple")
    for item in items:
        checked_key(item)
    return kind(items)


def _frozenset(_: Tensors, items: Any = ()) -> Any:
    return _set(_, items, frozenset)


def _complex(_: Tensors, real: Any = 0.0, imag: Any = 0.0) -> complex:
    if type(real) not in (int, float) or type(imag) not in (int, float):
        raise UnpicklingError("a complex number has parts that are not numbers")
    return complex(real, imag)


def _encode(_: Tensors, text: Any, encoding: Any = "latin1") -> bytes:
    if type(text) is not str or encoding not in ("latin1", "latin-1", "utf-8", "ascii"):
        raise UnpicklingError("bytes must be made of a str in latin1, utf-8 or ascii")
    return text.encode(encoding)


def _bytes(_: Tensors, *nothing: Any) -> bytes:
    if nothing:
        raise UnpicklingError("bytes() takes no arguments in a file")
    return b""


def _bytearray(_: Tensors, data: Any = b"", encoding: Any = None) -> bytearray:
    if type(data) is str and encoding is not None:
        data = _encode(_, data, encoding)
    if type(data) is not bytes and type(data) is not bytearray:
        raise UnpicklingError(f"a bytearray is made of {type(data)}, not of bytes")
    return bytearray(data)


def _size(_: Tensors, sizes: Any = ()) -> Size:
    if not are_sizes(sizes):
        raise UnpicklingError("a Size is made of something other than sizes")
    return Size(sizes)


def _plainly(make: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function that checks its own arguments and needs no `Tensors`."""
    return lambda _, *args: make(*args)


def _layout(_: Tensors, name: Any) -> Any:
    found = {str(v): v for v in (layouts.strided, layouts.sparse_coo, *layouts.COMPRESSED)}
    if type(name) is not str or name not in found:
        said = name[:40] if type(name) is str else type(name)
        raise NotImplementedError(
            f"the file has tensors of layout {said}; the sparse layouts here are torch.sparse_coo, torch.sparse_csr "
            "and torch.sparse_csc: save tensor.to_sparse_coo()"
        )
    return found[name]


def _former_tensor(files: Tensors, kind: Any, cell: Any, view: Any, requires_grad: Any, extra: Any) -> Tensor:
    """A tensor of this package's former format."""
    found = files.known(cell)
    if found is None:
        if not isinstance(cell, Storage):
            raise UnpicklingError("a tensor has no storage")
        shape = cell.aval().shape
        made = files.meta(dtypes.from_np(cell.aval().dtype), shape, contiguous(shape), requires_grad)
    else:
        shape = found[0].shape
        if shape is None:
            raise UnpicklingError("a tensor of the former format refers to a storage of another format")
        size, stride, offset = (shape, contiguous(shape), 0) if view is None else view
        made = files.tensor(cell, offset, size, stride, requires_grad, None)
    return with_state(Parameter(made, requires_grad) if kind == "parameter" else made, extra)


def _former_sparse(files: Tensors, indices: Any, values: Any, size: Any, coalesced: Any) -> Tensor:
    return files.sparse(layouts.sparse_coo, (indices, values, size, coalesced))


def _lazy(_: Tensors, kind: Any, *args: Any) -> Any:
    return {"parameter": UninitializedParameter, "buffer": UninitializedBuffer}[kind](*args)


#: full name in a file -> function; its first argument is the file's `Tensors`
CALLED: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": Tensors.old_tensor,
    "torch._utils._rebuild_tensor_v2": Tensors.tensor,
    "torch._utils._rebuild_tensor_v3": Tensors.tensor_of,
    "torch._utils._rebuild_parameter": Tensors.parameter,
    "torch._utils._rebuild_parameter_with_state": Tensors.parameter,
    "torch._utils._rebuild_sparse_tensor": Tensors.sparse,
    "torch._utils._rebuild_meta_tensor_no_storage": Tensors.meta,
    "torch._tensor._rebuild_from_type_v2": Tensors.of_type,
    "torch.serialization._get_layout": _layout,
    "_codecs.encode": _encode,
    **{
        f"functorch_port.serialization.{name}": made
        for name, made in {
            "_tensor": _former_tensor,
            "_sparse": _former_sparse,
            "_uninitialized": _lazy,
            "_dtype": _plainly(dtypes.from_name),
            "_device": _plainly(device),
            "_size": _size,
        }.items()
    },
}
#: full name of a class in a file -> the class, and the function that makes it
CLASSES_CALLED: dict[str, tuple[type, Callable[..., Any]]] = {
    "collections.OrderedDict": (OrderedDict, _ordered),
    "collections.Counter": (Counter, _counter),
    "builtins.set": (set, _set),
    "builtins.frozenset": (frozenset, _frozenset),
    "builtins.complex": (complex, _complex),
    "builtins.bytes": (bytes, _bytes),
    "builtins.bytearray": (bytearray, _bytearray),
    "torch.Size": (Size, _size),
    "torch.device": (device, _plainly(device)),
    "torch.nn.parameter.UninitializedParameter": (UninitializedParameter, _plainly(UninitializedParameter)),
    "torch.nn.parameter.UninitializedBuffer": (UninitializedBuffer, _plainly(UninitializedBuffer)),
}
#: full name in a file -> object
NAMES: dict[str, Any] = {
    "torch.Tensor": Tensor,
    "torch.nn.parameter.Parameter": Parameter,
    **{f"torch.{d.name}": d for d in dtypes.ALL},
    **{f"torch.{name}": cls for name, cls in CLASSES.items()},
    **{f"torch.{name}": kind for name, kind in STORAGES.items()},
    **{f"torch.cuda.{name}": kind for name, kind in STORAGES.items()},
    "torch.storage.UntypedStorage": _UNTYPED,
    "torch.UntypedStorage": _UNTYPED,
    **{name: cls for name, (cls, _) in CLASSES_CALLED.items()},
}
_OLD = ("torch._tensor._rebuild_from_type", "torch.tensor._rebuild_from_type")
#: functions that are called only with ``weights_only=False``
TRUSTED: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_OLD, Tensors.of_type),
    "torch.tensor._rebuild_from_type_v2": Tensors.of_type,
}
#: names in PyTorch's files that this package does not support
UNKNOWN = frozenset(
    [f"torch.{n}" for n in (
        "qint8", "quint8", "qint32", "quint4x2", "quint2x4", "complex32", "float8_e4m3fnuz", "float8_e5m2fnuz",
        "float8_e8m0fnu", "float4_e2m1fn_x2", "bits8", "bits16", "bits1x8", "bits2x4", "bits4x2", "QInt8Storage",
        "QUInt8Storage", "QInt32Storage", "QUInt4x2Storage", "QUInt2x4Storage", "per_tensor_affine",
        "per_tensor_symmetric", "per_channel_affine", "per_channel_symmetric", "per_channel_affine_float_qparams",
    )]
    + [f"torch._utils._rebuild_{n}" for n in (
        "qtensor", "nested_tensor", "wrapper_subclass", "device_tensor_from_numpy", "device_tensor_from_cpu_tensor",
        "xla_tensor",
    )]
    + [f"torch.{kind}{n}" for kind in ("int", "uint") for n in range(1, 8)]
)  # fmt: skip
