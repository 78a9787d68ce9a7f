"""Views of large tensors are lazy: the first operation that takes one has it in its own program."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import torch
from counting import xla_compilations

import functorch_port as ft


def is_computed(view: ft.Tensor) -> bool:
    value = view._view.cache
    return isinstance(value, jax.Array) or value.call.results is not None


def large(T=ft, rows=96, columns=88, **how):
    return (
        (T.arange(rows * columns, dtype=T.float32) % 97).reshape(rows, columns).clone().requires_grad_(**how)
    )


def heads(T, x, w):
    """What attention does with the product of one matrix."""
    q, k, v = (x @ w).view(12, 8, 3, 2, 16).permute(2, 0, 3, 1, 4).unbind(0)
    return T.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(96, 32)


@pytest.mark.cpu
def test_shapes_need_no_value():
    x = large(requires_grad=False) + 1
    view = x.view(8, 12, 88).permute(1, 0, 2)[2:5]
    assert view.shape == (3, 8, 88) and view.ndim == 3 and view.numel() == 2112 and len(view) == 3
    assert view.dtype is ft.float32 and view.stride() == (88, 1056, 1) and not view.is_contiguous()
    assert not is_computed(view)


@pytest.mark.cpu
def test_the_first_operation_takes_it_into_its_program_and_the_second_has_it_computed():
    x = large(requires_grad=False) + 1
    view = x.t()
    assert not is_computed(view)
    first = view * 2
    assert not is_computed(view)
    second = view * 2
    assert is_computed(view)
    np.testing.assert_array_equal(first.numpy(), x.numpy().T * 2)
    np.testing.assert_array_equal(second.numpy(), x.numpy().T * 2)


@pytest.mark.cpu
def test_a_view_is_no_program():
    x = large(requires_grad=False) + 1
    (x.t()[3:60] * 2).numpy()
    y = x + 1
    with xla_compilations() as compiled:
        (y.t()[5:62] * 2).numpy()  # another position, the same program
    assert compiled == [0]
    with xla_compilations() as compiled:
        (y.t()[5:60] * 2).numpy()  # another length
    assert compiled == [1]


@pytest.mark.cpu
def test_a_view_of_a_view_that_was_used_is_no_longer_program():
    x = large(requires_grad=False) + 1
    for i in range(12):
        x = x[1:]
        with xla_compilations() as compiled:
            assert float((x * 2)[0, 0]) == 2 * float((88 * (i + 1)) % 97 + 1)
    assert compiled[0] <= 4


@pytest.mark.cpu
def test_a_view_that_somebody_holds_is_no_result_of_the_program():
    """It stays lazy, and holds what it is a view of."""
    for _ in range(6):
        x = large(requires_grad=True)
        y = x * 2
        view = y.t()
        (view * view).sum().backward()
    assert not is_computed(view)
    assert float(view[1, 0]) == float(y[0, 1]) == 2.0


def test_what_is_written_before_the_look_is_seen():
    x = large(requires_grad=False) + 1
    view = x.view(-1)[88:176]
    x[1].mul_(0)
    assert view.sum().item() == 0
    view += 2
    assert x[1].sum().item() == 176
    again = x.t()
    (again * 1).sum()
    x.fill_(3)
    assert (again * 1).sum().item() == 3 * x.numel()


@pytest.mark.parametrize("times", [1, 4])  # walked, and as one program
def test_attention_of_parts_is_pytorchs(times):
    results = []
    for T in (ft, torch):
        x, w = large(T, 96, 64, requires_grad=True), large(T, 64, 96, requires_grad=True)
        for _ in range(times):
            x.grad = w.grad = None
            out = heads(T, x / 97, w / 970)
            (out * out).sum().backward()
        results.append([t.detach().numpy() for t in (out, x.grad, w.grad)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())


def test_second_derivatives_through_looks():
    results = []
    for T in (ft, torch):
        x = large(T, requires_grad=True)
        y = ((x / 97).t()[4:80].reshape(-1, 4) ** 3).sum(1)
        (first,) = T.autograd.grad((y * y).sum(), x, create_graph=True)
        (second,) = T.autograd.grad((first * first).sum(), x)
        results.append([first.detach().numpy(), second.numpy()])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6 * np.abs(theirs).max())


def test_errors_come_when_the_view_is_made():
    x = large(requires_grad=False) + 1
    with pytest.raises(RuntimeError, match="exceeds dimension size"):
        x.narrow(0, 90, 10)
    with pytest.raises(IndexError, match="out of range"):
        x.select(0, 96)
    with pytest.raises(RuntimeError, match="is invalid for input of size"):
        x.view(5, 5)


def test_nodes_of_views_run_again_after_they_were_freed():
    x = large(requires_grad=True)
    view = x.t()
    view.sum().backward()
    view.sum().backward()
    assert float(x.grad.sum()) == 2 * x.numel()
