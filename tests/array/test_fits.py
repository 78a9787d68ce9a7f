"""Numbers that a dtype does not hold: refused where torch refuses them, and converted as torch converts them."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from compare import case, check_case, same_error, to_numpy

import functorch_port as ft

#: a number that just fits and some that do not, by dtype
NUMBERS: dict[str, list[Any]] = {
    "uint8": [255, 300, -255, -256, 1.5, -1.5, 255.5, 1e3, math.inf, math.nan, 2**70],
    "int32": [2**31 - 1, 2**31, -(2**40), 1e20, math.nan],
    "int64": [2**63 - 1, 1e20, -(2**63) - 1],
    "float16": [65504, 1e5, -1e9, 10**6, math.inf, math.nan],
    "bfloat16": [3.4e38, 1e39, -math.inf],
    "float32": [1e39, -1e300, math.inf, 10**40],
}
PAIRS = [(kind, number) for kind, numbers in NUMBERS.items() for number in numbers]


def assigned(x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


OPERATIONS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "full": lambda t, v, x, n: t.full((2,), n, dtype=v.dtype),
    "full_like": lambda t, v, x, n: t.full_like(v, n),
    "new_full": lambda t, v, x, n: v.new_full((2,), n),
    "fill_": lambda t, v, x, n: v.fill_(n),
    "fill_diagonal_": lambda t, v, x, n: x.fill_diagonal_(n),
    "constant_": lambda t, v, x, n: t.nn.init.constant_(v, n),
    "scalar_tensor": lambda t, v, x, n: t.scalar_tensor(n, dtype=v.dtype),
    "masked_fill": lambda t, v, x, n: v.masked_fill(v > 0, n),
    "masked_fill_": lambda t, v, x, n: v.masked_fill_(v > 0, n),
    "masked_fill tensor": lambda t, v, x, n: v.masked_fill(v > 0, t.tensor(n)),
    "index_fill": lambda t, v, x, n: v.index_fill(0, t.tensor([0, 2]), n),
    "scatter": lambda t, v, x, n: v.scatter(0, t.tensor([0, 2]), n),
    "where": lambda t, v, x, n: t.where(v > 0, v, n),
    "where first": lambda t, v, x, n: t.where(v > 0, n, v),
    "clamp max": lambda t, v, x, n: v.clamp(max=n),
    "clamp_min": lambda t, v, x, n: t.clamp_min(v, n),
    "pad": lambda t, v, x, n: t.nn.functional.pad(v, (1, 1), value=n),
    "pad_sequence": lambda t, v, x, n: t.nn.utils.rnn.pad_sequence([v, v[:1]], padding_value=n),
    "add alpha": lambda t, v, x, n: t.add(v, v, alpha=n),
    "sub alpha": lambda t, v, x, n: t.sub(v, 1, alpha=n),
    "rsub alpha": lambda t, v, x, n: t.rsub(v, v, alpha=n),
    "index_add alpha": lambda t, v, x, n: v.index_add(0, t.tensor([0, 2]), v[:2], alpha=n),
    "addcmul": lambda t, v, x, n: t.addcmul(v, v, v, value=n),
    "addmm": lambda t, v, x, n: t.addmm(x[:, :2], x, x.t(), alpha=n),
    "addmv": lambda t, v, x, n: t.addmv(v[:2], x, v, beta=n),
    "addr": lambda t, v, x, n: t.addr(x, v[:2], v, alpha=n),
    "x[0]": lambda t, v, x, n: assigned(v, 0, n),
    "x[..., 1]": lambda t, v, x, n: assigned(x, (..., 1), n),
    "x[mask]": lambda t, v, x, n: assigned(v, v > 0, n),
    "x[index]": lambda t, v, x, n: assigned(v, t.tensor([0, 2]), n),
    "pow": lambda t, v, x, n: v**n,
    "threshold": lambda t, v, x, n: t.nn.functional.threshold(v, 0.5, n),
    "leaky_relu": lambda t, v, x, n: t.nn.functional.leaky_relu(v, n),
    "hardshrink": lambda t, v, x, n: t.nn.functional.hardshrink(v, n),
    "tensor": lambda t, v, x, n: t.tensor(n, dtype=v.dtype),
    "linspace": lambda t, v, x, n: t.linspace(0, n, 2, dtype=v.dtype),
    "add": lambda t, v, x, n: v + n,
    "eq": lambda t, v, x, n: v == n,
    "lt": lambda t, v, x, n: v < n,
}


def result(library: Any, operation: Callable[..., Any], kind: str, number: Any) -> Any:
    dtype = getattr(library, kind)
    v, x = library.tensor([1, 0, 1], dtype=dtype), library.tensor([[1, 0, 1], [0, 1, 1]], dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return operation(library, v, x, number)
        except Exception as error:
            return error


def compare(operation: Callable[..., Any], kind: str, number: Any, where: str) -> None:
    theirs, ours = (result(library, operation, kind, number) for library in (torch, ft))
    if isinstance(theirs, Exception):
        error = ours if isinstance(ours, Exception) else None
        wide = (
            isinstance(number, int) and not -(2**63) <= number < 2**63
        )  # a Python error, whose words differ
        same_error(theirs, error, "any" if wide and not isinstance(theirs, RuntimeError) else "same", where)
        return
    assert not isinstance(ours, Exception), f"{where}: {ours!r}"
    assert str(theirs.dtype) == str(ours.dtype), where
    np.testing.assert_allclose(to_numpy(ours), to_numpy(theirs), rtol=1e-5, err_msg=where)


@pytest.mark.parametrize("name", OPERATIONS)
def test_numbers_that_do_not_fit(name: str) -> None:
    for kind, number in PAIRS:
        wide = isinstance(number, int) and not -(2**63) <= number < 2**64
        if wide and name.startswith(("x[", "pow", "leaky", "hardshrink")):
            continue  # refused for another reason first
        if name.startswith("pad") and (wide or number == 2**63 - 1):
            continue  # torch takes a float, and wraps it
        if name.endswith("sub alpha") and number == 2**31:
            continue  # torch adds -2**31 times
        compare(OPERATIONS[name], kind, number, f"{name} of {kind} and {number}")


def test_integers_of_more_than_64_bits() -> None:
    """Also where a call like it came before."""
    for T in (ft, torch):
        x = T.ones(3)
        assert (x + 1 + 1 + 1).tolist() == [4.0] * 3
        for number in (10**40, 2**64, -(2**63) - 1):
            with pytest.raises(OverflowError, match="int too big to convert|can't convert negative int"):
                x + number


def test_where_a_number_is_in_a_compiled_function() -> None:
    x, mask = ft.ones(3, dtype=ft.float16), ft.tensor([True, False, True])
    filled = ft.compile(lambda x: x.masked_fill(mask, -1e9))
    with pytest.raises(RuntimeError, match="cannot be converted to type c10::Half without overflow"):
        filled(x)
    assert ft.compile(lambda x: x.masked_fill(mask, -6e4))(x).tolist() == [-60000.0, 1.0, -60000.0]


CASTS = [
    300.0,
    -1.0,
    -0.9,
    127.9,
    128.0,
    -129.0,
    7e4,
    3e9,
    1e10,
    2.0**31,
    -(2.0**31),
    -(2.0**31) - 1,
    2.0**32,
]
CASTS += [2.0**63, 1.8e19, 1e20, -1e20, math.nan, math.inf, -math.inf, -300.5]


@pytest.mark.parametrize("source", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("times", [1, 5, 500], ids=["small", "of a vector", "large"])
def test_floats_out_of_the_range_of_integers(source: torch.dtype, times: int) -> None:
    x = torch.tensor(CASTS, dtype=torch.float64).repeat(times).to(source)
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        check_case(case("Tensor.to", x, dtype, _grad=False))
    check_case(case("Tensor.copy_", torch.zeros(len(x), dtype=torch.int8), x, _grad=False))


RANGES = [
    (0.5,),
    (1.5,),
    (0, 4, 1.5),
    (0.9, 4.1),
    (4, 0, -1.5),
    (0, 3, math.inf),
    (math.nan, 3),
    (0, 1e10, 1e9),
]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.float32])
def test_bounds_of_ranges(dtype: torch.dtype) -> None:
    for bounds in RANGES:
        check_case(case("torch.arange", *bounds, dtype=dtype))
    for ends in [(0.5, 3.9, 3), (-1, 5, 4), (3.7, -2.2, 5), (-1.5, 1.5, 4), (0, 300, 4), (1e39, 0, 3)]:
        check_case(case("torch.linspace", *ends, dtype=dtype))
        check_case(case("torch.logspace", *ends, base=1.5, dtype=dtype))
