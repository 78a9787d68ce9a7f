"""The operations, one family per file."""

import importlib
import pkgutil

# every family registers itself on import; the order of registration does not matter
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def __getattr__(name: str) -> object:
    """As ``torch.ops`` this package has the namespaces of custom operators."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("functorch_port.library").OpNamespace(name)


def load_library(path: str) -> None:
    """Refused: operators compiled for PyTorch need PyTorch.

    Raises:
        OSError: always.
    """
    raise OSError(f"torch.ops.load_library: {path} is compiled for PyTorch, which is not there")
