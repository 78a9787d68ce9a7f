"""A plan's report for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._base import tables as plain
from .._base.optional import optional
from .._base.units import nbytes
from . import rows
from .places import PHASES
from .sweep import Sweep, helps, layouts, summary

__all__ = ["tables"]

_WANTS = "functorch-port plan"
_BAR = 28


def tables(report: Mapping[str, Any]) -> list[Any]:
    """Tables of rich's, with bars.

    Args:
        report: see `page.page`.

    Raises:
        ModuleNotFoundError: rich is not installed.
    """
    return [
        made
        for make in (
            _facts,
            _helps,
            _layouts,
            _causes,
            _largest,
            _holders,
            _limits,
            _modules,
            _communication,
            _sentences,
        )
        if (made := make(report)) is not None
    ]


def _table(title: str, *columns: str) -> Any:
    table = plain.table(_WANTS, title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        right = column in ("bytes", "FLOPs", "seconds", "times", "share")
        table.add_column(column, justify="right" if right else "left", no_wrap=right, overflow="fold")
    return table


def _plain(words: str) -> str:
    """Words whose brackets are no markup of rich's."""
    return str(optional("rich.markup", _WANTS, "viz", "rich").escape(words))


def _bar(part: float, whole: float, colour: str = "cyan") -> Any:
    text = optional("rich.text", _WANTS, "viz", "rich").Text
    filled = round(_BAR * part / whole) if whole else 0
    return text("█" * max(filled, 1 if part else 0), style=colour)


def _facts(report: Mapping[str, Any]) -> Any:
    found = rows.facts(report)
    if not found:
        return None
    table = plain.table(_WANTS, box=None, pad_edge=False, show_header=False)
    for name, value in found:
        table.add_row(name, f"[bold]{value}[/bold]")
    return table


def _layouts(report: Mapping[str, Any]) -> Any:
    if not report.get("sweep"):
        return None
    found = Sweep.from_dict(report["sweep"])
    table = _table("Layouts, the best first", "layout", "memory", "step", "problem")
    table.caption, table.caption_justify = summary(found), "left"
    for row in layouts(found):
        table.add_row(*map(_plain, row))
    return table


def _helps(report: Mapping[str, Any]) -> Any:
    found = helps(report)
    if not found:
        return None
    table = _table("What was tried against that", "with", "memory", "step", "")
    for row in found:
        table.add_row(*map(_plain, row))
    return table


def _causes(report: Mapping[str, Any]) -> Any:
    found = rows.causes(report)
    if not found:
        return None
    used = sum(count for _, count in found)
    there = report.get("hbm") or used
    table = _table("Memory of a device", "cause", "bytes", "share", "")
    for name, count in found:
        table.add_row(name, nbytes(count), f"{rows.share(count, there):.1f}%", _bar(count, max(there, used)))
    return table


def _largest(report: Mapping[str, Any]) -> Any:
    found = rows.largest(report)
    if not found:
        return None
    table = _table("Largest tensors", "name", "module", "shape", "cause", "bytes")
    for *words, count in found:
        table.add_row(*map(_plain, words), nbytes(count))
    return table


def _holders(report: Mapping[str, Any]) -> Any:
    found = rows.holders(report)
    if not found:
        return None
    table = _table("Modules that take most", "module", "bytes", "mostly")
    for row in found:
        table.add_row(*map(_plain, row))
    return table


def _limits(report: Mapping[str, Any]) -> Any:
    found = rows.limits(report)
    if not found:
        return None
    whole = max(seconds for _, seconds, _ in found)
    table = _table("The time of a step, by what limits it", "limit", "seconds", "", "")
    for name, seconds, what in found:
        table.add_row(name, rows.in_seconds(seconds), _bar(seconds, whole, "magenta"), what)
    return table


def _modules(report: Mapping[str, Any]) -> Any:
    found = rows.modules(report)
    if not found:
        return None
    whole = max(sum(counts.values()) for _, counts in found)
    table = _table("FLOPs by module, on all devices", "module", *PHASES, "FLOPs", "")
    for name, counts in found:
        each = [rows.in_flops(counts[phase]) if counts.get(phase) else "" for phase in PHASES]
        total = sum(counts.values())
        table.add_row(_plain(name), *each, rows.in_flops(total), _bar(total, whole, "green"))
    return table


def _communication(report: Mapping[str, Any]) -> Any:
    found = rows.communication(report)
    if not found:
        return None
    table = _table(
        "Communication of a device in a step", "collective", "axes", "times", "bytes", "seconds", "for"
    )
    for row in found:
        table.add_row(*map(_plain, row))
    return table


def _sentences(report: Mapping[str, Any]) -> Any:
    lines = [
        line
        for heading, some in rows.sentences(report)
        for line in (f"[bold]{heading}[/bold]", *(f"- {_plain(s)}" for s in some))
    ]
    if not lines:
        return None
    return optional("rich.padding", _WANTS, "viz", "rich").Padding("\n".join(lines), (1, 0))
