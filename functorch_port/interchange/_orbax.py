"""orbax's checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from .._array import tracing
from .._base import dtypes
from .._base.optional import optional
from .._base.tuning import tuning
from .._tensor.creation import from_jax
from .._tensor.tensor import Tensor
from ..serialization._folder import Replacement, standing
from ..serialization._tensors import placed, tensor_at
from ._tree import array_of, join, named, nbytes, put_together, state_of, take_apart, virtual

__all__ = ["Opened", "Writing", "is_ours", "load_orbax", "save_orbax"]

_KEY, _NOTHING = "functorch_port", {"empty": None}


def _orbax() -> Any:
    return optional("orbax.checkpoint", "a checkpoint of orbax", "orbax", "orbax-checkpoint")


def is_ours(name: str) -> bool:
    """Whether an entry of a folder belongs to a checkpoint, of orbax or of PyTorch's DCP."""
    known = {
        "_CHECKPOINT_METADATA", "_METADATA", "_sharding", "_strings.json", "array_metadatas", "commit_success.txt", "d",
        "manifest.ocdbt", ".metadata",
    }  # fmt: skip
    return name in known or name.startswith("ocdbt.process_") or name.endswith(".distcp")


# ----------------------------------------------------------------------- writing


class Writing:
    """A checkpoint that is being written.

    Args:
        folder: where; it appears when the checkpoint is complete.
        tree: dicts, lists and tuples of tensors, arrays, numbers, strings.
        later: whether to return when the values are copied, and write in the background.
        meet: in several processes, waits until all have come as far; it raises what went wrong in others. They meet
            before they write, when all have written, and when the checkpoint is complete.

    Raises:
        TypeError: the tree has a value of another type.
    """

    def __init__(
        self, folder: str, tree: Any, later: bool = False, meet: Callable[[], None] = lambda: None
    ) -> None:
        tensors, left = take_apart(tree)
        without = [name for name, tensor in tensors.items() if not nbytes(tensor)]
        about: dict[str, Any] = {}
        if without or left is not None or not tensors:
            about["tree"] = left
            about["empty"] = {name: [list(tensors[name].shape), tensors[name].dtype.name] for name in without}
        arrays = _arrays(tree, {name: t for name, t in tensors.items() if name not in without}, "")
        if "" in tensors:  # a single tensor, but entries of a checkpoint have names
            arrays = None if without else {"": arrays}
        self._checkpointer = _writer(max(map(nbytes, tensors.values()), default=0), later, meet)
        try:
            self._checkpointer.save(
                folder,
                args=_orbax().args.PyTreeSave(arrays or _NOTHING),
                custom_metadata={_KEY: about} if about else None,
            )
        except BaseException:
            self._checkpointer.close()
            raise

    def wait(self) -> None:
        """Wait until it is complete."""
        try:
            self._checkpointer.wait_until_finished()
        finally:
            self._checkpointer.close()


def _writer(most: int, later: bool, meet: Callable[[], None]) -> Any:
    """What writes a checkpoint, whose largest array has so many bytes.

    To orbax each process is alone, so that none waits for another one that has failed: it calls ``meet`` instead.
    """
    orbax = _orbax()
    limit = max(tuning.checkpoint_part, 2 * most) / 1e9
    # compressed weights are hardly smaller, and wait in memory to be written
    options: dict[str, Any] = {"use_compression": False, "save_concurrent_gb": limit}
    if not later:
        types = orbax.type_handlers
        options["save_device_host_concurrent_gb"] = limit
        options["type_handler_registry"] = types.create_type_handler_registry(
            (np.ndarray, types.NumpyHandler(deepcopy_host_arrays=False)), (jax.Array, types.ArrayHandler())
        )
    handler = orbax.PyTreeCheckpointHandler(**options)
    write = handler.async_save

    async def async_save(directory: Any, **given: Any) -> Any:
        if jax.process_count() > 1 and jax.process_index() == 0:
            # the others would wait for it in vain, if this one failed
            (directory / "array_metadatas").mkdir()
        meet()
        return await write(directory, **given)

    handler.async_save = async_save
    return orbax.AsyncCheckpointer(
        handler,
        async_options=orbax.AsyncOptions(
            timeout_secs=_DAY, barrier_sync_fn=lambda **_: meet(), create_directories_asynchronously=False
        ),
        multiprocessing_options=_alone(),
        checkpoint_metadata_store=orbax.metadata.metadata_store(enable_write=True, blocking_write=True),
    )


