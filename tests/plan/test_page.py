"""The report as a page and as tables."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from functorch_port._base.tables import text
from functorch_port._plan import rows
from functorch_port._plan.analysis import analyse
from functorch_port._plan.chips import CHIPS
from functorch_port._plan.hlo import parse
from functorch_port._plan.page import page
from functorch_port._plan.tables import tables

HLO = """HloModule jit_f, is_scheduled=true, num_partitions=4

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %a = f32[] add(%x, %y)
}

ENTRY %main (w: f32[64,64], x: f32[8,64]) -> f32[8,64] {
  %w = f32[64,64]{1,0} parameter(0)
  %x = f32[8,64]{1,0} parameter(1)
  %dot = f32[8,64] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, METADATA
  ROOT %sum = f32[8,64] all-reduce(%dot), channel_id=1, replica_groups=[2,2]<=[4], to_apply=%add, METADATA
}
""".replace("METADATA", 'metadata={op_name="jit(f)/up/dot_general"}')


@pytest.fixture
def report() -> dict[str, Any]:
    def f(w: Any, x: Any) -> Any:
        with jax.named_scope("up"):
            return x @ w

    jaxpr = jax.make_jaxpr(f)(jnp.ones((64, 64)), jnp.ones((32, 64)))
    analysis = analyse(jaxpr, HLO, {"dp": 2, "tp": 2}, "v5e:2x2", 32, 1.5)
    largest = [{"name": "<up>.weight", "module": "up", "shape": "f32[64,64]", "bytes": 16384}]
    return {
        "topology": "v5e:2x2", "device": "TPU v5 lite", "devices": 4, "mesh": {"dp": 2, "tp": 2}, "fits": False,
        "needs": 20 << 30, "hbm": 15 << 30, "problem": "5 GiB too much: split the batch & more",
        "causes": [{"name": "parameters", "bytes": 12 << 30, "largest": largest},
                   {"name": "temporary", "bytes": 8 << 30, "largest": []}],
        "notes": ["one note"], "versions": {"jax": "0.10.2"}, "analysis": json.loads(json.dumps(analysis.to_dict())),
    }  # fmt: skip


class Checked(HTMLParser):
    """Knows what is open, and what the page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.loads += [name for name, _ in attrs if name in ("src", "href", "onclick")] + [tag] * (
            tag == "script"
        )

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data + "\n"


def read(html: str) -> Checked:
    found = Checked()
    found.feed(html)
    assert not found.open and not found.loads
    assert not re.search(r"url\(|@import|//fonts", html)
    return found


def test_the_page_needs_nothing_else_and_says_all(report: dict[str, Any]) -> None:
    html = page(report)
    words = read(html).words
    for what in (
        "Plan for v5e:2x2", "TPU v5 lite, 4 devices, mesh dp=2 x tp=2", "It does not fit.", "20.00 GiB of 15.00 GiB",
        "<up>.weight", "split the batch & more", "parameters", "12.00 GiB", "80.0%", "all-reduce", "tp (2)", "2.00 KiB",
        "up, forward", "262 kFLOP", "nothing was measured", "Where the devices of the mesh lie", "one note",
        "jax 0.10.2", "a million tokens, at 1.5 a chip-hour", "limited by",
    ):  # fmt: skip
        assert what in words, what
    assert "prefers-color-scheme: dark" in html and 'name="viewport"' in html
    assert "left:calc(75.00% - 2px)" in html  # the memory that there is, of what is needed


def test_parts_may_be_absent(report: dict[str, Any]) -> None:
    for gone in report:
        read(page({name: value for name, value in report.items() if name != gone}))
    assert "Plan for a step" in read(page({})).words and tables({}) == []
    report["analysis"]["communication"] = []
    assert "None." in read(page(report)).words
    assert "An estimate on paper" not in page(report)
    report["analysis"]["roofline"]["is_estimate"] = True
    assert "An estimate on paper" in page(report)


def test_the_terminal_has_the_same(report: dict[str, Any]) -> None:
    shown = text("tests", *tables(report))
    for what in (
        "12.00 GiB",
        "80.0%",
        "all-reduce",
        "tp (2)",
        "up, forward",
        "262 kFLOP",
        "5 GiB too much",
        "█",
    ):
        assert what in shown, what
    assert max(map(len, shown.splitlines())) <= 110


def test_what_is_small_is_together(report: dict[str, Any]) -> None:
    flops = report["analysis"]["flops"]
    flops["modules"] = {f"layer{k}": {"forward": 10 + k, "backward": k} for k in range(20)}
    found = rows.modules(report, most=5)
    assert [name for name, _ in found] == ["layer19", "layer18", "layer17", "layer16", "layer15", "15 others"]
    assert found[-1][1] == {"forward": sum(range(10, 25)), "backward": sum(range(15))}
    row = report["analysis"]["communication"][0]
    report["analysis"]["communication"] = [row] * 20
    assert rows.communication(report, most=16)[-1][:4] == ("4 others", "", "4", "8.00 KiB")
    report["analysis"]["communication"] = [{**row, "exact": False}]
    assert rows.communication(report)[0][1] == "2 of tp"


def test_other_texts_are_refused() -> None:
    with pytest.raises(ValueError, match="has an ENTRY, and this has none"):
        parse("module @jit_f {}")


def test_units() -> None:
    assert [rows.in_seconds(s) for s in (0, 3e-6, 0.00351, 12.0)] == ["0", "3 µs", "3.51 ms", "12 s"]
    assert [rows.in_flops(n) for n in (12, 70.4e12, 6e18)] == ["12 FLOP", "70.4 TFLOP", "6 EFLOP"]


def test_the_guide_is_true(capsys: pytest.CaptureFixture[str]) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "plan_figures.md").read_text()
    exec(
        compile("\n".join(re.findall(r"```python\n(.*?)```", guide, re.DOTALL)), "plan_figures.md", "exec"),
        {},
    )
    assert "fsdp=8 tp=2" in capsys.readouterr().out
    row = r"^\| `(\w+):.*?` \| (\d+) \| (\d+)(?: GB)? \| ?([\d.]*) \| (\d+) \| (.*?) \| (\d) \|$"
    found = re.findall(row, guide, re.MULTILINE)
    assert [row[0] for row in found] == [*CHIPS]
    for name, peak, memory, usable, bandwidth, links, devices in found:
        chip = CHIPS[name]
        assert round(chip.flops["bf16"] / 1e12) == int(peak) and round(chip.bandwidth / 1e9) == int(bandwidth)
        assert chip.memory == int(memory) * (2**30 if chip.is_tpu else 10**9) and chip.devices == int(devices)
        assert not usable or chip.usable / chip.devices / 2**30 == pytest.approx(float(usable), rel=1e-3)
        each = f"{chip.link / 1e9:.0f}"
        assert links == (f"{chip.links} x {each}" if chip.is_tpu else f"switch, {each}")
