"""Freed memory stays with the process, where that is safe."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's settings")

PROGRAM = """
import resource
import functorch_port as torch
from functorch_port.core import allocator

@torch.compile
def step(x):
    return torch.cumsum(x, 0).sort(0).values.flip(0).sum()

x = torch.ones(2000, 1000)
for _ in range(5):
    step(x).item()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step(x).item()
print(allocator.keep(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def run(**settings: str) -> tuple[bool, int]:
    """Whether memory is kept, and the page faults of ten calls that need 8 MB and more each."""
    env = {
        k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD"))
    }
    env |= {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(Path(__file__).parents[2])} | settings
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, check=True, timeout=120, capture_output=True, text=True
    )
    kept, faults = done.stdout.split()
    return kept == "True", int(faults)


def test_steps_have_no_page_faults():
    kept, faults = run()
    if not kept:
        pytest.skip("the C library is not glibc")
    assert faults < 2000
    assert run(FUNCTORCH_PORT_KEEP_MEMORY="0")[1] > 10 * max(faults, 100)


@pytest.mark.parametrize(
    "settings",
    [
        {"FUNCTORCH_PORT_KEEP_MEMORY": "0"},
        {"MALLOC_ARENA_MAX": "4"},
        {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},
    ],
    ids=str,
)
def test_whoever_sets_the_allocator_has_it(settings):
    assert not run(**settings)[0]
