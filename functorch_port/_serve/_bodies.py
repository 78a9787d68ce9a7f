"""The bodies of requests and answers: JSON, `.npz` and safetensors. Nothing in a request is trusted."""

from __future__ import annotations

import base64
import binascii
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import safetensors
from ..export._signature import Input, shape_text
from ..interchange._npz import header
from ..serialization._tensors import tensor_at
from ._model import Model, Wrong

__all__ = ["JSON", "NPZ", "SAFETENSORS", "TYPES", "Malformed", "packed", "packed_inputs", "read"]

JSON, NPZ, SAFETENSORS = "application/json", "application/x-npz", "application/x-safetensors"
TYPES = (JSON, NPZ, SAFETENSORS)
#: numbers that JSON does not have, as texts
_SPECIAL = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}
_KINDS = {"b": "true or false", "i": "integers", "u": "integers that are not negative", "f": "numbers"}


class Malformed(ValueError):
    """A body that cannot be read at all."""


def read(body: bytes, kind: str, model: Model) -> list[np.ndarray]:
    """The arrays of a request, in the order of the program's inputs.

    Raises:
        Malformed: the body is not of its type.
        Wrong: it does not have what the program takes.
    """
    given = _READERS[kind](body, model)
    names = [one.name for one in model.inputs]
    missing = [name for name in names if name not in given]
    if missing:
        raise Wrong(f"the input {missing[0]!r} is missing; the program takes {', '.join(names)}", missing[0])
    more = [name for name in given if name not in names]
    if more:
        raise Wrong(
            f"there is no input {more[0]!r:.100}; the program takes {', '.join(names)}", more[0][:100]
        )
    arrays = [given[name] for name in names]
    model.check(arrays)
    return arrays


def _expect(one: Input) -> str:
    return f"{one.name} should be {one.dtype}{shape_text(one.shape)}"


# ------------------------------------------------------------------ JSON


def _read_json(body: bytes, model: Model) -> dict[str, np.ndarray]:
    try:
        given = json.loads(body, parse_constant=str, object_pairs_hook=_without_doubles)
    except Malformed:
        raise
    except RecursionError:
        raise Malformed("the JSON is nested too deeply") from None
    except ValueError as error:
        raise Malformed(f"the body is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise Malformed(
            f"the JSON is {_named(given)}, and should be an object with the inputs by name: "
            f"{', '.join(one.name for one in model.inputs)}"
        )
    known = {one.name: one for one in model.inputs}
    return {
        name: _array(value, known[name], model.dtypes[name]) if name in known else np.empty(0)
        for name, value in given.items()
    }


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise Malformed(f"the JSON has {double!r:.100} twice")
    return found


