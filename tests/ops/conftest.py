"""Every test of operations runs twice."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def in_both_ways(both_ways: None) -> None:
    pass
