"""Profiles of eager operations: names and structure beside torch's; times are only there."""

from __future__ import annotations

import json

import pytest
import torch

import functorch_port as ft


def profiled(T, **options):
    profiler = T.autograd.profiler
    x, layer = T.ones(2, 3), T.nn.Linear(3, 4)
    with profiler.profile(**options) as prof, profiler.record_function("outer"):
        y = x * 2 + 4
        with profiler.record_function("inner"):
            y = y - 1
        layer(y / 2)
    return prof


def test_names_are_those_of_torch() -> None:
    ours = [e.name for e in profiled(ft).function_events]
    theirs = [e.name for e in profiled(torch).function_events if e.name in ours]
    assert (
        ours
        == theirs
        == ["outer", "aten::mul", "aten::add", "inner", "aten::sub", "aten::div", "aten::linear"]
    )


def test_children_and_times() -> None:
    prof = profiled(ft)
    outer, *_, inner, sub, _, _ = prof.function_events
    assert inner.cpu_parent is outer
    assert inner.cpu_children == [sub]
    assert len(outer.cpu_children) == 5
    total = prof.self_cpu_time_total
    assert total == pytest.approx(outer.cpu_time_total)
    assert outer.self_cpu_time_total < outer.cpu_time_total
    assert prof.total_average().count == 7


def test_shapes() -> None:
    (event,) = [e for e in profiled(ft, record_shapes=True).function_events if e.name == "aten::linear"]
    assert event.input_shapes == [[2, 3], [4, 3], [4]]


def test_sums_and_tables(tmp_path) -> None:
    prof = profiled(ft)
    sums = {e.key: e.count for e in prof.key_averages()}
    assert sums["aten::mul"] == 1
    assert str(prof) == prof.table()
    table = prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=2, header="TEST")
    assert "TEST" in table and len(table.splitlines()) == 2 + 3 + 2 + 2
    assert "aten::add" not in prof.table(top_level_events_only=True)
    prof.export_chrome_trace(str(tmp_path / "trace"))
    events = json.loads((tmp_path / "trace").read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 7


def test_on_and_off() -> None:
    assert not ft.autograd._profiler_enabled()
    with ft.autograd.profiler.profile():
        assert ft.autograd._profiler_enabled()
        with pytest.raises(RuntimeError, match="already enabled"), ft.autograd.profiler.profile():
            pass
    assert not ft.autograd._profiler_enabled()
    with ft.autograd.profiler.profile(enabled=False) as prof:
        ft.ones(2) + 1
    assert prof.function_events is None
    with pytest.raises(RuntimeError, match="didn't finish"):
        prof.table()


def test_operations_are_what_they_were() -> None:
    x = ft.ones(3, requires_grad=True)
    with ft.autograd.profiler.profile() as prof:
        y = (x * 3).exp()
        y.sum().backward()
        ft.add(ft.ones(2), 1, out=ft.empty(2))
        with pytest.raises(RuntimeError):
            ft.ones(2) @ ft.ones(3)
        ft.ones(4).add_(1)
    assert x.grad.tolist() == pytest.approx([60.2566] * 3, rel=1e-4)
    assert len(prof.function_events) >= 5


@pytest.mark.parametrize("T", [torch, ft], ids=["torch", "ours"])
def test_nesting_by_times(T) -> None:
    util = T.autograd.profiler_util
    events = util.EventList()
    for number, (thread, start, end) in enumerate([(1, 0, 1), (1, 1, 2), (0, 0, 2), (0, 1, 2), (0, 1, 3)]):
        events.append(
            util.FunctionEvent(id=number, node_id=0, name="", thread=thread, start_us=start, end_us=end)
        )
    events._populate_cpu_children()
    assert [[child.id for child in event.cpu_children] for event in events] == [[], [], [], [], [3]]
    average = util.FunctionEventAvg()
    average.add(events[2])
    average.add(events[4])
    assert (average.count, average.cpu_time_total, average.cpu_time) == (2, 4, 2)
    assert [util._format_time(t) for t in (1.5, 2500.0, 3e6)] == ["1.500us", "2.500ms", "3.000s"]
