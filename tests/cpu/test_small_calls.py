"""Calls on small tensors that are like an earlier one take a short way: it changes nothing but the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port._base import config
from functorch_port._run import call as calls

F = ft.nn.functional
pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _in_numpy(tuned: Callable[..., None]) -> None:
    tuned(numpy_elements=4096)


@pytest.fixture
def long_ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the operations that were not done the short way."""
    taken: list[str] = []
    run = calls.run
    monkeypatch.setattr(calls, "run", lambda plan, dyn: taken.append(plan.name) or run(plan, dyn))
    return taken


def data(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "operator": lambda lib, x: x + x,
    "number": lambda lib, x: 2.5 * x - 1,
    "method": lambda lib, x: x.exp(),
    "static": lambda lib, x: x.sum(1),
    "keywords": lambda lib, x: x.sum(dim=1, keepdim=True),
    "list": lambda lib, x: lib.cat([x, x, x], 1),
    "tuple": lambda lib, x: lib.stack((x, x), dim=1),
    "optional": lambda lib, x: lib.nn.functional.layer_norm(x, (6,), None, None, 1e-3),
    "view": lambda lib, x: x.view(2, -1),
    "transposed": lambda lib, x: x.transpose(0, 1),
    "slice": lambda lib, x: x[1:3],
    "all by keyword": lambda lib, x: lib.mul(input=x, other=x),
    "row": lambda lib, x: x[-2],
    "block": lambda lib, x: x[1:, :2],
    "checked": lambda lib, x: lib.nn.functional.embedding(lib.tensor([1, 0]), x),
    "loss": lambda lib, x: lib.nn.functional.cross_entropy(x, lib.tensor([1, 0, 5, 2])),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_short_way_is_taken_and_gives_the_same(name: str, long_ways: list[str]) -> None:
    theirs = CALLS[name](torch, torch.from_numpy(data(4, 6))).numpy()
    x = ft.from_numpy(data(4, 6))
    for again in range(4):
        long_ways.clear()
        np.testing.assert_allclose(CALLS[name](ft, x).numpy(), theirs, rtol=2e-6, atol=1e-6, strict=True)
        assert not (again and long_ways)
    other = torch.from_numpy(data(4, 6, seed=1))
    mine = CALLS[name](ft, ft.from_numpy(other.numpy()))
    np.testing.assert_allclose(mine.numpy(), CALLS[name](torch, other).numpy(), rtol=2e-6, atol=1e-6)
    assert not long_ways
    bigger = torch.from_numpy(data(4, 7))
    if name not in ("optional", "loss"):
        mine = CALLS[name](ft, ft.from_numpy(bigger.numpy()))
        np.testing.assert_allclose(mine.numpy(), CALLS[name](torch, bigger).numpy(), rtol=2e-6, atol=1e-6)


def test_settings_that_change() -> None:
    x = ft.tensor([1, 2, 3])
    for _ in range(3):
        assert (x / 2).dtype is ft.float32
    try:
        ft.set_default_dtype(ft.float64)
        for _ in range(3):
            assert (x / 2).dtype is ft.float64
    finally:
        ft.set_default_dtype(ft.float32)
    assert (x / 2).dtype is ft.float32
    y = ft.from_numpy(data(4, 4))
    for _ in range(2):
        assert (y @ y).dtype is ft.float32
        with ft.autocast("cpu", dtype=ft.bfloat16):
            assert (y @ y).dtype is ft.bfloat16


def test_gradients_are_recorded_as_soon_as_they_are_wanted() -> None:
    x = ft.from_numpy(data(3, 3))
    for _ in range(3):
        assert not (x * x).requires_grad
    x.requires_grad_()
    (grad,) = ft.autograd.grad((x * x).sum(), x)
    np.testing.assert_allclose(grad.numpy(), 2 * data(3, 3), rtol=1e-6)
    for _ in range(3):
        with ft.no_grad():
            assert not (x * x).requires_grad
            assert x.t().requires_grad is torch.from_numpy(data(3, 3)).requires_grad_().t().requires_grad
    assert (x * x).requires_grad


def test_views_share_and_count_writes() -> None:
    for lib in (torch, ft):
        for look in (lambda t: t.view(-1), lambda t: t[1:], lambda t: t.transpose(0, 1), lambda t: t[2]):
            for _ in range(3):
                x = lib.from_numpy(data(4, 4))
                x.mul_(1)  # a version that is not 0
                view = look(x)
                assert view._base is x and view._version == x._version == 1
                view.fill_(7)
                assert (x == 7).sum().item() == view.numel() and x._version == 2
                assert look(view if view.ndim > 1 else x)._base is x


def test_views_by_keyword() -> None:
    x = ft.tensor(data(2, 3))
    for _ in range(3):
        assert ft.transpose(input=x, dim0=0, dim1=1)._base is x


def test_writes_under_no_grad_through_views_of_a_leaf() -> None:
    for lib in (torch, ft):
        for _ in range(3):
            x = lib.from_numpy(data(4, 4)).requires_grad_()
            with lib.no_grad():
                x[1:3].zero_()
                x.view(-1)[0] = 5
            assert x.is_leaf and x[0, 0].item() == 5 and x[1:3].abs().sum().item() == 0
            with lib.no_grad():
                view = x[1:]
            with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
                view.add_(1)


def test_errors_are_raised_every_time() -> None:
    weight, scores = ft.from_numpy(data(3, 2)), ft.from_numpy(data(2, 3))
    for at in ([0, 2], [0, 3], [1, 1], [-1, 0]):
        index = ft.tensor(at)
        if 0 <= min(at) and max(at) < 3:
            F.embedding(index, weight), F.cross_entropy(scores, index)
        else:
            with pytest.raises(IndexError):
                F.embedding(index, weight)
            with pytest.raises(IndexError):
                F.cross_entropy(scores, index)
    x = ft.from_numpy(data(3, 2))
    for _ in range(3):
        assert x[2].shape == (2,)
        with pytest.raises(IndexError, match="out of bounds"):
            x[3]
        with pytest.raises(TypeError):
            x.exp(1, 2, 3)
        with pytest.raises(TypeError):
            x.exp(nonsense=1)
        with pytest.raises(ValueError, match="step"):
            x[::-1]


def test_tensors_in_the_place_of_numbers() -> None:
    x = ft.from_numpy(data(2, 3))
    for k in (1, 2, 3, 1, 2, 3):
        assert x.repeat(k, 1).shape == (2 * k, 3)
        assert x.sum(ft.tensor(k % 2)).shape == x.sum(k % 2).shape == ((3,) if k % 2 == 0 else (2,))
    parts = [part for known in config.remembered for key in known for part in key]
    assert parts and not any(isinstance(part, ft.Tensor) for part in parts)


@pytest.mark.filterwarnings("ignore:This overload of add")
def test_arguments_of_older_forms() -> None:
    for _ in range(3):
        for lib in (torch, ft):
            x, y = (lib.from_numpy(data(3, 3, seed=i)) for i in range(2))
            np.testing.assert_allclose(lib.add(x, 2).numpy(), data(3, 3) + 2, rtol=1e-6)
            np.testing.assert_allclose(x.add(2, y).numpy(), data(3, 3) + 2 * data(3, 3, seed=1), rtol=1e-6)
            assert (
                x.view(1, 3, 3).permute(2, 0, 1).shape
                == x.view([1, 3, 3]).permute([2, 0, 1]).shape
                == (3, 1, 3)
            )


def test_true_one_and_one_point_zero_are_not_the_same() -> None:
    x, i = ft.from_numpy(data(2, 3)), ft.tensor([1, 2])
    for _ in range(3):
        assert x.sum(1, True).shape == (2, 1) and x.sum(1, False).shape == (2,)
        assert (i * 1).dtype is ft.int64 and (i * 1.0).dtype is ft.float32 and (i * True).dtype is ft.int64
        assert ft.clamp(i, 1, 2).dtype is ft.int64 and ft.clamp(i, 1.0, 2).dtype is ft.float32


def test_keywords_in_another_order() -> None:
    for beta, alpha in ((2, 2), (2, 3), (3, 2), (0.5, 3), (3, 0.5)):
        for _ in range(3):
            x, y, z = (torch.from_numpy(data(3, 3, seed=i)) for i in range(3))
            mine = [ft.from_numpy(t.numpy()) for t in (x, y, z)]
            theirs = torch.addmm(x, y, z, alpha=alpha, beta=beta).numpy()
            for ours in (
                ft.addmm(*mine, alpha=alpha, beta=beta),
                ft.addmm(*mine, beta=beta, alpha=alpha),
                ft.addmm(mat2=mine[2], input=mine[0], alpha=alpha, mat1=mine[1], beta=beta),
            ):
                np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-5, atol=1e-6)


