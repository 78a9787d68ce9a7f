"""The examples of the page "Coming from JAX" that need libraries outside of the ``test`` extra."""

import importlib.util
import re

import pytest
from test_programs import HERE, python

PAGE = (HERE.parents[1] / "docs" / "from_jax.md").read_text()
BLOCKS = re.findall(r"^```py\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def imported(block):
    return [name for name in re.findall(r"^(?:import|from) (\w+)", block, re.MULTILINE)]


@pytest.mark.parametrize("number", range(len(BLOCKS)), ids=[imported(block)[0] for block in BLOCKS])
def test_example_runs(number, tmp_path):
    for name in imported(BLOCKS[number]):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: see tests/ecosystem_jax/requirements.txt")
    path = tmp_path / "example.py"
    path.write_text(BLOCKS[number])
    python(str(path))
