"""Every parallel form in several processes, eagerly and compiled: the numbers of one device, or an error."""

from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("form_cases.py")


@pytest.mark.parametrize(("processes", "devices"), [(2, 2), (4, 1)])
def test_the_numbers_of_one_device(started, launching, ended, processes, devices):
    found = ended(started(launching(f"--devices-per-proc={devices}", str(SCRIPT), nproc=processes)))
    assert found.status == 0, f"{found.out}\n{found.err}"
    for of_rank in found.values():
        assert len(of_rank) > 20
        wrong = {name: far for name, far in of_rank.items() if not (isinstance(far, float) and far < 1e-10)}
        assert not wrong
