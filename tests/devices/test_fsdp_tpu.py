"""What `fully_shard` communicates on a TPU of 16 chips, by its compiler, which needs no chip."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import functorch_port as ft
from functorch_port._array.placed import Placed, brought, sharding_of
from functorch_port._plan.topology import devices_of
from functorch_port._tensor.tensor import wrap
from functorch_port.distributed.device_mesh import DeviceMesh
from functorch_port.distributed.fsdp import fully_shard

pytest.importorskip("libtpu", reason="the TPU compiler")
# JAX cannot read programs for chips that are not there from its cache, says so, and compiles them again
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Error reading persistent compilation cache"),
]


class Block(ft.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = ft.nn.LayerNorm(width)
        self.up, self.down = ft.nn.Linear(width, 4 * width), ft.nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        return x + self.down(ft.nn.functional.gelu(self.up(self.norm(x))))


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh(np.array(devices_of("v5e:4x4")), ("x",), axis_types=(AxisType.Auto,))


def compiled(mesh: Mesh, again: bool) -> str:
    """The program of a forward and a backward pass, from modules on the meta device."""
    with ft.device("meta"):
        net = ft.nn.Sequential(Block(512), Block(512))
    for block in net:
        fully_shard(block, mesh=DeviceMesh("tpu", mesh), reshard_after_forward=again)
    fully_shard(net, mesh=DeviceMesh("tpu", mesh))
    params = [*net.parameters()]
    places: Any = [sharding_of(p._storage) for p in params]

    def gradients(values: Any, x: Any) -> Any:
        before = [p._storage.held for p in params]
        try:
            for p, value, where in zip(params, values, places, strict=True):
                p._storage.held = Placed(value, where)
            found = ft.autograd.grad(net(wrap(x)).square().mean(), params)
            return [brought(g._value, where) for g, where in zip(found, places, strict=True)]
        finally:
            for p, held in zip(params, before, strict=True):
                p._storage.held = held

    values = [
        jax.ShapeDtypeStruct(p.shape, np.float32, sharding=s) for p, s in zip(params, places, strict=True)
    ]
    x = jax.ShapeDtypeStruct((256, 128, 512), np.float32, sharding=NamedSharding(mesh, P("x")))
    return jax.jit(gradients).lower(values, x).compile().as_text()


def shapes(text: str, kind: str) -> list[str]:
    """Shapes of the results of all collectives of a kind, each collective once."""
    found = {}
    for line in text.splitlines():
        made = re.search(rf" = (.*?) {kind}(?:-start)?\(.*channel_id=(\d+)", line)
        if made:
            found[made[2]] = re.findall(r"[a-z0-9]+\[[0-9,]*\]", made[1])
    return [shape for some in found.values() for shape in some]


@pytest.mark.parametrize("again", [False, True])
def test_no_gradient_of_a_weight_is_added_up_whole(mesh: Mesh, again: bool) -> None:
    text = compiled(mesh, again)
    gathered = shapes(text, "all-gather")
    weights = [gathered.count("f32[2048,512]"), gathered.count("f32[512,2048]")]
    assert weights == [2, 2] if not again else min(weights) >= 3
    assert not [shape for shape in shapes(text, "all-reduce") if "," in shape]
