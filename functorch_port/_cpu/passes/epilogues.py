"""What of a program's operations can be computed along with a convolution: see `_cpu.native.epilogue`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from typing import Any

import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Primitive, Var

from ..._base.jaxprs import uses
from ...ops._convolution import convolution_p
from ..elements import ELEMENTS
from ..native import epilogue, onednn

__all__ = ["PER_ELEMENT", "fuse", "fused_p"]

#: operations whose results' elements are each made of one element of every operand
PER_ELEMENT = {
    *ELEMENTS, "convert_element_type", "copy", "integer_pow", "round", "select_n", "stop_gradient",
}  # fmt: skip
#: of which LLVM would compute one element after the other
_SLOW = {"log"}
#: operations of an epilogue
_MOST = 100

#: A convolution and what becomes of its result along with it: of the convolution's operands and the epilogue's others.
#: Besides the convolution's parameters it has the epilogue, and whether nothing takes the result in blocks.
fused_p = Primitive("fused_convolution")


def fuse(jaxpr: Jaxpr, take_blocks: Container[str]) -> Jaxpr:
    """The program with convolutions that have an epilogue.

    Args:
        take_blocks: names of operations that compute on images in blocks, besides those of `PER_ELEMENT`.
    """
    counts = uses(jaxpr)
    makers = {x: eqn for eqn in jaxpr.eqns for x in eqn.outvars}
    eqns: list[JaxprEqn | None] = list(jaxpr.eqns)
    for k, eqn in enumerate(jaxpr.eqns):
        if eqn.primitive is not convolution_p or not onednn.in_parts(**eqn.params):
            continue
        _, block = onednn.blocks(**eqn.params)
        cuts = list(_cuts(jaxpr, k, counts, makers, eqns)) if block else []
        for numbers, others, inside in reversed(cuts):
            last = jaxpr.eqns[numbers[-1]]
            part = jaxpr.replace(
                constvars=[], invars=[*eqn.outvars, *others], outvars=last.outvars, eqns=inside
            )
            made = epilogue.compile(part, tuple(others.values()), block)
            if made is not None:
                in_order = not any(
                    e.primitive is convolution_p
                    or e.primitive.name in PER_ELEMENT
                    or e.primitive.name in take_blocks
                    for e in jaxpr.eqns[numbers[-1] + 1 :]
                    if last.outvars[0] in e.invars
                )
                for number in (k, *numbers):
                    eqns[number] = None
                params = {**eqn.params, "epilogue": made, "in_order": in_order}
                invars = [*eqn.invars, *others]
                eqns[numbers[-1]] = last.replace(primitive=fused_p, invars=invars, params=params)
                break
    return jaxpr.replace(eqns=[eqn for eqn in eqns if eqn is not None])


#: numbers of operations, the further arrays and their kinds, and the operations, with numbers for arrays of one number
_Cut = tuple[list[int], dict[Var, str], list[JaxprEqn]]


def _cuts(
    jaxpr: Jaxpr, start: int, counts: Counter[Var], makers: dict[Any, JaxprEqn], left: list[Any]
) -> Iterator[_Cut]:
    """Operations of which only the last one's value is looked at by any other."""
    images = jaxpr.eqns[start].outvars[0]
    inside = {images}
    numbers: list[int] = []
    others: dict[Var, str] = {}
    eqns: list[JaxprEqn] = []
    within: Counter[Var] = Counter()
    for k, eqn in enumerate(jaxpr.eqns[start + 1 :], start + 1):
        operands = [x for x in eqn.invars if isinstance(x, Var)]
        if inside.isdisjoint(operands) or len(numbers) == _MOST:
            continue
        result = eqn.outvars[0]
        shapes = {x.aval.shape for x in inside.intersection(operands)}
        if left[k] is not eqn or not (
            _of_pixels(eqn) or (_of_elements(eqn) and shapes == {result.aval.shape})
        ):
            continue
        splats = {x: splat for x in operands if x not in inside and (splat := _splat(x, makers)) is not None}
        atoms = [splats.get(x, x) if isinstance(x, Var) else x for x in eqn.invars]
        new = {x: _kind(x, images, result, makers) for x in atoms if isinstance(x, Var) and x not in inside}
        if not all(new.values()):
            continue
        others |= new
        within.update(x for x in operands if x in inside)
        inside.add(result)
        numbers.append(k)
        eqns.append(eqn.replace(invars=atoms))
        if result.aval.dtype == np.float32 and all(counts[x] == within[x] for x in inside if x is not result):
            yield list(numbers), dict(others), list(eqns)


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


def _kind(x: Var, images: Var, result: Var, makers: dict[Any, JaxprEqn]) -> str:
    """Of which kind an array is beside images; empty if no epilogue can take it."""
    shape = x.aval.shape
    if x.aval.size == 1:
        return "number"
    if shape == (1, images.aval.shape[1], 1, 1):
        return "channels"
    # what a program is given is not in blocks
    return "images" if shape == images.aval.shape == result.aval.shape and x in makers else ""
