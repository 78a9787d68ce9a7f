"""What a call of an exported program may be given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._tensor.tensor import Tensor
from ._signature import Input, Range, Size, shape_text, size_text
from ._structure import Structure, flattened, ordered, shown, unknown_input

__all__ = ["checked", "mismatch"]


def checked(
    inputs: Sequence[Input], structure: Structure, ranges: Mapping[str, Range], args: Any, kwargs: Any
) -> list[Any]:
    """The arrays of a call's tensors, in order.

    Raises:
        ValueError: the arguments are nested in another way.
        AssertionError: a value, shape or dtype is not what the program is for.
    """
    keys = structure[2][1][1]
    if set(kwargs) != set(keys):
        raise ValueError(
            f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but expected {keys}"
        )
    given = args, {key: kwargs[key] for key in keys}
    pairs, found = flattened(given, unknown_input)
    if found != structure:
        pairs, found = flattened(ordered(given, structure), unknown_input)
    if found != structure:
        raise ValueError(
            f"Trying to flatten user inputs with exported input tree spec: \n{_call(structure)}\nbut actually got "
            f"inputs with tree spec of: \n{_call(found)}.\nPlease check that the inputs have the same number and type "
            "of args and kwargs as the ones you used when tracing."
        )
    sizes: dict[str, tuple[int, str]] = {}
    arrays = []
    for one, (_, leaf) in zip(inputs, pairs, strict=True):
        if one.dtype is None:
            if type(leaf) is not type(one.value) or leaf != one.value:
                raise AssertionError(f"Guard failed: {one.name} == {one.value!r}; it is {_short(leaf)}")
            continue
        if not isinstance(leaf, Tensor):
            raise AssertionError(f"Guard failed: {one.name} is a Tensor; it is {_short(leaf)}")
        if leaf._sparse:
            raise AssertionError(f"Guard failed: {one.name}.layout == torch.strided; it is {leaf.layout}")
        if leaf.is_meta:
            raise AssertionError(f"Guard failed: {one.name} has values; it is on the meta device")
        failed = mismatch(one, ranges, tuple(leaf.shape), leaf.dtype.name, sizes)
        if failed:
            raise AssertionError(f"Guard failed: {failed}")
        arrays.append(leaf._value)
    return arrays


def mismatch(
    one: Input,
    ranges: Mapping[str, Range],
    shape: tuple[int, ...],
    dtype: str,
    sizes: dict[str, tuple[int, str]],
) -> str | None:
    """What an input should have been, and is not; None if it is fine.

    Args:
        sizes: by name the sizes that this call's inputs had so far, and where; gets those of this one.
    """
    wants = f"; {one.name} has shape {shape_text(shape)}, and should have {shape_text(one.shape)}"
    if dtype != one.dtype:
        return f"{one.name}.dtype == torch.{one.dtype}; it is torch.{dtype}"
    if len(shape) != len(one.shape):
        return f"{one.name}.dim() == {len(one.shape)}{wants}"
    for d, (n, size) in enumerate(zip(shape, one.shape, strict=True)):
        place = f"{one.name}.size()[{d}]"
        if isinstance(size, int):
            if n != size:
                return f"{place} == {size}{wants}"
            continue
        failed = _differs(n, size, place, ranges, sizes)
        if failed:
            return failed + wants
    return None


def _differs(
    n: int, size: Size, place: str, ranges: Mapping[str, Range], sizes: dict[str, tuple[int, str]]
) -> str | None:
    factor, name, offset = size  # type: ignore[misc]
    root, rest = divmod(n - offset, factor)
    lower, upper = ranges[name]
    if rest:
        return f"{place} == {size_text(size)}"
    if root < lower:
        return f"{place} >= {factor * lower + offset}"
    if upper is not None and root > upper:
        return f"{place} <= {factor * upper + offset}"
    known, where = sizes.setdefault(name, (root, place))
    if root == known:
        return None
    return f"{place} == {where if (factor, offset) == (1, 0) else size_text(size)}"


def _call(structure: Structure) -> str:
    args, kwargs = structure[2]
    return f"args {shown(args)}, kwargs {shown(kwargs)}"


def _short(value: Any) -> str:
    text = repr(value)
    return f"{text[:60]}..." if len(text) > 63 else text
