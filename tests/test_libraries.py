"""Libraries that import torch: their models and optimizers train compiled here to PyTorch's losses.

Each library is installed by ``pip install 'functorch-port[libraries]'``; the test of one that is absent is skipped.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
PROGRAMS = str(Path(__file__).parent / "library_programs.py")
FILES = str(Path(__file__).parent / "library_files.py")
LIBRARIES = (
    "transformers", "timm", "lion_pytorch", "prodigyopt", "schedulefree", "torch_optimizer", "pytorch_optimizer",
)  # fmt: skip


def printed(*command):
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=settings)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("library", LIBRARIES)
def test_trains_as_in_torch(library):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    want = printed(PROGRAMS, library, "eager")
    got = printed("-m", "functorch_port", "run", PROGRAMS, library, "compiled")
    assert list(got) == list(want) and want
    for name, (values, _) in want.items():
        # what some libraries compute in float32 whatever the parameters are shows up here
        np.testing.assert_allclose(got[name][0], values, rtol=1e-6, err_msg=name)
        # more than two where the rule changes after some steps, as in RAdam's kin
        assert got[name][1] is None or got[name][1] <= 4, f"{name}: {got[name][1]} traces"


def test_pretrained_models_go_both_ways(tmp_path):
    for library in ("transformers", "safetensors"):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed")
    real, mine = tmp_path / "real", tmp_path / "mine"
    want = printed(FILES, str(real), str(real))
    got = printed("-m", "functorch_port", "run", FILES, str(mine), str(real))
    assert (
        got == want == printed(FILES, str(tmp_path / "again"), str(mine)) and got[0][1] is got[1][1] is True
    )
    for end in ("", "-shards"):
        files = {path.name: path.read_bytes() for path in (tmp_path / f"real{end}").iterdir()}
        assert files == {path.name: path.read_bytes() for path in (tmp_path / f"mine{end}").iterdir()}
        assert len(files) > (5 if end else 2)
