"""Exceptions of other threads and processes, which are raised again here with the text of where they came from."""

from __future__ import annotations

import sys
import traceback
from typing import Any

__all__ = ["ExceptionWrapper", "KeyErrorMessage"]


class KeyErrorMessage(str):
    """The text of a KeyError that is printed as it is, with its lines."""

    __slots__ = ()
    __repr__ = str.__str__


class ExceptionWrapper:
    """An exception of another thread or process, as text, to be raised again here.

    Args:
        exc_info: as ``sys.exc_info()`` gives it; by default that.
        where: what to say of the place.
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, value, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = kind
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))
        self.where = where

    def error(self) -> BaseException:
        """A new exception of the same type, or a RuntimeError if that type does not take one string."""
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            return KeyError(KeyErrorMessage(text))
        if getattr(self.exc_type, "message", None):
            return self.exc_type(message=text)  # type: ignore[no-any-return]
        try:
            return self.exc_type(text)  # type: ignore[no-any-return]
        except Exception:
            return RuntimeError(text)

    def reraise(self) -> None:
        """Raise the exception, with the text of where it came from."""
        raise self.error()
