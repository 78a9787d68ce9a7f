"""`DeviceMesh`: devices as an array with named dimensions. It is a `jax.sharding.Mesh` with PyTorch's names."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from .._array import placed
from .._base import agreement, meshes
from .._base.device import from_jax
from .._tensor.creation.from_data import tensor as make_tensor
from .._tensor.tensor import Tensor
from . import _groups
from ._group import ProcessGroup

__all__ = ["DeviceMesh", "init_device_mesh"]


class _Thread(threading.local):
    def __init__(self) -> None:
        self.meshes: list[DeviceMesh] = []
        self.local: dict[str, int] = {}


_thread = _Thread()

#: JAX's meshes -> those that were made of ranks: they know which dimensions have no names
_made: dict[Mesh, DeviceMesh] = {}


class DeviceMesh:
    """Devices as an array, with a name for each dimension.

    Here a program sees all devices: a tensor on a mesh is the whole tensor, and its placements say which device has
    which part. A rank is a device if one process drives all devices, and a process if there are as many of these. Where
    each process has several devices, and the mesh is as large as the number of processes, each position of the mesh is
    the devices of a process, which hold the same.

    Args:
        device_type: ``"cpu"``, ``"cuda"``, ``"tpu"``.
        mesh: numbers of ranks, as a tensor or a nested list of one dimension for each of the mesh; or a
            `jax.sharding.Mesh`.
        mesh_dim_names: the names of the dimensions.

    Raises:
        RuntimeError: the mesh is larger than the number of ranks, a name occurs twice, or the processes make different
            meshes.

    Example:
        >>> from functorch_port.distributed.device_mesh import init_device_mesh
        >>> mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
        >>> mesh["tp"].size()
        1

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.device_mesh.DeviceMesh
    """

    #: the topology that its devices stand for, if they are not here; modules on the meta device stay there
    topology = ""

    @agreement.telling("DeviceMesh")
    def __init__(
        self, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None
    ) -> None:
        if isinstance(mesh, Mesh):
            numbers = {device: i for i, device in enumerate(meshes.by_process(jax.devices()))}
            found = np.vectorize(lambda device: numbers.get(device, device.id), otypes=[int])(mesh.devices)
            names = tuple(map(str, mesh.axis_names)) if mesh_dim_names is None else tuple(mesh_dim_names)
            self._set(
                device_type, found, names, meshes.mesh_of(mesh.devices, mesh.axis_names), mesh.axis_names
            )
            return
        ranks = np.arange(jax.device_count()) if mesh is None else _array(mesh)
        names_given = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if names_given is not None and len(set(names_given)) < len(names_given):
            raise RuntimeError(
                f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {names_given}"
            )
        if names_given is not None and len(names_given) != ranks.ndim:
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! "
                f"Found len(mesh_dim_names): {len(names_given)} and len(mesh_shape):{ranks.ndim}."
            )
        devices, by_process = _devices_of(device_type, ranks)
        about = f"{device_type!r} of shape {ranks.shape}, of the ranks {ranks.tolist()}, names {names_given}"
        agreement.alike("DeviceMesh", {"mesh": about})
        axes = tuple(f"dim_{i}" for i in range(ranks.ndim)) if names_given is None else names_given
        made = meshes.mesh_of(devices, (*axes, *([OWN] if by_process else [])))
        self._set(device_type, ranks, names_given, made, axes)
        _made[made] = self

    def _set(
        self, device_type: str, ranks: np.ndarray, names: Any, mesh: Mesh, axes: Sequence[str]
    ) -> DeviceMesh:
        self.device_type, self._ranks, self.mesh_dim_names = device_type, ranks, names
        #: the `jax.sharding.Mesh` of all devices, and the names in it of these dimensions, one or several for each
        self.jax_mesh, self.axes = mesh, tuple(axes)
        placed.use(mesh)
        return self

    # ---------------------------------------------------------------- sizes

    @property
    def mesh(self) -> Tensor:
        """The numbers of the ranks, a CPU tensor of int32."""
        return make_tensor(self._ranks.astype(np.int32))

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of ranks along each dimension."""
        return self._ranks.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._ranks.ndim

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of ranks, of all or along one dimension."""
        return self._ranks.size if mesh_dim is None else self._ranks.shape[mesh_dim]

    # ------------------------------------------------------------- submeshes

    def __getitem__(self, mesh_dim_names: str | Sequence[str]) -> DeviceMesh:
        """The mesh of some of the dimensions. Tensors placed on it are the same along the others."""
        if self.mesh_dim_names is None:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        known = {name: i for i, name in enumerate(self.mesh_dim_names)}
        if any(name not in known for name in names):
            raise KeyError(
                f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {[*self.mesh_dim_names]}."
            )
        places = [known[name] for name in names]
        if places != sorted(places):
            raise KeyError(
                f"Invalid mesh_dim_names {names} specified. Mesh dim indices should be in ascending order."
            )
        if len(places) == self.ndim:
            return self
        here = self._place_of(self._own_rank()) or (0,) * self.ndim
        index = tuple(slice(None) if i in places else here[i] for i in range(self.ndim))
        sub: DeviceMesh = object.__new__(DeviceMesh)
        sub.topology = self.topology
        return sub._set(
            self.device_type, self._ranks[index], names, self.jax_mesh, [self.axes[i] for i in places]
        )

    # ----------------------------------------------------------------- ranks

    def get_rank(self) -> int:
        """The rank of this process: the first one that it drives."""
        if _thread.local:
            raise NotImplementedError(
                "the rank in a function that local_map runs on each part is not a Python number: one program serves "
                "all parts. Use torch.distributed._functional_collectives.axis_index(mesh), a tensor"
            )
        return self._own_rank()

    def _own_rank(self) -> int:
        own = self.jax_mesh.axis_names[-1] == OWN
        return jax.process_index() * (1 if own else jax.local_device_count())

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Where this process (its first device) is in the mesh; None if it is not in it."""
        return self._place_of(self.get_rank())

    def _place_of(self, rank: int) -> tuple[int, ...] | None:
        found = np.argwhere(self._ranks == rank)
        return tuple(map(int, found[0])) if len(found) else None

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Where this process is along a dimension.

        Raises:
            RuntimeError: there are several dimensions, and none is given.
            KeyError: there is no dimension of this name.
        """
        dim, coordinate = self._dim_of(mesh_dim), self.get_coordinate()
        if coordinate is None:
            raise RuntimeError("this process is not in the mesh")
        return coordinate[dim]

    def _dim_of(self, mesh_dim: int | str | None) -> int:
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions",
                    "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                )
            return 0
        if not isinstance(mesh_dim, str):
            return mesh_dim
        if mesh_dim not in (self.mesh_dim_names or ()):
            raise KeyError(
                f"Mesh dimension '{mesh_dim}' does not exist.",
                f"Available mesh dimensions are: mesh_dim_names={self.mesh_dim_names}",
            )
        return self.mesh_dim_names.index(mesh_dim)

    # ---------------------------------------------------------------- groups

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The processes along a dimension, for the collectives of `torch.distributed`; all call it together.

        A process that drives all devices of the dimension is alone in its group.

        Raises:
            RuntimeError: there are several dimensions, and none is given; there is no process group.
            ValueError: the devices of this process are in several such rows, of other processes each.
        """
        axis, made = self.axes[self._dim_of(mesh_dim)], _made_groups.setdefault(_groups.default_group(), {})
        if (self.jax_mesh, axis) not in made:
            devices = np.moveaxis(self.jax_mesh.devices, self.jax_mesh.axis_names.index(axis), -1)
            rows = devices.reshape(-1, devices.shape[-1])
            lists = dict.fromkeys(tuple(dict.fromkeys(d.process_index for d in row)) for row in rows)
            made[self.jax_mesh, axis], _ = _groups.new_subgroups_by_enumeration([*lists])
        return made[self.jax_mesh, axis]

    def get_all_groups(self) -> list[ProcessGroup]:
        """`get_group` of each dimension."""
        return [self.get_group(i) for i in range(self.ndim)]

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        raise NotImplementedError(
            "DeviceMesh._flatten is not supported: XLA splits a dimension of a tensor by several of the mesh, as in "
            "sharding.shard(net, {'weight': P(('dp', 'tp'))}, mesh). Or make a mesh with that dimension whole"
        )

    # --------------------------------------------------------------- current

    def __enter__(self) -> DeviceMesh:
        _thread.meshes.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _thread.meshes.pop()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DeviceMesh)
            and self.device_type == other.device_type
            and self.mesh_dim_names == other.mesh_dim_names
            and (self.jax_mesh, self.axes) == (other.jax_mesh, other.axes)
        )

    def __hash__(self) -> int:
        return hash((self.device_type, self.mesh_dim_names, self.jax_mesh, self.axes))

    def __repr__(self) -> str:
        names = self.mesh_dim_names
        shape = [str(n) if names is None else f"{names[i]}={n}" for i, n in enumerate(self.shape)]
        strides = [math.prod(self.shape[i + 1 :]) for i in range(self.ndim)]
        sizes = f"{shape[0]}," if len(shape) == 1 and names is None else ", ".join(shape)
        last = f"{strides[0]}," if len(strides) == 1 else ", ".join(map(str, strides))
        return f"DeviceMesh(({sizes}), '{self.device_type}', stride=({last}))"


