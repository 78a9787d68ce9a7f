"""The base of modules that wrap another one."""

from __future__ import annotations

from typing import Any, ClassVar

from ..nn._module import Module

__all__ = ["Wrapper"]


class Wrapper(Module):
    """A module that wraps another one, and has its attributes and items.

    Attributes:
        wrapped: the name of that one among its modules.
    """

    wrapped: ClassVar[str]

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            inner = self.__dict__.get("_modules", {}).get(self.wrapped)
            if inner is None:
                raise
            return getattr(inner, name)

    def __getitem__(self, key: Any) -> Any:
        inner: Any = self._modules[self.wrapped]
        return inner[key]
