"""The public names of the package, which are PyTorch's and torchvision's: `public_names.txt` has them all.

A module's public names are its ``__all__``, or without one all that ``dir`` shows; and the submodules that it has as
attributes. Names with an underscore are private. The table has PyTorch's names by module, then those "of our own",
and those "to be removed": helpers that can be seen where PyTorch has nothing, which may only get fewer.
``python tests/test_public_names.py`` writes the table anew, and is what compares with PyTorch.
"""

from __future__ import annotations

import importlib
import pkgutil
import textwrap
import warnings
from pathlib import Path
from types import ModuleType

import pytest

import functorch_port

TABLE = Path(__file__).with_name("public_names.txt")
#: what is ours, by the library whose names it has
ROOTS = {"torch": "functorch_port", "torchvision": "functorch_port.vision"}
TORCH, OWN, LEFT = "PyTorch's", "of our own", "to be removed"


def load(module: str) -> ModuleType:
    """Our module that the table calls by its name in PyTorch or torchvision."""
    root, dot, rest = module.partition(".")
    return importlib.import_module(ROOTS[root] + dot + rest)


def submodules(module: ModuleType) -> set[str]:
    names = {found.name for found in pkgutil.iter_modules(getattr(module, "__path__", ()))}
    for name in names:
        if not name.startswith("_"):
            importlib.import_module(f"{module.__name__}.{name}")
    return {name for name in names if isinstance(vars(module).get(name), ModuleType)}


def public(module: ModuleType) -> set[str]:
    inside = submodules(module)
    names = {*getattr(module, "__all__", dir(module)), *inside}
    # `from __future__ import annotations` leaves a name
    return {name for name in names if not name.startswith("_")} - {"annotations"}


def read() -> dict[str, dict[str, set[str]]]:
    """The names by section and module."""
    table: dict[str, dict[str, set[str]]] = {TORCH: {}, OWN: {}, LEFT: {}}
    section = module = ""
    for line in TABLE.read_text().split("\n"):
        if line.startswith("# "):
            section = line[2:]
        elif line.startswith(" "):
            table[section][module] |= {*line.split()}
        elif line:
            module = line
            table[section][module] = set()
    return table


LISTED = read()


@pytest.mark.parametrize("module", dict.fromkeys([*LISTED[TORCH], *LISTED[OWN]]))
def test_public_names_are_those_listed(module: str) -> None:
    found = public(load(module))
    kept, left = (
        set().union(*(LISTED[section].get(module, ()) for section in sections))
        for sections in ((TORCH, OWN), (LEFT,))
    )
    assert not found - kept - left, (
        "a public name that the table does not have: give it an underscore or leave it out of `__all__`;"
        " if PyTorch has it, or it is meant for users, write the table anew"
    )
    assert not kept - found, "a public name is gone: users will miss it"
    assert not left - found, f"strike this out of {TABLE.name}"


def test_every_name_can_be_looked_up() -> None:
    gone = [
        f"{module}.{name}"
        for names_of in LISTED.values()
        for module, names in names_of.items()
        for name in names
        if name not in submodules(load(module)) and not hasattr(load(module), name)
    ]
    assert gone == []


def test_operators_of_a_library_may_have_the_name_of_a_family() -> None:
    @functorch_port.library.custom_op("attention::twice", mutates_args=())
    def twice(x: functorch_port.Tensor) -> functorch_port.Tensor:
        return x * 2

    assert functorch_port.ops.attention.twice(functorch_port.ones(1)).tolist() == [2]


def write() -> None:
    """Compare with PyTorch and torchvision. A name they lack stays in its section; a new one is to be removed."""
    table: dict[str, dict[str, set[str]]] = {TORCH: {}, OWN: {}, LEFT: {}}

    def there(module: str) -> ModuleType | None:
        try:
            return importlib.import_module(module)
        except ImportError:
            return None

    real_torchvision = importlib.import_module("real_torchvision")  # by which torchvision can be imported
    assert real_torchvision.torchvision is there("torchvision")

    def visit(module: str) -> None:
        ours, theirs = load(module), there(module)
        for name in sorted(public(ours)):
            inner = f"{module}.{name}"
            known = hasattr(theirs, name) or there(inner) is not None
            meant = name in (LISTED[OWN].get(module, ()) if theirs else ours.__all__)
            section = TORCH if known else OWN if meant else LEFT
            table[section].setdefault(module, set()).add(name)
        for name in sorted(submodules(ours)):
            inner = f"{module}.{name}"
            if name.startswith("_") or load(inner).__name__ in ROOTS.values():
                continue
            if there(inner) or name in table[OWN].get(module, ()):
                visit(inner)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for root in ROOTS:
            visit(root)
    lines = []
    for section, names_of in table.items():
        lines.append(f"# {section}")
        for module, names in names_of.items():
            indent = dict(initial_indent="  ", subsequent_indent="  ", break_long_words=False)
            lines += [module, *textwrap.wrap(" ".join(sorted(names)), 118, **indent)]
        lines.append("")
    TABLE.write_text("\n".join(lines))


if __name__ == "__main__":
    write()
