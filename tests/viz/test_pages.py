"""The code of docs/profiling.md and docs/pictures.md runs, and their pictures are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["profiling", "pictures"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # tensorboard's imports
def test_a_page_is_true(page, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / f"{page}.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    exec(compile(code, f"{page}.md", "exec"), {"__name__": page})
    assert "parameters" in capsys.readouterr().out
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", text):
        assert 0 < (DOCS / picture).stat().st_size < 150_000
