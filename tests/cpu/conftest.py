"""What tests of the CPU's mechanisms share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from functorch_port._cpu import programs


@pytest.fixture(autouse=True)
def what_is_not_small_is_compiled(request: pytest.FixtureRequest, tuned: Callable[..., None]) -> None:
    """What is not small is compiled, as most of these tests are of programs; not where a module has `TIER`."""
    if not hasattr(request.module, "TIER"):
        tuned(tier="compiled")


@pytest.fixture
def no_programs(tuned: Callable[..., None]) -> None:
    """There is no program of eager operations yet, and none is compiled before they have come a few times."""
    for known in (programs._programs, programs._keys, programs._left, programs._times, programs._kept):
        known.clear()
    programs._large.programs = programs._large.calls = 0
    tuned(program_new=0)
