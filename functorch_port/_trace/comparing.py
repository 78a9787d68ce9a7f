"""What a program takes that is to be the same in all processes: it compares that itself, at every call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array import together
from .._base import memory

__all__ = ["Flags", "digest", "differ"]

#: so many calls may run at a time before the flag of the first is waited for, where they need not come one by one
_BEHIND = 2


class Flags:
    """What of it differed: flags of each call, read some calls later, so that none waits for them.

    Args:
        names: give those of what is compared.
    """

    def __init__(self, names: Sequence[Callable[[], str]]) -> None:
        self.names = names
        self._latest: list[Any] = []

    def note(self, flags: Any) -> None:
        """Take those of a call."""
        self._latest.append(together.own_copy(flags))

    def check(self) -> None:
        """Look at those of a call, of the same one in all processes.

        Raises:
            ValueError: something differed.
        """
        behind = 0 if memory.in_order else _BEHIND
        if len(self._latest) <= behind:
            return
        found = np.asarray(self._latest.pop(0))
        if found.any():
            when = (
                f"{behind} calls of a compiled function ago" if behind else "in a call of a compiled function"
            )
            told = ", ".join(name() for name in compress(self.names, found))
            raise ValueError(
                f"{when} this was not the same in all processes: {told}. It has to be, as they compute together, and "
                "what they have computed since then differs. If it is the batch of each process, make it global before "
                "the call with DTensor.from_local(x, mesh, [Shard(0)])"
            )


def digest(value: Any) -> Any:
    """32 bits, which are others if the bits of an array are, or their order."""
    if jnp.iscomplexobj(value):
        value = jnp.stack([value.real, value.imag])
    value = jnp.ravel(value)
    if value.dtype == bool or (value.dtype.itemsize < 4 and jnp.issubdtype(value.dtype, jnp.integer)):
        value = value.astype(jnp.uint32)
    elif value.dtype.itemsize == 2:
        value = lax.bitcast_convert_type(value, jnp.uint16).astype(jnp.uint32)
    elif value.dtype.itemsize == 1:
        value = lax.bitcast_convert_type(value, jnp.uint8).astype(jnp.uint32)
    else:
        value = jnp.ravel(lax.bitcast_convert_type(value, jnp.uint32))  # 64 bits become two numbers
    place = 2 * jnp.arange(value.size, dtype=jnp.uint32) + 1
    mixed = value * jnp.uint32(0x9E3779B1)
    return jnp.sum((mixed ^ (mixed >> 15)) * place, dtype=jnp.uint32)


def differ(values: Sequence[Any], axes: Any) -> Any:
    """Of which arrays the copies differ along axes, in a function on parts."""
    own = jnp.stack([*map(digest, values)])
    most, least = lax.pmax(jnp.stack([own, ~own]), axes)
    return most != ~least
