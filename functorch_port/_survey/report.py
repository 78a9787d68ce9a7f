"""What a program lacks: the uses in its files that are not here, and those that mean less than in PyTorch."""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .names import found
from .walk import Use, uses

__all__ = ["Entry", "Report", "files_of", "report"]


class Entry(NamedTuple):
    """A name, and where it is used.

    Attributes:
        name: the full name, as far as it is missing.
        at: the places, as "file:line".
        at_import: whether a file cannot be imported without it.
        guarded: whether the program goes on without it at each place.
        instead: what to use in its place, or how it differs.
        close: names like it.
    """

    name: str
    at: list[str]
    at_import: bool
    guarded: bool
    instead: str | None
    close: list[str]


class Report(NamedTuple):
    """What was found.

    Attributes:
        files: how many files were read.
        names: how many names of PyTorch they use.
        missing: those that are not here.
        optional: those that are not here, and that the program does without.
        approximate: those that mean less here.
        unread: files that are no Python.
    """

    files: int
    names: int
    missing: list[Entry]
    optional: list[Entry]
    approximate: list[Entry]
    unread: list[str]

    def as_dict(self) -> dict[str, Any]:
        """As dicts and lists."""
        return {
            **self._asdict(),
            **{
                kind: [e._asdict() for e in getattr(self, kind)]
                for kind in ("missing", "optional", "approximate")
            },
        }


def files_of(target: str) -> list[Path]:
    """The files of a program: a script and the modules beside it that it imports, or all of a folder or package.

    Args:
        target: the path of a script or folder, or the name of an installed package.

    Raises:
        FileNotFoundError: there is no such file, folder or package.
    """
    path = Path(target)
    if path.is_file():
        return _with_local_modules(path)
    if path.is_dir():
        return sorted(path.rglob("*.py"))
    try:
        spec = importlib.util.find_spec(target)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise FileNotFoundError(f"{target}: no such file, folder or installed package")
    if spec.submodule_search_locations:
        return sorted(
            file for folder in spec.submodule_search_locations for file in Path(folder).rglob("*.py")
        )
    return [Path(spec.origin)] if spec.origin and spec.origin.endswith(".py") else []


def _with_local_modules(script: Path) -> list[Path]:
    """A script, and the modules in its folder that it leads to by its imports."""
    chosen, left = [script], [script]
    while left:
        file = left.pop()
        for module in _imported(file, script.parent):
            for place in (module.with_suffix(".py"), module / "__init__.py"):
                if place.is_file() and place not in chosen:
                    chosen.append(place)
                    left.append(place)
    return chosen


def _imported(file: Path, folder: Path) -> Iterable[Path]:
    """Where the modules would be that a file imports, if they are in the folder."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                yield from (folder.joinpath(*parts[:count]) for count in range(1, len(parts) + 1))
        elif isinstance(node, ast.ImportFrom):
            base = file.parents[node.level - 1] if node.level and node.level <= len(file.parents) else folder
            parts = (node.module or "").split(".") if node.module else []
            yield from (base.joinpath(*parts[:count]) for count in range(1, len(parts) + 1))
            yield from (base.joinpath(*parts, alias.name) for alias in node.names)


def report(files: Iterable[Path]) -> Report:
    """Look up all that the files use.

    Args:
        files: the files of a program, as `files_of` gives them.
    """
    files = list(files)
    shared = Path(os.path.commonpath([file.parent for file in files])) if files else Path()
    missing: dict[str, list[tuple[str, Use]]] = {}
    approximate: dict[str, list[tuple[str, Use]]] = {}
    names, unread = set(), []
    for file in files:
        shown = str(file.relative_to(shared))
        try:
            in_file = uses(file.read_bytes())
        except (SyntaxError, ValueError):
            unread.append(shown)
            continue
        for use in in_file:
            names.add(use.name)
            here = found(use.name)
            if here.missing is not None:
                missing.setdefault(here.missing, []).append((shown, use))
            elif here.instead is not None:
                approximate.setdefault(use.name, []).append((shown, use))
    lacking = [_entry(name, places) for name, places in missing.items()]
    return Report(
        len(files),
        len(names),
        _sorted(entry for entry in lacking if not entry.guarded),
        _sorted(entry for entry in lacking if entry.guarded),
        _sorted(_entry(name, places) for name, places in approximate.items()),
        unread,
    )


def _entry(name: str, places: list[tuple[str, Use]]) -> Entry:
    here = found(name)
    at = list(dict.fromkeys(f"{file}:{use.line}" for file, use in places))
    at_import = any(use.at_import and not use.guarded for _, use in places)
    return Entry(name, at, at_import, all(use.guarded for _, use in places), here.instead, list(here.close))


def _sorted(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (not entry.at_import, entry.name))
