"""What is to be the same in all processes: the programs and, before its first call, inputs of one are compared between
the hosts; at every call a program compares them itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array import together
from .._base import agreement, memory, settings
from .._base.meshes import PROCESS

__all__ = ["Flags", "before_call", "differ", "differ_in_sum"]

#: so many calls may run at a time before the flag of the first is waited for, where they need not come one by one
_BEHIND = 2


def before_call(
    text: str,
    inputs: Callable[[], Mapping[str, Sequence[Any]]],
    meets: bool = True,
    always: bool = False,
    compares: bool = True,
) -> None:
    """Compare what the processes run together, and before its first call what each has for itself in it.

    Args:
        text: the program.
        inputs: gives those that have to be the same in all, by what errors call them.
        meets: whether all must run this program at every call; then it is compared at each.
        always: whether it is, whatever the environment says.
        compares: whether the program compares its inputs itself.

    Raises:
        RuntimeError: the programs are not the same.
        ValueError: the inputs are not.
    """
    when = settings.get("AGREE")
    is_new = agreement.compare(text, always or (meets and when != "first"))
    if is_new or when == "always" or not compares:
        agreement.check(inputs())


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


def _digest(value: Any) -> Any:
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
    own = jnp.stack([*map(_digest, values)])
    most, least = lax.pmax(jnp.stack([own, ~own]), axes)
    return most != ~least


def differ_in_sum(values: Sequence[Any], index: Any, count: int, kind: Any) -> Any:
    """The same by a sum, in which each process has a place of its own: XLA makes one with that of gradients of it.

    Args:
        index, count: the number of the process, and of all.
        kind: the dtype of the sum, a float32 or wider.
    """
    own = jnp.stack([*map(_digest, values)])
    halves = jnp.stack([own >> 16, own & 0xFFFF]).astype(kind)  # which a float32 has exactly
    here = (jnp.arange(count) == index)[:, None, None]
    rows = lax.psum(jnp.where(here, halves, jnp.zeros_like(halves)), PROCESS)
    return (rows != rows[0]).any((0, 1))