def test_out_and_inside_transforms_and_programs() -> None:
    x = ft.from_numpy(data(3, 3))
    out = ft.zeros(3, 3)
    for _ in range(3):
        x.exp(), ft.add(x, x)
        assert ft.add(x, x, out=out) is out
        np.testing.assert_allclose(out.numpy(), 2 * data(3, 3), rtol=1e-6)
        np.testing.assert_allclose(
            ft.func.grad(lambda t: t.exp().sum())(x).numpy(), np.exp(data(3, 3)), rtol=1e-6
        )
        np.testing.assert_allclose(ft.func.vmap(lambda t: t + t)(x).numpy(), 2 * data(3, 3), rtol=1e-6)
    step = ft.compile(lambda t: t.exp() + t)
    for seed in range(3):
        given = data(3, 3, seed=seed)
        np.testing.assert_allclose(step(ft.from_numpy(given)).numpy(), np.exp(given) + given, rtol=1e-6)
    assert step.traces == 1


def test_a_result_does_not_share_memory_with_anything() -> None:
    x = ft.from_numpy(data(3, 4))
    for _ in range(3):
        same = x.contiguous().reshape(3, 4).clone()
        same.add_(1)
        copied = x.sum(0) + 0
        copied.zero_()
        np.testing.assert_array_equal(x.numpy(), data(3, 4))


def test_a_copy_in_another_memory_format_each_time() -> None:
    def program(lib: Any) -> list[Any]:
        found = []
        for _ in range(3):
            x = lib.ones(2, 3, 4, 5)
            for format in (lib.channels_last, lib.contiguous_format):
                made = (
                    x.contiguous(memory_format=format),
                    x.clone(memory_format=format),
                    x.to(memory_format=format),
                )
                found.append([m.stride() for m in made])
        return found

    assert program(ft) == program(torch)
