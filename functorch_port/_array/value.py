"""What a Storage may hold in place of a `jax.Array`: a numpy array on the host, or a `Value`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base.tuning import tuning
from .placing import twin

if TYPE_CHECKING:
    from .storage import Storage

__all__ = [
    "HOST", "LAZY", "MADE", "OTHERS", "VALUES", "Lazy", "Made", "Shared", "Twin", "Value", "arrays_of", "computed",
]  # fmt: skip

#: the classes of values on the host
HOST: frozenset[type] = frozenset({np.ndarray, *(np.dtype(k).type for k in "?BbhilqfdFD")})
#: the classes of `Value`, those of `Lazy` and of `Made` among them, and of all that a Storage may hold in place of a
#: `jax.Array`
VALUES: set[type] = set()
LAZY: set[type] = set()
MADE: set[type] = set()
OTHERS: set[type] = set(HOST)


class Value:
    """What a `Storage` may hold in place of an array: something that can give one.

    A subclass has ``shape`` and ``dtype``. Its methods get the Storage that holds it, and may have it hold another.
    """

    __slots__ = ()
    #: whether what it stands for is on the CPU for certain
    on_cpu = True
    #: whether it must stay in its Storage, as others reach it by that
    bound = False
    #: what its Storage keeps (see `placed`); None if it keeps none
    sharding: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def dtype(self) -> Any:
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    def __init_subclass__(cls) -> None:
        VALUES.add(cls)
        OTHERS.add(cls)

    def array(self, cell: Storage) -> Any:
        """The `jax.Array`."""
        raise NotImplementedError

    def host(self, cell: Storage) -> Any:
        """The same as a numpy array, or None if it is not on the host."""
        return None

    def look(self, cell: Storage) -> Any:
        """The value where it is: numpy's array, or JAX's."""
        found = self.host(cell)
        return self.array(cell) if found is None else found

    def peek(self, cell: Storage) -> Any:
        """The array, or this itself if it waits to be computed and other Storages may hold it, too."""
        return self.array(cell)

    def kept(self, cell: Storage) -> Any:
        """The `jax.Array` where it is kept, for a program that moves it to the devices (see `offloaded`)."""
        return self.array(cell)

    def write(self, cell: Storage, value: Any) -> None:
        """Have the Storage hold a new value."""
        cell.held, cell.form = value, None

    def restore(self) -> None:
        """Undo what was written since: a Storage holds this again."""


class Lazy(Value):
    """A `Value` that is computed when somebody asks for it, and that other Storages may hold, too."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        LAZY.add(cls)

    def array(self, cell: Storage | None = None) -> Any:
        """The `jax.Array`."""
        raise NotImplementedError

    def gave(self, array: Any) -> bool:
        """Whether it was computed, and this is what it gave."""
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.array(), dtype)


class Made(Value):
    """A `Value` that has the `jax.Array`.

    Attributes:
        made: that.
    """

    __slots__ = ("made",)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        MADE.add(cls)

    def array(self, cell: Storage) -> Any:
        return self.made

    def kept(self, cell: Storage) -> Any:
        return self.made


class Twin(Made):
    """A value on the host, and the `jax.Array` that was made of it."""

    __slots__ = ("_host",)

    def __init__(self, host: Any, made: Any) -> None:
        self._host, self.made = host, made

    @property
    def shape(self) -> tuple[int, ...]:
        return self._host.shape

    @property
    def dtype(self) -> Any:
        return self._host.dtype

    @staticmethod
    def of(host: Any, made: Any) -> Any:
        """What a Storage holds once an array was made: both if they are small, else the array."""
        return Twin(host, made) if host.size <= tuning.numpy_elements else made

    def host(self, cell: Storage) -> Any:
        return self._host


class Shared(Value):
    """A value on the host that others have, too: they share the `jax.Array` that is made of it."""

    __slots__ = ("_host",)

    def __init__(self, host: np.ndarray) -> None:
        self._host = host

    @property
    def shape(self) -> tuple[int, ...]:
        return self._host.shape

    @property
    def dtype(self) -> Any:
        return self._host.dtype

    def array(self, cell: Storage) -> Any:
        made = twin(self._host)
        if cell.held is self:  # no other thread was faster
            cell.held = Twin.of(self._host, made)
        return made

    def host(self, cell: Storage) -> Any:
        return self._host


def arrays_of(cells: Sequence[Any], held: Sequence[Any]) -> list[Any]:
    """The arrays of Storages that hold these, where they are kept: for a program."""
    return [
        h if h.__class__ not in OTHERS else h.made if h.__class__ in MADE else cell.kept()
        for cell, h in zip(cells, held, strict=True)
    ]


def computed(values: Sequence[Any]) -> Sequence[Any]:
    """The values with arrays in place of the lazy ones."""
    return [v.array() if v.__class__ in LAZY else v for v in values]
