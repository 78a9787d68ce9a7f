"""Small values on the host: the same results as PyTorch and as the compiled programs, and nothing else to notice."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port._array.value import HOST
from functorch_port._base.tuning import tuning

pytestmark = pytest.mark.cpu

RNG = np.random.default_rng(0)
A, B = (RNG.standard_normal((3, 4)).astype(np.float32) for _ in range(2))
INDEX = np.array([2, 0, 1, 2])


@pytest.fixture(autouse=True)
def switched_on(tuned: Callable[..., None]) -> None:
    tuned(numpy_elements=4096)


def on_host(tensor: ft.Tensor) -> bool:
    return tensor._storage.host() is not None


#: functions of (library, x, y), all of whose operations numpy does
CASES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "arithmetic": lambda lib, x, y: (x + y) * 2 - x / (y.abs() + 1) + x**3,
    "exponentials": lambda lib, x, y: x.exp() * y.tanh() + (x * x + 1).log() + x.sigmoid() + x.expm1(),
    "relu": lambda lib, x, y: lib.nn.functional.relu(x) * y,
    "gelu": lambda lib, x, y: lib.nn.functional.gelu(x),
    "clamp": lambda lib, x, y: x.clamp(-0.5, 0.5) + x.clamp(min=y) + x.clamp(max=y),
    "layer_norm": lambda lib, x, y: lib.nn.functional.layer_norm(lib.cat([x, y, x, y], 1), (16,)),
    "max_pool2d": lambda lib, x, y: lib.nn.functional.max_pool2d((x * y)[None, None], 2, 1),
    "unbind": lambda lib, x, y: lib.stack([a * b for a, b in zip(x.unbind(0), y.unbind(0), strict=True)]),
    "where": lambda lib, x, y: lib.where(x > 0, x, y),
    "masked_fill": lambda lib, x, y: x.masked_fill(y > 0, 3.0),
    "maximum": lambda lib, x, y: lib.maximum(x, y),
    "sums": lambda lib, x, y: x.sum(0) + y.mean(0) * x.sum(),
    "amax": lambda lib, x, y: x.amax(1) + y.amin(1),
    "var": lambda lib, x, y: x.var(1) + y.std(1),
    "cumsum": lambda lib, x, y: x.cumsum(1),
    "matmul": lambda lib, x, y: x @ y.t(),
    "bmm": lambda lib, x, y: lib.bmm(x[None], y.t()[None]),
    "linear": lambda lib, x, y: lib.nn.functional.linear(x, y, y.sum(1)),
    "softmax": lambda lib, x, y: lib.nn.functional.softmax(x, 1),
    "log_softmax": lambda lib, x, y: lib.nn.functional.log_softmax(x, 0),
    "mse_loss": lambda lib, x, y: lib.nn.functional.mse_loss(x, y),
    "shapes": lambda lib, x, y: x.view(4, 3).t().unsqueeze(0).expand(2, 3, 4).flatten().flip(0),
    "slices": lambda lib, x, y: x[1:, ::2] * y[0, 1] + y[:2, 2:],
    "joined": lambda lib, x, y: lib.cat([x, y], 1) + lib.stack([x, y], 1).view(3, 8),
    "chunk": lambda lib, x, y: x.chunk(2, 1)[1] * y.split(3, 1)[1],
    "embedding": lambda lib, x, y: lib.nn.functional.embedding(lib.from_numpy(INDEX), x),
    "gather": lambda lib, x, y: x.gather(0, lib.from_numpy(INDEX)[None]),
    "double": lambda lib, x, y: x.double() * y,
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_torch(name: str) -> None:
    results = []
    for lib in (torch, ft):
        x, y = (lib.from_numpy(a).requires_grad_() for a in (A, B))
        out = CASES[name](lib, x, y)
        grads = lib.autograd.grad(out, [x, y], lib.ones_like(out), allow_unused=True)
        results.append((out, *grads))
    assert on_host(results[1][0])
    for theirs, ours in zip(*results, strict=True):
        assert (theirs is None) == (ours is None)
        if ours is not None:
            assert str(ours.dtype) == str(theirs.dtype)
            np.testing.assert_allclose(
                ours.detach().numpy(), theirs.detach().numpy(), rtol=3e-6, atol=1e-6, strict=True
            )


@pytest.mark.parametrize(
    "fn",
    [
        lambda lib, x: x / 0,
        lambda lib, x: x * 3e38 * 10,
        lambda lib, x: x.log(),
        lambda lib, x: x.sqrt(),
        lambda lib, x: (x * 1000).exp(),
        lambda lib, x: lib.maximum(x, x / 0),
        lambda lib, x: (x / 0 - x / 0).sign(),
        lambda lib, x: x.amax(),
        lambda lib, x: x.argmax(),
        lambda lib, x: x.sort().values,
        lambda lib, x: x.clamp(min=0.0),
        lambda lib, x: x == x,
        lambda lib, x: x.fmod(0.3),
        lambda lib, x: lib.full((2,), 2**31 - 1, dtype=lib.int32) + 1,
        lambda lib, x: lib.tensor([200], dtype=lib.uint8) * 2,
        lambda lib, x: lib.tensor([7, -7]) // 2,
        lambda lib, x: lib.tensor([7, -7]) % 3,
        lambda lib, x: lib.tensor([True, False]) + lib.tensor([True, True]),
        lambda lib, x: lib.tensor([1, 2]) / lib.tensor([0, 4]),
        lambda lib, x: ~lib.tensor([5, -1]),
        lambda lib, x: lib.tensor([1.7, -1.7]).to(lib.int32),
        lambda lib, x: lib.tensor([1, 2, 3]).sum(),
        lambda lib, x: lib.zeros(0, 3).sum(0),
    ],
)
def test_what_overflows_divides_by_zero_or_is_nan(fn: Callable[[Any, Any], Any]) -> None:
    data = np.array([-1.0, 0.0, 2.0, np.nan, np.inf, -0.0], np.float32)
    theirs, ours = fn(torch, torch.from_numpy(data)), fn(ft, ft.from_numpy(data))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6, strict=True)


def test_numpy_keeps_the_users_settings() -> None:
    before = np.geterr()
    assert (ft.tensor(1.0) / 0).item() == np.inf
    assert np.geterr() == before
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        np.ones(1) / np.zeros(1)


def test_the_jax_array_is_made_once_and_stays_valid() -> None:
    x = ft.tensor([1.0, 2.0])
    y = x + 1
    assert y._storage.held.__class__ in HOST
    array = y.jax()
    assert isinstance(array, jax.Array) and array is y.jax() and on_host(y)
    y.add_(1)
    assert y._version == 1 and array.tolist() == [2, 3] and y.jax().tolist() == [3, 4] == y.tolist()


def test_who_made_the_data_may_change_it() -> None:
    data = np.ones(3, np.float32)
    x = ft.from_numpy(data)
    view, double = x.view(3, 1), x * 1
    data[0] = 9
    got = x.numpy()
    got[1] = 7
    assert double.tolist() == [1, 1, 1] and x.tolist() == view.flatten().tolist() == [9, 7, 1]


def test_a_donated_array_leaves_the_host_values_alone() -> None:
    x = ft.from_numpy(np.ones((64, 8), np.float32)).requires_grad_()
    kept, seen = x.detach() * 1, x.detach().view(-1)

    @ft.compile
    def step() -> None:
        x.detach().mul_(3.0)

    with ft.autograd.graph.allow_mutation_on_saved_tensors():
        loss = (x * x).sum()
        step()
        step()
        loss.backward()
    assert (x.numpy(force=True) == 9).all() and (kept.numpy() == 1).all() and (seen.numpy() == 9).all()
    assert (x.grad.numpy() == 2).all()


def test_views_and_writes_through_them() -> None:
    x = ft.zeros(2, 3)
    row, column = x[1], x[:, 0]
    row += 2
    column.mul_(5)
    x.add_(1)
    assert x.tolist() == [[1, 1, 1], [11, 3, 3]] and row.tolist() == [11, 3, 3] and column.tolist() == [1, 11]
    assert (row * 2).tolist() == [22, 6, 6] and row._base is x and x._version == 3


def test_beside_large_tensors_and_inside_transforms() -> None:
    small, large = ft.tensor([2.0]), ft.ones(tuning.numpy_elements + 1)
    assert not on_host(large * small) and (large * small).sum().item() == 2 * large.numel()
    assert ft.func.vmap(lambda t: t * small)(ft.ones(3, 1)).tolist() == [[2], [2], [2]]
    assert ft.func.grad(lambda t: (t * small).sum())(ft.ones(1)).tolist() == [2]
    fresh = small * 3
    assert jax.jit(lambda a: a + fresh.jax())(1.0).tolist() == [7] and fresh.tolist() == [6]
    assert ft.compile(lambda t: t * fresh)(large)[0].item() == 6


def test_hooks_accumulation_and_higher_derivatives() -> None:
    x = ft.tensor([1.0, 2.0], requires_grad=True)
    seen = []
    handle = x.register_hook(lambda g: seen.append(g.tolist()) or g * 2)
    for _ in range(4):
        (x * x).sum().backward()
    handle.remove()
    holder = x.grad
    assert seen == [[2, 4]] * 4 and x.grad.tolist() == [16, 32]
    x.exp().backward(ft.ones(2))
    assert x.grad is holder
    (first,) = ft.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = ft.autograd.grad(first.sum(), x)
    assert second.tolist() == [6, 12]


def test_copies_and_pickles() -> None:
    x = ft.tensor([1.0, 2.0]) * 2
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone()):
        x.add_(1)
        x.sub_(1)
        twin += 5
        assert twin.tolist() == [7, 9] and x.tolist() == [2, 4]


def test_threads() -> None:
    x, wrong = ft.from_numpy(np.ones((60, 60), np.float32)), []

    def work(number: int) -> None:
        for _ in range(200):
            if ((x * number) / 0).isfinite().any() or (x * number).sum().item() != number * 3600:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_does_not_stay_on_the_host() -> None:
    assert not on_host(ft.ones(tuning.numpy_elements + 1))
    assert not on_host(ft.tensor([1.0], dtype=ft.bfloat16)) and not on_host(ft.tensor([1j]))
    assert not on_host(ft.from_jax(jax.numpy.ones(3)) + 1)
    assert ft.tensor([1.0], device="meta").is_meta
    x = ft.tensor([1.0, 2.0])
    assert x.device == ft.device("cpu") and x.nbytes == 8 and x.stride() == (1,) and x.is_contiguous()
