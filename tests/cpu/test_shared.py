"""Memory that tensors and numpy arrays have together: small ones share it as in PyTorch, large ones refuse."""

from __future__ import annotations

import copy
import gc
from typing import Any

import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port._array.value import HOST
from functorch_port._cpu.shared import Memory

pytestmark = pytest.mark.cpu
LARGE = 5000  # more than stay on the host


def both(program: Any) -> Any:
    """What a program gives, the same under both libraries."""
    ours, theirs = program(ft), program(torch)
    assert ours == theirs
    return ours


def written(t: Any) -> Any:
    """A tensor and its array, written to in turn."""
    x = t.arange(6.0)
    n = x.numpy()
    found = []
    n[1] = 10
    found.append((x + 1).tolist())
    x[2] = 20
    found.append(n.tolist())
    x.add_(1)
    n *= 2
    x.mul_(0.5)
    found += [x.tolist(), n.tolist(), x.sum().item(), (x.numpy() is n), np.shares_memory(x.numpy(), n)]
    return found


def parts(t: Any) -> Any:
    """Views on both sides."""
    x = t.arange(12.0).reshape(3, 4)
    rows, across, part = x[1:], x.t(), x[:, 1::2]
    a, b, c, wide = rows.numpy(), across.numpy(), part.numpy(), x[0].expand(2, 4).numpy()
    a[0, 0] = 100
    b[3, 2] = 200
    c[0, 0] = 300
    x[2, 0] = 400
    rows.add_(1)
    n = x.numpy()
    n[:, 1][1:] = 7
    return [y.tolist() for y in (x, rows, across, part, a, b, c, n, wide)], b.strides, c.strides, wide.strides


def from_arrays(t: Any) -> Any:
    """Arrays of several kinds that tensors follow, and which follow them."""
    found: list[Any] = []
    buffer = bytearray(b"abcd")
    whole = np.arange(12.0).reshape(3, 4)
    for make in (t.from_numpy, t.as_tensor, t.asarray, lambda a: t.asarray(a, copy=False)):
        for array in (
            np.arange(3),
            whole.copy(),
            whole[1:],
            whole[:, ::2],
            whole.T,
            np.array(1.5),
            np.ones(2, bool),
        ):
            x = make(array)
            array[...] = array[..., ::-1] if array.ndim else 3
            found.append(x.tolist())
            x.fill_(1)
            found += [array.tolist(), x.numpy().strides, np.shares_memory(x.numpy(), array)]
    x = t.from_numpy(array := np.arange(6.0))
    array.shape = (2, 3)
    array[1] = 9
    found.append(x.tolist())
    x = t.frombuffer(buffer, dtype=t.uint8, offset=1)
    buffer[1] = 0
    x[2] = 1
    return found, x.tolist(), list(buffer)


def not_shared(t: Any) -> Any:
    """What has a copy."""
    array = np.arange(3.0)
    made = [
        t.tensor(array),
        t.as_tensor(array, dtype=t.float32),
        t.asarray(array, copy=True),
        t.from_numpy(array).clone(),
    ]
    made += [t.from_numpy(array) + 0, copy.deepcopy(t.from_numpy(array)), t.as_tensor(array.tolist())]
    x = t.arange(3.0)
    arrays = [
        np.array(x),
        x.clone().numpy(),
        x.double().numpy(),
        np.asarray(x, np.float64),
        np.array(x, copy=True),
    ]
    array[0] = x[0] = 9
    for a in arrays:
        a[1] = 8  # all of them can be written to
    return [m.tolist() for m in made], [a.tolist() for a in arrays], x.tolist()


def handles(t: Any) -> Any:
    """All that looks into one Storage."""
    layer = t.nn.Linear(2, 2)
    weight = layer.weight
    weight.detach().numpy()[...] = [[1, 2], [3, 4]]
    n = weight.data.numpy()
    loss = layer(t.ones(1, 2)).sum() - layer.bias.sum()
    n[0, 0] = 50  # after the forward pass
    loss.backward()
    t.optim.SGD([weight], lr=1.0).step()
    found = [weight.tolist(), n.tolist(), round(loss.item(), 4)]
    layer.load_state_dict({"weight": t.zeros(2, 2), "bias": t.ones(2)})
    found += [n.tolist(), weight.numpy(force=True).flags.writeable]
    weight.data = t.ones(2, 2)
    return [*found, n.tolist(), weight.tolist()]


