"""Tensors among numpy, JAX, pickle and copy: what is shared, what is converted. Where PyTorch has no counterpart."""

from __future__ import annotations

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import functorch_port as ft

DTYPES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128".split()


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(name: str) -> None:
    """Creation, arithmetic, printing, item, pickling and copying for tensors of every dtype."""
    theirs, ours = (lib.tensor([0, 1, 3]).to(getattr(lib, name)) for lib in (torch, ft))
    for f in (
        lambda t: t.tolist(),
        lambda t: repr(t),
        lambda t: (t + t).tolist(),
        lambda t: t[2].item(),
        lambda t: str(t.dtype),
        lambda t: t.element_size(),
        lambda t: copy.deepcopy(t).tolist(),
        lambda t: pickle.loads(pickle.dumps(t)).tolist(),
        lambda t: t.sum().tolist(),
        lambda t: t.clone().fill_(1).tolist(),
        lambda t: t[1:].view(2, 1).t().tolist(),
        lambda t: bool(t[0]),
    ):
        assert f(theirs) == f(ours)


def test_jax_functions_take_tensors() -> None:
    x = ft.tensor([0.0, 1.0])
    assert isinstance(jnp.sin(x), jax.Array)
    np.testing.assert_allclose(jnp.sin(x), np.sin([0.0, 1.0]), rtol=1e-6)
    assert x.jax() is x.jax() and isinstance(x.jax(), jax.Array)
    assert ft.from_jax(jnp.ones(2)).dtype is ft.float32


def test_operators_take_numpy_and_jax_arrays() -> None:
    x = ft.ones(2)
    array = np.ones(2, np.float32)
    for result in (x + array, array + x, x * array, array - x, x + jnp.ones(2)):
        assert isinstance(result, ft.Tensor)
    assert isinstance(jnp.ones(2) + x, jax.Array)  # JAX's own operator comes first, and takes Tensors


def test_pytree_node() -> None:
    """`jax.jit`, `jax.grad` and `jax.tree` work on Tensors; `requires_grad` is part of the structure."""
    double = jax.jit(lambda t: {"y": t * 2})
    out = double(ft.tensor([1.0, 2.0]))["y"]
    assert isinstance(out, ft.Tensor) and out.tolist() == [2.0, 4.0]
    leaf = jax.tree.map(lambda a: a + 1, ft.ones(2, requires_grad=True))
    assert leaf.requires_grad and leaf.tolist() == [2.0, 2.0]
    grads = jax.grad(lambda t: (t * t).sum().jax())(ft.tensor([1.0, 2.0]))
    assert grads.tolist() == [2.0, 4.0]
    p = jax.tree.map(lambda a: a * 3, ft.nn.Parameter(ft.ones(2)))
    assert isinstance(p, ft.nn.Parameter) and p.requires_grad


def test_dlpack() -> None:
    x = ft.arange(3.0)
    np.testing.assert_array_equal(np.from_dlpack(x), [0, 1, 2])
    assert torch.from_dlpack(x).tolist() == [0, 1, 2]
    assert ft.from_dlpack(torch.arange(3)).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "through", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"]
)
def test_copies_share_what_the_originals_share(through) -> None:
    a = ft.zeros(4)
    twin, view, rest, same = through([a, a.view(2, 2), a.detach()[1:], a])
    twin[1] = 5
    assert view.tolist() == [[0, 5], [0, 0]] and rest.tolist() == [5, 0, 0] and a.tolist() == [0, 0, 0, 0]
    assert same is twin
    view.t()[0].fill_(7)
    assert twin.tolist() == [7, 5, 7, 0]


def test_version_is_that_of_the_storage() -> None:
    """All handles on a Storage count together; `.data` has a count of its own."""
    counts = []
    for T in (torch, ft):
        a = T.zeros(2)
        a.data.add_(1)
        a.detach().add_(1)
        a.view(2)[0] = 1
        counts.append(a._version)
    assert counts == [2, 2]


def test_what_was_saved_is_not_changed_by_writing() -> None:
    """Where it may be written to: the saved value is immutable."""
    x = ft.tensor([1.0, 2.0], requires_grad=True)
    with ft.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = y.exp() * y
        y.add_(1)
        z.sum().backward()
    expected = torch.tensor([1.0, 2.0], requires_grad=True)
    (expected.exp() * expected).sum().backward()
    np.testing.assert_allclose(x.grad, expected.grad, rtol=1e-6)


def test_long_graphs() -> None:
    """No recursion, neither in backward nor when the graph is freed."""
    x = ft.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(5000):
        y = y + 1
    y.backward()
    del y
    assert x.grad.item() == 1
