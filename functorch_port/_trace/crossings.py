"""Where what each process has becomes a part of what all have, in a program, and where it leaves it.

In the trace these are values of one process. `jax.vmap` over the processes makes of them a program of all (see
`rows.batched`): there a batch of each is a row, the rows joined are no row any more, and a part of the whole is a row
again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import batching

from .._base import lowering
from .._base.meshes import PROCESS

__all__ = ["ENTER", "PART", "Parts", "entering", "of_holder", "part", "whole"]


class Parts(NamedTuple):
    """How the processes share what is split along dimension 0.

    Attributes:
        order: of each part, a process that has it.
        of: of each process, which part it has.
    """

    order: tuple[int, ...]
    of: tuple[int, ...]


def entering(value: Any) -> Any:
    """A value of this process, of which a part of what all have is made."""
    return ENTER.bind(value)


def whole(value: Any, parts: Parts) -> Any:
    """What all have, of the part of this process."""
    rows = lax.all_gather(value, PROCESS)
    if parts.order != (*range(len(parts.of)),):
        rows = rows[np.array(parts.order)]
    return rows.reshape(len(parts.order) * value.shape[0], *value.shape[1:])


def of_holder(value: Any, parts: Parts) -> Any:
    """What the process has whose part `whole` takes, where several have the same."""
    holders = np.array([parts.order[k] for k in parts.of])
    return lax.all_gather(value, PROCESS)[jnp.asarray(holders)[lax.axis_index(PROCESS)]]


def part(value: Any, parts: Parts) -> Any:
    """What this process has, of what all have. There may be one part, the whole."""
    return PART.bind(value, lax.axis_index(PROCESS), of=parts.of)


ENTER, PART = Primitive("enters_whole"), Primitive("part_of_process")


def _rows(value: Any, count: int) -> Any:
    return value.reshape(count, value.shape[0] // count, *value.shape[1:])


def _formula(value: Any, process: Any, *, of: tuple[int, ...]) -> Any:
    count = max(of) + 1
    return value if count == 1 else _rows(value, count)[jnp.asarray(of)[process]]


def _shape(value: Any, process: Any, *, of: tuple[int, ...]) -> Any:
    count = max(of) + 1
    return value if count == 1 else value.update(shape=(value.shape[0] // count, *value.shape[1:]))


def _of_all(arrays: Any, axes: Any, *, of: tuple[int, ...]) -> Any:
    (value, _), (axis, _) = arrays, axes
    if axis is not None:
        raise NotImplementedError(
            "a compiled function of several processes: what a fully sharded module computes in cond, while_loop or "
            "scan would differ between the processes. Call the function uncompiled"
        )
    count = max(of) + 1
    if count == 1:
        return jnp.broadcast_to(value, (len(of), *value.shape)), 0
    rows = _rows(value, count)
    return (rows if of == (*range(count),) else rows[np.array(of)]), 0


ENTER.def_abstract_eval(lambda value: value)
lowering.define(ENTER, lambda value: value)
PART.def_abstract_eval(_shape)
lowering.define(PART, _formula)
batching.primitive_batchers[PART] = _of_all
