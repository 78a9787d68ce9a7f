"""The documentation: examples in docstrings and guides run, and the site builds without a warning."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import json
import os
import pkgutil
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from test_public_names import LISTED, OWN, TORCH, load

import functorch_port
from functorch_port._base import settings

ROOT = Path(__file__).parents[1]
#: processes that share the modules: examples may change what is global
PARTS = 3
#: guides whose Python is one program, in the order of the page
GUIDES = ("tour", "from_pytorch", "from_jax", "data", "crosscheck_guide", "tpu")


def modules() -> list[str]:
    found = pkgutil.walk_packages(functorch_port.__path__, "functorch_port.")
    return sorted(module.name for module in found if not module.name.endswith("__main__"))


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess:
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run([sys.executable, *command], cwd=cwd, env=settings, capture_output=True, text=True)


@pytest.mark.cpu  # what is printed may differ elsewhere in its last digit
@pytest.mark.parametrize("part", range(PARTS))
def test_examples_of_docstrings(part):
    done = run("-W", "ignore", __file__, str(part), cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("guide", GUIDES)
def test_guides_run(guide, tmp_path):
    text = (ROOT / "docs" / f"{guide}.md").read_text()
    blocks = re.findall(r"^ *```python\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    (tmp_path / "guide.py").write_text("\n".join(map(textwrap.dedent, blocks)))
    done = run("guide.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_page_of_pytorchs_tests_is_made_of_what_is_known():
    spec = importlib.util.spec_from_file_location("pytorch_tests", ROOT / "tools" / "pytorch_tests.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    results, causes = json.loads(tool.RESULTS.read_text()), tomllib.loads(tool.CAUSES.read_text())["cause"]
    assert tool.PAGE.read_text() == tool.page(results, causes)


def test_every_setting_is_on_its_page():
    page = (ROOT / "docs" / "running.md").read_text()
    assert [name for name in settings.VARIABLES if f"| `FUNCTORCH_PORT_{name}` |" not in page] == []


def test_the_site_builds(tmp_path):
    done = run("-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "reference" / "torch.optim.html").read_text()
    assert 'id="torch.optim.AdamW"' in page and "<math" in page
    assert "torch.nn.functional" in (tmp_path / "search" / "search_index.json").read_text()
    pages = [path.read_text() for path in (tmp_path / "reference").glob("*.html")]
    found = {anchor.rpartition(".")[2] for text in pages for anchor in re.findall(r'<h3 id="([\w.]+)"', text)}
    tables = [*LISTED[TORCH].items(), *LISTED[OWN].items()]
    named = [(load(module), name) for module, names in tables for name in names]
    assert {
        name for home, name in named if not isinstance(getattr(home, name, home), ModuleType)
    } - found == set()


if __name__ == "__main__":
    failed = {
        name: doctest.testmod(importlib.import_module(name)).failed
        for name in modules()[int(sys.argv[1]) :: PARTS]
    }
    sys.exit(any(failed.values()))
