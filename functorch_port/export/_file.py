"""Files of exported programs: a zip archive with the program, its tensors, and JSON that describes both. No pickle.

``format.json`` has what is known of the program, ``program.bin`` is what `jax.export` serialized, and ``tensors/0``,
``tensors/1`` and so on are the bytes of arrays, in C order and little-endian.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import IO, Any

import jax
import numpy as np

from .._array import tracing
from .._base import dtypes
from .._base.atomic import atomic
from .._base.optional import optional
from .._tensor.tensor import Tensor
from ..nn.parameter import Parameter
from ..serialization._container import Archive, Source, Writer
from ..serialization._tensors import tensor_at
from ..version import __version__
from ._program import CHECKS, ExportedProgram, State
from ._signature import Input, InputKind, Output, Range
from ._structure import flattened, unflattened

__all__ = ["load", "save"]

FORMAT, VERSION = "functorch_port.export", 1
_WIDE = {"int64", "uint64", "float64", "complex128"}


def save(
    ep: ExportedProgram,
    f: str | os.PathLike[str] | IO[bytes],
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
) -> None:
    """Write an exported program to one file, which `load` reads. At no moment is there half a file under its name.

    Args:
        ep: the program.
        f: a path, or a binary file to write to.
        extra_files, opset_version, pickle_protocol: must have their defaults.

    Raises:
        TypeError: ``ep`` is no `ExportedProgram`.
        RuntimeError: the folder does not exist.

    Example:
        >>> import io, functorch_port as torch
        >>> file = io.BytesIO()
        >>> torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), file)
        >>> torch.export.load(file).module()(torch.tensor([-1.0, 1.0]))
        tensor([0., 1.])

    Reference: https://docs.pytorch.org/docs/stable/export.html#torch.export.save
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    _refuse(extra_files=extra_files, opset_version=opset_version)
    if pickle_protocol != 2:
        raise NotImplementedError("torch.export.save(pickle_protocol): there is no pickle in the file")
    optional("flatbuffers", "torch.export.save", "export")
    if isinstance(f, str | os.PathLike):
        with atomic(f) as file:
            _write(ep, file)
    else:
        _write(ep, f)