def local_axes() -> dict[str, int]:
    """The axes, with their sizes, over whose parts a function is running (see `local_map`)."""
    return _thread.local


@contextmanager
def on_parts(mesh: DeviceMesh) -> Iterator[None]:
    """A function runs on each part."""
    before = _thread.local
    _thread.local = {**before, **dict(zip(mesh.axes, mesh.shape, strict=True))}
    try:
        yield
    finally:
        _thread.local = before


#: the groups of meshes, by the group of all processes
_made_groups: weakref.WeakKeyDictionary[ProcessGroup, dict[Any, Any]] = weakref.WeakKeyDictionary()

#: the name in a `jax.sharding.Mesh` of the devices of one process
OWN = "_own"


def _array(mesh: Any) -> np.ndarray:
    return np.asarray(mesh.numpy() if isinstance(mesh, Tensor) else mesh, int)


def _devices_of(device_type: str, ranks: np.ndarray) -> tuple[np.ndarray, bool]:
    """The devices of ranks; and whether these are processes, whose devices are one dimension more."""
    _check_type(device_type)
    if not ranks.size:
        raise RuntimeError(f"a mesh has one device at least, and this one none: its shape is {ranks.shape}")
    devices, processes = meshes.by_process(jax.devices()), jax.process_count()
    by_process = 1 < processes < devices.size and ranks.size <= processes
    count = processes if by_process else devices.size
    if ranks.size > count:
        more = "" if device_type != "cpu" else (
            ". A CPU is divided by functorch-port launch --devices-per-proc N, or, before JAX begins, by the "
            "environment variable XLA_FLAGS=--xla_force_host_platform_device_count=N"
        )  # fmt: skip
        raise RuntimeError(
            f"Mesh should not be bigger than default world size {count}, but found {ranks.size} ranks! The shape "
            f"{ranks.shape} needs {ranks.size} devices, and {processes} process(es) have {count}: give a smaller "
            f"one, or start the program with more devices{more}"
        )
    if ranks.min() < 0 or ranks.max() >= count or len({*ranks.flat}) < ranks.size:
        raise RuntimeError(
            f"a mesh has ranks from 0 to {count - 1}, each once; this one has {ranks.tolist()}"
        )
    return (devices.reshape(processes, -1) if by_process else devices)[ranks], by_process


