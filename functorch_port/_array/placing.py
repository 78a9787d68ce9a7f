"""Where a value that was made on the host goes: to a device, and how."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import jax
import numpy as np

from .._base.bounded import Bounded
from .._base.tuning import tuning
from . import tracing

__all__ = ["apart", "as_array", "form_of", "is_guarded", "often", "on_device", "put", "twin"]


@jax.jit
def _copied(x: Any) -> Any:
    return jax.numpy.copy(x)


def is_guarded() -> bool:
    """Whether JAX refuses what is given to a program from the host, unless that is explicit (`jax.transfer_guard`)."""
    return jax.config.jax_transfer_guard_host_to_device not in (None, "allow")


#: what was asked for -> microseconds that it may take longer before there is a program
_left: Bounded[Any, float] = Bounded(tuning.cached_facts)


def often(what: Any) -> bool:
    """Whether ``what`` was asked for so often that a program of its own pays, which takes 10 us less."""
    left = _left.get(what)
    if left is None:
        left = 160.0 if tuning.tier == "compiled" else tuning.price(1)
    if left >= 0:
        _left[what] = left - 10.0
    return left < 0


def put(value: Any, where: Any = None) -> Any:
    """An array on a device or with a sharding (None: JAX's choice).

    From a GPU to the CPU JAX would halve 64 bits where they are not on.
    """
    with tracing.x64():
        return jax.device_put(value, where)


def on_device(host: Any) -> Any:
    """A numpy array as a `jax.Array` of its own: whoever writes to one or gives it away must not touch the other.

    Nothing is compiled for a few of a shape and dtype (`jax.numpy.array` compiles a copy for each). What comes often
    goes through a compiled copy, which takes a quarter of the time once it is there.
    """
    if tracing.overlay:
        return jax.numpy.array(host.copy())  # a constant of the trace would look at the memory of another
    with tracing.x64():
        if often((host.shape, host.dtype)) and not is_guarded():
            try:
                return _copied(host)
            except (
                RecursionError
            ):  # JAX takes a first call that a signal has interrupted for one that goes on
                pass
        return jax.device_put(host.copy(order="C"))


def apart(host: Any) -> Any:
    """As `on_device`, whatever traces now: a value that was there before."""
    with jax.ensure_compile_time_eval(), tracing.x64():
        return on_device(host)


_twins: dict[int, tuple[weakref.ref[np.ndarray], Any]] = {}


def twin(host: np.ndarray) -> Any:
    """A numpy array, to which nobody writes, as a `jax.Array`: the same one as long as the numpy array lives."""
    key = id(host)
    found = _twins.get(key)
    if found is not None and found[0]() is host:
        return found[1]
    made = apart(host)
    _twins[key] = weakref.ref(host, lambda _: _twins.pop(key, None)), made
    return made


_forms: Bounded[Any, int] = Bounded(tuning.cached_facts)
_numbers = itertools.count(-2, -1)  # not their count: two threads may find the same


def form_of(array: Any) -> int:
    """A number below -1 that stands for the shape and dtype: it is compared faster than they are."""
    kind = array.shape, array.dtype
    found = _forms.get(kind)
    if found is None:
        found = _forms.setdefault(kind, next(_numbers))  # another thread may have been faster
    return found


def as_array(x: Any) -> Any:
    """A number, symbolic number or Tensor as something `jax.numpy` can compute with."""
    to_value = getattr(x, "__jax_array__", None)
    return x if to_value is None else to_value()
