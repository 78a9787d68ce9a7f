"""What a failed import says of all else that the program lacks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .report import Entry, files_of, report

__all__ = ["told"]


def told(what: str, importing: Iterable[str]) -> str:
    """All that is missing of a program: of the script and its modules, and of what it was importing.

    Args:
        what: the script.
        importing: the files of libraries that an import had come to.
    """
    own = files_of(what) if Path(what).is_file() else []
    others = [path for path in map(Path, importing) if path.is_file() and path not in own]
    lacking = [*report(own).missing, *(entry for entry in report(others).missing if entry.at_import)]
    lines = {entry.name: _line(entry) for entry in lacking}
    if not lines:
        return f"`functorch-port check {what}` says what else may be missing"
    return "\n".join(["all that is missing, as functorch-port check finds it:", *lines.values()])


def _line(entry: Entry) -> str:
    text = f"  {entry.name} ({', '.join(entry.at)})"
    return text if entry.instead is None else f"{text}: {entry.instead}"
