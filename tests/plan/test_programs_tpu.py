"""What a TPU's compiler makes of small programs, which needs no chip, beside what is known of them."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import steps_on_meshes as steps
from jax.experimental import pallas as pl
from jax.extend import core as jax_core
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import functorch_port as ft
from functorch_port._plan import hlo, work
from functorch_port._plan.analysis import analyse
from functorch_port._plan.chips import topology
from functorch_port._plan.collectives import collectives
from functorch_port._plan.texts import compiled_with_text
from functorch_port._plan.topology import described_mesh, devices_of
from functorch_port._plan.wires import Wires, coordinates_of
from functorch_port.distributed import plan

pytest.importorskip("libtpu", reason="the TPU compiler")
# JAX cannot read programs for chips that are not there from its cache, says so, and compiles them again
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Error reading persistent compilation cache"),
]


def chips(name: str) -> Any:
    return np.array(devices_of(name))


@pytest.fixture(scope="module")
def line() -> Mesh:
    return steps.mesh_of(chips("v5e:4x4"), fsdp=16)


@pytest.fixture(scope="module")
def grid() -> Mesh:
    return steps.mesh_of(chips("v5e:4x4"), dp=4, tp=4)


@pytest.mark.parametrize(
    "name", ["v4:2x2x1", "v5e:1x1", "v5e:16x16", "v5p:4x4x8", "v6e:16x16*2", "tpu7x:4x4x4"]
)
def test_jax_takes_the_names(name: str) -> None:
    where, found = topology(name), chips(name)
    assert len(found) == where.devices
    assert len({tuple(d.coords) for d in found}) == where.chips // where.slices
    places = coordinates_of(found, where)
    assert len({place[0] for place in places}) == where.slices and len(set(places)) == where.chips
    assert Wires(where, places).places.shape == (where.devices, 1 + len(where.shape))


@pytest.mark.parametrize(
    ("name", "memory"), [("v4:2x2x1", 15.25), ("v5e:2x2", 15.75), ("v5p:2x2x1", 95.73), ("v6e:2x2", 31.24)]
)
def test_memory_is_what_the_compiler_says(name: str, memory: float) -> None:
    mesh = Mesh(chips(name)[:1], ("x",))
    with pytest.raises(jax.errors.JaxRuntimeError, match=rf"available HBM \({memory}G\)"):
        steps.text(mesh, lambda x: x + 1, ((60 << 30,), P()))
    where = topology(name)
    assert where.chip.usable / where.chip.devices == pytest.approx(memory * 2**30, rel=1e-6)


def test_fully_sharded(line: Mesh) -> None:
    """It gathers in bfloat16, as products of float32 take it; one gather is in steps, within other instructions."""
    program = hlo.parse(steps.text(line, steps.fsdp(line, scanned=False), *steps.fsdp_args(16)))
    found = collectives(program, dict(line.shape))
    gathers = [c for c in found if c.kind == "all-gather"]
    assert sum(c.nbytes for c in gathers) == steps.LAYERS * 2 * steps.WIDTH**2
    assert {c.dtypes for c in gathers} == {("bf16",)}
    sums = [c for c in found if c.kind in ("all-reduce", "reduce-scatter")]
    assert sum(c.nbytes for c in sums) == steps.LAYERS * 4 * steps.WIDTH**2
    assert {(c.axes, c.size, c.exact, c.times) for c in found} == {(("fsdp",), 16, True, 1)}
    assert {(c.module, c.phase) for c in sums} == {("layer", "backward")}
    product = 2 * 32 * steps.WIDTH**2
    assert work.products(program) == {"bf16": (3 * steps.LAYERS - 1) * product}


def test_in_loops_they_count_as_often_as_they_run(line: Mesh) -> None:
    program = hlo.parse(steps.text(line, steps.fsdp(line, True, remat=True), *steps.fsdp_args(16)))
    found = collectives(program, dict(line.shape))
    assert not program.unknown and {c.times for c in found} == {steps.LAYERS}
    product = 2 * 32 * steps.WIDTH**2
    assert work.products(program) == {"bf16": 4 * steps.LAYERS * product}
    assert sum(c.nbytes for c in found if c.kind == "all-gather") == 2 * 2 * steps.WIDTH**2


def test_counters_of_64_bits_are_two_of_32(line: Mesh) -> None:
    with jax.enable_x64(True):
        text = steps.text(line, steps.fsdp(line, True, remat=True), *steps.fsdp_args(16))
    assert re.search(r"while\(.*", text) and "u32[]" in text
    program = hlo.parse(text)
    product = 2 * 32 * steps.WIDTH**2
    assert not program.unknown and work.products(program) == {"bf16": 4 * steps.LAYERS * product}


def test_axes_and_rings(grid: Mesh) -> None:
    found = steps.found(grid, steps.tensor_parallel, *steps.TENSOR_ARGS)
    assert steps.rows(found) == [("all-reduce", ("tp",), 4, 4 * 8 * 64, 1, True)]
    found = steps.found(grid, steps.ring(grid, "dp", 5), ((32, 128), P("dp")))
    assert steps.rows(found) == [("collective-permute", ("dp",), 4, 4 * 8 * 128, 5, True)]
    found = steps.found(grid, steps.exchanged(grid), ((128, 128), P("dp")), ((1024, 512), P("tp")))
    assert steps.rows(found) == [
        ("all-reduce", ("dp", "tp"), 16, 4 * 256 * 512, 1, True),
        ("all-to-all", ("tp",), 4, 4 * 32 * 128, 1, True),
        ("reduce-scatter", ("dp",), 4, 4 * 256 * 512, 1, True),
    ]


@pytest.mark.parametrize(
    ("precision", "unit", "slower"), [("default", "bf16", 1), ("high", "bf16x3", 3), ("highest", "bf16x6", 6)]
)
def test_products_of_float32_take_several_passes(precision: str, unit: str, slower: int) -> None:
    """The compiler's own cycles say so, too, and are what the peak and the clock lead to."""
    chip, n = topology("v5e:1x1").chip, 1024
    mesh = Mesh(chips("v5e:2x2")[:1], ("x",))
    program = hlo.parse(steps.text(mesh, lambda x: jnp.dot(x, x, precision=precision), ((n, n), P())))
    assert work.products(program) == {unit: 2 * n**3}
    assert chip.clock is not None
    expected = slower * 2 * n**3 / chip.flops["bf16"]
    assert 0.95 * expected < work.cycles(program) / chip.clock < 1.4 * expected  # with conversions