def _check_type(device_type: str) -> None:
    if ":" in device_type:
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. ",
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.",
        )
    have = from_jax(jax.devices()[0]).type
    if device_type != have and (device_type, have) != ("xla", "tpu"):
        raise RuntimeError(f"a mesh of {device_type!r} devices: JAX has devices of the type {have!r}")


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """A `DeviceMesh` of a shape, over the first devices in their order.

    Args:
        device_type: ``"cpu"``, ``"cuda"``, ``"tpu"``.
        mesh_shape: the number of devices along each dimension.
        mesh_dim_names: the names of the dimensions.
        backend_override: must be None: XLA does the communication.

    Raises:
        RuntimeError: there are fewer devices, a name occurs twice, or there is not one for each dimension.
        NotImplementedError: for ``backend_override``.

    Example:
        >>> from functorch_port.distributed.device_mesh import init_device_mesh
        >>> init_device_mesh("cpu", (1,), mesh_dim_names=("dp",))
        DeviceMesh((dp=1), 'cpu', stride=(1,))

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.device_mesh.init_device_mesh
    """
    if backend_override is not None:
        raise NotImplementedError("init_device_mesh(backend_override=) is not supported: XLA communicates")
    ranks = np.arange(math.prod(mesh_shape)).reshape(tuple(mesh_shape))
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)


def current_mesh() -> DeviceMesh:
    """The mesh of the innermost ``with mesh:`` block, or that of `jax.set_mesh`.

    Raises:
        RuntimeError: there is none, or a trace hides that of `jax.set_mesh`, or its axes are Explicit.
    """
    if _thread.meshes:
        return _thread.meshes[-1]
    try:
        mesh = jax.sharding.get_mesh()
    except ValueError as error:
        raise RuntimeError(
            "No device mesh is currently active! In a traced function give the mesh"
        ) from error
    if mesh.empty:
        raise RuntimeError("No device mesh is currently active!")
    if not meshes.is_auto(mesh):
        raise RuntimeError(
            "jax.set_mesh has set a mesh with Explicit axes, which have JAX refuse what it cannot infer: use "
            "`with use_mesh(mesh):` of functorch_port.distributed.sharding in its place, or make the mesh with "
            "jax.make_mesh(..., axis_types=(AxisType.Auto, ...))"
        )
    return mesh_of(mesh)


def mesh_of(mesh: DeviceMesh | Mesh | None) -> DeviceMesh:
    """A mesh of JAX's or PyTorch's kind, or the current one, as a `DeviceMesh`."""
    if mesh is None:
        return current_mesh()
    if isinstance(mesh, Mesh):
        return _made.get(mesh) or DeviceMesh(mesh.devices.flat[0].platform, mesh)
    if not isinstance(mesh, DeviceMesh):
        raise TypeError(f"a mesh is a DeviceMesh or a jax.sharding.Mesh, not {type(mesh).__name__}")
    return mesh
