"""The garbage collector after the import."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_passes_over_what_is_there_after_the_import(is_on: bool) -> None:
    """But a user who has stopped it decides alone."""
    code = f"""
import gc
if not {is_on}:
    gc.disable()
import functorch_port
print(gc.get_freeze_count() > 10_000, len(gc.get_objects()) < 10_000, gc.isenabled())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(is_on)] * 3