def test_batches_of_products_are_counted_without_zeros() -> None:
    mesh = Mesh(chips("v5e:2x2")[:1], ("x",))
    f = lambda q, k: jnp.einsum("bhqd,bhkd->bhqk", q, k)
    program = hlo.parse(steps.text(mesh, f, ((8, 4, 256, 64), P()), ((8, 4, 256, 64), P())))
    assert work.products(program) == {"bf16": 2 * 8 * 4 * 256 * 256 * 64}


def test_slices_are_joined_by_the_hosts() -> None:
    """The program is that of one slice; what goes to the other one is a transfer of the hosts."""
    mesh = steps.mesh_of(chips("v5e:2x2*2"), dcn=2, ici=4)
    place = lambda *spec: lambda w: jax.lax.with_sharding_constraint(w, NamedSharding(mesh, P(*spec)))
    both, whole = P(("dcn", "ici")), 4 * 1024 * 256
    program = hlo.parse(steps.text(mesh, place(), ((1024, 256), both)))
    found = collectives(program, dict(mesh.shape), slices=2)
    assert {(c.kind, c.axes, c.size, c.slices) for c in found} == {
        ("all-gather", ("ici",), 4, 1),
        ("all-gather", ("dcn",), 2, 2),
    }
    assert sum(c.nbytes for c in found if c.slices == 1) == whole
    assert [c.nbytes for c in found if c.slices == 2] == [whole // 4]
    program = hlo.parse(steps.text(mesh, place(None, "dcn"), ((1024, 256), P("dcn"))))
    (one,) = collectives(program, dict(mesh.shape), slices=2)
    assert (one.kind, one.axes, one.nbytes, one.sent) == ("all-to-all", ("dcn",), whole // 2, whole // 4)
    wires = Wires(topology("v5e:2x2*2"))
    assert wires.seconds(one) == one.sent / wires.chip.network
    with pytest.raises(ValueError, match="is for 4 devices, and the mesh .* has 8"):
        collectives(program, dict(mesh.shape))
    with pytest.raises(ValueError, match="must lead from one of the 6 slices to the next"):
        collectives(program, {"a": 8, "b": 3}, slices=6)


def test_a_tpu7x_whose_text_jaxlib_refuses() -> None:
    mesh = steps.mesh_of(chips("tpu7x:2x2x1"), fsdp=8)
    given = [
        jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))
        for shape, spec in steps.fsdp_args(8)
    ]
    compiled, text = compiled_with_text(jax.jit(steps.fsdp(mesh, True, remat=True)).lower(*given), "tpu")
    assert compiled.memory_analysis().argument_size_in_bytes > 0
    program = hlo.parse(text)
    product = 2 * 32 * steps.WIDTH**2
    assert work.products(program) == {"bf16": 4 * steps.LAYERS * product}
    kinds = sorted((c.kind, c.times) for c in collectives(program, dict(mesh.shape)))
    assert kinds == [("all-gather", 3), ("all-gather", 3), ("reduce-scatter", 3)]


