"""Libraries that need not be installed."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["optional"]


def optional(name: str, wants: str, extra: str, package: str | None = None) -> Any:
    """A module of a library that need not be installed.

    Args:
        name: of the module.
        wants: what needs it, for the message.
        extra: of this package, which installs it.
        package: what pip calls the library, if not as Python does.

    Raises:
        ModuleNotFoundError: it is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # something that the library needs
        package = package or name.partition(".")[0]
        raise ModuleNotFoundError(
            f"{wants} needs {package}, which is not installed: pip install 'functorch-port[{extra}]', "
            f"or pip install {package}",
            name=error.name,
        ) from None
