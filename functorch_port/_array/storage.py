"""The one mutable cell of the library.

Everything that PyTorch mutates lives in a `Storage`. Reading and writing `Storage.value` are the only two side effects
there are; a trace watches both through the overlay (see `tracing`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._base import inside, memory
from . import tracing
from .placing import apart, on_device
from .value import HOST, OTHERS, VALUES, Twin

__all__ = ["Storage"]


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
    # what `_tensor` installs
    nbytes: Callable[[], int]
    device: Any

    def __init__(self, value: Any) -> None:
        self.held, self.apart = value, 0
        self.form: int | None = None
        self.version: int = tracing.UNTRACKED if tracing.inferring else 0
        if tracing.overlay:
            tracing.overlay.created(self)
        elif inside.is_made_inside(value):
            inside.note(self)

    @property
    def value(self) -> Any:
        """The array: in a trace what that has in its place. Assigning it counts as a write."""
        if tracing.overlay:
            return tracing.overlay.read(self)
        held = self.held
        return self.array() if held.__class__ in OTHERS else held

    @value.setter
    def value(self, value: Any) -> None:
        if not tracing.overlay and inside.top_trace(None) is not inside.NO_TRACE:
            inside.may_write(self, value)
        self.version += 1
        if tracing.overlay:
            tracing.overlay.write(self, value.array(self) if value.__class__ in VALUES else value)
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
        made = apart(held)
        kept = Twin.of(held, made)
        if self.held is held:  # no other thread was faster
            self.held = kept
        return made

    def kept(self) -> Any:
        """As `array`, for a program that moves what is on the hosts itself (see `offloaded`)."""
        return self.held.kept(self) if self.held.__class__ in VALUES else self.array()

    def host(self) -> Any:
        """The value as a numpy array, or None if it is not on the host."""
        held = self.held
        if held.__class__ in VALUES:
            return held.host(self)
        return held if held.__class__ in HOST else None

    def look(self) -> Any:
        """The value where it is: a numpy array if it is on the host. For shapes, and for reading it there."""
        if tracing.overlay:
            return tracing.overlay.read(self)
        held = self.held
        return held.look(self) if held.__class__ in VALUES else held

    def peek(self) -> Any:
        """The array, or what stands for it if it waits to be computed."""
        if tracing.overlay:
            return tracing.overlay.read(self)
        held = self.held
        return held.peek(self) if held.__class__ in VALUES else self.array()

    def aval(self) -> Any:
        """Something of the value's shape and dtype: nothing is computed for it."""
        return tracing.overlay.read(self) if tracing.overlay else self.held

    def _shape(self) -> tuple[int, ...]:
        return self.aval().shape

    def __reduce__(self) -> Any:
        return (_load, (memory.run(np.asarray, (self.look(),)),))


def _load(array: np.ndarray) -> Storage:
    with tracing.x64():
        return Storage(on_device(array))