_DAY = 24 * 3600


def _alone() -> Any:
    """Options of orbax by which a process does not wait for the others."""
    return _orbax().options.MultiprocessingOptions(active_processes={jax.process_index()})


def save_orbax(path: str | os.PathLike[str], obj: Any, force: bool = False) -> None:
    """Save the state of a module or optimizer, or a tree of tensors, as an orbax checkpoint (a folder).

    `orbax.checkpoint.StandardCheckpointer` can read it as a tree of arrays. Numbers, strings and empty tensors are in
    the custom metadata. An existing checkpoint is replaced only when the new one is complete.

    Args:
        path: the folder.
        obj: an object with a ``state_dict()``, or a tree: dicts, lists and tuples of tensors, arrays, numbers, strings.
        force: whether to replace an existing checkpoint.

    Raises:
        TypeError: ``obj`` has a value of another type.
        ValueError: the path exists, and ``force`` is False.
        ModuleNotFoundError: orbax is not installed.

    Example:
        >>> import os, tempfile
        >>> import functorch_port as torch
        >>> from functorch_port import interchange
        >>> path = os.path.join(tempfile.mkdtemp(), "checkpoint")
        >>> interchange.save_orbax(path, {"weight": torch.ones(2), "epoch": 3})
        >>> interchange.load_orbax(path)
        {'weight': tensor([1., 1.]), 'epoch': 3}

    Reference: https://orbax.readthedocs.io/en/latest/guides/checkpoint/checkpointing_pytrees.html
    """
    tree = state_of(obj)
    _orbax()
    path = os.path.abspath(path)
    if os.path.lexists(path) and not force:
        raise ValueError(f"{path} already exists; force=True replaces it")
    with Replacement(path, is_ours) as made:
        Writing(made.new, tree).wait()


def _arrays(tree: Any, tensors: dict[str, Tensor], path: str) -> Any:
    """The tree without anything but arrays; a list that loses an element becomes a dict."""
    if path in tensors:
        value = tensors[path].detach()._look()
        spread = isinstance(value, jax.Array) and len(value.devices()) > 1
        return value if spread else array_of(path, tensors[path])
    if isinstance(tree, Mapping):
        parts: Any = list(tree.items())
    else:
        parts = list(enumerate(tree)) if isinstance(tree, list | tuple) else []
    found = {str(key): _arrays(value, tensors, join(path, key)) for key, value in parts}
    kept = {key: value for key, value in found.items() if value is not None}
    whole = not isinstance(tree, Mapping) and len(kept) == len(parts)
    return (list(kept.values()) if whole else kept) or None


# ----------------------------------------------------------------------- reading