def test_what_a_sparse_core_gathers_has_no_cycles() -> None:
    """jaxlib refuses the text; the compiler writes 2**63 - 1 cycles, which are none."""
    mesh = steps.mesh_of(chips("v5p:2x2x1"), fsdp=4)
    table, rows = (
        jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))
        for shape, dtype, spec in (((50304, 768), jnp.bfloat16, P()), ((4 * 32768,), jnp.int32, P("fsdp")))
    )
    traced = jax.jit(lambda table, rows: table[rows]).trace(table, rows)
    _, text = compiled_with_text(traced.lower(), "tpu")
    assert f'"estimated_cycles":"{2**63 - 1}"' in text
    found = analyse(traced.jaxpr, text, dict(mesh.shape), "v5p:2x2x1")
    assert found.roofline.waiting < 1e-3
    assert any("expects no time for 1 instructions, as" in one and "gather" in one for one in found.warnings)


def test_the_text_that_is_written_says_what_that_of_jaxlib_says(line: Mesh) -> None:
    """A part of an array that goes into the chip is read once, whoever writes the text of that."""
    here, whole = NamedSharding(line, P("fsdp")), NamedSharding(line, P())
    x = jax.ShapeDtypeStruct((16 * 1024, 768), jnp.bfloat16, sharding=here)
    weight = jax.ShapeDtypeStruct((768, 768), jnp.float32, sharding=whole)

    def loss(w: Any, x: Any) -> Any:
        return jax.lax.scan(lambda x, _: (jnp.tanh(x @ w.astype(x.dtype)), None), x, None, length=5)[0].sum()

    lowered = jax.jit(jax.grad(loss)).lower(weight, x)
    compiled, text = compiled_with_text(lowered, "tpu")
    assert (
        re.search(r"async-start\(.*calls=%async_computation", text) and " slice-start(" in compiled.as_text()
    )
    here, there = hlo.parse(text), hlo.parse(compiled.as_text())
    for figure in (work.traffic, work.cycles, work.products):
        assert figure(here) == figure(there)
    size = 2 * 1024 * 768  # of an activation; those of the loop stay within the chip
    assert size < work.traffic(here) < 3 * size + 3 * 4 * 768**2


