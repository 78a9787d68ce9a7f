"""The examples run; a short run of the demo leaves a checkpoint that loads and a plot."""

import os
import subprocess
import sys
from pathlib import Path

import functorch_port as ft

ROOT = Path(__file__).parent.parent


def test_demo(tmp_path):
    script = ROOT / "examples" / "digits_cnn.py"
    options = ["--epochs", "1", "--eager-steps", "2", "--batch-size", "256", "--out", str(tmp_path)]
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, str(script), *options], capture_output=True, text=True, env=settings
    )
    assert done.returncode == 0, done.stderr
    for said in (
        "1,199,882 parameters",
        "held-out accuracy",
        "eager step",
        "compiled step",
        "digits_cnn.png",
    ):
        assert said in done.stdout
    saved = ft.load(tmp_path / "digits_cnn.pt")
    assert sum(tensor.numel() for tensor in saved["model"].values()) == 1_199_882
    assert len(saved["optimizer"]["state"]) == 8
    assert (tmp_path / "digits_cnn.png").read_bytes()[:4] == b"\x89PNG"
