"""`torch.return_types`: named tuples for the results of operations that have several."""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

__all__ = ["return_type_of", "return_types"]

return_types: dict[str, type] = {}


@cache
def return_type_of(name: str, fields: tuple[str, ...]) -> type:
    base = namedtuple(name, fields)  # type: ignore[misc]

    def __repr__(self: Any) -> str:
        inner = ",\n".join(f"{f}={getattr(self, f)!r}" for f in fields)
        return f"torch.return_types.{name}(\n{inner})"

    made = type(name, (base,), {"__repr__": __repr__, "__module__": "torch.return_types", "__slots__": ()})
    return return_types.setdefault(name, made)
