"""Which names of PyTorch are here."""

from __future__ import annotations

import difflib
import functools
import importlib
from types import ModuleType
from typing import Any, NamedTuple

from .. import launcher
from .._ways_round import approximate, way_round
from ..library import OpNamespace

__all__ = ["Found", "found"]


class Found(NamedTuple):
    """What is here of a name.

    Attributes:
        missing: the beginning of the name that is not here; None if all of it is.
        instead: what to use in its place, or how it means less than in PyTorch; None if nothing is known of that.
        close: names like a missing one.
    """

    missing: str | None
    instead: str | None = None
    close: tuple[str, ...] = ()


@functools.cache
def found(name: str) -> Found:
    """What is here of a full name, as a script spells it: ``"torch.nn.Linear"``."""
    first, *rest = name.split(".")
    owner: Any = importlib.import_module(launcher.ROOTS[first])
    so_far = first
    for part in rest:
        if (
            isinstance(owner, OpNamespace) or so_far == "torch.classes"
        ):  # libraries register these as they run
            return Found(None)
        inner = f"{so_far}.{part}"
        try:
            owner = _part(owner, part, inner)
        except _Missing as missing:
            close = difflib.get_close_matches(part, [n for n in dir(owner) if not n.startswith("_")], n=3)
            instead = str(missing) or way_round(inner)
            return Found(inner, instead, tuple(f"{so_far}.{match}" for match in close))
        so_far = inner
    return Found(None, getattr(owner, "__refused__", None) or approximate(name))


class _Missing(Exception):
    """There is no such name; the text, if any, says what to do."""


def _part(owner: Any, part: str, name: str) -> Any:
    if launcher.is_hidden(name):
        raise _Missing
    try:
        return getattr(owner, part)
    except NotImplementedError as refusal:
        raise _Missing(str(refusal)) from None
    except AttributeError:
        if not isinstance(owner, ModuleType):
            raise _Missing from None
    try:
        return importlib.import_module(f"{owner.__name__}.{part}")
    except ModuleNotFoundError:
        raise _Missing from None
