"""Freed memory stays with the process, where that is safe."""

import operator
import os
import subprocess
import sys
from functools import reduce
from pathlib import Path

import jax
import numpy as np
import pytest

import functorch_port as ft
from functorch_port._base import cache, lowering
from functorch_port._cpu import allocator

pytestmark = [
    pytest.mark.cpu,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's settings"),
]

PROGRAM = """
import resource
import functorch_port as torch
from functorch_port._cpu import allocator

layers = [torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU()) for _ in range(8)]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

@torch.compile
def step(x):
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    return loss

x = torch.ones(1024, 512)
for _ in range(5):
    step(x).item()
faults = []
for _ in range(5):  # now and then the heap still grows
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        step(x).item()
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(allocator.keep(), min(faults))
"""


def run(**settings: str) -> tuple[bool, int]:
    """Whether memory is kept, and the page faults of ten steps, whose activations are 16 MB."""
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
    assert faults < 1000 < 10_000 < run(FUNCTORCH_PORT_KEEP_MEMORY="0")[1]


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


def test_programs_in_parts_do_not_complain():
    """XLA cannot keep them in the persistent cache, and says nothing of large buffers."""
    program = PROGRAM.replace("range(8)", "range(16)").replace("ones(1024", "ones(4096")
    program = f"from functorch_port._base.tuning import tuning\ntuning.parts_after = 2\n{program}"
    env = {k: v for k, v in os.environ.items() if not k.startswith("FUNCTORCH_PORT")}
    env |= {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", program],
        env=env,
        check=True,
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert not done.stderr


def test_what_is_too_large_to_be_kept_several_times_is_left_whole():
    if not allocator.keep():
        pytest.skip("the C library is not glibc")

    def options(count, size):
        """Of a program that needs so many arrays of so many bytes at a time."""
        x = jax.ShapeDtypeStruct((size,), np.uint8)
        made = jax.make_jaxpr(lambda x: reduce(operator.add, [x + np.uint8(k) for k in range(count)]))(x)
        return allocator.options(made.jaxpr)

    assert options(1, 1 << 20) == {"xla_multiheap_size_constraint_per_heap": 48 << 20}
    assert options(3, 1 << 27) == {"xla_multiheap_size_constraint_per_heap": 3 << 27}
    assert options(9, 1 << 27) == {}


@pytest.mark.parametrize("cached", [True, False])
def test_programs_are_told_so(cached, monkeypatch):
    """The cache on the disk cannot have a program of several parts: with one they come later."""
    monkeypatch.setattr(cache, "directory", lambda: "a folder" if cached else None)
    step = ft.compile(lambda x: x + 1)
    step(ft.ones(4, 4))
    (program,) = step.programs()
    executable = program.executable
    parts = allocator.options(executable.jaxpr.jaxpr)
    width = {"xla_cpu_prefer_vector_width": 512}
    assert executable.compiler_options == (width if cached else {**width, **parts})
    assert lowering.compiler_options(executable.jaxpr.jaxpr, often=True) == {**width, **parts}
