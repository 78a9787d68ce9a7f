"""What is computed specially on a CPU leaves the programs for TPU and GPU as they are."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from functorch_port._cpu.native import onednn

pytestmark = pytest.mark.skipif(not onednn.available(), reason="needs oneDNN and llvmlite")

MODELS = ("CNN, b64", "GPT 0.8M, b12x64", "U-Net 64x64, b4")


def lowered(*flags: str) -> dict[str, Any]:
    """What `lowered_steps.py` found."""
    here = Path(__file__).parent
    path = os.pathsep.join(filter(None, (str(here.parent), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, str(here / "lowered_steps.py"), *flags, *MODELS]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_products_convolutions_and_scatters_are_the_same() -> None:
    here, without = lowered(), lowered("--without")
    assert here["ours"] and not without["ours"]
    for name in MODELS:
        for platform in ("tpu", "cuda"):
            found = here["models"][name][platform]
            assert found == without["models"][name][platform]
            assert any("convolution" in op or "dot_general" in op for op in found)
            assert not any("functorch_port" in op for op in found)
