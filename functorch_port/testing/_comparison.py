"""`assert_close`: comparison of two values, or containers of them, with tolerances by dtype."""

from __future__ import annotations

import cmath
import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from .._base import dtypes
from .._base.layout import sparse_coo, strided
from .._base.promotion import promote_types
from .._run.bind import function
from .._tensor.creation import as_tensor
from .._tensor.tensor import Tensor

__all__ = ["assert_allclose", "assert_close"]

#: dtype -> (rtol, atol); other dtypes are compared exactly
_TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}
_OLD_TOLERANCES = {
    dtypes.float16: (1e-3, 1e-3),
    dtypes.float32: (1e-4, 1e-5),
    dtypes.float64: (1e-5, 1e-8),
}
_NUMBERS = {int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}
_UNSIGNED = (dtypes.uint16, dtypes.uint32, dtypes.uint64)

Path = tuple[Any, ...]


class _Mismatch(Exception):
    """Why two values do not match, and their place in their containers."""

    def __init__(self, kind: type[Exception], text: str, path: Path) -> None:
        self.kind, self.text, self.path = kind, text, path

    def error(self, message: str | Callable[[str], str] | None = None) -> Exception:
        """The error for the caller; ``message`` replaces its text or is a function of it."""
        if isinstance(message, str):
            return self.kind(message)
        text = self.text
        if self.path:
            text += f"\n\nThe failure occurred for item {''.join(f'[{key!r}]' for key in self.path)}"
        return self.kind(text if message is None else message(text))


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless ``|actual - expected| <= atol + rtol * |expected|`` for all elements.

    Args:
        actual: a Tensor, an array, a number, None, or a sequence or mapping of such (possibly nested).
        expected: the expected value; containers are compared item by item.
        allow_subclasses: whether a value may be compared with one of a subclass of its type.
        rtol, atol: the tolerances, both or neither. Default: those of the less precise dtype: 1.3e-6 and 1e-5 for
            float32, 1e-7 and 1e-7 for float64, 1e-3 and 1e-5 for float16, 1.6e-2 and 1e-5 for bfloat16, zero for
            integers and bools.
        equal_nan: whether NaN equals NaN.
        check_device, check_dtype, check_layout, check_stride: whether these must be equal.
        msg: the error's message, or a function of the default message.

    Raises:
        AssertionError: the values differ.
        ValueError: only one tolerance is passed.
        TypeError: the values cannot be compared.

    Example:
        >>> import functorch_port as torch
        >>> torch.testing.assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0 + 1e-6]))
        >>> torch.testing.assert_close({"a": 1.0}, {"a": 1.5})
        Traceback (most recent call last):
        ...
        AssertionError: Scalars are not close!
        <BLANKLINE>
        Expected 1.5 but got 1.0.
        Absolute difference: 0.5 (up to 1e-07 allowed)
        Relative difference: 0.3333333333333333 (up to 1e-07 allowed)
        <BLANKLINE>
        The failure occurred for item ['a']

    Reference: https://docs.pytorch.org/docs/stable/testing.html#torch.testing.assert_close
    """
    __tracebackhide__ = True
    checks = {"device": check_device, "dtype": check_dtype, "layout": check_layout, "stride": check_stride}
    try:
        pairs = _pairs(actual, expected, (), (rtol, atol), equal_nan, checks, allow_subclasses)
    except _Mismatch as mismatch:
        raise mismatch.error() from None
    try:
        for compare in pairs:
            compare()
    except _Mismatch as mismatch:
        raise mismatch.error(msg) from None


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """`assert_close` with looser tolerances and without ``check_dtype``; deprecated in PyTorch.

    Reference: https://docs.pytorch.org/docs/stable/testing.html#torch.testing.assert_allclose
    """
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. "
        "Please use `torch.testing.assert_close()` instead. "
        "You can find detailed upgrade instructions in https://github.com/pytorch/pytorch/issues/61844.",
        FutureWarning,
        stacklevel=2,
    )
    if not isinstance(actual, Tensor):
        actual = as_tensor(actual)
    if not isinstance(expected, Tensor):
        expected = as_tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        rtol, atol = _defaults((actual.dtype, expected.dtype), _OLD_TOLERANCES)
    assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None
    )


# ------------------------------------------------------------------------ pairs


def _pairs(
    actual: Any, expected: Any, path: Path, given: Any, equal_nan: bool, checks: Any, subclasses: bool
) -> list[Callable[[], None]]:
    """The comparisons of all pairs of values, in order; containers must have the same structure."""

    def inner(key: Any) -> list[Callable[[], None]]:
        return _pairs(actual[key], expected[key], (*path, key), given, equal_nan, checks, subclasses)

    if all(isinstance(v, Sequence) and not isinstance(v, str) for v in (actual, expected)):
        if len(actual) != len(expected):
            text = f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
            raise _Mismatch(AssertionError, text, path)
        return [pair for i in range(len(actual)) for pair in inner(i)]
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        return [pair for key in _common_keys(actual, expected, path) for pair in inner(key)]
    if actual is None or expected is None:
        return [lambda: _compare_none(actual, expected, path)]
    if all(isinstance(v, bool | np.bool_) for v in (actual, expected)):
        return [lambda: _compare_bools(bool(actual), bool(expected), ())]  # without a path, as in PyTorch
    if all(isinstance(v, int | float | complex | np.number) for v in (actual, expected)):
        a, b = (v.item() if isinstance(v, np.number) else v for v in (actual, expected))
        if bool in (type(a), type(b)):
            text = f"a bool cannot be compared with a number: got {actual!r} and {expected!r}"
            raise _Mismatch(RuntimeError, text, path)
        limits = _limits((_NUMBERS[type(a)], _NUMBERS[type(b)]), given, path)
        return [lambda: _compare_numbers(a, b, limits, equal_nan, checks["dtype"], path)]
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    if related and (subclasses or type(actual) is type(expected)):
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            x, y = (v if isinstance(v, Tensor) else as_tensor(v) for v in (actual, expected))
            limits = _limits((x.dtype, y.dtype), given, path)
            return [lambda: _compare_tensors(x, y, limits, equal_nan, checks, path)]
    text = f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
    raise _Mismatch(TypeError, text, path)


def _common_keys(actual: Mapping[Any, Any], expected: Mapping[Any, Any], path: Path) -> list[Any]:
    ours, theirs = set(actual), set(expected)
    if ours != theirs:
        text = (
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {sorted(theirs - ours)}\n"
            f"Additional keys in the actual mapping: {sorted(ours - theirs)}"
        )
        raise _Mismatch(AssertionError, text, path)
    try:
        return sorted(ours)
    except TypeError:
        return list(ours)


def _defaults(kinds: Sequence[Any], table: Mapping[Any, tuple[float, float]]) -> tuple[float, float]:
    """The loosest tolerances of several dtypes."""
    found = [table.get(kind, (0.0, 0.0)) for kind in kinds]
    return max(r for r, _ in found), max(a for _, a in found)


def _limits(
    kinds: Sequence[Any], given: tuple[float | None, float | None], path: Path
) -> tuple[float, float]:
    rtol, atol = given
    if rtol is not None and atol is not None:
        return rtol, atol
    if rtol is None and atol is None:
        return _defaults(kinds, _TOLERANCES)
    absent = "rtol" if rtol is None else "atol"
    text = f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {absent}."
    raise _Mismatch(ValueError, text, path)


# ------------------------------------------------------------------ comparisons


def _compare_none(actual: Any, expected: Any, path: Path) -> None:
    if actual is not expected:
        raise _Mismatch(AssertionError, f"None mismatch: {actual} is not {expected}", path)


def _compare_bools(actual: bool, expected: bool, path: Path) -> None:
    if actual is not expected:
        raise _Mismatch(AssertionError, f"Booleans mismatch: {actual} is not {expected}", path)


def _compare_numbers(
    actual: Any, expected: Any, limits: tuple[float, float], equal_nan: bool, same_type: bool, path: Path
) -> None:
    if same_type and type(actual) is not type(expected):
        text = f"The (d)types do not match: {type(actual)} != {type(expected)}."
        raise _Mismatch(AssertionError, text, path)
    if actual == expected or (equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
        return
    rtol, atol = limits
    difference = abs(actual - expected)
    if not (cmath.isfinite(difference) and difference <= atol + rtol * abs(expected)):
        raise _Mismatch(AssertionError, _scalar_text("Scalars", actual, expected, limits), path)


def _compare_tensors(
    actual: Tensor, expected: Tensor, limits: tuple[float, float], equal_nan: bool, checks: Any, path: Path
) -> None:
    _compare_attributes(actual, expected, checks, path)
    if "meta" in (actual.device.type, expected.device.type):
        return
    if actual.device != expected.device:
        actual, expected = actual.cpu(), expected.cpu()
    if actual.dtype != expected.dtype:
        common = promote_types(
            *(dtypes.int64 if t.dtype in _UNSIGNED else t.dtype for t in (actual, expected))
        )
        actual, expected = actual.to(common), expected.to(common)
    if actual.layout == expected.layout == sparse_coo:
        _compare_sparse(actual, expected, limits, equal_nan, path)
        return
    actual, expected = (t if t.layout == strided else t.to_dense() for t in (actual, expected))
    _compare_values("Tensor-likes", actual, expected, limits, equal_nan, path)


def _compare_attributes(actual: Tensor, expected: Tensor, checks: Any, path: Path) -> None:
    def refuse(name: str, a: Any, b: Any) -> NoReturn:
        raise _Mismatch(AssertionError, f"The values for attribute '{name}' do not match: {a} != {b}.", path)

    if actual.shape != expected.shape:
        refuse("shape", actual.shape, expected.shape)
    if actual.layout != expected.layout:
        if checks["layout"]:
            refuse("layout", actual.layout, expected.layout)
    elif checks["stride"] and actual.layout == strided and actual.stride() != expected.stride():
        refuse("stride()", actual.stride(), expected.stride())
    for name in ("device", "dtype"):
        if checks[name] and getattr(actual, name) != getattr(expected, name):
            refuse(name, getattr(actual, name), getattr(expected, name))


def _compare_sparse(
    actual: Any, expected: Any, limits: tuple[float, float], equal_nan: bool, path: Path
) -> None:
    if actual.is_coalesced() != expected.is_coalesced():
        actual, expected = actual.coalesce(), expected.coalesce()
    for name, a, b in (
        ("sparse dimensions", actual.sparse_dim(), expected.sparse_dim()),
        ("specified values", actual._nnz(), expected._nnz()),
    ):
        if a != b:
            text = f"The number of {name} in sparse COO tensors does not match: {a} != {b}"
            raise _Mismatch(AssertionError, text, path)
    indices = actual._indices(), expected._indices()
    _compare_values("Sparse COO indices", *indices, (0, 0), False, path)
    values = actual._values(), expected._values()
    _compare_values("Sparse COO values", *values, limits, equal_nan, path)


def _compare_values(
    name: str, actual: Tensor, expected: Tensor, limits: tuple[float, float], equal_nan: bool, path: Path
) -> None:
    rtol, atol = limits
    a, b = actual.detach(), expected.detach()
    matches = function("isclose")(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if bool(matches.all()):
        return
    if a.dim() == 0:
        text = _scalar_text("Scalars" if name == "Tensor-likes" else name, a.item(), b.item(), limits)
    else:
        text = _tensor_text(name, a, b, matches, limits)
    raise _Mismatch(AssertionError, text, path)


# ------------------------------------------------------------------------ texts


def _scalar_text(name: str, actual: Any, expected: Any, limits: tuple[float, float]) -> str:
    difference = abs(actual - expected)
    ratio = float("inf") if expected == 0 else difference / abs(expected)
    first = f"Expected {expected} but got {actual}."
    return _text(name, first, limits, f"Absolute difference: {difference}", f"Relative difference: {ratio}")


def _tensor_text(
    name: str, actual: Tensor, expected: Tensor, matches: Tensor, limits: tuple[float, float]
) -> str:
    total = matches.numel()
    wrong = total - int(matches.sum())
    counted = f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})"
    if actual.dtype.is_floating_point and actual.dtype.itemsize == 1:
        at = tuple((~matches).nonzero()[0].tolist())
        return f"{name} are not 'equal'!\n\n{counted}\nThe first mismatched element is at index {at}."
    if not (actual.dtype.is_floating_point or actual.dtype.is_complex):
        actual, expected = actual.to(dtypes.int64), expected.to(dtypes.int64)
    difference = (actual - expected).abs()
    found = []
    for kind, amounts in (("absolute", difference), ("relative", difference / expected.abs())):
        amounts = amounts.masked_fill(matches, 0).flatten()
        most, at = amounts.max(0)
        place = tuple(int(i) for i in np.unravel_index(int(at), tuple(matches.shape)))
        found.append(f"Greatest {kind} difference: {most.item()} at index {place}")
    return _text(name, counted, limits, *found)


def _text(name: str, first: str, limits: tuple[float, float], absolute: str, relative: str) -> str:
    rtol, atol = limits
    exact = rtol == 0 and atol == 0
    if not exact:
        absolute, relative = f"{absolute} (up to {atol} allowed)", f"{relative} (up to {rtol} allowed)"
    return f"{name} are not {'equal' if exact else 'close'}!\n\n{first}\n{absolute}\n{relative}"
