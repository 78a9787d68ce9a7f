"""The one mutable cell of the library, and the hook through which a trace sees it.

Everything that PyTorch mutates lives in a `Storage`. Reading and writing `Storage.value` are the only two side effects
there are; `compile` watches both through the `overlay`.
"""

from __future__ import annotations

import _thread
import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import jax
import numpy as np

from .._base import inside, settings
from .._base.bounded import Bounded
from .._base.modes import OfThread
from .._base.tuning import tuning

__all__ = [
    "HOST",
    "OTHERS",
    "VALUES",
    "Storage",
    "Twin",
    "Value",
    "as_array",
    "bump_epoch",
    "epoch",
    "outside",
    "x64",
]

#: Whether int64 and float64 are real (the default). The lean mode for TPU stores them as int32 and float32.
X64: bool = settings.get("X64")


def x64() -> Any:
    """The context in which the library runs its own operations; the user's own JAX code keeps its setting."""
    return jax.enable_x64(X64)


@contextmanager
def outside() -> Iterator[None]:
    """Compute real values, of real tensors, while a trace is going on."""
    with overlaid(None), jax.ensure_compile_time_eval(), x64():
        yield


class Overlay(Protocol):
    """What a trace provides: values of Storages during the trace, kept apart from their real values."""

    rng: str
    #: whether this is a transform of `func`, which has no tape and runs operations itself
    transforms: bool
    #: whether a tensor may get another Storage in it (``.data =``); else such a write changes the value alone
    rebinds: bool
    #: whether the program stays in this process, so that it may use lowerings of our own (see `_base.lowering`)
    local: bool

    def device(self) -> Any: ...
    def read(self, storage: Storage) -> Any: ...
    def write(self, storage: Storage, value: Any) -> None: ...
    def created(self, storage: Storage) -> None: ...


class _OfThread(OfThread):
    """What `overlay` is while some thread has one: true in such a thread, where its attributes are those of
    that thread's `Overlay`, and false in all others.
    """

    own: Any = None

    def __bool__(self) -> bool:
        return self.own is not None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def put_back(self) -> None:
        _set_overlay(self.own)


#: None unless some thread is in a trace or a transform, which makes ``if storage.overlay:`` cheap for everybody else;
#: then see `_OfThread`. Ask for its truth, never whether it is None.
overlay: Any = None

_of_thread = _OfThread()
_threads: set[int] = set()
_setting = threading.RLock()


def current() -> Any:
    """The `Overlay` of this thread, or None."""
    return _of_thread.own


@contextmanager
def overlaid(new: Any) -> Iterator[Any]:
    """Make ``new`` the overlay of this thread (None: have none). Used only by `compile` and `func`."""
    previous = _of_thread.own
    _set_overlay(new)
    try:
        yield new
    finally:
        _set_overlay(previous)


def _of_some_thread(mine: Any, on: bool, threads: set[int]) -> Any:
    """Note in ``threads`` whether this one is among them; ``mine``, or None if there are none."""
    (threads.add if on else threads.discard)(threading.get_ident())
    return mine if threads else None


def _set_overlay(new: Any) -> None:
    global overlay
    with _setting:
        _of_thread.own = new
        overlay = _of_some_thread(_of_thread, new is not None, _threads)


def in_jax() -> bool:
    """Whether a transform of JAX is running that the user wrote (see `_base.inside`), and none of ours in it."""
    return not overlay and inside.top_trace(None) is not inside.NO_TRACE


#: Held by whoever changes what several threads may be changing: a trace, a compiled call, an optimizer's step, a
#: gradient that is added to another. It may be taken again by the thread that has it.
turn = threading.RLock()


#: How many of Python's threads there are beside the main one. If there are none nobody need wait for the `turn`.
#: (`threading.active_count` takes ten times as long, and does not know all.)
others = _thread._count


def is_local() -> bool:
    """Whether what is traced now becomes a program of ours alone, which JAX does not differentiate or export."""
    return not overlay or overlay.local


