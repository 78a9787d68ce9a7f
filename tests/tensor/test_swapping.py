"""`torch.utils.swap_tensors`: two tensors change places."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

import functorch_port as ft


def _pair(library: Any) -> tuple[Any, Any]:
    first, second = library.nn.Parameter(library.ones(2)), library.nn.Parameter(library.zeros(3), False)
    first.grad, first.note = library.full((2,), 5.0), "first"
    return first, second


def _swapped(library: Any) -> list[Any]:
    first, second = _pair(library)
    library.utils.swap_tensors(first, second)
    found = [
        [t.tolist(), t.requires_grad, t.grad is not None, getattr(t, "note", None)] for t in (first, second)
    ]
    (second * 3).sum().backward()
    return [*found, second.grad.tolist()]


def test_what_they_have() -> None:
    assert _swapped(ft) == _swapped(torch)


def test_an_old_graph_is_refused() -> None:
    for library in (torch, ft):
        first, second = _pair(library)
        loss = (first * 2).sum()
        library.utils.swap_tensors(first, second)
        with pytest.raises(RuntimeError, match="Trying to execute AccumulateGrad node that was poisoned"):
            loss.backward()


def test_a_tensor_that_is_referred_to_weakly() -> None:
    for library in (torch, ft):
        first, second = _pair(library)
        kept = weakref.ref(second)
        with pytest.raises(RuntimeError, match="Cannot swap t2 because it has weakref associated with it"):
            library.utils.swap_tensors(first, second)
        assert kept() is second


def test_other_classes_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="give both one class"):
        ft.utils.swap_tensors(ft.nn.Parameter(ft.ones(1)), ft.ones(1))
