"""Checkpoints in folders from and to single files: `dcp_to_torch_save`, `torch_save_to_dcp`.

Both go through a checkpoint part by part, so that it need not fit in memory. On the command line::

    python -m functorch_port.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE
    python -m functorch_port.distributed.checkpoint.format_utils torch_to_dcp FILE FOLDER
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..._array.storage import Storage
from ..._array.value import Value
from ..._tensor.creation import from_numpy
from ..._tensor.tensor import wrap
from ...interchange._tree import put_together, take_apart, virtual
from ...serialization import load, save
from ...serialization._tensors import MAPPED
from .api import stage
from .filesystem import Contents, Saved
from .state_dict_loader import inside
from .state_dict_saver import save as save_folder

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]

_ABOUT = "functorch_port"


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]
) -> None:
    """Write a checkpoint as one file, which ``torch.load`` (or safetensors) reads.

    Args:
        dcp_checkpoint_dir: the folder, of `save` or of PyTorch.
        torch_save_path: the file; a name that ends in ``.safetensors`` makes it one of safetensors, in which numbers
            and strings are in the metadata.

    Raises:
        CheckpointException: there is no checkpoint, or its files are damaged.
        RuntimeError: the file cannot be written; a former one is unchanged.

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.format_utils.dcp_to_torch_save
    """
    with stage("plan"):
        contents = Contents(dcp_checkpoint_dir)
        found = {saved.name: saved for place in contents.entries.values() for saved in inside(place.value)}
    values = _Values(contents, found)
    tree = _changed(contents.tree, lambda saved: wrap(_Unread(saved, values)))
    if not os.fspath(torch_save_path).endswith(".safetensors"):
        save(tree, torch_save_path)
        return
    from ...safetensors import write_parts

    left = take_apart(tree)[1]
    values.order = sorted(found, key=lambda name: (-found[name].dtype.itemsize, name))
    kinds = {name: (saved.shape, saved.dtype) for name, saved in found.items()}
    about = {"format": "pt"} if left is None else {"format": "pt", _ABOUT: left}
    write_parts(torch_save_path, kinds, values.read, about)


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]
) -> None:
    """Write what is in one file as a checkpoint that `load` reads.

    Args:
        torch_save_path: a file of ``torch.save``, or one of safetensors. It may hold only what ``load`` reads with
            ``weights_only=True``: no code in it is run.
        dcp_checkpoint_dir: the folder.

    Raises:
        CheckpointException: something in the file cannot be saved, or the folder cannot be written.
        pickle.UnpicklingError: the file holds something else.

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.format_utils.torch_save_to_dcp
    """
    path = os.fspath(torch_save_path)
    if not path.endswith(".safetensors"):
        state = load(path, map_location=MAPPED, mmap=_is_zip(path))
        save_folder(state, checkpoint_id=dcp_checkpoint_dir)
        return
    from ...safetensors import mapped, safe_open

    with safe_open(path, "pt") as opened:
        about = opened.metadata() or {}
    save_folder(
        put_together(dict(mapped(path)), about.get(_ABOUT), torch_save_path), checkpoint_id=dcp_checkpoint_dir
    )


def _is_zip(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PK\3\4"


def _changed(value: Any, change: Callable[[Saved], Any]) -> Any:
    if isinstance(value, Exception):
        raise value
    if isinstance(value, Saved):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _changed(part, change) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_changed(part, change) for part in value)
    return value


class _Values:
    """The values of a checkpoint, read part by part in an order, and forgotten when the next part is read."""

    def __init__(self, contents: Contents, found: Mapping[str, Saved]) -> None:
        self._contents, self._found = contents, found
        self.order = [*found]
        self._parts: Iterator[dict[str, Any]] | None = None
        self._part: dict[str, Any] = {}

    def read(self, name: str) -> np.ndarray:
        saved = self._found[name]
        if 0 in saved.shape:
            return np.empty(saved.shape, saved.dtype.np)
        while name not in self._part:
            self._part = {}
            part = None if self._parts is None else next(self._parts, None)
            if part is None:  # the first one, or not in the order
                self._parts = self._contents.opened.parts(self._from(name))
                part = next(self._parts)
            self._part = part
        return np.asarray(self._part[name])

    def _from(self, name: str) -> dict[str, np.ndarray]:
        names = self.order[self.order.index(name) :]
        kinds = {n: self._found[n] for n in names if n in self._contents.opened.kinds}
        return {n: virtual(saved.shape, saved.dtype.np) for n, saved in kinds.items()}


class _Unread(Value):
    """A tensor of a checkpoint, which is read whenever somebody asks, and not kept."""

    def __init__(self, saved: Saved, values: _Values) -> None:
        self._saved, self._values = saved, values

    @property
    def shape(self) -> tuple[int, ...]:
        return self._saved.shape

    @property
    def dtype(self) -> Any:
        return self._saved.dtype.np

    def host(self, cell: Storage) -> np.ndarray:
        return self._values.read(self._saved.name)

    def array(self, cell: Storage) -> Any:
        return from_numpy(self.host(cell))._value


def _main() -> None:
    ways = {"torch_to_dcp": torch_save_to_dcp, "dcp_to_torch": dcp_to_torch_save}
    parser = argparse.ArgumentParser(description="Convert a checkpoint from a folder to a file, or back.")
    parser.add_argument("mode", choices=[*ways], help="which way")
    parser.add_argument("src", help="the file or folder to read")
    parser.add_argument("dst", help="the folder or file to write")
    args = parser.parse_args()
    if not os.path.exists(args.src):
        parser.error(f"{args.src} does not exist")
    ways[args.mode](args.src, args.dst)


if __name__ == "__main__":
    _main()
