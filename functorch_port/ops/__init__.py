"""The operations, one family per file."""

import importlib as _importlib
import pkgutil as _pkgutil
from typing import Any as _Any

from .._base import collector as _collector
from .._run import bind as _bind

# Every family registers itself on import; the order of registration does not matter. The modules with an underscore
# serve them: those with primitives are imported by what is traced, since `jax.extend` takes 20 ms to import.
#
# A garbage collection during these imports would take 45 ms and find nothing: all operations live as long as the
# process.
with _collector.stopped():
    for _module in _pkgutil.iter_modules(__path__):
        if not _module.name.startswith("_"):
            _importlib.import_module(f"{__name__}.{_module.name}")
            del globals()[_module.name]  # such attributes are namespaces of custom operators
    _bind.bind()
    _bind.publish_methods()


def __getattr__(name: str) -> _Any:
    """``torch.ops.<name>``: a namespace of custom operators; names with an underscore are modules."""
    if name.startswith("_"):
        try:
            return _importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return _importlib.import_module("functorch_port.library").OpNamespace(name)


def load_library(path: str) -> None:
    """Register the operators that replace those of a library (see `library.replacements`).

    Raises:
        OSError: there are none. Operators compiled for PyTorch need PyTorch.
    """
    for end, module in _importlib.import_module("functorch_port.library").replacements.items():
        if str(path).rpartition(".")[0].endswith(end):
            _importlib.import_module(module).register()
            return
    raise OSError(f"torch.ops.load_library: {path} is compiled for PyTorch and cannot be loaded without it")
