"""A stack of layers that is one loop of a program, fully sharded: what the loop communicates."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np
import pytest
from collectives import called_by, chips, collectives, elsewhere, text_of

import functorch_port as ft
from functorch_port.distributed.fsdp import fully_shard

nn, F = ft.nn, ft.nn.functional
LAYERS = 4


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Any) -> Any:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def made(width: int, layers: int = LAYERS, inner: bool = False) -> tuple[Any, Any]:
    """The step of a stack whose layers are gathered in the loop, and the stack."""
    ft.manual_seed(0)
    net = nn.ScanStack([Block(width) for _ in range(layers)])
    fully_shard(net.stacked if inner else net)  # and its layers, one at a time
    opt = ft.optim.AdamW(net.parameters(), 0.01)

    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        return loss

    return ft.compile(step, checks=False), net


@pytest.mark.parametrize("inner", [False, True], ids=["stack", "stack.stacked"])
@pytest.mark.parametrize("layers", [LAYERS, 8])  # as many as devices, too: the layers are not what is split
def test_a_layer_is_gathered_in_the_loop_and_its_gradient_leaves_it_split(layers: int, inner: bool) -> None:
    """A CPU has no reduce-scatter: it adds a layer's gradient up and takes a part, but never keeps a whole stack."""
    step, net = made(32, layers, inner)
    text = text_of(step, ft.randn(128, 32))
    found = collectives(text)
    gathered = [shape for each in found if each.kind == "all-gather" for shape in each.shapes]
    assert all(each.looped for each in found if each.size > 4)
    assert gathered.count((64, 32)) == 2 and gathered.count((32, 64)) == 2  # forward and backward
    assert not re.search(rf"f32\[{layers},(64,32|32,64)\]", text)
    assert net.stacked.up.weight.jax().sharding.shard_shape((layers, 64, 32)) == (layers, 8, 32)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("libtpu") is None, reason="needs the TPU compiler")
@pytest.mark.filterwarnings("ignore:Error reading persistent compilation cache")
def test_no_gradient_of_a_weight_is_added_up_whole_in_the_loop_of_a_tpu() -> None:
    step, _ = made(512)
    jit, given = called_by(step, ft.randn(512, 512))
    with jax.enable_x64(True):
        text = elsewhere(jit, given, (0,), chips({"dim_0": 8})).compile().as_text()
    looped = [each for each in collectives(text) if each.looped]
    assert {each.kind for each in looped} >= {"all-gather", "reduce-scatter"}
    weights = [each for each in looped if each.kind == "all-reduce" and max(map(np.prod, each.shapes)) > 2048]
    assert not weights, weights
