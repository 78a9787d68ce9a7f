"""Every test of operations runs twice: small values in numpy on the host, as on a CPU, and everything by XLA."""

from collections.abc import Iterator

import pytest

from functorch_port.core import host


@pytest.fixture(autouse=True, scope="module", params=[4096, 0], ids=["host", "XLA"])
def where_small_values_are(request: pytest.FixtureRequest) -> Iterator[None]:
    before = host.MOST
    host.MOST, host.enabled.known = request.param, None
    yield
    host.MOST, host.enabled.known = before, None