def asked(t: Any) -> Any:
    """`np.asarray`, and numpy's functions of tensors."""
    x = t.arange(3.0)
    a = np.asarray(x)
    a[0] = 5
    found = [x.tolist(), np.add(x, 1).tolist(), a.flags.writeable, np.asarray(x, a.dtype).tolist()]
    for wrong in (dict(copy=False, dtype=np.int64),):
        try:
            np.asarray(x, **wrong)
        except ValueError as error:
            found.append(str(error)[:20])
    return found


def left(t: Any) -> Any:
    """An array keeps the memory that the tensor leaves."""
    y = t.zeros(2)
    n = y.numpy()
    y.data = t.ones(3)
    n[0] = 3
    return n.tolist(), y.tolist()


@pytest.mark.parametrize(
    "program", [written, parts, from_arrays, not_shared, handles, asked, left], ids=lambda p: p.__name__
)
@pytest.mark.filterwarnings("ignore")
def test_small_tensors_share_memory_as_in_torch(program: Any) -> None:
    both(program)


def test_compiled_functions_read_and_write_shared_memory() -> None:
    x = ft.zeros(3)
    array = np.ones(3, np.float32)
    given = ft.from_numpy(array)

    @ft.compile
    def step(y: Any) -> Any:
        x.add_(y)
        return x * 2

    shown = x.numpy()
    for number in range(4):
        array[0] = number
        shown[2] = 10 * number
        expected = [shown[0] + number, shown[1] + 1, shown[2] + 1]
        assert step(given).tolist() == [2 * v for v in expected]
        assert shown.tolist() == x.tolist() == expected


def test_many_parameters_in_a_bundle_keep_the_memory_they_share() -> None:
    params = [ft.full((3,), float(i)).requires_grad_() for i in range(130)]
    optimizer = ft.optim.SGD(params, lr=1.0)
    step = ft.compile(optimizer.step)

    def train() -> None:
        for p in params:
            p.grad = ft.ones(3)
        step()

    train()
    shown = params[5].detach().numpy()
    train()
    assert shown.tolist() == [3.0] * 3
    shown[0] = 50
    train()
    assert shown.tolist() == params[5].tolist() == [49, 2, 2] and params[6].tolist() == [3, 3, 3]


def test_a_compiled_step_that_fails_leaves_shared_memory_alone() -> None:
    x = ft.zeros(3)
    shown = x.numpy()

    @ft.compile
    def step(i: Any) -> Any:
        x.add_(1)
        return ft.arange(3)[i]

    step(ft.tensor(1))
    with pytest.raises(IndexError):
        step(ft.tensor(7))
    assert shown.tolist() == x.tolist() == [1, 1, 1]


def test_eager_steps_of_many_small_parameters_keep_the_memory_they_share() -> None:
    params = [ft.full((2,), float(i)).requires_grad_() for i in range(70)]
    optimizer = ft.optim.Adam(params, lr=0.5)
    shown = params[3].detach().numpy()
    for _ in range(4):
        for p in params:
            p.grad = ft.ones(2)
        optimizer.step()
        shown[0] = 30
        moment = optimizer.state[params[3]]["exp_avg"].numpy()
    assert params[3].tolist() == shown.tolist() and shown[0] == 30
    assert moment.tolist() == optimizer.state[params[3]]["exp_avg"].tolist()


def test_a_storage_is_plain_again_when_the_array_is_gone() -> None:
    x = ft.arange(4.0)
    n = x.numpy()[1:]
    cell = x._storage
    x + 1
    assert type(cell.held) is Memory
    n[0] = 5
    del n
    gc.collect()
    assert x.tolist() == [0, 5, 2, 3]
    assert cell.held.__class__ in HOST
    y = ft.from_numpy(np.stack([np.ones(2), np.zeros(2)]))
    y + 1
    assert y._storage.held.__class__ in HOST


