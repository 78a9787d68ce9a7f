"""Programs of all processes as one of them calls them: what it has for itself is a row of a global array there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import Var, jaxpr_as_fun
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._array import together, tracing
from .._base import memory, meshes
from .._base.jaxprs import rewritten
from .._base.meshes import PROCESS
from .comparing import Flags, before_call

__all__ = ["Rows", "StageRows", "axes_of", "batched", "mapped", "of_parts", "own_copies"]

_ROWS, _ALL = PartitionSpec(PROCESS), PartitionSpec()


class Rows:
    """Which inputs and outputs of a program are of a process itself: they are its rows of global arrays.

    Args:
        mesh: the devices, a row for each process.
        ins: of each input "row", "split" (over the devices of the process, too), "same", or "global" as it is.
        outs: of each output "row", "same", or "kept" as it is.
        order: of each output where it stands among them, the same in all processes.
        text: tells this program from others.
        shared: the names of the inputs that are to be the same in all, by position, in the order of the flags.
        flag: which output says which of these differ; -1 if none does.
        shardings: of the outputs, if the rows of all are computed with together.
        meets: whether the processes exchange something, so that all must run this program at every call.
    """

    def __init__(
        self,
        mesh: Mesh,
        ins: Sequence[str] = (),
        outs: Sequence[str] = (),
        order: Sequence[int] = (),
        text: str = "",
        shared: dict[int, Callable[[], str]] | None = None,
        flag: int = -1,
        shardings: Sequence[NamedSharding] | None = None,
        meets: bool = True,
    ) -> None:
        self.mesh, self.ins, self.outs, self.order, self.text = mesh, ins, outs, order, text
        self.shared, self.flag, self.shardings, self.meets = shared or {}, flag, shardings, meets
        self.alike = together.Alike()
        self.flags = Flags([*self.shared.values()])

    def moved(self, ins: Sequence[int], draws: int, outs: Sequence[int]) -> Rows:
        """The same with other orders of inputs and outputs, of which these list the numbers, and draws at the end."""
        places = {i: k for k, i in enumerate(ins)}
        shared = {places[i]: name for i, name in self.shared.items() if i in places}
        kinds = [*(self.ins[i] for i in ins), *["row"] * draws]
        flag = outs.index(self.flag) if self.flag >= 0 else -1
        kept, shardings = [self.outs[i] for i in outs], self.shardings and [self.shardings[i] for i in outs]
        return Rows(self.mesh, kinds, kept, (), self.text, shared, flag, shardings, self.meets)

    def enter(self, values: Sequence[Any], start: int) -> list[Any]:
        """Inputs of the program, those from ``start`` on, for values of a call."""
        found = [self.entered(v, kind) for v, kind in zip(values, self.ins[start:], strict=True)]
        named = lambda: {
            f"{name()}, of a compiled function": [values[k - start]] for k, name in self.shared.items()
        }
        before_call(self.text, named, self.meets, always=self.shardings is not None)  # with these sizes meet
        return found

    def entered(self, value: Any, kind: str) -> Any:
        """A value of this process as the program takes it."""
        if kind == "global" or meshes.is_global(value):
            return value
        if not hasattr(value, "shape"):
            return value
        if getattr(value, "weak_type", False):
            return value.item()  # a number
        if kind == "same":
            return self.alike.enter(value, NamedSharding(self.mesh, _ALL))
        return together.as_row(value, self.mesh, kind == "split")

    def leave(self, outs: Sequence[Any]) -> list[Any]:
        """What a process gets of the outputs."""
        if self.flag >= 0:
            self.flags.note(outs[self.flag])
        return [self.left(out, kind) for out, kind in zip(outs, self.outs)]

    def left(self, value: Any, kind: str) -> Any:
        """What a process gets of an output."""
        if kind == "kept":
            return value
        return self.alike.leave(value) if kind == "same" else together.of_row(value)


def own_copies(values: Sequence[Any]) -> list[Any] | None:
    """Inputs of a program with this process's copies of what is the same in all; None if something is split."""
    found = []
    for value in values:
        is_global = meshes.is_global(value)
        if is_global and not value.is_fully_replicated:
            return None
        found.append(together.own_copy(value) if is_global else value)
    return found


