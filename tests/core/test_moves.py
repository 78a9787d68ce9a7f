"""Tensors that go from one device to another, and their gradients back: in a process with two CPU devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import functorch_port as torch

def check(tensor, where, value):
    assert str(tensor.device) == where, (tensor.device, where)
    assert {d.id for d in tensor.detach()._value.devices()} == {int(where[4:] or 0)}
    assert (tensor == value).all()

for size in (3, 100):
    w = torch.full((size, size), 3.0, requires_grad=True)
    for _ in range(5):
        w.grad = None
        there = (w * 2).to("cpu:1")
        check(there, "cpu:1", 6.0)
        (there * there).mean(dim=0).sum().backward()
        check(w.grad, "cpu", 24 / size)
        back = there.detach().to("cpu:0") + w.detach()
        check(back, "cpu", 9.0)
    there = (w * w).to("cpu:1")
    assert there.grad_fn.name() == "ToCopyBackward0" and there.requires_grad
    (first,) = torch.autograd.grad((there * there).sum(), w, create_graph=True)
    check(first, "cpu", 108.0)
    (second,) = torch.autograd.grad(first.sum(), w)
    check(second, "cpu", 108.0)
    with torch.no_grad():
        assert not (w * w).to("cpu:1").requires_grad
    v = torch.ones(size, size, device="cpu:1", requires_grad=True)
    for _ in range(5):
        v.grad = None
        (v * 4).sum().backward()
        check(v.grad, "cpu:1", 4.0)
    layer = torch.nn.Linear(size, size).to("cpu:1")
    with torch.no_grad():
        for _ in range(5):
            out = layer(v)
    assert str(out.device) == "cpu:1" and {d.id for d in out._value.devices()} == {1}
"""


def test_there_and_back() -> None:
    root = str(Path(__file__).parents[2])
    flags = "--xla_force_host_platform_device_count=2"
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, "PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
