"""Functions on the parts of tensors, and collectives between these."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import functorch_port as ft
from functorch_port.distributed import _functional_collectives as funcol
from functorch_port.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from functorch_port.distributed.tensor.experimental import local_map

F = ft.nn.functional


@pytest.fixture(scope="module")
def row() -> Any:
    return ft.distributed.init_device_mesh("cpu", (8,))


@pytest.fixture(scope="module")
def two() -> Any:
    return ft.distributed.init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))


def numbers(*shape: int, seed: int = 0) -> Any:
    x = np.random.default_rng(seed).standard_normal(shape)
    return ft.tensor(x, requires_grad=True)


def same(mapped: Any, whole: Any, *inputs: Any) -> None:
    """Values and gradients are those of a function of whole tensors, eagerly and compiled."""

    def both(f: Any) -> Any:
        out = f(*inputs)
        grads = ft.autograd.grad((out * out).sum(), inputs)
        return [out, *grads]

    want = [t.detach().numpy() for t in both(whole)]
    for run in (both, ft.compile(both)):
        for got, expected in zip(run(mapped), want, strict=True):
            np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-12, atol=1e-12)


def test_pytorchs_example(row: Any) -> None:
    def product(mesh: Any, w: Any, x: Any) -> Any:
        assert w.shape == (12, 1) and x.shape == (1, 16)
        return funcol.all_reduce(w @ x, "sum", mesh)

    mapped = local_map(product, [Replicate()], (None, [Shard(1)], [Shard(0)]), device_mesh=row)
    same(lambda w, x: mapped(row, w, x), lambda w, x: w @ x, numbers(12, 8), numbers(8, 16, seed=1))
    w = distribute_tensor(numbers(12, 8).detach(), row, [Shard(1)])
    x = distribute_tensor(numbers(8, 16).detach(), row, [Shard(0)])
    np.testing.assert_allclose(mapped(row, w, x).numpy(), w.numpy() @ x.numpy(), rtol=1e-12)


@pytest.mark.parametrize("out", ["partial", "avg", "scattered", "gathered", "axis of two"])
def test_results_are_those_of_the_whole(out: str, row: Any, two: Any) -> None:
    w, x = numbers(16, 8), numbers(8, 24, seed=1)
    split = [Shard(1)], [Shard(0)]
    if out == "partial":
        same(local_map(ft.matmul, [Partial()], split, device_mesh=row), ft.matmul, w, x)
    elif out == "avg":
        mapped = local_map(ft.matmul, [Partial("avg")], split, device_mesh=row)
        same(mapped, lambda w, x: w @ x / 8, w, x)
    elif out == "scattered":
        mapped = local_map(
            lambda w, x: funcol.reduce_scatter_tensor(w @ x, "sum", 1, row),
            [Shard(1)],
            split,
            device_mesh=row,
        )
        same(mapped, ft.matmul, w, x)
    elif out == "gathered":
        mapped = local_map(
            lambda w, x: funcol.all_gather_tensor(w, 1, row) @ x,
            [Shard(1)],
            ([Shard(1)], [Shard(1)]),
            device_mesh=row,
        )
        same(mapped, ft.matmul, w, x)
    else:
        mapped = local_map(
            lambda w, x: funcol.all_reduce(w @ x, "sum", (two, 1)),
            [Shard(0), Replicate()],
            ([Shard(0), Shard(1)], [Replicate(), Shard(0)]),
            device_mesh=two,
        )
        same(mapped, ft.matmul, w, x)


def test_on_a_part_of_a_mesh(two: Any) -> None:
    tp = two["tp"]
    mapped = local_map(
        lambda w, x: funcol.all_reduce(F.gelu(w @ x), "sum", tp),
        [Replicate()],
        ([Shard(0)], [Replicate()]),
        device_mesh=tp,
    )
    whole = lambda w, x: F.gelu(w @ x).unflatten(0, (4, -1)).sum(0)
    same(mapped, whole, numbers(16, 8), numbers(8, 24, seed=1))
    w = distribute_tensor(numbers(16, 8).detach(), two, [Replicate(), Shard(0)])
    x = distribute_tensor(numbers(8, 24).detach(), two, [Shard(1), Replicate()])
    np.testing.assert_allclose(mapped(w, x).numpy(), whole(w, x).numpy(), rtol=1e-12)


def test_other_collectives(row: Any) -> None:
    one = ([Shard(0)],)

    def mapped(f: Any, outs: Any = (Shard(0),)) -> Any:
        return local_map(f, [*outs], one, device_mesh=row)

    x = numbers(64, 3)
    turned = mapped(lambda x: funcol.permute_tensor(x, [*range(1, 8), 0], row))
    same(turned, lambda x: x.roll(8, 0), x)
    swapped = mapped(lambda x: funcol.all_to_all_single(x, None, None, row))
    same(swapped, lambda x: x.view(8, 8, 3).transpose(0, 1).reshape(64, 3), x)
    same(mapped(lambda x: funcol.broadcast(x, 2, row), [Replicate()]), lambda x: x[16:24], x)
    same(mapped(lambda x: x * funcol.axis_index(row)), lambda x: x * ft.arange(64).div(8).floor()[:, None], x)
    largest = mapped(lambda x: funcol.all_reduce(x.max(), "max", row), [Replicate()])
    assert largest(x.detach()).item() == x.max().item()
    product = mapped(lambda x: funcol.all_reduce(x, "product", row), [Replicate()])
    np.testing.assert_allclose(
        product(x.detach()).numpy(), x.detach().view(8, 8, 3).prod(0).numpy(), rtol=1e-12
    )


def test_trees_numbers_and_what_is_captured(row: Any) -> None:
    scale = ft.tensor(2.0, dtype=ft.float64, requires_grad=True)

    def f(pair: Any, name: str, *, power: int) -> Any:
        return {"a": pair[0] * scale, "name": name, "b": (pair[1] ** power).sum()}

    mapped = local_map(f, ([Shard(0)], None, [Partial()]), ([Shard(0)], [Shard(0)], None), device_mesh=row)
    x, y = numbers(16), numbers(8, seed=1)
    for run in (mapped, ft.compile(mapped)):
        scale.grad = None
        out = run((x, y), "n", power=2)
        assert out["name"] == "n"
        np.testing.assert_allclose(out["b"].item(), (y * y).sum().item())
        (out["a"].sum() + out["b"]).backward()
        np.testing.assert_allclose(scale.grad.item(), x.sum().item())


def test_an_eager_call_is_compiled_once(row: Any) -> None:
    runs = itertools.count()

    def f(x: Any) -> Any:
        next(runs)
        return x * 2

    mapped = local_map(f, [Shard(0)], ([Shard(0)],), device_mesh=row)
    x = numbers(16)
    mapped(x).sum().backward()
    count = next(runs)
    for _ in range(3):
        x.grad = None  # with a gradient it would be an argument that is this very tensor
        mapped(x).sum().backward()
        x.grad = None
        local_map(f, [Shard(0)], ([Shard(0)],), device_mesh=row)(x)  # made anew, of the same function
    assert next(runs) == count + 1


def test_placements_that_are_there(row: Any, two: Any) -> None:
    x = distribute_tensor(ft.arange(16.0), row, [Shard(0)])
    assert local_map(lambda x: x[:1], [Shard(0)])(x).tolist() == [*range(0, 16, 2)]
    assert local_map(lambda x: x[:1], [Replicate()])(ft.arange(16.0)).tolist() == [0]  # on no mesh
    with pytest.raises(ValueError, match="local_map has a mismatched placements"):
        local_map(lambda x: x, [Shard(0)], ([Replicate()],))(x)
    moved = local_map(lambda x: x[:1], [Replicate()], ([Replicate()],), redistribute_inputs=True)
    assert moved(x).tolist() == [0]
    y = distribute_tensor(ft.arange(16.0, requires_grad=True), row, [Shard(0)])
    placed = local_map(lambda x: x * 3, [Shard(0)], ([Shard(0)],), in_grad_placements=([Replicate()],))
    placed(y).sum().backward()
    assert y.grad.tolist() == [3.0] * 16


def test_what_is_refused(row: Any, two: Any) -> None:
    x = ft.ones(8)
    with pytest.raises(
        NotImplementedError, match=r"all_reduce\(\) over 'dim_0' is for functions that local_map"
    ):
        funcol.all_reduce(x, "sum", row)
    with pytest.raises(AssertionError, match="Only 1D mesh is supported"):
        funcol.all_reduce(x, "sum", two)
    run = lambda f, **how: local_map(f, [Replicate()], ([Shard(0)],), device_mesh=row, **how)(x)
    with pytest.raises(NotImplementedError, match="is not a Python number"):
        run(lambda x: x * row.get_local_rank())
    with pytest.raises(NotImplementedError, match="splits of different sizes"):
        run(lambda x: funcol.all_to_all_single(x, [1, 2], [1, 2], row))
    with pytest.raises(AssertionError, match="received 1 out_placements but 2 is expected"):
        run(lambda x: (x, x))
    with pytest.raises(AssertionError, match="in_placements length 2 does not match"):
        local_map(ft.neg, [Shard(0)], ([Shard(0)], None), device_mesh=row)(x)
    with pytest.raises(NotImplementedError, match="needs device_mesh="):
        ft.compile(local_map(ft.neg, [Shard(0)]))(x)
    with pytest.raises(NotImplementedError, match="needs in_placements="):
        ft.compile(lambda x: local_map(ft.neg, [Shard(0)], device_mesh=row)(x * 2))(x)


def test_checks_of_values_come_out(row: Any) -> None:
    table = numbers(4, 2).detach()
    f = local_map(lambda i, t: F.embedding(i, t), [Shard(0)], ([Shard(0)], [Replicate()]), device_mesh=row)
    assert f(ft.arange(8) % 4, table).shape == (8, 2)
    with pytest.raises(IndexError):
        f(ft.arange(8), table)


def test_each_part_has_random_numbers_of_its_own(row: Any) -> None:
    f = local_map(lambda x: F.dropout(x, 0.5), [Shard(0)], ([Shard(0)],), device_mesh=row)
    x = ft.ones(8, 64)
    ft.manual_seed(0)
    eager = [f(x), f(x)]
    ft.manual_seed(0)
    step = ft.compile(f, rng="torch")
    assert all((a == step(x)).all() for a in eager)
    keyed = ft.compile(f)
    for out in (*eager, keyed(x), keyed(x)):
        assert len({tuple(part) for part in out.tolist()}) == 8
    assert (keyed(x) != keyed(x)).any()
    y = ft.ones(8, 64, requires_grad=True)
    for run in (f, keyed):
        out = run(y)
        y.grad = None
        out.sum().backward()
        assert (y.grad == out).all()
    with pytest.raises(NotImplementedError, match="must not draw random numbers"):
        ft.func.grad(lambda x: f(x).sum())(x)
