"""The README's example runs as it stands there, and the commands it names exist."""

import re
from pathlib import Path

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
    named = re.findall(r"`((?:tests|docs)/[\w./]*|[A-Z]+\.md)`", README)
    assert len(named) > 5 and all((ROOT / name).exists() for name in named)
