"""A plan's report as one page of HTML that needs nothing else: no scripts, no network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from .._base.units import nbytes
from . import rows
from .places import PHASES
from .sweep import Sweep, helps, layouts, picture, summary

__all__ = ["page"]

_STYLE = """
:root { color-scheme: light dark; --ground: #fcfcfb; --card: #ffffff; --line: #dddcd8; --text: #1c1b1a;
  --quiet: #63615c; --c0: #2a6fdb; --c1: #d9730d; --c2: #0f8a6d; --c3: #b3408c; --c4: #b58900; --c5: #5b53c7;
  --c6: #3c9ab5; --c7: #b3423a; --c8: #7a8a1f; --c9: #8a8883; --limit: #c0261c; }
@media (prefers-color-scheme: dark) { :root { --ground: #161615; --card: #1f1e1d; --line: #3a3936; --text: #eceae6;
  --quiet: #a5a29b; --c0: #6aa3ff; --c1: #f39a4b; --c2: #45c2a0; --c3: #e07fbd; --c4: #dcb63c; --c5: #9d96f5;
  --c6: #6cc5df; --c7: #ee857c; --c8: #b3c655; --c9: #98958e; --limit: #ff8078; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text); font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 960px; margin: 0 auto; padding: 24px 16px 48px; }
h1 { font-size: 22px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 32px 0 8px; }
p { margin: 4px 0; }
.quiet, th { color: var(--quiet); }
.verdict { font-weight: 600; }
.bad { color: var(--limit); }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(165px, 1fr)); gap: 10px; margin: 16px 0 0; }
.facts div { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px 12px; }
.facts dt { color: var(--quiet); font-size: 13px; }
.facts dd { margin: 2px 0 0; font-size: 18px; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: 5px 10px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 500; font-size: 13px; }
td.name { overflow-wrap: anywhere; min-width: 110px; }
td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.bar { position: relative; display: flex; height: 16px; border-radius: 4px; background: var(--line); }
.bar i { display: block; height: 100%; min-width: 1px; border-right: 1px solid var(--ground); }
.bar i:first-child { border-radius: 4px 0 0 4px; }
.bar b { position: absolute; top: -4px; bottom: -4px; width: 2px; background: var(--limit); }
.big { height: 30px; margin: 10px 0 6px; }
.key { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 7px; }
td.chart { width: 34%; min-width: 90px; }
ul { margin: 4px 0; padding-left: 20px; }
li { margin: 3px 0; overflow-wrap: anywhere; }
@media (max-width: 520px) { td.chart { width: 22%; min-width: 60px; } th, td { padding-right: 7px; }
  table { font-size: 13px; } }
"""


def page(report: Mapping[str, Any]) -> str:
    """The page, as text of an HTML file.

    Args:
        report: what there is of: ``topology``, ``device``, ``devices``, ``mesh``, ``fits``, ``needs`` and ``hbm`` in
            bytes of a device; ``causes``, dicts with ``name``, ``bytes`` and ``largest``, whose items have ``name``,
            ``module``, ``shape`` and ``bytes``; ``modules``, bytes by module and cause; ``analysis``, see
            `Analysis.to_dict`; ``problem``, a sentence, and ``notes``, several; ``versions`` by name; ``sweep``, see
            `Sweep.to_dict`; ``tried``, outcomes of other options. All may be absent.

    Example:
        >>> page({"topology": "v5e:4x4"}).startswith("<!doctype html>")
        True
    """
    title = f"Plan for {report.get('topology', 'a step')}"
    parts = (_head, _helps, _sweep, _memory, _largest, _limits, _modules, _communication, _sentences, _foot)
    body = "\n".join(filter(None, (part(report) for part in parts)))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body><main>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</main></body></html>\n"
    )


def _head(report: Mapping[str, Any]) -> str:
    analysis = report.get("analysis") or {}
    count = report.get("devices") or analysis.get("devices")
    words = [
        report.get("device") or analysis.get("chip"),
        f"{count:,} devices" if count else None,
        "mesh " + " x ".join(f"{name}={size}" for name, size in report["mesh"].items())
        if report.get("mesh")
        else None,
    ]
    lines = [f'<p class="quiet">{escape(", ".join(filter(None, words)))}</p>']
    if report.get("fits") is not None:
        fits = "It fits." if report["fits"] else "It does not fit."
        lines.append(f'<p class="verdict{"" if report["fits"] else " bad"}">{fits}</p>')
    if analysis and analysis["roofline"]["is_estimate"]:
        lines.append('<p class="verdict">An estimate on paper: nothing was compiled for these devices.</p>')
    facts = "".join(f"<div><dt>{escape(n)}</dt><dd>{escape(v)}</dd></div>" for n, v in rows.facts(report))
    return "\n".join([*lines, f'<dl class="facts">{facts}</dl>' if facts else ""])


def _sweep(report: Mapping[str, Any]) -> str:
    if not report.get("sweep"):
        return ""
    found = Sweep.from_dict(report["sweep"])
    lines = [(_both(name, problem), memory, time) for name, memory, time, problem in layouts(found)]
    drawn = (
        picture(found, report.get("hbm")) if any(one.needs and one.waiting for one in found.ranked) else ""
    )
    table = _table(("layout, the best first", "#memory", "#step"), lines)
    return _section("Layouts", f'<p class="quiet">{escape(summary(found))}</p>{drawn}{table}')


def _helps(report: Mapping[str, Any]) -> str:
    lines = [(_both(name, problem), memory, time) for name, memory, time, problem in helps(report)]
    if not lines:
        return ""
    return _section("What was tried against that", _table(("with", "#memory", "#step"), lines))


def _memory(report: Mapping[str, Any]) -> str:
    found, hbm = rows.causes(report), report.get("hbm") or 0
    if not found:
        return ""
    used = sum(count for _, count in found)
    whole = max(hbm, used)
    pieces = [
        (count, f"var(--c{k % 10})", f"{name}: {nbytes(count)}") for k, (name, count) in enumerate(found)
    ]
    limit = f"{nbytes(used)} of {nbytes(hbm)} (the red line)" if hbm else f"{nbytes(used)}"
    table = _table(
        ("cause", "#bytes", "#share"),
        [
            (f'<span class="key" style="background:var(--c{k % 10})"></span>{escape(name)}', nbytes(count),
             f"{rows.share(count, hbm or used):.1f}%")
            for k, (name, count) in enumerate(found)
        ],
    )  # fmt: skip
    mark = f'<b style="left:calc({rows.share(hbm, whole):.2f}% - 2px)"></b>' if hbm else ""
    return _section(
        "Memory of a device", f'<p class="quiet">{limit}</p>{_bar(pieces, whole, "big", mark)}{table}'
    )


def _largest(report: Mapping[str, Any]) -> str:
    found = [
        (_both(name, module), _both(shape, cause), nbytes(count))
        for name, module, shape, cause, count in rows.largest(report)
    ]
    table = _table(("name and module", "shape and cause", "#bytes"), found)
    return _section("Largest tensors", table) if found else ""


def _limits(report: Mapping[str, Any]) -> str:
    found = rows.limits(report)
    if not found:
        return ""
    whole = max(seconds for _, seconds, _ in found)
    lines = [
        (escape(name), rows.in_seconds(seconds), _bar([(seconds, f"var(--c{5 if 'along' in name else 0})", "")], whole),
         f'<span class="quiet">{escape(what)}</span>')
        for name, seconds, what in found
    ]  # fmt: skip
    return _section(
        "The time of a step, by what limits it", _table(("limit", "#time", "~", "of what"), lines)
    )


def _modules(report: Mapping[str, Any]) -> str:
    found = rows.modules(report)
    if not found:
        return ""
    whole = max(sum(counts.values()) for _, counts in found)
    colours = dict(zip(PHASES, ("var(--c0)", "var(--c1)", "var(--c4)", "var(--c2)")))
    legend = " &nbsp; ".join(
        f'<span class="key" style="background:{colours[phase]}"></span>{phase}'
        for phase in PHASES
        if any(phase in counts for _, counts in found)
    )
    lines = [
        (escape(name), rows.in_flops(sum(counts.values())),
         _bar([(n, colours[p], f"{p}: {rows.in_flops(n)}") for p, n in counts.items()], whole))
        for name, counts in found
    ]  # fmt: skip
    table = _table(("module", "#FLOPs, all devices", "~"), lines)
    return _section("FLOPs by module", f'<p class="quiet">{legend}</p>{table}')


def _communication(report: Mapping[str, Any]) -> str:
    if not report.get("analysis"):
        return ""
    found = rows.communication(report)
    if not found:
        return _section("Communication", '<p class="quiet">None.</p>')
    lines = [(_both(kind, what), *map(escape, figures)) for kind, *figures, what in found]
    columns = ("collective, and what for", "axes", "#times", "#bytes", "#time")
    return _section("Communication of a device in a step", _table(columns, lines))


def _sentences(report: Mapping[str, Any]) -> str:
    return "\n".join(
        _section(heading, f"<ul>{''.join(f'<li>{escape(str(one))}</li>' for one in some)}</ul>")
        for heading, some in rows.sentences(report)
    )


def _foot(report: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in (report.get("versions") or {}).items())
    return f'<p class="quiet">{escape(versions)}</p>' if versions else ""


# ------------------------------------------------------------------ pieces


def _section(heading: str, body: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>{body}</section>"


def _bar(pieces: Iterable[tuple[float, str, str]], whole: float, name: str = "", mark: str = "") -> str:
    """A bar of pieces: size, colour, and what a pointer over it shows."""
    inner = "".join(
        f'<i style="width:{rows.share(size, whole):.2f}%;background:{colour}" title="{escape(title)}"></i>'
        for size, colour, title in pieces
        if size
    )
    return f'<div class="bar {name}">{inner}{mark}</div>'


def _both(first: str, second: str) -> str:
    """Two lines of a cell."""
    return f'{escape(first)}<br><span class="quiet">{escape(second)}</span>'


def _table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table of cells in HTML; a column with # has numbers, one with ~ a picture, the first one a name."""
    kinds = ["number" if c.startswith("#") else "chart" if c == "~" else "" for c in columns]
    kinds[0] = kinds[0] or "name"
    head = "".join(f'<th class="{kind}">{escape(c.lstrip("#~"))}</th>' for c, kind in zip(columns, kinds))
    cells = lambda line: "".join(f'<td class="{kind}">{cell}</td>' for cell, kind in zip(line, kinds))
    body = "".join(f"<tr>{cells(line)}</tr>" for line in lines)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