#: Counts changes of program structure: modules, optimizer groups, modes. Compiled functions recheck their
#: guards when it moves.
epoch = 0


#: Counts how often a plain attribute of a module was set, of those whose names are in `watched`: compiled functions
#: have read an attribute of that name.
attributes = 0
watched: set[str] = set()


def bump_epoch() -> None:
    """Note that a module, an optimizer or a mode changed in a way that a compiled function may depend on."""
    global epoch
    epoch += 1


class Untracked(int):
    """How often was written to what was made in inference mode, which such a number says."""

    def __add__(self, other: int) -> Untracked:
        return Untracked(int(self) + other)

    def __sub__(self, other: int) -> Untracked:
        return Untracked(int(self) - other)


UNTRACKED = Untracked()


class _Inferring(OfThread):
    """What `inferring` is while some thread is in inference mode: true in such a thread."""

    on = False

    def __bool__(self) -> bool:
        return self.on


#: None unless some thread is in inference mode. Ask for its truth, never whether it is None.
inferring: Any = None
_inferring = _Inferring()
_inferring_threads: set[int] = set()


def set_inferring(on: bool) -> None:
    """Note whether this thread is in inference mode: what is made then is marked."""
    global inferring
    with _setting:
        _inferring.on = on
        inferring = _of_some_thread(_inferring, on, _inferring_threads)


#: the classes of values on the host
HOST: frozenset[type] = frozenset({np.ndarray, *(np.dtype(k).type for k in "?BbhilqfdFD")})
#: the classes of `Value`, those of `Lazy` among them, and of all that a Storage may hold in place of a `jax.Array`
VALUES: set[type] = set()
LAZY: set[type] = set()
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


class Twin(Value):
    """A value on the host, and the `jax.Array` that was made of it."""

    __slots__ = ("_host", "made")

    def __init__(self, host: Any, made: Any) -> None:
        self._host, self.made = host, made

    @property
    def shape(self) -> tuple[int, ...]:
        return self._host.shape

    @property
    def dtype(self) -> Any:
        return self._host.dtype

    def array(self, cell: Storage) -> Any:
        return self.made

    def host(self, cell: Storage) -> Any:
        return self._host


class Storage:
    """The one mutable cell.

    Attributes:
        held: a `jax.Array` (a tracer in a trace, a `ShapeDtypeStruct` on the meta device), a numpy array on the host,
            to which nobody writes, or a `Value`. CPython switches threads at calls and where a loop starts again: what
            is tested of a Storage and written to it without a call between is tested and written at once.
        form: of a value on the host, a number for its shape and dtype, or None if nobody asked (see `form_of`).
        version: how often the value was written.
        apart: how many of these times through a handle that counts for itself (``Tensor.data``).
    """

    __slots__ = ("__weakref__", "apart", "form", "held", "version")
    # what `_tensor` installs: PyTorch's UntypedStorage
    data_ptr: Callable[[], int]
    nbytes: Callable[[], int]
    tolist: Callable[[], list[int]]
    device: Any

    def __init__(self, value: Any) -> None:
        self.held = value
        self.form: int | None = None
        self.version: int = UNTRACKED if inferring else 0
        self.apart = 0
        if overlay:
            overlay.created(self)
        elif inside.is_made_inside(value):
            inside.note(self)

    @property
    def value(self) -> Any:
        """The array: in a trace what that has in its place. Assigning it counts as a write."""
        if overlay:
            return overlay.read(self)
        held = self.held
        return self.array() if held.__class__ in OTHERS else held

    @value.setter
    def value(self, value: Any) -> None:
        if not overlay and inside.top_trace(None) is not inside.NO_TRACE:
            inside.may_write(self, value)
        self.version += 1
        if overlay:
            overlay.write(self, value.array(self) if value.__class__ in VALUES else value)
        else:
            self.put(value)

    def put(self, value: Any) -> None:
        """Hold another value, which does not count as a write and is no part of a trace."""
        held = self.held
        if held.__class__ in VALUES:
            held.write(self, value)
        else:
            self.held, self.form = value, None

    def array(self) -> Any:
        """The array, whatever a trace has in its place. One that is made of a value on the host is kept."""
        held = self.held
        if held.__class__ not in OTHERS:
            return held
        if held.__class__ in VALUES:
            return held.array(self)
        with jax.ensure_compile_time_eval(), x64():
            made = on_device(held)
        twin = Twin(held, made)
        if self.held is held:  # no other thread was faster
            self.held = twin
        return made

    def host(self) -> Any:
        """The value as a numpy array, or None if it is not on the host."""
        held = self.held
        if held.__class__ in VALUES:
            return held.host(self)
        return held if held.__class__ in HOST else None

    def look(self) -> Any:
        """The value where it is: a numpy array if it is on the host. For shapes, and for reading it there."""
        if overlay:
            return overlay.read(self)
        held = self.held
        return held.look(self) if held.__class__ in VALUES else held

    def peek(self) -> Any:
        """The array, or what stands for it if it waits to be computed."""
        if overlay:
            return overlay.read(self)
        held = self.held
        return held.peek(self) if held.__class__ in VALUES else self.array()

    def aval(self) -> Any:
        """Something of the value's shape and dtype: nothing is computed for it."""
        return overlay.read(self) if overlay else self.held

    def _shape(self) -> tuple[int, ...]:
        return self.aval().shape

    def __reduce__(self) -> Any:
        return (_load, (np.asarray(self.look()),))


