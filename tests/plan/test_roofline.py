"""Times of collectives by hand, and limits of steps."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from functorch_port._plan.analysis import analyse
from functorch_port._plan.chips import CHIPS, topology
from functorch_port._plan.collectives import Collective, axes_of, groups_of
from functorch_port._plan.roofline import price, roofline
from functorch_port._plan.wires import Wires

BYTES = 1 << 20


def seconds(
    name: str, mesh: dict[str, int], kind: str, axes: tuple[str, ...], pairs: Any = (), places: Any = None
) -> float:
    """Of a collective of a mebibyte along some axes of a mesh."""
    numbers = np.arange(np.prod([*mesh.values()])).reshape([*mesh.values()])
    group = numbers[tuple(slice(None) if axis in axes else 0 for axis in mesh)].reshape(-1)
    size = len(pairs) or len(group)
    one = Collective(
        "c", kind, ("f32",), BYTES, axes, True, size, 1, "", "forward", tuple(map(int, group)), tuple(pairs)
    )
    return Wires(topology(name), places).seconds(one)


POD, LINK = {"x": 16, "y": 16}, CHIPS["v5e"].link


@pytest.mark.parametrize(
    ("name", "mesh", "kind", "axes", "share"),
    [
        # both ways around a ring of 16
        ("v5e:16x16", POD, "all-gather", ("y",), 15 / 16 / 2),
        ("v5e:16x16", POD, "reduce-scatter", ("x",), 15 / 16 / 2),
        ("v5e:16x16", POD, "all-reduce", ("x",), 2 * 15 / 16 / 2),
        # both rings at a time
        ("v5e:16x16", POD, "all-gather", ("x", "y"), 255 / 256 / 4),
        # one way along a line, as the last chip has one link
        ("v5e:4x4", {"x": 4, "y": 4}, "all-gather", ("y",), 3 / 4),
        ("v5e:4x4", {"x": 16}, "all-gather", ("x",), 15 / 16 / 2),
        # a line of 4 of 16; a ring, and every fourth chip of the other, whose links four groups share
        ("v5e:16x16", {"fsdp": 64, "tp": 4}, "all-gather", ("tp",), 3 / 4),
        ("v5e:16x16", {"fsdp": 64, "tp": 4}, "all-gather", ("fsdp",), 63 / 64 / (2 + 2 / 4)),
        # on average a quarter of the ring and both ways; half of the data through the middle of a line
        ("v5e:16x16", POD, "all-to-all", ("y",), 16 / 8),
        ("v5e:4x4", {"x": 4, "y": 4}, "all-to-all", ("y",), 4 / 4),
        ("v5e:4x4", {"x": 4, "y": 4}, "all-to-all", ("x", "y"), 4 / 4),
        ("v5e:4x4", {"x": 4, "y": 4, "one": 1}, "all-reduce", ("one",), 0),
    ],
)
def test_collectives_on_a_torus(
    name: str, mesh: dict[str, int], kind: str, axes: tuple[str, ...], share: float
) -> None:
    assert seconds(name, mesh, kind, axes) == pytest.approx(share * BYTES / LINK)


def test_permutations_share_links() -> None:
    on = lambda n, by, wide=1: [(i * wide, (i + by) % n * wide) for i in range(n)]
    for name, pairs, load in (
        ("v5e:16x16", on(16, 1), 1),
        ("v5e:16x16", on(16, 2), 2),
        ("v5e:16x16", on(16, 15), 1),
        ("v5e:16x16", on(16, 1, wide=16), 1),
        ("v5e:4x4", on(4, 1), 1),  # the last goes back along the line
        ("v5e:4x4", on(4, 2), 2),
    ):
        mesh = POD if "16" in name else {"x": 4, "y": 4}
        assert seconds(name, mesh, "collective-permute", ("y",), pairs) == pytest.approx(load * BYTES / LINK)


def test_slices_and_nodes() -> None:
    network = CHIPS["v5e"].network
    mesh = {"slice": 2, "chip": 16}
    assert seconds("v5e:4x4*2", mesh, "all-reduce", ("slice",)) == pytest.approx(2 * BYTES / 2 / network)
    both = 2 * (BYTES * 15 / 16 / (2 * LINK) + BYTES / 2 / 16 / network)
    assert seconds("v5e:4x4*2", mesh, "all-reduce", ("slice", "chip")) == pytest.approx(both)
    assert seconds("v5e:4x4*2", mesh, "collective-permute", ("slice",), [(0, 16), (16, 0)]) == pytest.approx(
        BYTES / network
    )
    gpu, nodes = CHIPS["h100"], {"node": 2, "gpu": 8}
    assert seconds("h100:16", nodes, "all-gather", ("gpu",)) == pytest.approx(BYTES * 7 / 8 / gpu.link)
    whole = BYTES * 7 / 8 / gpu.link + BYTES / 2 / 8 / gpu.network
    assert seconds("h100:16", nodes, "all-gather", ("node", "gpu")) == pytest.approx(whole)
    assert seconds("h100:16", nodes, "all-to-all", ("node",)) == pytest.approx(BYTES / 2 / gpu.network)


def test_devices_of_a_chip_share_its_links() -> None:
    mesh, link = {"chip": 4, "core": 2}, CHIPS["tpu7x"].link
    assert seconds("tpu7x:2x2x1", mesh, "all-reduce", ("core",)) == 0
    assert seconds("tpu7x:2x2x1", mesh, "all-gather", ("chip", "core")) == pytest.approx(
        BYTES * 3 / 4 / (2 * link)
    )
    assert seconds("tpu7x:2x2x1", mesh, "all-gather", ("chip",)) == pytest.approx(BYTES * 3 / 4 / link)


def test_where_the_devices_lie_decides() -> None:
    """Chips in the order of hosts of 2 x 2, as libtpu gives them: a row of the mesh is no row of the torus."""
    order = [(0, 2 * a + c, 2 * b + d) for a in (0, 1) for b in (0, 1) for c in (0, 1) for d in (0, 1)]
    mesh = {"x": 4, "y": 4}
    assert seconds("v5e:4x4", mesh, "all-gather", ("y",), places=order) == pytest.approx(
        BYTES * 3 / 4 / (2 * LINK)
    )
    with pytest.raises(ValueError, match=r"expected 16 devices of v5e:4x4 with a slice and 2 numbers"):
        Wires(topology("v5e:4x4"), [(0, 0)])


def test_groups_of_devices() -> None:
    mesh = {"a": 2, "b": 2, "c": 4}
    for form, axes in (
        ("{{0,1,2,3},{4,5,6,7},{8,9,10,11},{12,13,14,15}}", ("c",)),
        ("{}", ("a", "b", "c")),
        ("[4,4]<=[16]", ("c",)),
        ("[8,2]<=[2,8]T(1,0)", ("a",)),
        ("[8,2]<=[2,2,4]T(0,2,1)", ("b",)),
        ("[2,8]<=[2,2,4]T(1,0,2)", ("a", "c")),
        ("mesh['x'=2,'y'=8] {'x'}", ("a",)),
        ("mesh['x'=2,'y'=8] {'y':(1)2}", ("b",)),
        ("mesh['x'=2,'y'=8] {'y':(2)4}", ("c",)),
        ("mesh['x'=2,'y'=8] {'x','y':(2)4}", ("a", "c")),
        ("mesh['x'=8,'y'=2], device_ids=([2,8]T(1,0)) {'y'}", ("a",)),
        ("mesh['x'=1,'y'=4,'z'=4], device_ids=([4,4]) {'z'}", ("c",)),
        ("mesh['x'=8,'y'=2], device_ids=(0,8,1,9,2,10,3,11,4,12,5,13,6,14,7,15) {'y'}", ("a",)),
    ):
        groups = groups_of(f"%a, channel_id=1, replica_groups={form}, dimensions={{0}}", 16)
        assert axes_of(groups, mesh) == (axes, True), form
        assert sorted(groups.reshape(-1)) == [*range(16)]
    assert axes_of(groups_of("replica_groups=[8,2]<=[16]", 16), mesh) == (("c",), False)  # half of an axis
    for form in ("mesh['x'=2], device_ids=@all {'x'}", "{{0,1},{2}}", "@mesh"):
        with pytest.raises(ValueError, match="groups of d"):
            groups_of(f"replica_groups={form}", 4)


def test_limits() -> None:
    where = topology("v5e:2x2")
    wires, chip = Wires(where), where.chip
    found = roofline(
        where, 4 * 10**12, {"bf16": 1e12, "bf16x6": 1e11, "int8": 1e12}, 8e9, [], wires, 3 * 10**7
    )
    assert found.compute == pytest.approx(1.6e12 / 197e12 + 1e12 / 393e12)
    assert found.memory == pytest.approx(8e9 / 819e9)
    assert (found.bound, found.seconds, found.communication) == ("compute", found.compute, 0)
    assert chip.clock is not None and found.expected == pytest.approx(3e7 / chip.clock)
    assert found.waiting == found.expected
    assert found.mfu == pytest.approx(4e12 / (4 * 197e12 * found.seconds)) and found.mfu <= 1
    assert any("float32 in 6 passes" in sentence for sentence in found.assumptions)
    cost = price(found, 4, 1000, 2.5)
    assert cost.million == pytest.approx(2.5 * 4 * found.seconds / 3600 * 1000)
    assert cost.per_second == pytest.approx(1000 / found.seconds)
    with pytest.raises(ValueError, match="no published peak for 'fp8', only for bf16, int8"):
        roofline(where, 1, {}, 0, [], wires, dtype="fp8")


def test_on_paper() -> None:
    """Without a program there are compute and prices, and it says what is missing."""
    jaxpr = jax.make_jaxpr(jax.grad(lambda w, x: jnp.tanh(x @ w).sum()))(
        jnp.ones((64, 64)), jnp.ones((32, 64))
    )
    found = analyse(jaxpr, None, {"dp": 16}, "h100:16", 32, 3.0)
    assert found.roofline.is_estimate and found.traffic is None and not found.communication
    assert found.roofline.compute == pytest.approx(found.flops.executed / 16 / 989.4e12)
    text = " ".join(found.roofline.assumptions)
    assert "Without a compiled program" in text and "GPUs are on paper" in text
    assert json.loads(json.dumps(found.to_dict()))["mesh"] == {"dp": 16}
    with pytest.raises(ValueError, match="has 4 devices, and v4:2x2x1 has 8: 4 chips with 2"):
        analyse(jaxpr, None, {"dp": 4}, "v4:2x2x1")
    with pytest.raises(ValueError, match="at least 1, got 0"):
        analyse(jaxpr, None, {"dp": 16}, "v5e:4x4", 0)
