"""Reports as a table on the terminal, a plot, JSON, and Markdown."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .._base.atomic import atomic
from ._comparison import Report, Result, show_options
from ._grids import ROUNDING

__all__ = ["as_markdown", "plot", "print_numbers", "print_report", "save_json"]

_COLUMNS = (
    "optimizer",
    "options",
    "against",
    "step 1, ulp",
    "step 1, rel.",
    "run, ulp",
    "run, rel.",
    "first off",
    "",
)
_STYLE = {
    "equal": "green", "differs": "bold red", "empty": "bold red", "known": "yellow", "skipped": "dim",
}  # fmt: skip


def versions() -> dict[str, str]:
    """The versions of all libraries involved."""
    found = {}
    for name in ("jax", "optax", "torch", "numpy", "llvmlite"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _number(x: float) -> str:
    if x == 0:
        return "0"
    if x >= 1e5 or x < 1e-2:
        return f"{x:.1e}"
    return f"{x:.3g}"


def _against(result: Result) -> str:
    return f"{result.against}, {result.flags}" if result.flags else result.against


def _off(result: Result) -> str:
    off = "" if result.first_beyond is None else f"step {result.first_beyond}: {result.first_where}"
    return "; ".join(filter(None, (off, result.why)))


def _cells(result: Result) -> list[str]:
    if result.verdict == "skipped":
        return [
            result.optimizer,
            show_options(result.options),
            result.against,
            "",
            "",
            "",
            "",
            "",
            "no counterpart",
        ]
    figures = (result.first_ulps, result.first_relative, result.run_ulps, result.run_relative)
    return [
        result.optimizer, show_options(result.options), _against(result), *map(_number, figures), _off(result),
        {"known": "known difference", "empty": "NOTHING COMPARED"}.get(result.verdict, result.verdict),
    ]  # fmt: skip


def notes(results: Sequence[Result]) -> list[str]:
    """The distinct notes on known differences in the results."""
    met = [r for r in results if r.note and r.verdict in ("known", "skipped")]
    texts = [
        f"{r.optimizer} in optax: {r.note}" if r.call or r.against == "optax" else f"{r.optimizer}: {r.note}"
        for r in met
    ]
    return list(dict.fromkeys(texts))


def summary(report: Report) -> str:
    """A one-line summary."""
    counts = {v: sum(r.verdict == v for r in report.results) for v in _STYLE}
    worst = max((r.run_relative for r in report.results if r.verdict == "equal"), default=None)
    words = {
        "equal": "equal",
        "known": "with a known difference",
        "skipped": "without counterpart",
        "differs": "DIFFER",
        "empty": "WITH NOTHING TO COMPARE",
    }
    parts = [f"{n} {words[v]}" for v, n in counts.items() if n]
    if not any(counts[v] for v in ("equal", "known", "differs")):
        return f"NOTHING WAS COMPARED ({', '.join(parts) or 'all was left out'})"
    tail = "" if worst is None else f"; largest relative error of the equal {worst:.1e}"
    return f"{len(report.results)} comparisons: {', '.join(parts)}{tail}"


def print_report(title: str, report: Report) -> None:
    """Print a table, in colour if rich is installed, and the notes below it."""
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        _print_plain(title, report)
        return
    # In a file or pipe, as wide as needed.
    console = Console() if sys.stdout.isatty() else Console(width=200)
    table = Table(title=title, title_justify="left", title_style="bold", row_styles=["", "on grey7"])
    for i, name in enumerate(_COLUMNS):
        table.add_column(
            name, justify="right" if 3 <= i <= 6 else "left", no_wrap=3 <= i <= 6, overflow="fold"
        )
    last = None
    for r in report.results:
        cells = _cells(r)
        here = (r.optimizer, cells[1])
        head = ["", ""] if here == last else list(here)
        last = here
        table.add_row(*map(Text, [*head, *cells[2:8]]), Text(cells[8], style=_STYLE[r.verdict]))
    if report.results:
        console.print(table)
    for text in notes(report.results):
        console.print(Text(text, style="yellow"))
    for text in report.skipped:
        console.print(Text(f"left out: {text}", style="bold yellow"))
    console.print(Text(summary(report), style="green" if report.ok else "bold red"))


def _print_plain(title: str, report: Report) -> None:
    rows = [list(_COLUMNS), *map(_cells, report.results)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    print(title)
    for row in rows if report.results else ():
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for text in notes(report.results):
        print(text)
    for text in report.skipped:
        print(f"left out: {text}")
    print(summary(report))


def print_numbers(report: Report) -> None:
    """Print the updates of the first step, element by element."""
    for r in report.results:
        if not r.numbers:
            continue
        between = f"through {r.call or r.against}" if r.recorded else f"against {r.call or r.against}"
        print(f"\n{r.optimizer}({show_options(r.options)}) {between}, {r.dtype}, first step")
        width = max(len(n["element"]) for n in r.numbers)
        heads = "  ".join(f"{head:>24}" for head in ("before", *(f"update, {side}" for side in r.labels)))
        print(f"  {'':<{width}}  {heads}  {'ulp':>8}")
        for n in r.numbers:
            values = "  ".join(f"{n[k]:>24.17g}" for k in ("before", "ours", "theirs"))
            print(f"  {n['element']:<{width}}  {values}  {_number(n['ulps']):>8}")


def save_json(path: str | Path, reports: Sequence[Report], settings: dict[str, Any]) -> None:
    """Write the reports as JSON, with the differences after every step."""
    data = {"versions": versions(), "settings": settings, "reports": [r.as_dict() for r in reports]}
    write(path, json.dumps(data, indent=1) + "\n")


def write(path: str | Path, text: str) -> None:
    """Write a file atomically."""
    with atomic(str(Path(path).resolve())) as file:
        file.write(text.encode())


def plot(path: str | Path, reports: Sequence[Report], title: str) -> None:
    """Plot the relative error after every step: one panel per optimizer and dtype, a line per configuration.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    results = [r for report in reports for r in report.results if r.relative_by_step]
    panels = list(dict.fromkeys((r.optimizer, r.dtype) for r in results))
    across = min(4, max(1, len(panels)))
    down = max(1, -(-len(panels) // across))
    sheet, axes = plt.subplots(
        down, across, figsize=(3.2 * across, 1 + 2.2 * down), squeeze=False, sharey=True, layout="constrained"
    )
    for ax in axes.flat[len(panels) :]:
        ax.axis("off")
    colours = {"optax, known difference": "#e0a13a", "optax": "#54a24b", "PyTorch": "#1b3f6b"}
    for ax, panel in zip(axes.flat, panels, strict=False):
        mine = [r for r in results if (r.optimizer, r.dtype) == panel]
        for r in sorted(mine, key=lambda r: (r.against != "optax", r.note is None)):  # PyTorch's lines on top
            kind = "PyTorch" if r.against != "optax" else "optax, known difference" if r.note else "optax"
            steps = range(1, len(r.relative_by_step) + 1)
            ax.plot(steps, [max(v, 1e-18) for v in r.relative_by_step], color=colours[kind], lw=1, alpha=0.8)
        ax.set(yscale="log", xscale="log", ylim=(3e-19, 10))
        ax.set_title(" ".join(panel), fontsize=9)
        ax.grid(alpha=0.3)
    lines = [plt.Line2D([], [], color=c) for c in colours.values()]
    sheet.legend(lines, list(colours), loc="outside upper center", ncols=3, frameon=False, title=title)
    sheet.supxlabel("step", fontsize=9)
    sheet.supylabel("relative error (1e-18: none)", fontsize=9)
    sheet.savefig(path, dpi=90)
    plt.close(sheet)


def as_markdown(reports: Sequence[tuple[str, Report]], command: str, picture: str | None = None) -> str:
    """The reports as a page of Markdown."""
    lines = [
        "# Cross-check of the update math",
        "",
        f"Made by `{command}`; do not edit. {', '.join(f'{k} {v}' for k, v in versions().items())}.",
        "",
        "Every library starts from the same numbers and is fed the same gradients, those along this package's path",
        "(L-BFGS: at its own parameters). *rel.* is the largest difference over the largest value of its tensor; *ulp*",
        "counts units in the last place of the largest of the value before the step, the value after it, and the",
        "step. *first off* is the first step beyond the tolerance, and the state entry or parameter that is furthest",
        "off there.",
        "",
    ]  # fmt: skip
    if picture:
        lines += [f"![Relative error over the steps]({picture})", ""]
    for title, report in reports:
        lines += [f"## {title}", "", summary(report) + ".", ""]
        lines += ["| " + " | ".join(c or "verdict" for c in _COLUMNS) + " |"]
        lines += ["|" + "|".join("---:" if 3 <= i <= 6 else "---" for i in range(len(_COLUMNS))) + "|"]
        for r in report.results:
            cells = _cells(r)
            cells[1] = f"`{cells[1]}`" if cells[1] else ""
            lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
        lines += ["", *(f"Left out: {text}." for text in report.skipped), ""]
    known = list(dict.fromkeys(text for _, report in reports for text in notes(report.results)))
    if known:
        lines += ["## Known differences", "", *(f"- {text}." for text in known)]
    lines += _rounding({r.optimizer for _, report in reports for r in report.results})
    return "\n".join(lines).rstrip() + "\n"


def _rounding(optimizers: set[str]) -> list[str]:
    """The optimizers with a larger limit for rounding errors, and why."""
    lines = ["", "## Where rounding goes further", ""]
    lines += [
        f"- {name}: up to {known.first_ulps:g} ulp pass in the first step, since {known.reason}."
        for name, known in ROUNDING.items()
        if name in optimizers
    ]
    return lines if len(lines) > 3 else []