@jax.jit
def _copied(x: Any) -> Any:
    return jax.numpy.copy(x)


def is_guarded() -> bool:
    """Whether JAX refuses what is given to a program from the host, unless that is explicit (`jax.transfer_guard`)."""
    return jax.config.jax_transfer_guard_host_to_device not in (None, "allow")


_asked: Bounded[Any, int] = Bounded(tuning.cached_facts)


def often(what: Any) -> bool:
    """Whether ``what`` was asked for more than 16 times: from then on a program of its own pays."""
    count = _asked.get(what, 0)
    if count <= 16:
        _asked[what] = count + 1
    return count > 16


def put(value: Any, where: Any = None) -> Any:
    """An array on a device or with a sharding (None: JAX's choice).

    From a GPU to the CPU JAX would halve 64 bits where they are not on.
    """
    with x64():
        return jax.device_put(value, where)


def on_device(host: Any) -> Any:
    """A numpy array as a `jax.Array` of its own: whoever writes to one or gives it away must not touch the other.

    Nothing is compiled for a few of a shape and dtype (`jax.numpy.array` compiles a copy for each). What comes often
    goes through a compiled copy, which takes a quarter of the time once it is there.
    """
    if overlay:
        return jax.numpy.array(host.copy())  # a constant of the trace would look at the memory of another
    if often((host.shape, host.dtype)) and not is_guarded():
        try:
            return _copied(host)
        except RecursionError:  # JAX takes a first call that a signal has interrupted for one that goes on
            pass
    return jax.device_put(host.copy(order="C"))


_forms: Bounded[Any, int] = Bounded(tuning.cached_facts)
_numbers = itertools.count(-2, -1)  # not their count: two threads may find the same


def form_of(array: Any) -> int:
    """A number below -1 that stands for the shape and dtype: it is compared faster than they are."""
    kind = array.shape, array.dtype
    found = _forms.get(kind)
    if found is None:
        found = _forms.setdefault(kind, next(_numbers))  # another thread may have been faster
    return found


def computed(values: Sequence[Any]) -> Sequence[Any]:
    """The values with arrays in place of the lazy ones."""
    return [v.array() if v.__class__ in LAZY else v for v in values]


def _load(array: np.ndarray) -> Storage:
    with x64():
        return Storage(on_device(array))


def as_array(x: Any) -> Any:
    """A number, symbolic number or Tensor as something `jax.numpy` can compute with."""
    to_value = getattr(x, "__jax_array__", None)
    return x if to_value is None else to_value()