def test_kernels_do_what_the_program_does_not_say() -> None:
    mesh, n = steps.mesh_of(chips("v5e:1x1"), one=1), 256

    def kernel(x: Any, y: Any, out: Any) -> None:
        out[...] = jnp.dot(x[...], y[...])

    rows = pl.BlockSpec((128, n), lambda i: (i, 0))
    product = pl.pallas_call(
        kernel, jax.ShapeDtypeStruct((n, n), jnp.float32), grid=(n // 128,),
        in_specs=[rows, pl.BlockSpec((n, n), lambda i: (0, 0))], out_specs=rows,
    )  # fmt: skip
    f = lambda x: product(x, x) @ x
    like = jax.ShapeDtypeStruct((n, n), jnp.float32, sharding=NamedSharding(mesh, P()))
    traced = jax.jit(f).trace(like)
    found = analyse(traced.jaxpr, traced.lower().compile().as_text(), {"one": 1}, "v5e:1x1")
    assert found.device_flops == found.flops.executed == 2 * 2 * n**3
    assert any("What 1 kernels compute is not known" in one and "50%" in one for one in found.warnings)


def test_traffic_is_that_of_hbm_and_a_product_reaches_the_peak() -> None:
    mesh, size = steps.mesh_of(chips("v5e:1x1"), one=1), 1 << 26
    text = steps.text(mesh, lambda x, y: (2 * x + y, x.sum()), ((size,), P()), ((size,), P()))
    assert work.traffic(hlo.parse(text)) == pytest.approx(3 * 4 * size, rel=0.01)
    like = jax.ShapeDtypeStruct((8192, 8192), jnp.bfloat16, sharding=NamedSharding(mesh, P()))
    traced = jax.jit(jnp.matmul).trace(like, like)
    found = analyse(traced.jaxpr, traced.lower().compile().as_text(), {"one": 1}, "v5e:1x1")
    assert found.traffic == 3 * 2 * 8192**2
    assert (found.roofline.bound, found.roofline.mfu) == ("compute", 1.0)
    assert 0.8 < found.roofline.mfu_waiting < 1


@pytest.mark.parametrize("name", ["v4:2x2x1", "v5e:1x1", "v5p:2x2x1"])
def test_the_clock_is_that_of_the_peak(name: str) -> None:
    """A large product takes the compiler's cycles for about as long as at the peak."""
    chip, n = topology(name).chip, 4096
    mesh = Mesh(chips(name)[:1], ("x",))
    like = jax.ShapeDtypeStruct((n, n), jnp.bfloat16, sharding=NamedSharding(mesh, P()))
    program = hlo.parse(jax.jit(jnp.matmul).lower(like, like).compile().as_text())
    assert chip.clock is not None
    assert 1 < work.cycles(program) / chip.clock * chip.flops["bf16"] / chip.devices / (2 * n**3) < 1.15


def test_a_pod() -> None:
    """Axes of 64 and 4 on a torus of 16 x 16, with the chips in the order of libtpu."""
    where, found = topology("v5e:16x16"), chips("v5e:16x16")
    mesh = steps.mesh_of(found, dp=64, tp=4)
    args = ((1024, 4096), P("dp", "tp")), ((4096, 1024), P("tp", "dp")), ((128 * 64, 1024), P("dp"))
    gathers = [c for c in steps.found(mesh, steps.tensor_parallel, *args) if c.kind == "all-gather"]
    assert {(c.axes, c.size, c.nbytes) for c in gathers} == {(("dp",), 64, 2 * 1024 * 1024)}
    in_order, as_given = Wires(where), Wires(where, coordinates_of(found, where))
    share = 63 / 64 * gathers[0].nbytes / where.chip.link
    assert in_order.seconds(gathers[0]) == pytest.approx(
        share / (2 + 2 / 4)
    )  # a ring, and every fourth of another
    assert as_given.seconds(gathers[0]) == pytest.approx(share / (2 / 2 + 2 / 2))  # every second chip of both


@pytest.mark.parametrize(
    ("dtype", "how", "unit"),
    [
        ("bfloat16", {"attn_mask": True}, "bf16"),
        ("bfloat16", {"dropout_p": 0.1}, "bf16"),
        ("bfloat16", {"is_causal": True, "scale": 0.3}, "bf16"),
        ("float32", {"is_causal": True}, "bf16x6"),
    ],
)
def test_plain_attention_of_bfloat16_multiplies_in_one_pass(
    dtype: str, how: dict[str, Any], unit: str
) -> None:
    """Where there is no kernel for it: a mask, dropout, a length that no block divides."""
    length = 200
    tensors = [ft.zeros(2, 4, length, 64, dtype=getattr(ft, dtype)) for _ in range(3)]
    if "attn_mask" in how:
        how = {"attn_mask": ft.ones(length, length, dtype=ft.bool)}

    def both(*given: Any) -> Any:
        out, pull = ft.func.vjp(lambda *t: ft.nn.functional.scaled_dot_product_attention(*t, **how), *given)
        return out, pull(out)

    with ft.compiler.for_platform("tpu"):
        jaxpr = ft.functionalize(both).jaxpr(*tensors)
    place = NamedSharding(Mesh(chips("v5e:2x2")[:1], ("x",)), P())
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place) for x in jaxpr.in_avals]
    program = compiled_with_text(jax.jit(jax_core.jaxpr_as_fun(jaxpr)).lower(*shapes), "tpu")[1]
    assert work.products(hlo.parse(program)) == {
        unit: 6 * 2 * 8 * length**2 * 64
    }  # two, and four derivatives


