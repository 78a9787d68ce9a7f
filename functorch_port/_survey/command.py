"""The command ``functorch-port check``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from .report import Entry, Report, files_of, report

__all__ = ["add_to", "main"]

_DESCRIPTION = """\
Say which names of PyTorch a program uses that functorch_port does not have, without running the program: its
imports, and the attributes of what it imports. Of a script, the modules beside it that it imports are read, too.
What a program reaches in other ways is not seen, such as the methods of tensors."""

_EPILOG = """\
examples
  functorch-port check train.py          a script, with the modules in its folder
  functorch-port check src               all files of a folder
  functorch-port check transformers      an installed package
  functorch-port check train.py --json   for other tools
exit status: 0 if nothing is missing, or only what the program does without; 1 if something is; 2 if there is no such
script, folder or package
"""
_PLACES = 4


def add_to(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    parser = commands.add_parser(
        "check",
        help="say what a script needs that is not here",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "target", metavar="TARGET", help="the path of a script or folder, or the name of an installed package"
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")


def main(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    try:
        files = files_of(options.target)
    except FileNotFoundError as error:
        print(f"functorch-port check: {error}", file=sys.stderr)
        return 2
    made = report(files)
    print(json.dumps(made.as_dict(), indent=2) if options.json else "\n".join(_lines(options.target, made)))
    return 1 if made.missing else 0


def _lines(target: str, made: Report) -> Iterator[str]:
    files = "1 file" if made.files == 1 else f"{made.files} files"
    yield f"{target}: {files}, {made.names} names of PyTorch, {len(made.missing)} missing"
    for file in made.unread:
        yield f"  {file} cannot be read: it is no Python"
    first = [entry for entry in made.missing if entry.at_import]
    yield from _section("missing as a file is imported", first)
    yield from _section("missing where it is used", [entry for entry in made.missing if not entry.at_import])
    yield from _section("missing, and the program does without", made.optional)
    yield from _section("here, but less than in PyTorch", made.approximate)


def _section(title: str, entries: list[Entry]) -> Iterator[str]:
    if not entries:
        return
    yield f"\n{title}"
    for entry in entries:
        more = len(entry.at) - _PLACES
        places = ", ".join(entry.at[:_PLACES]) + (f" and {more} more" if more > 0 else "")
        yield f"  {entry.name}   {places}"
        if entry.instead:
            yield f"      {entry.instead}"
        elif entry.close:
            yield f"      close: {', '.join(entry.close)}"
