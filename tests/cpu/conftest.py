"""What tests of the CPU's mechanisms share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from functorch_port._cpu import programs


@pytest.fixture
def no_programs(tuned: Callable[..., None]) -> None:
    """There is no program of eager operations yet, and none is compiled before they have come a few times."""
    for known in (programs._programs, programs._keys, programs._seen, programs._kept):
        known.clear()
    programs._large.programs = programs._large.calls = 0
    tuned(program_new=0)