def test_values_of_before_stay_as_they_were() -> None:
    x = ft.arange(3.0)
    n = x.numpy()
    same, part, array = x.clone(), x[1:] * 1, x.jax()
    copied = x.reshape(3, 1).clone()
    n[...] = 9
    assert [same.tolist(), part.tolist(), array.tolist()] == [[0, 1, 2], [1, 2], [0, 1, 2]]
    assert copied.tolist() == [[0], [1], [2]] and x.jax().tolist() == [9, 9, 9]


def test_a_nan_and_the_sign_of_zero_are_seen() -> None:
    x = ft.zeros(2)
    n = x.numpy()
    n[0], n[1] = np.nan, -0.0
    assert str(x.tolist()) == "[nan, -0.0]"


@pytest.mark.parametrize(
    "make", [ft.ones, lambda n: ft.ones(n, dtype=ft.complex64), lambda n: ft.ones(1, n)[0]]
)
def test_a_large_tensor_gives_an_array_that_cannot_be_written_to(make: Any) -> None:
    x = make(LARGE)
    for array in (
        x.numpy(),
        np.asarray(x),
        x.numpy(force=True),
        x[1:].numpy(),
        x.reshape(50, 100).t().numpy(),
    ):
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5
        assert not np.shares_memory(array, np.asarray(x.jax()))  # PyTorch would write to it all the same
    own = np.array(x)
    own[0] = 5
    assert x[0].item() == 1


def test_what_a_large_tensor_gave_stays_when_the_tensor_is_written_to() -> None:
    x = ft.ones(LARGE)
    n = x.numpy()

    @ft.compile
    def step() -> None:
        x.add_(1)

    x.add_(1)
    for _ in range(3):
        step()
    assert n.min() == n.max() == 1 and x[0].item() == 5


def test_a_large_array_is_copied() -> None:
    a = np.ones(LARGE)
    x = ft.from_numpy(a)
    a[0] = x[1] = 5
    assert x[:2].tolist() == [1, 5] and a[:2].tolist() == [5, 1]


ALIASES = {
    "a list": lambda t: t.asarray([1], copy=False),
    "a number": lambda t: t.asarray(np.float32(1), copy=False),
    "another dtype": lambda t: t.asarray(np.ones(2), dtype=t.float32, copy=False),
    "a tensor of another dtype": lambda t: t.asarray(t.ones(2), dtype=t.int64, copy=False),
}


@pytest.mark.parametrize("name", ALIASES)
def test_asarray_without_a_copy_refuses_as_torch(name: str) -> None:
    with pytest.raises((ValueError, RuntimeError)) as theirs:
        ALIASES[name](torch)
    with pytest.raises(theirs.type) as ours:
        ALIASES[name](ft)
    assert str(ours.value) == str(theirs.value)


def test_asarray_without_a_copy_refuses_what_is_too_large() -> None:
    with pytest.raises(NotImplementedError, match="4096"):
        ft.asarray(np.ones(LARGE), copy=False)


def by_dlpack(t: Any) -> Any:
    """Memory that goes to other libraries and comes from them."""
    array, x = np.arange(3.0), t.arange(3.0)
    y = t.from_dlpack(array)
    array[0], y[1] = 5, 6
    far = torch.from_dlpack(x)
    far[0] = 7
    x[1] = 8
    near = t.from_dlpack(far)
    near[2] = 9
    return [v.tolist() for v in (array, y, x, far, near)]


def test_dlpack_shares_memory_as_in_torch() -> None:
    both(by_dlpack)


@pytest.mark.parametrize(
    "x",
    [ft.ones(LARGE), ft.ones(4, dtype=ft.bfloat16), ft.ones(2, 3)[:, 1:]],
    ids=["large", "bfloat16", "view"],
)
def test_another_library_cannot_write_to_an_array_of_jax(x: Any) -> None:
    value = x.jax()
    torch.from_dlpack(x).fill_(5)
    assert x.float().sum().item() == x.numel() == value.sum().item()


def test_a_gradient_is_not_exported() -> None:
    for t in (ft, torch):
        with pytest.raises(
            BufferError, match="Can't export tensors that require gradient, use tensor.detach()"
        ):
            np.from_dlpack(t.ones(2, requires_grad=True))
