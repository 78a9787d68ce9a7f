"""Parameters, gradients and optimizer state in the memory of the hosts: the numbers are those without."""

from __future__ import annotations

import copy
import gc
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import functorch_port as ft
import functorch_port.distributed.checkpoint as dcp
from functorch_port._array import offloaded, tracing
from functorch_port.distributed.device_mesh import init_device_mesh
from functorch_port.distributed.fsdp import (
    CPUOffload,
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    fully_shard,
)
from functorch_port.distributed.sharding import offload, shard

nn, F = ft.nn, ft.nn.functional


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 16)
        self.block = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 10)  # its bias lies on each device

    def forward(self, x: Any) -> Any:
        return self.head(self.block(self.embed(x)).mean(1))


def split(net: Any, **options: Any) -> Any:
    fully_shard(net.block, **options)
    return fully_shard(net, **options)


def wrapped(net: Any) -> Any:
    return FullyShardedDataParallel(net, cpu_offload=CPUOffload(offload_params=True))


def on_one(net: Any) -> Any:
    return offload(shard(net, {}, jax.make_mesh((1,), ("x",))))


def two_forms(net: Any) -> Any:
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    shard(net, {r"block\.1\.weight": P("tp", None), r"block\.3\.weight": P(None, "tp")}, mesh)
    return fully_shard(net, mesh=mesh["dp"], offload_policy=CPUOffloadPolicy())


class Training:
    """A net, its optimizer, and ``run``, which takes steps with batches of its own."""

    def __init__(self, place: Any, compiled: bool, state_too: bool = False, clip: bool = True) -> None:
        ft.manual_seed(0)
        self.net = place(Net().double())
        self.opt = ft.optim.AdamW(self.net.parameters(), lr=1e-2)
        if state_too:
            offload(self.opt)
        self.clip = clip
        self.step = ft.compile(self._step) if compiled else self._step

    def _step(self, x: Any, y: Any) -> Any:
        self.opt.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        if self.clip:
            nn.utils.clip_grad_norm_(self.net.parameters(), 0.1)
        self.opt.step()
        return loss

    def run(self, steps: int, start: int = 0) -> list[float]:
        losses = []
        for i in range(start, start + steps):
            draw = ft.Generator().manual_seed(i)
            x, y = ft.randint(0, 16, (16, 4), generator=draw), ft.randint(0, 10, (16,), generator=draw)
            losses.append(float(self.step(x, y)))
        return losses

    def state(self) -> list[Any]:
        return [t for s in self.opt.state.values() for t in s.values() if t.dim()]


def kinds(tensors: Any) -> set[Any]:
    """The memories in which the arrays of tensors are."""
    return {t._storage.held.made.sharding.memory_kind for t in tensors}


def live() -> dict[Any, int]:
    """Bytes of the arrays on several devices, by memory kind."""
    gc.collect()
    found = {"device": 0, "pinned_host": 0}
    for array in jax.live_arrays():
        if len(array.sharding.device_set) > 1:
            found[array.sharding.memory_kind] += array.nbytes
    return found


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_twenty_steps_of_fully_shard(compiled: bool) -> None:
    want = Training(split, compiled)
    losses = want.run(20)
    mine = Training(lambda net: split(net, offload_policy=CPUOffloadPolicy()), compiled)
    for i in range(20):
        np.testing.assert_allclose(mine.run(1, i), losses[i : i + 1], rtol=0, atol=1e-12)
        params = [*mine.net.parameters()]
        for tensors in (params, [p.grad for p in params], mine.state()):
            assert kinds(tensors) == {"pinned_host"}
    for p, q in zip(mine.net.parameters(), want.net.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=0, atol=1e-10)
    assert all(p.is_pinned() and p.device.type == "cpu" for p in params)
    assert not any(q.is_pinned() for q in want.net.parameters())
    if compiled:
        (program,) = mine.step.programs()
        executable = program.executable
        with tracing.x64():
            text = str(executable.jit.trace(*executable.avals()).jaxpr)
        arrays = 3 * len(params)  # parameters and their state come and go, gradients go
        assert text.count("memory_kind=pinned_host") >= arrays + len(params)
        assert text.count("MemorySpace.Device") == arrays


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("place", [wrapped, on_one, two_forms])
def test_other_forms(place: Any, compiled: bool) -> None:
    want = Training(lambda net: net, compiled).run(4)
    mine = Training(place, compiled)
    np.testing.assert_allclose(mine.run(4), want, rtol=0, atol=1e-12)
    params = [*mine.net.parameters()]
    assert kinds(params) == kinds(mine.state()) == kinds([p.grad for p in params]) == {"pinned_host"}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_the_state_alone(compiled: bool) -> None:
    want = Training(split, compiled).run(6)
    mine = Training(split, compiled, state_too=True)
    losses = mine.run(3)
    assert kinds(mine.state()) == {"pinned_host"} and kinds(mine.net.parameters()) == {"device"}
    late = Training(split, compiled)  # when it has state already
    late.run(3)
    offload(late.opt)
    for other in (mine, late):
        np.testing.assert_allclose(other.run(3, 3), want[3:], rtol=0, atol=1e-12)
        assert kinds(other.state()) == {"pinned_host"}
    np.testing.assert_allclose(losses, want[:3], rtol=0, atol=1e-12)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_memory_of_the_devices(compiled: bool) -> None:
    before = live()
    mine = Training(lambda net: split(net, offload_policy=CPUOffloadPolicy()), compiled, clip=False)
    mine.run(2)
    after = live()
    size = sum(p.nbytes for p in mine.net.parameters())
    assert after["pinned_host"] - before["pinned_host"] == 4 * size
    assert after["device"] - before["device"] < 2000  # counts, numbers
    assert size > 12000


