"""The operations, one family per file."""

import importlib
import pkgutil

# every family registers itself on import; the order of registration does not matter
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
