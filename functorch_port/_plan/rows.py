"""A plan's report as rows of text: what both the page and the terminal show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._base.units import Units, nbytes, unit_of
from .places import PHASES

__all__ = [
    "causes", "communication", "facts", "holders", "in_flops", "in_seconds", "largest", "limits", "modules",
    "sentences", "share",
]  # fmt: skip

_FLOPS: Units = tuple(
    (f"{prefix}FLOP", 1000.0**k) for k, prefix in zip((6, 5, 4, 3, 2, 1, 0), (*"EPTGMk", ""))
)
_SECONDS: Units = (("s", 1), ("ms", 1e-3), ("µs", 1e-6))
_OTHERS, _OUTSIDE = "others", "(outside of modules)"


def in_flops(count: float) -> str:
    """Operations in the unit that suits them."""
    return _short(count, _FLOPS)


def in_seconds(seconds: float) -> str:
    """A time in the unit that suits it."""
    return _short(seconds, _SECONDS) if seconds else "0"


def _short(number: float, units: Units) -> str:
    unit, size = unit_of(number, units)
    return f"{number / size:.3g} {unit}"


def share(part: float, whole: float) -> float:
    """A part of a whole, in percent."""
    return 100 * part / whole if whole else 0.0


def _between(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def facts(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The figures that one looks for first: a name and a value."""
    found = []
    needs, hbm = report.get("needs"), report.get("hbm")
    if needs is not None:
        found.append(("memory of a device", f"{nbytes(needs)}{f' of {nbytes(hbm)}' if hbm else ''}"))
    analysis = report.get("analysis")
    if analysis is None:
        return found
    limit, price = analysis["roofline"], analysis["price"]
    times = in_seconds(limit["seconds"]), in_seconds(limit["waiting"])
    found += [
        ("a step: at best, to waiting for all", _between(*times)),
        ("model FLOPs utilisation, at most", f"{limit['mfu']:.0%}"),
        ("limited by", limit["bound"]),
        ("FLOPs of a step", in_flops(analysis["flops"]["executed"])),
    ]
    if price is not None:
        found.append(
            (
                "tokens per second",
                _between(*(f"{price[n]:,.0f}" for n in ("per_second_waiting", "per_second"))),
            )
        )
        if price["million"] is not None:
            cost = _between(*(f"{price[n]:.3g}" for n in ("million", "million_waiting")))
            found.append((f"a million tokens, at {price['hour']:g} a chip-hour", cost))
    return found


def causes(report: Mapping[str, Any]) -> list[tuple[str, int]]:
    """What takes memory, and bytes of a device."""
    return [(cause["name"], cause["bytes"]) for cause in report.get("causes", ()) if cause["bytes"]]


def largest(report: Mapping[str, Any], most: int = 12) -> list[tuple[str, str, str, str, int]]:
    """The largest tensors: name, module, shape, cause and bytes of a device."""
    found = [
        (one["name"], one["module"], one["shape"], cause["name"], one["bytes"])
        for cause in report.get("causes", ())
        for one in cause["largest"]
    ]
    return sorted(found, key=lambda row: -row[-1])[:most]


def holders(report: Mapping[str, Any], most: int = 10) -> list[tuple[str, str, str]]:
    """The modules that take most memory: a name, bytes of a device, and mostly for what."""
    found = sorted(report.get("modules", {}).items(), key=lambda item: -sum(item[1].values()))[:most]
    why = [
        ", ".join(f"{cause} {nbytes(n, 1)}" for cause, n in Counter(costs).most_common(3))
        for _, costs in found
    ]
    return [(name, nbytes(sum(costs.values())), mostly) for (name, costs), mostly in zip(found, why)]


def modules(report: Mapping[str, Any], most: int = 14) -> list[tuple[str, dict[str, int]]]:
    """FLOPs by module and phase, the largest first; the smaller ones together."""
    counts = report["analysis"]["flops"]["modules"] if report.get("analysis") else {}
    rows = sorted(counts.items(), key=lambda item: -sum(item[1].values()))
    found = [(name or _OUTSIDE, {p: n[p] for p in PHASES if p in n}) for name, n in rows[:most]]
    rest: Counter[str] = Counter()
    for _, some in rows[most:]:
        rest.update(some)
    return [*found, (f"{len(rows) - most} {_OTHERS}", dict(rest))] if rest else found


def communication(report: Mapping[str, Any], most: int = 16) -> list[tuple[str, ...]]:
    """Collectives: kind, axes, how often, bytes, seconds, what for."""
    rows: Sequence[Mapping[str, Any]] = report["analysis"]["communication"] if report.get("analysis") else ()
    found: list[tuple[str, ...]] = [
        (
            row["kind"], _axes(row), f"{row['count']:,}", nbytes(row["nbytes"]), in_seconds(row["seconds"]),
            f"{row['module'] or _OUTSIDE}, {row['phase']}",
        )
        for row in rows[:most]
    ]  # fmt: skip
    left = rows[most:]
    if left:
        found.append((
            f"{len(left)} {_OTHERS}", "", f"{sum(r['count'] for r in left):,}", nbytes(sum(r["nbytes"] for r in left)),
            in_seconds(sum(r["seconds"] for r in left)), "",
        ))  # fmt: skip
    return found


def _axes(row: Mapping[str, Any]) -> str:
    along = " x ".join(row["axes"]) or "?"
    return f"{along} ({row['size']})" if row["exact"] else f"{row['size']} of {along}"


def limits(report: Mapping[str, Any]) -> list[tuple[str, float, str]]:
    """What a step takes at least for each reason: a name, seconds, and of what."""
    analysis = report.get("analysis")
    if analysis is None:
        return []
    found, traffic = analysis["roofline"], analysis["traffic"]
    rows = [
        ("compute", found["compute"], f"{in_flops(analysis['device_flops'])} of a device"),
        (
            "memory",
            found["memory"],
            "not known" if traffic is None else f"{nbytes(traffic)} of a device, to and from HBM",
        ),
        ("communication", found["communication"], "all collectives, one after the other"),
    ]
    for axis, seconds in sorted(found["axes"].items(), key=lambda item: -item[1]):
        rows.append((f"along {axis}", seconds, "of that"))
    if found["expected"] is not None:
        rows.append(
            (
                "the compiler's view",
                found["expected"],
                f"{analysis['cycles']:,} cycles, without communication",
            )
        )
    return rows


def sentences(report: Mapping[str, Any]) -> Iterable[tuple[str, Sequence[str]]]:
    """What to know of the figures: a heading and its sentences."""
    analysis = report.get("analysis") or {"warnings": (), "roofline": {"assumptions": ()}}
    problem = [report["problem"]] if report.get("problem") else []
    for heading, some in (
        ("What is wrong", problem),
        ("What may be wrong", analysis["warnings"]),
        ("What is assumed", analysis["roofline"]["assumptions"]),
        ("Notes", report.get("notes", ())),
    ):
        if some:
            yield heading, some