def test_checkpoints_keep_the_memory(tmp_path: Any) -> None:
    place = lambda net: split(net, offload_policy=CPUOffloadPolicy())
    mine = Training(place, False)
    mine.run(2)
    dcp.save({"model": mine.net, "optimizer": mine.opt}, checkpoint_id=tmp_path / "a")
    ft.save([mine.net.state_dict(), mine.opt.state_dict()], tmp_path / "b")
    more = mine.run(2, 2)
    resharded = Training(place, False)
    dcp.load({"model": resharded.net, "optimizer": resharded.opt}, checkpoint_id=tmp_path / "a")
    from_file = Training(place, False)
    model, optimizer = ft.load(tmp_path / "b")
    from_file.net.load_state_dict(model)
    from_file.opt.load_state_dict(copy.deepcopy(optimizer))
    state_alone = Training(split, False, state_too=True)
    dcp.load({"model": state_alone.net, "optimizer": state_alone.opt}, checkpoint_id=tmp_path / "a")
    state_alone.opt.load_state_dict(
        copy.deepcopy(optimizer)
    )  # which has a count of the steps, not a copy of it
    for other in (resharded, from_file, state_alone):
        assert kinds(other.state()) == {"pinned_host"}
        assert other.run(2, 2) == more
    assert kinds(resharded.net.parameters()) == {"pinned_host"}
    assert kinds(state_alone.net.parameters()) == {"device"}


def test_what_is_written_goes_there() -> None:
    mesh = jax.make_mesh((8,), ("x",))
    x = offload(shard(ft.arange(16.0), P("x"), mesh))
    assert "memory_kind='pinned_host'" in repr(x)
    x.mul_(2)
    x[3:5] = 7.0
    want = np.arange(16.0) * 2
    want[3:5] = 7
    np.testing.assert_array_equal(x.numpy(), want)
    assert kinds([x]) == {"pinned_host"} and (x + 1).jax().sharding.memory_kind == "device"
    double = ft.compile(lambda t: t.add_(1) * 2)(x)
    np.testing.assert_array_equal(double.numpy(), (want + 1) * 2)
    assert kinds([x]) == {"pinned_host"} and double.jax().sharding.memory_kind == "device"
    assert kinds([shard(x, P("x"), mesh)]) == {"device"}


def test_a_compiled_forward_pass() -> None:
    options = {"offload_policy": CPUOffloadPolicy(), "reshard_after_forward": False}
    mine = Training(lambda net: split(net, **options), False)
    x = ft.arange(64).reshape(16, 4) % 16
    forward = ft.compile(mine.net)
    with ft.no_grad():
        np.testing.assert_allclose(forward(x).numpy(), mine.net(x).numpy(), rtol=0, atol=1e-12)
    forward(x).square().mean().backward()
    compiled = [p.grad.numpy().copy() for p in mine.net.parameters()]
    mine.opt.zero_grad()
    mine.net(x).square().mean().backward()
    for p, want in zip(mine.net.parameters(), compiled, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), want, rtol=0, atol=1e-12)
        assert p.grad.is_pinned()


def test_what_is_refused(monkeypatch: Any) -> None:
    with pytest.raises(ValueError, match="does not lie on a mesh: .* before offload"):
        offload(nn.Linear(8, 8))
    net = split(Net())
    with pytest.raises(NotImplementedError, match="LBFGS that makes its state in its first step"):
        offload(ft.optim.LBFGS(net.parameters()))
    monkeypatch.setattr(offloaded, "KIND", "memory of another kind")
    with pytest.raises(
        NotImplementedError, match="offloading needs memory of the kind 'memory of another kind', and"
    ):
        fully_shard(nn.Linear(8, 8), offload_policy=CPUOffloadPolicy())
    with pytest.raises(NotImplementedError, match="keep the values on the devices"):
        offload(net)
    assert kinds(net.parameters()) == {"device"}
