"""Every parallel form in several processes, eagerly and compiled: the numbers of one device, or an error."""

import json
from pathlib import Path

import pytest

import functorch_port as ft

SCRIPT = Path(__file__).with_name("form_cases.py")


@pytest.fixture(scope="module")
def alone():
    """What one device gives."""
    text = SCRIPT.read_text().replace("import torch\n", "").replace("from torch.", "from functorch_port.")
    space = {"torch": ft, "__name__": "form_cases"}
    exec(text.replace("import torch.distributed as dist\n", ""), space)
    return space["alone"]


@pytest.mark.parametrize(("processes", "devices"), [(2, 2), (4, 1)])
def test_the_numbers_of_one_device(started, launching, ended, alone, tmp_path, processes, devices):
    path = tmp_path / "alone"
    path.write_text(json.dumps({name: [t.tolist() for t in one] for name, one in alone(processes).items()}))
    options = (f"--devices-per-proc={devices}", str(SCRIPT), str(path))
    found = ended(started(launching(*options, nproc=processes)), timeout=300)
    assert found.status == 0, f"{found.out}\n{found.err}"
    for of_rank in found.values():
        assert len(of_rank) == (23 if processes == 2 else 15)
        wrong = {name: far for name, far in of_rank.items() if not (isinstance(far, float) and far < 1e-10)}
        assert not wrong