class StageRows:
    """How the walk back of a program runs in all processes (see `stages`).

    Args:
        mesh: the devices, a row for each process.
        residuals: which of them are rows.
        is_global: which of the tensors at the program's boundary are on the devices of all.
        shardings: those of these tensors, if the rows of all are computed with together.
    """

    def __init__(
        self,
        mesh: Mesh,
        residuals: Sequence[bool],
        is_global: Sequence[bool],
        shardings: Sequence[NamedSharding | None] | None = None,
    ) -> None:
        self.mesh, self.residuals, self.is_global, self.shardings = mesh, residuals, is_global, shardings

    def backward(self, stage: Any, walk_back: Callable[..., Any]) -> Callable[..., Any]:
        """`Stage.backward` for a walk of one process."""
        rows = Rows(self.mesh)
        same = [edge is not None and edge[0] is None and self.is_global[edge[1]] for edge in stage.edges]
        programs: dict[Any, Any] = {}

        def backward(residuals: list[Any], grads: list[Any], given: tuple[bool, ...]) -> Any:
            entered = [rows.entered(g, "row") for g in grads]
            reached = [k for k, there in enumerate(stage.reached) if there]
            made = [not same[k] for k in reached]
            is_own = tuple([not meshes.is_global(g) for g in grads])
            program = programs.get((given, is_own))
            if program is None:
                shardings = self._shardings([stage.edges[k] for k in reached], made, len(stage.errors))
                program = programs[given, is_own] = self._program(
                    walk_back, given, is_own, made, len(stage.errors), shardings
                )
            with tracing.x64():
                found = memory.run(program, (residuals, entered))
            values = iter(found)
            gradients = []
            for is_same, there in zip(same, stage.reached, strict=True):
                value = next(values) if there else None
                gradients.append(value if is_same or value is None else rows.left(value, "row"))
            return gradients, [rows.left(flag, "same") for flag in values]

        return backward

    def _shardings(self, edges: Sequence[Any], made: Sequence[bool], flags: int) -> Any:
        """Those of the gradients and flags; None if XLA may choose."""
        if self.shardings is None:
            return None
        row, everywhere = NamedSharding(self.mesh, _ROWS), NamedSharding(self.mesh, _ALL)
        whole = [
            None if is_row else self.shardings[edge[1]] for edge, is_row in zip(edges, made, strict=True)
        ]
        return [*(row if is_row else at for at, is_row in zip(whole, made)), *[everywhere] * flags]

    def _program(
        self,
        walk_back: Callable[..., Any],
        given: Any,
        is_own: Any,
        made: Sequence[bool],
        flags: int,
        shardings: Any,
    ) -> Any:
        parts, crosses = len(self.residuals), shardings is not None

        def one(*values: Any) -> list[Any]:
            of_one = lambda *v: walk_back(list(v[:parts]), list(v[parts:]), given)
            closed = jax.make_jaxpr(of_one)(*values[:-1])
            if crosses:
                found = jaxpr_as_fun(closed)(*values[:-1])
            else:
                found = jaxpr_as_fun(of_parts(closed))(*values)
            end = len(found) - flags
            return [*found[:end], *(lax.psum(f.astype(jnp.float32), PROCESS) > 0 for f in found[end:])]

        over = batched if crosses else mapped
        run = over(self.mesh, one, [*self.residuals, *is_own], [*made, *[False] * flags])
        return jax.jit(lambda residuals, grads: run(*residuals, *grads), out_shardings=shardings)


def axes_of(params: dict[str, Any]) -> Sequence[Any]:
    found = params.get("axes", params.get("axis_name", ()))
    return found if isinstance(found, tuple | list) else (found,)


_CONSTRAINT = (
    "a compiled function of several processes with tensors of one process, in which tensors are split over devices: "
    "make its arguments global before the call with DTensor.from_local(x, mesh, [Shard(0)])"
)


def of_parts(closed: Any) -> Any:
    """The program with the number of the process as last input, and without constraints of values that are the same."""
    jaxpr = closed.jaxpr
    index = Var(ShapedArray((), np.dtype(np.int32)))

    def change(eqn: Any) -> Any:
        name = eqn.primitive.name
        if name == "axis_index" and PROCESS in axes_of(eqn.params):
            return index
        if name == "sharding_constraint":
            if not eqn.params["sharding"].is_fully_replicated:
                raise NotImplementedError(_CONSTRAINT)
            return eqn.invars[0]
        return eqn

    made = rewritten(jaxpr, change)
    return closed.replace(jaxpr=made.replace(invars=[*jaxpr.invars, index]))


def mapped(
    mesh: Mesh, fn: Callable[..., Any], ins: Sequence[bool], outs: Sequence[bool]
) -> Callable[..., Any]:
    """A function of a process as one of all; its last argument is the number of the process. Told of each argument and
    result is whether it is a row.
    """

    def local(*given: Any) -> list[Any]:
        values = [x[0] if row else x for x, row in zip(given, (*ins, True), strict=True)]
        return [y[None] if row else y for y, row in zip(fn(*values), outs, strict=True)]

    specs = [_ROWS if row else _ALL for row in (*ins, True)]
    run = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=tuple(specs),
        out_specs=[_ROWS if row else _ALL for row in outs],
        axis_names={PROCESS},
        check_vma=False,
    )
    return _of_rows(mesh, run, outs)


def batched(
    mesh: Mesh, fn: Callable[..., Any], ins: Sequence[bool], outs: Sequence[bool]
) -> Callable[..., Any]:
    """As `mapped`, for a function that computes with what is split over the processes, too: that is no row.

    Raises:
        NotImplementedError: a result that is to be no row is of one process.
    """
    axes = lambda rows: [0 if row else None for row in rows]
    count = mesh.shape[PROCESS]
    run = jax.vmap(fn, tuple(axes((*ins, True))), axes(outs), axis_name=PROCESS, axis_size=count)

    def checked(*given: Any) -> list[Any]:
        try:
            return run(*given)
        except ValueError as error:
            if "out_axes" not in str(error):
                raise
            raise NotImplementedError(_OF_ONE) from error

    return _of_rows(mesh, checked, outs)


_OF_ONE = (
    "a compiled function of several processes, whose result is differentiated by a tensor on the devices of all that "
    "each computes with by itself: use it within the module that was given to fully_shard, or call the function "
    "uncompiled"
)


def _of_rows(mesh: Mesh, run: Callable[..., Any], outs: Sequence[bool]) -> Callable[..., Any]:
    """``run`` with the numbers of the processes as last argument, and its rows where they belong."""
    where = NamedSharding(mesh, _ROWS)

    def of_rows(*given: Any) -> list[Any]:
        found = run(*given, jnp.arange(mesh.shape[PROCESS], dtype=jnp.int32))
        return [lax.with_sharding_constraint(y, where) if row else y for y, row in zip(found, outs)]

    return of_rows
