"""Candidates, what need not be planned, and the ranking."""

from __future__ import annotations

import json
import math
from xml.etree import ElementTree

import pytest

from functorch_port._base.tables import text
from functorch_port._plan.page import page
from functorch_port._plan.sweep import (
    Candidate,
    Outcome,
    Sweep,
    candidates,
    frontier,
    meshes,
    outcome,
    picture,
    summary,
    sweep,
)  # fmt: skip
from functorch_port._plan.tables import tables

GIB = 1 << 30
MESHES = [*meshes(16, ("fsdp", "tp"), {"fsdp": 16, "tp": 4})]


def model(candidate: Candidate) -> Outcome:
    """More tensor parallelism is slower and smaller; remat is slower and smaller, and so are microbatches."""
    tp = dict(candidate.mesh)["tp"]
    needs = (8 + 16 * (1 - 0.7 * candidate.remat) / candidate.microbatches) / math.sqrt(tp) * GIB
    seconds = 0.1 * (1 + 0.3 * candidate.remat) * (1 + 0.02 * candidate.microbatches) * tp**0.5
    return Outcome(candidate, int(needs), needs <= 16 * GIB, seconds, 1.5 * seconds)


def test_meshes() -> None:
    assert MESHES == [{"fsdp": 16, "tp": 1}, {"fsdp": 8, "tp": 2}, {"fsdp": 4, "tp": 4}]
    for found in meshes(24, ("a", "b", "c")):
        assert math.prod(found.values()) == 24
    assert len([*meshes(8, ("a", "b", "c"))]) == 10 and [*meshes(4, ("a",), {"a": 2})] == []


def test_what_follows_is_not_planned_and_the_ranking_is_that_of_all() -> None:
    some = candidates(MESHES, microbatches=(1, 2, 4))
    assert len(some) == len(set(some)) == 18 and some[0] == Candidate((("fsdp", 16), ("tp", 1)), True)
    calls: list[Candidate] = []
    found = sweep(some, lambda one: calls.append(one) or model(one), budget=18)
    assert len(calls) < 10 and not found.left
    assert len(calls) + len(found.implied) == 18
    everything = [one for one in map(model, some) if one.fits]
    assert found.ranked[0] == min(everything, key=lambda one: one.waiting or 0)
    times = [one.waiting or 0 for one in found.ranked]
    assert times == sorted(times)
    for one, why in found.implied:  # it is true
        known = model(one)
        assert known.fits == ("does not" not in why) and one.name not in why


def test_the_budget_is_kept_and_what_is_left_is_told() -> None:
    some = candidates(MESHES)
    found = sweep(some, model, budget=2)
    assert len(found.ranked) + len(found.failed) == 2
    assert len(found.left) + len(found.implied) == len(some) - 2 and found.left
    with pytest.raises(ValueError, match="at least 1 plan, got 0"):
        sweep(some, model, budget=0)


def test_what_took_no_compilation_is_free_and_an_interruption_ends_it() -> None:
    free = lambda one: Outcome(one, None, False, None, None, "heads: 5 cannot be split by 2", compiled=False)
    some = candidates(MESHES)
    found = sweep(some, lambda one: free(one) if dict(one.mesh)["tp"] == 2 else model(one), budget=2)
    assert sum(one.compiled for one in (*found.ranked, *found.failed)) == 2
    refused = [one.problem for one in found.failed].count("heads: 5 cannot be split by 2")
    fit, left = len(found.ranked), len(found.left)
    assert refused and summary(found).startswith(
        f"layouts planned: 2, of which {fit} fit; that could not be: {refused}; "
    )
    assert summary(found).endswith(f"left out: {left}, --sweep N plans more.")

    def stopped(one: Candidate) -> Outcome:
        if one == some[1]:
            raise KeyboardInterrupt
        return model(one)

    found = sweep(some, stopped)
    assert found.interrupted and found.left[0] == some[1] and "interrupted" in summary(found)
    assert [one.candidate for one in (*found.ranked, *found.failed)] == some[:1]


def test_what_is_not_known_to_fit_implies_nothing() -> None:
    found = sweep(candidates(MESHES), lambda one: Outcome(one, model(one).needs, None, None, None))
    assert (
        not found.implied
        and len(found.ranked) == len(candidates(MESHES))
        and summary(found) == "layouts planned: 6."
    )
    sizes = [one.needs for one in found.ranked]
    assert sizes == sorted(sizes)


def test_a_report_is_an_outcome() -> None:
    one = candidates(MESHES)[0]
    limit = {"seconds": 0.5, "waiting": 1.0}
    report = {"needs": 5, "fits": False, "problem": "too much", "analysis": {"roofline": limit}}
    assert outcome(one, report) == Outcome(one, 5, False, 0.5, 1.0, "too much")
    assert outcome(one, {"needs": 5}) == Outcome(one, 5, None, None, None)


def test_frontier_and_picture() -> None:
    found = sweep(candidates(MESHES, microbatches=(1, 2)), model, budget=12)
    best = frontier(found.ranked)
    assert best == sorted(best, key=lambda one: one.needs or 0)
    for one in found.ranked:
        better = [
            o
            for o in found.ranked
            if (o.needs or 0) < (one.needs or 0) and (o.waiting or 0) < (one.waiting or 0)
        ]
        assert (one in best) == (not better)
    svg = picture(found, hbm=16 * GIB)
    root = ElementTree.fromstring(svg)
    assert len(root.findall("circle")) == len(found.ranked) + len(found.failed)
    assert [text.text for text in root.findall("text")][2:] == [
        str(k + 1) for k in range(len(root.findall("circle")))
    ]
    kept = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert Sweep.from_dict(kept) == found
    html = page({"topology": "v5e:4x4", "sweep": kept, "hbm": 16 * GIB})
    shown = text("tests", *tables({"sweep": kept}))
    assert all(one.candidate.name in shown for one in (*found.ranked, *found.failed))
    assert svg in html and all(one.candidate.name in html for one in found.ranked)
    with pytest.raises(ValueError, match="nothing could be planned"):
        picture(sweep([], model))
