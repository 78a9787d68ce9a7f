"""What compiled programs communicate on eight devices: `_plan.collectives` beside what is known of them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import steps_on_meshes as steps
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import functorch_port as ft
from functorch_port._plan.analysis import analyse
from functorch_port.distributed.device_mesh import DeviceMesh
from functorch_port.distributed.fsdp import fully_shard

ROWS = 4 * steps.WIDTH**2


@pytest.fixture(scope="module")
def line() -> Mesh:
    return steps.mesh_of(np.array(jax.devices()), fsdp=8)


def test_fully_sharded(line: Mesh) -> None:
    found = steps.found(line, steps.fsdp(line, scanned=False), *steps.fsdp_args(8))
    gathers = [c for c in found if c.kind == "all-gather"]
    assert sum(c.nbytes for c in gathers) == steps.LAYERS * ROWS
    sums = [c for c in found if c.kind == "all-reduce"]
    assert sum(c.nbytes for c in sums) == steps.LAYERS * ROWS
    assert {(c.axes, c.size, c.exact, c.times, c.dtypes) for c in found} == {
        (("fsdp",), 8, True, 1, ("f32",))
    }
    assert {(c.module, c.phase) for c in sums} == {("layer", "backward")}
    assert sum(c.sent for c in gathers) == pytest.approx(7 / 8 * steps.LAYERS * ROWS)


@pytest.mark.parametrize("remat", [False, True])
def test_in_loops_they_count_as_often_as_they_run(line: Mesh, remat: bool) -> None:
    found = steps.found(line, steps.fsdp(line, True, remat), *steps.fsdp_args(8))
    assert {c.times for c in found} == {steps.LAYERS}
    gathers = [c for c in found if c.kind == "all-gather"]
    assert [c.nbytes for c in gathers] == [ROWS] * len(gathers)
    if remat:
        assert sorted(c.phase for c in gathers) == ["forward", "recomputed"]


def test_tensor_parallel(grid: Mesh) -> None:
    found = steps.found(grid, steps.tensor_parallel, *steps.TENSOR_ARGS)
    assert steps.rows(found) == [("all-reduce", ("tp",), 4, 4 * 16 * 64, 1, True)]
    assert found[0].module == "mlp" and found[0].group == (0, 1, 2, 3)


@pytest.mark.parametrize(("axis", "size"), [("dp", 2), ("tp", 4)])
def test_a_ring_in_a_loop(grid: Mesh, axis: str, size: int) -> None:
    found = steps.found(grid, steps.ring(grid, axis, 5), ((32, 16), P(axis)))
    assert steps.rows(found) == [("collective-permute", (axis,), size, 4 * 32 // size * 16, 5, True)]
    assert len(found[0].pairs) == 8


def test_exchanges_of_several_axes(grid: Mesh) -> None:
    found = steps.found(grid, steps.exchanged(grid), ((64, 16), P("dp")), ((64, 32), P("tp")))
    assert steps.rows(found) == [
        ("all-reduce", ("dp", "tp"), 8, 4 * 16 * 32, 1, True),
        ("all-to-all", ("tp",), 4, 4 * 32 * 16, 1, True),
        ("reduce-scatter", ("dp",), 2, 4 * 16 * 32, 1, True),
    ]


def test_a_training_step_of_ours(line: Mesh) -> None:
    """From its jaxpr and its program to a limit, a number of tokens per second, and a price."""
    from collectives import called_by

    net = ft.nn.Sequential(ft.nn.Linear(64, 256), ft.nn.Linear(256, 64))
    for layer in net:
        fully_shard(layer, mesh=DeviceMesh("cpu", line))
    opt = ft.optim.AdamW(net.parameters())

    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        return loss

    step = ft.compile(step, keep_grads=False, checks=False)
    jit, given = called_by(step, ft.ones(32, 64))
    with jax.enable_x64(True):
        jaxpr, program = jit.trace(*given).jaxpr, jit.lower(*given).compile().as_text()
    found = analyse(jaxpr, program, {"fsdp": 8}, "v5e:2x4", 32, 1.0)
    assert found.flops.forward == 2 * 2 * 32 * 64 * 256 and found.flops.backward == 3 * 2 * 32 * 64 * 256
    assert found.device_flops * 8 == found.flops.executed
    gathered = sum(row.nbytes for row in found.communication if row.kind == "all-gather")
    assert gathered >= 2 * 4 * 64 * 256 and {row.axes for row in found.communication} == {("fsdp",)}
    modules = {row.module for row in found.communication}
    assert any(name.startswith("net/") for name in modules), modules
    assert found.price is not None and found.price.million is not None
    assert found.price.million == pytest.approx(8 * found.roofline.seconds / 3600 / 32 * 1e6)
    assert found.roofline.bound == "communication" and not found.roofline.is_estimate
    with pytest.raises(ValueError, match="is for 8 devices"):
        analyse(jaxpr, program, {"fsdp": 16}, "v5e:4x4")
