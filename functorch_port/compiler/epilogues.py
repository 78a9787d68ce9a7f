"""What of a program's operations can be computed along with a convolution: see `core.epilogue`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Var

from ..core import epilogue, onednn
from ..ops._convolution import convolution_p

__all__ = ["PER_ELEMENT", "Finished", "find"]

#: operations whose results' elements are each made of one element of every operand
PER_ELEMENT = {
    "abs", "add", "add_any", "and", "ceil", "clamp", "convert_element_type", "copy", "cos", "div", "eq", "erf",
    "exp", "exp2", "expm1", "floor", "ge", "gt", "integer_pow", "is_finite", "le", "log", "log1p", "logistic",
    "lt", "max", "min", "mul", "ne", "neg", "not", "or", "pow", "round", "rsqrt", "select_n", "sign", "sin",
    "sqrt", "square", "stop_gradient", "sub", "tanh",
}  # fmt: skip
#: of which LLVM would compute one element after the other
_SLOW = {"log"}


class Finished(NamedTuple):
    """A convolution, and what becomes of its result along with it.

    Attributes:
        convolution: its operation.
        others: the further arrays that the epilogue takes, and of which kind they are.
        epilogue: a function of the result and those.
    """

    convolution: JaxprEqn
    others: dict[Var, str]
    epilogue: epilogue.Epilogue


def find(jaxpr: Jaxpr) -> dict[int, Finished | None]:
    """For the numbers of operations that need not be computed by themselves: what gives the value instead, or None if
    nothing looks at it.
    """
    uses = Counter(x for eqn in jaxpr.eqns for x in eqn.invars if isinstance(x, Var))
    uses.update(x for x in jaxpr.outvars if isinstance(x, Var))
    makers = {x: eqn for eqn in jaxpr.eqns for x in eqn.outvars}
    found: dict[int, Finished | None] = {}
    for k, eqn in enumerate(jaxpr.eqns):
        if eqn.primitive is convolution_p and onednn.in_parts(eqn.params["kind"], eqn.params["how"]):
            _, block = onednn.blocks(eqn.params["kind"], eqn.params["how"])
            cuts = list(_cuts(jaxpr, k, uses, makers, found)) if block else []
            for numbers, others, splats in reversed(cuts):
                eqns = [jaxpr.eqns[i] for i in numbers]
                made = epilogue.compile(eqn.outvars[0], others, eqns, splats, block)
                if made is not None:
                    found |= dict.fromkeys((k, *numbers[:-1]))
                    found[numbers[-1]] = Finished(eqn, others, made)
                    break
    return found


#: numbers of operations, the further arrays and their kinds, and operands that are one number
_Cut = tuple[list[int], dict[Var, str], dict[Var, Any]]


def _cuts(
    jaxpr: Jaxpr, start: int, uses: Counter[Var], makers: dict[Any, JaxprEqn], taken: dict[int, Any]
) -> Iterator[_Cut]:
    """Operations of which only the last one's value is looked at by any other."""
    images = jaxpr.eqns[start].outvars[0]
    inside, numbers = {images}, []
    others: dict[Var, str] = {}
    splats: dict[Var, Any] = {}
    within: Counter[Var] = Counter()
    for k, eqn in enumerate(jaxpr.eqns[start + 1 :], start + 1):
        operands = [x for x in eqn.invars if isinstance(x, Var)]
        if inside.isdisjoint(operands):
            continue
        result = eqn.outvars[0]
        if (
            eqn.primitive.name not in PER_ELEMENT - _SLOW
            or result.aval.shape != images.aval.shape
            or k in taken
        ):
            continue
        new: dict[Var, Any] = {}
        for x in operands:
            if x not in inside:
                new[x] = _splat(x, makers) or _kind(x, images, makers)
        if None in new.values():
            continue
        for x, what in new.items():
            if isinstance(what, str):
                others[x] = what
            else:
                splats[x] = what
                if isinstance(what, Var):
                    others[what] = "number"
        within.update(x for x in operands if x in inside)
        inside.add(result)
        numbers.append(k)
        if result.aval.dtype == np.float32 and all(uses[x] == within[x] for x in inside if x is not result):
            yield list(numbers), dict(others), dict(splats)


def _splat(x: Var, makers: dict[Any, JaxprEqn]) -> Any:
    """The number that an array consists of, if that is known."""
    made = makers.get(x)
    if made is None or made.primitive.name != "broadcast_in_dim" or made.invars[0].aval.ndim:
        return None
    return made.invars[0]


def _kind(x: Var, images: Var, makers: dict[Any, JaxprEqn]) -> str | None:
    shape = images.aval.shape
    if x.aval.size == 1:
        return "number"
    if x.aval.shape == (1, shape[1], 1, 1):
        return "channels"
    # what a program is given is not in blocks
    return "images" if x.aval.shape == shape and x in makers else None
