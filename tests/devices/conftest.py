"""Tests on eight virtual devices, in a run of their own: ``make test`` starts it with ``DEVICES=8``."""

import os

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh

collect_ignore_glob = [] if os.environ.get("DEVICES") == "8" else ["test_*.py"]


@pytest.fixture(scope="session")
def mesh() -> Mesh:
    """Eight devices in a row."""
    return Mesh(np.array(jax.devices()), ("x",), axis_types=(AxisType.Auto,))


@pytest.fixture(scope="session")
def grid() -> Mesh:
    """Two times four devices."""
    return Mesh(np.array(jax.devices()).reshape(2, 4), ("dp", "tp"), axis_types=(AxisType.Auto,) * 2)
