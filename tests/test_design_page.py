"""`docs/design.md` is true: the files of the reading path are as long as it says, and what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "functorch_port"
PAGE = (ROOT / "docs" / "design.md").read_text()

PATH = [
    "_array/storage.py", "_tensor/tensor.py", "_run/registry.py", "_tensor/plan.py", "_run/run.py",
    "autograd/_engine.py", "nn/modules/linear.py", "optim/adam.py",
]  # fmt: skip


def lines(file: str) -> int:
    return len((PACKAGE / file).read_text().splitlines())


def files(name: str) -> list[Path]:
    """The files of the package that a name on the page may mean."""
    return [path for path in PACKAGE.rglob("*.py") if path.as_posix().endswith(f"/{name}")]


def test_the_reading_path_takes_half_an_hour() -> None:
    assert sum(map(lines, PATH)) <= 1500
    assert lines("_run/run.py") <= 80
    assert len(PAGE.splitlines()) <= 150


@pytest.mark.parametrize("file", PATH)
def test_the_page_says_how_long_a_file_is(file: str) -> None:
    said = re.search(rf"`{file}`\s\((\d+)\)", PAGE)
    assert said is not None, "the first paragraphs list the path"
    assert abs(int(said[1]) - lines(file)) <= max(10, lines(file) // 10)


def test_files_on_the_page_are_there() -> None:
    named = {name for name in re.findall(r"`([\w/]+\.py)`", PAGE) if "NAME" not in name}
    outside = [name for name in named if not files(name) and not (ROOT / name).exists()]
    assert named and not outside


WALK = PAGE[PAGE.index("## One training step") : PAGE.index("## Recipes")]


@pytest.mark.parametrize(("name", "file"), re.findall(r"`([\w.]+)`\s+\(`([\w/]+\.py)`\)", WALK))
def test_functions_of_the_walk_are_where_it_says(name: str, file: str) -> None:
    text = "\n".join(path.read_text() for path in files(file))
    for part in name.split("."):
        if part not in ("F", "Tensor"):
            assert re.search(rf"\b{part}\b", text), f"{part} is not in {file}"
