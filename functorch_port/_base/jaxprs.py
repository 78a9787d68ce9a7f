"""Jaxprs: what is in them, what of them is needed, and a walk through one with rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax.interpreters.partial_eval import dce_jaxpr
from jax.sharding import Mesh

from . import settings

if TYPE_CHECKING:  # it takes 20 ms to import
    from jax.extend.core import Jaxpr

__all__ = [
    "CALLS", "count_of", "inlined", "is_literal", "largest", "mesh_of_processes", "nbytes", "needed", "operations",
    "peak", "pruned", "rewritten", "scan_parts", "uses", "walk",
]  # fmt: skip

#: primitives that are a jaxpr of their own, also for a derivative, and the parameter that holds it
CALLS = {
    "jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr", "remat2": "jaxpr",
    "checkpoint": "jaxpr",
}  # fmt: skip
_CALLS = CALLS | {"custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}


def scan_parts(eqn: Any) -> tuple[int, int]:
    """How many operands of a ``scan`` are the same in all rounds, and how many are carried on: those before the rows,
    which have one dimension less within. JAX tells it by parameters that differ from version to version.
    """
    inner = eqn.params["jaxpr"]
    inner = getattr(inner, "jaxpr", inner)
    pairs = zip(eqn.outvars, inner.outvars, strict=True), zip(eqn.invars, inner.invars, strict=True)
    results, rows = (sum(a.aval.ndim != b.aval.ndim for a, b in each) for each in pairs)
    carried = len(eqn.outvars) - results
    return len(eqn.invars) - rows - carried, carried


def is_literal(x: Any) -> bool:
    """Whether an operand is a number in the program, not a variable."""
    return hasattr(x, "val")


# ------------------------------------------------------------------ a walk


def walk(
    jaxpr: Jaxpr,
    values: Iterable[Any],
    rule: Callable[[Any, list[Any]], Sequence[Any]],
    constant: Callable[[Any, Any], Any],
    platform: str = "cpu",
) -> list[Any]:
    """Go through the operations of a program, those of the programs that it calls among them, with values of any kind.

    Args:
        jaxpr: for ``platform``, where it has parts for several.
        values: of its constants and inputs.
        rule: of an operation and the values of its operands: those of its results.
        constant: of a number or array in the program, and its aval: its value.

    Returns:
        the values of the outputs.
    """
    env = dict(zip((*jaxpr.constvars, *jaxpr.invars), values, strict=True))

    def read(atoms: Iterable[Any]) -> list[Any]:
        return [constant(x.val, x.aval) if is_literal(x) else env[x] for x in atoms]

    for eqn in jaxpr.eqns:
        ins = read(eqn.invars)
        called = _called(eqn, platform)
        if called is None:
            outs = rule(eqn, ins)
        else:
            inner = getattr(called, "jaxpr", called)
            held = map(constant, getattr(called, "consts", ()), [v.aval for v in inner.constvars])
            outs = walk(inner, [*held, *ins[len(ins) - len(inner.invars) :]], rule, constant, platform)
        env.update(zip(eqn.outvars, outs, strict=True))
    return read(jaxpr.outvars)


def _called(eqn: Any, platform: str) -> Any:
    """The program that an operation is, whose inputs are its last operands; None for another operation."""
    name, params = eqn.primitive.name, eqn.params
    if name == "cond" and params.get("branches_platforms"):
        return _branch(params, platform)
    if name == "call_hi_primitive":
        return _expanded(eqn)
    return params[_CALLS[name]] if name in _CALLS else None


def _expanded(eqn: Any) -> Any:
    """The program of what JAX traces as one operation of another kind: `jnp.nonzero`, `jnp.frexp` from 0.12 on."""
    one = eqn.params["_prim"]
    given = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
    with jax.enable_x64(settings.get("X64")):
        return jax.make_jaxpr(one.expand)(*jax.tree.unflatten(one.in_tree, given))


def _branch(params: dict[str, Any], platform: str) -> Any:
    """What a platform computes where each has a program of its own."""
    branches = zip(params["branches"], params["branches_platforms"])
    return next(b for b, names in branches if names is None or platform in names)


def inlined(jaxpr: Jaxpr) -> Jaxpr:
    """The program with the operations of the programs that it calls."""
    from jax.extend.core import Literal, Var

    eqns = []

    def copy(eqn: Any, ins: list[Any]) -> list[Any]:
        outs = [Var(v.aval) for v in eqn.outvars]
        eqns.append(eqn.replace(invars=ins, outvars=outs))
        return outs

    outs = walk(jaxpr, (*jaxpr.constvars, *jaxpr.invars), copy, Literal)
    return jaxpr.replace(eqns=eqns, outvars=outs)


def rewritten(jaxpr: Jaxpr, change: Callable[[Any], Any]) -> Jaxpr:
    """The program with other operations.

    Args:
        change: of an operation, whose operands are already those of the new program: the operation to have in its
            place, or the operand to have in place of its first result.
    """
    same: dict[Any, Any] = {}
    of: Callable[[Any], Any] = lambda x: x if is_literal(x) else same.get(x, x)
    eqns = []
    for eqn in jaxpr.eqns:
        if any(not is_literal(x) and x in same for x in eqn.invars):
            eqn = eqn.replace(invars=list(map(of, eqn.invars)))
        new = change(eqn)
        if hasattr(new, "primitive"):
            eqns.append(new)
        else:
            same[eqn.outvars[0]] = new
    return jaxpr.replace(eqns=eqns, outvars=list(map(of, jaxpr.outvars)))


# ------------------------------------------------------------------ what is needed


def needed(jaxpr: Jaxpr, platform: str) -> Jaxpr:
    """What a platform computes of a program for several, without what no output depends on."""
    return pruned(_only(jaxpr, platform))[0]


def _only(value: Any, platform: str) -> Any:
    """The same program, or parameter of an operation, without the branches for other platforms."""
    if isinstance(value, tuple | list):
        return type(value)(_only(one, platform) for one in value) if _has_jaxpr(value) else value
    # from JAX 0.12 on, a Jaxpr is its own `jaxpr`
    if hasattr(value, "consts") and getattr(value, "jaxpr", value) is not value:
        return value.replace(jaxpr=_only(value.jaxpr, platform))
    if not hasattr(value, "eqns"):
        return value
    eqns = []
    for eqn in value.eqns:
        params = dict(eqn.params)
        if params.get("branches_platforms"):
            params |= {"branches": (_branch(params, platform),), "branches_platforms": None}
        eqns.append(eqn.replace(params={name: _only(one, platform) for name, one in params.items()}))
    return value.replace(eqns=eqns)


def _has_jaxpr(values: Any) -> bool:
    return any(hasattr(one, "eqns") or hasattr(one, "jaxpr") for one in values)


def pruned(jaxpr: Jaxpr, outputs: Sequence[bool] | None = None) -> tuple[Jaxpr, list[bool]]:
    """The program without what some of the outputs, or all, do not depend on. Which inputs are left in use."""
    new, used = dce_jaxpr(jaxpr, True if outputs is None else outputs)
    return new.replace(invars=jaxpr.invars), used


def uses(jaxpr: Jaxpr) -> Counter[Any]:
    """How often each variable is an operand or an output."""
    atoms = [x for eqn in jaxpr.eqns for x in eqn.invars]
    return Counter(x for x in (*atoms, *jaxpr.outvars) if not is_literal(x))


# ------------------------------------------------------------------ what there is


def operations(params: Iterable[Any]) -> Iterator[Any]:
    """Those of the jaxprs among these parameters of operations, and of the jaxprs within."""
    for value in params:
        jaxpr = getattr(value, "jaxpr", value)
        if isinstance(value, tuple | list):
            yield from operations(value)
        elif hasattr(jaxpr, "eqns"):
            for eqn in jaxpr.eqns:
                yield eqn
                yield from operations(eqn.params.values())


def count_of(jaxpr: Any) -> int:
    """How many operations there are in a program."""
    return sum(1 for _ in operations([jaxpr]))


def mesh_of_processes(jaxpr: Any) -> Any:
    """The mesh of several processes on which a program computes; None if there is none."""
    for eqn in operations([jaxpr]):
        for value in eqn.params.values():
            mesh = getattr(value, "mesh", value)
            if isinstance(mesh, Mesh) and not mesh.empty and mesh.is_multi_process:
                return mesh
    return None


def largest(jaxpr: Any) -> int:
    """Bytes of the largest array that a program computes."""
    return max((nbytes(x) for eqn in operations([jaxpr]) for x in eqn.outvars), default=0)


def peak(jaxpr: Any) -> int:
    """Bytes of the arrays that a program needs at a time, at most, if its operations come one after the other."""
    last = {x: k for k, eqn in enumerate(jaxpr.eqns) for x in eqn.invars if not is_literal(x)}
    now = most = 0
    made: dict[Any, int] = {}
    for k, eqn in enumerate(jaxpr.eqns):
        made |= {x: nbytes(x) for x in eqn.outvars}
        now += sum(map(nbytes, eqn.outvars))
        most = max(most, now)
        over = {x for x in (*eqn.invars, *eqn.outvars) if not is_literal(x) and last.get(x, -1) <= k}
        now -= sum(made.pop(x, 0) for x in over)
    return most


def nbytes(x: Any) -> int:
    """Bytes of a variable's array."""
    return int(x.aval.size * x.aval.dtype.itemsize) if hasattr(x.aval, "dtype") else 0