def _refuse(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise NotImplementedError(f"torch.export: {name} is not supported; leave it out")


def _write(ep: ExportedProgram, file: IO[bytes]) -> None:
    tensors: dict[Any, tuple[int, Tensor]] = {}

    def number(tensor: Tensor, kind: str) -> int:
        """The same for names of one tensor."""
        key = (kind, id(tensor) if tensor._view is not None else id(tensor._storage))
        return tensors.setdefault(key, (len(tensors), tensor))[0]

    state = [
        {
            "kind": s.kind.name,
            "target": s.target,
            "persistent": s.persistent,
            "key": s.key,
            "requires_grad": s.tensor.requires_grad,
            "tensor": number(s.tensor, s.kind.name),
        }
        for s in ep._state
    ]
    example = None
    if ep.example_inputs is not None:
        example = [number(t.detach(), f"example {k}") for k, t in enumerate(_tensors(ep))]
    kept = [tensor for _, tensor in tensors.values()]
    about = {
        "format": FORMAT,
        "version": VERSION,
        "written by": {"functorch_port": __version__, "jax": jax.__version__},
        "platforms": ep.platforms,
        "inputs": [asdict(one) for one in ep.inputs],
        "outputs": [asdict(one) for one in ep.outputs],
        "structures": [ep._in, ep._out],
        "ranges": {name: list(r) for name, r in ep.range_constraints.items()},
        "state": state,
        "mutated": ep._mutated,
        "checks": ep._checks,
        "example": example,
        "tensors": [{"dtype": t.dtype.name, "shape": list(t.shape)} for t in kept],
    }
    archive = Writer(file, "program")
    archive.add("format.json", json.dumps(about, indent=1, allow_nan=True).encode())
    archive.add("program.bin", ep.exported.serialize())
    for k, tensor in enumerate(kept):
        array = np.ascontiguousarray(np.asarray(tensor._value))
        archive.add(f"tensors/{k}", array.reshape(-1).view(np.uint8))
    archive.close()


def _tensors(ep: ExportedProgram) -> list[Tensor]:
    """Those of the example, in order."""
    pairs, _ = flattened(ep.example_inputs, TypeError)
    return [leaf for _, leaf in pairs if isinstance(leaf, Tensor)]


# ------------------------------------------------------------------ read


def load(
    f: str | os.PathLike[str] | IO[bytes],
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """Read a program that `save` wrote. Nothing of the model's code is needed, and no code of the file runs in Python.

    Args:
        f: a path, or a binary file.
        extra_files, expected_opset_version: must have their defaults.

    Returns:
        The program, with its tensors on the first device that JAX has.

    Raises:
        RuntimeError: the file is damaged, or another program wrote it.

    Example: see `save`.

    Reference: https://docs.pytorch.org/docs/stable/export.html#torch.export.load
    """
    _refuse(extra_files=extra_files, expected_opset_version=expected_opset_version)
    optional("flatbuffers", "torch.export.load", "export")
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            return _read(file, os.fspath(f))
    f.seek(0)
    return _read(f, getattr(f, "name", None) or "the file")


def _read(file: IO[bytes], name: str) -> ExportedProgram:
    start = file.read(4)
    file.seek(0)
    if start != b"PK\3\4":
        raise RuntimeError(
            f"{name} is no exported program: those are zip archives, which torch.export.save writes"
        )
    archive = Archive(Source(file, name))
    entries = {entry.rpartition("/")[2] for entry in archive.entries}
    if entries & {"archive_format", "serialized_exported_program.json"}:
        raise RuntimeError(
            f"{name} is an exported program of PyTorch. It has ATen operations, which only PyTorch runs. Load the "
            "module's weights here (torch.load of its state_dict), and export the module with this library"
        )
    if not archive.has("format.json"):
        what = "torch.save: use torch.load" if "data.pkl" in entries else "something else"
        raise RuntimeError(f"{name} is no exported program; it was written by {what}")
    with _damaged(name):
        about = json.loads(archive.read("format.json"))
        if about["format"] != FORMAT:
            raise RuntimeError(f"{name} is no exported program, but has the format {about['format']!r}")
        if about["version"] != VERSION:
            raise RuntimeError(
                f"{name} has version {about['version']} of the format, and this is functorch_port {__version__}, which "
                f"reads version {VERSION}; functorch_port {about['written by']['functorch_port']} wrote it"
            )
        _check_width(about, name)
        tensors = [_tensor(archive, f"tensors/{k}", one, name) for k, one in enumerate(about["tensors"])]
        return _program(about, _exported(archive.read("program.bin"), about, name), tensors)


@contextmanager
def _damaged(name: str) -> Iterator[None]:
    """Errors of JSON that is not as `save` writes it."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, struct.error) as error:
        raise RuntimeError(f"{name} is damaged: its format.json is not valid ({error})") from error


def _check_width(about: dict[str, Any], name: str) -> None:
    wide = [one["name"] for one in (*about["inputs"], *about["outputs"]) if one["dtype"] in _WIDE]
    if wide and not tracing.X64:
        raise RuntimeError(
            f"{name}: {wide[0]} has 64 bits, which FUNCTORCH_PORT_X64=0 switches off; export the module under the same "
            "setting"
        )


def _exported(data: bytes, about: dict[str, Any], name: str) -> Any:
    try:
        return jax.export.deserialize(bytearray(data))
    except Exception as error:
        raise RuntimeError(
            f"{name}: jax {jax.__version__} cannot read the program, which jax {about['written by']['jax']} wrote "
            f"({str(error).partition(chr(10))[0]}). docs/deployment.md says which versions go together"
        ) from error


def _tensor(archive: Archive, entry: str, one: dict[str, Any], name: str) -> Tensor:
    dtype = dtypes.NAMES[one["dtype"]].np
    shape = tuple(map(int, one["shape"]))
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if archive.length(entry) != size:
        raise RuntimeError(f"{name} is damaged: {entry} has {archive.length(entry)} bytes, not {size}")
    array = archive.array(entry, size).view(dtype).reshape(shape)
    return tensor_at(array, jax.local_devices()[0])


def _error(name: str) -> str:
    """The name of an exception of Python that a check may raise."""
    if name not in CHECKS:
        raise ValueError(f"a check raises {name}")
    return name


def _program(about: dict[str, Any], exported: Any, tensors: Sequence[Tensor]) -> ExportedProgram:
    made: dict[int, Tensor] = {}
    state = []
    for s in about["state"]:
        kind, k = InputKind[s["kind"]], s["tensor"]
        if kind is InputKind.PARAMETER and k not in made:
            made[k] = Parameter(tensors[k], requires_grad=s["requires_grad"])
        tensor = made.setdefault(k, tensors[k])
        state.append(State(kind, s["target"], tensor, s["persistent"], s["key"]))
    inputs = [
        Input(one["name"], one["dtype"], tuple(n if isinstance(n, int) else (n[0], n[1], n[2]) for n in one["shape"]),
              one["value"])
        for one in about["inputs"]
    ]  # fmt: skip
    outputs = [
        Output(one["name"], one["dtype"], tuple(one["shape"]), one["value"]) for one in about["outputs"]
    ]
    example = None
    if about["example"] is not None:
        left = iter(about["example"])
        example = unflattened(
            about["structures"][0],
            [one.value if one.dtype is None else tensors[next(left)] for one in inputs],
        )
    return ExportedProgram(
        exported,
        state=state,
        inputs=inputs,
        outputs=outputs,
        structures=tuple(about["structures"]),
        mutated=about["mutated"],
        checks=[(_error(name), text) for name, text in about["checks"]],
        ranges={name: Range(*r) for name, r in about["ranges"].items()},
        example=example,
    )
