"""Whole training steps compile for a TPU, on any machine, and cost what the same steps in plain JAX cost."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("libtpu", reason="the TPU compiler")
pytestmark = pytest.mark.slow

SETTINGS = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",  # there is no TPU to ask about
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # another process that holds the compiler's lock file is none of our business
}


@pytest.fixture(scope="module")
def costs() -> dict[str, Any]:
    """What `tpu_steps.py` found."""
    here = Path(__file__).parent
    command = [sys.executable, str(here / "tpu_steps.py")]
    path = os.pathsep.join(filter(None, (str(here.parent), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, **SETTINGS, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("way", ["gradients not kept", "zero_grad last"])
@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_as_cheap_as_plain_jax(costs: dict[str, Any], network: str, way: str) -> None:
    found, plain = costs[network][way], costs[network]["by hand"]
    assert found["flops"] == pytest.approx(plain["flops"], rel=0.02)
    assert found["peak"] == pytest.approx(plain["peak"], rel=0.02)


@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_gradients_left_behind_cost_their_size(costs: dict[str, Any], network: str) -> None:
    """With `zero_grad` at the start of the step, ``.grad`` can be read after it: that keeps the old parameters."""
    found, plain = costs[network]["gradients kept"], costs[network]["by hand"]
    assert found["flops"] == pytest.approx(plain["flops"], rel=0.02)
    assert found["peak"] == pytest.approx(plain["peak"] + found["gradients"], rel=0.02)


@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_no_64_bit_arrays_but_the_labels(costs: dict[str, Any], network: str) -> None:
    for way in ("gradients not kept", "zero_grad last", "gradients kept"):
        assert costs[network][way]["wide"] in ([], ["s64[64]"])
