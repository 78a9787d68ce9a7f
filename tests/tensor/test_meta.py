"""The meta device: shapes and dtypes without data, and without programs."""

from __future__ import annotations

import counting
import pytest
import torch

import functorch_port as ft


@pytest.mark.parametrize(
    "code",
    [
        "x * 2 + 1", "x @ x.T", "x.softmax(-1)", "torch.nn.Linear(3, 4, device='meta')(x)", "x[0]", "x.sort()[1]",
        "torch.cat([x, x])", "x.to(torch.float64)", "x.view(-1)[2:]",
    ],
)  # fmt: skip
def test_nothing_is_compiled_on_the_meta_device(code):
    scope = {"torch": ft, "x": ft.empty(2, 3, device="meta")}
    with counting.xla_compilations() as count:
        ours = eval(code, scope)
    assert count == [0]
    theirs = eval(code, {"torch": torch, "x": torch.empty(2, 3, device="meta")})
    assert ours.is_meta and ours.shape == theirs.shape and str(ours.dtype) == str(theirs.dtype)


def test_gradients_on_the_meta_device():
    x = ft.empty(2, 3, device="meta", requires_grad=True)
    for _ in range(2):
        (x * x).sum().backward()
    assert x.grad.is_meta and x.grad.shape == (2, 3)


@pytest.mark.parametrize("code", ["x.nonzero()", "x.unique()", "x[x > 0]", "x.masked_select(x > 0)"])
def test_shapes_that_depend_on_values_on_the_meta_device(code):
    for library in (torch, ft):
        with pytest.raises(NotImplementedError):
            eval(code, {"x": library.empty(2, 3, device="meta")})
