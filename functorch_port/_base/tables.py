"""Tables of rich's, as text."""

from __future__ import annotations

from io import StringIO
from typing import Any

from .optional import optional

__all__ = ["table", "text"]


def table(wants: str, **options: Any) -> Any:
    """A new `rich.table.Table`; ``wants`` says what needs rich, for the message where it is not installed."""
    return optional("rich.table", wants, "viz", "rich").Table(**options)


def text(wants: str, *tables: Any) -> str:
    """Tables below each other, in lines of 110 characters at most."""
    out = StringIO()
    console = optional("rich.console", wants, "viz", "rich").Console(file=out, width=110)
    for one in tables:
        console.print(one)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())