class Opened:
    """A checkpoint that is read part by part.

    Args:
        path: the folder.

    Attributes:
        kinds: shape and dtype of each array by name, in the order of the tree.
        about: what `Writing` wrote beside the arrays, or None: the checkpoint is another program's.

    Raises:
        ValueError: it is no checkpoint that `orbax.checkpoint.StandardCheckpointer` can read.
    """

    def __init__(self, path: str) -> None:
        self.path, self._library = path, _orbax()
        with self._library.StandardCheckpointer() as checkpointer:
            step = checkpointer.metadata(path)
        self._tree = getattr(step.item_metadata, "tree", None)
        if self._tree is None:
            raise ValueError(f"{path} is not a checkpoint of orbax's StandardCheckpointer")
        self.about = (step.custom_metadata or {}).get(_KEY)
        numbers = self._library.metadata.ScalarMetadata
        self.kinds = {name: kind for name, kind in named(self._tree) if hasattr(kind, "shape")}
        self._scalars = {n: k.dtype.type(0).item() for n, k in self.kinds.items() if isinstance(k, numbers)}

    def read(self, where: Callable[[str, Any], Any]) -> Any:
        """The tree; an array that is not read is orbax's placeholder.

        Args:
            where: of a name and a kind, what orbax restores it as: a number, a numpy array of the shape and dtype, or a
                `jax.ShapeDtypeStruct` with a sharding; None: it is not read.
        """
        library = self._library

        def wanted(tree: Any, name: str) -> Any:
            if isinstance(tree, Mapping):
                return {key: wanted(value, join(name, key)) for key, value in tree.items()}
            if isinstance(tree, list | tuple):
                return type(tree)(wanted(value, join(name, i)) for i, value in enumerate(tree))
            if name in self.kinds:
                made = self._scalars[name] if name in self._scalars else where(name, tree)
                return library.PLACEHOLDER if made is None else made
            return None if tree is None else library.PLACEHOLDER

        target = wanted(self._tree, "")
        if all(leaf is None or leaf is library.PLACEHOLDER for _, leaf in named(target)):
            return target
        args = library.args.PyTreeRestore(
            item=target, restore_args=library.checkpoint_utils.construct_restore_args(target)
        )
        with (
            tracing.x64(),
            library.Checkpointer(
                library.PyTreeCheckpointHandler(), multiprocessing_options=_alone()
            ) as checkpointer,
        ):
            return checkpointer.restore(self.path, args=args)

    def parts(self, where: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Arrays by name, as many at once as `tuning.checkpoint_part` allows; ``where`` is as for `read`, by name."""
        names: list[str] = []
        size = 0
        for name in where:
            kind = self.kinds[name]
            more = int(np.prod(kind.shape, dtype=np.int64)) * kind.dtype.itemsize
            if names and size + more > tuning.checkpoint_part:
                yield self._some(names, where)
                names, size = [], 0
            names.append(name)
            size += more
        if names:
            yield self._some(names, where)

    def _some(self, names: list[str], where: Mapping[str, Any]) -> dict[str, Any]:
        chosen = {*names}
        found = dict(named(self.read(lambda name, kind: where[name] if name in chosen else None)))
        return {name: found[name] for name in names}

    def empty(self) -> Iterator[tuple[str, tuple[int, ...], dtypes.dtype]]:
        """Name, shape and dtype of the tensors without elements, of which orbax has no arrays."""
        for name, (shape, dtype) in (self.about or {}).get("empty", {}).items():
            yield name, tuple(shape), dtypes.from_name(dtype)

    def tree(self, leaves: Mapping[str, Any]) -> Any:
        """The whole tree, as it was saved, with these leaves for its tensors."""
        if self.about is not None:
            return put_together(leaves, self.about["tree"], self.path)

        def made(tree: Any, name: str) -> Any:
            if isinstance(tree, Mapping):
                return {key: made(value, join(name, key)) for key, value in tree.items()}
            if isinstance(tree, list | tuple):
                return type(tree)(made(value, join(name, i)) for i, value in enumerate(tree))
            return leaves.get(name, tree)

        return made(self._tree, "")


def load_orbax(path: str | os.PathLike[str], device: Any = "cpu") -> Any:
    """Load a checkpoint of `save_orbax`, or the tree of another orbax checkpoint, with tensors for arrays.

    Args:
        path: the folder.
        device: where tensors go: a device, a `jax.sharding.Sharding`, or a function from a tensor's name to one of
            these; ``"meta"`` does not read their values.

    Raises:
        FileNotFoundError: the folder does not exist.
        ModuleNotFoundError: orbax is not installed.
    """
    path = standing(os.path.abspath(path))
    if not os.path.isdir(path):
        raise FileNotFoundError(f"{path} is not a folder with a checkpoint")
    opened = Opened(path)
    places: dict[str, Any] = {}
    leaves: dict[str, Any] = {}

    def target(name: str, kind: Any) -> Any:
        places[name] = where = placed(device, name)
        if str(where) == "meta":
            leaves[name] = tensor_at(virtual(kind.shape, kind.dtype), where)
            return None
        if isinstance(where, jax.sharding.Sharding):
            return jax.ShapeDtypeStruct(kind.shape, kind.dtype, sharding=where)
        return virtual(kind.shape, kind.dtype)

    for name, leaf in named(opened.read(target)):
        if isinstance(leaf, jax.Array):
            leaves[name] = from_jax(leaf)
        elif isinstance(leaf, np.ndarray):
            leaves[name] = tensor_at(leaf, places[name])
        elif name in opened.kinds and name not in leaves:
            leaves[name] = leaf
    for name, shape, dtype in opened.empty():
        leaves[name] = tensor_at(np.empty(shape, dtype.np), placed(device, name))
    return opened.tree(leaves)