def test_products_in_parts_are_told_with_what_helps() -> None:
    """A product with a weight of which each device has some of the rows: sums of float32 go to HBM for each part."""
    mesh = steps.mesh_of(chips("v5e:2x4"), fsdp=8)
    product = lambda x, w: jnp.einsum("btk,kn->btn", x, w, preferred_element_type=jnp.float32)
    place = NamedSharding(mesh, P("fsdp"))
    given = [
        jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=place) for shape in ((256, 1024, 768), (768, 3072))
    ]
    moved, told = {}, {}
    for options in (None, {"xla_jf_spmd_threshold_for_windowed_einsum_mib": 1000000}):
        lowered = jax.jit(product, compiler_options=options).lower(*given)
        text = compiled_with_text(lowered, "tpu")[1]
        found = analyse(jax.make_jaxpr(product)(*given), text, {"fsdp": 8}, "v5e:2x4")
        moved[options is None] = found.traffic
        told[options is None] = [one for one in found.warnings if "xla_jf_spmd_threshold" in one]
    assert told == {True: told[True], False: []} and "products in parts" in told[True][0]
    once = 4 * 32 * 1024 * 3072 + 2 * (32 * 1024 * 768 + 768 * 3072)
    assert moved[False] is not None and 0.95 * once <= moved[False] < 1.1 * once < 4 * once < moved[True]


def test_parts_of_a_batch_take_the_memory_of_one() -> None:
    """The parts of a step are computed one after the other, though they do not depend on each other."""

    def temporary(rows: int, parts: int) -> int:
        with ft.device("meta"):
            net = ft.nn.Sequential(ft.nn.Linear(64, 2048), ft.nn.Tanh(), ft.nn.Linear(2048, 64))
            x = ft.zeros(rows, 64)
        optimizer = ft.optim.SGD(net.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            total = 0.0
            for part in x.chunk(parts):
                with ft.autocast("tpu"):
                    loss = net(part).float().square().mean() / parts
                loss.backward()
                total = total + loss.detach()
            optimizer.step()
            return total

        mesh = described_mesh("v5e:1x1", {"one": 1})
        return plan(ft.compile(step, keep_grads=False), [x], mesh=mesh).compiler["temporary"]

    layer = 4 * 8192 * 2048 * 2
    assert temporary(4 * 8192, 4) < layer / 10 < layer < temporary(4 * 8192, 1)
