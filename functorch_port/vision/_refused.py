"""Names of torchvision that are not here: what asks for one is told so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["refusing"]


def refusing(module: str, names: Iterable[str], instead: str) -> Callable[[str], Any]:
    """A module's ``__getattr__``, which raises for names of torchvision that are not here.

    Args:
        module: its name, to be said in the error.
        names: those of torchvision that it does not have.
        instead: a way round.
    """
    refused = frozenset(names)
    public = module.replace("functorch_port.vision", "torchvision", 1)

    def __getattr__(name: str) -> Any:
        if name in refused:
            raise NotImplementedError(f"{public}.{name} is not in functorch_port. In its place: {instead}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__
