"""What of a program's operations can be computed along with a convolution: see `_cpu.native.epilogue`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Var

from ...ops._convolution import convolution_p
from ..native import epilogue, onednn

__all__ = ["PER_ELEMENT", "Finished", "find"]

#: operations whose results' elements are each made of one element of every operand
PER_ELEMENT = {
    "abs", "add", "add_any", "and", "ceil", "clamp", "convert_element_type", "copy", "cos", "div", "eq", "erf",
    "exp", "exp2", "expm1", "floor", "ge", "gt", "integer_pow", "is_finite", "le", "log", "log1p", "logistic",
    "lt", "max", "min", "mul", "ne", "neg", "not", "or", "pow", "divide", "round", "rsqrt", "select_n", "sign", "sin",
    "sqrt", "square", "stop_gradient", "sub", "tanh",
}  # fmt: skip
#: of which LLVM would compute one element after the other
_SLOW = {"log"}
#: operations of an epilogue
_MOST = 100


class Finished(NamedTuple):
    """A convolution, and what becomes of its result along with it.

    Attributes:
        convolution: its operation.
        others: the further arrays that the epilogue takes, and of which kind they are.
        epilogue: a function of the result and those.
        in_order: whether nothing that looks at what is computed takes it in blocks.
    """

    convolution: JaxprEqn
    others: dict[Var, str]
    epilogue: epilogue.Epilogue
    in_order: bool


def find(jaxpr: Jaxpr, take_blocks: Container[str]) -> dict[int, Finished | None]:
    """For the numbers of operations that need not be computed by themselves: what gives the value instead, or None if
    nothing looks at it.

    Args:
        take_blocks: names of operations that compute on images in blocks, besides those of `PER_ELEMENT`.
    """
    uses = Counter(x for eqn in jaxpr.eqns for x in eqn.invars if isinstance(x, Var))
    uses.update(x for x in jaxpr.outvars if isinstance(x, Var))
    makers = {x: eqn for eqn in jaxpr.eqns for x in eqn.outvars}
    found: dict[int, Finished | None] = {}
    for k, eqn in enumerate(jaxpr.eqns):
        if eqn.primitive is convolution_p and onednn.in_parts(**eqn.params):
            _, block = onednn.blocks(**eqn.params)
            cuts = list(_cuts(jaxpr, k, uses, makers, found)) if block else []
            for numbers, others, splats in reversed(cuts):
                eqns = [jaxpr.eqns[i] for i in numbers]
                made = epilogue.compile(eqn.outvars[0], others, eqns, splats, block)
                if made is not None:
                    result = eqns[-1].outvars[0]
                    later = [e for e in jaxpr.eqns[numbers[-1] + 1 :] if result in e.invars]
                    in_order = not any(
                        e.primitive is convolution_p
                        or e.primitive.name in PER_ELEMENT
                        or e.primitive.name in take_blocks
                        for e in later
                    )
                    found |= dict.fromkeys((k, *numbers[:-1]))
                    found[numbers[-1]] = Finished(eqn, others, made, in_order)
                    break
    return found


#: numbers of operations, the further arrays and their kinds, and operands that are one number
_Cut = tuple[list[int], dict[Var, str], dict[Var, Any]]


def _cuts(
    jaxpr: Jaxpr, start: int, uses: Counter[Var], makers: dict[Any, JaxprEqn], taken: dict[int, Any]
) -> Iterator[_Cut]:
    """Operations of which only the last one's value is looked at by any other."""
    images = jaxpr.eqns[start].outvars[0]
    inside = {images}
    numbers: list[int] = []
    others: dict[Var, str] = {}
    splats: dict[Var, Any] = {}
    within: Counter[Var] = Counter()
    for k, eqn in enumerate(jaxpr.eqns[start + 1 :], start + 1):
        operands = [x for x in eqn.invars if isinstance(x, Var)]
        if inside.isdisjoint(operands) or len(numbers) == _MOST:
            continue
        result = eqn.outvars[0]
        shapes = {x.aval.shape for x in inside.intersection(operands)}
        if k in taken or not (_of_pixels(eqn) or (_of_elements(eqn) and shapes == {result.aval.shape})):
            continue
        new: dict[Var, Any] = {}
        for x in operands:
            if x not in inside:
                new[x] = _splat(x, makers) or _kind(x, images, result, makers)
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


def _of_elements(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name in PER_ELEMENT and eqn.primitive.name not in _SLOW


def _of_pixels(eqn: JaxprEqn) -> bool:
    """Whether it takes some of the pixels of images, or adds some around them."""
    if eqn.primitive.name == "slice":
        strides = eqn.params["strides"] or (1,) * len(eqn.outvars[0].aval.shape)
        return strides[:2] == (1, 1) and eqn.outvars[0].aval.shape[:2] == eqn.invars[0].aval.shape[:2]
    if eqn.primitive.name == "pad":
        config = eqn.params["padding_config"]
        return config[:2] == ((0, 0, 0),) * 2 and not any(between for *_, between in config)
    return False


def _splat(x: Var, makers: dict[Any, JaxprEqn]) -> Any:
    """The number that an array consists of, if that is known."""
    made = makers.get(x)
    if made is None or made.primitive.name != "broadcast_in_dim" or made.invars[0].aval.ndim:
        return None
    return made.invars[0]


def _kind(x: Var, images: Var, result: Var, makers: dict[Any, JaxprEqn]) -> str | None:
    """Of which kind an array is beside images, if an epilogue can take it."""
    shape = x.aval.shape
    if x.aval.size == 1:
        return "number"
    if shape == (1, images.aval.shape[1], 1, 1):
        return "channels"
    # what a program is given is not in blocks
    return "images" if shape == images.aval.shape == result.aval.shape and x in makers else None
