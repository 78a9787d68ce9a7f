"""The README's example runs as it stands there, and the commands it names exist."""

import json
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_example_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert 0 < float(capsys.readouterr().out) < 1.0


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`", README)) <= targets


def test_extras_exist():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.findall(r"\.\[([a-z]+)\]", README)) <= set(extras)


def test_files_exist():
    named = re.findall(r"`((?:tests|docs|examples)/[\w./]*|[A-Z]+\.md)`", README)
    named += re.findall(r"\]\(([\w./]+)\)", README)
    assert len(named) > 15 and all((ROOT / name).exists() for name in named)


def test_the_speed_table_is_put_where_it_belongs(tmp_path):
    made = runpy.run_path(str(ROOT / "benchmarks" / "publish.py"))
    results, docs, readme = tmp_path / "results", tmp_path / "docs", tmp_path / "README.md"
    results.mkdir(), docs.mkdir()
    pair = "compiled / torch eager"
    times = {"torch eager": {"median": 0.05}, "eager": {"median": 0.06}, "compiled": {"median": 0.04}}
    case = {"train": {"seconds": times, "ratios": {pair: {"median": 0.8}}}}
    suite = {"cases": {"MLP 784": case, "another": case}, "geometric means": {"train": {pair: 0.8}}}
    (results / "suite.json").write_text(json.dumps(suite))
    (results / "speed.md").write_text("figures")
    (results / "speed_train.png").write_bytes(b"plot")
    text = f"above\n{made['START']}old\n{made['END']}below\n"
    readme.write_text(text)
    for _ in range(2):
        written = list(made["publish"](results, docs, readme))
    assert {path.name for path in written} == {"speed.md", "speed_train.png", "README.md"}
    lines = readme.read_text().splitlines()
    assert "old" not in lines and lines[0] == "above" and lines[-1] == "below"
    assert (
        "| MLP 784 | 50 | 60 | 40 | 0.80 |" in lines
        and not any("another" in line for line in lines)
        and "| geometric mean of all 2 |  |  |  | 0.80 |" in lines
    )
    readme.write_text("no marks")
    with pytest.raises(ValueError, match="lacks the lines"):
        list(made["publish"](results, docs, readme))
