"""The layers of the package: a module imports from its own layer and from those below it, and no two import each other.

`layers.txt` lists what does not hold yet, and may only get shorter: ``python tests/test_layers.py`` writes it anew.
"""

from __future__ import annotations

import ast
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
    """The modules of the package that one imports, and whether that is inside a function."""
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
            if name in SOURCES and name != module:
                yield name, node in later


IMPORTS = {module: dict(sorted(imports(module))) for module in SOURCES}


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


def left() -> set[str]:
    """What does not hold, a line each: imports against the order, circles, and imports inside functions."""
    later = sum(is_later for imported in IMPORTS.values() for is_later in imported.values())
    sizes = [
        f"{number}. circle: {len(circle)} modules"
        for number, circle in enumerate(sorted(circles(), key=len)[::-1])
    ]
    return {*against_the_order(), *sizes, f"inside functions: {later} modules of the package"}


def test_imports_go_down() -> None:
    listed = set((ROOT / "tests" / "layers.txt").read_text().split("\n")) - {""}
    found = left()
    assert not found - listed, (
        "a module imports from a layer above its own (LAYERS in this file has the order)"
    )
    assert not listed - found, "this holds now: strike it out of tests/layers.txt"


def test_the_check_sees_what_there_is() -> None:
    assert f"{PACKAGE}._base.dtypes" in IMPORTS[f"{PACKAGE}._base.promotion"]
    assert (
        layer(f"{PACKAGE}._tensor.tensor")
        < layer(f"{PACKAGE}.optim.adam")
        < layer(f"{PACKAGE}.serialization")
    )


if __name__ == "__main__":
    (ROOT / "tests" / "layers.txt").write_text("\n".join(sorted(left())) + "\n")
