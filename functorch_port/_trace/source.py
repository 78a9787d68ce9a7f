"""Flat Python functions that are written for one program: a loop over what it looks at takes three times as long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Source"]


class Source:
    """Names for the objects that a function's source is about.

    Args:
        known: objects that the source calls by these names.

    Example:
        >>> table = {"lr": 0.1}
        >>> source = Source()
        >>> now = source.function("now()", [f"return {source.item(table, 'lr')}"])
        >>> now()
        0.1
    """

    def __init__(self, **known: Any) -> None:
        self._space: dict[str, Any] = known
        self._names: dict[int, str] = {}

    def name(self, value: Any) -> str:
        """The name of an object."""
        if id(value) not in self._names:
            self._names[id(value)] = name = f"v{len(self._names)}"
            self._space[name] = value
        return self._names[id(value)]

    def literal(self, value: Any) -> str:
        """A key: itself where that can be written, else a name."""
        return repr(value) if type(value) in (str, int) else self.name(value)

    def item(self, table: Any, key: Any) -> str:
        return f"{self.name(table)}[{self.literal(key)}]"

    def function(self, head: str, lines: Sequence[str]) -> Callable[..., Any]:
        """The function with this head and body."""
        exec(f"def {head}:\n    " + "\n    ".join(lines or ["pass"]), self._space)
        return self._space[head.partition("(")[0]]  # type: ignore[no-any-return]
