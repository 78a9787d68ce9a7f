"""`Compare`: measurements beside each other, as a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ._measurement import UNITS, Measurement, select_unit, trim_sigfig

__all__ = ["Compare"]

#: up to how often the best time a time has this colour, and from where on
_GOOD = ((1.01, "\x1b[92m\x1b[1m"), (1.1, "\x1b[34m\x1b[1m"))
_BAD = ((5, "\x1b[31m\x1b[1m"), (2, "\x1b[2m\x1b[91m"))
_END = "\x1b[0m\x1b[0m"


#: by number of threads, environment and name of a row the measurements by column
Rows: TypeAlias = dict[tuple[int, str, str], dict[str, Measurement]]


class Compare:
    """A table of measurements: a row for each ``sub_label``, a column for each ``description``.

    Args:
        results: the measurements; those of the same are one.

    Example:
        >>> from functorch_port.utils.benchmark import Compare, Measurement, TaskSpec
        >>> spec = TaskSpec("f()", "pass", label="f", sub_label="small", description="here")
        >>> print(Compare([Measurement(1, [2e-6], spec)]))  # doctest: +NORMALIZE_WHITESPACE
        [------- f --------]
                     | here
        1 threads: ---------
              small  |  2.0
        <BLANKLINE>
        Times are in microseconds (us).
        <BLANKLINE>

    Reference: https://docs.pytorch.org/docs/stable/benchmark_utils.html#torch.utils.benchmark.Compare
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim = self._colours = self._by_row = self._warnings = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        results = list(results)
        for one in results:
            if not isinstance(one, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(one)} instead.")
        self._results += results

    def trim_significant_figures(self) -> None:
        """Show only figures that are certain."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour the best times of a column, or of a row, and those that take twice, or five times, as long."""
        self._colours, self._by_row = True, rowwise

    def highlight_warnings(self) -> None:
        """Mark times that vary a lot."""
        self._warnings = True

    def print(self) -> None:
        """Print the table."""
        print(str(self))

    def __str__(self) -> str:
        groups: dict[str, list[Measurement]] = {}
        for one in Measurement.merge(self._results):
            groups.setdefault(one.task_spec.label or one.task_spec.stmt, []).append(one)
        return "\n".join(self._table(label, ones) for label, ones in groups.items())

    def _table(self, label: str, ones: Sequence[Measurement]) -> str:
        columns = list(dict.fromkeys(one.task_spec.description or "" for one in ones))
        rows: Rows = {}
        for one in ones:
            env = "" if one.task_spec.env is None else f"({one.task_spec.env})"
            row = rows.setdefault((one.task_spec.num_threads, env, one.as_row_name), {})
            row[one.task_spec.description or ""] = one
        rows = dict(sorted(rows.items(), key=lambda item: item[0][:2]))
        unit, size = select_unit(min(one.median for one in ones))
        texts = {column: self._column(column, list(rows.values()), size) for column in columns}
        keys = [key[:2] for key in rows]
        alone = len({env for _, env in keys}) == 1
        shown = [
            "" if alone or key == last else key[1] for key, last in zip(keys, [None, *keys], strict=False)
        ]
        envs = max(2, *map(len, shown))
        names = [f"  {env.ljust(envs)}  {name}" for env, (_, _, name) in zip(shown, rows, strict=True)]
        width = max(map(len, names))
        widths = {c: max([len(c), *map(len, texts[c])]) for c in columns}
        lines = ["  |  ".join([" " * width, *(c.center(widths[c]) for c in columns)])]
        whole = len(lines[0])
        threads = None
        for i, key in enumerate(rows):
            if key[0] != threads:
                threads = key[0]
                lines.append(f"{threads} threads: ".ljust(whole, "-"))
            cells = [self._coloured(texts[c][i].center(widths[c]), c, i, rows) for c in columns]
            lines.append("  |  ".join([names[i].ljust(width), *cells]))
        lines.insert(0, f"[{f' {label} '.center(whole - 2, '-')}]")
        lines += ["", f"Times are in {UNITS[unit]}s ({unit})."]
        if self._warnings and any(one.has_warnings for one in ones):
            lines.append("(! XX%) Measurement has high variance, where XX is the IQR / median * 100.")
        return "\n".join([*lines, ""])

    def _column(self, column: str, rows: Sequence[dict[str, Measurement]], size: float) -> list[str]:
        there = [row[column] for row in rows if column in row]
        digits = (
            min(_decimals(one.median / size, one.significant_figures) for one in there) if self._trim else 1
        )
        texts = []
        for row in rows:
            one = row.get(column)
            if one is None:
                texts.append("")
                continue
            value = one.median / size
            text = f"{trim_sigfig(value, one.significant_figures) if self._trim else value:.{digits}f}"
            if self._warnings and one.has_warnings:
                text += f" (! {100 * one.iqr / one.median:.0f}%)"
            texts.append(text)
        longest = max(map(len, texts))
        return [text.rjust(longest) for text in texts]

    def _coloured(self, text: str, column: str, at: int, rows: Rows) -> str:
        if not self._colours or not text.strip():
            return text
        key, row = list(rows.items())[at]
        if self._by_row:
            others = list(row.values())
        else:
            others = [other[column] for k, other in rows.items() if column in other and k[0] == key[0]]
        best, own = min(one.median for one in others), row[column].median
        colours = [colour for most, colour in _GOOD if own <= most * best]
        colours += [colour for least, colour in _BAD if own >= least * best]
        return f"{colours[0]}{text}{_END}" if colours else text


def _decimals(value: float, figures: int) -> int:
    return max(0, figures - math.ceil(math.log10(value))) if value > 0 else 0
