"""The plain backend (`FUNCTORCH_PORT_BACKEND=jax`) leaves everything to JAX and gives PyTorch's numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import torch

TRAIN = """
def train(lib, wrap):
    lib.manual_seed(0)
    net = lib.nn.Sequential(
        lib.nn.Conv2d(1, 4, 3), lib.nn.BatchNorm2d(4), lib.nn.ReLU(), lib.nn.MaxPool2d(2), lib.nn.Flatten(),
        lib.nn.Linear(36, 8), lib.nn.GELU(), lib.nn.Linear(8, 3),
    )
    optimizer = lib.optim.AdamW(net.parameters(), lr=0.01)
    x, y = lib.randn(6, 1, 8, 8), lib.tensor([0, 1, 2, 0, 1, 2])

    def step():
        optimizer.zero_grad()
        loss = lib.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step = wrap(step)
    return [step().item() for _ in range(6)]
"""

PLAIN = """
import gc, json
import functorch_port as torch
from functorch_port._array.storage import Storage
from functorch_port._cpu import allocator
from functorch_port._cpu import numpy_programs as host
from functorch_port._cpu.native import ffi

kinds = set()

def watched(step):
    def run():
        loss = step()
        kinds.update(type(o.held).__name__ for o in gc.get_objects() if isinstance(o, Storage))
        return loss
    return run

losses = [train(torch, watched), train(torch, lambda step: watched(torch.compile(step)))]
x = torch.arange(3.0)
print(json.dumps({
    "losses": losses,
    "kinds": sorted(kinds),
    "handlers": sorted(ffi._registered),
    "numpy": host.enabled(),
    "memory": allocator.keep(),
    "shared": x.numpy().flags.writeable,
}))
"""


def plain(script: str) -> Any:
    environment = {**os.environ, "FUNCTORCH_PORT_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nothing_of_the_cpu_is_imported() -> None:
    loaded = "print(json.dumps([name for name in sys.modules if name.startswith(('functorch_port._cpu', 'llvmlite'))]))"
    train = TRAIN + "\nimport functorch_port as torch\ntrain(torch, lambda step: step)\n"
    assert plain(f"import json, sys\n{train}{loaded}") == []


def test_training_by_jax_alone() -> None:
    found = plain(TRAIN + PLAIN)
    assert set(found["kinds"]) <= {"ArrayImpl", "ndarray", "Twin", "Part"}, (
        "step counters are on the host, nothing is deferred"
    )
    assert found["handlers"] == []
    assert not found["numpy"] and not found["memory"]
    assert not found["shared"], "a write to memory that is not shared would be lost"
    space: dict[str, Any] = {}
    exec(TRAIN, space)
    expected = space["train"](torch, lambda step: step)
    for losses in found["losses"]:
        np.testing.assert_allclose(losses, expected, rtol=2e-5)
