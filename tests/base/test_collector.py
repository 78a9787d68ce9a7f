"""What the garbage collector passes over from the import on."""

import subprocess
import sys

import pytest

SCRIPT = """
import gc
{before}
import functorch_port as ft
frozen = gc.get_freeze_count()
step = ft.compile(lambda x: ft.nn.functional.dropout(x * 2))
step(ft.ones(3))
print(frozen > 50_000, frozen == 0, step.traces)
"""


@pytest.mark.parametrize(
    ("before", "printed"),
    [
        ("import numpy", "True False 1"),
        ("made = [[] for _ in range(40_000)]", "False True 1"),
        ("gc.disable()", "False True 1"),
    ],
)
def test_what_imports_made_is_passed_over(before, printed):
    """Not what a program has made before, which may be in cycles. A trace finds all the same."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(before=before)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == printed, done.stderr
