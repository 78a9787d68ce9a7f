"""Chips and topologies by name."""

from __future__ import annotations

import pytest

from functorch_port._plan.chips import CHIPS, names, topology


def test_names_say_how_many_chips_there_are() -> None:
    for name, chips, devices, rings in (
        ("v5e:1x1", 1, 1, (False, False)),
        ("v5e:8x16", 128, 128, (False, True)),
        ("v6e:16x16*4", 1024, 1024, (True, True)),
        ("v4:2x2x1", 4, 8, (False,) * 3),
        ("v5p:2x4x4", 32, 32, (False,) * 3),
        ("v5p:16x16x24", 6144, 6144, (True,) * 3),
        ("tpu7x:4x4x8", 128, 256, (True,) * 3),
    ):
        found = topology(name)
        assert (found.chips, found.devices, found.rings) == (chips, devices, rings), name
        assert found.jax_name == name.split("*")[0]
    assert topology("v6e:16x16*4").jax_options == {"num_slices": 4}
    assert topology("h100:64").shape == (8, 8) and topology("b200:4").shape == (1, 4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v5e:3x5", "1x1, 2x2, 2x4, 4x4, 4x8, 8x8, 8x16, 16x16"),
        ("v5e:32x32", "16x16"),
        ("v5p:8x4x4", "A <= B <= C and 6144 chips at most"),
        ("v4:16x16x32", "4096"),
        ("v5e:4x4*0", r"\*N for N slices"),
        ("v9:2x2", "the chips are v4, v5e, v5p, v6e, tpu7x, a100, h100, h200, b200"),
        ("v5e", "CHIP:SHAPE"),
        ("h100:12", "a multiple of 8"),
        ("h100:2x8", "h100:16"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        topology(name)
    with pytest.raises(ValueError, match="compiles for TPUs"):
        _ = topology("h100:8").jax_name


def test_figures_agree_with_each_other() -> None:
    """What the pages say of a whole pod is what they say of a chip, as often as there are chips."""
    for name, pod, chips in (("v5e", 50.63e15, 256), ("v6e", 234.9e15, 256), ("v4", 1.1e18, 4096)):
        assert CHIPS[name].flops["bf16"] * chips == pytest.approx(pod, rel=0.03)
    for name, both_ways in (("v5e", 400e9), ("v5p", 1200e9), ("v6e", 800e9), ("tpu7x", 1200e9)):
        assert 2 * CHIPS[name].links * CHIPS[name].link == both_ways
    for chip in CHIPS.values():
        assert chip.usable <= chip.memory and chip.source.startswith("https://")
        assert chip.links == (2 * chip.dimensions or 1)


def test_all_names_are_taken() -> None:
    for chip in ("v4", "v5e", "v5p", "v6e", "tpu7x"):
        found = [topology(name) for name in names(chip)]
        assert [one.chips for one in found] == sorted(one.chips for one in found)
        assert found[-1].chips <= CHIPS[chip].largest
