"""Loading a distributed checkpoint: `load`."""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from ..._array import placed, placing
from ..._base import agreement
from ..._tensor.grad_mode import no_grad
from ..._tensor.tensor import Tensor, wrap
from ...interchange._tree import virtual
from ...optim.optimizer import Optimizer
from ...serialization._tensors import tensor_at
from ._flat import Place, flattened
from .api import stage
from .default_planner import DefaultLoadPlanner, checked
from .filesystem import Contents, FileSystemReader, Saved
from .metadata import TensorStorageMetadata
from .state_dict import made_state
from .state_dict_saver import check_processes, is_tensor, storage
from .stateful import Stateful

__all__ = ["load", "load_state_dict"]


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: FileSystemReader | None = None,
    planner: DefaultLoadPlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Load a checkpoint into a state, in place.

    A tensor keeps its dtype, device and placement, and gets the saved values: each device reads the part that it is to
    have, however the tensor lay when it was saved. One on the meta device is replaced by a tensor. Other entries are
    replaced by the saved values. An object with ``load_state_dict`` takes its state back; an optimizer without one
    makes it before, if the checkpoint has one.

    Args:
        state_dict: what to load: as for `save`, or parts of it.
        checkpoint_id: the folder.
        storage_reader: a `FileSystemReader`, instead of a folder.
        planner: a `DefaultLoadPlanner`, which may allow that entries are missing.
        process_group: must be None: all processes load together.
        no_dist: in a single process without effect; in several it must be False.

    Raises:
        CheckpointException: there is no checkpoint, it has not all entries, or a tensor has another size, in one of the
            processes; all raise it, and nothing has changed then. Or its files are damaged.
        RuntimeError: there is neither a folder nor a reader.
        NotImplementedError: for other arguments.
        ModuleNotFoundError: orbax is not installed.

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.state_dict_loader.load
    """
    check_processes(process_group, no_dist)
    partial = checked(planner, DefaultLoadPlanner).allow_partial_load
    reader = storage(storage_reader, checkpoint_id, FileSystemReader)
    with stage("plan"), agreement.telling("load"):
        contents = Contents(reader.path)
        for key, value in state_dict.items():
            if isinstance(value, Optimizer) and any(
                name.startswith(f"{key}.state.") for name in contents.entries
            ):
                made_state(value)
        states = {
            k: v.state_dict() if isinstance(v, Stateful) else v
            for k, v in sorted(state_dict.items(), key=_name)
        }
        places = _found(flattened(states, is_tensor), contents, partial)
        agreement.alike("load", {"the folder": reader.path})
    with stage("read"), agreement.telling("load"):
        _read(places, contents)
        agreement.alike("load", {})
    for key, state in states.items():
        if isinstance(state_dict[key], Stateful):
            state_dict[key].load_state_dict(state)
        else:
            state_dict[key] = state


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: FileSystemReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: DefaultLoadPlanner | None = None,
) -> None:
    """The deprecated form of `load`."""
    warnings.warn(
        "`load_state_dict` is deprecated and will be removed in future versions. Please use `load` instead.",
        FutureWarning,
        stacklevel=2,
    )
    if coordinator_rank:
        raise NotImplementedError("load_state_dict(coordinator_rank=) is not supported: it is process 0")
    load(
        state_dict,
        storage_reader=storage_reader,
        process_group=process_group,
        no_dist=no_dist,
        planner=planner,
    )


def _name(item: tuple[Any, Any]) -> str:
    return str(item[0])


def _found(asked: Mapping[str, Place], contents: Contents, partial: bool) -> list[tuple[Place, Any]]:
    """The entries that were asked for, each with what the checkpoint has for it.

    Raises:
        RuntimeError: it has not one of them.
        ValueError: a tensor has another size, or is none on one side.
    """
    found = []
    for name, place in asked.items():
        if name not in contents.entries:
            if partial:
                continue
            raise RuntimeError(
                f"Missing key in checkpoint state_dict: {name}.{_close(name, contents)} To do without it: "
                "load(..., planner=DefaultLoadPlanner(allow_partial_load=True))"
            )
        saved = contents.entries[name].value
        if isinstance(saved, Exception):
            raise saved
        if isinstance(saved, Saved):
            if not is_tensor(place.value):
                raise ValueError(
                    f"Invalid checkpoint metadata for {name}, expected BytesStorageMetadata but found "
                    f"{TensorStorageMetadata}: a tensor of the size {list(saved.shape)} was saved, and a value of type "
                    f"{type(place.value).__name__} is asked for"
                )
            if tuple(place.value.shape) != saved.shape:
                raise ValueError(
                    f"Size mismatch between saved torch.Size({list(saved.shape)}) and current: "
                    f"torch.Size({list(place.value.shape)}) for {name}"
                )
            if isinstance(place.value, Tensor) and place.value._sparse:
                raise NotImplementedError(f"{name} is sparse: load into a dense tensor")
        found.append((place, saved))
    return found


def _close(name: str, contents: Contents) -> str:
    close = difflib.get_close_matches(name, [*contents.entries], n=3)
    return f" The checkpoint has {', '.join(close) or ', '.join([*contents.entries][:5])}. ({contents.path})"


def _read(places: list[tuple[Place, Any]], contents: Contents) -> None:
    """Read what was found, part by part, and put it where it belongs."""
    wanted: dict[str, list[Place]] = {}
    targets: dict[str, Any] = {}
    loose: dict[str, np.ndarray] = {}
    for place, saved in places:
        if isinstance(saved, Saved):
            if saved.name in contents.opened.kinds:
                wanted.setdefault(saved.name, []).append(place)
                targets[saved.name] = _target(place.value, saved)
            else:
                _put(place, np.empty(saved.shape, saved.dtype.np))
        else:  # a tuple may have tensors in it
            for inner in inside(saved):
                targets[inner.name] = virtual(inner.shape, inner.dtype.np)
                wanted.setdefault(inner.name, [])
    for part in contents.opened.parts(targets):
        for name, value in part.items():
            for place in wanted[name]:
                _put(place, value)
            if not wanted[name]:
                loose[name] = value
    for place, saved in places:
        if not isinstance(saved, Saved):
            place.container[place.key] = _filled(saved, loose)


def inside(value: Any) -> Iterator[Saved]:
    """The tensors of an entry: itself, or those in a tuple."""
    if isinstance(value, Saved):
        yield value
    elif isinstance(value, list | tuple | Mapping):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from inside(part)


def _filled(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, Saved):
        array = arrays[value.name] if value.name in arrays else np.empty(value.shape, value.dtype.np)
        return tensor_at(np.asarray(array), "cpu")
    if isinstance(value, Mapping):
        return {key: _filled(part, arrays) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_filled(part, arrays) for part in value)
    return value


def _target(value: Any, saved: Saved) -> Any:
    """What orbax is to restore a value as."""
    sharding = _sharding(value)
    if sharding is None:
        return virtual(saved.shape, saved.dtype.np)
    return jax.ShapeDtypeStruct(saved.shape, saved.dtype.np, sharding=sharding)


def _sharding(value: Any) -> Any:
    """How a value lies on several devices; None for one."""
    if isinstance(value, Tensor):
        declared = placed.sharding_of(value._storage) if value._view is None else None
        if declared is not None:
            return declared
        value = value._look()
    spread = isinstance(value, jax.Array) and len(value.sharding.device_set) > 1
    return value.sharding if spread else None


def _put(place: Place, array: Any) -> None:
    """Put a value that was read where an entry of the state is."""
    value, sharding = place.value, _sharding(place.value)
    if isinstance(value, np.ndarray):
        place.container[place.key] = np.asarray(array)
        return
    if isinstance(value, jax.Array):
        place.container[place.key] = (
            placing.put(np.asarray(array), value.sharding) if sharding is None else array
        )
        return
    if sharding is None:
        made = tensor_at(np.asarray(array), "cpu")
    else:
        made = wrap(placed.Placed(array, placed.made_auto(sharding)))
    if value.is_meta:
        place.container[place.key] = made.to(value.dtype)
        return
    with no_grad():
        value.detach().copy_(made)
