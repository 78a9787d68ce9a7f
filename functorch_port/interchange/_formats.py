"""Reading, writing and converting checkpoints of all formats."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .. import safetensors
from .._base import dtypes
from .._tensor.grad_mode import no_grad
from .._tensor.tensor import Tensor, wrap
from ..serialization import load, save
from . import _npz as npz
from . import _orbax as orbax
from ._tree import array_of, changed, check_dense, named, nbytes, put_together, take_apart

__all__ = ["FORMATS", "Contents", "Row", "WrongUse", "convert", "format_of", "inspect", "read", "write"]

FORMATS = ("pt", "safetensors", "npz", "orbax")
_ENDS = {
    **dict.fromkeys((".pt", ".pth", ".bin", ".ckpt", ".tar"), "pt"),
    ".safetensors": "safetensors",
    ".npz": "npz",
    ".orbax": "orbax",
    "": "orbax",
}
_ABOUT = "functorch_port"


class WrongUse(ValueError):
    """A request that cannot be carried out."""


def format_of(path: str | os.PathLike[str]) -> str:
    """The format of an existing checkpoint, found from its content.

    Raises:
        FileNotFoundError: the path does not exist.
        WrongUse: the format is not one of `FORMATS`.
    """
    path = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist")
    if os.path.isdir(path):
        if os.path.exists(os.path.join(path, "_METADATA")):
            return "orbax"
        if any(name.endswith((".safetensors", ".safetensors.index.json")) for name in os.listdir(path)):
            return "safetensors"
        raise WrongUse(f"{path} is a folder with neither an orbax checkpoint nor safetensors files")
    if path.endswith(".safetensors.index.json"):
        return "safetensors"
    with open(path, "rb") as file:
        start = file.read(9)
    if start[:2] == b"PK":
        try:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        except zipfile.BadZipFile as error:
            raise WrongUse(f"{path} is cut off or damaged ({error})") from None
        return "npz" if all(name.endswith(".npy") for name in names) else "pt"
    if start[8:] == b"{":
        return "safetensors"
    if start[:1] == b"\x80":  # a pickle: PyTorch's format before 1.6
        return "pt"
    raise WrongUse(f"{path} has none of the formats that can be read: {', '.join(FORMATS)}")


def _format_to(path: str) -> str:
    end = os.path.splitext(path.rstrip(os.sep))[1]
    if end not in _ENDS:
        known = ", ".join(e for e in _ENDS if e)
        raise WrongUse(
            f"{path}: {end!r} is not the extension of a known format; use {known}, or none for orbax"
        )
    return _ENDS[end]


Tick = Callable[[str], None]


def _silent(stage: str) -> None:
    """Report nothing."""


def read(path: str | os.PathLike[str], device: Any = "cpu") -> Any:
    """Read the tree of tensors in a checkpoint of any format; PyTorch's files with ``weights_only=True``.

    Args:
        path: a file of PyTorch, safetensors or numpy (``.npz``), or a folder of safetensors files or of orbax.
        device: where tensors go; ``"meta"`` does not read their values.

    Raises:
        FileNotFoundError: the path does not exist.
        ValueError: the checkpoint is of another format, or damaged.
    """
    return _read(path, device, _silent)


def _read(path: Any, device: Any, tick: Tick) -> Any:
    kind = format_of(path)

    def placed(name: str) -> Any:
        tick("reading")
        return device

    def mapped(cell: Any, where: str) -> Any:
        tick("reading")
        return cell

    if kind == "pt":
        return load(path, map_location=mapped if device == "cpu" else str(device), weights_only=True)
    if kind == "safetensors":
        return _read_safetensors(path, placed)
    return (npz.load_npz if kind == "npz" else orbax.load_orbax)(path, placed)


def write(path: str | os.PathLike[str], tree: Any, format: str | None = None) -> None:
    """Write a tree of tensors in any format. An existing target is replaced.

    Args:
        path: the file, or the folder for orbax.
        tree: dicts, lists and tuples of tensors, numbers and strings.
        format: ``"pt"``, ``"safetensors"``, ``"npz"`` or ``"orbax"``. Default: by the extension of the path.

    Raises:
        ValueError: the format is not known.
        TypeError: the tree has a value that the format cannot hold.
    """
    _write(path, tree, format or _format_to(os.fspath(path)), _silent)


def _write(path: Any, tree: Any, kind: str, tick: Tick) -> None:
    if kind not in FORMATS:
        raise WrongUse(f"unknown format {kind!r}: must be one of {', '.join(FORMATS)}")
    if kind == "pt":
        save(tree, path)
    elif kind == "safetensors":
        _write_safetensors(path, tree, tick)
    elif kind == "npz":
        npz.write(path, tree, lambda: tick("writing"))
    else:
        orbax.save_orbax(path, tree, force=True)


def _metadata(path: Any) -> dict[str, str]:
    about: dict[str, str] = {}
    for file in safetensors.files_of(path):
        with safetensors.safe_open(file, "pt") as opened:
            about |= opened.metadata() or {}
    return about


def _read_safetensors(path: Any, device: Any) -> Any:
    tensors, about = safetensors.load_folder(path, device), _metadata(path)
    for name, kept in about.items():  # the other names of tied weights, as in `save_model`
        if kept in tensors:
            tensors.setdefault(name, tensors[kept])
    return put_together(tensors, about.get(_ABOUT), path)


def _write_safetensors(path: Any, tree: Any, tick: Tick) -> None:
    tensors, left = take_apart(tree)
    about = {"format": "pt"} if left is None else {"format": "pt", _ABOUT: left}
    kept: dict[Any, str] = {}
    single: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        tick("writing")
        first = kept.setdefault(_look(tensor), name)
        if first == name or not tensor.numel():
            single[name] = wrap(array_of(name, tensor))
        elif name in about:
            raise WrongUse(f"the entry name {name!r} is reserved: rename the entry")
        else:
            about[name] = first
    safetensors.save_file(single, path, about)


def _look(tensor: Tensor) -> Any:
    """A key that is equal for tensors that are the same view of the same storage."""
    if tensor._sparse:
        return id(tensor)
    return id(tensor._storage), tensor._layout(), tensor.dtype, tuple(tensor.shape)


# -------------------------------------------------------------------- converting


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    keys: Iterable[tuple[str, str]] = (),
    only: str | None = None,
    dtype: Any = None,
    format: str | None = None,
    force: bool = False,
    tick: Tick = _silent,
) -> Any:
    """Convert a checkpoint to another of the formats of `read` and `write`.

    With ``keys`` or ``only`` the result is a plain state dict: the tensors under their (new) dotted paths, without
    numbers and strings.

    Args:
        source: the checkpoint.
        target: the file or folder to write.
        keys: pairs ``(regular expression, replacement)``, applied to the names in order.
        only: a regular expression; only tensors whose names it matches are kept.
        dtype: the dtype to cast floating point tensors to; None keeps theirs.
        format: the target's format. Default: by the extension of its name.
        force: whether to replace an existing target.
        tick: called with the name of a stage ("reading", "writing") for each tensor.

    Returns:
        The tree that was written.

    Raises:
        ValueError: a pattern matches nothing, two tensors get the same name, or values overflow in ``dtype``.
        FileExistsError: the target exists, and ``force`` is False.

    Example:
        >>> import os, tempfile
        >>> import functorch_port as torch
        >>> from functorch_port import interchange
        >>> folder = tempfile.mkdtemp()
        >>> torch.save({"model": {"w": torch.ones(2)}, "epoch": 3}, f"{folder}/x.pt")
        >>> interchange.convert(f"{folder}/x.pt", f"{folder}/x.npz", keys=[(r"^model[.]", "")])
        {'w': tensor([1., 1.])}
    """
    kind = format or _format_to(os.fspath(target))
    if os.path.lexists(target) and not force:
        raise FileExistsError(f"{os.fspath(target)} already exists")
    rules = [(_compiled(pattern), new) for pattern, new in keys]
    chosen = None if only is None else _compiled(only)
    if dtype is not None and not dtype.is_floating_point:
        raise WrongUse(f"dtype must be a floating point dtype, got {dtype}")
    tree = _read(source, "cpu", tick)
    if rules or chosen is not None:
        tree = _renamed(tree, rules, chosen)
    if dtype is not None:
        tree = _cast(tree, dtype)
    _write(target, tree, kind, tick)
    return tree


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise WrongUse(f"{pattern!r} is not a regular expression: {error}") from None


def _renamed(
    tree: Any, rules: list[tuple[re.Pattern[str], str]], only: re.Pattern[str] | None
) -> dict[str, Tensor]:
    tensors = {name: leaf for name, leaf in named(tree) if isinstance(leaf, Tensor)}
    names = {name: name for name in tensors if only is None or only.search(name)}
    if not names:
        raise WrongUse(f"{only.pattern if only else ''!r} matches no tensor; {_such_as(tensors)}")
    for pattern, new in rules:
        if not any(pattern.search(name) for name in names.values()):
            raise WrongUse(f"{pattern.pattern!r} matches no name; {_such_as(names.values())}")
        try:
            names = {old: pattern.sub(new, name) for old, name in names.items()}
        except (re.error, IndexError) as error:
            raise WrongUse(f"{new!r} cannot replace {pattern.pattern!r}: {error}") from None
    found: dict[str, str] = {}
    for old, new in names.items():
        if found.setdefault(new, old) != old:
            raise WrongUse(f"entries {found[new]!r} and {old!r} would both be named {new!r}")
    return {new: tensors[old] for old, new in names.items()}


def _such_as(names: Iterable[str]) -> str:
    some = list(names)[:5]
    return f"names are, for example, {', '.join(some)}" if some else "there are no tensors"


def _cast(tree: Any, dtype: Any) -> Any:
    """Cast all floating point tensors; tied tensors stay tied."""
    made: dict[Any, Tensor] = {}
    names = {id(leaf): name for name, leaf in named(tree)}

    def cast(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point() or tensor.dtype is dtype:
            return tensor
        look = _look(tensor)
        if look not in made:
            check_dense(names[id(tensor)], tensor)
            with no_grad():
                made[look] = new = tensor.detach().to(dtype)
                if (tensor.isfinite() & ~new.to(dtypes.float32).isfinite()).any():
                    most = tensor[tensor.isfinite()].abs().max().item()
                    raise WrongUse(
                        f"entry {names[id(tensor)]!r} has values up to {most:g}, which are too large for {dtype}"
                    )
        return made[look]

    return changed(tree, cast)


# -------------------------------------------------------------------- inspecting


class Row(NamedTuple):
    """One entry of a checkpoint.

    Attributes:
        name: its dotted path.
        shape, dtype, nbytes: those of a tensor, else None.
        value: the value if it is not a tensor.
        same_as: the name of an earlier entry with the same tensor.
    """

    name: str
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    nbytes: int | None = None
    value: Any = None
    same_as: str | None = None


class Contents(NamedTuple):
    """The result of `inspect`: the format, the size on disk, the entries, and the metadata of safetensors files."""

    format: str
    size: int
    rows: list[Row]
    metadata: dict[str, str]


def inspect(path: str | os.PathLike[str]) -> Contents:
    """List the entries of a checkpoint of any format, without reading the values of tensors.

    Raises:
        FileNotFoundError: the path does not exist.
        ValueError: the checkpoint is of another format, or damaged.

    Example:
        >>> import tempfile
        >>> import functorch_port as torch
        >>> from functorch_port import interchange
        >>> path = f"{tempfile.mkdtemp()}/x.pt"
        >>> torch.save({"w": torch.ones(2, 3), "epoch": 3}, path)
        >>> [row.name for row in interchange.inspect(path).rows]
        ['w', 'epoch']
    """
    kind, first, rows = format_of(path), {}, []  # type: ignore[var-annotated]
    for name, leaf in named(read(path, "meta")):
        if not isinstance(leaf, Tensor):
            rows.append(Row(name, value=leaf))
            continue
        same = first.setdefault(_look(leaf), name)
        rows.append(
            Row(name, tuple(leaf.shape), leaf.dtype.name, nbytes(leaf), None, None if same == name else same)
        )
    about = _metadata(path) if kind == "safetensors" else {}
    about.pop(_ABOUT, None)
    return Contents(kind, _size(path), rows, about)


def _size(path: Any) -> int:
    if not os.path.isdir(path):
        return os.path.getsize(path)
    return sum(
        os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names
    )
