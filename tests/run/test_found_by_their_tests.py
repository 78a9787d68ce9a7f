"""What PyTorch's own test files found (`docs/pytorch_tests.md`): views of other types, indexing by bytes, Python's
types as dtypes, sizes given in place, numbers in a row, types of ``out``. PyTorch's values, errors and warnings.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import functorch_port as ft

DTYPES = "bool uint8 int8 int16 float16 bfloat16 int32 float32 int64 float64 complex64 complex128".split()

VIEWS = """
T.ones(4, 4, 3)[:, :, 1:].view(T.float64)
T.ones(4, 4, 3).view(T.float64)
T.ones(4, 4, 2).as_strided((4, 4, 2), (2, 1, 1)).view(T.float64)
T.ones(4, 4).t().view(T.float64)
T.ones(4, 4).t().view(T.int16)
T.ones(()).view(T.float64)
T.ones(4, 4)[:, :2].view(T.float64)
T.ones(4, 5)[:, :2].view(T.float64)
T.ones(4, 4)[2:, 2:].view(T.float64)
T.ones(3, 4).t().view(T.int32)
T.ones(0, 4).view(T.float64)
T.ones(4, 0).view(T.int16)
T.ones(4, 0).view(T.float64)
T.zeros(0, 5, 64, dtype=T.complex64).view(T.float64)
T.zeros(0, 5, 64).view(T.complex128)
T.ones(2).view(int)
T.ones(2).view(bool)
T.ones(2).view(dtype=float)
T.tensor([True, False, True, True]).view(T.int16)
T.tensor([3, 0, 256], dtype=T.int16).view(T.bool)
"""
INDEXING = """
x[:, b]
x[0][b]
x[(x > 3).byte()]
x[T.tensor([1, 0]).byte(), b]
put(x, b, 5)
put(x, (slice(None), b), T.ones(2))
T.where((x > 3).byte(), x, x)
T.take_along_dim(x, T.zeros(2, 1).int(), 1)
T.take_along_dim(x, T.zeros(2, 1).byte(), 1)
T.take_along_dim(x, T.zeros(2).byte())
T.take_along_dim(x, T.zeros(2).int())
put(T.arange(4), T.arange(4) > -1, T.tensor([]))
put(T.arange(4), T.arange(4) > -1, T.tensor([1, 2, 3.]))
put(T.arange(4), T.arange(4) > -1, T.tensor([1, 2, 3., 4]))
put(T.arange(4), T.tensor([0, 1]), T.tensor([1., 2.]))
T.tensor_split(T.ones(4), T.tensor(1.1), 0)
T.tensor_split(T.ones(4), T.tensor([[1]]), 0)
T.tensor_split(T.ones(4), T.tensor([1, 2], dtype=T.int32), 0)
"""
RESIZED = """
T.empty((), dtype=T.float64).resize_([2, 4, 2**29, 2**29])
T.empty((), dtype=T.float64).resize_([8, 8, 2**29, 2**29])
T.empty((), dtype=T.float64).resize_([0, 4, 2305843009213693952])
T.empty(0, 2**62, 4)
T.empty(0).resize_([0, 4, 2])
T.arange(120.).resize_((2, 3, 4, 5), memory_format=T.channels_last)
T.arange(120.).resize_((2, 3, 4, 5), memory_format=T.contiguous_format)
T.arange(120.).resize_((2, 3, 4, 5), memory_format=T.preserve_format)
T.arange(120.).resize_((2, 3, 4, 5, 1), memory_format=T.channels_last_3d)
T.arange(120.).resize_((2, 3, 20), memory_format=T.channels_last)
T.arange(120.).reshape(2, 3, 4, 5).resize_((2, 3, 4, 5), memory_format=T.channels_last)
T.arange(60.).resize_as_(T.ones(1, 3, 4, 5).contiguous(memory_format=T.channels_last), memory_format=T.preserve_format)
T.arange(120.).resize_as_(T.ones(2, 3, 4, 5).contiguous(memory_format=T.channels_last))
T.arange(120.).resize_as_(T.ones(2, 3, 4, 5), memory_format=T.channels_last)
T.eye(2).int().to_sparse().add_(T.eye(2).long().to_sparse()).to_dense()
"""
TYPES = """
[f(2, dtype=float).dtype for f in (T.zeros, T.rand, T.randn, T.randperm, T.ones)]
[T.randint(3, (2,), dtype=int).dtype, T.normal(0., 1., (2,), dtype=float).dtype, T.finfo(float).bits]
[T.tril_indices(2, 2, dtype=int).dtype, T.promote_types(float, int), T.can_cast(int, float)]
[f(x, dtype=float).dtype for f in (T.rand_like, T.randn_like, T.zeros_like)]
T.neg(x, out=e(T.float64))
T.floor(x.double(), out=e(T.float32))
T.abs(x + 1j, out=e(T.float32))
T.sign(x, out=e(T.int64))
T.sin(x, out=e(T.float64))
T.argmax(x, out=e(T.int32))
T.signbit(x, out=e(T.float32))
T.nan_to_num(x, out=e(T.float64))
T.eye(2, out=e(T.uint8))
T.linspace(0, 9, 4, out=e(T.int32))
T.logspace(0, 1, 4, out=e(T.int64))
[T.linspace(0, 3, 4, out=x[:, 1:3]), T.logspace(0, 1, 4, out=x[:, 1:3]), T.arange(4, out=x[:, 3:]), x]
T.vander(T.tensor([1, 2, 5]).to(T.int8), N=5)
T.vander(T.tensor([True, False]))
T.linalg.vander(T.tensor([1, 2, 5]).int(), N=5)
T.polar(T.ones(2, dtype=T.int32), T.ones(2, dtype=T.int32))
T.polar(T.ones(2), T.ones(2).double())
T.nn.PixelShuffle(545460846592)(T.ones(2, 16, 9, 3))
"""


def outcome(T: Any, code: str) -> Any:
    def put(x: Any, at: Any, value: Any) -> Any:
        x[at] = value
        return x

    x = T.arange(10.0).view(2, 5)
    names = {
        "T": T, "x": x, "b": (x[0] > 2).byte(), "put": put,
        "e": lambda dtype: T.empty(0, dtype=dtype),
    }  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = eval(code, names)
            found = (str(found.stride()), str(found)) if isinstance(found, T.Tensor) else str(found)
        except (RuntimeError, TypeError, IndexError, ValueError) as error:
            found = type(error), str(error).partition("\n")[0]
    return found, [str(w.message).partition(" (Triggered")[0] for w in caught]


@pytest.mark.parametrize(
    "code",
    [
        *VIEWS.strip().split("\n"),
        *INDEXING.strip().split("\n"),
        *RESIZED.strip().split("\n"),
        *TYPES.strip().split("\n"),
    ],
)
def test_values_errors_and_warnings_are_pytorchs(code: str) -> None:
    assert outcome(ft, code) == outcome(torch, code)


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("seen", DTYPES)
def test_writes_through_a_view(source: str, seen: str) -> None:
    """A bool is 0 or 1 here, whatever bytes are written to it."""
    if source == "bool" and seen not in ("bool", "int8", "uint8"):
        pytest.skip("which writes other bytes")
    found = []
    for T in (torch, ft):
        x = T.arange(32).to(getattr(T, source)).reshape(2, 16)
        view = x.view(getattr(T, seen))
        view[0, 0] = 1
        found.append((str(view.shape), view.data_ptr() == x.data_ptr(), x.view(T.uint8).tolist()))
    assert found[0] == found[1]


def test_numbers_that_a_sparse_tensor_cannot_hold() -> None:
    for T in (torch, ft):
        x = T.eye(2).int().to_sparse()
        with pytest.raises(RuntimeError, match="Can't convert result type Float to output Int"):
            x.add_(T.eye(2).to_sparse())
        assert x.to_dense().tolist() == [[1, 0], [0, 1]]


def test_a_byte_that_is_true_stays() -> None:
    for T in (torch, ft):
        x = T.tensor([2, 0, 7], dtype=T.uint8)
        x.view(T.bool)[1] = True
        assert x.tolist() == [2, 1, 7]
