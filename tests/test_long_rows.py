"""Operations over rows of millions of numbers: about as near to the float64 result as torch's, in float32."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from compare import to_numpy

import functorch_port as ft

N = 1 << 21


def F(t: Any) -> Any:
    return t.nn.functional


CASES: dict[str, Callable[..., Any]] = {
    "layer_norm": lambda t, x: F(t).layer_norm(x[None], (N,)),
    "group_norm": lambda t, x: F(t).group_norm(x.reshape(1, 2, -1), 1),
    "softmax": lambda t, x: x.softmax(0),
    "cross_entropy": lambda t, x: F(t).cross_entropy(x[None], t.tensor([1])),
    "sum": lambda t, x: x.sum(),
    "mean": lambda t, x: x.reshape(2, -1).mean(1),
    "var": lambda t, x: x.var(),
    "norm": lambda t, x: x.norm(),
    "logsumexp": lambda t, x: x.logsumexp(0),
}


def results(library: Any, fn: Callable[..., Any], x: np.ndarray) -> list[np.ndarray]:
    arg = library.tensor(x).requires_grad_()
    out = fn(library, arg)
    (grad,) = library.autograd.grad(
        out, arg, library.linspace(1, 2, out.numel(), dtype=out.dtype).reshape(out.shape)
    )
    return [to_numpy(out), to_numpy(grad)]


@pytest.mark.parametrize("name", CASES)
def test_as_near_to_float64_as_torch(name: str) -> None:
    x = (np.random.default_rng(0).random(N) + 1).astype(np.float32)
    exact = results(torch, CASES[name], x.astype(np.float64))
    for e, theirs, ours in zip(
        exact, results(torch, CASES[name], x), results(ft, CASES[name], x), strict=True
    ):
        scale = np.abs(e).max()
        off, limit = (float(np.abs(a - e).max() / scale) for a in (ours, theirs))
        assert off <= max(2 * limit, 1e-6), f"{off:.1e}, torch {limit:.1e}"


@pytest.mark.cpu
@pytest.mark.parametrize("length", [4095, 4096, 4097, 12288, 12289])
def test_rows_of_several_parts(length: int) -> None:
    x = np.random.default_rng(0).standard_normal((3, length)).astype(np.float32)
    x[1, -1] = 20.0
    x[2, length // 2] = np.nan
    for name in ("softmax", "log_softmax"):
        theirs, ours = (to_numpy(getattr(library.tensor(x), name)(1)) for library in (torch, ft))
        exact = to_numpy(getattr(torch.tensor(x).double(), name)(1))
        np.testing.assert_array_equal(np.isnan(ours), np.isnan(exact))
        size = np.abs(exact) if name == "softmax" else np.maximum(np.abs(exact), 1)
        off, limit = (np.nanmax(np.abs(a - exact) / size) for a in (ours, theirs))
        assert off <= max(2 * limit, 5e-7), (off, limit)
