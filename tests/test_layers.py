"""The layers of the package: a module imports from its own layer and from those below it, and no two import each other.

Imports stand at the top of a file, except those that would load what ``import functorch_port`` does not load.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "functorch_port"

#: from the bottom to the top
LAYERS = (
    "_base", "_array", "_tensor", "_random", "_run", "ops", "autograd", "func", "_trace", "accelerator", "backends",
    "linalg", "nn", "optim",
)  # fmt: skip
#: every other folder and file: PyTorch's further names, files, tools
TOP = len(LAYERS)
#: is imported by the package's ``__init__`` alone, which installs it
CPU = "_cpu"


def sources() -> dict[str, Path]:
    """The modules of the package by name."""
    found = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


SOURCES = sources()


def short(module: str) -> str:
    return module.removeprefix(f"{PACKAGE}.")


#: modules with PyTorch's names that are made of what is above their folder's layer
FACES = {"autograd.functional": "func", "autograd.gradcheck": "func"}


def layer(module: str) -> int:
    folder = FACES.get(short(module)) or (module.split(".") + [""])[1]
    return LAYERS.index(folder) if folder in LAYERS else TOP


def is_of_cpu(module: str) -> bool:
    return module.split(".")[1:2] == [CPU]


def imports(module: str) -> Iterator[tuple[str, bool]]:
    """The modules that one imports, and whether that is inside a function."""
    path = SOURCES[module]
    tree = ast.parse(path.read_text())
    checked = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    ]
    for_types = {child for node in checked for child in ast.walk(node)}
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    later = {child for function in functions for child in ast.walk(function)}
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            names = [n if (n := f"{start}.{alias.name}") in SOURCES else start for alias in node.names]
        else:
            continue
        for name in names:
            if name != module:
                yield name, node in later


ALL_IMPORTS = {module: {*imports(module)} for module in SOURCES}
#: those of the package
IMPORTS = {
    module: sorted({name for name, _ in found if name in SOURCES}) for module, found in ALL_IMPORTS.items()
}


def against_the_order() -> Iterator[str]:
    for module, imported in IMPORTS.items():
        for other in imported:
            if is_of_cpu(other):
                wrong = not is_of_cpu(module) and module != PACKAGE
            else:
                wrong = not is_of_cpu(module) and layer(other) > layer(module)
            if wrong:
                yield f"{short(module)} -> {short(other)}"


def circles() -> list[list[str]]:
    """Sets of modules each of which leads to every other one, also by imports inside functions."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in IMPORTS[module]:
            if SOURCES[other].name == "__init__.py":
                continue
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            at = stack.index(module)
            circle = stack[at:]
            del stack[at:]
            if len(circle) > 1:
                found.append(sorted(map(short, circle)))

    for module in SOURCES:
        if module not in index:
            visit(module)
    return found


def loaded() -> set[str]:
    """The modules that a fresh process has after ``import functorch_port``."""
    code = f"import sys, {PACKAGE}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return {*done.stdout.split()}


def test_imports_go_down() -> None:
    assert [*against_the_order()] == [], "the imported module is in a layer above (LAYERS has the order)"


def test_no_two_import_each_other() -> None:
    assert circles() == []


def test_imports_inside_functions_are_of_what_is_not_loaded() -> None:
    there = loaded()
    found = {
        f"{short(module)} -> {short(name)}"
        for module, imported in ALL_IMPORTS.items()
        for name, is_later in imported
        if is_later and name in there
    }
    assert found == set(), "move the import to the top of the file"


def test_the_check_sees_what_there_is() -> None:
    assert f"{PACKAGE}._base.dtypes" in IMPORTS[f"{PACKAGE}._base.promotion"]
    assert (
        layer(f"{PACKAGE}._tensor.tensor")
        < layer(f"{PACKAGE}.optim.adam")
        < layer(f"{PACKAGE}.serialization")
    )