def _named(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _array(value: Any, one: Input, dtype: np.dtype) -> np.ndarray:
    if isinstance(value, dict):
        return _decoded(value, one, dtype)
    shape: list[int] = []
    part = value
    while isinstance(part, list):
        shape.append(len(part))
        part = part[0] if part else None
    if len(shape) != len(one.shape):
        raise Wrong(f"{_expect(one)}, and the JSON has {len(shape)} dimensions: {shape}", one.name)
    if dtype.kind == "c":
        raise Wrong(
            f"{_expect(one)}: JSON has no complex numbers; send base64, .npz or safetensors", one.name
        )
    numbers = _flat(value, shape, one)
    return _converted(numbers, one, dtype).reshape(shape)


def _flat(value: Any, shape: Sequence[int], one: Input) -> list[Any]:
    """The numbers of nested lists, all of which have the lengths of the first."""
    found = [value]
    for d, n in enumerate(shape):
        for part in found:
            if not isinstance(part, list) or len(part) != n:
                what = f"a list of {len(part)}" if isinstance(part, list) else _named(part)
                raise Wrong(
                    f"{_expect(one)}: the lists differ in length; dimension {d} has {n} in the first, and there is "
                    f"{what}",
                    one.name,
                )
        found = [item for part in found for item in part]
    return found


def _converted(numbers: list[Any], one: Input, dtype: np.dtype) -> np.ndarray:
    """The numbers as an array, if none of them loses more than digits."""
    kind = dtype.kind if dtype.kind in "biu" else "f"
    if kind == "f":
        if np.inf in numbers or -np.inf in numbers:  # Python's parser makes that of 1e999
            raise Wrong(f"{_expect(one)}: a number does not fit into {one.dtype}", one.name)
        numbers = [_SPECIAL.get(n, n) if type(n) is str else n for n in numbers]
    fine = {"b": (bool,), "i": (int,), "u": (int,), "f": (int, float)}[kind]
    for n in numbers:
        if type(n) not in fine:
            raise Wrong(f"{_expect(one)}: {json.dumps(n):.80} is none of {_KINDS[kind]}", one.name)
    if kind in "iu" and numbers:
        info = np.iinfo(dtype)
        for n in (min(numbers), max(numbers)):
            if not info.min <= n <= info.max:
                raise Wrong(f"{_expect(one)}: {str(n)[:80]} does not fit into {one.dtype}", one.name)
    if kind in "biu":
        return np.array(numbers, dtype)
    try:
        values = np.array(numbers, np.float64)
    except OverflowError:
        raise Wrong(f"{_expect(one)}: a number does not fit into {one.dtype}", one.name) from None
    with np.errstate(over="ignore"):
        found = values.astype(dtype)
    if (np.isinf(found.astype(np.float64)) & ~np.isinf(values)).any():
        raise Wrong(f"{_expect(one)}: a number does not fit into {one.dtype}", one.name)
    return found


def _decoded(value: dict[str, Any], one: Input, dtype: np.dtype) -> np.ndarray:
    """An array of ``{"base64": ..., "shape": ..., "dtype": ...}``: its bytes in C order, little-endian."""
    if not {"base64", "shape"} <= value.keys() <= {"base64", "shape", "dtype"}:
        raise Wrong(
            f'{_expect(one)}: an object must have "base64" (the bytes in C order, little-endian), "shape", and may '
            f'have "dtype"; it has {", ".join(map(repr, value))[:200]}',
            one.name,
        )
    if value.get("dtype", one.dtype) != one.dtype:
        raise Wrong(f"{_expect(one)}: its dtype is {str(value['dtype'])[:80]!r}", one.name)
    shape = value["shape"]
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**40 for n in shape):
        raise Wrong(f"{_expect(one)}: its shape is {str(shape)[:80]}", one.name)
    try:
        data = base64.b64decode(value["base64"], validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise Wrong(f"{_expect(one)}: not base64: {error}", one.name) from None
    return _of_bytes(data, shape, one, dtype)


def _of_bytes(data: bytes, shape: Sequence[int], one: Input, dtype: np.dtype, order: Any = "C") -> np.ndarray:
    size = dtype.itemsize
    for n in shape:
        size *= n
    if size != len(data):
        raise Wrong(f"{_expect(one)}: {len(data)} bytes are not {one.dtype}{list(shape)}", one.name)
    if dtype == np.bool_ and any(byte > 1 for byte in data):
        raise Wrong(f"{_expect(one)}: a byte is neither 0 nor 1", one.name)
    return np.frombuffer(data, dtype).reshape(shape, order=order)


# ------------------------------------------------------------------ .npz and safetensors


def _read_npz(body: bytes, model: Model) -> dict[str, np.ndarray]:
    known = {one.name: one for one in model.inputs}
    found: dict[str, np.ndarray] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > 2 * len(body) + (1 << 20):
                raise Malformed(
                    "the .npz unpacks to far more than its size; send it uncompressed (numpy.savez)"
                )
            for entry in entries:
                name = entry.filename.removesuffix(".npy")
                if name in found:
                    raise Malformed(f"the .npz has {name!r:.100} twice")
                if name in known:
                    found[name] = _npy(archive.read(entry), known[name], model.dtypes[name])
                else:
                    found[name] = np.empty(0)
    except (Malformed, Wrong):
        raise
    except Exception as error:  # a damaged archive raises this and that
        raise Malformed(f"the body is no .npz file: {str(error)[:200]}") from None
    return found


def _npy(data: bytes, one: Input, dtype: np.dtype) -> np.ndarray:
    file = io.BytesIO(data)
    shape, fortran, kind = header(file)
    bare = kind.kind == "V" and kind.itemsize == dtype.itemsize and dtype.kind not in "biufc"
    if kind.newbyteorder("<") != dtype and not bare:
        raise Wrong(f"{_expect(one)}: it is {kind!s:.80}", one.name)
    rest = data[file.tell() :]
    if kind.byteorder == ">":
        rest = np.frombuffer(rest, kind).astype(dtype).tobytes()
    return _of_bytes(rest, shape, one, dtype, "F" if fortran else "C")


def _read_safetensors(body: bytes, model: Model) -> dict[str, np.ndarray]:
    known = {one.name: one for one in model.inputs}
    try:
        tensors = safetensors.load(body)
    except ImportError:
        raise
    except Exception as error:  # the library's own class is no ValueError
        raise Malformed(f"the body is no safetensors file: {str(error)[:200]}") from None
    for name, tensor in tensors.items():
        if name in known and tensor.dtype.name != known[name].dtype:
            raise Wrong(f"{_expect(known[name])}: it is {tensor.dtype.name}", name)
    return {name: np.asarray(tensor._value) for name, tensor in tensors.items()}


_READERS: Mapping[str, Callable[[bytes, Model], dict[str, np.ndarray]]] = {
    JSON: _read_json,
    NPZ: _read_npz,
    SAFETENSORS: _read_safetensors,
}


# ------------------------------------------------------------------ answers


def packed(arrays: Sequence[np.ndarray], kind: str, model: Model) -> bytes:
    """The body of an answer, of the same type as the request's."""
    named = dict(zip((one.name for one in model.outputs), arrays, strict=True))
    if kind == JSON:
        found = {
            one.name: one.value if one.dtype is None else _listed(named[one.name])
            for one in model.program.outputs
        }
        return json.dumps(found, separators=(",", ":")).encode()
    if kind == NPZ:
        file = io.BytesIO()
        np.savez(file, **{name: _storable(array) for name, array in named.items()})  # type: ignore[arg-type]
        return file.getvalue()
    return safetensors.save({name: tensor_at(array, "cpu") for name, array in named.items()})


def packed_inputs(arrays: Mapping[str, np.ndarray]) -> str:
    """The JSON of a request."""
    return json.dumps({name: _listed(array) for name, array in arrays.items()})


def _listed(array: np.ndarray) -> Any:
    if array.dtype.kind in "biu":
        return array.tolist()
    if array.dtype.kind == "c":
        return {"real": _listed(array.real), "imag": _listed(array.imag)}
    wide = array.astype(np.float64) if array.dtype.kind != "f" else array
    if np.isfinite(wide).all():
        return wide.tolist()
    return _told(wide.tolist())


def _told(value: Any) -> Any:
    """Nested lists with texts in place of the numbers that JSON does not have."""
    if isinstance(value, list):
        return [_told(item) for item in value]
    if value != value:
        return "NaN"
    return value if abs(value) != np.inf else "Infinity" if value > 0 else "-Infinity"


def _storable(array: np.ndarray) -> np.ndarray:
    """An array of a type that numpy knows: others go as bytes of their size."""
    return array if array.dtype.kind in "biufc" else array.view(f"V{array.dtype.itemsize}")
