"""Names of PyTorch that have no meaning here: they can be imported, and say what to do instead when they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["refused", "refused_class", "refused_function"]


def refused_function(name: str, why: str) -> Callable[..., Any]:
    """A function that raises.

    Args:
        name: its full name, such as ``"torch.fx.symbolic_trace"``.
        why: why it is not here, and what to use instead.
    """

    def refuse(*args: Any, **kwargs: Any) -> Any:
        """Not supported.

        Raises:
            NotImplementedError: always; it says what to use instead.
        """
        raise NotImplementedError(f"{name}: {why}")

    refuse.__refused__ = why  # type: ignore[attr-defined]
    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    return refuse


def refused_class(name: str, why: str, base: type = object) -> type:
    """A class for ``isinstance`` and as a base of others, of which no object can be made.

    Args:
        name: its full name, such as ``"torch.fx.Tracer"``.
        why: why it is not here, and what to use instead.
        base: its base.
    """
    owner, _, short = name.rpartition(".")

    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{owner}.{type(self).__name__}: {why}")

    doc = "Not supported: no object of it can be made.\n\nRaises:\n    NotImplementedError: always."
    return type(short, (base,), {"__init__": refuse, "__module__": owner, "__doc__": doc, "__refused__": why})


def refused(
    module: str, why: str, functions: Iterable[str] = (), classes: Iterable[str] = ()
) -> dict[str, Any]:
    """The refused names of a module.

    Args:
        module: what scripts call it, such as ``"torch.fx"``.
        why: why they are not here, and what to use instead.
        functions, classes: their names.
    """
    return {name: refused_function(f"{module}.{name}", why) for name in functions} | {
        name: refused_class(f"{module}.{name}", why) for name in classes
    }
