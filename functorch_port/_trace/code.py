"""What code looks up by name, and whose code it is: some is taken to stay as it is."""

from __future__ import annotations

import dis
import functools
import sys
import sysconfig
import types
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Names", "is_fixed", "is_installed", "is_ours", "is_users", "names_of"]

_OURS = __name__.partition(".")[0]
_FIXED = frozenset(
    {"jax", "jaxlib", "numpy", "optax", "ml_dtypes", "torch", "builtins", *sys.stdlib_module_names}
)
_INSTALLED = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})


def _root(name: Any) -> str:
    return name.partition(".")[0] if isinstance(name, str) else ""


@functools.cache
def is_installed(module: str) -> bool:
    """Whether a module is of an installed package: its functions, classes and tables are taken to stay."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and file.startswith(_INSTALLED)


@dataclass
class Names:
    """What a code object, and those inside it, look up by name."""

    globals: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    #: attributes that are looked up on what a global or cell holds: name -> paths
    paths: dict[str, set[tuple[str, ...]]] = field(default_factory=dict)


@functools.lru_cache(maxsize=4096)
def names_of(code: types.CodeType) -> Names:
    found = Names()
    root: str = ""
    path: tuple[str, ...] = ()
    for step in dis.get_instructions(code):
        op, name = step.opname, step.argval
        if op.startswith(
            ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER", "STORE_ATTR", "DELETE_ATTR", "IMPORT_FROM")
        ):
            found.attributes.add(name)
            path = (*path, name)
            if root:
                found.paths.setdefault(root, set()).add(path)
            continue
        if op in ("PRECALL", "CACHE", "EXTENDED_ARG"):
            continue
        root, path = "", ()
        if op.startswith(("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_FROM_DICT")):
            found.globals.add(name)
            root = name
        elif op.startswith(("LOAD_DEREF", "LOAD_CLASSDEREF")):
            root = name
        elif op == "IMPORT_NAME":
            found.imports.add(name)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            others = names_of(inner)
            found.globals |= others.globals
            found.attributes |= others.attributes
            found.imports |= others.imports
            for root, paths in others.paths.items():
                found.paths.setdefault(root, set()).update(paths)
    return found


def is_fixed(module: Any) -> bool:
    """Whether a module, by its name, is Python's own or of a library whose code is taken to stay."""
    return _root(module) in _FIXED


def is_ours(module: Any) -> bool:
    """Whether a module, by its name, is of this package."""
    return _root(module) == _OURS


def is_users(kind: type) -> bool:
    """Whether a class may change: it is neither ours nor fixed."""
    return not is_fixed(kind.__module__) and not is_ours(kind.__module__)
