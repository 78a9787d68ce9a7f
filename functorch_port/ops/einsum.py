"""Einstein summation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from .._base import config
from .._base.promotion import promote
from .._run import bind
from .._run.registry import Arrays, composite, op
from .._tensor.tensor import Tensor
from ._common import (
    wide,
)


def _letter(index: int) -> str:
    return chr(ord("A") + index) if index < 26 else chr(ord("a") + index - 26)


def _from_sublists(parts: Sequence[Any]) -> tuple[str, list[Any]]:
    """Convert ``einsum(a, [0, 1], b, [1, 2], [0, 2])`` to an equation and operands."""

    def term(sublist: Sequence[Any]) -> str:
        return "".join("..." if i is Ellipsis else _letter(i) for i in sublist)

    operands, terms = (
        list(parts[0 : len(parts) // 2 * 2 : 2]),
        [term(s) for s in parts[1 : len(parts) // 2 * 2 : 2]],
    )
    equation = ",".join(terms)
    return (equation + "->" + term(parts[-1]) if len(parts) % 2 else equation), operands


def _check_einsum(equation: str, shapes: Sequence[tuple[int, ...]]) -> None:
    terms = equation.split("->")[0].split(",")
    if len(terms) > len(shapes):
        raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
    if len(terms) < len(shapes):
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    seen: dict[str, int] = {}
    for i, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        head, dots, tail = term.partition("...")
        if (not dots and len(term) != len(shape)) or len(head) + len(tail) > len(shape):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(head) + len(tail)}) "
                + ("is more than" if dots or len(term) > len(shape) else "does not match")
                + f" the number of dimensions ({len(shape)}) for operand {i}"
                + ("" if dots or len(term) > len(shape) else " and no ellipsis was given")
            )
        sizes = [*zip(head, shape, strict=False), *zip(tail, shape[len(shape) - len(tail) :], strict=True)]
        own: dict[str, int] = {}
        for letter, size in sizes:
            if own.setdefault(letter, size) != size:
                raise RuntimeError(
                    f"einsum(): subscript {letter} is repeated for operand {i} but the sizes don't match, "
                    f"{size} != {own[letter]}"
                )
        for letter, size in sizes:
            if seen.setdefault(letter, size) != size and 1 not in (seen[letter], size):
                raise RuntimeError(
                    f"einsum(): subscript {letter} has size {size} for operand {i} which does not broadcast with "
                    f"previously seen size {seen[letter]}"
                )
            seen[letter] = max(seen[letter], size)


@op("_einsum", where="", node="ViewBackward0")
def _einsum(equation: str, operands: Arrays):
    """The product of the operands, summed over the subscripts that the output lacks."""
    equation = equation.replace(" ", "")
    _check_einsum(equation, [x.shape for x in operands])
    arrays = promote(*operands)
    out = jnp.einsum(
        equation, *arrays, precision=config.matmul_precision(), preferred_element_type=wide(arrays[0].dtype)
    )
    return out.astype(arrays[0].dtype)


@composite(where="torch")
def einsum(*args: Any) -> Tensor:
    """Einstein summation: ``einsum("ij,jk->ik", a, b)`` or ``einsum(a, [0, 1], b, [1, 2], [0, 2])``."""
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    if isinstance(args[0], Tensor):
        equation, operands = _from_sublists(args)
    else:
        equation = args[0]
        operands = list(args[1]) if len(args) == 2 and isinstance(args[1], list | tuple) else list(args[1:])
    if len(operands) == 1:
        seen = _rearranged(equation.replace(" ", ""), operands[0])
        if seen is not None:
            return seen
    return bind.function("_einsum")(equation, operands)


def _rearranged(equation: str, x: Any) -> Tensor | None:
    """The view of a single operand if nothing is summed: diagonals and permutations; else None."""
    term, arrow, output = equation.partition("->")
    if not isinstance(x, Tensor) or not term.replace("...", "").isalpha():
        return None
    _check_einsum(equation, [x.shape])
    if not arrow:
        output = "..." * ("..." in term) + "".join(sorted(c for c in term if term.count(c) == 1))
    others = "".join(chr(0x100 + i) for i in range(x.ndim + 3 - len(term)))
    letters, wanted = list(term.replace("...", others)), output.replace("...", others)
    sizes = set(zip(letters, x.shape, strict=True))
    if sorted(wanted) != sorted(set(letters)) or len(sizes) != len(wanted):
        return None
    for letter in wanted:
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            x = x.diagonal(0, first, second)  # type: ignore[attr-defined]
            letters = [*letters[:first], *letters[first + 1 : second], *letters[second + 1 :], letter]
    return x.permute([letters.index(c) for c in wanted])  # type: ignore[attr-defined]
