"""`rearrange`: split, reorder and merge dimensions by a pattern of names."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from .._run import bind
from .._tensor.tensor import Tensor

__all__ = ["rearrange"]

_DOTS = "..."
#: the names of what one dimension joins
Names = tuple[str, ...]
#: one side of a pattern; None is "..." outside of brackets
Side = list[Names | None]


def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """Split, reorder and merge the dimensions of a tensor, in the notation of einops.

    Args:
        tensor: a Tensor, or several of the same shape, which are stacked first.
        pattern: the dimensions before and after ``->``. Parentheses merge dimensions, ``1`` is a dimension of size 1,
            and ``...`` is all dimensions without names.
        axes_lengths: sizes of dimensions in parentheses; one in each pair of parentheses may be omitted.

    Raises:
        ValueError: if the pattern is malformed or does not match ``tensor``.
        TypeError: if a size is not an int.

    Example:
        >>> import functorch_port as torch
        >>> images = torch.zeros(8, 3, 32, 32)
        >>> torch.func.rearrange(images, "b c (h p) (w q) -> b (h w) (c p q)", p=4, q=4).shape
        torch.Size([8, 64, 48])

    Reference: https://einops.rocks/api/rearrange/
    """
    whole: Tensor = tensor if isinstance(tensor, Tensor) else bind.function("stack")(tensor)
    left, right = _sides(pattern)
    _check_names(left, right, axes_lengths)
    unnamed = _unnamed(left, whole.ndim)
    before, after = _written_out(left, unnamed), _written_out(right, unnamed)
    sizes: dict[str, int] = {}
    for group, size in zip(before, whole.shape, strict=True):
        sizes |= _split(pattern, group, size, axes_lengths)
    names = list(sizes)
    split = whole.reshape(tuple(sizes.values()))
    ordered = split.permute([names.index(name) for group in after for name in group])
    return ordered.reshape([math.prod(sizes[name] for name in group) for group in after])


def _sides(pattern: str) -> tuple[Side, Side]:
    """The sides of a pattern before and after the arrow."""
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    left, right = map(_groups, sides)
    if _DOTS in sides[1] and _DOTS not in sides[0]:
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    if _DOTS in sides[0] and None not in left:
        raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
    return left, right


def _groups(side: str) -> Side:
    """Split one side of a pattern into dimensions."""
    if "." in side.replace(_DOTS, "", 1):
        more = "; only one ellipsis for tensor " if _DOTS in side else ""
        raise ValueError(f"Expression may contain dots only inside ellipsis (...){more}")
    groups: Side = []
    joined: list[str] | None = None
    for token in re.findall(r"\.{3}|\w+|[^ ]", side):
        if token == "(":
            if joined is not None:
                raise ValueError("Axis composition is one-level (brackets inside brackets not allowed)")
            joined = []
        elif token == ")":
            if joined is None:
                raise ValueError("Brackets are not balanced")
            groups.append(tuple(joined))
            joined = None
        elif joined is None:
            groups.append(None if token == _DOTS else _name(token))
        else:
            joined += _name(token)
    if joined is not None:
        raise ValueError(f"Imbalanced parentheses in expression: '{side}'")
    return groups


def _name(token: str) -> Names:
    """The name in a token, or no name for a dimension of size 1."""
    if token == "1":
        return ()
    if token != _DOTS and not re.match(r"\w", token):
        raise ValueError(f"Unknown character '{token}'")
    if token.isdecimal():
        raise ValueError("rearrange only supports unnamed axes of size 1")
    if token != _DOTS and not token.isidentifier():
        raise ValueError(f"Invalid axis identifier: {token}\nnot a valid python identifier")
    if "_" in (token[0], token[-1]):
        raise ValueError(
            f"Invalid axis identifier: {token}\naxis name should should not start or end with underscore"
        )
    return (token,)


def _check_names(left: Side, right: Side, lengths: dict[str, int]) -> None:
    """Raise unless both sides have the same names, each once, and the lengths have no others."""
    both = []
    for side in (left, right):
        names = [name for group in side for name in ((_DOTS,) if group is None else group)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"Indexing expression contains duplicate dimension '{name}'")
        both.append(set(names))
    for length in lengths.values():
        if type(length) is not int:
            raise TypeError(f"rearrange axis lengths must be integers, got: {type(length)}")
    if alone := both[0] ^ both[1]:
        raise ValueError(f"Identifiers only on one side of rearrange expression (should be on both): {alone}")
    if unknown := lengths.keys() - both[0]:
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")


def _unnamed(left: Side, ndim: int) -> Names:
    """Names for the dimensions of ``...``."""
    dots = None in left
    named = len(left) - dots
    relation = "less than or equal" if dots else "equal"
    if named > ndim or (not dots and named != ndim):
        raise ValueError(
            f"Number of dimensions in pattern ({named}) must be {relation} to the number of "
            f"dimensions in the tensor ({ndim})"
        )
    return tuple(f"{_DOTS}{i}" for i in range(ndim - named))


def _written_out(side: Side, unnamed: Names) -> list[Names]:
    """One side with every dimension named."""
    groups: list[Names] = []
    for group in side:
        if group is None:
            groups += [(name,) for name in unnamed]
        else:
            groups.append(tuple(n for name in group for n in (unnamed if name == _DOTS else (name,))))
    return groups


def _split(pattern: str, group: Names, size: int, lengths: dict[str, int]) -> dict[str, int]:
    """The sizes of the dimensions in a group, whose product is ``size``."""
    free = [name for name in group if name not in lengths]
    if len(free) > 1:
        raise ValueError(
            f"rearrange({pattern!r}): cannot infer the sizes of {free} from {size}; give all but one"
        )
    known = math.prod(lengths[name] for name in group if name in lengths)
    if known < 1 or size % known or (known != size and not free):
        given = {name: lengths[name] for name in group if name in lengths}
        raise ValueError(
            f"rearrange({pattern!r}): a dimension of size {size} cannot be {list(group)} with {given}"
        )
    return {name: lengths.get(name, size // known) for name in group}
