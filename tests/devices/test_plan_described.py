"""A step that is planned, with nothing but shapes, needs what the same step needs when it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import pytest
from jax.sharding import PartitionSpec as P

import functorch_port as ft
from functorch_port._array import tracing
from functorch_port.distributed import described_mesh, plan
from functorch_port.distributed.device_mesh import DeviceMesh
from functorch_port.distributed.fsdp import FullyShardedDataParallel, fully_shard
from functorch_port.distributed.sharding import shard
from functorch_port.distributed.tensor import Shard
from functorch_port.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

nn, F = ft.nn, ft.nn.functional


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = (
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: Any) -> Any:
        return x + self.down(F.dropout(F.gelu(self.up(self.norm(x))), 0.1, self.training))


def fsdp(net: Any, mesh: DeviceMesh) -> Any:
    for block in net[:-1]:
        fully_shard(block, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def wrapped(net: Any, mesh: DeviceMesh) -> Any:
    return FullyShardedDataParallel(net, device_mesh=mesh)


def tensor_parallel(net: Any, mesh: DeviceMesh) -> Any:
    shard(net, {}, mesh)
    for block in net[:-1]:
        parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return fully_shard(net, mesh=mesh["fsdp"])


def built(form: Any, mesh: DeviceMesh, device: str, keep_grads: bool) -> tuple[Any, list[Any], list[Any]]:
    """A training step, its arguments, and what it leaves."""
    with ft.device(device):
        net = nn.Sequential(Block(32), nn.Linear(32, 16))
        x, y = ft.zeros(64, 32), ft.zeros(64, dtype=ft.int64)
    net = form(net, mesh)
    shard(x, P("fsdp"), mesh), shard(y, P("fsdp"), mesh)
    opt = ft.optim.AdamW(net.parameters(), 1e-3)

    @ft.compile(keep_grads=keep_grads, checks=False)
    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    return step, [x, y], [net, opt]


@pytest.mark.parametrize(
    ("form", "mesh", "keep_grads"),
    [
        (fsdp, {"fsdp": 8}, True),
        (wrapped, {"fsdp": 8}, False),
        (tensor_parallel, {"fsdp": 2, "tp": 4}, False),
    ],
)
def test_the_bytes_are_those_of_a_run(form: Any, mesh: dict[str, int], keep_grads: bool) -> None:
    on = described_mesh("cpu:8", mesh)
    found = plan(*built(form, on, "meta", keep_grads)[:2], mesh=on)
    step, args, (net, opt) = built(form, on, "cpu", keep_grads)
    step(*args)
    state = [t for values in opt.state.values() for t in values.values()]
    moments = [t for t in state if t.dim()]
    assert found.bytes_of("parameters") == on_one_device(net.parameters())
    assert found.bytes_of("optimizer state") == on_one_device(moments) + 4  # all count the same steps
    numbers = 5 * 8  # of the optimizer, in float64
    assert found.bytes_of("inputs") == on_one_device(args) + numbers
    grads = [p.grad for p in net.parameters() if p.grad is not None]
    assert found.compiler["outputs"] - found.compiler["reused in place"] >= on_one_device(grads)
    (program,) = step.programs()
    env = program.inputs.numbers.check(args)
    donated, kept, _ = program.inputs.gather(args, env, program.executable.count)
    with tracing.x64():
        run = program.executable.jit.lower(donated, kept).compile().memory_analysis()
    assert found.compiler["arguments"] == run.argument_size_in_bytes
    assert found.compiler["outputs"] == run.output_size_in_bytes
    assert found.compiler["reused in place"] == run.alias_size_in_bytes
    assert found.compiler["temporary"] == pytest.approx(run.temp_size_in_bytes, rel=0.02)
    numbers_of_xla = found.compiler
    total = numbers_of_xla["arguments"] + numbers_of_xla["outputs"] - numbers_of_xla["reused in place"]
    assert sum(cause.bytes for cause in found.causes) == found.needs == total + numbers_of_xla["temporary"]


def on_one_device(tensors: Any) -> int:
    """Bytes of the parts that the first device has."""
    first = jax.devices()[0]
    arrays = [t.detach().jax() for t in tensors]
    return sum(s.data.nbytes for a in arrays for s in a.addressable_shards if s.device == first)


def test_what_was_planned_is_as_before_and_nothing_was_made() -> None:
    on = described_mesh("cpu:8")
    step, args, (net, opt) = built(fsdp, on, "meta", True)
    arrays = len(jax.live_arrays())
    first, again = (plan(step, args, mesh=on) for _ in range(2))
    assert first.needs == again.needs and again.cached
    assert not opt.state and not opt._premade and all(p.is_meta and p.grad is None for p in net.parameters())
    assert not step.programs() and step.traces == 0
    assert len(jax.live_arrays()) - arrays < 8


def test_a_tensor_in_the_trace_is_where_the_program_runs() -> None:
    on = described_mesh("cpu:8")
    step, args, (net, _) = built(fsdp, on, "meta", False)

    def watching(x: Any, y: Any) -> Any:
        for t in (x, net[0].up.weight, net[0].up.weight.grad, ft.ones(2, device=x.device), ft.zeros_like(x)):
            assert t is None or t.device.type == "cpu"
        assert ft.zeros(2, device="meta").is_meta and not x.is_meta
        with ft.autocast("cpu", ft.bfloat16):
            assert net(x).dtype == ft.bfloat16
        return step(x, y)

    assert plan(watching, args, mesh=on).needs


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: Any) -> Iterator[None]:
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path_factory.mktemp("cache")))
    yield
    jax.config.update("jax_compilation_cache_dir", before)


def test_everything_is_to_be_on_one_mesh() -> None:
    on = described_mesh("cpu:8")
    step, args, _ = built(fsdp, on, "meta", False)
    other = described_mesh("cpu:4")
    with pytest.raises(ValueError, match="lies on a mesh .* place everything on one mesh"):
        plan(step, args, mesh=other)
    with pytest.raises(
        ValueError, match="cpu:4 has 4 devices, and the step is on a mesh {'fsdp': 8} of cpu devices"
    ):
        plan(step, args, topology="cpu:4")


def test_what_was_planned_can_be_trained() -> None:
    on = described_mesh("cpu:8")
    step, args, (net, opt) = built(fsdp, on, "meta", False)
    plan(step, args, mesh=on)
    net.to_empty(device="cpu")
    ft.manual_seed(0)
    for part in (net[0].norm, net[0].up, net[0].down, net[1]):
        part.reset_parameters()
    losses = [float(step(ft.ones(64, 32), ft.zeros(64, dtype=ft.int64))) for _ in range(3)]
    assert losses[2] < losses[0] and all(p.placements == (Shard(0),) for p in net.parameters())
    assert all(not t.is_meta for values in opt.state.values() for t in values.values())


@pytest.mark.parametrize("width, said", [(1023, True), (1024, False)])
def test_parameters_that_nothing_splits_are_told(width: int, said: bool) -> None:
    mesh = described_mesh("cpu:8", {"fsdp": 8})
    with ft.device("meta"):
        net, x = nn.Sequential(nn.Linear(64, 8), nn.Linear(width, width)), ft.zeros(16, width)
    fully_shard(net, mesh=mesh)
    found = plan(net[1], [x], mesh=mesh)
    assert not any("of parameters" in note for note in found.notes), "nothing is split that could be"
    found = plan(ft.compile(lambda x: net[1](x).sum() + net[0].weight.sum()), [x], mesh=mesh)
    told = [
        note for note in found.notes if "of parameters and optimizer state are whole on each device" in note
    ]
    assert len(told) == said
    if said:
        assert told[0].startswith("4.00 MiB") and "float32[1023,1023]" in told[0]
