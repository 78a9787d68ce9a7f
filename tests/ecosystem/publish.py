"""Run the programs of the libraries, all or those named (``transformers``, ``timm/models``), and print a table.

``python tests/ecosystem/publish.py`` of all writes docs/ecosystem.md.
"""

from __future__ import annotations

import sys

from running import ROOT, Program, Result, Stopped, compared, programs

PAGE = ROOT / "docs" / "ecosystem.md"


def _chosen(names: list[str]) -> list[Program]:
    return [p for p in programs() if not names or p.library in names or str(p) in names]


def _outcome(program: Program) -> Result | Stopped:
    try:
        return compared(program)
    except Stopped as stop:
        return stop


def _said(outcome: Result | Stopped) -> str:
    if isinstance(outcome, Stopped):
        return f"stops: `{str(outcome).splitlines()[-1][:160]}`"
    text = f"{outcome.difference:.0e}"
    return text if outcome.matches else f"**differs by {text}** in {outcome.worst}"


if __name__ == "__main__":
    for program in _chosen(sys.argv[1:]):
        outcome = _outcome(program)
        print(f"{program!s:40} {_said(outcome)}", flush=True)
