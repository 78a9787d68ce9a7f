"""An operation that stands for several of PyTorch's shows those to whoever looks at its node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import functorch_port as ft

SCORES = np.random.default_rng(0).standard_normal((4, 3))
LABELS = [0, 2, 1, 0]


def setting(lib: Any) -> tuple[Any, Any, Any]:
    x = lib.tensor(SCORES, requires_grad=True)
    options = {
        "weight": lib.tensor([1.0, 2.0, 3.0], dtype=lib.float64),
        "ignore_index": 1,
        "reduction": "sum",
    }
    return x, x * 2, lambda scores: lib.nn.functional.cross_entropy(scores, lib.tensor(LABELS), **options)


def names(node: Any) -> list[str]:
    found = []
    while node is not None:
        found.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    return found


@pytest.mark.parametrize("look", ["before", "after", "freed"])
def test_next_functions(look: str) -> None:
    def scenario(lib: Any) -> list[Any]:
        x, scores, loss = setting(lib)
        out = loss(scores)
        found: list[Any] = names(out.grad_fn) if look == "before" else []
        out.backward(retain_graph=look == "after")
        found += names(out.grad_fn)
        if look == "after":
            out.backward()
        else:
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                out.backward()
        return [found, x.grad.tolist()]

    (ours, grad), (theirs, expected) = scenario(ft), scenario(torch)
    assert ours == theirs
    np.testing.assert_allclose(grad, expected, rtol=1e-12)


def test_hooks_see_the_inner_gradients() -> None:
    def scenario(lib: Any) -> list[Any]:
        x, scores, loss = setting(lib)
        out, seen = loss(scores), []
        out.grad_fn.register_hook(
            lambda inputs, outputs: seen.append((inputs[0].tolist(), outputs[0].tolist()))
        )
        inner = out.grad_fn.next_functions[0][0]
        inner.register_prehook(lambda outputs: (outputs[0] * 3,))
        out.backward()
        return [*seen[0], x.grad.tolist()]

    for a, b in zip(scenario(ft), scenario(torch), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_second_derivative() -> None:
    def scenario(lib: Any) -> Any:
        x, scores, loss = setting(lib)
        (grad,) = lib.autograd.grad(loss(scores), x, create_graph=True)
        grad.pow(2).sum().backward()
        return x.grad.tolist()

    np.testing.assert_allclose(scenario(ft), scenario(torch), rtol=1e-11)
